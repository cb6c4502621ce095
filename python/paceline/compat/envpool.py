"""EnvPool's interface for the library's environments.

    import paceline.envpool as envpool

    envs = envpool.make("Pong-v5", env_type="gymnasium", num_envs=16, batch_size=8)
    envs.async_reset()
    while training:
        obs, rewards, terminated, truncated, info = envs.recv()
        envs.send(policy(obs), info["env_id"])

Task ids, keywords, defaults, shapes, dtypes and infos are those of EnvPool 1.2. After the end of an
episode the next action begins a new episode and is itself ignored. Differences to EnvPool:

    - dm_env's interface, xla(), use_inter_area_resize=False and windows (render_mode="human") raise
      ConfigError. The environments are the Atari games and those of classic control.
    - An episode that terminates in its last allowed step is terminated, not truncated.
    - max_episode_steps of classic control can be lowered, not raised.
    - An action that is not finite or out of its bounds is refused, where EnvPool clips it.
    - A frame stack has zeros before the first observation of an episode, not copies of it.
    - A step of some environments needs batch_size. If recv returns all environments, env_id must
      name all of them.
    - If recv returns all environments, reset of some is refused while steps are under way.
    - The same seed gives other episodes. num_threads=0 is one thread for each core.
    - Without env_id, send is for the environments of the last recv. If too few environments are
      under way, recv raises an error instead of waiting for ever.
    - In colour, the maximum of the last two frames is taken for each colour plane.
    - config has neither base_path nor task.
"""

from __future__ import annotations

import collections
from typing import Any, NoReturn

import gymnasium
import numpy as np
from gymnasium import spaces

from .._arguments import autoreset_metadata, reset_mask, seed_numbers, whole
from ..envs import registration
from ..envs.vec import make_vec
from ..errors import ConfigError, notice
from ..spaces import Array, Infos

__all__ = ["EnvPool", "EnvSpec", "list_all_envs", "make", "make_dm", "make_gym", "make_gymnasium", "make_spec"]

_CLASSIC: dict[str, tuple[int, Infos]] = {  # max_episode_steps, further settings
    "CartPole-v1": (500, {"reward_threshold": 475.0}),
    "Acrobot-v1": (500, {"reward_threshold": -100.0}),
    "MountainCar-v0": (200, {"reward_threshold": -110.0}),
    "MountainCarContinuous-v0": (999, {"reward_threshold": 90.0}),
    "Pendulum-v1": (200, {"version": 1}),
}
_ATARI = {
    "stack_num": 4, "frame_skip": 4, "noop_max": 30, "zero_discount_on_life_loss": False, "episodic_life": False,
    "reward_clip": False, "use_fire_reset": True, "img_height": 84, "img_width": 84, "mode": -1, "difficulty": -1,
    "full_action_space": False, "repeat_action_probability": 0.0, "use_inter_area_resize": True, "gray_scale": True,
}  # fmt: skip
_OURS = {"frame_skip": "frameskip", "reward_clip": "reward_clipping", "gray_scale": "grayscale"}
# zero_discount_on_life_loss changes results of dm_env only.
_NOT_OURS = ("noop_max", "zero_discount_on_life_loss", "use_inter_area_resize")
_TYPES = ("gymnasium", "gym")
_MOST_ENVS = 65536
_SEED_IGNORED = "seed: ignored, as in EnvPool: pass it to make"
# The kind of an environment's next row: the first row of a game that this module begins or that the
# library begins, the first row after a lost life, or a step of the game.
_BEGIN, _AGAIN, _LIFE, _STEP = range(4)
Results = tuple[Array, Array, Array, Array, Infos]


def list_all_envs() -> list[str]:
    """The task ids of make."""
    return [f"{game}-v5" for game in registration.ATARI] + list(_CLASSIC)


def make(task_id: str, env_type: str, **kwargs: Any) -> EnvPool:
    """Makes a pool of environments. env_type: "gymnasium" or "gym", with the same meaning."""
    if env_type not in _TYPES:
        raise ConfigError(f"env_type: {env_type!r}, must be {' or '.join(map(repr, _TYPES))}")
    return EnvPool(task_id, **kwargs)


def make_gymnasium(task_id: str, **kwargs: Any) -> EnvPool:
    """Does make(task_id, "gymnasium")."""
    return EnvPool(task_id, **kwargs)


make_gym = make_gymnasium


def make_dm(task_id: str, **kwargs: Any) -> NoReturn:
    """Raises ConfigError, because there is no dm_env interface."""
    raise ConfigError(f"env_type: 'dm', must be {' or '.join(map(repr, _TYPES))}")


def make_spec(task_id: str, **kwargs: Any) -> EnvSpec:
    """The spec of make with the same arguments."""
    config, _ = _settings(task_id, kwargs)
    pool = EnvPool(task_id, **{**kwargs, "num_envs": 1, "batch_size": 1, "seed": 0})
    pool.close()
    return EnvSpec(task_id, config, pool.observation_space, pool.action_space)


class EnvSpec:
    """The settings (config, a named tuple), the spaces of one environment, and reward_threshold or None."""

    def __init__(self, id: str, config: Infos, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
        self.id = id
        self.config = collections.namedtuple("Config", config)(**config)
        self.observation_space = self.gymnasium_observation_space = observation_space
        self.action_space = self.gymnasium_action_space = action_space
        self.reward_threshold = config.get("reward_threshold")

    def __repr__(self) -> str:
        return repr(self.config).replace("Config(", f"EnvSpec({self.id}, ", 1)


def _settings(task_id: str, given: Infos) -> tuple[Infos, Infos]:
    """(EnvPool's config, keywords of make_vec)."""
    if task_id not in list_all_envs():
        raise ConfigError(f"task_id: {task_id!r}, must be one of list_all_envs()")
    atari = task_id not in _CLASSIC
    steps, own = (27_000, _ATARI) if atari else _CLASSIC[task_id]
    config = {
        "num_envs": 1, "batch_size": None, "num_threads": 0, "max_num_players": 1, "thread_affinity_offset": -1,
        "seed": 42, "env_seed": [], "gym_reset_return_info": True, "max_episode_steps": steps, **own,
    }  # fmt: skip
    for name, value in given.items():
        if name not in config or name == "env_seed":
            raise ConfigError(f"{name}: no keyword of {task_id}, must be one of {', '.join(sorted(config))}")
        config[name] = value
    n = whole("num_envs", config["num_envs"], 1, _MOST_ENVS)
    config["batch_size"] = n if config["batch_size"] is None else whole("batch_size", config["batch_size"], 0, n) or n
    if "version" in own:
        whole("version", config["version"], 1, 1)
    whole("max_num_players", config["max_num_players"], 1, 1)
    whole("max_episode_steps", config["max_episode_steps"], 1, 2**31 - 1 if atari else steps)
    if np.ndim(config["seed"]):
        config["seed"], config["env_seed"] = 0, [whole("seed", s, 0, 2**64 - 1) for s in config["seed"]]
    else:
        whole("seed", config["seed"], 0, 2**64 - n)
    seed_numbers(config["env_seed"] or config["seed"], n)
    if config["gym_reset_return_info"] is not True:
        raise ConfigError("gym_reset_return_info: must be True, reset returns (obs, info)")
    ours = {name: config[name] for name in ("num_envs", "batch_size", "num_threads", "thread_affinity_offset")}
    if atari:
        if config["use_inter_area_resize"] is not True:
            raise ConfigError("use_inter_area_resize: False, must be True: images are reduced by the mean of areas only")
        ours |= {_OURS.get(name, name): config[name] for name in _ATARI if name not in _NOT_OURS}
        # EnvPool draws 1 to noop_max NOOP frames.
        noops = whole("noop_max", config["noop_max"], 0, 9_999)
        ours |= {"noop_min": min(noops, 1), "noop_max": noops + 1 if noops else 0}
        # This module counts the steps, without the frames before an episode.
        ours |= {"ram_info": True, "max_num_frames_per_episode": 0}
    return config, ours


def _parts(action: Any, env_id: Any) -> tuple[Any, Any]:
    """(action, env_id) of a call, in which action may be a dict of both."""
    if not isinstance(action, dict):
        return action, env_id
    if "action" not in action:
        raise ConfigError(f"action: a dict with {', '.join(map(repr, action)) or 'no entry'}, must have 'action'")
    return action["action"], action.get("env_id", env_id)


class EnvPool(gymnasium.vector.VectorEnv[Array, Array, Array], gymnasium.Env[Array, Array]):  # type: ignore[misc]
    """The pool that make returns.

    As in EnvPool, observation_space and action_space are the spaces of one environment. Calls
    return batch_size rows; a reset of some environments returns one row for each of them.
    """

    is_vector_env = True  # read by wrappers of older Gymnasium

    def __init__(self, task_id: str, *, render_mode: str | None = None, render_env_id: int = 0, **config: Any) -> None:
        self._config, keywords = _settings(task_id, config)
        self.num_envs: int = self._config["num_envs"]
        self._render_env_id = whole("render_env_id", render_env_id, 0, self.num_envs - 1)
        self._envs = make_vec(task_id.removesuffix("-v5"), render_mode=render_mode, autoreset_mode="next_step", **keywords)
        self.render_mode = render_mode
        self.metadata = {"render_modes": ["rgb_array"], "autoreset_mode": autoreset_metadata("next_step")}
        space = self._envs.single_observation_space
        self._colour = len(space.shape) == 4
        if self._colour:  # the frames of a stack one after another, each with three planes
            stack, height, width, planes = space.shape
            space = spaces.Box(0, 255, (stack * planes, height, width), np.uint8)
        self.observation_space = self.single_observation_space = space
        self.action_space = self.single_action_space = self._envs.single_action_space
        self.spec: Any = EnvSpec(task_id, self._config, self.observation_space, self.action_space)
        self.all_env_ids: Array = np.arange(self.num_envs, dtype=np.int32)
        self.is_async: bool = self._config["batch_size"] < self.num_envs
        self._atari = task_id.endswith("-v5")
        self._angles = task_id == "Acrobot-v1"
        first = self._config["seed"]
        self._seeds: list[int] = self._config["env_seed"] or [first + i for i in range(self.num_envs)]
        self._unseeded = np.ones(self.num_envs, bool)
        self._next = np.full(self.num_envs, _BEGIN, np.int8)
        self._elapsed = np.zeros(self.num_envs, np.int32)
        self._sent: list[Array] = []  # env_ids sent since the last recv: the order of its rows if it returns all
        self._last: Array = self.all_env_ids

    @property
    def config(self) -> Infos:
        """All settings."""
        return dict(self._config)

    def __len__(self) -> int:
        return self.num_envs

    def __repr__(self) -> str:
        return repr(self.spec).replace("EnvSpec", "EnvPool", 1)

    __str__ = __repr__

    # ------------------------------------------------------------- episodes

    def reset(self, env_id: Any = None, *, seed: Any = None, options: Infos | None = None) -> tuple[Array, Infos]:
        """Begins a game in the environments env_id, or in those of options["reset_mask"], or in all.

        Returns (obs, info) of these environments, or in an async pool of the first batch_size. A
        reset of all drops the results under way. Without a batch_size a reset of some raises
        ConfigError while steps are under way. seed is ignored; make takes it.
        """
        if seed is not None:
            notice(_SEED_IGNORED)
        if options and env_id is None:
            env_id = np.flatnonzero(reset_mask(options, self.num_envs))
        ids = self._ids(env_id, self.all_env_ids)
        if self.is_async:
            if env_id is None:
                self.async_reset()
            else:
                self._start(ids)
            started: tuple[Array, Infos] = self.recv(reset=True)
            return started
        if self._sent and len(ids) < self.num_envs:
            what = f"{len(ids)} of {self.num_envs} environments while steps are under way"
            raise ConfigError(f"env_id: {what}, must be all environments; to reset some, receive the steps first")
        seeds, mask = self._seeds_and_mask(ids)
        obs, infos = self._envs.reset(seed=seeds, options={"reset_mask": mask})
        self._unseeded[ids], self._next[ids], self._sent = False, _BEGIN, []
        none = np.zeros(len(ids), bool)
        obs, *_, info = self._answer(ids, (obs[ids], none, none, none, {name: infos[name][ids] for name in infos}))
        return obs, info

    def async_reset(self) -> None:
        """Begins a game in all environments; recv returns the first observations."""
        self._envs.drain()
        self._sent = [self.all_env_ids]
        self._start(self.all_env_ids)

    def _start(self, ids: Array) -> None:
        seeds, mask = self._seeds_and_mask(ids)
        before, self._next[ids] = self._next[ids], _BEGIN  # first, because another thread may receive at once
        try:
            self._envs.async_reset(seed=seeds, options={"reset_mask": mask})
        except BaseException:
            self._next[ids] = before
            raise
        self._unseeded[ids] = False

    def _seeds_and_mask(self, ids: Array) -> tuple[list[int | None] | None, Array]:
        """(seeds of the environments that were never seeded, the mask of ids)."""
        mask = np.zeros(self.num_envs, bool)
        mask[ids] = True
        new = mask & self._unseeded
        return [s if is_new else None for s, is_new in zip(self._seeds, new)] if new.any() else None, mask

    # ----------------------------------------------------------------- steps

    def step(self, action: Any, env_id: Any = None) -> Results:  # type: ignore[override]
        """Does send and recv. No environment steps if recv would have too few environments."""
        action, env_id = _parts(action, env_id)
        if self.is_async or env_id is not None or self._sent or _BEGIN in self._next:
            n = len(self._ids(env_id, self._last))
            if self.is_async:
                self._envs._check_coming(n)
            elif env_id is not None and n + sum(map(len, self._sent)) != self.num_envs:
                raise ConfigError(f"env_id: {n} environments, must be all {self.num_envs} without a batch_size")
            self.send(action, env_id)
            results: Results = self.recv()
            return results
        return self._answer(self.all_env_ids, self._envs.step(self._actions(action)))

    def send(self, action: Any, env_id: Any = None) -> None:
        """Starts a step of the environments env_id, or those of the last recv, and does not wait.

        action may be a dict with "action" and "env_id". If an action or an environment is refused,
        no environment steps or begins a game.
        """
        action, env_id = _parts(action, env_id)
        ids, actions = self._ids(env_id, self._last), self._actions(action)
        if actions.shape[:1] != ids.shape:
            raise ConfigError(f"action: {actions.dtype} of shape {actions.shape}, must be {len(ids)}, one for each environment")
        begin = self._next[ids] == _BEGIN
        if not begin.all():
            if begin.any():
                self._envs._check_idle(ids[begin])  # before the others step
            self._envs.send(actions[~begin], ids[~begin])
        if begin.any():
            self._start(ids[begin])
        self._sent.append(ids)

    def recv(self, reset: bool = False, return_info: bool = True) -> Any:
        """Waits until batch_size environments have finished.

        Returns (obs, rewards, terminated, truncated, info), or (obs, info) with reset=True.
        return_info is ignored, as in EnvPool.
        """
        rows = self._envs.recv()
        ids: Array = rows[4]["env_id"]
        order, self._sent = self._sent, []
        if not self.is_async:
            ids = np.concatenate(order)
            if (ids != rows[4]["env_id"]).any():
                rows = (*(row[ids] for row in rows[:4]), {name: column[ids] for name, column in rows[4].items()})
        else:
            self._last = ids.copy()
        obs, rewards, terminated, truncated, info = self._answer(ids, rows)
        return (obs, info) if reset else (obs, rewards, terminated, truncated, info)

    def _actions(self, action: Any) -> Array:
        """action as an array. An action of one number may lack its axis, as in EnvPool."""
        actions, shape = np.asarray(action), self.action_space.shape
        return actions[:, None] if shape == (1,) and actions.ndim == 1 else actions

    def _ids(self, env_id: Any, otherwise: Array) -> Array:
        ids = otherwise if env_id is None else np.asarray(env_id)
        if ids.ndim != 1 or ids.dtype.kind not in "iu" or not len(ids) or ids.min() < 0 or ids.max() >= self.num_envs:
            raise ConfigError(f"env_id: {env_id!r}, must be a row of numbers from 0 to {self.num_envs - 1}")
        if len(np.unique(ids)) < len(ids):
            raise ConfigError(f"env_id: {env_id!r}, must be different numbers")
        return ids.astype(np.int32)

    def _answer(self, ids: Array, rows: tuple[Any, ...]) -> Results:
        """Converts the library's rows to EnvPool's, and truncates Atari games at the limit of steps."""
        obs, rewards, terminated, truncated, infos = rows
        was, elapsed = self._next[ids], self._elapsed[ids]
        elapsed[was == _STEP] += 1
        elapsed[was < _LIFE] = 0
        ended = terminated | truncated
        over = infos["game_over"] if self._atari else ended
        last = elapsed >= self._config["max_episode_steps"]
        cut = last & ~ended
        self._elapsed[ids] = elapsed
        # After a life that was lost in the last step the library would continue the game.
        self._next[ids] = np.where(last & ~over, _BEGIN, np.where(ended, np.where(over, _AGAIN, _LIFE), _STEP))
        info: Infos = {"env_id": ids.copy(), "players": {"env_id": ids.copy()}}
        if self._atari:
            info["lives"], info["reward"] = infos["lives"], infos["raw_reward"].astype(np.float32)
            info["terminated"], info["ram"] = over.astype(np.int32), infos["ram"]
        elif self._angles:
            info["state"] = np.arctan2(obs[:, [1, 3]], obs[:, [0, 2]])
        info["elapsed_step"] = elapsed
        if self._colour:
            obs = obs.transpose(0, 1, 4, 2, 3).reshape(len(obs), -1, *obs.shape[2:4])
        return obs, rewards.astype(np.float32), terminated, truncated | cut, info

    # -------------------------------------------------------------- the rest

    def render(self, env_ids: Any = None, camera_id: int | None = None) -> Array:  # type: ignore[override]
        """Images of some environments, uint8 [n, height, width, 3].

        env_ids: a number or a row of numbers; None: render_env_id. camera_id is ignored.
        """
        if self.render_mode is None:
            raise ConfigError("render_mode: None, must be 'rgb_array' for render")
        ids = self._ids(np.atleast_1d(self._render_env_id if env_ids is None else env_ids), self.all_env_ids)
        return np.stack([self._envs.image(i) for i in ids.tolist()])

    def seed(self, seed: Any = None) -> None:
        """Ignored, as in EnvPool; make takes the seed."""
        notice(_SEED_IGNORED)

    def xla(self) -> None:
        """Raises ConfigError, because there is no XLA interface."""
        raise ConfigError("xla: not supported, must be replaced by send and recv")

    def close_extras(self, **kwargs: Any) -> None:
        """Waits for the steps under way and frees the environments."""
        self._envs.close()
