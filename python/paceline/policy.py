"""Policy: a frozen network that acts without an environment or a trainer."""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
from collections.abc import Callable, Mapping
from ctypes import POINTER, c_char_p, c_float, c_size_t
from typing import Any, NamedTuple

import numpy as np

from . import _ffi, _lib
from ._arguments import whole
from ._files import reading, writing
from .compat import _sb3_file
from .config import encode_options
from .envs import _ids
from .envs._episodes import Tally
from .envs._own_loop import read_masks
from .envs._source import Source, adapt, label
from .errors import ConfigError, SpaceError, StoppedError, notice
from .spaces import ActionLayout, Array, ObsLayout, check_spaces, layouts_from_text, masks_from_text
from .starts import StartStates, checked

_MOST = 2**64 - 1  # of a seed or a counter


class Evaluation(NamedTuple):
    """The results of whole episodes.

    std_return: the sample deviation (n - 1). returns, lengths: one for each episode. successes:
    infos["is_success"] at the ends of episodes, if environments that Python steps have it.
    """

    episodes: int
    mean_return: float
    std_return: float
    min_return: float
    max_return: float
    mean_length: float
    returns: tuple[float, ...] = ()
    lengths: tuple[int, ...] = ()
    successes: tuple[float, ...] = ()


def _unpickled(data: bytes, obs: ObsLayout, actions: ActionLayout) -> Policy:
    return Policy(_lib.Handle("paceline_policy_free", _lib.lib().paceline_policy_from_bytes, data, len(data)), obs, actions)


class Policy:
    """A network that turns observations into actions.

    Policy.load(path) and a model's policy_snapshot() make one. It never changes, and any number of
    threads may use it concurrently. Close it, or use it in a with statement.
    """

    def __init__(self, handle: _lib.Handle, obs: ObsLayout | None = None, actions: ActionLayout | None = None) -> None:
        """Takes over a handle. obs, actions: the environment's layouts; None: the layouts in the file."""
        self._handle = handle
        obs_spec, action_spec = _ffi.Spec(), _ffi.Spec()
        _lib.lib().paceline_policy_spec(ctypes.byref(obs_spec), ctypes.byref(action_spec), handle.value)
        described = _lib.take_json(_lib.lib().paceline_policy_describe, handle.value)
        kept = layouts_from_text(described["host_data"], obs_spec, action_spec)
        self.obs_layout, self.action_layout = obs or kept[0], actions or kept[1]
        self._outputs: dict[str, int] = {output["name"]: output["len"] for output in described["outputs"]}
        self.masked = masks_from_text(described["host_data"])  # whether the network learnt with action masks; None: unknown
        self.notified: set[str] = set()  # warnings already given
        self._calls = itertools.count()
        self._stops = 0

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Policy:
        """Loads the network of a file of a model's save or of Policy.save; "x" is "x.zip" if there is no "x"."""
        with reading(path) as name:
            _sb3_file.refuse_model(name, "load it with DQN.load, A2C.load or PPO.load, then call policy_snapshot() of the model")
            _sb3_file.refuse_pickle(name, "Policy.load")
            return cls(_lib.Handle("paceline_policy_free", _lib.lib().paceline_policy_load, _lib.encode(name)))

    @classmethod
    def from_bytes(cls, data: bytes) -> Policy:
        """Makes the network that to_bytes wrote."""
        return cls(_lib.Handle("paceline_policy_free", _lib.lib().paceline_policy_from_bytes, data, len(data)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the network for Policy.load; "x" becomes "x.zip". If writing fails, an older file stays."""
        with writing(path) as name:
            _lib.lib().paceline_policy_save(self._handle.value, _lib.encode(name))

    def to_bytes(self) -> bytes:
        """The bytes that save writes, for Policy.from_bytes in this or another process."""
        return _lib.take_bytes(_lib.lib().paceline_policy_to_bytes, self._handle.value)

    def act(
        self,
        observation: object,
        *,
        sample: bool = False,
        epsilon: float = 0.0,
        seed: int = 0,
        counter: int = 0,
        action_masks: object = None,
    ) -> Any:
        """Returns the greedy action of one observation or of each row of a batch; of a distribution, its mode.

        The action of one observation is an integer (0-d) of a Discrete space, float32 of a Box's shape and
        within its bounds, integers of a MultiDiscrete's or MultiBinary's shape, or a tuple or dict of
        these. A batch has an axis before these.

        sample: True draws from the network's distribution, which A2C and PPO have. Networks of DQN
            and PQN have none and stay greedy.
        epsilon: the probability of a random action instead, independently for each row.
        seed, counter: 0 to 2**64 - 1. The draws for a row depend only on these two and on the row's index.
        action_masks: [actions], or [n, actions] for a batch, 0 for a forbidden action. Each row
            must allow an action of every branch; the masks of several branches follow one
            another, as in sb3-contrib. A policy that learnt with masks warns once if there are none.
        """
        rows, batched = self.obs_layout.batch(observation)
        seed, counter = whole("seed", seed, 0, _MOST), whole("counter", counter, 0, _MOST)
        options = _ffi.ActOptions(sample=sample, epsilon=epsilon, seed=seed, counter=counter)
        if action_masks is not None:
            masks = read_masks("action_masks", action_masks)
            shape = (len(rows), self.action_layout.mask_size)
            if masks.shape != shape and (batched or masks.shape != shape[1:]):
                raise SpaceError(f"action_masks: shape {masks.shape}, must be {shape if batched else shape[1:]}")
            masks = np.ascontiguousarray(masks != 0, np.uint8)
            options.action_masks = masks.ctypes.data
        else:
            self._warn_unmasked("action_masks: None")
        actions = self.action_layout.batch(self._act(rows, options))
        if batched:
            return actions
        return actions.reshape(()) if self.action_layout.n else self.action_layout.one(actions, 0)

    def _warn_unmasked(self, what: str) -> None:
        """Warns once if a policy that learnt with masks acts without masks."""
        if self.masked and "unmasked" not in self.notified:
            self.notified.add("unmasked")
            notice(
                f"{what}, should be given: the policy learnt with masks, and may now take actions that it has never tried; "
                "pass predict(obs, action_masks=infos['action_mask'])"
            )

    def outputs(self, observation: object) -> dict[str, Array]:
        """The network's outputs by name, float32 [len] for an observation, [n, len] for a batch.

        "q": the action values of DQN and PQN. "value", and "logits" (of all branches) or "mean" (of a
        Box, before clipping) or both: the heads of A2C and PPO.
        """
        rows, batched = self.obs_layout.batch(observation)
        out: dict[str, Array] = {name: np.empty((len(rows), size), np.float32) for name, size in self._outputs.items()}
        self._act(rows, None, out)
        return out if batched else {name: values[0] for name, values in out.items()}

    def q_values(self, observation: object) -> Array:
        """The Q-values of one observation, float32 [actions], or of a batch, [n, actions]."""
        if "q" not in self._outputs:
            raise ConfigError(f"q_values: this network has the outputs {' and '.join(self._outputs)}, must have q")
        return self.outputs(observation)["q"]

    def predict(
        self, observation: object, state: Any = None, episode_start: object = None, deterministic: bool = True, action_masks: object = None
    ) -> tuple[Any, Any]:
        """Returns (actions, state). deterministic=False is act(sample=True) with new draws.

        It is stable-baselines3's predict, except that True is the default of deterministic.
        """
        counter = 0 if deterministic else next(self._calls)
        return self.act(observation, sample=not deterministic, counter=counter, action_masks=action_masks), state

    def _act(self, rows: Array, options: _ffi.ActOptions | None, outputs: Mapping[str, Array] | None = None) -> Array:
        """Actions, counted from 0, for rows in the library's layout. outputs: arrays that receive the network's outputs."""
        actions = self.action_layout.rows(len(rows))
        pointers = None
        if outputs is not None:
            pointers = (POINTER(c_float) * len(outputs))(*(out.ctypes.data_as(POINTER(c_float)) for out in outputs.values()))
        _lib.lib().paceline_policy_act(self._handle.value, len(rows), rows.ctypes.data, options, actions.ctypes.data, pointers)
        return actions

    def evaluate(
        self,
        env: Any,
        episodes: int | None = None,
        epsilon: float = 0.0,
        seed: int = 0,
        deterministic: bool = True,
        *,
        starts: StartStates | None = None,
        max_frames: int = 0,
        **env_kwargs: Any,
    ) -> Evaluation:
        """Plays whole episodes.

        env: the name of a built-in environment, which the library makes with env_kwargs and steps,
            or a Gymnasium (vector) environment. If the policy learnt with masks, its actions obey
            infos["action_mask"]. The library's Atari games are played as whole games with unclipped
            rewards. If env contains a Monitor or a RecordEpisodeStatistics, its reports give
            returns and lengths, as in stable-baselines3: wrappers around it that change rewards or
            end episodes do not count.
        episodes: the number of episodes, 1 to 1,000,000; None: 20, or one for each of starts.
        epsilon: the probability of a random action.
        seed: 0 to 2**64 - 1.
        deterministic: True for greedy actions; False draws from the network's distribution.
        starts: the start states of paceline.starts in which episodes of an Atari game start: episode
            i starts in state i % len(starts.starts). Returns have the points after the state alone.
            None: episodes start with a reset. The recipe must be that of the states, unless epsilon
            is 1: an agent at random does not observe.
        max_frames: the frame of an Atari game at which it is truncated, the frames before a start
            state included; 0: max_num_frames_per_episode of env_kwargs or of the recipe.

        Equal arguments give equal results if the environment is deterministic for a seed.

        Ctrl-C during an evaluation in a built-in environment also ends the evaluations of the same policy
        that other threads have in progress, with StoppedError.
        """
        return self._evaluate(self._stops, env, episodes, epsilon, seed, deterministic, starts, max_frames, env_kwargs)

    def _evaluate(
        self, stops: int, env: Any, episodes: int | None, epsilon: float, seed: int, deterministic: bool, starts: StartStates | None,
        max_frames: int, env_kwargs: dict[str, Any],
    ) -> Evaluation:  # fmt: skip
        """As evaluate. stops: self._stops before the call; every later stop ends the evaluation."""
        if episodes is None:
            episodes = len(starts.starts) if starts is not None else 20
        episodes, seed = whole("episodes", episodes, 1, 1_000_000), whole("seed", seed, 0, _MOST)
        env, made, env_kwargs = _ids.resolved(env, None, env_kwargs)
        if not isinstance(env, str):
            if starts is not None or max_frames:
                raise ConfigError(f"starts and max_frames: must be left out for {label(env)}, are for the library's Atari games")
            try:
                return self._evaluate_pushed(adapt(env), episodes, epsilon, seed, not deterministic, stops)
            finally:
                if made is not None:
                    made.close()
        out = _ffi.Evaluation()
        returns, lengths = np.zeros(episodes), np.zeros(episodes, np.int64)
        states = [] if starts is None else checked(starts, env, env_kwargs, observed=epsilon != 1)
        pointers, sizes = (c_char_p * len(states))(*states), (c_size_t * len(states))(*map(len, states))
        options = _ffi.EvalOptions(
            sample=not deterministic, episodes=episodes, epsilon=epsilon, seed=seed,
            returns=returns.ctypes.data, lengths=lengths.ctypes.data,
            starts=ctypes.addressof(pointers), start_sizes=ctypes.addressof(sizes), num_starts=len(states), max_frames=max_frames,
        )  # fmt: skip
        name, encoded = _lib.encode(env), encode_options(env_kwargs)

        def evaluation(keeps: Any = (returns, lengths, states, pointers, sizes)) -> None:
            _lib.lib().paceline_policy_evaluate(ctypes.byref(out), self._handle.value, name, encoded, ctypes.byref(options))

        self._stoppable(evaluation, stops)
        numbers = out.episodes, out.mean_return, out.std_return, out.min_return, out.max_return, out.mean_length
        return Evaluation(*numbers, tuple(returns.tolist()), tuple(lengths.tolist()))

    def stop(self) -> None:
        """Makes evaluations in progress raise StoppedError before their next step. Any thread may call it."""
        self._stops += 1
        _lib.lib().paceline_policy_stop(self._handle.value)

    def _stoppable(self, evaluation: Callable[[], Any], stops: int) -> None:
        """Runs evaluation on a thread of its own, because Python handles signals only between calls.

        A stop is repeated until the call ends, because the call may not have begun yet. evaluation
        must refer to the buffers that the call writes: after a second Ctrl-C the thread outlives
        this method. stops: as in _evaluate.
        """
        failed = list[BaseException]()
        begun, cancelled, done = threading.Event(), threading.Event(), threading.Event()

        def run() -> None:
            begun.set()
            try:
                if not cancelled.is_set():
                    self._check_stops(stops)
                    evaluation()
            except BaseException as err:
                failed.append(err)
            finally:
                done.set()

        try:
            threading.Thread(target=run, name="paceline-evaluate").start()
            while not done.wait(0.1):
                if self._stops != stops:
                    self.stop()
        except BaseException:
            cancelled.set()
            while begun.is_set() and not done.wait(0.02):
                self.stop()
            raise
        if failed:
            raise failed[0]

    def _check_stops(self, before: int) -> None:
        """Raises StoppedError if stop was called since self._stops was `before`."""
        if self._stops != before:
            raise StoppedError("evaluate: stop was called")

    def _evaluate_pushed(self, source: Source, episodes: int, epsilon: float, seed: int, sample: bool, stops: int) -> Evaluation:
        check_spaces("env", source.layout, source.actions, self.obs_layout, self.action_layout)
        n, rows = source.num_envs, source.rows
        # Each environment plays a fixed number: taking the first episodes to end would favour short
        # ones.
        share = np.array([(episodes + i) // n for i in range(n)])
        left = share.copy()
        played: list[tuple[float, int, float | None]] = []
        options = _ffi.ActOptions(sample=sample, epsilon=epsilon, seed=seed)
        source.masked, source.unread_warned = False if self.masked is False else None, True
        source.reset(seed=seed % 2**31)
        if not source.masked:
            self._warn_unmasked("env: its infos have no 'action_mask'")
        else:
            options.action_masks = rows.action_masks.ctypes.data
        tally = Tally(source)
        while left.any():
            rows.actions[...] = self._act(rows.obs, options)
            options.counter += 1
            source.step()
            self._check_stops(stops)
            over = tally.step()
            if tally.void:
                played, left = [], share.copy()
            for i, total, taken, succeeded in over:
                if left[i]:
                    left[i] -= 1
                    played.append((total, taken, succeeded))
        of_each, steps = np.array([episode[:2] for episode in played]).T
        deviation = of_each.std(ddof=1) if len(played) > 1 else 0.0
        mean, least, most, length = map(float, (of_each.mean(), of_each.min(), of_each.max(), steps.mean()))
        each = tuple(of_each.tolist()), tuple(int(n) for n in steps), tuple(s for *_, s in played if s is not None)
        return Evaluation(len(played), mean, float(deviation), least, most, length, *each)

    def __reduce__(self) -> Any:
        """Pickles and copies the network by its bytes, so that it acts the same in any process."""
        return _unpickled, (self.to_bytes(), self.obs_layout, self.action_layout)

    def close(self) -> None:
        """Frees the network. A second call does nothing."""
        self._handle.close()

    def __enter__(self) -> Policy:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
