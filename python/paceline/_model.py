"""Models without learning: construction, environments, acting, weights and files."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import secrets
import tempfile
import warnings
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar, cast

import numpy as np

from . import _lib, _weights
from ._attributes import Attributes, constructor_parameters
from ._checkpoints import check_bounds, host_data, of_sb3, settings_of, spaces_of, stored_keywords
from ._environments import Environments, apply_preset
from ._files import File, reading, writing
from ._native import Native
from .compat import _sb3_file
from .config import Config, Values, check_keywords, check_layers, describe
from .envs._source import Source
from .errors import BusyError, ConfigError, notice
from .policy import Policy
from .spaces import ActionLayout, Array, ObsLayout

if TYPE_CHECKING:
    from .compat._torch import Copies
    from .learning import Loop

Self = TypeVar("Self", bound="Model")
Init = TypeVar("Init", bound=Callable[..., None])


def constructor(init: Init) -> Init:
    """Makes the __init__ of a method's class from its signature, the table of the method's keywords.

    The library supplies the default of every keyword that the caller leaves out.
    """
    signature = inspect.signature(init)

    @functools.wraps(init)
    def make(self: Model, *args: Any, **keywords: Any) -> None:
        check_keywords(type(self).__name__, keywords, signature.parameters)
        given = signature.bind(self, *args, **keywords).arguments
        given = {**self._defaults(given), **given}
        self._build(Config(self.METHOD), given["env"], {name: given[name] for name in given if name not in ("self", "env")})

    return cast(Init, make)


class Model(Attributes):
    """The part of Trainer that does not learn: a network with its environments and files."""

    REPLAYS: ClassVar[bool] = False  # whether the method has a replay memory
    CLIPS: ClassVar[bool] = False  # whether callbacks' locals have stable-baselines3's clipped_actions

    # ------------------------------------------ defined by the method's class

    @staticmethod
    def _translate(keywords: Mapping[str, Any]) -> Values:
        """The settings that the constructor's keywords stand for."""
        raise NotImplementedError

    @classmethod
    def _defaults(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """The values of keywords that the caller left out, where they are not the library's defaults."""
        return {}

    def _kept(self, config: Config) -> dict[str, Any]:
        """Keywords of a file or a preset on which the meaning of others depends."""
        return {}

    def _exploration_keywords(self) -> dict[str, Any]:
        """The keywords of Policy.act for predict(deterministic=False)."""
        raise NotImplementedError

    def _print_made(self) -> None:
        """Prints a line about the new model if verbose is set."""

    def _take_sb3(self, saved: _sb3_file.Saved) -> None:
        """Sets the weights, and other state apart from the settings, from a stable-baselines3 file."""
        self.set_parameters({"policy": saved.parameters(self._native.parameters.layout)})

    # ---------------------------------------------------------- construction

    @classmethod
    def from_preset(cls: type[Self], preset: str, env: Any, **overrides: Any) -> Self:
        """Makes a model with a preset, a documented table of settings. Keywords override its settings.

        `paceline presets` lists the presets: "tuned" (values that solve built-in environments) and
        those of papers. `paceline preset NAME ENV` prints one. A preset with a recipe for Atari games
        also sets it for another project's id, such as "ALE/Breakout-v5", and a warning says so.
        """
        config = Config(cls.METHOD)
        env = apply_preset(config, preset, env)
        self = cls.__new__(cls)
        self._build(config, env, overrides, keep=True)
        return self

    @classmethod
    def load(
        cls: type[Self],
        path: File,
        env: Any = None,
        device: object = "auto",
        custom_objects: Mapping[str, Any] | None = None,
        print_system_info: bool = False,
        force_reset: bool = True,
        **overrides: Any,
    ) -> Self:
        """Makes a model from a checkpoint of save, at the saved step, or from a stable-baselines3 file.

        path: path of a file, or a file object. "x" is "x.zip" if there is no file "x". From a
            stable-baselines3 file the model takes the weights, the settings and exploration_rate;
            its counts begin at 0.
        env: environments to continue in. If the file has the experience (save(replay=True)), their
            number must be the saved one; an id stands for this number. None: the built-in
            environments of the saved model. If the saved model had other environments, the new
            model has none: predict, evaluate(env) and save work, and learn works after set_env.
            The first learn gives Gymnasium environments a seed that follows from the saved seed
            and the saved step.
        overrides: keywords that do not change the saved state, such as num_threads or verbose.
            custom_objects may have such keywords, too.

        learn(remaining_steps, reset_num_timesteps=False) continues the run. The results have the
        same bits as without the interruption if the file has the experience, the environments are
        built in, and remaining_steps is the number of steps that were left, because the schedules
        depend on it. A DQN without its replay memory first takes learning_starts random steps,
        which a warning reports, unless load_replay_buffer is called before learn. predict uses the
        exploration_rate of the saved step in either case.
        """
        if print_system_info:
            print(_lib.lib().paceline_build_info().decode())
        keywords = {"device": device} | {k: v for k, v in (custom_objects or {}).items() if k in cls.keywords()} | overrides
        with reading(path) as name:
            if _sb3_file.is_one(name):
                return of_sb3(cls, _sb3_file.read(name), env, keywords)
            _sb3_file.refuse_pickle(name, f"{cls.__name__}.load")
            config = settings_of(name, cls)
            if env is None:
                env = config.get("env") or spaces_of(name, config)
            self = cls.__new__(cls)
            self._build(config, env, keywords, keep=True)
            try:
                check_bounds(name, self.action_layout)
                self._native.load(name)
            except BaseException:
                self._abandon()
                raise
        self._begun = True
        # Not the seed alone, which would repeat the first episodes.
        self._env_seed = int(np.random.SeedSequence((int(self.setting("seed")), self.num_timesteps)).generate_state(1)[0]) >> 1
        return self

    def _build(self, config: Config, env: Any, keywords: Mapping[str, Any], keep: bool = False) -> None:
        """Makes the trainer. keep: other settings than the keywords' stay as config has them; else they get defaults."""
        check_keywords(type(self).__name__, keywords, [*constructor_parameters(type(self))])
        given = dict(keywords)
        self._given = stored_keywords(config.get("host_data")) | given
        self.verbose: int = self._given.get("verbose", 0)
        self.tensorboard_log: str | None = self._given.get("tensorboard_log")
        seed, env_kwargs, num_envs = (given.pop(name, None) for name in ("seed", "env_kwargs", "num_envs"))
        translated = self._translate((self._kept(config) if keep else {}) | given)
        if keep and num_envs is None and isinstance(env, (str, tuple)):  # an id or spaces, which have no number
            num_envs = int(config.get("num_envs"))
        environments = Environments(env, num_envs, env_kwargs, self.REPLAYS)
        self._begun = False
        self._loop: Loop | None = None  # the learn in progress
        self._cut_episodes = False  # experience was loaded, so the next learn begins new episodes
        self._acting: Policy | None = None
        self._acting_key: tuple[int, ...] = ()
        self._predictions = 0
        self._draws: np.random.Generator | None = None  # for replay_buffer.sample
        self._notified: set[str] = set()  # warnings given by the model's policies
        _lib.close_at_exit(self)
        try:
            config.update(environments.settings(num_envs, config if keep else None))
            if seed is not None or not keep:
                config.set("seed", secrets.randbits(31) if seed is None else seed)
            self._env_seed: int | None = None if seed is None else int(config.get("seed"))  # see _first_seed
            made = not keep or not config.get("host_data")  # not from a file, which has the setting
            if made and environments.source is not None and environments.source.layout.planes:
                config.set("normalize_images", "false")
            config.update(translated)
            if environments.source is not None and config.get("policy") == "CnnPolicy":
                environments.source.layout.check_convolutions()
            self._set_trainer(self._make_native(config, environments.source), environments)
        except BaseException:
            with contextlib.suppress(Exception):  # as _abandon
                environments.close()
            raise
        try:
            check_layers((keywords.get("policy_kwargs") or {}).get("net_arch"), self.policy_name, translated)
        except ConfigError:
            self._abandon()
            raise
        self._native.warn_of_notices()
        if self.verbose:
            self._print_made()

    def _make_native(self, config: Config, source: Source | None) -> Native:
        """Makes the library's trainer and closes config."""
        spec = None if source is None else (source.layout.spec(), source.actions.spec())
        config.set("host_data", host_data(source, self._given, config.get("action_masks") == "true"))
        native = Native(config, spec)
        config.close()
        return native

    def _set_trainer(self, native: Native, environments: Environments) -> None:
        """Makes native the model's trainer and reads the settings that it fixes."""
        self._native = native
        self._seed, self.policy_name = int(self.setting("seed")), self.setting("policy")
        self._set_environments(environments)
        self._copies: Copies | None = None  # the torch modules of the property policy
        self._show()
        most = int(self.setting("stats_window_size"))
        self.ep_success_buffer: deque[float] = deque(maxlen=most)  # infos["is_success"] of the latest episodes

    def _set_environments(self, environments: Environments) -> None:
        self._environments, source = environments, environments.source
        self.obs_layout: ObsLayout
        self.action_layout: ActionLayout
        self.obs_layout, self.action_layout = self._native.layouts() if source is None else (source.layout, source.actions)
        if source is not None and self.setting("action_masks") == "true":
            source.masked = True
            source.rows.use_masks()

    # ---------------------------------------------------------- environments

    def _change_environments(self, now: Environments) -> None:
        """Changes to other environments. On an error the model stays as it was."""
        source = now.source
        if source is None and self._source is None:
            own = self._env_options()
            if (now.name, now.number or self.n_envs, now.options or own) != (self.env_name, self.n_envs, own):
                raise ConfigError(
                    f"env: {now.env!r}, must be {self.n_envs} of the built-in {self.env_name}, which the library steps for this model"
                )
        if source is not None:
            new = (source.layout.shape, source.layout.dtype, source.actions.key, source.num_envs)
            have = (self.obs_layout.shape, self.obs_layout.dtype, self.action_layout.key, self.n_envs)
            if new != have:
                raise ConfigError(f"env: (shape, dtype, actions, num_envs) is {new}, must be {have}")
            source.actions.check_bounds("env", self.action_layout)
        if now.trainer_key() == self._environments.trainer_key():
            self._set_environments(now)
            return
        # The layouts or the autoreset mode differ, so a new trainer takes over the whole state.
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.zip")
            self.save(path, replay=True)
            config = Config.load(path)
            config.update(now.stepped() | self._placement())
            native = self._make_native(config, source)
            try:
                native.load(path)
            except BaseException:
                native.close()
                raise
        self._native.close()
        self._set_trainer(native, now)
        self._acting_key = ()

    def _placement(self) -> Values:
        """The settings of where things are computed, which a file holds as "auto"."""
        names = [s.name for s in describe(self.METHOD) if s.name in ("device", "replay_device")]
        return {name: self.setting(name) for name in names}

    def similar_env(self) -> tuple[str, dict[str, Any]] | None:
        """(name or id, keywords) to make one more environment of the model's kind; None if the caller gave an object."""
        return self._environments.similar(self._env_options())

    @property
    def observation_space(self) -> Any:
        return self.obs_layout.space() if self._source is None else self._source.spaces()[0]

    @property
    def action_space(self) -> Any:
        return self.action_layout.space() if self._source is None else self._source.spaces()[1]

    # ------------------------------------------------------------------ acting

    def predict(
        self,
        observation: object,
        state: Any = None,
        episode_start: object = None,
        deterministic: bool = False,
        action_masks: object = None,
    ) -> tuple[Array, Any]:
        """Returns (actions, state) for one observation or a batch. state is returned unchanged.

        deterministic: True for greedy actions, False for actions as during learning. DQN and PQN
            then take a random action with probability model.exploration_rate; A2C and PPO draw from
            their distribution. Rows are independent. The draws depend on model.seed and the number
            of calls.
        observation: images may be [C, H, W], [H, W, C] or [H, W].
        action_masks: as in Policy.act.
        """
        policy = self._current_policy()
        if self._copies is not None and self._copies.touched():
            self._warn_of_copies()
        if deterministic:
            return policy.act(observation, action_masks=action_masks), state
        self._predictions += 1
        drawn: Mapping[str, Any] = {"seed": self.seed, "counter": self._predictions, **self._exploration_keywords()}
        return policy.act(observation, action_masks=action_masks, **drawn), state

    def policy_snapshot(self) -> Policy:
        """A frozen copy of the network at this step. The caller closes it."""
        self._check_open()
        self._warn_of_copies()
        policy = Policy(self._native.snapshot(), self.obs_layout, self.action_layout)
        policy.notified = self._notified
        return policy

    def _current_policy(self) -> Policy:
        """A policy with the current weights, copied again only after a step or an update."""
        stats = self._native.stats()
        key = (int(stats.num_timesteps), int(stats.updates))
        if self._acting is None or key != self._acting_key:
            policy = self.policy_snapshot()
            if self._acting is not None:
                self._acting.close()
            self._acting, self._acting_key = policy, (key[0], int(self._native.stats().updates))
        return self._acting

    # ------------------------------------------------------ weights and files

    def _weights(self) -> dict[str, Array]:
        """Copies of all arrays, after the updates due at this step."""
        self._native.finish()
        return self._native.parameters.read()

    @property
    def policy(self) -> Any:
        """A copy of the networks as a torch module with stable-baselines3's parameter names.

        It needs torch, and stable-baselines3 for the methods of its policy classes. The property
        returns the same object until the model's weights change. Its parameters can be optimised,
        as in behaviour cloning; model.set_parameters(model.policy.state_dict()) then copies them
        into the model. Until then learn, predict, evaluate, policy_snapshot and save use the
        model's weights, and the first of these calls after a change gives a warning.
        """
        if self._copies is None:
            from .compat._torch import Copies

            self._copies = Copies(self)
        return self._copies.current(self._weights())

    def _warn_of_copies(self) -> None:
        """Warns, once for each change, if the caller has changed the copy in policy, which the model does not read."""
        if self._copies is not None and self._copies.changed(self._weights):
            notice(
                "model.policy: changed, but it is a copy: the model keeps its own weights; "
                "model.set_parameters(model.policy.state_dict()) copies the changed weights into the model"
            )

    def get_parameters(self) -> dict[str, dict[str, Any]]:
        """Returns {"policy": {name: array}}, copies with stable-baselines3's names and shapes.

        "policy.optimizer" has the optimiser's param_groups in the form of PyTorch's state_dict(),
        without its state. Only files of save have the optimiser's state.
        """
        return {"policy": self._weights(), "policy.optimizer": self._optimizer()}

    def set_parameters(self, load_path_or_dict: Mapping[str, Any] | File, exact_match: bool = True, device: str = "auto") -> None:
        """Sets the weights.

        load_path_or_dict: the result of get_parameters of this model or of stable-baselines3's, the
            result of model.policy.state_dict(), or a file (path or file object) of save, Policy.save
            or stable-baselines3. The optimiser's state ("policy.optimizer") is ignored. Damage to a
            file's target network is found by load alone.
        exact_match: True requires every name of the model and no other; False sets the names present.
        device: ignored; the model keeps its device.
        """
        own = self._native.parameters
        arrays, names = _weights.given(load_path_or_dict, own.layout, self.sets, exact_match)
        own.write(arrays, exact_match, names)
        self._acting_key = ()

    def save(self, path: File, exclude: object = None, include: object = None, *, replay: bool = False) -> None:
        """Writes a checkpoint for load and Policy.load.

        path: path of a file, or a file object. "x" becomes "x.zip"; missing folders are made. An
            older file is replaced at the end of writing and stays if writing fails.
        exclude, include: ignored.
        replay: True adds the experience (DQN's replay memory) and the states of built-in
            environments, so that a loaded model continues with the same bits.
        """
        self._warn_of_copies()
        with writing(path) as name:
            self._native.save(name, experience=replay)

    def save_replay_buffer(self, path: File) -> None:
        """Writes a checkpoint with the experience; "x" becomes "x.pkl".

        load reads the whole file, load_replay_buffer its experience. The format is Paceline's, not
        stable-baselines3's pickle.
        """
        with writing(path, "pkl") as name:
            self._native.save(name, experience=True)

    def load_replay_buffer(self, path: File, truncate_last_traj: bool = True) -> None:
        """Replaces the experience with the experience of a file of save_replay_buffer or save(replay=True).

        The episodes in progress are cut (truncated). truncate_last_traj must be True. During learn the call
        raises BusyError.

        With prioritized the priorities are loaded, too. If the file has none, or those of other settings,
        its transitions get the priority of new ones, and a warning names the setting.
        """
        self._refuse_during_learn("load_replay_buffer")
        if not truncate_last_traj:
            why = "the environments are in other states than when the file was written"
            raise ConfigError(f"truncate_last_traj: False, must be True: {why}")
        with reading(path, "pkl") as name:
            _sb3_file.refuse_model(name, "a model file has no experience: load_replay_buffer reads files of save_replay_buffer")
            _sb3_file.refuse_pickle(name, "load_replay_buffer")
            self._native.load_experience(name)
        self._cut_episodes = True
        self._native.warn_of_notices()

    # ------------------------------------------------------------------ ending

    @property
    def closed(self) -> bool:
        return self._native.handle.closed

    def close(self) -> None:
        """Ends the threads and frees the memory, also if closing the environments raises an exception."""
        if self._acting is not None:
            self._acting.close()
            self._acting = None
        try:
            self._environments.close()
        finally:
            self._native.close()

    def _abandon(self) -> None:
        """Closes the model after an error that the caller raises; an error of the environments' close does not replace it."""
        with contextlib.suppress(Exception):
            self.close()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __del__(self) -> None:
        native = self.__dict__.get("_native")
        if native is not None and not native.handle.closed and native.handle.owned:
            warnings.warn(f"{self!r} was not closed", ResourceWarning, stacklevel=2, source=self)
            self.close()

    _exit = __del__

    def __reduce__(self) -> NoReturn:
        name = type(self).__name__
        raise TypeError(
            f"a {name} cannot be pickled or copied: its threads and environments belong to this process; "
            f"use save(path, replay=True) and {name}.load(path), or pickle its policy_snapshot()"
        )

    def __repr__(self) -> str:
        return f"<paceline.{type(self).__name__} on {self._label}{', closed' if self.closed else ''}>"

    def _refuse_during_learn(self, call: str) -> None:
        if self._loop is not None:
            raise BusyError(f"{call}: learn is in progress, must be called before or after it")

    def _check_open(self) -> None:
        if self.closed:
            _lib.refuse_closed("model")
