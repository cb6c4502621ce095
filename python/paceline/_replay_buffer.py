"""model.replay_buffer: the transitions of the replay memory as arrays, under Stable-Baselines3's names."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import _ffi
from ._arguments import array, whole
from .envs._infos import entries, split, truth
from .errors import ConfigError, SpaceError
from .spaces import Array

if TYPE_CHECKING:
    from ._model import Model


class ReplayBufferSamples(NamedTuple):
    """n transitions.

    observations, next_observations: [n, ...], uint8 [C, H, W] or float32 rows, before scaling. The
        next observation is zeros where dones is 1.
    actions: int64 [n, 1], values of the action space.
    dones, rewards: float32 [n, 1]. dones is 0 where a time limit ended the episode.
    """

    observations: Array
    actions: Array
    next_observations: Array
    dones: Array
    rewards: Array


class Minibatch(NamedTuple):
    """Transitions over n_steps, drawn by ReplayBuffer.draw for gradient_of of another model.

    obs, next_obs: [n, ...], as the library stores them: float32, or uint8 [C, H, W]. next_obs is zeros
        where the steps terminated.
    actions: int32 [n], counted from 0.
    rewards: float32 [n], the discounted sums of the steps.
    discounts: float32 [n], the factors of the values of next_obs; 0 where the steps terminated.
    weights: float32 [n], factors of the losses; 1 where draws are uniform.
    next_masks: uint8 [n, actions], action masks of next_obs; [n, 0] without masks.
    identities: int64 [n], by which set_errors names the transitions.
    """

    obs: Array
    next_obs: Array
    actions: Array
    rewards: Array
    discounts: Array
    weights: Array
    next_masks: Array
    identities: Array

    @staticmethod
    def arrays_of(model: Model, n: int) -> dict[str, tuple[Any, tuple[int, ...]]]:
        """The dtype and shape of each array of a model's minibatch of n rows."""
        layout = model.obs_layout
        masks = model.action_layout.n if model.setting("action_masks") == "true" else 0
        obs, number = (layout.dtype, (n, *layout.shape)), (np.float32, (n,))
        return {
            "obs": obs, "next_obs": obs, "actions": (np.int32, (n,)), "rewards": number, "discounts": number, "weights": number,
            "next_masks": (np.uint8, (n, masks)), "identities": (np.int64, (n,)),
        }  # fmt: skip

    def checked(self, model: Model) -> Minibatch:
        """The same minibatch, safe to pass to the library, which reads the arrays' memory without knowing their sizes.

        Raises SpaceError if an array has another dtype or shape than those of a minibatch of model.
        """
        made = {}
        for name, (dtype, shape) in self.arrays_of(model, len(self.actions)).items():
            array = np.asarray(getattr(self, name))
            if array.dtype != dtype or array.shape != shape:
                raise SpaceError(f"minibatch.{name}: {array.dtype} of shape {array.shape}, must be {np.dtype(dtype)} of shape {shape}")
            made[name] = np.ascontiguousarray(array)
        return Minibatch(**made)

    def struct(self, errors: Array | None = None) -> _ffi.Minibatch:
        """The library's struct, which points to the arrays."""
        named = {name: array.ctypes.data for name, array in self._asdict().items() if array.size}
        if errors is not None:
            named["errors"] = errors.ctypes.data
        return _ffi.Minibatch(num_rows=len(self.actions), **named)


class ReplayBuffer:
    """A view of a model's replay memory: `sample` and `read` copy transitions, `add` adds transitions.

    add_steps, draw and set_errors are for a replay memory decoupled from its actors and learners: that of a
    model with updates="outside" of which no run is begun. See DQN.gradient_of.

    Each call first does the updates that are due. No call draws from the random streams of
    training.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        learners = int(model.setting("bundles" if model.METHOD == "gorila" else "learners")) or 1
        self.buffer_size = int(model.setting("buffer_size")) // learners * learners  # all have equal shares
        self.n_envs: int = model.n_envs
        self.observation_space, self.action_space = model.observation_space, model.action_space
        self.device = model.device

    def size(self) -> int:
        """The number of stored transitions, including those that can be drawn only from the next window on."""
        metric = self._model._native.metric
        return min(int(metric("replay_size") + metric("replay_pending")), self.buffer_size)

    __len__ = size

    @property
    def full(self) -> bool:
        return self.size() >= self.buffer_size

    def sample(self, batch_size: int, env: Any = None) -> ReplayBufferSamples:
        """Draws transitions uniformly, with replacement, from the transitions that updates draw from.

        The draws depend on the model's seed and on the number of earlier draws. env must be None:
        rewards and observations are returned without normalisation.

        Each transition is a single step, also with n_steps above 1. Updates then sum rewards over
        n_steps, and do not draw the tails that n_step_tails drops.
        """
        if env is not None:
            raise ConfigError(f"env: {env!r}, must be None: transitions are returned as they are stored")
        stored = self._stored()
        if stored == 0:
            raise ConfigError("replay_buffer.sample: 0 transitions, must be at least 1: call learn or replay_buffer.add first")
        if self._model._draws is None:
            self._model._draws = np.random.default_rng(self._model.seed)
        return self.read(self._model._draws.integers(0, stored, batch_size))

    def read(self, numbers: Any) -> ReplayBufferSamples:
        """Returns transitions by their numbers, 0 to stats["replay_size"] - 1.

        Numbers go by environment, and within an environment by age, oldest first.
        """
        chosen = _int64("replay_buffer.read: numbers", numbers)
        rows, struct = self._rows(len(chosen))
        self._model._native.read_transitions(struct, chosen)
        actions = rows["actions"].astype(np.int64)[:, None] + self._model.action_layout.start
        dones = rows["terminated"].astype(np.float32)[:, None]
        return ReplayBufferSamples(rows["obs"], actions, rows["next_obs"], dones, rows["rewards"][:, None])

    def add(self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, infos: Iterable[Any] | Mapping[str, Any] = ()) -> None:
        """Adds one transition for each environment, such as demonstrations.

        Every argument is [n_envs, ...]. Updates can draw the transitions at once. They belong to no
        episode of the run.

        With n_steps above 1 the target of an added transition has one step, and the targets of the
        latest n_steps - 1 steps of an episode in progress end here, as at a truncation. Raises
        ConfigError if n_step_tails drops all of the added transitions.

        infos: a dict for each environment, Gymnasium's columns, or nothing. A true "TimeLimit.truncated"
            marks done as a time limit; "action_mask" is the mask of next_obs.
        """
        n, model = self.n_envs, self._model
        rows, struct = self._rows(n)
        for name, given in (("obs", obs), ("next_obs", next_obs)):
            rows[name][...] = model.obs_layout.read(given, (n,), f"replay_buffer.add: {name}")
        for name, given, kinds in (("actions", action, "iu"), ("rewards", reward, "biuf"), ("terminated", done, "biuf")):
            column = _column(f"replay_buffer.add: {name}", given, n, kinds, "environment")
            rows[name][...] = column if name != "actions" else self._from_zero(column)
        rows.setdefault("next_masks", np.zeros((n, 0), np.uint8))[...] = 1
        for i, info in enumerate(_each_info(infos, n)):
            if truth(info.get("TimeLimit.truncated")):
                rows["terminated"][i] = 0
            if "action_mask" in info and rows["next_masks"].size:
                rows["next_masks"][i] = np.asarray(info["action_mask"]) != 0
        self._model._native.add_transitions(struct)

    def add_steps(
        self, env: int, obs: Any, actions: Any, rewards: Any, *, begins: bool, terminated: bool = False, truncated: bool = False,
        next_masks: Any = None,
    ) -> None:  # fmt: skip
        """Adds k consecutive steps of an environment, 0 to n_envs - 1.

        A transition can be drawn as soon as its n_steps are stored or its episode has ended.

        obs: [k + 1, ...], the observations before, between and after the steps. The last one is not read
            if terminated.
        actions, rewards: [k].
        begins: obs[0] begins a segment; one in progress is cut. False: the segment of the call before
            goes on, obs[0] is its last observation and is not read.
        terminated, truncated: of the last step.
        next_masks: [k, actions], the action masks of obs[1:]; None allows every action.
        """
        env = whole("replay_buffer.add_steps: env", env, 0, self.n_envs - 1)
        model, k = self._model, len(rewards)
        stored = np.ascontiguousarray(model.obs_layout.read(obs, (k + 1,), "replay_buffer.add_steps: obs"), model.obs_layout.dtype)
        chosen = np.ascontiguousarray(
            self._from_zero(_column("replay_buffer.add_steps: actions", actions, k, "iu", "step"), "add_steps"), np.int32
        )
        paid = np.ascontiguousarray(_column("replay_buffer.add_steps: rewards", rewards, k, "biuf", "step"))
        masks = None if next_masks is None else np.ascontiguousarray(np.asarray(next_masks) != 0, np.uint8)
        if masks is not None and masks.shape != (k, model.action_layout.n):
            raise SpaceError(f"replay_buffer.add_steps: next_masks of shape {masks.shape}, must be {(k, model.action_layout.n)}")
        begun, over, cut = (
            whole(f"replay_buffer.add_steps: {name}", int(value) if isinstance(value, np.bool_) else value, 0, 1)
            for name, value in (("begins", begins), ("terminated", terminated), ("truncated", truncated))
        )
        steps = _ffi.Steps(
            num_steps=k, begins=begun, end=over + 2 * cut, obs=stored.ctypes.data,
            actions=chosen.ctypes.data, rewards=paid.ctypes.data, next_masks=None if masks is None else masks.ctypes.data,
        )  # fmt: skip
        model._native.add_steps(env, steps)

    def draw(self, beta: float = 0.0) -> Minibatch:
        """Draws a minibatch of batch_size transitions over n_steps, by priorities if the model is prioritized.

        beta: the exponent of importance weights, 0 to 1. Raises ConfigError if no transition can be drawn yet.
        """
        if not isinstance(beta, numbers.Real):
            raise ConfigError(f"beta: {beta!r}, must be a number, 0 to 1")
        n = int(self._model.setting("batch_size"))
        batch = Minibatch(**{name: np.empty(shape, dtype) for name, (dtype, shape) in Minibatch.arrays_of(self._model, n).items()})
        self._model._native.draw(batch.struct(), float(beta))
        return batch

    def set_errors(self, identities: Any, errors: Any) -> None:
        """Makes the priorities of drawn transitions from the errors of gradient_of.

        identities, errors: [n]. Transitions that are no longer stored are passed over. It does nothing
        where draws are uniform.
        """
        of = _int64("replay_buffer.set_errors: identities", identities)
        values = np.ascontiguousarray(_column("replay_buffer.set_errors: errors", errors, len(of), "biuf", "identity"))
        self._model._native.set_errors(of, values)

    def _from_zero(self, actions: Array, call: str = "add") -> Array:
        """Actions of the space, counted from 0."""
        layout = self._model.action_layout
        lowest, highest = layout.start, layout.start + layout.n - 1
        outside = np.flatnonzero((actions < lowest) | (actions > highest))
        if len(outside):
            row = int(outside[0])
            raise ConfigError(f"replay_buffer.{call}: actions[{row}]: {actions[row]}, must be {lowest} to {highest}")
        return actions.astype(np.int64) - lowest

    def _stored(self) -> int:
        self._model._native.finish()
        return int(self._model._native.metric("replay_size"))

    def _rows(self, n: int) -> tuple[dict[str, Array], _ffi.Transitions]:
        """Zeroed arrays for n transitions, and the struct that points to them."""
        layout = self._model.obs_layout
        rows = {name: np.zeros((n, *layout.shape), layout.dtype) for name in ("obs", "next_obs")}
        rows |= {"actions": np.zeros(n, np.int32), "rewards": np.zeros(n, np.float32), "terminated": np.zeros(n, np.uint8)}
        if self._model.setting("action_masks") == "true":
            rows["next_masks"] = np.zeros((n, self._model.action_layout.n), np.uint8)
        return rows, _ffi.Transitions(num_rows=n, **{name: array.ctypes.data for name, array in rows.items()})


def _each_info(infos: Iterable[Any] | Mapping[str, Any], n: int) -> list[dict[Any, Any]]:
    """The infos of ReplayBuffer.add as a dict for each environment."""
    if not isinstance(infos, Mapping):
        infos = list(infos)
        if len(infos) not in (0, n):
            raise SpaceError(f"replay_buffer.add: infos: {len(infos)} dicts, must be {n}, one for each environment, or none")
    else:
        for name in ("TimeLimit.truncated", "action_mask"):
            if name in infos and entries(infos[name], n, np.ones(n, bool)) is None:
                raise SpaceError(
                    f"replay_buffer.add: infos[{name!r}]: {infos[name]!r:.60}, must be an array of {n}, one for each environment"
                )
    return split(infos, n)


def _int64(name: str, given: Any) -> Array:
    """The numbers of transitions as int64."""
    column = _column(name, given, np.size(given), "iu", "transition")
    if len(above := np.flatnonzero(column > 2**63 - 1)):
        raise ConfigError(f"{name}[{above[0]}]: {column[above[0]]}, must be below {2**63}")
    return np.ascontiguousarray(column, np.int64)


def _column(name: str, given: Any, n: int, kinds: str, each: str) -> Array:
    """One number for each environment, step or transition, of the kinds of dtypes given; float32 unless they are integers."""
    column = np.asarray(given)
    if column.size != n or (n > 0 and column.dtype.kind not in kinds):
        what = "integers" if kinds == "iu" else "numbers"
        raise SpaceError(f"{name} is {column.dtype} of shape {column.shape}, must be {n} {what}, one for each {each}")
    return column.reshape(-1) if kinds == "iu" else array(name, column.reshape(-1))
