package ga3c

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/onpolicy"
	"github.com/paceline-rl/paceline/core/train/order"
)

// Config holds every setting of a run. Settings describes each field, under its name in C and
// Python.
type Config struct {
	train.Common
	onpolicy.ActorCritic
	Queues
	onpolicy.VTraceSettings
	Latency
}

// Queues are the settings of the agents, the predictors and the trainers, and of what a trainer
// does.
type Queues struct {
	Predictors         int
	Trainers           int
	PredictionBatchMax int
	PredictionQueue    int
	TrainingQueue      int
	MinTrainingBatch   int
	WaitForUpdate      bool
	Regulariser        string
	LogEps             float64
	LossReduction      string
	RMSProp            string
	Schedule           string
	Order              string
	Tuner              string
	TunerStart         []int
	TunerPeriod        float64
	TunerPairs         int
	TunerTest          float64
}

// Latency is the model by which the virtual schedule gives computations their durations.
type Latency struct {
	Step       order.Duration // of an agent's environment
	Predict    order.Duration // of a prediction, without its rows
	PredictRow order.Duration // of each row of a prediction, the same for all rows of a batch
	Update     order.Duration // of an update, without its rows
	UpdateRow  order.Duration // of each row of an update
	Device     int            // most predictions and updates at a time; 0: any number; onCores: as many as Cores has free
	Cores      int            // most steps at a time; 0: any number
	File       string
}

// Values of settings.
const (
	regulariserPaper   = "paper"
	regulariserAuthors = "authors"
	regulariserExact   = "exact"

	reductionSum  = "sum"
	reductionMean = "mean"

	rmsPropTF1    = "tf1"
	rmsPropCustom = "custom"

	onCores = -1 // of Latency.Device
)

// defaults are the paper's, where it gives them.
var defaults = onpolicy.ActorCritic{LearningRate: 3e-4, NSteps: 5, GAELambda: 1, UseRMSProp: true}

// without are settings of onpolicy.ActorCritic that GA3C does not have.
var without = []string{"normalize_obs", "normalize_reward", "mid_batch_reset"}

// Settings is the table of all settings, in the order in which they are worth reading.
var Settings = settings.New[Config]("ga3c", slices.Concat(
	train.CommonSettings(func(c *Config) *train.Common { return &c.Common }),
	slices.DeleteFunc(onpolicy.Settings(defaults, func(c *Config) *onpolicy.ActorCritic { return &c.ActorCritic }),
		func(s settings.Setting) bool { return slices.Contains(without, s.Name) }),
	settings.Within(func(c *Config) *Queues { return &c.Queues }, queueSettings),
	onpolicy.VTraceSettingsOf("correct advantages and returns for the lag between the parameters that acted and those that learn, by V-trace (Espeholt et al. 2018)", func(c *Config) *onpolicy.VTraceSettings { return &c.VTraceSettings }),
	settings.Within(func(c *Config) *Latency { return &c.Latency }, latencySettings),
), presets)

type q = Queues

var queueSettings = []settings.Setting{
	settings.Int("predictors", 2, 1, 64, "NP: predictors, each of which chooses the actions of a batch of agents at a time. Agents are num_envs (NA)", func(c *q) *int { return &c.Predictors }),
	settings.Int("trainers", 2, 1, 64, "NT: trainers, each of which computes the gradient of a batch of segments at a time. A segment is n_steps steps of an agent, or fewer at the end of an episode", func(c *q) *int { return &c.Trainers }),
	settings.Int("prediction_batch_max", 128, 1, nn.MaxRows, "most agents of a prediction", func(c *q) *int { return &c.PredictionBatchMax }),
	settings.Int("prediction_queue", 0, 0, 1<<16, "most agents that wait inside the prediction queue; 0: num_envs", func(c *q) *int { return &c.PredictionQueue }),
	settings.Int("training_queue", 100, 1, 1<<20, "most segments that wait inside the training queue. An agent whose segment does not get in waits", func(c *q) *int { return &c.TrainingQueue }),
	settings.Int("min_training_batch", 1, 1, nn.MaxRows, "a trainer joins segments until it has at least this number of steps; 1: each update learns from one segment", func(c *q) *int { return &c.MinTrainingBatch }),
	settings.Bool("wait_for_update", false, "whether an agent waits until its segment has been learned from; other agents' updates may still come between its actions and their own, but not with one trainer and min_training_batch of at least num_envs times n_steps, where the library steps the environments; false: it goes on", func(c *q) *bool { return &c.WaitForUpdate }),
	settings.Text("regulariser", regulariserPaper, "logarithms of small probabilities: paper (log(pi + log_eps) and H(pi + log_eps), its (5)), authors (log(max(pi, log_eps)), as in their code), or exact", []string{regulariserPaper, regulariserAuthors, regulariserExact}, func(c *q) *string { return &c.Regulariser }),
	settings.Float("log_eps", 1e-6, 1e-30, 1, "small constant of the regulariser", func(c *q) *float64 { return &c.LogEps }),
	settings.Text("loss_reduction", reductionSum, "loss of an update: the sum over its steps, so that the step grows with the batch (the authors), or their mean", []string{reductionSum, reductionMean}, func(c *q) *string { return &c.LossReduction }),
	settings.Text("rms_prop", rmsPropTF1, "form of RMSProp: tf1 (TensorFlow 1: rms_prop_eps inside the root, first average 1) or custom (as rms_prop_eps_inside and rms_prop_first say)", []string{rmsPropTF1, rmsPropCustom}, func(c *q) *string { return &c.RMSProp }),
	settings.Text("schedule", string(order.Virtual), "which computation ends next: virtual (as a model of latencies says, so that a seed has one result), race (the one that ends first, recorded), or recorded (as the file in order says)", []string{string(order.Virtual), string(order.Race), string(order.Recorded)}, func(c *q) *string { return &c.Schedule }),
	settings.Text("tuner", tunerNone, "how the numbers of active predictors, trainers and agents change while the run goes on, up to predictors, trainers and num_envs: none, paper (one of them by 1), authors (all by -1, 0 or 1) or ladder (predictors or trainers by 1, or agents times or by 2), each kept if there are more updates a second", []string{tunerNone, tunerPaper, tunerAuthors, tunerLadder}, func(c *q) *string { return &c.Tuner }),
	settings.Ints("tuner_start", "1,1,1", 1, 1<<16, "numbers", "active predictors, trainers and agents at the start, with a tuner", func(c *q) *[]int { return &c.TunerStart }),
	settings.Float("tuner_period", 60, 1e-3, 1e6, "seconds between two proposals of the tuner, in the time of the schedule", func(c *q) *float64 { return &c.TunerPeriod }),
	settings.Int("tuner_pairs", 4, 2, 1000, "pairs of windows of a period, with tuner paper or ladder: one with the numbers so far and one with those proposed", func(c *q) *int { return &c.TunerPairs }),
	settings.Float("tuner_test", 1, 0, 100, "with tuner paper or ladder, a proposal is kept if the mean of the pairs' differences is above this number of standard errors", func(c *q) *float64 { return &c.TunerTest }),
	settings.Text("order", "", "file of the order that schedule recorded repeats, or a checkpoint of a race", nil, func(c *q) *string { return &c.Order }),
}

var latencySettings = []settings.Setting{
	order.DurationSetting("step", "0.0005:0.5", "a step of an agent's environment", func(l *Latency) *order.Duration { return &l.Step }),
	order.DurationSetting("predict", "0.002:0.5", "a prediction, without its rows", func(l *Latency) *order.Duration { return &l.Predict }),
	order.DurationSetting("predict_row", "2e-05", "each row of a prediction, drawn once for its batch", func(l *Latency) *order.Duration { return &l.PredictRow }),
	order.DurationSetting("update", "0.0005:0.5", "an update, without its rows", func(l *Latency) *order.Duration { return &l.Update }),
	order.DurationSetting("update_row", "5e-05", "each row of an update, drawn once for its batch", func(l *Latency) *order.Duration { return &l.UpdateRow }),
	settings.Int("latency_device", 0, onCores, 1024, "with schedule virtual, most predictions and updates that run at a time; others wait for them; 0: any number; -1: they run on the cores of the steps (latency_cores)", func(l *Latency) *int { return &l.Device }),
	settings.Int("latency_cores", 0, 0, 1<<16, "with schedule virtual, most steps of environments that run at a time; others wait for them; 0: any number", func(l *Latency) *int { return &l.Cores }),
	settings.Text("latency_file", "", "a JSON file of measured durations, lists of seconds under step, predict, predict_row, update or update_row, which take the place of the settings latency_*; empty: none", nil,
		func(l *Latency) *string { return &l.File }),
}

// open reads File, if there is one.
func (l *Latency) open() error {
	return order.OpenDurations(l.File, []order.NamedDuration{
		{Name: "step", To: &l.Step}, {Name: "predict", To: &l.Predict}, {Name: "predict_row", To: &l.PredictRow}, {Name: "update", To: &l.Update}, {Name: "update_row", To: &l.UpdateRow},
	})
}

// ResetsLate implements train.LateResets: agents reset their environments themselves.
func (c *Config) ResetsLate() bool { return false }

// shape names the settings in which a checkpoint and the trainer that loads it must agree.
var shape = slices.DeleteFunc(slices.Clone(onpolicy.Shape), func(name string) bool { return slices.Contains(without, name) })

// Resolve checks every setting and how they go together.
func (c *Config) Resolve() (notices []string, err error) {
	if err := Settings.Over(c).Check(); err != nil {
		return nil, err
	}
	if c.RMSProp == rmsPropTF1 && c.UseRMSProp {
		c.RMSPropEpsInside, c.RMSPropFirst = true, 1
	}
	c.MidBatchReset = true
	switch {
	case c.MinTrainingBatch-1+c.NSteps > nn.MaxRows:
		return nil, fmt.Errorf("min_training_batch: %d, must be at most %d with n_steps %d", c.MinTrainingBatch, nn.MaxRows+1-c.NSteps, c.NSteps)
	case c.TrainingQueue < c.MinTrainingBatch:
		return nil, fmt.Errorf("training_queue: %d, must be at least min_training_batch (%d): a segment may have one step", c.TrainingQueue, c.MinTrainingBatch)
	case c.MinTrainingBatch == 1 && c.NSteps == 1 && c.NormalizeAdvantage:
		return nil, errors.New("normalize_advantage: true, must be false where an update has one step: one advantage has no deviation")
	case len(c.TunerStart) != 3:
		return nil, fmt.Errorf("tuner_start: %v, must be three numbers: predictors, trainers, agents", c.TunerStart)
	case c.Schedule == string(order.Recorded) && c.Order == "":
		return nil, errors.New("order: empty, must name a file with schedule recorded")
	case c.Schedule != string(order.Recorded) && c.Order != "":
		return nil, fmt.Errorf("order: %q, must be empty with schedule %s", c.Order, c.Schedule)
	}
	return Settings.Over(c).Unused(slices.Concat(c.ActorCritic.Switched(), c.VTraceSettings.Switched(), c.switched())...)
}

// switched lists the settings of GA3C alone that are used with some values of another setting only.
func (c *Config) switched() []settings.Switched {
	return []settings.Switched{
		{Names: "rms_prop", By: "use_rms_prop", Used: c.UseRMSProp},
		{Names: "log_eps", By: "regulariser", Used: c.Regulariser != regulariserExact},
		{Names: "tuner_start tuner_period", By: "tuner", Used: c.Tuner != tunerNone},
		{Names: "tuner_pairs tuner_test", By: "tuner", Used: c.Tuner == tunerPaper || c.Tuner == tunerLadder},
		{Names: settings.Names(latencySettings), By: "schedule", Used: c.Schedule == string(order.Virtual)},
	}
}

// requests is the bound of the prediction queue.
func (c *Config) requests() int { return cmp.Or(c.PredictionQueue, c.NumEnvs) }

// predictionRows is the most rows of a prediction.
func (c *Config) predictionRows() int { return min(c.PredictionBatchMax, c.requests(), c.NumEnvs) }

// loss is the loss of a trainer, as a mean over the rows of a batch.
func (c *Config) loss() nn.ActorCritic {
	l := nn.ActorCritic{EntropyCoef: c.EntCoef, ValueCoef: c.VfCoef}
	switch c.Regulariser {
	case regulariserPaper:
		l.Regulariser, l.LogEps = nn.RegulariserPlus, c.LogEps
	case regulariserAuthors:
		l.Regulariser, l.LogEps = nn.RegulariserMax, c.LogEps
	}
	return l
}
