"""What acts: how a model is made and changed, its environments, its weights and its files."""

from __future__ import annotations

import functools
import inspect
import json
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
from ._checkpoints import host_data, kept_keywords, of_sb3, settings_of, spaces_of
from ._environments import Environments
from ._files import File, reading, writing
from ._native import Native
from .compat import _sb3_file
from .config import Config, Values, check_keywords, check_layers
from .envs.vector import Source, built_in, label
from .errors import ConfigError, notice
from .policy import Policy
from .spaces import ActionLayout, Array, ObsLayout

if TYPE_CHECKING:
    from .compat._torch import Copies

Self = TypeVar("Self", bound="Model")
Init = TypeVar("Init", bound=Callable[..., None])


def constructor(init: Init) -> Init:
    """The __init__ of a method's class, of which only the signature counts: it is the table of the method's keywords.
    Those that are not given have the library's defaults."""
    signature = inspect.signature(init)

    @functools.wraps(init)
    def make(self: Model, *args: Any, **keywords: Any) -> None:
        check_keywords(type(self).__name__, keywords, signature.parameters)
        given = signature.bind(self, *args, **keywords).arguments
        self._start(Config(self.METHOD), given["env"], {name: given[name] for name in given if name not in ("self", "env")})

    return cast(Init, make)


class Model(Attributes):
    """What Trainer is without learning."""

    REPLAYS: ClassVar[bool] = False  # whether it learns from what was observed long before

    # --------------------------------------------- what a method's class says

    @staticmethod
    def _translate(keywords: Mapping[str, Any]) -> Values:
        """The settings that the constructor's keywords stand for."""
        raise NotImplementedError

    def _exploring(self) -> dict[str, Any]:
        """Policy.act's keywords for predict where it is not deterministic."""
        raise NotImplementedError

    def _print_made(self) -> None:
        """Prints what was made, where verbose asks for it."""

    def _take_sb3(self, saved: _sb3_file.Saved) -> None:
        """Takes over what one of stable-baselines3's files has beside the settings."""
        self.set_parameters({"policy": saved.parameters(self._native.parameters.layout)})

    # ------------------------------------------------------------- making it

    @classmethod
    def from_preset(cls: type[Self], preset: str, env: Any, **overrides: Any) -> Self:
        """A model with a documented table of settings, any of which a keyword overrides.

        `paceline presets` lists the tables, "tuned" (values that solve built-in
        environments) and those of papers; `paceline preset NAME ENV` prints one.
        """
        config = Config(cls.METHOD)
        config.preset(preset, built_in(env)[0] or getattr(getattr(env, "spec", None), "id", None) or "")
        self = cls.__new__(cls)
        self._start(config, env, overrides, keep=True)
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
        """The model that save wrote, at the step where it was, or one of stable-baselines3's.

        path: of a file; "x" is "x.zip" where there is no file "x". A file object is read. Of
            stable-baselines3's files the weights, the settings and exploration_rate are taken, and the
            counts begin at 0.
        env: environments to go on in; as many as there were, where the file has the experience (replay).
            Without them, those built in that it was trained on, or none: predict, evaluate(env) and save
            work, and learn after set_env.
        overrides: keywords that do not shape the state, such as num_threads or verbose.
            custom_objects has some as well, under the same names.

        learn(rest, reset_num_timesteps=False) goes on where the saved one was: with the same bits where
        the file has the experience and environments that are built in, and rest is what was left of the run
        (its schedules then have the same end). DQN without its replay memory first
        fills one: learning_starts random steps come before updates go on, which a warning says, unless
        load_replay_buffer comes between. predict acts with the schedule's exploration_rate of the
        saved step all the same.
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
            self._start(config, env, keywords, keep=True)
            try:
                self._native.load(name)
            except BaseException:
                self.close()
                raise
        self._begun = True
        return self

    def _start(self, config: Config, env: Any, keywords: Mapping[str, Any], keep: bool = False) -> None:
        """Makes the trainer. keep: settings that no keyword names stay the config's, not the defaults."""
        check_keywords(type(self).__name__, keywords, [*constructor_parameters(type(self))])
        given = dict(keywords)
        self._given = kept_keywords(config.get("host_data")) | given
        self._given_seed: int | None = given.pop("seed", None)
        self.verbose: int = self._given.get("verbose", 0)
        self.tensorboard_log: str | None = self._given.get("tensorboard_log")
        env_kwargs, num_envs = given.pop("env_kwargs", None), given.pop("num_envs", None)
        translated = self._translate(given)
        environments = Environments(env, num_envs, env_kwargs, self.REPLAYS)
        self._begun = False
        self._cut = False  # experience was loaded: the episodes in progress are no part of it
        self._acting: Policy | None = None
        self._acting_key: tuple[int, ...] = ()
        self._predictions = 0
        self._draws: np.random.Generator | None = None  # of replay_buffer
        self._notified: set[str] = set()  # what its policies have said
        _lib.close_at_exit(self)
        try:
            config.update(environments.settings(num_envs, config if keep else None))
            if self._given_seed is not None or not keep:
                config.set("seed", secrets.randbits(31) if self._given_seed is None else self._given_seed)
            config.update(translated)
            self._adopt(self._made(config, environments.source), environments)
        except BaseException:
            environments.close()
            raise
        try:
            check_layers((keywords.get("policy_kwargs") or {}).get("net_arch"), self.policy_name, translated)
        except ConfigError:
            self.close()
            raise
        self._native.say_notices()
        if self.verbose:
            self._print_made()

    def _made(self, config: Config, source: Source | None) -> Native:
        """The library's trainer; closes config."""
        spec = None if source is None else (source.layout.spec(), source.actions.spec())
        config.set("host_data", host_data(source, self._given, config.get("action_masks") == "true"))
        native = Native(config, spec)
        config.close()
        return native

    def _adopt(self, native: Native, environments: Environments) -> None:
        """Keeps what does not change while the library's trainer lives."""
        self._native = native
        self._seed, self.policy_name = int(self.setting("seed")), self.setting("policy")
        self._step_in(environments)
        self._copies: Copies | None = None  # of the networks, for policy
        self._show()
        most = int(self.setting("stats_window_size"))
        self.ep_success_buffer: deque[float] = deque(maxlen=most)  # infos["is_success"] of episodes

    def _step_in(self, environments: Environments) -> None:
        self._environments, source = environments, environments.source
        self.obs_layout: ObsLayout
        self.action_layout: ActionLayout
        self.obs_layout, self.action_layout = self._native.layouts() if source is None else (source.layout, source.actions)
        if source is not None and self.setting("action_masks") == "true":
            source.masked = True
            source.rows.use_masks()

    # ---------------------------------------------------------- environments

    def get_env(self) -> Any:
        """The environments as a VecEnv of stable-baselines3's where that is installed, else as they were given.

        Where they are stepped from Python these are the model's own, and its episodes are cut
        when they are used. Of built-in environments it is another vector of the same kind; without
        stable-baselines3 make_vec's.
        """
        return self._environments.vec_env(self.n_envs, self.seed, self._env_options())

    def _env_options(self) -> dict[str, Any]:
        """What the library's environments are made with."""
        return dict(json.loads(self.setting("env_options") or "{}"))

    def _change(self, now: Environments) -> None:
        """Goes on in other environments; on an error nothing has changed."""
        source = now.source
        if source is None and self._source is None:
            own = self._env_options()
            if (now.name, now.number or self.n_envs, now.options or own) != (self.env_name, self.n_envs, own):
                raise ConfigError(
                    f"env: {now.env!r}, this model steps {self.n_envs} of the built-in {self.env_name} itself and cannot change to another"
                )
        if source is not None:
            new = (source.layout.shape, source.layout.dtype, source.actions.n, source.num_envs)
            have = (self.obs_layout.shape, self.obs_layout.dtype, self.action_layout.n, self.n_envs)
            if new != have:
                raise ConfigError(f"env: (shape, dtype, actions, num_envs) is {new}, must be {have}")
        if now.made_for() == self._environments.made_for():
            self._step_in(now)
            return
        # The library's trainer is made anew, and takes everything over.
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.zip")
            self.save(path, replay=True)
            config = Config.load(path)
            config.update(now.stepped())
            native = self._made(config, source)
            try:
                native.load(path)
            except BaseException:
                native.close()
                raise
        self._native.close()
        self._adopt(native, now)
        self._acting_key = ()

    def similar_env(self) -> tuple[str, dict[str, Any]] | None:
        """(name, keywords) of one environment like those that it learns in: the library's name, or the id that it was
        made with; None where it was given environments."""
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
        """(actions, state) for one observation or a batch.

        deterministic: greedy actions. Otherwise for each row by itself as while
        learning: DQN's is with probability model.exploration_rate a random action, A2C's and PPO's are
        drawn from their distribution; model.seed and the number of calls decide what is
        drawn. Images may be [C, H, W], [H, W, C] or [H, W]. action_masks: as in Policy.act.
        """
        policy = self._current_policy()
        if deterministic:
            return policy.act(observation, action_masks=action_masks), state
        self._predictions += 1
        drawn: Mapping[str, Any] = {"seed": self.seed, "counter": self._predictions, **self._exploring()}
        return policy.act(observation, action_masks=action_masks, **drawn), state

    def policy_snapshot(self) -> Policy:
        """A frozen copy of the network as it is at this step; close it after use."""
        self._check_open()
        policy = Policy(self._native.snapshot(), self.obs_layout, self.action_layout)
        policy.notified = self._notified
        return policy

    def _current_policy(self) -> Policy:
        """A policy with the weights of this step, copied only when they have changed."""
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
        """A copy of the networks as a torch module with stable-baselines3's parameter names; needs torch, and
        stable-baselines3 for all of its policy's methods.

        It is the same object until the model's weights change, and its parameters can be optimised, as in behaviour
        cloning. The model does not see that before model.set_parameters(model.policy.state_dict()).
        """
        if self._copies is None:
            from .compat._torch import Copies

            self._copies = Copies(self)
        return self._copies.current(self._weights())

    def _warn_of_copies(self) -> None:
        """Says that learn does not see how the caller has trained policy."""
        if self._copies is not None and self._copies.trained():
            notice(
                "model.policy was changed, and is a copy: learn goes on from the model's weights; "
                "model.set_parameters(model.policy.state_dict()) gives the model those of the copy"
            )

    def get_parameters(self) -> dict[str, dict[str, Any]]:
        """{"policy": {name: array}}, copies, in stable-baselines3's names and shapes.

        "policy.optimizer" has the optimiser's param_groups as PyTorch's state_dict() has them, and no state: that of
        the parameters is in save's files alone.
        """
        return {"policy": self._weights(), "policy.optimizer": self._optimizer()}

    def set_parameters(self, parameters: Mapping[str, Any] | File, exact_match: bool = True, device: str = "auto") -> None:
        """Sets weights from get_parameters, this model's or stable-baselines3's, or from a file.

        parameters: also model.policy.state_dict(), or the path of a file of save, Policy.save or
        stable-baselines3's, as load reads them, or a file object. exact_match: every name must be there and
        nothing else; False takes what there is. The optimiser's state ("policy.optimizer" of stable-baselines3's) is not taken.
        device: is not read; the model's own stays.
        """
        own = self._native.parameters
        own.write(_weights.given(parameters, own.layout, self.sets, exact_match), exact_match)
        self._acting_key = ()

    def save(self, path: File, exclude: object = None, include: object = None, *, replay: bool = False) -> None:
        """Writes a checkpoint for load (and Policy.load).

        path: of a file; "x" becomes "x.zip", and folders are made. A file object is written to.
        exclude, include: are not read; a checkpoint has everything but the experience.
        replay: everything, the experience (DQN's replay memory) and the environments'
        states too, so that the model that loads it goes on with the same bits (where the
        environments are built in). An older file at path is replaced at the end, or kept
        if writing fails.
        """
        with writing(path) as name:
            self._native.save(name, experience=replay)

    def save_replay_buffer(self, path: File) -> None:
        """Writes a checkpoint with the experience; "x" becomes "x.pkl". load reads it, too, and load_replay_buffer the
        experience alone. It is not stable-baselines3's pickle."""
        with writing(path, "pkl") as name:
            self._native.save(name, experience=True)

    def load_replay_buffer(self, path: File, truncate_last_traj: bool = True) -> None:
        """Replaces the experience by that of a file of save_replay_buffer, or of save with replay. The episodes in
        progress are cut (truncated); truncate_last_traj must be True."""
        if not truncate_last_traj:
            why = "the environments are elsewhere than when the file was written"
            raise ConfigError(f"truncate_last_traj: False, must be True: {why}")
        with reading(path, "pkl") as name:
            _sb3_file.refuse_model(name, "this file has no experience: load_replay_buffer reads files of save_replay_buffer")
            _sb3_file.refuse_pickle(name, "load_replay_buffer")
            self._native.load_experience(name)
        self._cut = True

    # ------------------------------------------------------------------ ending

    @property
    def closed(self) -> bool:
        return self._native.handle.closed

    def close(self) -> None:
        """Ends the threads and frees the memory."""
        if self._acting is not None:
            self._acting.close()
            self._acting = None
        self._environments.close()
        self._native.close()

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
            f"a {name} cannot be pickled or copied: it has threads and environments of this process; "
            f"save(path, replay=True) and {name}.load(path) there, or pickle its policy_snapshot()"
        )

    def __repr__(self) -> str:
        return f"<paceline.{type(self).__name__} on {label(self.env)}{', closed' if self.closed else ''}>"

    def _check_open(self) -> None:
        if self.closed:
            _lib.refuse_closed("model")
