"""PQN, the parallelised Q-network: Q-learning without a replay memory or a target network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from ._actor_critic import Hashes as Hashes
from ._trainer import Trainer, constructor
from .config import ACTIVATION, Rules, Values, alias, optimizer_kwargs, translate, widths
from .learning import Periods
from .schedules import Schedule

_POLICY: Rules = {
    "net_arch": lambda value: {} if value is None else {"net_arch": widths(value)},
    "activation_fn": ACTIVATION,
    "trunk": alias("pqn", "trunk", "cnn"),
    "optimizer_kwargs": optimizer_kwargs({"eps": alias("pqn", "optimizer_kwargs.eps", "radam_eps")}),
}


def settings(keywords: Mapping[str, Any]) -> Values:
    """The settings that PQN's keywords stand for; raises ConfigError for an unsupported value."""
    return translate(keywords, {}, {}, _POLICY)


class PQN(Trainer):
    """The parallelised Q-network (Gallici et al. 2025): Q(lambda) with layer normalisation.

    All environments take n_steps steps with epsilon-greedy actions. The update from these
    num_envs * n_steps steps makes n_epochs passes over them in shuffled order, in minibatches of
    batch_size, towards lambda-returns that end with the episode. Then the steps are dropped and the
    cycle repeats.

    policy: "MlpPolicy" (dense layers, policy_kwargs={"net_arch": [128, 128],
        "activation_fn": "relu"}), "CnnPolicy" (the Nature CNN, for images of at least 36x36;
        see cnn) or "auto" (by the observation, as in DQN).
    env, learning_rate, seed, num_envs, num_threads, groups, device, precision, isa,
        frame_stack, env_kwargs: as in DQN. The authors use 128 environments for Atari games,
        CleanRL 8: see from_preset("pqn", env) and from_preset("pqn_cleanrl", env).
    cnn: CnnPolicy's layers: "nature", "small" (Mnih et al. 2016) or "minatar" (a convolution of 16 3x3
        and 128 hidden units, for images from 5x5 on). policy_kwargs={"trunk": "minatar"} sets it, too.
    q_lambda: 0 for one-step returns, 1 for returns over the whole rollout.
    layer_norm: the normalisation between every layer and its activation: over the "channels" of
        each position (the authors), over "all" outputs of an example (CleanRL), or "none".
        layer_norm_eps: 0 selects 1e-6 for "channels" and 1e-5 for "all".
    init: "he_normal" (the authors), "orthogonal" (CleanRL) or "uniform".
    loss_coef: the factor of the mean squared error: 0.5 (the authors) or 1 (CleanRL).
    exploration_fraction: the part of the run over which epsilon falls from
        exploration_initial_eps to exploration_final_eps.

    predict takes a random action with probability exploration_rate unless deterministic=True.
    stats["updates"] counts minibatches. action_masks=True raises ConfigError. One thread may use a
    model at a time; any thread may call stop(). Close the model, or use it in a with statement.
    """

    METHOD: ClassVar[str] = "pqn"
    LOG_INTERVAL: ClassVar[int] = 1
    METRICS: ClassVar[Mapping[str, str]] = {"rollout/exploration_rate": "epsilon"}
    _translate = staticmethod(settings)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Every setting of the method is an attribute."""

    @constructor
    def __init__(
        self,
        policy: str,
        env: Any,
        learning_rate: Schedule = 2.5e-4,
        n_steps: int = 32,
        batch_size: int = 128,
        n_epochs: int = 2,
        gamma: float = 0.99,
        q_lambda: float = 0.65,
        exploration_fraction: float = 0.1,
        exploration_initial_eps: float = 1.0,
        exploration_final_eps: float = 0.001,
        max_grad_norm: float | None = 10,
        loss_coef: float = 0.5,
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
        layer_norm: str = "channels",
        layer_norm_eps: float = 0,
        init: str = "he_normal",
        cnn: str = "nature",
        precision: str = "fp32",
        isa: str = "auto",
        frame_stack: int | None = None,
        env_kwargs: dict[str, Any] | None = None,
        action_masks: bool = False,
    ) -> None: ...

    def _periods(self) -> Periods:
        return Periods(rollout=int(self.setting("n_steps")) * int(self.setting("num_envs")), counted=True, whole=True)

    def _exploration_keywords(self) -> dict[str, Any]:
        return {"epsilon": self.exploration_rate}

    @property
    def exploration_rate(self) -> float:
        """The schedule's epsilon at this step."""
        return self._native.metric("rollout/exploration_rate")

    def hashes(self) -> Hashes:
        """The digest of the weights. Equal seeds and settings give equal digests."""
        return Hashes(self._native.hash("policy"))
