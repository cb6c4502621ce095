"""What is looked at and taken over before a model is evaluated while it learns."""

from __future__ import annotations

import copy
import warnings
from typing import TYPE_CHECKING, Any

from .envs import _ids
from .envs._layers import normalizers, shared
from .envs.vector import adapt, label
from .errors import ConfigError
from .spaces import check_spaces

if TYPE_CHECKING:
    from ._trainer import Trainer


def check(model: Trainer, env: Any) -> None:
    """Refuses an eval_env that a model cannot be evaluated in while it learns."""
    check_other(model, env, "eval_env")
    pairs(model, env)
    if isinstance(env, str) and env == model.env_name:
        return
    made = None
    try:
        if isinstance(env, str):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what it warns of is said when it is evaluated in
                env, made, options = _ids.resolved(env, None, None)
                if made is None:
                    from .envs.vec import make_vec

                    env = made = make_vec(env, 1, num_threads=1, **options)
        source = adapt(env)
        check_spaces("env", source.layout, source.actions, model.obs_layout, model.action_layout)
    except ConfigError as err:
        raise ConfigError(f"eval_env: {str(err).removeprefix('env: ')}") from err
    finally:
        if made is not None:
            made.close()


def check_other(model: Trainer, env: Any, argument: str) -> None:
    """Refuses the environments that the model learns in: the episodes in progress would go on behind another's steps."""
    if learns_in(model, env):
        raise ConfigError(
            f"{argument}: {label(env)}, the environment that the model learns in, must be another one while it learns: "
            "playing there would break off the episodes that are learnt from"
        )


def borrow(model: Trainer, env: Any) -> None:
    """Before a model plays in env by any other way than learn: behind that the episodes in progress cannot go on."""
    if model._loop is not None:
        check_other(model, env, "env")
    elif model._source is not None and learns_in(model, env):
        model._source.needs_reset = True


def learns_in(model: Trainer, env: Any) -> bool:
    """Whether it is, or shares environments with, what the model is stepped in from Python."""
    return model._source is not None and not isinstance(env, str) and shared(env, model._source.env)


def pairs(model: Trainer, env: Any) -> list[tuple[Any, Any]]:
    """The VecNormalize around the model's environments, and those around env in the same order; refuses other numbers of them."""
    ours, theirs = normalizers(model.env), normalizers(env)
    if len(ours) != len(theirs):
        have, must = ("no", "one") if len(ours) > len(theirs) else ("a", "none")
        raise ConfigError(
            f"eval_env: {label(env)} in {have} VecNormalize, must be in {must}, as the model's environments are: "
            "the network reads observations as they were normalised while it learnt"
        )
    return list(zip(ours, theirs))


def synchronise(model: Trainer, env: Any) -> None:
    """Has env normalise by what is known now of the observations and returns that the model learns from."""
    for ours, theirs in pairs(model, env):
        if hasattr(ours, "obs_rms"):  # there is none with norm_obs=False
            theirs.obs_rms = copy.deepcopy(ours.obs_rms)
        theirs.ret_rms = copy.deepcopy(ours.ret_rms)
