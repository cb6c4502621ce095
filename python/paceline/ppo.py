"""PPO, proximal policy optimization, in Stable-Baselines3's shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from . import _actor_critic
from ._actor_critic import ActorCritic, Hashes as Hashes
from ._trainer import constructor
from .config import Rule, Rules, Values, along
from .schedules import Schedule


def _range(name: str) -> Rule:
    """A number, a schedule or None for none."""
    return lambda value: {name: None, f"{name}_schedule": None} if value is None else along(name, value)


_RULES: Rules = {name: _range(name) for name in ("clip_range", "clip_range_vf")}


def settings(keywords: Mapping[str, Any]) -> Values:
    """The settings that PPO's keywords stand for; raises ConfigError for what is not built."""
    return _actor_critic.settings(keywords, _RULES, use_rms_prop=False)


class PPO(ActorCritic):
    """Proximal policy optimization: stable-baselines3's PPO, faster.

    All environments take n_steps steps with the policy's own distribution of actions; the
    update from these num_envs * n_steps steps is n_epochs passes over them in a shuffled
    order, in minibatches of batch_size; and so on.

    policy: "MlpPolicy" (dense layers), "CnnPolicy" (the Nature CNN, shared by policy
        and value, for images of at least 36x36) or "auto".
    env, learning_rate, seed, num_envs, num_threads, groups, device, precision, isa,
        frame_stack, env_kwargs, action_masks: as DQN's. Updates are due after every n_steps rounds.
    clip_range: how far from 1 the ratio of an action's probabilities, now and when it was
        taken, counts; a number or, as learning_rate, a schedule.
    clip_range_vf: the same for values, in units of the return; None: they are not clipped.
        clip_range_vf_largest: the larger of the clipped and the plain squared error counts, as
        in CleanRL; False: the clipped one, as in stable-baselines3.
    target_kl: an update ends early where the policy has moved further; target_kl_check says
        where that is checked: "minibatch", at 1.5 times target_kl before each step, as in
        stable-baselines3, or "epoch", after each, as in CleanRL.
    policy_kwargs: net_arch, a list of widths for both networks or {"pi": [...],
        "vf": [...]}; activation_fn ("tanh", "relu" or the class); ortho_init;
        share_features_extractor; normalize_images; optimizer_class (Adam, RMSprop or
        RMSpropTFLike) and optimizer_kwargs (eps, alpha).
    cnn: CnnPolicy's layers: "nature", or "small" (those of Mnih et al. 2016).

    predict samples from the distribution unless it is deterministic. stats["updates"] counts
    minibatches. use_sde, rollout buffers of one's own and continuous actions are not there:
    asking for them is an error. A model may be used by one thread at a time; stop() may be
    called from any. Close it, or use it in a with statement.
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
        cnn: str = "nature",
        precision: str = "fp32",
        isa: str = "auto",
        frame_stack: int | None = None,
        env_kwargs: dict[str, Any] | None = None,
        action_masks: bool = False,
    ) -> None: ...
