"""Vector environments with stable-baselines3's VecEnv interface, for its algorithms.

    import paceline
    from stable_baselines3 import PPO

    envs = paceline.sb3.VecEnv("Pong", num_envs=8, seed=1)
    PPO("CnnPolicy", envs).learn(1_000_000)

Results are those of SB3's DummyVecEnv of Monitors: infos have terminal_observation,
TimeLimit.truncated and, at the end of an episode, {"r", "l", "t"} as "episode". A Monitor or
VecMonitor is not needed, which env_is_wrapped reports to SB3. In an Atari game given by its name, or
as a vector of make_vec of that name, "episode" is a whole game with unclipped rewards, as papers
report it, also if a lost life ends an episode or rewards are clipped. Around environments of
paceline.make it is one episode with its rewards, as of a Monitor.
"""

from __future__ import annotations

import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space, iterate

try:
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv as _Base
except ImportError:
    raise ImportError("stable-baselines3 is not installed: pip install 'paceline[sb3]'") from None

from .._arguments import autoreset_name
from ..envs import _infos, vec_env, workers
from ..envs._source import Source
from ..envs.vec import make_vec
from ..errors import CallbackError, ConfigError
from ..spaces import Array, Infos

__all__ = ["VecEnv"]

# Gymnasium's single_observation_space and single_action_space are SB3's observation_space and
# action_space.
_NAMES = {"observation_space": "single_observation_space", "action_space": "single_action_space"}
# Methods of the library's vectors that take the index of an environment.
_METHODS = ("clone_state", "restore_state")
Results = tuple[Any, Array, Array, list[Infos]]


class VecEnv(_Base):  # type: ignore[misc,unused-ignore]
    """num_envs environments for SB3.

    env: the argument id of make_vec, with its keywords; or a vector of make_vec with autoreset mode
        "same_step" that returns all environments at once.
    seed: the seed of the first reset. Later resets continue the environments' random numbers.
    """

    def __init__(self, env: Any, num_envs: int | None = None, *, seed: int | None = None, **keywords: Any) -> None:
        if isinstance(env, gymnasium.vector.VectorEnv):
            if num_envs is not None or keywords:
                name = "num_envs" if num_envs is not None else next(iter(keywords))
                raise ConfigError(f"{name}: must be left out with environments that are made already")
            mode = autoreset_name(env.metadata.get("autoreset_mode"))
            if mode != "same_step":
                raise ConfigError(f"autoreset_mode: {mode!r}, must be 'same_step' for stable-baselines3")
            size = getattr(env, "batch_size", env.num_envs)
            if size != env.num_envs:
                raise ConfigError(f"batch_size: {size}, must be num_envs, {env.num_envs}, for stable-baselines3")
            copy = getattr(env, "copy", True)
        else:
            copy = keywords.get("copy", True)
            for name in ("autoreset_mode", "batch_size"):
                if name in keywords:
                    raise ConfigError(f"{name}: {keywords[name]!r}, must be left out: stable-baselines3 allows only one value")
        if not copy:
            raise ConfigError("copy: False, must be True: stable-baselines3 reads observations after the next step")
        self.envs: Any = env
        if not isinstance(env, gymnasium.vector.VectorEnv):
            self.envs = make_vec(env, 1 if num_envs is None else num_envs, autoreset_mode="same_step", **keywords)
        self._workers = isinstance(self.envs, workers.WorkerVecEnv)
        self._asynchronous = self._workers or isinstance(self.envs, vec_env.VecEnv)  # whether envs has send and recv
        # Whether raw_reward and game_over in infos are the library's. They may be the user's in
        # environments of Python, which also paceline.make's are here.
        self._built_in = isinstance(self.envs.unwrapped, vec_env.VecEnv)
        self._actions: Any = None
        super().__init__(self.envs.num_envs, self.envs.single_observation_space, self.envs.single_action_space)
        self.metadata = dict(self.envs.metadata)
        self.spec = self.envs.spec
        self._began = time.time()
        self._forget()
        if seed is not None:
            self.seed(seed)

    # ------------------------------------------------------------- episodes

    def reset(self) -> Any:
        """Begins an episode in every environment with the arguments of seed and set_options.

        The results of a step under way are dropped.
        """
        seeds, options = self._seeds, self._options
        self._reset_seeds()
        self._reset_options()
        if any(one != options[0] for one in options):
            raise ConfigError("options: differ, must be the same for all environments")
        if "reset_mask" in options[0]:
            raise ConfigError("options: 'reset_mask', must not be there: SB3 resets all environments at once")
        obs, infos = self.envs.reset(seed=seeds[0], options=options[0] or None)  # the other environments get the following seeds, as in SB3
        self.reset_infos = _infos.split(infos, self.num_envs)
        self._forget()
        return obs

    def _forget(self) -> None:
        self._returns, self._lengths = [0.0] * self.num_envs, [0] * self.num_envs

    def step_async(self, actions: Any) -> None:
        """Starts a step, which runs concurrently with the caller.

        actions of a Tuple or Dict space: a tuple or dict of arrays with all environments' actions,
        as predict returns it, or a list with one action for each environment.
        """
        self._actions = _together(self.action_space, actions)
        if self._asynchronous:
            self.envs.send(self._actions)

    def step_wait(self) -> Results:
        """(obs, rewards float32, dones, infos) of the step that step_async started."""
        return self._answer(*(self.envs.recv() if self._asynchronous else self.envs.step(self._actions)))

    def step(self, actions: Any) -> Results:
        """Does step_async and step_wait in one call, which is faster for steps of microseconds."""
        return self._answer(*self.envs.step(_together(self.action_space, actions)))

    def _answer(self, obs: Any, rewards: Array, terminated: Array, truncated: Array, infos: Infos) -> Results:
        dones = terminated | truncated
        last_obs, last_infos = infos.pop("final_obs", None), infos.pop("final_info", {})
        # done may be true without a reset, at a lost life.
        again = dones & infos.pop("_final_obs", last_obs is not None)
        for name in ("_final_info", "env_id", "_env_id"):
            infos.pop(name, None)
        each = _infos.split(infos, self.num_envs)
        if again.any():
            lasts = _infos.split(last_infos, self.num_envs)
            for i in np.flatnonzero(again).tolist():
                self.reset_infos[i], each[i] = each[i], lasts[i]
        for i in np.flatnonzero(dones).tolist():
            each[i]["terminal_observation"] = last_obs[i] if again[i] else obs[i]
        for i, (reward, end, limit) in enumerate(zip(rewards.tolist(), terminated.tolist(), truncated.tolist())):
            info = each[i]
            info["TimeLimit.truncated"] = limit and not end
            game = info if self._built_in else {}
            self._returns[i] += game.get("raw_reward", reward)
            self._lengths[i] += 1
            if game.get("game_over", end or limit):
                seconds = round(time.time() - self._began, 6)
                info["episode"] = {"r": round(self._returns[i], 6), "l": self._lengths[i], "t": seconds}
                self._returns[i], self._lengths[i] = 0.0, 0
        return obs, rewards.astype(np.float32), dones, each

    # ------------------------------------------------- single environments

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """The attribute of each environment; built-in environments share their vector's attributes.

        Attributes from worker processes are copies, also the object of a bound method: env_method
        calls the environment's own method.
        """
        chosen = self._get_indices(indices)
        if self._workers:
            if here := self.envs.envs:
                return [here[i].get_wrapper_attr(attr_name) for i in chosen]
            values = self._ask(self.envs.call, "get_wrapper_attr", attr_name)
            return [values[i] for i in chosen]
        value = getattr(self.envs, _NAMES.get(attr_name, attr_name))
        return [value for _ in chosen]

    def has_attr(self, attr_name: str) -> bool:
        """Whether all environments have the attribute."""
        if self._workers:
            return all(self._ask(self.envs.call, "has_wrapper_attr", attr_name))
        return bool(super().has_attr(attr_name))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Sets an attribute of Python environments; built-in environments have none to set.

        In worker processes indices must be None for an attribute that some environment does not
        have.
        """
        if not self._workers:
            raise AttributeError(f"built-in environments have no attribute {attr_name!r} to set")
        if here := self.envs.envs:
            for i in self._get_indices(indices):
                here[i].set_wrapper_attr(attr_name, value)
            return
        values = [value] * self.num_envs
        if indices is not None:
            values = self.get_attr(attr_name)
            for i in self._get_indices(indices):
                values[i] = value
        self._ask(self.envs.set_attr, attr_name, values)

    def env_method(self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any) -> list[Any]:
        """Calls a method of each environment. Built-in environments have clone_state, restore_state and render."""
        if self._workers:
            if here := self.envs.envs:
                return [here[i].get_wrapper_attr(method_name)(*method_args, **method_kwargs) for i in self._get_indices(indices)]
            if indices is not None and list(self._get_indices(indices)) != list(range(self.num_envs)):
                raise ConfigError(f"indices: {indices!r}, must be None: the call goes to all worker processes")
            return list(self._ask(self.envs.call, method_name, *method_args, **method_kwargs))
        chosen = list(self._get_indices(indices))
        if method_name == "render":
            images = self.get_images()
            return [images[i] for i in chosen]
        if method_name not in _METHODS:
            raise AttributeError(f"built-in environments have no method {method_name!r}")
        return [getattr(self.envs, method_name)(*method_args, env_id=i, **method_kwargs) for i in chosen]

    def _ask(self, ask: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return ask(*args, **kwargs)
        except CallbackError as err:
            if ": AttributeError: " in str(err):  # SB3 expects AttributeError for a missing method
                raise AttributeError(str(err)) from err
            raise

    def env_is_wrapped(self, wrapper_class: type[Any], indices: Any = None) -> list[bool]:
        """True for Monitor, because infos have "episode"; else False."""
        return [issubclass(Monitor, wrapper_class) for _ in self._get_indices(indices)]

    def get_images(self) -> list[Any]:
        """An image of each environment, or None if render_mode is not "rgb_array"."""
        return list(self.envs.render()) if self.render_mode == "rgb_array" else [None] * self.num_envs

    def close(self) -> None:
        """Closes the environments. A second call does nothing."""
        self.envs.close()


def _kind(space: Any) -> type[Any] | None:
    """The type of the actions of a Tuple or Dict, None for other spaces."""
    return dict if isinstance(space, spaces.Dict) else tuple if isinstance(space, spaces.Tuple) else None


def _together(space: Any, actions: Any) -> Any:
    """Actions as a vector of Gymnasium's takes them. Raises ConfigError if those of a Tuple or Dict have another form."""
    kind = _kind(space)
    if kind is None:
        return np.asarray(actions)
    if isinstance(actions, kind):
        return actions
    keys = space.keys() if kind is dict else range(len(space))
    try:
        parts = {key: np.asarray([action[key] for action in actions]) for key in keys}
    except (TypeError, ValueError, LookupError):
        what, of = type(actions).__name__, kind.__name__
        raise ConfigError(f"actions: {what}, must be a {of} of arrays or a list with a {of} for each environment") from None
    return parts if kind is dict else tuple(parts.values())


class _DummyVecEnv(DummyVecEnv):  # type: ignore[misc,unused-ignore]
    """Also takes the actions that predict returns for a Tuple or Dict, a tuple or dict of arrays."""

    def step_async(self, actions: Any) -> None:
        kind = _kind(self.action_space)
        if kind is not None and isinstance(actions, kind):
            actions = list(iterate(batch_space(self.action_space, self.num_envs), actions))
        super().step_async(actions)


def given(source: Source) -> Any:
    """A model's own Gymnasium environments as a VecEnv."""
    if isinstance(source.env, gymnasium.vector.VectorEnv):
        if source.autoreset != "same_step" or autoreset_name(source.env.metadata.get("autoreset_mode")) != "same_step":
            return source.env  # stable-baselines3 does not support these environments
        return VecEnv(source.env)
    env = source.env
    wrapped = env
    while not isinstance(wrapped, Monitor) and isinstance(wrapped, gymnasium.Wrapper):
        wrapped = wrapped.env
    return _DummyVecEnv([lambda: env if isinstance(wrapped, Monitor) else Monitor(env)])
