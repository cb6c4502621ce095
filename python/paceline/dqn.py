"""DQN with Concurrent Training and Synchronized Execution, with stable-baselines3's interface."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from . import _asynchronous, _ffi
from ._files import File
from ._replay_buffer import Minibatch, ReplayBuffer
from ._trainer import Trainer, constructor
from .compat._sb3_file import Saved
from .config import ACTIVATION, Fixed, Rules, Values, alias, class_name, optimizer_kwargs, translate, widths, zero_for_none
from .errors import ConfigError, notice
from .learning import Periods
from .schedules import Schedule
from .spaces import Array
from .store import Gradient

_FIXED: Fixed = {
    "optimize_memory_usage": ((False, True), "the replay memory always stores each frame once"),
}


def _train_freq(value: Any) -> Values:
    if isinstance(value, (tuple, list)) and len(value) == 2:
        count, unit = value
        if unit != "step":
            raise ConfigError(f"train_freq: {value!r}, must be in steps: updates are not due by episodes")
        value = count
    return {"train_freq": value}


def _net_arch(value: Any) -> Values:
    if isinstance(value, Mapping):
        raise ConfigError(f"policy_kwargs['net_arch']: {value!r}, must be a list of widths: DQN has one network")
    return {} if value is None else {"net_arch": widths(value)}


def _replay_buffer_class(value: Any) -> Values:
    if value is not None and getattr(value, "__name__", "") != "ReplayBuffer":
        raise ConfigError(f"replay_buffer_class: {value!r}, must be None: the library has its own replay memory")
    return {}


def _replay_buffer_kwargs(value: Any) -> Values:
    unknown = set(value or {}) - {"handle_timeout_termination"}
    if unknown:
        raise ConfigError(f"replay_buffer_kwargs: {sorted(unknown)[0]!r} not known, must be handle_timeout_termination")
    if not (value or {}).get("handle_timeout_termination", True):
        notice("handle_timeout_termination: False acts as True: targets bootstrap at a time limit")
    return {}


_RULES: Rules = {
    "replay_buffer_class": _replay_buffer_class,
    "replay_buffer_kwargs": _replay_buffer_kwargs,
    "train_freq": _train_freq,
    "concurrent": lambda value: {"concurrent": "auto" if value is None else value},
    "window": zero_for_none("window"),
    "exploration_steps": zero_for_none("exploration_steps"),
    "prioritized": lambda value: {"prioritized": "none" if value is None else value},
    "priority_beta_steps": zero_for_none("priority_beta_steps"),
    **_asynchronous.RULES,
}
_POLICY: Rules = {
    "net_arch": _net_arch,
    "activation_fn": ACTIVATION,
    "n_quantiles": lambda value: {"n_quantiles": value},
    "trunk": alias("dqn", "trunk", "cnn"),
    "optimizer_class": alias("dqn", "optimizer_class", "optimizer", class_name),
    "optimizer_kwargs": optimizer_kwargs({"eps": alias("dqn", "optimizer_kwargs.eps", "optimizer_eps")}),
}


def settings(keywords: Mapping[str, Any]) -> Values:
    """The settings that DQN's keywords stand for; raises ConfigError for an unsupported value."""
    out = translate(keywords, _FIXED, _RULES, _POLICY)
    if "exploration_fraction" in keywords and "exploration_steps" not in keywords:
        out["exploration_steps"] = 0  # a preset's exploration_steps would take precedence
    return _asynchronous.recorded(out)


class TrainFreq(NamedTuple):
    """The steps between updates; unit is "step"."""

    frequency: int
    unit: str


class Hashes(NamedTuple):
    """SHA-256 digests of the transitions that can be drawn, of theta and of theta-minus."""

    replay: str
    weights: str
    target: str


class DQN(Trainer):
    """Deep Q-learning with stable-baselines3's keywords; updates run concurrently with the environments.

    policy: "MlpPolicy" (dense layers with ReLU; policy_kwargs={"net_arch": [128, 128],
        "activation_fn": "tanh"} changes them), "CnnPolicy" (convolutions, see cnn) or "auto" ("CnnPolicy"
        for images, else "MlpPolicy"). Where images are smaller than the default cnn takes, "auto"
        replaces it by "minatar", also if it was passed explicitly (cnn="nature").
        policy_kwargs={"normalize_images": False} passes images to the network unscaled, 0 to 255.
        uint8 images of a space up to 1 always reach it as 0 and 1.
    env: the name of a built-in environment (CartPole-v1, Acrobot-v1, MountainCar-v0, Catch-v0,
        Bricks-v0, Mini-Breakout-v0 and four other Mini games, Pong and the other Atari games), which
        the library's threads step; a gymnasium.Env; or a gymnasium.vector.VectorEnv in any autoreset mode. A vector that make_vec
        made of a built-in environment stands for its name and number, and the model makes its own.
    n_steps: steps of a target: it sums their discounted rewards before it looks at a value.
    tau: below 1 the target network takes a step of Polyak averaging at every multiple of
        target_update_interval, as in stable-baselines3. concurrent is then False by default; with
        concurrent=True all averaging steps of a window are taken at its end.
    learning_rate: a number, a straight line (linear(1e-3), (1e-3, 0.0) or "lin_0.001"), or a
        function of the remaining progress, which goes from 1 to 0. Straight lines within 0.05 % of
        the function replace it, or the closest ones with 2,048 points.
    seed: the seed of everything random. The same seed and settings give the same weights, bit for
        bit, for any num_threads. None draws a seed (model.seed).

    Keywords that stable-baselines3 does not have:

    num_envs: the number of environments; a vector environment fixes it.
    num_threads: threads that step, act and learn, all together; 0 for one per core.
    groups: 2 divides the environments into two groups that take turns: the actions of one group are
        computed while the other group steps. The results are the same. It helps if steps wait (see
        env_kwargs), and needs synchronized=True.
    concurrent: True runs updates concurrently with the environments, on the experience of earlier
        windows. None: True, unless tau is below 1 or gradient_steps * learning_rate is above 0.1.
    synchronized: True makes one forward pass for all environments of a round. With num_envs=1,
        concurrent=False and synchronized=False the method is standard DQN.
    actor: the weights that choose actions: "online", "target", "snapshot" (the online weights at
        the start of the window) or "auto".
    window: steps between two flushes of new experience into the replay memory. None:
        min(target_update_interval, 1000); if concurrent, at most the number of steps for which
        updates * learning_rate is 0.1.
    exploration_steps: steps over which epsilon falls, instead of exploration_fraction.
    clock: what target_update_interval, exploration_steps, exploration_fraction and the schedule of the
        learning rate count: "steps", or "updates" that the weights have had, by all learners, as in
        Gorila.
    outliers: a gradient is dropped if the absolute loss of its minibatch is above the running mean by
        more than this number of running standard deviations (Nair et al. 2015); 0 drops none. It needs
        device="cpu". stats["updates"] counts dropped gradients with learners=0, and applied gradients
        alone with learners; clock="updates" counts applied gradients alone.
    device: "cpu", "cuda", "cuda:1" ... (in a build with CUDA) or "auto". "auto" uses a GPU, if
        there is one and it computes all settings, for networks with convolutions. The results of a
        seed differ between devices.
    replay_device: where minibatches are gathered: "cuda", "cpu" or "auto".
    precision: "fp32", "bf16" (products of bfloat16 with float32 sums and weights) or "tf32" (on a
        GPU).
    isa: "auto", or "portable" for the same weights, bit for bit, on every processor. "portable" is
        several times slower.
    double_q: True for Double Q-learning: the online network chooses the next action, the target
        network gives its value. It costs one more forward pass an update.
    cnn: CnnPolicy's layers: "nature" (for images of at least 36x36), "small" (the network of Mnih et
        al. 2016, from 20x20), "minatar" (a convolution of 16 3x3 and 128 hidden units, from 5x5),
        "dopamine" (the Nature CNN with TensorFlow's padding "SAME" and Dopamine's initial weights) or
        "der" (van Hasselt et al. 2019: convolutions of 32 and 64 5x5 with stride 5 and 256 hidden
        units, from 25x25). The last two are on the CPU only. policy_kwargs={"trunk": "minatar"} sets it, too.
    n_step_tails: transitions with fewer than n_steps steps, at the end of an episode: "keep" draws them,
        "drop_truncated" leaves out those before a truncation (as Dopamine), "drop" all (as CleanRL).
    prioritized: prioritised replay with the formula of a publication's code: "stooke_abbeel",
        "dqn_zoo", "dopamine", "kaixhin" or "cule" (by rank). None draws uniformly.
    priority_alpha, priority_beta, priority_beta_final, priority_beta_steps: the exponent of
        priorities, and that of importance weights, which goes from priority_beta to
        priority_beta_final on a straight line. None: the formula's. A loaded model keeps those of its file.
    priority_update: "update" for priorities that change after each update, or "window" for ones that
        stand still until experience next enters the replay memory: to the end of the window, without
        concurrent to the next updates. With "window" no draw waits for an update, so that a GPU does
        many updates at once.
    distribution: what the network learns of the return of each action: "none" (its mean),
        "categorical" (the probabilities of n_atoms returns from v_min to v_max; C51), "quantile"
        (n_quantiles quantiles, with the loss's kappa; QR-DQN) or "implicit" (the quantile of any
        probability; IQN). policy_kwargs={"n_quantiles": 50} sets n_quantiles, as in sb3-contrib. Q-values
        are the means. On the CPU only.
    least_prob: of distribution="categorical": the smallest probability in the logarithm of the loss.
        Smaller ones count as this one and have no gradient. Stooke & Abbeel's code has 1e-6.
    n_tau, n_tau_target, n_tau_act, n_cosines: of distribution="implicit": how many probabilities an
        update draws for each transition, how many for its target, how many the Q-values of an action
        are the mean of, and from how many cosines the network computes the embedding of one. predict
        and Policy take the n_tau_act probabilities in the middle of equal intervals, without draws.
        MlpPolicy needs a net_arch of at least two widths.
    dueling: True for a dueling network: a value and advantages, each with a copy of its own of the
        last hidden layer. dueling_rescaled=True multiplies the gradient below both by the root of
        1/2. On the CPU only.
    munchausen: True for Munchausen DQN: a target has the expectation of softmax(Q / munchausen_tau) of
        the target network, with its entropy, and munchausen_alpha times the clipped logarithm of the
        action's probability (at least munchausen_clip). With n_steps only the first action has one. With
        distribution="implicit" it is M-IQN: the policy's values are means of n_tau_act quantiles.
        distribution="quantile" may go with it, double_q may not. On the CPU only.
    noisy: True for a noisy network: the dense layers have factorised noise, of initial size
        noisy_sigma / sqrt(inputs), which explores; exploration_initial_eps and exploration_final_eps
        may then be 0. Every round of steps has noise of its own, and in an update the online network,
        its choices of double_q and the target network have theirs. predict and policies have none. It
        needs synchronized=True. On the CPU only.
    optimizer, optimizer_eps, loss, loss_reduction, frame_stack: see `paceline options`.
    env_kwargs: keywords of a built-in environment named by env, such as {"recipe": "mnih2015"};
        see make_vec. {"waits": True} declares that steps mostly wait: such a step does not hold one
        of num_threads, so updates run during it. For a Gymnasium id the keywords go to
        gymnasium.make, or with num_envs above 1 to make_vec.
    learners: 0 for Algorithm 1 as it stands. 1 to 100, which must divide num_envs: as many learners share
        one store of parameters (Stooke & Abbeel 2018). Each learner has num_envs / learners of the
        environments, its share of buffer_size, learning_starts and window, and a target network.
        Its updates are done between its steps, on the CPU. Epsilon, the learning rate and
        target_update_interval follow the steps of all learners. One learner is bit-identical to
        learners=0. replay_buffer shows the replay memories of all learners as one.
    schedule, order, shards, rule, sync_period, adam_time, max_staleness, latency_step, latency_forward,
        latency_gradient, latency_pull, latency_push, latency_file: of learners, as in A3C; rule
        "multi_step_adam" needs optimizer="adam".
    updates: "outside": the model computes gradients and takes no step along them; see gradient. The CPU
        computes. outside_learners, outside_learner: K learners that share such a run, in any processes,
        and the number of this one, 0 to K-1, which selects its environments and random numbers.
    action_masks: True reads infos["action_mask"] (uint8 [actions], 1 for an allowed action) of a
        Gymnasium environment after every reset and step. Actions, and the next state's maximum, are
        then chosen among the allowed actions. predict needs action_masks as well. Vector
        environments in SAME_STEP mode have the mask of the last observation in infos["final_info"].
        False ignores masks, with one warning.

    All periods (train_freq, target_update_interval, learning_starts, eval_freq) count steps of all
    environments together; stable-baselines3 counts vector steps. Each environment has its own
    exploration RNG; stable-baselines3 draws once for all environments. gradient_steps updates are
    due at every multiple of train_freq, as in stable-baselines3; if concurrent, the updates of a
    window are spread over its steps.

    One thread may use a model at a time; any thread may call stop(). Close the model, or use it in
    a with statement.
    """

    METHOD = "dqn"
    LOG_INTERVAL = 4
    REPLAYS = True
    METRICS: ClassVar[Mapping[str, str]] = {"rollout/exploration_rate": "epsilon"}
    _translate = staticmethod(settings)
    _exploration_loaded: float | None = None  # the exploration_rate of a stable-baselines3 file

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Every setting of the method is an attribute."""

    def _take_sb3(self, saved: Saved) -> None:
        super()._take_sb3(saved)
        rate = saved.data.get("exploration_rate")
        if isinstance(rate, (int, float)) and 0 <= rate <= 1:
            self._exploration_loaded = float(rate)

    @constructor
    def __init__(
        self,
        policy: str,
        env: Any,
        learning_rate: Schedule = 1e-4,
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
        num_envs: int | None = None,
        num_threads: int | None = None,
        groups: int = 1,
        concurrent: bool | None = None,
        synchronized: bool = True,
        actor: str = "auto",
        window: int | None = None,
        exploration_steps: int | None = None,
        clock: str = "steps",
        outliers: float = 0.0,
        cnn: str = "nature",
        n_step_tails: str = "keep",
        prioritized: str | None = None,
        priority_alpha: float | None = None,
        priority_beta: float | None = None,
        priority_beta_final: float | None = None,
        priority_beta_steps: int | None = None,
        priority_update: str = "update",
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
        noisy: bool = False,
        noisy_sigma: float = 0.5,
        optimizer: str = "adam",
        optimizer_eps: float | None = None,
        loss: str = "huber",
        loss_reduction: str = "mean",
        precision: str = "fp32",
        replay_device: str = "auto",
        isa: str = "auto",
        frame_stack: int | None = None,
        env_kwargs: dict[str, Any] | None = None,
        action_masks: bool = False,
        learners: int = 0,
        schedule: str = "virtual",
        order: File | None = None,
        shards: int = 4,
        rule: str = "gradient",
        sync_period: int = 1,
        adam_time: str = "global",
        max_staleness: int = 0,
        latency_step: float | str = "0.0001:0.5",
        latency_forward: float | str = "0.0001:0.5",
        latency_gradient: float | str = "0.001:0.5",
        latency_pull: float | str = "0.0001:0.5",
        latency_push: float | str = "0.0001:0.5",
        latency_file: File | None = None,
        updates: str = "own",
        outside_learners: int = 1,
        outside_learner: int = 0,
    ) -> None: ...

    def save_order(self, path: File) -> None:
        """Writes the order in which learners visited the store, as A3C.save_order does."""
        _asynchronous.save_order(self, path)

    def gradient_of(self, minibatch: Minibatch, out: Array | None = None) -> tuple[Gradient, Array]:
        """The gradient of a minibatch that another model's replay_buffer has drawn, and the errors of its rows.

        For learners decoupled from their actors and replay memories: models with updates="outside" and
        clock="updates", whose settings of the network, n_steps, gamma and prioritized agree.

            batch = memory.replay_buffer.draw(beta)          # memory gets steps by replay_buffer.add_steps
            g, errors = learner.gradient_of(batch)
            memory.replay_buffer.set_errors(batch.identities, errors)
            ...                                              # push g.grad to a store, pull, learner.adopt

        It takes no steps. A learning rate that changes needs begin(total_timesteps) first, which says
        where it ends; otherwise begin is not needed. out, and what is raised: as in gradient;
        SpaceError if an array is not as Minibatch describes it.
        """
        self._check_open()
        out, info, errors = self._gradient_array(out), _ffi.Gradient(), np.zeros(len(minibatch.actions), np.float32)
        self._native.gradient_of(out, info, minibatch.checked(self).struct(errors))
        self._native.warn_of_notices()
        return self._gradient(out, info), errors

    def _print_made(self) -> None:
        megabytes = self._native.metric("replay_bytes") / 1e6
        print(f"replay memory: {self.setting('buffer_size')} transitions in {megabytes:,.1f} MB", flush=True)

    def _periods(self) -> Periods:
        return Periods(rollout=int(self.setting("train_freq")), counted=False)

    def _exploration_keywords(self) -> dict[str, Any]:
        return {"epsilon": self.exploration_rate}

    def _by_updates(self) -> bool:
        """Whether epsilon counts updates."""
        return self.setting("clock") == "updates"

    @property
    def exploration_rate(self) -> float:
        """The schedule's epsilon at this step, which predict uses, also during the warm-up and after load.

        Before the first learn it is 0, as in stable-baselines3, or the value in the
        stable-baselines3 file that was loaded.
        """
        loaded = self._exploration_loaded
        if loaded is not None and not self._total_timesteps:
            return loaded
        return self._native.metric("predict/exploration_rate")

    @property
    def exploration_schedule(self) -> Callable[[float], float]:
        """Epsilon as a function of the remaining progress, which goes from 1 to 0.

        It falls after the warm-up of learning_starts steps. A model that was loaded without its
        experience has another warm-up, which the function leaves out. Epsilon lags behind the function
        with clock="updates" and concurrent=True, where it changes when other weights begin to act (at
        the end of a window), and with learners, each of which counts the others' steps at its pulls.
        """
        first, last = (float(self.setting(f"exploration_{end}_eps")) for end in ("initial", "final"))
        steps, fraction = float(self.setting("exploration_steps")), float(self.setting("exploration_fraction"))
        total, starts = max(self._total_timesteps, 1), int(self.setting("learning_starts"))
        warm = math.ceil(starts / self.n_envs) * self.n_envs / total  # the warm-up ends with a whole round
        if self._by_updates():
            steps *= int(self.setting("train_freq")) / int(self.setting("gradient_steps"))
            fraction *= max(0, 1 - warm)
        share = steps / total or fraction
        return lambda progress_remaining: float(np.interp(1 - progress_remaining - warm, (0, share), (first, last)))

    @property
    def train_freq(self) -> TrainFreq:
        return TrainFreq(int(self.setting("train_freq")), "step")

    @property
    def replay_buffer(self) -> ReplayBuffer:
        return ReplayBuffer(self)

    @property
    def replay_buffer_kwargs(self) -> dict[str, Any]:
        return {}

    @property
    def q_net(self) -> Any:
        """The online network of policy."""
        return self.policy.q_net

    @property
    def q_net_target(self) -> Any:
        """The target network of policy."""
        return self.policy.q_net_target

    def hashes(self) -> Hashes:
        """Digests of the replay memory and the weights. Equal seeds and settings give equal digests."""
        return Hashes(*(self._native.hash(part) for part in ("replay", "q_net", "q_net_target")))
