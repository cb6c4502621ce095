"""What a model writes to files, and is made from."""

from __future__ import annotations

import inspect
import json
import os
import warnings
from collections.abc import Mapping
from typing import Any

from . import _ffi, _lib
from ._files import File, reading, writing
from ._weights import of_file
from .compat import _sb3_file
from .config import Config
from .envs.vector import Source, SpacesSource
from .errors import ConfigError
from .policy import Policy
from .spaces import to_kept

# The Python class's own keywords with the types that they have in a file.
_LOCAL: dict[str, tuple[type, ...]] = {"verbose": (int,), "tensorboard_log": (str,), "policy_kwargs": (dict,)}


def host_data(source: Source | None, keywords: Mapping[str, Any], masks: bool) -> str:
    """What a file keeps for Python (the setting host_data): the layouts of environments that Python steps, whether it learns
    with action masks there, and the class's own keywords."""
    kept: dict[str, Any] = {} if source is None else to_kept(source.layout, source.actions) | {"action_masks": masks}
    return json.dumps({"python": kept | {"keywords": {name: keywords.get(name) for name in _LOCAL}}}, default=_plain)


def kept_keywords(text: str) -> dict[str, Any]:
    """The class's own keywords in a text of host_data's; none of a text that another host wrote."""
    try:
        kept = json.loads(text)["python"]["keywords"]
        return {name: kept[name] for name, types in _LOCAL.items() if isinstance(kept.get(name), types)}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def _plain(value: Any) -> Any:
    """What JSON has no form for: classes by their names, which constructors take as well, paths, NumPy's numbers."""
    if isinstance(value, type):
        return value.__name__
    if hasattr(value, "__fspath__"):
        return os.fsdecode(value)
    return value.tolist() if hasattr(value, "tolist") else str(value)


class Checkpoints:
    """Trainer's load and save."""

    _acting_key: tuple[int, ...]

    @classmethod
    def load(
        cls: Any,
        path: File,
        env: Any = None,
        device: Any = "auto",
        custom_objects: Mapping[str, Any] | None = None,
        print_system_info: bool = False,
        force_reset: bool = True,
        **overrides: Any,
    ) -> Any:
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
                return cls._of_sb3(_sb3_file.read(name), env, keywords)
            _sb3_file.refuse_pickle(name, f"{cls.__name__}.load")
            config = Config.load(name)
            if config.method != cls.METHOD:
                raise ConfigError(f"{name}: a run of {config.method!r}, must be of {cls.METHOD!r} for {cls.__name__}.load")
            if env is None and not config.get("env"):
                with Policy.load(name) as policy:
                    both = policy.obs_layout.space(), policy.action_layout.space()
                env = SpacesSource(*both, int(config.get("num_envs")), config.get("autoreset"))
            self = cls.__new__(cls)
            self._start(config, config.get("env") if env is None else env, keywords, keep=True)
            try:
                _lib.lib().paceline_trainer_load(self._native.value, _lib.encode(name))
            except BaseException:
                self.close()
                raise
        self._begun = True
        return self

    @classmethod
    def _of_sb3(cls: Any, saved: Any, env: Any, keywords: dict[str, Any]) -> Any:
        """The model that one of stable-baselines3's files stands for; saved: a _sb3_file.Saved."""
        if cls.METHOD == "pqn":
            raise ConfigError("a file of stable-baselines3's, which has no PQN: must be one that PQN.save wrote")
        if saved.q_learning != (cls.METHOD == "dqn"):
            kinds = "Q-values", "a policy and values"
            raise ConfigError(
                f"a network with {kinds[not saved.q_learning]}, must have {kinds[cls.METHOD != 'dqn']} for {cls.__name__}.load"
            )
        if env is None:
            observation_space, action_space = saved.spaces()
            env = SpacesSource(observation_space, action_space, saved.num_envs)
        make: Any = cls  # each method has keywords of its own
        self = make(env=env, **saved.keywords_for(cls.keywords(), keywords, cls._accepts), **keywords)
        try:
            self._take_sb3(saved)
        except BaseException:
            self.close()
            raise
        return self

    @classmethod
    def _accepts(cls: Any, keywords: dict[str, Any]) -> bool:
        """Whether the constructor takes these keywords, all others being its defaults."""
        method = next(base for base in cls.__mro__ if "METHOD" in vars(base))  # not a class of the user's with keywords of its own
        parameters = inspect.signature(method).parameters
        defaults = {name: parameter.default for name, parameter in parameters.items() if parameter.default is not parameter.empty}
        for name in ("seed", "num_envs", "env_kwargs"):  # which are no settings
            defaults.pop(name, None)
        config = Config(cls.METHOD)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                config.update(cls._translate(defaults | keywords))
        except ConfigError:
            return False
        finally:
            config.close()
        return True

    def _take_sb3(self: Any, saved: Any) -> None:
        """Takes over what one of stable-baselines3's files has beside the settings; saved: a _sb3_file.Saved."""
        self.set_parameters({"policy": saved.parameters(self.get_parameters()["policy"])})

    def save(self: Any, path: File, exclude: Any = None, include: Any = None, *, replay: bool = False) -> None:
        """Writes a checkpoint for load (and Policy.load).

        path: of a file; "x" becomes "x.zip", and folders are made. A file object is written to.
        exclude, include: are not read; a checkpoint has everything but the experience.
        replay: everything, the experience (DQN's replay memory) and the environments'
        states too, so that the model that loads it goes on with the same bits (where the
        environments are built in). An older file at path is replaced at the end, or kept
        if writing fails.
        """
        self._native.finish()
        with writing(path) as name:
            _lib.lib().paceline_trainer_save(self._native.value, _lib.encode(name), _ffi.SAVE_EXPERIENCE if replay else 0)

    def set_parameters(
        self: Any, parameters: Mapping[str, Mapping[str, Any]] | File, exact_match: bool = True, device: str = "auto"
    ) -> None:
        """Sets weights from get_parameters, this model's or stable-baselines3's, or from a file.

        parameters: also model.policy.state_dict(), or the path of a file of save, Policy.save or
        stable-baselines3's, as load reads them, or a file object. exact_match: every name must be there and
        nothing else; False takes what there is. The optimiser's state ("policy.optimizer" of stable-baselines3's) is not taken.
        device: is not read; the model's own stays.
        """
        if isinstance(parameters, (str, bytes, os.PathLike)) or hasattr(parameters, "read"):
            with reading(parameters) as name:
                parameters = {"policy": of_file(name, self.get_parameters()["policy"], self.sets, exact_match)}
        if isinstance(parameters, Mapping) and parameters.keys() & self._parameters.layout.keys():
            parameters = {"policy": parameters}
        if not isinstance(parameters, Mapping) or "policy" not in parameters:
            raise ConfigError(
                "parameters: must be a dict with the key 'policy', as get_parameters gives, model.policy.state_dict() or the path of a file"
            )
        extra = set(parameters) - {"policy", "policy.optimizer"}
        if extra and exact_match:
            raise ConfigError(f"parameters: {sorted(extra)} cannot be set; exact_match=False takes 'policy' only")
        self._parameters.write(parameters["policy"], exact_match)
        self._acting_key = ()

    def save_replay_buffer(self: Any, path: File) -> None:
        """Writes a checkpoint with the experience; "x" becomes "x.pkl". load reads it, too, and load_replay_buffer the
        experience alone. It is not stable-baselines3's pickle."""
        self._native.finish()
        with writing(path, "pkl") as name:
            _lib.lib().paceline_trainer_save(self._native.value, _lib.encode(name), _ffi.SAVE_EXPERIENCE)

    def load_replay_buffer(self: Any, path: File, truncate_last_traj: bool = True) -> None:
        """Replaces the experience by that of a file of save_replay_buffer, or of save with replay. The episodes in
        progress are cut (truncated); truncate_last_traj must be True."""
        if not truncate_last_traj:
            raise ConfigError("truncate_last_traj: False, must be True: the environments are elsewhere than when the file was written")
        with reading(path, "pkl") as name:
            _sb3_file.refuse_model(name, "this file has no experience: load_replay_buffer reads files of save_replay_buffer")
            _sb3_file.refuse_pickle(name, "load_replay_buffer")
            _lib.lib().paceline_trainer_load_experience(self._native.value, _lib.encode(name))
        self._cut = True
