"""A3C, the asynchronous advantage actor-critic, with stable-baselines3's interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from . import _asynchronous
from ._actor_critic import Hashes as Hashes
from ._asynchronous import Asynchronous
from ._files import File
from ._trainer import constructor
from .config import Values
from .schedules import Schedule


def settings(keywords: Mapping[str, Any]) -> Values:
    """The settings that A3C's keywords stand for; raises ConfigError for an unsupported value."""
    return _asynchronous.settings(keywords, {}, use_rms_prop=True)


class A3C(Asynchronous):
    """The asynchronous advantage actor-critic (Mnih et al. 2016) with stable-baselines3's keywords of A2C.

    Several learners share one store of parameters. Each learner has num_envs / learners of the
    environments and a copy of the parameters. After every n_steps rounds it computes a gradient as
    A2C does, pushes it to the store and pulls the parameters. One learner is bit-identical to A2C.

    learners: 1 to 100; must divide num_envs.
    schedule: when the learners visit the store. "virtual": by a model of latencies, so that a seed has
        one result for any number of threads. "race": in the order in which they arrive on this machine,
        which is recorded. "recorded": as in the file of `order`.
    order: the path of a file of save_order or of a checkpoint of a race. It selects the schedule
        "recorded".
    shards: parts of the store, each with a lock of its own, 1 to 64.
    rule: "gradient": the store's optimizer steps along a pushed gradient. "overwrite": the learner
        steps the store's parameters under the lock of each shard (Stooke & Abbeel 2018).
        "multi_step_adam": see APPO; it needs use_rms_prop=False. "mean": all learners wait for the
        slowest, and one step follows the mean of their gradients.
    sync_period: steps of a learner between two pushes, 1 to 1024; above 1 only with
        "multi_step_adam".
    pull_period: rounds between two pulls inside a rollout; 0 for none.
    adam_time: t of Adam's bias correction: "global" counts the pushes of all learners, "local" the
        learner's own.
    max_staleness: a push to a shard is refused if more pushes than this were applied to it since the
        learner read it; 0 refuses none.
    latency_step, latency_forward, latency_gradient, latency_pull, latency_push: with schedule
        "virtual", the durations in seconds (1e-9 to 60) of a step of a learner's environments, of its
        forward pass, of a gradient, and of a pull of and a push to all shards: a number, or
        "median:sigma" of a lognormal distribution (sigma 0 to 2).
    latency_file: the path of a JSON file of measured durations; it replaces those above.
    All other keywords: as in A2C. An update has num_envs / learners * n_steps rows; vtrace_groups
        divides num_envs / learners.

    num_timesteps counts the steps of all learners, and stats["updates"] the pushes. stats["lag"] is the
    mean number of updates of other learners between a learner's pull and its push. Callbacks are
    called after each round of a learner; a rollout ends with a rollout of the first learner.
    Statistics of normalize_obs and normalize_reward are merged when a learner's update ends, and the
    policy has those of all learners. The learners compute on the CPU. One thread may use a model at a
    time; any thread may call stop(). Close the model, or use it in a with statement.
    """

    METHOD: ClassVar[str] = "a3c"
    LOG_INTERVAL: ClassVar[int] = 100
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
        learners: int = 1,
        schedule: str = "virtual",
        order: File | None = None,
        shards: int = 4,
        rule: str = "gradient",
        sync_period: int = 1,
        pull_period: int = 0,
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
    ) -> None: ...
