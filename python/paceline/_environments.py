"""The environments that a model learns in: built-in ones or Python objects."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from typing import Any

from .config import Config, Values, encode_options
from .envs import _ids
from .envs._layers import normalizers, shared
from .envs._lent import lent
from .envs._source import Source, SpacesSource, adapt, built_in, is_sb3
from .errors import ConfigError, notice
from .spaces import layouts_to_json

# Entries of env_kwargs that are arguments of the vector, not of its environments.
_OF_VECTORS = frozenset({"batch_size", "context", "copy", "decorrelation_steps", "num_threads", "waits", "workers"})


class Environments:
    """The environments that a model's keyword env stands for.

    env: the object or the name that the caller gave. name: the built-in environment that the
    library steps. source: environments that Python steps. Either name or source is None. number:
    the number of environments if env fixes it, else None. options: keywords of the built-in
    environment.
    """

    def __init__(self, env: Any, num_envs: int | None, env_kwargs: dict[str, Any] | None, replays: bool) -> None:
        """replays: whether the model learns from a replay memory."""
        self.env, self._made, self._kwargs = _ids.resolved(env, num_envs, env_kwargs)
        self._made_of = (env, dict(env_kwargs or {})) if self._made is not None else None
        self.name, self.number, made_with = built_in(self.env)
        if self._kwargs and (self.name is None or made_with):
            raise ConfigError(f"env_kwargs: {self._kwargs!r}, must be None: the environment given has been made already")
        self.options = self._kwargs or made_with
        self.source: Source | None = None
        self._vec_env: Any = None  # the result of vec_env
        if self.name is not None:
            return
        self.source = self.env if isinstance(self.env, SpacesSource) else adapt(self.env, num_envs)
        self.number = self.source.num_envs
        if replays and normalizers(self.env):
            raise ConfigError(
                "env: a VecNormalize, must be another wrapper: its statistics change, and stored observations keep the old "
                "ones; use gymnasium.wrappers.NormalizeObservation with update_running_mean=False"
            )
        if isinstance(self.source, SpacesSource):
            self.env = None

    def settings(self, num_envs: int | None, kept: Config | None) -> Values:
        """The settings of these environments.

        num_envs: the model's keyword. kept: the settings of a preset or a file; they stay unless
        env or its keywords set them.
        """
        if self.number is not None and num_envs not in (None, self.number):
            raise ConfigError(f"num_envs: {num_envs}, must be {self.number}, as the environment given has")
        options = self.options
        if kept is not None and self._kwargs and kept.get("env") == self.name:
            # The preset's options stay, such as its recipe; env_kwargs override single ones.
            options = json.loads(kept.get("env_options") or "{}") | self._kwargs
        out = self.stepped()
        if options or self.source is not None or kept is None:
            out["env_options"] = _text(options)
        else:
            del out["env_options"]
        if self.number or num_envs is not None or kept is None:
            out["num_envs"] = self.number or (1 if num_envs is None else num_envs)
        return out

    def stepped(self) -> Values:
        """The settings that tell the library whether it steps the environments."""
        out: Values = {"env": self.name or "", "env_options": _text(self.options)}
        if self.source is not None:
            out["autoreset"] = self.source.autoreset
        return out

    def trainer_key(self) -> tuple[str, dict[str, Any]] | None:
        """(autoreset mode, layouts) of environments that Python steps; None of built-in ones.

        A model can change to environments for which these are equal without a new trainer.
        """
        return None if self.source is None else (self.source.autoreset, layouts_to_json(self.source.layout, self.source.actions))

    def similar(self, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
        """(name or id, keywords) to make one more such environment; None if the caller gave an object.

        options: the keywords of the built-in environment.
        """
        made = self._made_of if self.name is None else (self.name, options)
        return made and (made[0], {name: value for name, value in made[1].items() if name not in _OF_VECTORS})

    def vec_env(self, num_envs: int, seed: int, options: dict[str, Any]) -> Any:
        """See Attributes.get_env."""
        if self._vec_env is None and self.env is not None:
            with_sb3 = importlib.util.find_spec("stable_baselines3") is not None
            if self.source is not None:
                self._vec_env = lent(self._given(self.source, with_sb3), self.source)
            elif with_sb3:
                from .compat.sb3 import VecEnv

                self._vec_env = VecEnv(self.name, num_envs, seed=seed, **{"render_mode": "rgb_array", **options})
            elif not isinstance(self.env, str):
                self._vec_env = self.env
            else:
                from .envs.vec import make_vec

                self._vec_env = make_vec(self.name, num_envs, autoreset_mode="same_step", **options)
        return self._vec_env

    def _given(self, source: Source, with_sb3: bool) -> Any:
        """The environments that Python steps, as a VecEnv if stable-baselines3 is installed."""
        if not with_sb3 or is_sb3(self.env):
            return self.env
        from .compat.sb3 import given

        return given(source)

    def take_over(self, before: Environments) -> None:
        """Takes over the closing of environments that before has made and that these use."""
        if before._made is not None and shared(self.env, before._made):
            self._made, before._made = before._made, None

    def close(self) -> None:
        """Closes the environments made by this object, not the caller's. A second call does nothing."""
        made, self._made = self._made, None
        if made is not None:
            made.close()


def apply_preset(config: Config, preset: str, env: Any) -> Any:
    """Applies a preset to config. Returns env, or the library's own game if the preset's recipe replaces that of an id."""
    known = _ids.atari(env) if isinstance(env, str) else None
    if known is None:
        config.preset(preset, built_in(env)[0] or getattr(getattr(env, "spec", None), "id", None) or "")
        return env
    game, _, project = known
    config.preset(preset, game)
    if not (options := config.get("env_options")):
        return env
    notice(f"{env!r}: an id of {project}, the library's own {game!r} with the recipe of preset {preset!r} replaces it: {options}")
    return game


def _text(options: dict[str, Any]) -> str:
    return (encode_options(options) or b"").decode()
