"""Quantile regression DQN with sb3-contrib's interface."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from ._trainer import constructor
from .compat._sb3_file import contrib_name
from .config import Config
from .dqn import DQN
from .errors import ConfigError
from .schedules import Schedule
from .spaces import Array


class QRDQN(DQN):
    """Quantile regression DQN (Dabney et al. 2018) with sb3-contrib's keywords: DQN with distribution="quantile".

    policy: as in DQN. policy_kwargs={"n_quantiles": 50} sets the number of quantiles, 200 by default.
    learning_rate, exploration_fraction, exploration_final_eps, max_grad_norm: sb3-contrib's defaults. The
        defaults of all other keywords are DQN's. Adam's small constant is 0.01 / batch_size, unless
        policy_kwargs has an optimizer_class or optimizer_kwargs, or optimizer_eps is given; None is 1e-8.
    n_steps: steps of a target.
    kappa: the error up to which the loss of a quantile is quadratic. sb3-contrib has 1.
    double_q, dueling, munchausen, noisy, prioritized and the others: as in DQN. device="auto" is the
        CPU, because a GPU does not compute quantiles.

    get_parameters has sb3-contrib's names, quantile_net.* and quantile_net_target.*. set_parameters takes
    those of sb3-contrib and of DQN.

    With num_envs=1, concurrent=False and synchronized=False the updates come as in sb3-contrib.
    Q-values are the means of the quantiles.
    """

    METHOD: ClassVar[str] = "dqn"
    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "learning_rate": 5e-5, "exploration_fraction": 0.005, "exploration_final_eps": 0.01, "max_grad_norm": None,
    }  # fmt: skip

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Every setting of the method is an attribute."""

    @classmethod
    def _defaults(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        defaults = dict(cls.DEFAULTS)
        kwargs, batch = given.get("policy_kwargs"), given.get("batch_size", 32)
        plain = not isinstance(kwargs, Mapping) or not {"optimizer_class", "optimizer_kwargs"} & set(kwargs)
        adam = plain and given.get("optimizer", "adam") == "adam"
        if adam and isinstance(batch, Integral) and int(batch) > 0:  # the library refuses other values
            defaults["optimizer_eps"] = 0.01 / int(batch)
        if given.get("exploration_steps"):
            del defaults["exploration_fraction"]  # it is not used
        return defaults

    def _build(self, config: Config, env: Any, keywords: Mapping[str, Any], keep: bool = False) -> None:
        if not keep:
            config.set("distribution", "quantile")
        super()._build(config, env, keywords, keep)
        if (distribution := self.setting("distribution")) != "quantile":
            self._abandon()
            raise ConfigError(f"distribution: {distribution}, must be quantile for QRDQN; paceline.DQN has the others")

    def _weights(self) -> dict[str, Array]:
        return {contrib_name(name): array for name, array in super()._weights().items()}

    @property
    def quantile_net(self) -> Any:
        """The online network of policy."""
        return self.policy.quantile_net

    @property
    def quantile_net_target(self) -> Any:
        """The target network of policy."""
        return self.policy.quantile_net_target

    @property
    def q_net(self) -> NoReturn:
        """Raises AttributeError, as in sb3-contrib."""
        raise AttributeError

    q_net_target = q_net

    @constructor
    def __init__(
        self,
        policy: str,
        env: Any,
        learning_rate: Schedule = 5e-5,
        buffer_size: int = 1_000_000,
        learning_starts: int = 100,
        batch_size: int = 32,
        tau: float = 1.0,
        gamma: float = 0.99,
        train_freq: int | tuple[int, str] = 4,
        gradient_steps: int = 1,
        replay_buffer_class: None = None,
        replay_buffer_kwargs: None = None,
        optimize_memory_usage: bool = False,
        n_steps: int = 1,
        target_update_interval: int = 10_000,
        exploration_fraction: float = 0.005,
        exploration_initial_eps: float = 1.0,
        exploration_final_eps: float = 0.01,
        max_grad_norm: float | None = None,
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
        concurrent: bool | None = None,
        synchronized: bool = True,
        actor: str = "auto",
        window: int | None = None,
        exploration_steps: int | None = None,
        cnn: str = "nature",
        n_step_tails: str = "keep",
        prioritized: str | None = None,
        priority_alpha: float | None = None,
        priority_beta: float | None = None,
        priority_beta_final: float | None = None,
        priority_beta_steps: int | None = None,
        priority_update: str = "update",
        double_q: bool = False,
        n_quantiles: int = 200,
        kappa: float = 1.0,
        dueling: bool = False,
        dueling_rescaled: bool = False,
        munchausen: bool = False,
        munchausen_alpha: float = 0.9,
        munchausen_tau: float = 0.03,
        munchausen_clip: float = -1.0,
        noisy: bool = False,
        noisy_sigma: float = 0.5,
        optimizer: str = "adam",
        optimizer_eps: float | None = None,
        loss_reduction: str = "mean",
        precision: str = "fp32",
        isa: str = "auto",
        frame_stack: int | None = None,
        env_kwargs: dict[str, Any] | None = None,
        action_masks: bool = False,
    ) -> None: ...
