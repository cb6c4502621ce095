"""GA3C, the hybrid asynchronous advantage actor-critic, with stable-baselines3's interface."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from . import _asynchronous
from ._actor_critic import Hashes as Hashes
from ._asynchronous import Asynchronous
from ._files import File, writing
from ._trainer import constructor
from .config import Values
from .learning import Periods
from .schedules import Schedule


def settings(keywords: Mapping[str, Any]) -> Values:
    """The settings that GA3C's keywords stand for; raises ConfigError for an unsupported value."""
    return _asynchronous.settings(keywords, {}, use_rms_prop=True)


class GA3C(Asynchronous):
    """GA3C, A3C with one network and queues (Babaeizadeh et al. 2017), with stable-baselines3's keywords of A2C.

    Every environment is an agent. An agent asks a predictor for its action through a queue. After
    n_steps steps, or at the end of an episode, it submits them as a segment to a trainer through another
    queue. Predictors and trainers take what is waiting, so an action may be of older parameters than
    the update that learns from it.

    num_envs: NA, the agents.
    predictors: NP, 1 to 64. A predictor chooses the actions of a batch of agents at a time.
    trainers: NT, 1 to 64. A trainer computes the gradient of a batch of segments at a time.
    prediction_batch_max: the most agents of a prediction.
    prediction_queue: the most agents inside the prediction queue; 0 for num_envs.
    training_queue: the most segments inside the training queue; other agents wait with theirs.
    min_training_batch: a trainer joins segments until it has at least this number of steps. 1: an update
        learns from one segment, as in the paper.
    wait_for_update: True makes an agent wait until its segment has been learned from. Other agents' updates
        may still come between its actions and their own.
    regulariser: how logarithms of small probabilities are kept finite. "paper": log(pi + log_eps) and
        H(pi + log_eps). "authors": log(max(pi, log_eps)), as in their code. "exact": not at all.
    log_eps: the constant of regulariser.
    loss_reduction: "sum" over the steps of an update, so that the step grows with the batch, or "mean".
    rms_prop: "tf1": RMSProp of TensorFlow 1, with rms_prop_eps inside the root and a first average of 1.
        "custom": as policy_kwargs["optimizer_class"] says.
    schedule: which computation ends next. "virtual": by a model of latencies, so that a seed has one
        result for any number of threads. "race": the one that ends first on this machine; the order is
        recorded.
        "recorded": as in the file of `order`.
    order: the path of a file of save_order or of a checkpoint of a race. It selects the schedule
        "recorded".
    tuner: how the numbers of active predictors, trainers and agents change, up to predictors, trainers
        and num_envs. "none": not. "paper": one of them by 1 (section 4.3). "authors": all by -1, 0 or 1.
        "ladder": predictors or trainers by 1, or agents times or by 2. A change is kept if there are
        more updates a second.
    tuner_start: the three numbers at the start, with a tuner.
    tuner_period: seconds between two proposals of the tuner, in the time of the schedule.
    tuner_pairs: pairs of measurements of a proposal, with and without it, of "paper" and "ladder".
    tuner_test: a proposal is kept if the mean difference of its pairs is above this number of standard errors.
    latency_step, latency_predict, latency_predict_row, latency_update, latency_update_row: with schedule
        "virtual", the durations in seconds (1e-9 to 60) of a step of an environment, of a prediction
        and of an update, and of each of their rows: a number, or "median:sigma" of a lognormal
        distribution (sigma 0 to 2).
    latency_device: with schedule "virtual", the most predictions and updates at a time; 0 for any number, -1 if they run on
        the cores of the steps.
    latency_cores: with schedule "virtual", the most steps of environments at a time; 0 for any number.
    latency_file: the path of a JSON file of measured durations; it replaces those above.
    vtrace: True corrects advantages and returns for the lag between the parameters that acted and those
        that learn (Espeholt et al. 2018).
    All other keywords: as in A2C; groups changes nothing.

    stats has "pps" and "tps" (predictions and updates a second, in the time of the schedule), "lag",
    "lag_mean" and "lag_most" (updates between a step's action and its own update), "prediction_batch",
    "training_batch", "prediction_queue" and "training_queue" (mean sizes), and the numbers of active
    "predictors", "trainers" and "agents". Predictors and trainers compute on the CPU. One thread may
    use a model at a time; any thread may call stop(). Close the model, or use it in a with statement.
    """

    METHOD: ClassVar[str] = "ga3c"
    LOG_INTERVAL: ClassVar[int] = 100
    _translate = staticmethod(settings)

    @constructor
    def __init__(
        self,
        policy: str,
        env: Any,
        learning_rate: Schedule = 3e-4,
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
        predictors: int = 2,
        trainers: int = 2,
        prediction_batch_max: int = 128,
        prediction_queue: int = 0,
        training_queue: int = 100,
        min_training_batch: int = 1,
        wait_for_update: bool = False,
        regulariser: str = "paper",
        log_eps: float = 1e-6,
        loss_reduction: str = "sum",
        rms_prop: str = "tf1",
        schedule: str = "virtual",
        order: File | None = None,
        tuner: str = "none",
        tuner_start: Iterable[int] = (1, 1, 1),
        tuner_period: float = 60.0,
        tuner_pairs: int = 4,
        tuner_test: float = 1.0,
        latency_step: float | str = "0.0005:0.5",
        latency_predict: float | str = "0.002:0.5",
        latency_predict_row: float | str = "2e-05",
        latency_update: float | str = "0.0005:0.5",
        latency_update_row: float | str = "5e-05",
        latency_device: int = 0,
        latency_cores: int = 0,
        latency_file: File | None = None,
        num_threads: int | None = None,
        groups: int = 1,
        vtrace: bool = False,
        vtrace_rho: float = 1.0,
        vtrace_c: float = 1.0,
        squashed: bool = False,
        scaled: bool = False,
        cnn: str = "nature",
        precision: str = "fp32",
        isa: str = "auto",
        frame_stack: int | None = None,
        env_kwargs: dict[str, Any] | None = None,
        action_masks: bool = False,
    ) -> None: ...

    def _periods(self) -> Periods:
        return Periods(rollout=int(self.setting("n_steps")) * self.n_envs, counted=False)

    def save_trace(self, path: File) -> None:
        """Writes the latest 100,000 proposals of the tuner as comma-separated values; plots.save_trace draws them.

        A line has the number and the time (in seconds) of a proposal, the proposed predictors, trainers
        and agents, the updates a second before and with them, the statistic of the comparison, and
        whether they were kept. Of tuner "authors" the numbers are updates, not updates a second. A
        checkpoint with its experience has the proposals, too.

        path: "x" becomes "x.csv".
        """
        self._check_open()
        with writing(path, "csv") as name:
            self._native.save_trace(name)
