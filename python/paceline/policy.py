"""A frozen network that acts; it needs no environment and no trainer."""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
from collections.abc import Callable, Mapping
from ctypes import POINTER, c_float
from typing import Any, NamedTuple

import numpy as np

from . import _ffi, _lib
from ._files import reading, writing
from .compat import _sb3_file
from .config import encode_options
from .envs import _ids
from .envs._episodes import Tally
from .envs.vector import Source, adapt
from .errors import ConfigError, SpaceError, notice
from .spaces import ActionLayout, Array, ObsLayout, check_spaces, kept_masks, of_text


class Evaluation(NamedTuple):
    """The returns of whole episodes; std_return is the sample deviation (n - 1). returns, lengths: of each. successes:
    infos["is_success"] at their ends, where environments stepped from Python have it."""

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
    return Policy(_lib.new_handle("paceline_policy_free", _lib.lib().paceline_policy_from_bytes, data, len(data)), obs, actions)


class Policy:
    """A network that turns observations into actions.

    Made by Policy.load(path) or policy_snapshot() of a model. It never changes,
    and any number of threads may use it at once. Close it, or use it in a with
    statement.
    """

    def __init__(self, handle: _lib.Handle, obs: ObsLayout | None = None, actions: ActionLayout | None = None) -> None:
        """Takes over a handle; obs and actions are the environment's layouts where they are known."""
        self._handle = handle
        obs_spec, action_spec = _ffi.Spec(), _ffi.Spec()
        _lib.lib().paceline_policy_spec(ctypes.byref(obs_spec), ctypes.byref(action_spec), handle.value)
        described = _lib.take_json(_lib.lib().paceline_policy_describe, handle.value)
        kept = of_text(described["host_data"], obs_spec, action_spec)
        self.obs_layout, self.action_layout = obs or kept[0], actions or kept[1]
        self._outputs: dict[str, int] = {output["name"]: output["len"] for output in described["outputs"]}
        self.masked = kept_masks(described["host_data"])  # whether it learnt with action masks; None: not known
        self.notified: set[str] = set()  # what was said once
        self._calls = itertools.count()
        self._stops = 0

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Policy:
        """The network of a checkpoint that a model's save or Policy.save wrote; "x" is "x.zip" where there is no "x"."""
        with reading(path) as name:
            _sb3_file.refuse_model(name, "DQN.load, A2C.load or PPO.load reads it, and policy_snapshot() of that model is a Policy")
            _sb3_file.refuse_pickle(name, "Policy.load")
            return cls(_lib.new_handle("paceline_policy_free", _lib.lib().paceline_policy_load, _lib.encode(name)))

    @classmethod
    def from_bytes(cls, data: bytes) -> Policy:
        """The network that to_bytes wrote."""
        return cls(_lib.new_handle("paceline_policy_free", _lib.lib().paceline_policy_from_bytes, data, len(data)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the weights alone, for Policy.load; "x" becomes "x.zip". An older file is kept on failure."""
        with writing(path) as name:
            _lib.lib().paceline_policy_save(self._handle.value, _lib.encode(name))

    def to_bytes(self) -> bytes:
        """What save writes, for Policy.from_bytes, also in another process."""
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
    ) -> Array:
        """The action for one observation (a 0-d array), or for each of a batch ([n]): the greedy one.

        sample: drawn from the distribution that the network gives, if it gives one
        (A2C's and PPO's does, DQN's does not). epsilon: with this probability a random action
        instead, for each row by itself. What is drawn for a row is a function of
        seed, counter and the row's number alone. action_masks: [actions], or [n, actions]
        for a batch: 0 for an action that may not be taken; each row must allow one. A policy that
        learnt with masks says once that there are none.
        """
        rows, batched = self.obs_layout.batch(observation)
        options = _ffi.ActOptions(sample=sample, epsilon=epsilon, seed=seed % 2**64, counter=counter)
        if action_masks is not None:
            masks = np.asarray(action_masks)
            shape = (len(rows), self.action_layout.n)
            if masks.shape != shape and (batched or masks.shape != shape[1:]):
                raise SpaceError(f"action_masks: shape {masks.shape}, must be {shape if batched else shape[1:]}")
            masks = np.ascontiguousarray(masks != 0, np.uint8)
            options.action_masks = masks.ctypes.data
        else:
            self._tell_unmasked("action_masks: None")
        actions = self._act(rows, options).astype(np.int64) + self.action_layout.start
        return actions if batched else actions.reshape(())

    def _tell_unmasked(self, what: str) -> None:
        """Says once that a policy which learnt with masks acts without."""
        if self.masked and "unmasked" not in self.notified:
            self.notified.add("unmasked")
            notice(
                f"{what}, should be there: the policy learnt with masks, and may now take actions that it has never tried; "
                "predict(obs, action_masks=infos['action_mask']) keeps to them"
            )

    def outputs(self, observation: object) -> dict[str, Array]:
        """What the network computes for an observation, float32 [len], or for a batch, [n, len], by name.

        "q": the action values of DQN; "logits" and "value" of A2C and PPO.
        """
        rows, batched = self.obs_layout.batch(observation)
        out: dict[str, Array] = {name: np.empty((len(rows), size), np.float32) for name, size in self._outputs.items()}
        self._act(rows, None, out)
        return out if batched else {name: values[0] for name, values in out.items()}

    def q_values(self, observation: object) -> Array:
        """The Q-values of one observation, float32 [actions], or of a batch, [n, actions]."""
        if "q" not in self._outputs:
            raise ConfigError(f"q_values: this network computes {' and '.join(self._outputs)}, must have q")
        return self.outputs(observation)["q"]

    def predict(
        self, observation: object, state: Any = None, episode_start: object = None, deterministic: bool = True, action_masks: object = None
    ) -> tuple[Array, Any]:
        """As Stable-Baselines3's: (actions, state). Not deterministic: drawn as act does with sample, anew at each call."""
        counter = 0 if deterministic else next(self._calls)
        return self.act(observation, sample=not deterministic, counter=counter, action_masks=action_masks), state

    def _act(self, rows: Array, options: _ffi.ActOptions | None, outputs: Mapping[str, Array] | None = None) -> Array:
        """Actions, counted from 0, for rows as the library lays them out; outputs: an array for each, to be written to."""
        actions = np.empty(len(rows), np.int32)
        pointers = None
        if outputs is not None:
            pointers = (POINTER(c_float) * len(outputs))(*(out.ctypes.data_as(POINTER(c_float)) for out in outputs.values()))
        _lib.lib().paceline_policy_act(self._handle.value, len(rows), rows.ctypes.data, options, actions.ctypes.data, pointers)
        return actions

    def evaluate(
        self, env: Any, episodes: int = 20, epsilon: float = 0.0, seed: int = 0, deterministic: bool = True, **env_kwargs: Any
    ) -> Evaluation:
        """Plays whole episodes, with a random action with probability epsilon.

        env: the name of a built-in environment, which is then stepped by the
        library, made with env_kwargs, or a Gymnasium (vector) environment, whose
        infos["action_mask"] are kept to if the policy learnt with masks. Of the library's Atari
        games whole games are played, for their whole rewards, by name and as an object. A Monitor in it, or a
        RecordEpisodeStatistics, says what an episode returned, as in stable-baselines3; it has counted before
        the wrappers around it changed rewards or ended episodes. deterministic: greedy
        actions; False draws them from the distribution that the network gives. The same
        arguments give the same result where the environment allows it.
        """
        env, made, env_kwargs = _ids.resolved(env, None, env_kwargs)
        if not isinstance(env, str):
            try:
                return self._evaluate_pushed(adapt(env), episodes, epsilon, seed, not deterministic)
            finally:
                if made is not None:
                    made.close()
        out = _ffi.Evaluation()
        size = episodes if 0 < episodes <= 1_000_000 else 0  # others are refused
        returns, lengths = np.zeros(size), np.zeros(size, np.int64)
        options = _ffi.EvalOptions(
            sample=not deterministic, episodes=episodes, epsilon=epsilon, seed=seed % 2**64,
            returns=returns.ctypes.data, lengths=lengths.ctypes.data,
        )  # fmt: skip
        name, encoded = _lib.encode(env), encode_options(env_kwargs)

        def evaluation(keeps: Any = (returns, lengths)) -> None:
            _lib.lib().paceline_policy_evaluate(ctypes.byref(out), self._handle.value, name, encoded, ctypes.byref(options))

        self._stoppable(evaluation)
        numbers = out.episodes, out.mean_return, out.std_return, out.min_return, out.max_return, out.mean_length
        return Evaluation(*numbers, tuple(returns.tolist()), tuple(lengths.tolist()))

    def stop(self) -> None:
        """Makes evaluations of built-in environments that are in progress raise StoppedError. Any thread may call it."""
        self._stops += 1
        _lib.lib().paceline_policy_stop(self._handle.value)

    def _stoppable(self, evaluation: Callable[[], Any]) -> None:
        """Evaluates on a thread of its own, as Python hears signals between calls only. A stop is repeated, as the call
        that it is to end may have yet to begin. What the call writes into, evaluation must refer to: a second interrupt
        leaves it behind."""
        before, failed = self._stops, list[BaseException]()
        begun, given_up, done = threading.Event(), threading.Event(), threading.Event()

        def run() -> None:
            begun.set()
            try:
                if not given_up.is_set():
                    evaluation()
            except BaseException as err:
                failed.append(err)
            finally:
                done.set()

        try:
            threading.Thread(target=run, name="paceline-evaluate").start()
            while not done.wait(0.1):
                if self._stops != before:
                    self.stop()
        except BaseException:
            given_up.set()
            while begun.is_set() and not done.wait(0.02):
                self.stop()
            raise
        if failed:
            raise failed[0]

    def _evaluate_pushed(self, source: Source, episodes: int, epsilon: float, seed: int, sample: bool) -> Evaluation:
        check_spaces("env", source.layout, source.actions, self.obs_layout, self.action_layout)
        if episodes < 1:
            raise ConfigError(f"episodes: {episodes}, must be at least 1")
        n, rows = source.num_envs, source.rows
        # Each environment plays a fixed share: taking the first to finish
        # would favour short episodes.
        share = np.array([(episodes + i) // n for i in range(n)])
        left = share.copy()
        played: list[tuple[float, int, float | None]] = []
        options = _ffi.ActOptions(sample=sample, epsilon=epsilon, seed=seed % 2**64)
        source.masked, source.unread_said = False if self.masked is False else None, True
        source.reset(seed=seed % 2**31)
        if not source.masked:
            self._tell_unmasked("env: its infos have no 'action_mask'")
        else:
            options.action_masks = rows.action_masks.ctypes.data
        tally = Tally(source)
        while left.any():
            rows.actions[...] = self._act(rows.obs, options)
            options.counter += 1
            source.step()
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
        """Pickled and copied by its bytes, so that it acts the same in any process."""
        return _unpickled, (self.to_bytes(), self.obs_layout, self.action_layout)

    def close(self) -> None:
        """Frees the network; closing twice is fine."""
        self._handle.close()

    def __enter__(self) -> Policy:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
