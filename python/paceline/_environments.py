"""Which environments a model learns in, and who steps them."""

from __future__ import annotations

import importlib.util
import json
import os
import tempfile
from typing import Any

from . import _lib
from .config import Config, encode_options
from .envs import _ids
from .envs._layers import normalizers
from .envs.vector import Source, SpacesSource, adapt, built_in
from .errors import BusyError, ConfigError
from .spaces import to_kept


class Environments:
    """Trainer's get_env and set_env, and how env becomes settings and a Source."""

    _source: Source | None
    _acting_key: tuple[int, ...]

    def _environment(self: Any, env: Any, keywords: dict[str, Any], config: Config, keep: bool) -> Source | None:
        """Sets what belongs to the environments, takes its keywords out, and returns those that Python steps."""
        env_kwargs, num_envs = keywords.pop("env_kwargs", None), keywords.pop("num_envs", None)
        named, with_kwargs = env, env_kwargs or {}
        env, self._made_env, env_kwargs = _ids.resolved(env, num_envs, env_kwargs, stacklevel=4)
        self._env, self._made_of = env, (named, with_kwargs) if self._made_env is not None else None
        self.env_name, number, made_with = built_in(env)
        if env_kwargs and (self.env_name is None or made_with):
            raise ConfigError(f"env_kwargs: {env_kwargs!r}, the environment given has been made already")
        source = None
        options = env_kwargs or made_with
        if keep and env_kwargs and config.get("env") == self.env_name:
            options = json.loads(config.get("env_options") or "{}") | env_kwargs  # a preset's recipe stays where only its steps are given
        if self.env_name is None:
            source = env if isinstance(env, SpacesSource) else adapt(env, num_envs)
            if isinstance(source, SpacesSource):
                self._env = None
            self._check_normalizer(env)
            number = source.num_envs
            config.set("autoreset", source.autoreset)
        if number is not None and num_envs not in (None, number):
            raise ConfigError(f"num_envs: {num_envs}, the environment given has {number}")
        config.set("env", self.env_name or "")
        if options or source is not None or not keep:
            config.set("env_options", (encode_options(options) or b"").decode())
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

    def _check_normalizer(self: Any, env: Any) -> None:
        if self.REPLAYS and normalizers(env):
            raise ConfigError(
                "env: in a VecNormalize, must not be: what the replay memory holds would have been normalised by what was known "
                "earlier; gymnasium.wrappers.NormalizeObservation with update_running_mean=False has fixed numbers"
            )

    def set_env(self: Any, env: Any, force_reset: bool = True) -> None:
        """Goes on with other environments of the same spaces and number.

        The episodes in progress are cut off (truncated) at the next learn. It is refused in a callback.
        """
        if self._loop is not None:
            raise BusyError("set_env: learn is in progress, must be called before or after it")
        named = env
        env, made, with_id = _ids.resolved(env, self.n_envs, None, stacklevel=2)
        try:
            self._change(env, with_id)
        except BaseException:
            if made is not None:
                made.close()
            raise
        if self._made_env is not None:
            self._made_env.close()
        self._env, self._made_env, self._own_env = env, made, None
        self._made_of = None if made is None else (named, {})

    def _change(self: Any, env: Any, with_id: dict[str, Any]) -> None:
        """Has what is stepped replaced by env, made with the keywords with_id; on an error nothing has changed."""
        name, number, options = built_in(env)
        options = options or with_id
        source = None if name is not None else adapt(env)
        if source is None and self._source is None:
            own = json.loads(self.setting("env_options") or "{}")
            if (name, number or self.n_envs, options or own) != (self.env_name, self.n_envs, own):
                raise ConfigError(
                    f"env: {env!r}, this model steps {self.n_envs} of the built-in {self.env_name} itself and cannot change to another"
                )
            return
        if source is not None:
            self._check_normalizer(env)
            new = (source.layout.shape, source.layout.dtype, source.actions.n, source.num_envs)
            have = (self.obs_layout.shape, self.obs_layout.dtype, self.action_layout.n, self.n_envs)
            if new != have:
                raise ConfigError(f"env: (shape, dtype, actions, num_envs) is {new}, must be {have}")
        if source is not None and self._source is not None and _made_for(source) == _made_for(self._source):
            self._source, self.obs_layout, self.action_layout = source, source.layout, source.actions
            self._read_masks(source)
        else:
            self._move(source, name, options)

    def _move(self: Any, source: Source | None, name: str | None, options: dict[str, Any]) -> None:
        """Makes the library's trainer anew where another kind of environment is stepped, and takes everything over."""
        before = dict(self.__dict__)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.zip")
            self.save(path, replay=True)
            config = Config.load(path)
            config.set("env", name or "")
            config.set("env_options", (encode_options(options) or b"").decode())
            if source is not None:
                config.set("autoreset", source.autoreset)
            try:
                self._make(config, source)
                _lib.lib().paceline_trainer_load(self._native.value, _lib.encode(path))
            except BaseException:
                if self._native is not before["_native"]:
                    self._native.handle.close()
                self.__dict__.update(before)
                raise
        before["_native"].handle.close()
        before["_config"].close()
        self.env_name, self._acting_key = name, ()


def _made_for(source: Source) -> tuple[str, dict[str, Any]]:
    """What of environments that Python steps the library's trainer is made with: the mode, and the layouts, which files keep."""
    return source.autoreset, to_kept(source.layout, source.actions)
