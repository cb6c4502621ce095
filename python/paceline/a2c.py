"""A2C, the advantage actor-critic, in Stable-Baselines3's shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ._trainer import Trainer, constructor
from .config import ACTIVATION, Fixed, Rules, one_of, optimizer_kwargs, translate
from .errors import ConfigError
from .learning import Periods
from .schedules import Schedule

_NO_SDE = "exploration is the policy's own distribution of actions"
_FIXED: Fixed = {
    "use_sde": ((False,), _NO_SDE),
    "sde_sample_freq": ((-1,), _NO_SDE),
    **dict.fromkeys(("rollout_buffer_class", "rollout_buffer_kwargs"), ((None,), "the rollout's storage is the library's own")),
}


def _net_arch(value: Any) -> dict[str, Any]:
    """A list for both networks, or {"pi": [...], "vf": [...]}."""
    if not isinstance(value, Mapping):
        return {"net_arch_pi": list(value), "net_arch_vf": list(value)}
    unknown = set(value) - {"pi", "vf"}
    if unknown:
        raise ConfigError(f"policy_kwargs['net_arch']: {sorted(unknown)[0]!r} not known, must be 'pi' and 'vf'")
    return {f"net_arch_{name}": list(value.get(name, [])) for name in ("pi", "vf")}


_POLICY: Rules = {
    "net_arch": _net_arch,
    "activation_fn": ACTIVATION,
    "ortho_init": lambda value: {"ortho_init": value},
    "share_features_extractor": lambda value: {"trunk": "auto" if value else "separate"},
    "optimizer_class": one_of("optimizer_class", {
        "RMSprop": {"use_rms_prop": True, "rms_prop_eps_inside": False, "rms_prop_first": 0},
        "RMSpropTFLike": {"use_rms_prop": True, "rms_prop_eps_inside": True, "rms_prop_first": 1},
        "Adam": {"use_rms_prop": False},
    }),
    "optimizer_kwargs": optimizer_kwargs({"eps": "optimizer_eps", "alpha": "rms_prop_alpha"}),
}  # fmt: skip


def settings(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that A2C's keywords stand for; raises ConfigError for what is not built."""
    out = translate(keywords, _FIXED, {}, _POLICY)
    if "optimizer_eps" in out:  # whose eps that is, the optimiser says
        eps = out.pop("optimizer_eps")
        out["rms_prop_eps" if out.get("use_rms_prop", True) else "adam_eps"] = eps
    return out


class Hashes(NamedTuple):
    """The SHA-256 digest of the weights."""

    weights: str


class A2C(Trainer):
    """The advantage actor-critic: stable-baselines3's A2C, faster.

    All environments take n_steps steps with the policy's own distribution of
    actions; one update from these num_envs * n_steps steps follows, and so on.

    policy: "MlpPolicy" (dense layers), "CnnPolicy" (the Nature CNN, shared by policy
        and value, for images of at least 36x36) or "auto".
    env, learning_rate, seed, num_envs, num_threads, precision, isa, frame_stack,
        env_kwargs: as DQN's. Updates are due after every n_steps rounds, so more environments make
        larger minibatches; stable-baselines3's users take 8 or 16.
    gae_lambda: 1 for n-step returns, less for generalised advantage estimation.
    rms_prop_eps: of RMSProp, which divides as PyTorch's does; use_rms_prop=False is Adam.
    policy_kwargs: net_arch, a list of widths for both networks or {"pi": [...],
        "vf": [...]}; activation_fn ("tanh", "relu" or the class); ortho_init;
        share_features_extractor; normalize_images; optimizer_class (RMSprop, RMSpropTFLike or Adam) and
        optimizer_kwargs (eps, alpha).
    cnn: CnnPolicy's layers: "nature", or "small" (those of Mnih et al. 2016).

    predict samples from the distribution unless it is deterministic. use_sde,
    rollout buffers of one's own and continuous actions are not there: asking for them is
    an error. A model may be used by one thread at a time; stop() may be called from any.
    Close it, or use it in a with statement.
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
        cnn: str = "nature",
        precision: str = "fp32",
        isa: str = "auto",
        frame_stack: int | None = None,
        env_kwargs: dict[str, Any] | None = None,
    ) -> None: ...

    def _periods(self) -> Periods:
        return Periods(rollout=int(self.setting("n_steps")) * int(self.setting("num_envs")), update_each=True)

    def _exploring(self) -> dict[str, Any]:
        return {"sample": True}

    def hashes(self) -> Hashes:
        """The digest of the weights: equal for equal seeds and settings."""
        return Hashes(self._native.hash("policy"))
