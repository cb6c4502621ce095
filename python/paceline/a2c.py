"""A2C, the advantage actor-critic, with stable-baselines3's interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import _actor_critic
from ._actor_critic import ActorCritic, Hashes as Hashes
from ._trainer import constructor
from .config import Values
from .schedules import Schedule


def settings(keywords: Mapping[str, Any]) -> Values:
    """The settings that A2C's keywords stand for; raises ConfigError for an unsupported value."""
    return _actor_critic.settings(keywords, {}, use_rms_prop=True)


class A2C(ActorCritic):
    """The advantage actor-critic with stable-baselines3's keywords.

    All environments take n_steps steps with actions sampled from the policy's distribution. One
    update from these num_envs * n_steps steps follows, and the cycle repeats.

    policy: "MlpPolicy" (dense layers), "CnnPolicy" (the Nature CNN, shared by policy
        and value, for images of at least 36x36; see cnn) or "auto" (by the observation, as in DQN).
    env, learning_rate, seed, num_envs, num_threads, groups, device, precision, isa,
        frame_stack, env_kwargs, action_masks: as in DQN. An update has num_envs * n_steps rows;
        8 or 16 environments are usual.
    gae_lambda: 1 for n-step returns, less for generalised advantage estimation.
    rms_prop_eps: the eps of RMSProp, which divides as PyTorch's RMSprop does. use_rms_prop=False
        selects Adam.
    policy_kwargs: net_arch, a list of widths for both networks or {"pi": [...], "vf": [...]};
        activation_fn ("tanh", "relu" or the class); ortho_init; log_std_init;
        share_features_extractor; normalize_images; optimizer_class (RMSprop, RMSpropTFLike or Adam) and optimizer_kwargs
        (eps; alpha of RMSProp). An optimizer_class of RMSProp has eps 1e-8 unless optimizer_kwargs or rms_prop_eps
        gives another, and Adam has 1e-5, with optimizer_kwargs 1e-8, as in stable-baselines3.
    vtrace: True learns with V-trace: after every vtrace_steps rounds, one of vtrace_groups groups
        of environments gives an update from its latest n_steps rounds. vtrace_rho and vtrace_c
        limit the ratios. Each such update counts as a rollout. from_preset("cule", env) has the
        values of Dalton et al. 2020.
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
    of its own. predict samples from the distribution unless deterministic=True. use_sde and custom
    rollout buffers raise ConfigError. One thread may use a model at a time; any thread may call
    stop(). Close the model, or use it in a with statement.
    """

    METHOD = "a2c"
    LOG_INTERVAL = 100
    _translate = staticmethod(settings)

    @constructor
    def __init__(
        self,
        policy: str,
        env: Any,
        learning_rate: Schedule = 7e-4,
        n_steps: int = 5,
        gamma: float = 0.99,
        gae_lambda: float = 1.0,
        ent_coef: float = 0.0,
        vf_coef: float = 0.5,
        max_grad_norm: float | None = 0.5,
        rms_prop_eps: float = 1e-5,
        use_rms_prop: bool = True,
        use_sde: bool = False,
        sde_sample_freq: int = -1,
        rollout_buffer_class: None = None,
        rollout_buffer_kwargs: None = None,
        normalize_advantage: bool = False,
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
        vtrace: bool = False,
        vtrace_groups: int = 1,
        vtrace_steps: int = 1,
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
