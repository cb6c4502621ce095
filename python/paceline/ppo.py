"""PPO, proximal policy optimization, with stable-baselines3's interface."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from . import _actor_critic
from ._actor_critic import ActorCritic, Hashes as Hashes
from ._trainer import constructor
from .config import Rules, Values, scheduled
from .schedules import Schedule, function, of_settings


def _clip_range_vf(value: Any) -> Values:
    """The settings of a number or a schedule; None for no clipping."""
    return {"clip_range_vf": None, "clip_range_vf_schedule": None} if value is None else scheduled("clip_range_vf", value)


RULES: Rules = {"clip_range": lambda value: scheduled("clip_range", value), "clip_range_vf": _clip_range_vf}
"""The rules of PPO's keywords; APPO has them, too."""


def settings(keywords: Mapping[str, Any]) -> Values:
    """The settings that PPO's keywords stand for; raises ConfigError for an unsupported value."""
    return _actor_critic.settings(keywords, RULES, use_rms_prop=False)


def clip(model: ActorCritic, name: str) -> Callable[[float], float]:
    """A clip range of a model as a function of the remaining progress, which goes from 1 to 0."""
    given: Schedule | None = model._given.get(name)
    return function(name, of_settings(model.setting, name) if given is None else given)


def clip_or_none(model: ActorCritic, name: str) -> Callable[[float], float] | None:
    """clip, or None where neither the setting nor its schedule is set."""
    return clip(model, name) if model.setting(name) or model.setting(f"{name}_schedule") else None


class PPO(ActorCritic):
    """Proximal policy optimization with stable-baselines3's keywords.

    All environments take n_steps steps with actions sampled from the policy's distribution. The
    update from these num_envs * n_steps steps makes n_epochs passes over them in shuffled order, in
    minibatches of batch_size. Then the cycle repeats.

    policy: "MlpPolicy" (dense layers), "CnnPolicy" (the Nature CNN, shared by policy
        and value, for images of at least 36x36; see cnn) or "auto" (by the observation, as in DQN).
    env, learning_rate, seed, num_envs, num_threads, groups, device, precision, isa,
        frame_stack, env_kwargs, action_masks: as in DQN. Updates are due after every n_steps
        rounds.
    clip_range: the ratio of an action's new and old probabilities is clipped to 1 +- clip_range;
        a number or a schedule like learning_rate's.
    clip_range_vf: the largest change of a value, in units of the return; None for no clipping.
        clip_range_vf_largest: True takes the larger of the clipped and the unclipped squared error,
        as CleanRL does; False takes the clipped error, as stable-baselines3 does.
    target_kl: the KL divergence at which an update ends early; None for no limit. target_kl_check:
        "minibatch" checks 1.5 * target_kl before each gradient step, as stable-baselines3 does;
        "epoch" checks target_kl after each epoch, as CleanRL does.
    vtrace: True computes advantages and returns by V-trace (Espeholt et al. 2018) with the parameters
        that learn; False by generalised advantage estimation with those that acted. vtrace_rho and
        vtrace_c limit the ratios, 0 to 1e6.
    policy_kwargs: net_arch, a list of widths for both networks or {"pi": [...],
        "vf": [...]}; activation_fn ("tanh", "relu" or the class); ortho_init; log_std_init;
        share_features_extractor; normalize_images; optimizer_class (Adam, RMSprop or
        RMSpropTFLike) and optimizer_kwargs (eps; alpha of RMSProp). Without eps Adam has 1e-5, and 1e-8 with
        optimizer_kwargs; RMSProp has 1e-8, as in stable-baselines3.
    squashed: True makes the hyperbolic tangent of the Gaussian's sample the action of a Box; False
        clips the sample to the bounds when it is stepped. scaled: True stretches -1 to 1 to the
        bounds, which must be finite.
    normalize_obs, normalize_reward: running statistics scale observations (float32) and rewards by
        stable-baselines3's formula of VecNormalize. They are a part of checkpoints and policies.
    cnn: CnnPolicy's layers: "nature", "small" (the network of Mnih et al. 2016), "minatar" (for images
        from 5x5), "cule", or "ga3c_1" to "ga3c_4" (the networks of GA3C with strides 1 to 4).
    updates: "outside": the model computes gradients and takes no step along them; see gradient. The CPU
        computes. outside_learners, outside_learner: K learners that share such a run, in any processes,
        and the number of this one, 0 to K-1, which selects its environments and random numbers.

    Actions may be of any kind. A Box has a Gaussian whose log_std is a parameter
    (policy_kwargs["log_std_init"]); each entry of a MultiDiscrete or MultiBinary has a distribution
    of its own. predict samples from the distribution unless deterministic=True. stats["updates"]
    counts minibatches. use_sde and custom rollout buffers raise ConfigError. One thread may use a
    model at a time; any thread may call stop(). Close the model, or use it in a with statement.
    """

    METHOD: ClassVar[str] = "ppo"
    LOG_INTERVAL: ClassVar[int] = 1
    UPDATES: ClassVar[str] = "epochs"
    _translate = staticmethod(settings)

    @constructor
    def __init__(
        self,
        policy: str,
        env: Any,
        learning_rate: Schedule = 3e-4,
        n_steps: int = 2048,
        batch_size: int = 64,
        n_epochs: int = 10,
        gamma: float = 0.99,
        gae_lambda: float = 0.95,
        clip_range: Schedule = 0.2,
        clip_range_vf: Schedule | None = None,
        normalize_advantage: bool = True,
        ent_coef: float = 0.0,
        vf_coef: float = 0.5,
        max_grad_norm: float | None = 0.5,
        use_sde: bool = False,
        sde_sample_freq: int = -1,
        rollout_buffer_class: None = None,
        rollout_buffer_kwargs: None = None,
        target_kl: float | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        policy_kwargs: Mapping[str, Any] | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: str = "auto",
        _init_setup_model: bool = True,
        *,
        num_envs: int | None = None,
        num_threads: int | None = None,
        groups: int = 1,
        mid_batch_reset: bool = True,
        clip_range_vf_largest: bool = False,
        target_kl_check: str = "minibatch",
        vtrace: bool = False,
        vtrace_rho: float = 1.0,
        vtrace_c: float = 1.0,
        squashed: bool = False,
        scaled: bool = False,
        normalize_obs: bool = False,
        normalize_reward: bool = False,
        cnn: str = "nature",
        precision: str = "fp32",
        isa: str = "auto",
        frame_stack: int | None = None,
        env_kwargs: dict[str, Any] | None = None,
        action_masks: bool = False,
        updates: str = "own",
        outside_learners: int = 1,
        outside_learner: int = 0,
    ) -> None: ...

    @property
    def clip_range(self) -> Callable[[float], float]:
        """The keyword's value as a function of the remaining progress, which goes from 1 to 0."""
        return clip(self, "clip_range")

    @property
    def clip_range_vf(self) -> Callable[[float], float] | None:
        """The keyword's value as a function of the remaining progress, which goes from 1 to 0; None for no clipping."""
        return clip_or_none(self, "clip_range_vf")
