"""APPO, asynchronous proximal policy optimization, with stable-baselines3's interface."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from . import _asynchronous, ppo
from ._actor_critic import Hashes as Hashes
from ._asynchronous import Asynchronous
from ._files import File
from ._trainer import constructor
from .config import Values
from .schedules import Schedule


def settings(keywords: Mapping[str, Any]) -> Values:
    """The settings that APPO's keywords stand for; raises ConfigError for an unsupported value."""
    return _asynchronous.settings(keywords, ppo.RULES, use_rms_prop=False)


class APPO(Asynchronous):
    """Asynchronous proximal policy optimization (Stooke & Abbeel 2018) with stable-baselines3's keywords of PPO.

    Several learners share one store of parameters. Each learner has num_envs / learners of the
    environments and a copy of the parameters. It samples n_steps rounds and makes n_epochs passes over
    them as PPO does. After every sync_period steps of Adam it pushes them to the store and takes the
    store's parameters.

    learners, schedule, order, shards, max_staleness, latency_step, latency_forward, latency_gradient, latency_pull,
        latency_push, latency_file: as in A3C.
    rule: "multi_step_adam": the store's parameters and averages move by the learner's steps (appendix
        A of the paper). "gradient", "overwrite" and "mean": as in A3C.
    sync_period: steps of a learner between two pushes, 1 to 1024. The steps that are left at the end of
        an update are pushed, too.
    pull_period: rounds between two pulls of parameters while a learner samples; 0 for none. vtrace=True
        corrects advantages for parameters that changed inside a rollout.
    adam_time: t of Adam's bias correction: "global" counts the pushes of all learners, "local" the
        learner's own.
    All other keywords: as in PPO. A rollout has num_envs / learners * n_steps rows.

    num_timesteps counts the steps of all learners, and stats["updates"] the pushes; stats["lag"],
    callbacks, normalize_obs, normalize_reward and device are as in A3C. One thread may use a model at a
    time; any thread may call stop(). Close the model, or use it in a with statement.
    """

    METHOD: ClassVar[str] = "appo"
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
        learners: int = 1,
        schedule: str = "virtual",
        order: File | None = None,
        shards: int = 4,
        rule: str = "multi_step_adam",
        sync_period: int = 1,
        pull_period: int = 64,
        adam_time: str = "global",
        max_staleness: int = 0,
        latency_step: float | str = "0.0001:0.5",
        latency_forward: float | str = "0.0001:0.5",
        latency_gradient: float | str = "0.001:0.5",
        latency_pull: float | str = "0.0001:0.5",
        latency_push: float | str = "0.0001:0.5",
        latency_file: File | None = None,
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
    ) -> None: ...

    @property
    def clip_range(self) -> Callable[[float], float]:
        """The keyword's value as a function of the remaining progress, which goes from 1 to 0."""
        return ppo.clip(self, "clip_range")

    @property
    def clip_range_vf(self) -> Callable[[float], float] | None:
        """The keyword's value as a function of the remaining progress, which goes from 1 to 0; None for no clipping."""
        return ppo.clip_or_none(self, "clip_range_vf")
