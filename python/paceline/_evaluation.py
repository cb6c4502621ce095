"""Checks, VecNormalize statistics, seeds and records of an evaluation during learning."""

from __future__ import annotations

import copy
import warnings
from statistics import fmean
from typing import TYPE_CHECKING, Any

from .envs import _ids
from .envs._layers import normalizers, shared
from .envs._source import adapt, label
from .errors import ConfigError
from .spaces import check_spaces

if TYPE_CHECKING:
    from ._trainer import Trainer
    from .distributed import Distributed
    from .policy import Evaluation, Policy


def next_seed(model: Trainer | Distributed) -> int:
    """The seed of the next evaluation during learning. Each evaluation of a run plays other episodes."""
    return (model.seed * 1_000_003 + len(model.evaluations)) % 2**63


def record(model: Trainer | Distributed, step: int, result: Evaluation, policy: Policy) -> None:
    """Records an evaluation. Takes the policy: it becomes the model's best_policy or is closed."""
    model.evaluations.append((step, result))
    model.learning_curve.add_evaluation(step, result.mean_return)
    log = model._logger
    log.record("eval/mean_reward", result.mean_return)
    log.record("eval/mean_ep_length", result.mean_length)
    if result.successes:
        log.record("eval/success_rate", fmean(result.successes))
    log.record("time/total_timesteps", step, exclude="tensorboard")
    log.dump(step)
    if model.best_policy is None or result.mean_return > model.best_mean_return:
        if model.best_policy is not None:
            model.best_policy.close()
        model.best_policy, model.best_mean_return = policy, result.mean_return
    else:
        policy.close()


def check(model: Trainer, env: Any) -> None:
    """Raises ConfigError for an eval_env in which the model cannot be evaluated while it learns."""
    check_other(model, env, "eval_env")
    pairs(model, env)
    if isinstance(env, str) and env == model.env_name:
        return
    made = None
    try:
        if isinstance(env, str):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the evaluation itself gives these warnings
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
    """Refuses the environments that the model learns in: an evaluation would break off their episodes."""
    if learns_in(model, env):
        raise ConfigError(
            f"{argument}: {label(env)}, the environment that the model learns in, must be another one while it learns: "
            "the evaluation would break off the episodes in progress"
        )


def borrow(model: Trainer, env: Any) -> None:
    """Prepares for episodes in env outside of learn; if the model learns in env, the next learn resets it."""
    if model._loop is not None:
        check_other(model, env, "env")
    elif model._source is not None and learns_in(model, env):
        model._source.needs_reset = True


def learns_in(model: Trainer, env: Any) -> bool:
    """Whether env is, or shares environments with, the environments that the model learns in from Python."""
    return model._source is not None and not isinstance(env, str) and shared(env, model._source.env)


def pairs(model: Trainer, env: Any) -> list[tuple[Any, Any]]:
    """(the model's, env's) VecNormalize wrappers, from the outside in; refuses different numbers of wrappers."""
    ours, theirs = normalizers(model._environments.env), normalizers(env)
    if len(ours) != len(theirs):
        have, must = ("no", "one") if len(ours) > len(theirs) else ("a", "none")
        raise ConfigError(
            f"eval_env: {label(env)} in {have} VecNormalize, must be in {must}, as the model's environments are: "
            "the network has learnt from observations normalised in this way"
        )
    return list(zip(ours, theirs))


def synchronise(model: Trainer, env: Any) -> None:
    """Copies the statistics of the model's VecNormalize wrappers into those of env."""
    for ours, theirs in pairs(model, env):
        if hasattr(ours, "obs_rms"):  # absent with norm_obs=False
            theirs.obs_rms = copy.deepcopy(ours.obs_rms)
        theirs.ret_rms = copy.deepcopy(ours.ret_rms)
