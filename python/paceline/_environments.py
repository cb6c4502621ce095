"""Which environments a model learns in, and who steps them."""

from __future__ import annotations

import importlib.util
import json
import os
import tempfile
from typing import Any

from . import _lib
from ._native import Native
from .config import Config, encode_options
from .envs import _ids
from .envs.vector import Source, SpacesSource, adapt, built_in
from .errors import ConfigError


class Environments:
    """Trainer's get_env and set_env, and how env becomes settings and a Source."""

    _source: Source | None
    _native: Native
    _config: Config
    _acting_key: tuple[int, ...]

    def _environment(self: Any, env: Any, keywords: dict[str, Any], config: Config, keep: bool) -> Source | None:
        """Sets what belongs to the environments, takes its keywords out, and returns those that Python steps."""
        env_kwargs, num_envs = keywords.pop("env_kwargs", None), keywords.pop("num_envs", None)
        made_for_us = None
        if isinstance(env, str):
            name, with_id = _ids.meaning(env, stacklevel=4)
            if name is None:
                env = made_for_us = _gymnasium(env, num_envs, env_kwargs or {})
                env_kwargs = None
            else:
                env, env_kwargs = name, with_id | (env_kwargs or {})
        self._env, self._made_env = env, made_for_us
        self.env_name, number, made_with = built_in(env)
        if env_kwargs and (self.env_name is None or made_with):
            raise ConfigError(f"env_kwargs: {env_kwargs!r}, the environment given has been made already")
        source = None
        if self.env_name is None:
            source = env if isinstance(env, SpacesSource) else adapt(env, num_envs)
            if isinstance(source, SpacesSource):
                self._env = None
            if self.METHOD == "dqn" and self.get_vec_normalize_env() is not None:
                raise ConfigError(
                    "env: in a VecNormalize, must not be: what the replay memory holds would have been normalised by what was known "
                    "earlier; gymnasium.wrappers.NormalizeObservation with update_running_mean=False has fixed numbers"
                )
            number = source.num_envs
            config.set("autoreset", source.autoreset)
        if number is not None and num_envs not in (None, number):
            raise ConfigError(f"num_envs: {num_envs}, the environment given has {number}")
        config.set("env", self.env_name or "")
        if env_kwargs or made_with or source is not None or not keep:
            config.set("env_options", (encode_options(env_kwargs or made_with) or b"").decode())
        if number or num_envs is not None or not keep:
            config.set("num_envs", number or (1 if num_envs is None else num_envs))
        return source

    def get_env(self: Any) -> Any:
        """The environments as a VecEnv of stable-baselines3's where that is installed, else as they were given.

        Where they are stepped from Python these are the model's own, and its episodes are cut
        when they are used. Of built-in environments it is another vector of the same kind; without
        stable-baselines3 make_vec's.
        """
        if self._env is None or (self._source is not None and hasattr(self._env, "step_async")):
            return self._env
        if self._own_env is None:
            with_sb3 = importlib.util.find_spec("stable_baselines3") is not None
            if self._source is not None:
                if not with_sb3:
                    return self._env
                from .compat.sb3 import given

                self._own_env = given(self._source)
            elif not with_sb3 and not isinstance(self._env, str):
                return self._env
            else:
                options: dict[str, Any] = json.loads(self.setting("env_options") or "{}")
                if with_sb3:
                    from .compat.sb3 import VecEnv

                    self._own_env = VecEnv(self.env_name, self.n_envs, seed=self.seed, **options)
                else:
                    from .envs.vec import make_vec

                    self._own_env = make_vec(self.env_name, self.n_envs, autoreset_mode="same_step", **options)
        return self._own_env

    def set_env(self: Any, env: Any, force_reset: bool = True) -> None:
        """Goes on with other environments of the same spaces and number.

        The episodes in progress are cut off (truncated) at the next learn.
        """
        name, number, options = built_in(_ids.meaning(env, stacklevel=2).name if isinstance(env, str) else env)
        if name is not None and self._source is None:
            if (name, number or self.n_envs) != (self.env_name, self.n_envs):
                raise ConfigError(
                    f"env: {env!r}, this model steps {self.n_envs} of the built-in {self.env_name} itself and cannot change to another"
                )
            return
        source = None if name is not None else adapt(env if name is None and not isinstance(env, str) else _gymnasium(env, self.n_envs, {}))
        if source is not None:
            new = (source.layout.shape, source.layout.dtype, source.actions.n, source.num_envs)
            have = (self.obs_layout.shape, self.obs_layout.dtype, self.action_layout.n, self.n_envs)
            if new != have:
                raise ConfigError(f"env: (shape, dtype, actions, num_envs) is {new}, must be {have}")
        self._own_env = None
        if source is not None and self._source is not None and source.autoreset == self._source.autoreset:
            self._source, self._env = source, env
            self.obs_layout, self.action_layout = source.layout, source.actions
            return
        self._move(source, env, name, options)

    def _move(self: Any, source: Source | None, env: Any, name: str | None, options: dict[str, Any]) -> None:
        """Makes the library's trainer anew where another kind of environment is stepped, and takes everything over."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model")
            self.save(path + ".zip", replay=True)
            config = Config.load(path + ".zip")
            config.set("env", name or "")
            config.set("env_options", (encode_options(options) or b"").decode())
            if source is not None:
                config.set("autoreset", source.autoreset)
            before = self._native, self._config
            self._make(config, source)
            try:
                _lib.lib().paceline_trainer_load(self._native.value, _lib.encode(path + ".zip"))
            except BaseException:
                self._native.handle.close()
                self._native, self._config = before
                raise
        before[0].handle.close()
        before[1].close()
        self._env, self.env_name, self._begun, self._acting_key = env, name, True, ()


def _gymnasium(id: str, num_envs: int | None, env_kwargs: dict[str, Any]) -> Any:
    """The environment of Gymnasium's that an id names; several are stepped by worker processes."""
    import gymnasium

    from .envs.vec import make_vec

    if num_envs is not None and num_envs > 1:
        return make_vec(id, num_envs, autoreset_mode="same_step", **env_kwargs)
    return gymnasium.make(id, **env_kwargs)
