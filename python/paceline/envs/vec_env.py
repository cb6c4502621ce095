"""VecEnv: built-in environments as a gymnasium.vector.VectorEnv. make_vec makes it."""

from __future__ import annotations

import ctypes
import functools
import secrets
from collections.abc import Callable, Sequence
from ctypes import POINTER, c_int32, c_size_t, c_uint8, c_uint32, c_uint64
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from .. import _ffi, _lib
from .._arguments import autoreset_metadata, autoreset_name, reset_mask, seed_numbers, whole
from .._threads import CallLock, busy, exclusive
from ..config import encode_options
from ..errors import ConfigError, TimeOutError
from ..spaces import ActionLayout, Array, Infos, ObsLayout
from ._rows import COUNTED, Block, Column, Pool, offer, received

_MODES = {"next_step": _ffi.NEXT_STEP, "same_step": _ffi.SAME_STEP, "disabled": _ffi.DISABLED}
_MOST_ENVS, _MOST_THREADS = 65536, 1024
_SLICE = 100  # milliseconds after which a waiting call returns, so that Python handles signals
Results = tuple[Array, Array, Array, Array, Infos]
_sends, _receives, _both = exclusive("_sending"), exclusive("_receiving"), exclusive("_sending", "_receiving")


def _bounds(values: list[float | None], otherwise: float, shape: tuple[int, ...]) -> Array:
    filled = np.array([otherwise if x is None else x for x in values], np.float32)
    return np.broadcast_to(filled, shape).copy() if len(filled) == 1 else filled.reshape(shape)


class VecEnv(gymnasium.vector.VectorEnv[Array, Array, Array]):
    """num_envs environments of one kind, which the library's threads step in one call.

    Later calls do not change returned arrays: their memory is reused only when nothing refers to it
    any more (a free-threaded Python returns copies instead). With copy=False arrays are valid until
    the next call that returns some.

    With batch_size < num_envs use async_reset, send and recv; other vectors have these methods,
    too. One thread may send while another thread receives. Any other concurrent call raises
    BusyError.
    """

    def __init__(
        self, id: str, num_envs: int, *, batch_size: int, num_threads: int, thread_affinity_offset: int,
        autoreset_mode: Any, copy: bool, render_mode: str | None, env_kwargs: Infos,
    ) -> None:  # fmt: skip
        self.num_envs = whole("num_envs", num_envs, 1, _MOST_ENVS)
        self.batch_size = whole("batch_size", batch_size, 0, self.num_envs) or self.num_envs
        if render_mode not in (None, "rgb_array"):
            raise ConfigError(f"render_mode: {render_mode!r}, must be None or 'rgb_array'")
        mode = autoreset_name(autoreset_mode)
        self.env_kwargs = dict(env_kwargs)
        lib = _lib.lib()
        options = _ffi.VecOptions(
            num_envs=self.num_envs,
            batch_size=self.batch_size,
            num_threads=whole("num_threads", num_threads, 0, _MOST_THREADS),
            autoreset=_MODES[mode],
            pin=whole("thread_affinity_offset", thread_affinity_offset, -1, 2**31 - 1),
            env_options=encode_options(env_kwargs),
        )
        self._handle = _lib.Handle("paceline_vec_free", lib.paceline_vec_new, _lib.encode(id), ctypes.byref(options))
        self.id = id
        obs, action = _ffi.Spec(), _ffi.Spec()
        lib.paceline_vec_spec(ctypes.byref(obs), ctypes.byref(action), self._handle.value)
        described: Infos = _lib.take_json(lib.paceline_vec_describe, self._handle.value)
        layout = ObsLayout.of_spec(obs)
        columns = [Column(**column) for column in described["infos"]]
        self.recipe: str = described["recipe"]
        self._action_names: list[str] = described["action_names"]
        self.recipe_hash: str = described["recipe_hash"]
        self._set_spaces(layout, action, described)

        self.metadata = {
            "autoreset_mode": autoreset_metadata(mode), "render_modes": ["rgb_array"], "render_fps": described["render_fps"],
        }  # fmt: skip
        self.render_mode = render_mode
        self._final = mode == "same_step"
        self._names = [column.name for column in columns]
        self.copy = copy
        self._fresh_blocks = copy and COUNTED  # whether every call needs a Block without references
        self._returned: Callable[[Array], Array] = np.ndarray.copy if copy and not COUNTED else np.ndarray.view
        kind = (layout, columns, self._final)
        self._pool = Pool(self._fresh_blocks, self.num_envs, *kind)
        self._batches = self._pool if self.batch_size == self.num_envs else Pool(self._fresh_blocks, self.batch_size, *kind)
        self._latest: Block = self._pool.take()  # the rows of the latest step or reset
        # The library writes into these Blocks, so they must live as long as the handle.
        self._offered: list[Block] = []
        self._handle.references = self._offered
        _lib.close_at_exit(self)
        self._received: Block | None = None
        self._next_ids = np.arange(self.num_envs, dtype=np.int32)
        self._full_masks = {n: _constant(np.ones(n, np.bool_)) for n in {self.num_envs, self.batch_size}}
        texts = {"recipe": self.recipe, "recipe_hash": self.recipe_hash} if self.recipe else {}
        self._recipes = {n: {name: _constant(np.full(n, text, dtype=object)) for name, text in texts.items()} for n in self._full_masks}
        self._seeded = np.zeros(self.num_envs, bool)
        self._seed_of = np.zeros(self.num_envs, np.uint64)
        self._step, self._recv = lib.paceline_vec_step, lib.paceline_vec_recv
        self._sending, self._receiving = CallLock(), CallLock()

    def _set_spaces(self, layout: ObsLayout, action: _ffi.Spec, described: Infos) -> None:
        self.single_observation_space: spaces.Space[Array] = layout.space(
            *(_bounds(described[k], inf, layout.declared) for k, inf in (("obs_low", -np.inf), ("obs_high", np.inf)))
        )
        actions = ActionLayout.of_spec(action)
        self.single_action_space: spaces.Space[Any] = actions.space()
        self._actions: Array = actions.rows(self.num_envs)
        self._parts = actions.parts(self._actions)
        self._actions_at = self._actions.ctypes.data
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    @functools.cached_property
    def observation_space(self) -> spaces.Space[Array]:  # type: ignore[override]
        """The batched space, made at first use because it takes four times the memory of the rows."""
        return batch_space(self.single_observation_space, self.num_envs)

    def get_action_meanings(self) -> list[str]:
        """The names of the actions of an Atari or Mini game, ["NOOP", "FIRE" ...]; [] for other environments."""
        return list(self._action_names)

    # ------------------------------------------------------------- episodes

    @_both
    def reset(self, *, seed: int | Sequence[int | None] | Array | None = None, options: Infos | None = None) -> tuple[Array, Infos]:
        """Begins an episode in every environment, or where options["reset_mask"] (bool [num_envs]) is true.

        A reset begins a new game, in every autoreset mode. There is one exception: in "disabled",
        after an episode that ended with a lost life (episodic_life), a reset_mask without a seed
        continues the game.

        seed: an int s for s, s+1, ... in the environments' order, or one seed for each.
            Each is 0 to 2**64 - 1. An environment without a seed continues its random numbers; if
            it was never seeded, it gets a random seed.

        Returns (obs, infos) of all environments. Rows outside the mask are unchanged. The call
        waits for steps under way (send) and drops their results. With batch_size < num_envs the
        mask must have all environments; async_reset resets some.
        """
        self._check_open()
        chosen = reset_mask(options, self.num_envs)
        if self.is_async and not chosen.all():  # no Block has the latest rows of the others
            what = f"{chosen.sum()} of {self.num_envs} environments"
            raise ConfigError(f"options['reset_mask']: {what}, must be all with batch_size < num_envs; async_reset resets some")
        first, groups = self._to_reset(seed, chosen)
        self.drain()
        self._record_seeds(first, groups)
        block = self._pool.take() if self._fresh_blocks else self._latest
        if block is not self._latest and not chosen.all():
            block.copy_rows(self._latest, ~chosen)
        if not options and groups[-1][1] is None:  # the last group has no seeds
            # By a mask the reset would continue games after lost lives in "disabled".
            _lib.lib().paceline_vec_reset(self._handle.value, None, None, block.pointer)
            groups.pop()
        for rows, seeds in groups:
            mask = rows.ctypes.data_as(POINTER(c_uint8))
            _lib.lib().paceline_vec_reset(self._handle.value, _numbers(seeds), mask, block.pointer)
        self._set_latest(block)
        self._next_ids = np.arange(self.num_envs, dtype=np.int32)
        infos = self._infos(block, self._full_masks[self.num_envs])
        return self._returned(block.obs), infos if chosen.all() else _masked(infos, chosen)

    def _to_reset(self, seed: Any, chosen: Array) -> tuple[Any, list[tuple[Array, Array | None]]]:
        """(first seed or None, [(mask, seeds)]) of the environments chosen: a group with seeds and a group without, seeds None."""
        seeds, given = seed_numbers(seed, self.num_envs)
        first = seed if np.ndim(seed) == 0 else None
        never = chosen & ~(given | self._seeded)
        if never.any():
            first = secrets.randbits(31)
            seeds[never], given[never] = seed_numbers(first, self.num_envs)[0][never], True
        groups = ((chosen & given, seeds), (chosen & ~given, None))
        return first, [(rows, numbers) for rows, numbers in groups if rows.any()]

    def _record_seeds(self, first: Any, groups: list[tuple[Array, Array | None]]) -> None:
        if first is not None:
            super().reset(seed=int(first))  # seeds the vector's np_random
        for rows, seeds in groups:
            if seeds is not None:
                self._seeded |= rows
                self._seed_of[rows] = seeds[rows]

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]
        """The latest seed of each environment; -1 before its first reset."""
        return tuple(int(seed) if seeded else -1 for seed, seeded in zip(self._seed_of, self._seeded))

    def step(self, actions: object, env_id: Any = None) -> Results:
        """Takes one action in every environment; with batch_size < num_envs it is send(actions, env_id) and recv().

        Returns (obs, rewards float64 [num_envs], terminated, truncated, infos). If an action is out
        of range, or fewer than batch_size environments would be under way, no environment steps. In
        "next_step" the step after the end of an episode only begins the next one; its action is
        ignored, as in Gymnasium, if it fits into 32 bits. In "same_step", infos has Gymnasium's
        final_obs (objects, None where no episode ended) and final_info, with the masks _final_obs
        and _final_info.
        """
        self._check_open()
        if self.batch_size < self.num_envs or env_id is not None:
            return self._step_some(actions, env_id)
        # Inlined _both, at half the cost.
        if not self._sending.acquire(False):
            raise busy()
        try:
            if not self._receiving.acquire(False):
                raise busy()
            try:
                self._write_actions(actions, self.num_envs)
                block = self._pool.take() if self._fresh_blocks else self._latest
                self._step(self._handle.value, self._actions_at, block.pointer)
                self._set_latest(block)
                return self._results(block)
            finally:
                self._receiving.release()
        finally:
            self._sending.release()

    @_both
    def _step_some(self, actions: object, env_id: Any) -> Results:
        ids = self._ids(env_id)
        self._check_coming(len(ids))
        self.send(actions, ids)
        return self.recv()

    def _check_coming(self, n: int) -> None:
        """Raises ConfigError if recv would have too few environments after a send of n."""
        under_way = c_size_t()
        _lib.lib().paceline_vec_under_way(ctypes.byref(under_way), self._handle.value)
        coming = under_way.value + n
        if coming < self.batch_size:
            raise ConfigError(f"env_id: {coming} environments would be under way, must be at least batch_size, {self.batch_size}")

    def _write_actions(self, actions: object, n: int) -> None:
        """Checks n actions and copies them into the buffer that the library reads."""
        if len(self._parts) == 1:
            return self._write_part(actions, self._actions, n)
        if not isinstance(actions, (tuple, list)) or len(actions) != len(self._parts):
            raise ConfigError(f"actions: {type(actions).__name__}, must be a tuple of whole numbers and of numbers")
        for given, part in zip(actions, self._parts):
            self._write_part(given, part, n)

    def _write_part(self, actions: object, part: Array, n: int) -> None:
        given, taken = np.asarray(actions), part if n == self.num_envs else part[:n]
        own, discrete = taken.dtype, taken.dtype.kind == "i"
        if given.shape != taken.shape or (given.dtype is not own and given.dtype.kind not in ("iu" if discrete else "fiu")):
            what = "whole numbers" if discrete else "numbers"
            raise ConfigError(f"actions: {given.dtype} of shape {given.shape}, must be {what} of shape {taken.shape}")
        if given.dtype is own:
            taken[...] = given
            return
        try:
            with np.errstate(over="raise"):
                taken[...] = given
        except FloatingPointError:  # the library would report infinity
            i, k = np.argwhere(np.abs(given) > np.finfo(own).max)[0].tolist()
            raise ConfigError(f"environment {i}: action[{k}]: {given[i, k]}, must fit into float32") from None
        if discrete and (taken != given).any():  # a value does not fit into 32 bits
            i, *branch = np.argwhere(taken != given)[0].tolist()
            must = "32 bits" if branch else f"0 to {self.single_action_space.n - 1}"  # type: ignore[attr-defined]
            raise ConfigError(f"environment {i}: action: {given[(i, *branch)]}, must be {must}")

    def _set_latest(self, block: Block) -> None:
        """Makes a Block the latest one and returns the previous one to the pool."""
        previous, self._latest = self._latest, block
        if previous is not block:
            self._pool.give(previous)

    def _results(self, block: Block) -> Results:
        infos = self._infos(block, self._full_masks[len(block.rewards)])
        if self._final and b"\x01" in block.started.tobytes():
            ended = (block.terminated | block.truncated) & block.started
            if ended.any():
                self._final_infos(block, ended, infos)
        out = self._returned
        return out(block.obs), out(block.rewards), out(block.terminated), out(block.truncated), infos

    def _infos(self, block: Block, mask: Array) -> Infos:
        infos: Infos = {}
        for name, column in zip(self._names, block.infos):
            infos[name], infos["_" + name] = self._returned(column), mask
        for name, column in self._recipes[len(block.rewards)].items():
            infos[name], infos["_" + name] = column, mask
        return infos

    def _final_infos(self, block: Block, ended: Array, infos: Infos) -> None:
        last, rows = np.full(len(ended), None, dtype=object), self._returned(block.final_obs)
        for i in np.flatnonzero(ended):
            last[i] = rows[i]
        final = dict(zip(self._names, block.final_infos)) | self._recipes[len(ended)]
        infos.update(final_obs=last, _final_obs=ended, final_info=_masked(final, ended), _final_info=ended.copy())

    # ------------------------------------------------------------ asynchronously

    @property
    def is_async(self) -> bool:
        """Whether a batch has fewer than all environments."""
        return self.batch_size < self.num_envs

    @_sends
    def async_reset(self, *, seed: Any = None, options: Infos | None = None) -> None:
        """Starts a reset whose results recv returns.

        Earlier results of the environments that it resets must have been received. If an
        environment is refused, none is reset.
        """
        self._check_open()
        chosen = reset_mask(options, self.num_envs)
        first, groups = self._to_reset(seed, chosen)
        self._offer(np.flatnonzero(chosen))
        if len(groups) > 1:
            self._check_idle(np.flatnonzero(chosen))
        for rows, seeds in groups:
            ids = np.flatnonzero(rows).astype(np.int32)
            some = ids.ctypes.data_as(POINTER(c_int32)), len(ids)
            if seeds is None and not options:
                _lib.lib().paceline_vec_send_new_game(self._handle.value, *some)
            else:
                numbers = _numbers(None if seeds is None else seeds[ids])
                _lib.lib().paceline_vec_send_reset(self._handle.value, *some, numbers)
        self._record_seeds(first, groups)

    @_sends
    def send(self, actions: object, env_id: Any = None) -> None:
        """Starts a step of some environments and does not wait.

        env_id: the environments of the actions; None: those of the last recv, or all after a reset.
            If an action or an environment is refused, no environment steps.
        """
        self._check_open()
        ids = self._ids(env_id)
        self._write_actions(actions, len(ids))
        self._offer(ids)
        _lib.lib().paceline_vec_send(self._handle.value, ids.ctypes.data_as(POINTER(c_int32)), len(ids), self._actions_at)

    def _ids(self, env_id: Any) -> Array:
        """The environments of send's argument env_id."""
        if env_id is None:
            return self._next_ids
        given = np.asarray(env_id)
        if given.ndim != 1 or len(given) > self.num_envs or (len(given) and given.dtype.kind not in "iu"):
            raise ConfigError(f"env_id: {env_id!r}, must be up to {self.num_envs} numbers of environments")
        ids = np.ascontiguousarray(given, np.int32)
        if ids is not given and (ids != given).any():
            raise ConfigError(f"env_id: {given[ids != given][0]}, must be 0 to {self.num_envs - 1}")
        return ids

    def _check_idle(self, ids: Array) -> None:
        """Raises ConfigError if one of these environments is under way. num_envs must be at least 2."""
        # The library refuses each call, because its last number is num_envs. It checks the numbers in
        # order, and sends nothing if it refuses one. A call has at most num_envs numbers, so two calls
        # have them all.
        for half in np.array_split(ids, 2):
            tried = np.append(half, self.num_envs).astype(np.int32)
            try:
                _lib.lib().paceline_vec_send_reset(self._handle.value, tried.ctypes.data_as(POINTER(c_int32)), len(tried), None)
            except ConfigError as err:
                if not str(err).startswith(f"env_id: {self.num_envs}, "):
                    raise

    @_receives
    def recv(self) -> Results:
        """Waits until batch_size environments have finished and returns their rows.

        infos["env_id"] has the environment of each row; with batch_size == num_envs rows are in
        order. If an environment fails, recv raises an error with its index at once; the next recv
        returns the other environments' rows, and the failed one must be reset. If fewer than
        batch_size environments are under way, recv raises ConfigError, because it would never
        return. After Ctrl-C the next recv returns what the interrupted one would have returned.
        """
        self._check_open()
        while (block := received(self._offered)) is None:
            try:
                self._recv(self._handle.value, _SLICE)
            except TimeOutError:
                continue  # Python has handled signals
        if self.batch_size == self.num_envs:
            self._set_latest(block)
        else:
            previous, self._received = self._received, block
            if previous is not None and previous is not block:
                self._batches.give(previous)
        self._next_ids = block.env_ids.copy()
        results = self._results(block)
        results[4]["env_id"], results[4]["_env_id"] = self._returned(block.env_ids), self._full_masks[self.batch_size]
        del self._offered[0]  # last, so that the recv after a Ctrl-C returns these results
        return results

    def _offer(self, ids: Array) -> None:
        """Gives the library Blocks for all environments that may be under way. ids: the environments of the next send."""
        if (block := received(self._offered)) is not None and (early := np.intersect1d(block.env_ids, ids)).size:
            raise ConfigError(f"env_id: {early[0]}, is under way already, must be received first")
        while len(self._offered) < -(-self.num_envs // self.batch_size):
            offer(self._handle.value, self._batches.take(), self._offered)

    @_both
    def drain(self) -> None:
        """Waits for the steps under way and drops their results."""
        self._check_open()
        if received(self._offered) is not None:
            del self._offered[0]
        if self._offered:
            _lib.lib().paceline_vec_drain(self._handle.value)

    # ---------------------------------------------------------------- states

    @_both
    def clone_state(self, env_id: int | None = None) -> bytes | list[bytes]:
        """The complete state of environment env_id, random generators included; a list for all environments.

        The state does not include the rows that were returned.
        """
        self._check_open()
        ids = range(self.num_envs) if env_id is None else [whole("env_id", env_id, 0, self.num_envs - 1)]
        states = [_lib.take_bytes(_lib.lib().paceline_vec_save, self._handle.value, i) for i in ids]
        return states if env_id is None else states[0]

    @_both
    def restore_state(self, state: bytes | Sequence[bytes], env_id: int | None = None) -> None:
        """Sets the state of environment env_id, or of all, from clone_state of this or another vector.

        The environments must be of the same kind. An environment whose state is refused must be reset;
        those before it in the list have their new states.
        """
        self._check_open()
        if env_id is not None:
            pairs: list[tuple[int, Any]] = [(whole("env_id", env_id, 0, self.num_envs - 1), state)]
        elif isinstance(state, (bytes, bytearray)) or not isinstance(state, Sequence) or len(state) != self.num_envs:
            raise ConfigError(f"state: {type(state).__name__}, must be a list of {self.num_envs} states without an env_id")
        else:
            pairs = list(enumerate(state))
        for _, one in pairs:
            if not isinstance(one, (bytes, bytearray)):
                raise ConfigError(f"state: {type(one).__name__}, must be bytes that clone_state returned")
        for i, one in pairs:
            _lib.lib().paceline_vec_restore(self._handle.value, i, bytes(one), len(one))
            self._seeded[i] = True

    # --------------------------------------------------------------- images

    def render(self) -> tuple[Array, ...] | None:
        """An image of each environment, uint8 [height, width, 3]; None if render_mode is None."""
        self._check_open()
        if self.render_mode is None:
            return None
        return tuple(self.image(i) for i in range(self.num_envs))

    @_both
    def image(self, i: int) -> Array:
        """An image of environment i, uint8 [height, width, 3], for any render_mode."""
        self._check_open()
        i = whole("i", i, 0, self.num_envs - 1)
        size, height, width = c_size_t(), c_uint32(), c_uint32()
        sizes = ctypes.byref(size), ctypes.byref(height), ctypes.byref(width)
        render = _lib.lib().paceline_vec_render
        render(None, *sizes, self._handle.value, i)
        image = np.empty((height.value, width.value, 3), np.uint8)
        render(image.ctypes.data_as(POINTER(c_uint8)), *sizes, self._handle.value, i)
        return image

    # --------------------------------------------------------------- ending

    def _check_open(self) -> None:
        if self.closed:
            _lib.refuse_closed("environments")

    def close_extras(self, **kwargs: object) -> None:
        """Waits for the steps under way and frees the environments. A second call does nothing."""
        self._handle.close()

    _exit = close_extras

    def __repr__(self) -> str:
        recipe = f", recipe={self.recipe!r}" if self.recipe else ""
        return f"VecEnv({self.id}, num_envs={self.num_envs}{recipe}{', closed' if self.closed else ''})"


def _numbers(seeds: Array | None) -> Any:
    return None if seeds is None else seeds.ctypes.data_as(POINTER(c_uint64))


def _masked(infos: Infos, mask: Array) -> Infos:
    """Copies of infos with 0 or None outside the mask, as in Gymnasium."""
    few: Infos = {}
    for name in [name for name in infos if not name.startswith("_")]:
        few[name], few["_" + name] = infos[name].copy(), mask.copy()
        few[name][~mask] = None if few[name].dtype == object else 0
    return few


def _constant(array: Array) -> Array:
    array.flags.writeable = False
    return array
