"""Keywords and rollout periods that the methods with a policy and a value share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ._trainer import Trainer
from .config import ACTIVATION, Config, Fixed, Rule, Rules, Values, alias, one_of, optimizer_kwargs, translate, widths
from .errors import ConfigError
from .learning import Periods

# The eps of PyTorch's optimisers. stable-baselines3 has 1e-5 only for Adam without optimizer_kwargs
# and for the RMSprop that A2C chooses itself.
_TORCH_EPS = 1e-8

_NO_SDE = "state-dependent exploration (gSDE) is not built; a Box is explored by a Gaussian with a log_std for each number"
_NO_SQUASH = "in stable-baselines3 it needs gSDE; squashed=True takes the hyperbolic tangent of the Gaussian's sample"
_FIXED: Fixed = {
    "use_sde": ((False,), _NO_SDE),
    "sde_sample_freq": ((-1,), _NO_SDE),
    **dict.fromkeys(("rollout_buffer_class", "rollout_buffer_kwargs"), ((None,), "the rollout's storage is the library's own")),
}


def _only(name: str, allowed: Any, why: str) -> Rule:
    """The rule of an argument of policy_kwargs of which one value is built."""

    def rule(value: Any) -> Values:
        if value != allowed:
            raise ConfigError(f"policy_kwargs[{name!r}]: {value!r}, must be {allowed!r}: {why}")
        return {}

    return rule


def _net_arch(value: Any) -> Values:
    """The rule of net_arch: one list for both networks, or {"pi": [...], "vf": [...]}.

    A list around that dict is accepted, as in stable-baselines3 before 1.8. An empty list makes the
    network linear.
    """
    if value is None:
        return {}
    if isinstance(value, (list, tuple)) and len(value) == 1 and isinstance(value[0], Mapping):
        value = value[0]
    if not isinstance(value, Mapping):
        return {"net_arch_pi": widths(value), "net_arch_vf": widths(value)}
    unknown = set(value) - {"pi", "vf"}
    if unknown:
        raise ConfigError(f"policy_kwargs['net_arch']: {sorted(unknown, key=str)[0]!r} not known, must be 'pi' and 'vf'")
    return {f"net_arch_{name}": widths(value.get(name, [])) for name in ("pi", "vf")}


def _eps(value: object) -> Values:
    """The rule of eps in optimizer_kwargs, which is rms_prop_eps or adam_eps; settings chooses."""
    alias("a2c", "optimizer_kwargs.eps", "adam_eps")(value)
    return {"optimizer_eps": value}


_POLICY: Rules = {
    "net_arch": _net_arch,
    "activation_fn": ACTIVATION,
    "log_std_init": lambda value: {"log_std_init": value},
    "use_sde": _only("use_sde", False, _NO_SDE),
    "full_std": _only("full_std", True, _NO_SDE),
    "use_expln": _only("use_expln", False, _NO_SDE),
    "squash_output": _only("squash_output", False, _NO_SQUASH),
    "ortho_init": lambda value: {"ortho_init": value},
    "share_features_extractor": lambda value: {"trunk": "auto" if value else "separate"},
    "optimizer_class": one_of("optimizer_class", {
        "RMSprop": {"use_rms_prop": True, "rms_prop_eps_inside": False, "rms_prop_first": 0},
        "RMSpropTFLike": {"use_rms_prop": True, "rms_prop_eps_inside": True, "rms_prop_first": 1},
        "Adam": {"use_rms_prop": False},
    }),
    "optimizer_kwargs": optimizer_kwargs({"eps": _eps, "alpha": alias("a2c", "optimizer_kwargs.alpha", "rms_prop_alpha")}),
}  # fmt: skip


def settings(keywords: Mapping[str, Any], rules: Rules, use_rms_prop: bool) -> Values:
    """The settings that keywords stand for; raises ConfigError for an unsupported value.

    use_rms_prop: the default of the keyword of that name.
    """
    out = translate(keywords, _FIXED, rules, _POLICY)
    kwargs = keywords.get("policy_kwargs") or {}
    rms = out.get("use_rms_prop", use_rms_prop)
    if not rms and "alpha" in (kwargs.get("optimizer_kwargs") or {}):
        raise ConfigError("policy_kwargs['optimizer_kwargs']['alpha']: given, must be left out with Adam; RMSprop has an alpha")
    eps = "rms_prop_eps" if rms else "adam_eps"
    if "optimizer_eps" in out:
        out[eps] = out.pop("optimizer_eps")
    elif "optimizer_class" in kwargs if rms else kwargs.get("optimizer_kwargs") is not None:
        out.setdefault(eps, _TORCH_EPS)
    return out


class Hashes(NamedTuple):
    """The SHA-256 digest of the weights."""

    weights: str


class ActorCritic(Trainer):
    """A model that learns a policy and a value from its own rollouts; see A2C, A3C, PPO, APPO and GA3C."""

    CLIPS = True

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Every setting of the method is an attribute."""

    def _periods(self) -> Periods:
        # with groups of V-trace an update of a group counts as a rollout
        rounds = getattr(self, "vtrace_steps", self.n_steps) if self.vtrace else self.n_steps
        return Periods(rollout=rounds * self.n_envs, counted=True, whole=True)

    def _kept(self, config: Config) -> dict[str, Any]:
        return {"use_rms_prop": config.get("use_rms_prop") == "true"}

    def _exploration_keywords(self) -> dict[str, Any]:
        return {"sample": True}

    def hashes(self) -> Hashes:
        """The digest of the weights. Equal seeds and settings give equal digests."""
        return Hashes(self._native.hash("policy"))
