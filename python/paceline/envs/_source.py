"""Environments that Python steps, one or a vector of them, as the rows that a trainer reads.

After a step the rows are as section 7 of paceline.h defines, for every autoreset mode of the
environment:

    NEXT_STEP   mode "next_step": obs holds the last observation, and the following step begins the next
                episode.
    SAME_STEP   mode "same_step": obs holds the next episode's first observation, final_obs the last one,
                taken from infos["final_obs"].
    DISABLED,   mode "same_step": the adapter resets environments whose episode ended, by
    one Env     options={"reset_mask": ...} or reset().
    VecEnv of   mode "same_step": final_obs is terminal_observation.
    SB3
    none        the caller's own loop passes the rows: a trainer made with spaces alone.

If masks are read, every observation has a mask. infos["action_mask"] of every reset and step has
the masks of obs; infos["final_info"] of SAME_STEP may have those of final_obs. A trainer reads
masks if its setting action_masks is true. An evaluation reads masks if the policy learnt with masks
and the first reset has one.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np

from .._arguments import autoreset_name
from ..errors import BusyError, ConfigError, SpaceError, notice
from ..spaces import ActionLayout, Array, Infos, ObsLayout
from . import _infos
from ._episodes import Episode, Recent, reported, success
from ._rows import Block

if TYPE_CHECKING:
    import gymnasium

SAME_STEP, NEXT_STEP = "same_step", "next_step"
OF_LAST_STEPS = {"final_obs", "_final_obs", "final_info", "_final_info"}  # keys of infos about the last step of episodes


class Rows(Block):
    """The arrays of one vector step, row i for environment i, and the paceline_rows that points to them.

    obs, final_obs [n, *layout.shape]; actions as in ActionLayout.rows; rewards float64 [n];
    terminated, truncated bool [n]; action_masks, final_action_masks uint8 [n, mask].
    """

    def __init__(self, n: int, layout: ObsLayout, actions: ActionLayout) -> None:
        super().__init__(n, ObsLayout(layout.shape, layout.dtype, image=layout.image), [], final=True)
        self.actions = actions.rows(n)
        self.action_masks, self.final_action_masks = np.ones((2, n, actions.mask_size), np.uint8)

    def use_masks(self) -> None:
        """Gives the masks to the library; its setting action_masks must be true."""
        self.struct.action_masks, self.struct.final_action_masks = self.action_masks.ctypes.data, self.final_action_masks.ctypes.data

    @property
    def ended(self) -> Array:
        """bool [n]: the environments whose episode ended in this step."""
        ended: Array = self.terminated | self.truncated
        return ended


class Source:
    """Environments that Python steps, and the rows that they fill. See adapt()."""

    autoreset = SAME_STEP
    prefix = ""  # the prefix of the attributes with one environment's spaces

    def __init__(self, env: Any, num_envs: int) -> None:
        self.env, self.num_envs = env, num_envs
        self._spaces = self.spaces()
        self.layout, self.actions = ObsLayout.of_space(self._spaces[0]), ActionLayout.of_space(self._spaces[1])
        self.rows = Rows(num_envs, self.layout, self.actions)
        self.masked: bool | None = False  # whether action masks are read; None: decided by the first reset
        self.unread_warned = False  # whether the warning about unread masks was given
        self.missing_last_warned = False  # whether the warning about a missing last observation was given
        self.needs_reset = True  # whether the next learn must begin with a reset
        self.learning = False  # whether learn takes steps
        self.infos: Any = {}  # the infos of the latest step
        self.recent: Recent | None = None  # the episodes that a Monitor reported during learning; None without a Monitor

    def spaces(self) -> tuple[Any, Any]:
        """The environment's current spaces."""
        return getattr(self.env, f"{self.prefix}observation_space"), getattr(self.env, f"{self.prefix}action_space")

    def check(self) -> None:
        """Raises SpaceError if the environment's spaces have changed."""
        for name, was, now in zip(("observation", "action"), self._spaces, self.spaces()):
            if was is not now and was != now:
                raise SpaceError(f"{name} space: {now}, must be {was}, the environment's space when the model was made")

    def cut(self, call: str) -> None:
        """Makes the next learn begin with a reset, because the caller is about to step or reset (call). Refused during learn."""
        if self.learning:
            raise BusyError(
                f"get_env().{call}: learn is in progress and steps these environments, must be called before or after it; "
                "evaluate in other environments during learn"
            )
        self.needs_reset = True

    def reset(self, seed: int | None = None) -> None:
        """Begins an episode in every environment and writes rows.obs."""
        raise NotImplementedError

    def step(self) -> None:
        """Takes a step with rows.actions and writes the other rows."""
        raise NotImplementedError

    def each_info(self) -> list[Infos]:
        """The latest step's infos, one dict for each environment; at the end of an episode those of its last step."""
        raise NotImplementedError

    def reported(self) -> list[Episode]:
        """The episodes that ended in the latest step, if infos["episode"] has them."""
        if not self.rows.ended.any():
            return []
        each = zip(self.each_info(), self.rows.ended)
        return [episode for info, ended in each if ended and (episode := reported(info))]

    def successes(self) -> list[float]:
        """infos["is_success"] of the episodes that ended in the latest step."""
        if not self.rows.ended.any():
            return []
        each = zip(self.each_info(), self.rows.ended)
        return [value for info, ended in each if ended and (value := success(info)) is not None]

    def _without_last(self, missing: Array, obs: Array, what: str) -> None:
        """Treats episode ends without a last observation as terminations and warns once.

        missing: bool [n], the rows of such ends. obs: the observations to use instead.
        """
        if not missing.any():
            return
        if not self.missing_last_warned:
            self.missing_last_warned = True
            notice(
                f"environment {int(np.flatnonzero(missing)[0])}: its episode ended, but {what}: the end counts as a "
                "termination, because a time limit needs the last observation"
            )
        self.rows.final_obs[missing] = obs[missing]
        self.rows.terminated[missing], self.rows.truncated[missing] = True, False

    def _write(self, to: Array, observation: object, what: str) -> None:
        """Writes one environment's observation into its row."""
        to[...] = self.layout.read(observation, (), what)

    def _rows(self, observations: object) -> Array:
        """The observations of all environments as rows."""
        return self.layout.read(observations, (self.num_envs,), "vector environment")

    def _column(self, values: object, what: str) -> Array:
        column = np.asarray(values)
        if column.shape != (self.num_envs,):
            raise SpaceError(f"vector environment: {what} of shape {column.shape}, must be {(self.num_envs,)}")
        return column

    def _write_mask(self, to: Array, given: object, what: str) -> None:
        """Writes one environment's action mask into its row."""
        mask = np.asarray(given)
        if mask.shape != to.shape or mask.dtype.kind not in "biuf":
            raise SpaceError(f"{what}: infos['action_mask'] is {mask.dtype} of shape {mask.shape}, must be {to.shape} of 0 and 1")
        to[...] = mask != 0

    def _reads_masks(self, infos: Any) -> bool:
        """Whether masks are read. infos: the infos of a reset or a step."""
        there = "action_mask" in infos
        if self.masked is None:
            self.masked = there
        if there and not self.masked and not self.unread_warned:
            self.unread_warned = True
            notice("infos['action_mask']: not read, every action counts as allowed; make the model with action_masks=True to obey masks")
        return self.masked

    def _mask(self, i: int, info: Any) -> None:
        """Reads the mask of environment i's observation if masks are read."""
        if not self._reads_masks(info):
            return
        if "action_mask" not in info:
            raise _no_mask(i)
        self._write_mask(self.rows.action_masks[i], info["action_mask"], f"environment {i}")


class SingleSource(Source):
    """One gymnasium.Env as a vector of one."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env, 1)

    def reset(self, seed: int | None = None) -> None:
        obs, infos = self.env.reset(seed=seed)
        self.infos = _infos.of_one(infos)
        self._write(self.rows.obs[0], obs, "environment 0")
        self._mask(0, self.infos)
        self.needs_reset = False

    def step(self) -> None:
        rows = self.rows
        obs, reward, terminated, truncated, infos = self.env.step(self.actions.only(rows.actions))
        try:
            rows.rewards[0] = float(reward)
        except (TypeError, ValueError):
            raise SpaceError(f"environment 0: reward {reward!r}, must be a number") from None
        rows.terminated[0], rows.truncated[0] = bool(terminated), bool(truncated)
        infos = self.infos = _infos.of_one(infos)
        if terminated or truncated:
            self._write(rows.final_obs[0], obs, "environment 0")
            if self.masked:
                given = np.ones_like(rows.final_action_masks[0]) if terminated else infos.get("action_mask", rows.action_masks[0] | 1)
                self._write_mask(rows.final_action_masks[0], given, "environment 0")
            self.infos = _infos.copied(infos)  # the reset may write into the same arrays
            obs, infos = self.env.reset()
        self._write(rows.obs[0], obs, "environment 0")
        self._mask(0, _infos.of_one(infos))

    def each_info(self) -> list[Infos]:
        return [dict(self.infos)]


class VectorSource(Source):
    """A gymnasium.vector.VectorEnv in any autoreset mode."""

    prefix = "single_"

    def __init__(self, env: gymnasium.vector.VectorEnv[Any, Any, Any]) -> None:
        if getattr(env, "is_async", False) or 0 < getattr(env, "batch_size", 0) < env.num_envs:  # EnvPool's, and workers'
            raise ConfigError(
                f"env: {label(env)} returns some of its {env.num_envs} environments at a time, must return all (without a batch_size); "
                "the library steps a built-in environment given by its name"
            )
        super().__init__(env, int(env.num_envs))
        # Gymnasium 1.0 has only the mode "next_step" and no metadata for it.
        self.mode = autoreset_name((env.metadata or {}).get("autoreset_mode", NEXT_STEP), "metadata['autoreset_mode']")
        self.autoreset = NEXT_STEP if self.mode == NEXT_STEP else SAME_STEP
        self._action_dtype = np.dtype(getattr(env.action_space, "dtype", None) or np.int64) if self.actions.n else None

    def reset(self, seed: int | None = None) -> None:
        obs, infos = self.env.reset(seed=seed)
        self.infos = _infos.as_columns(infos, self.num_envs)
        self.rows.obs[...] = self._rows(obs)
        if self._reads_masks(self.infos):
            self._masks(self.rows.action_masks, self.infos, np.ones(self.num_envs, bool))
        self.needs_reset = False

    def step(self) -> None:
        rows = self.rows
        # A copy: an asynchronous environment may read the actions later.
        actions = self.actions.batch(rows.actions)
        if self._action_dtype is not None:
            actions = actions.astype(self._action_dtype, copy=False)
        obs, rewards, terminated, truncated, infos = self.env.step(actions)
        self.infos = _infos.as_columns(infos, self.num_envs)
        obs = self._rows(obs)
        rows.terminated[...] = self._column(terminated, "terminated").astype(bool)
        rows.truncated[...] = self._column(truncated, "truncated").astype(bool)
        rows.rewards[...] = self._column(rewards, "rewards")
        done = rows.ended
        if self._reads_masks(self.infos):
            self._step_masks(done)
        if self.autoreset == SAME_STEP and done.any():
            if self.mode == "disabled":
                rows.final_obs[done] = obs[done]
                # The reset changes arrays of these infos: those of copy=False, and the mask of
                # RecordEpisodeStatistics.
                self.infos = _infos.copied(self.infos)
                # Only the rows under the mask are new.
                first, infos = self.env.reset(options={"reset_mask": done})
                rows.obs[~done] = obs[~done]
                rows.obs[done] = self._rows(first)[done]
                if self.masked:
                    self._masks(rows.action_masks, _infos.as_columns(infos, self.num_envs), done)
                return
            self._final(done, obs)
        rows.obs[...] = obs

    def each_info(self) -> list[Infos]:
        infos = {name: column for name, column in self.infos.items() if name not in OF_LAST_STEPS}
        each = _infos.split(infos, self.num_envs)
        if self.rows.ended.any():
            for i, info in enumerate(_infos.split(self.infos.get("final_info"), self.num_envs)):
                if self.rows.ended[i] and info:
                    # A RecordEpisodeStatistics around the vector writes "episode" outside of
                    # final_info.
                    each[i] = {name: each[i][name] for name in ("episode",) if name in each[i]} | info
        return each

    def _final(self, done: Array, obs: Array) -> None:
        """Writes the last observations of episodes that ended. obs: the first observations after them."""
        final = self.infos.get("final_obs")
        # Some vector environments omit the mask; then every row that ended has a last observation.
        mask = np.asarray(self.infos.get("_final_obs", done), dtype=bool)
        missing = done if final is None else done & ~mask
        self._without_last(missing, obs, "infos['final_obs'] has no row for it")
        for i in np.flatnonzero(done & ~missing):
            self._write(self.rows.final_obs[i], final[i], f"environment {i} (final_obs)")

    def _step_masks(self, done: Array) -> None:
        """Reads the masks of a step, except those of environments that the adapter resets."""
        rows, cut = self.rows, done & ~self.rows.terminated  # no action follows a termination, so it needs no mask
        if self.autoreset == NEXT_STEP:
            rows.action_masks[rows.terminated] = 1
            return self._masks(rows.action_masks, self.infos, ~rows.terminated)
        self._masks(rows.action_masks, self.infos, ~done if self.mode == "disabled" else np.ones_like(done))
        rows.final_action_masks[done] = 1
        final = self.infos if self.mode == "disabled" else _infos.as_columns(self.infos.get("final_info"), self.num_envs)
        if "action_mask" in final:
            self._masks(rows.final_action_masks, final, cut)

    def _masks(self, to: Array, infos: Any, rows: Array) -> None:
        """Writes the action masks of some rows."""
        given = infos.get("action_mask")
        missing = rows & ~np.asarray(infos.get("_action_mask", rows), dtype=bool) if given is not None else rows
        if missing.any():
            raise _no_mask(int(np.flatnonzero(missing)[0]))
        if isinstance(given, np.ndarray) and given.shape == to.shape and given.dtype.kind in "biuf":
            to[rows] = given[rows] != 0
            return
        for i in np.flatnonzero(rows):
            self._write_mask(to[i], given[i], f"environment {i}")


class SB3Source(Source):
    """A VecEnv of stable-baselines3, whose reset_infos has the infos of the latest resets."""

    def __init__(self, env: Any) -> None:
        super().__init__(env, int(env.num_envs))
        # Only the innermost VecEnv fills reset_infos; those of wrappers stay empty.
        self._base = env
        while (inner := vars(self._base).get("venv")) is not None:
            self._base = inner
        with contextlib.suppress(AttributeError, NotImplementedError):
            for i, space in enumerate(self._base.get_attr("action_space")):
                if space is not None and space != self._base.action_space:
                    raise ConfigError(f"environment {i}: action space {space}, must be that of environment 0, {self._base.action_space}")

    def reset(self, seed: int | None = None) -> None:
        if seed is not None:
            self.env.seed(seed)
        self.rows.obs[...] = self._rows(self.env.reset())
        self.infos = [{} for _ in range(self.num_envs)]
        for i in range(self.num_envs):
            self._mask(i, self._reset_info(i))
        self.needs_reset = False

    def step(self) -> None:
        rows = self.rows
        actions = self.actions.batch(rows.actions)
        if self.actions.keys is not None:  # a VecEnv's actions are an array, or one for each environment
            actions = [self.actions.one(actions, i) for i in range(self.num_envs)]
        obs, rows.rewards[...], dones, infos = self.env.step(actions)
        self.infos = [_infos.of_one(info) for info in infos]
        rows.obs[...] = self._rows(obs)
        done = self._column(dones, "dones").astype(bool)
        limit = np.array([_infos.truth(info.get("TimeLimit.truncated")) for info in self.infos])
        rows.terminated[...], rows.truncated[...] = done & ~limit, done & limit
        missing = np.zeros(self.num_envs, bool)
        for i in np.flatnonzero(done):
            missing[i] = "terminal_observation" not in self.infos[i]
            if not missing[i]:
                self._write(rows.final_obs[i], self.infos[i]["terminal_observation"], f"environment {i} (terminal_observation)")
            rows.final_action_masks[i] = 1
            if self.masked and limit[i] and "action_mask" in self.infos[i]:
                self._write_mask(rows.final_action_masks[i], self.infos[i]["action_mask"], f"environment {i}")
        self._without_last(missing, rows.obs, "infos has no 'terminal_observation'")
        for i in range(self.num_envs):
            self._mask(i, self._reset_info(i) if done[i] else self.infos[i])

    def _reset_info(self, i: int) -> Infos:
        """The infos of environment i's latest reset; {} if the VecEnv does not keep them."""
        infos = getattr(self._base, "reset_infos", ())
        return _infos.of_one(infos[i]) if i < len(infos) else {}

    def each_info(self) -> list[Infos]:
        return [dict(info) for info in self.infos]


class SpacesSource(Source):
    """Spaces without an environment, for the caller's own loop (begin, act, observe), or until set_env."""

    def __init__(self, observation_space: Any, action_space: Any, num_envs: int, autoreset: str = SAME_STEP) -> None:
        self._both = observation_space, action_space
        super().__init__(self._both, num_envs)
        self.autoreset = autoreset

    def spaces(self) -> tuple[Any, Any]:
        return self._both

    def reset(self, seed: int | None = None) -> None:
        raise ConfigError("env: None, must be an environment for learn: call set_env, or use begin, act and observe in a loop of your own")


def _no_mask(i: int) -> SpaceError:
    return SpaceError(f"environment {i}: infos has no 'action_mask', must have one after every reset and step")


def is_sb3(env: Any) -> bool:
    """Whether env is a VecEnv of stable-baselines3; does not import that package."""
    return all(hasattr(env, name) for name in ("step_async", "step_wait", "num_envs", "env_is_wrapped"))


def built_in(env: Any) -> tuple[str | None, int | None, Infos]:
    """(name, number, keywords) of built-in environments: a name, or a vector of make_vec or paceline.sb3.VecEnv.

    The name is None for other environments.
    """
    if isinstance(env, str):
        return env, None, {}
    from .vec_env import VecEnv

    if is_sb3(env) and isinstance(vars(env).get("envs"), VecEnv):  # vars: a wrapper would forward the attribute
        env = env.envs
    return (env.id, env.num_envs, env.env_kwargs) if isinstance(env, VecEnv) else (None, None, {})


def label(env: Any) -> str:
    """A short name of an environment: its name, its Gymnasium id or its class."""
    return env if isinstance(env, str) else built_in(env)[0] or getattr(getattr(env, "spec", None), "id", None) or type(env).__name__


def adapt(env: Any, num_envs: int | None = None) -> Source:
    """Wraps a gymnasium.Env, a gymnasium.vector.VectorEnv, a VecEnv of stable-baselines3 or a pair of spaces.

    num_envs: the number of environments for a pair of spaces. Raises ConfigError for anything else.
    """
    import gymnasium

    if isinstance(env, gymnasium.vector.VectorEnv):
        return VectorSource(env)
    if isinstance(env, gymnasium.Env):
        return SingleSource(env)
    if is_sb3(env):
        return SB3Source(env)
    if isinstance(env, tuple) and len(env) == 2 and all(isinstance(space, gymnasium.Space) for space in env):
        return SpacesSource(*env, num_envs or 1)
    raise ConfigError(
        f"env: {type(env).__module__}.{type(env).__qualname__}, must be the name of a built-in environment, a gymnasium.Env, "
        "a gymnasium.vector.VectorEnv (gymnasium.make_vec makes one), a VecEnv of stable-baselines3 or a pair "
        "(observation_space, action_space)"
    )
