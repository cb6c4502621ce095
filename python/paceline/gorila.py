"""Gorila: DQN in bundles around a sharded store of parameters, with stable-baselines3's keywords of DQN."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from ._files import File
from ._trainer import constructor
from .dqn import DQN
from .schedules import Schedule


class Gorila(DQN):
    """Gorila DQN (Nair et al. 2015) in one process, with the keywords of DQN.

    A bundle is an actor, a replay memory and a DQN learner with a target network. All bundles share one
    store of parameters. After every train_freq of its own steps a bundle computes a gradient, pushes it
    to the store and pulls the parameters; the store's optimizer, AdaGrad by default, steps along it. One
    bundle with shards=1 is bit-identical to DQN with optimizer="adagrad", clock="updates",
    concurrent=False and the same values of the other keywords, some of which have other defaults.

    bundles: 1 to 100; must divide num_envs.
    num_envs: the number of environments; each bundle has num_envs / bundles. None: one for each bundle, or
        as many as the vector environment has.
    shards: parts of the store, 1 to 64, each with a lock, a version and sums of AdaGrad of its own.
    schedule, order, latency_step, latency_forward, latency_gradient, latency_pull, latency_push,
        latency_file: when the bundles visit the store, as in A3C.
    max_staleness: a shard refuses a gradient if it has applied more than this number of gradients since
        the bundle read it; 0 refuses none. stats["refused"] counts them.
    outliers: a bundle drops a gradient if the absolute loss of its minibatch is above the running mean
        by more than this number of running standard deviations; 0 drops none. stats["outliers"]
        counts them.
    target_update_interval, exploration_steps, exploration_fraction, learning_rate: these count the updates
        that the store has applied, as the bundle knows them from its latest pull. exploration_fraction
        and a schedule of the learning rate are shares of the updates that the run asks for.
    buffer_size, learning_starts: of all bundles together. A bundle's share of learning_starts is at least
        batch_size.
    All other keywords: as in DQN. It computes on the CPU.

    cluster: "ray" trains in processes of a Ray cluster (pip install 'paceline[ray]'). The result is then a
        paceline.distributed.Distributed, and the keywords of paceline.distributed.start are known as well.
        from_preset has two more presets then: "apex" and "fastdqn".

    num_timesteps counts the steps of all bundles, and stats["updates"] the gradients that were applied.
    stats["lag"] is the mean number of updates of other bundles between a bundle's pull and its push,
    stats["lag_most"] the largest. replay_buffer shows the replay memories of all bundles as one. One
    thread may use a model at a time; any thread may call stop(). Close the model, or use it in a with
    statement.
    """

    METHOD: ClassVar[str] = "gorila"

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Every setting of the method is an attribute."""

    def __new__(cls, *arguments: Any, **keywords: Any) -> Any:
        """A Gorila, or the model of a run on a cluster, for which Python does not call __init__."""
        if keywords.get("cluster") is None:
            return super().__new__(cls)
        from .distributed._factory import of_gorila

        return of_gorila(arguments, keywords)

    @classmethod
    def from_preset(cls, preset: str, env: Any, **overrides: Any) -> Any:
        """As Trainer.from_preset; with cluster="ray" the model of a run on a cluster."""
        if overrides.get("cluster") is None:
            return super().from_preset(preset, env, **overrides)
        from .distributed._factory import of_preset

        return of_preset(preset, env, overrides)

    @classmethod
    def _defaults(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        if isinstance(given["env"], str) and given.get("num_envs") is None:
            return {"num_envs": given.get("bundles", 1)}
        return {}

    def _by_updates(self) -> bool:
        return True

    @constructor
    def __init__(
        self,
        policy: str,
        env: Any,
        learning_rate: Schedule = 1e-2,
        buffer_size: int = 1_000_000,
        learning_starts: int = 100,
        batch_size: int = 32,
        tau: float = 1.0,
        gamma: float = 0.99,
        train_freq: int | tuple[int, str] = 1,
        gradient_steps: int = 1,
        replay_buffer_class: None = None,
        replay_buffer_kwargs: None = None,
        optimize_memory_usage: bool = False,
        n_steps: int = 1,
        target_update_interval: int = 10_000,
        exploration_fraction: float = 0.1,
        exploration_initial_eps: float = 1.0,
        exploration_final_eps: float = 0.05,
        max_grad_norm: float | None = 10,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        policy_kwargs: Mapping[str, Any] | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: str = "auto",
        _init_setup_model: bool = True,
        *,
        bundles: int = 1,
        num_envs: int | None = None,
        shards: int = 4,
        schedule: str = "virtual",
        order: File | None = None,
        max_staleness: int = 100,
        outliers: float = 6.0,
        latency_step: float | str = "0.0001:0.5",
        latency_forward: float | str = "0.0001:0.5",
        latency_gradient: float | str = "0.001:0.5",
        latency_pull: float | str = "0.0001:0.5",
        latency_push: float | str = "0.0001:0.5",
        latency_file: File | None = None,
        num_threads: int | None = None,
        groups: int = 1,
        exploration_steps: int | None = None,
        cnn: str = "nature",
        n_step_tails: str = "keep",
        double_q: bool = False,
        distribution: str = "none",
        n_atoms: int = 51,
        v_min: float = -10.0,
        v_max: float = 10.0,
        least_prob: float = 0.0,
        n_quantiles: int = 200,
        n_tau: int = 64,
        n_tau_target: int = 64,
        n_tau_act: int = 32,
        n_cosines: int = 64,
        kappa: float = 1.0,
        dueling: bool = False,
        dueling_rescaled: bool = False,
        munchausen: bool = False,
        munchausen_alpha: float = 0.9,
        munchausen_tau: float = 0.03,
        munchausen_clip: float = -1.0,
        optimizer: str = "adagrad",
        optimizer_eps: float | None = None,
        loss: str = "huber",
        loss_reduction: str = "mean",
        precision: str = "fp32",
        isa: str = "auto",
        frame_stack: int | None = None,
        env_kwargs: dict[str, Any] | None = None,
        action_masks: bool = False,
        cluster: str | None = None,
    ) -> None: ...


# inspect.signature would find that of __new__.
_parameters = list(inspect.signature(Gorila.__init__).parameters.values())[1:]
setattr(Gorila, "__signature__", inspect.Signature(_parameters))  # noqa: B010 - a type checker knows no such attribute
