package dqn

import (
	"fmt"
	"math"
	"slices"

	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/async"
	"github.com/paceline-rl/paceline/core/train/offpolicy"
)

// Config holds every setting of a run. Settings describes each field, under its name in C and
// Python.
type Config struct {
	train.Common
	Layers

	Concurrent   settings.Switch
	Synchronized bool
	Actor        string
	Window       int

	LearningRate         float64
	LearningRateFinal    float64 // NaN: constant
	LearningRateCurve    train.Curve
	BufferSize           int // of the replay memory D
	ReplayDevice         string
	LearningStarts       int // N
	BatchSize            int
	Gamma                float64
	DoubleQ              bool
	TrainFreq            int // F = TrainFreq / GradientSteps
	GradientSteps        int
	TargetUpdateInterval int // C
	Tau                  float64
	ExplorationFraction  float64
	ExplorationInitial   float64
	ExplorationFinal     float64
	ExplorationSteps     int
	Clock                string
	MaxGradNorm          float64
	Outliers             float64
	Optimizer            string
	OptimizerEps         float64 // NaN: the optimiser's own
	Loss                 string
	LossReduction        string

	Drawing
	Head
	Munchausen
	Noisy
	async.Settings
	train.Outside
}

// Actors: the parameters that the samplers act with.
const (
	ActorAuto     = "auto"
	ActorOnline   = offpolicy.ActorOnline
	ActorTarget   = offpolicy.ActorTarget
	ActorSnapshot = offpolicy.ActorSnapshot
)

// Values of Config.Clock: what C, epsilon and the learning rate count.
const (
	clockSteps   = "steps"
	clockUpdates = "updates"
)

const mostGradientSteps = 1 << 20

// Settings is the table of all settings, in the order in which they are worth reading.
var Settings = settings.New[Config]("dqn", slices.Concat(train.CommonSettings(func(c *Config) *train.Common { return &c.Common }), ofLayers(), []settings.Setting{
	settings.AutoBool("concurrent", "Concurrent Training (section 3 of the paper): updates run concurrently with the samplers, on experience up to the last window; auto: true, unless tau is below 1, or gradient_steps, if above 1, times learning_rate is above 0.1", func(c *Config) *settings.Switch { return &c.Concurrent }),
	settings.Bool("synchronized", true, "Synchronized Execution (section 4): one forward pass for all environments of a round, instead of one each", func(c *Config) *bool { return &c.Synchronized }),
	settings.Text("actor", ActorAuto, "parameters that choose actions: online (theta), target (theta-minus), snapshot (theta at the window's start); auto: snapshot when concurrent, else online", []string{ActorAuto, ActorOnline, ActorTarget, ActorSnapshot}, func(c *Config) *string { return &c.Actor }),
	settings.Int("window", 0, 0, 1<<40, "steps between two flushes into the replay memory; 0: min(target_update_interval, 1000), where concurrent at most the steps whose updates times learning_rate come to 0.1; or target_update_interval with actor target", func(c *Config) *int { return &c.Window }),
	settings.Float("learning_rate", 1e-4, 0, 1e3, "step size of the optimiser", func(c *Config) *float64 { return &c.LearningRate }),
	settings.OptionalFloat("learning_rate_final", 0, 1e3, "empty: constant. Else learning_rate goes to this value on a straight line from step 0 to the end of the run", func(c *Config) *float64 { return &c.LearningRateFinal }),
	train.CurveOf("learning_rate", 1e3, "by learning_rate and learning_rate_final", func(c *Config) *train.Curve { return &c.LearningRateCurve }),
	settings.Int("buffer_size", 1_000_000, 1, 1<<40, "transitions that can be sampled from the replay memory; below batch_size or num_envs it acts as the larger of them", func(c *Config) *int { return &c.BufferSize }),
	settings.Text("replay_device", offpolicy.ReplayAuto, "where minibatches are gathered from the replay memory: cuda (in the memory of the GPU that computes, which has a copy of its frames), cpu, or auto: the GPU, where one computes and has the memory for it. Changes the speed, never the result", []string{offpolicy.ReplayAuto, offpolicy.ReplayCPU, offpolicy.ReplayCUDA}, func(c *Config) *string { return &c.ReplayDevice }),
	settings.Int("learning_starts", 100, 0, 1<<40, "N: steps of random actions before learning, over all environments; below batch_size it acts as batch_size", func(c *Config) *int { return &c.LearningStarts }),
	settings.Int("batch_size", 32, 1, 65536, "transitions in a minibatch", func(c *Config) *int { return &c.BatchSize }),
	settings.Float("gamma", 0.99, 0, 1, "discount factor", func(c *Config) *float64 { return &c.Gamma }),
	settings.Bool("double_q", false, "Double Q-learning (van Hasselt et al. 2016): the next action is the best one under theta, and its value under theta-minus is the target's; false: the target has the largest value under theta-minus", func(c *Config) *bool { return &c.DoubleQ }),
	settings.Int("train_freq", 4, 1, 1<<40, "steps (of all environments together) between two bursts of gradient_steps updates", func(c *Config) *int { return &c.TrainFreq }),
	settings.Int("gradient_steps", 1, -1, mostGradientSteps, "updates at every multiple of train_freq, 1 or more; -1: as many as train_freq; a concurrent window spreads them over its steps", func(c *Config) *int { return &c.GradientSteps }),
	settings.Int("target_update_interval", 10000, 1, 1<<40, "C: steps between two updates of theta-minus; see tau", func(c *Config) *int { return &c.TargetUpdateInterval }),
	settings.Float("tau", 1, 1e-6, 1, "share of theta that theta-minus takes at each multiple of target_update_interval: theta-minus <- tau theta + (1 - tau) theta-minus; 1: a copy. If concurrent, the steps of a window are taken at its end", func(c *Config) *float64 { return &c.Tau }),
	settings.Float("exploration_fraction", 0.1, 0, 1, "share of the steps up to the end of the run over which epsilon falls; ignored if exploration_steps is set", func(c *Config) *float64 { return &c.ExplorationFraction }),
	settings.Float("exploration_initial_eps", 1, 0, 1, "epsilon at the first step after the warm-up", func(c *Config) *float64 { return &c.ExplorationInitial }),
	settings.Float("exploration_final_eps", 0.05, 0, 1, "epsilon after it has fallen", func(c *Config) *float64 { return &c.ExplorationFinal }),
	settings.Int("exploration_steps", 0, 0, 1<<40, "steps after the warm-up over which epsilon falls; 0: by exploration_fraction", func(c *Config) *int { return &c.ExplorationSteps }),
	settings.Text("clock", clockSteps, "what target_update_interval, exploration_steps and the learning rate's schedule count: steps, or updates that were applied to theta (Nair et al. 2015), of all learners, as known at the latest pull. With updates a run is as long as the updates that its steps ask for", []string{clockSteps, clockUpdates}, func(c *Config) *string { return &c.Clock }),
	settings.Float("max_grad_norm", 10, 0, math.MaxFloat64, "gradients of a larger Euclidean norm are scaled down to it; 0: never", func(c *Config) *float64 { return &c.MaxGradNorm }),
	settings.Float("outliers", 0, 0, 1e6, "k: a gradient is dropped if the absolute loss of its minibatch is above the running mean by more than k running standard deviations (Nair et al. 2015, section 4.2); each learner has its own. On the CPU only; 0: none is dropped", func(c *Config) *float64 { return &c.Outliers }),
	settings.Text("optimizer", "adam", "adam, adagrad, rmsprop (PyTorch's), rmsprop_mnih (centred, eps inside the root), rmsprop_keras (centred, eps outside) or rmsprop_lasagne (not centred, decay 0.95, eps 1e-6 inside the root)", []string{"adam", "adagrad", "rmsprop", "rmsprop_mnih", "rmsprop_keras", "rmsprop_lasagne"}, func(c *Config) *string { return &c.Optimizer }),
	settings.OptionalFloat("optimizer_eps", 1e-20, 1e3, "the optimiser's small constant; empty: its own default", func(c *Config) *float64 { return &c.OptimizerEps }),
	settings.Text("loss", "huber", "loss of a temporal-difference error: huber (quadratic up to 1) or squared", []string{"huber", "squared"}, func(c *Config) *string { return &c.Loss }),
	settings.Text("loss_reduction", "mean", "over the minibatch: mean or sum", []string{"mean", "sum"}, func(c *Config) *string { return &c.LossReduction }),
}, ofDrawing(), ofHead(), ofMunchausen(), ofNoisy(), ofLearners(), train.OutsideSettings(func(c *Config) *train.Outside { return &c.Outside })), presets)

// Resolve checks every setting and how they go together, and replaces "auto" and 0 by what they
// stand for. It returns sentences that the user is told once.
func (c *Config) Resolve() (notices []string, err error) {
	if err := Settings.Over(c).Check(); err != nil { // fields may have been set without Set
		return nil, err
	}
	switch {
	case c.GradientSteps == 0:
		return nil, fmt.Errorf("gradient_steps: 0, must be 1 to %d, or -1 for as many as train_freq", mostGradientSteps)
	case c.GradientSteps == -1 && c.TrainFreq > mostGradientSteps:
		return nil, fmt.Errorf("gradient_steps: -1, stands for train_freq (%d), must be 1 to %d", c.TrainFreq, mostGradientSteps)
	case c.GradientSteps == -1:
		c.GradientSteps = c.TrainFreq
	}
	if c.Concurrent == settings.Auto {
		why := c.whyNotConcurrent()
		if why != "" {
			notices = append(notices, why)
		}
		c.Concurrent = settings.SwitchOf(why == "")
	}
	if c.Actor == ActorAuto {
		c.Actor = ActorOnline
		if c.concurrent() {
			c.Actor = ActorSnapshot
		}
	}
	if c.concurrent() && c.Actor == ActorOnline {
		return nil, fmt.Errorf("actor: online, must be target or snapshot when concurrent is true: the trainer is rewriting theta while the samplers act")
	}
	if c.Groups > 1 && !c.Synchronized {
		return nil, fmt.Errorf("groups: %d, must be 1 where synchronized is false: there each environment takes its steps by itself", c.Groups)
	}
	if c.Window == 0 {
		c.Window = max(c.targetSteps(), c.NumEnvs)
		if c.Actor != ActorTarget {
			c.Window = max(min(c.targetSteps(), c.steadySteps()), c.TrainFreq, c.NumEnvs)
		}
	}
	if c.Window < c.NumEnvs {
		return nil, fmt.Errorf("window: %d, must be at least num_envs (%d): a window is whole rounds", c.Window, c.NumEnvs)
	}
	// Programs that only act, such as rl-zoo's enjoy, load a model with a buffer_size of 1.
	if least := max(c.BatchSize, c.NumEnvs); c.BufferSize < least {
		notices = append(notices, fmt.Sprintf("buffer_size: %d acts as %d, the least with batch_size %d and num_envs %d", c.BufferSize, least, c.BatchSize, c.NumEnvs))
		c.BufferSize = least
	}
	if c.LearningStarts < c.BatchSize {
		notices = append(notices, fmt.Sprintf("learning_starts: %d is below batch_size and acts as %d, because the first minibatch is drawn from the warm-up",
			c.LearningStarts, c.BatchSize))
		c.LearningStarts = c.BatchSize
	}
	c.dropExponents()
	for _, resolve := range []func() ([]string, error){c.noticeUnused, c.resolveDrawing, c.resolveHead, c.resolveMunchausen, c.resolveNoisy} {
		more, err := resolve()
		if notices = append(notices, more...); err != nil {
			return nil, err
		}
	}
	if c.concurrent() && !c.byUpdates() && c.TargetUpdateInterval < c.Window {
		acts := fmt.Sprintf("acts as %d", c.Window)
		if c.Tau < 1 {
			acts = "a window's steps of tau are taken at its end, all at once"
		}
		notices = append(notices, fmt.Sprintf("target_update_interval: %d is below the window and %s, because theta-minus does not change inside a window",
			c.TargetUpdateInterval, acts))
	}
	return notices, c.checkLearners()
}

// concurrent reports whether updates run concurrently with the samplers. It is false before Resolve
// has replaced Auto.
func (c *Config) concurrent() bool { return c.Concurrent == settings.On }

// mostMoved is the largest distance by which the updates of one concurrent window may move a weight
// by default. An update of Adam moves a weight by about the learning rate. The samplers act with
// the same parameters during a window, so in a longer window one policy explores for too long. On
// MountainCar-v0, with windows of 600 steps that move a weight by 1.2, none of three runs learned
// to reach the goal. With windows of 48 steps all three did.
const mostMoved = 0.1

// whyNotConcurrent returns the reason why Auto is Off, or "" if it is On. The reasons are a tau
// below 1, and a single burst that moves a weight by more than mostMoved.
func (c *Config) whyNotConcurrent() string {
	rate := c.largestRate()
	switch {
	case c.Tau < 1:
		return fmt.Sprintf("tau: %g makes concurrent default to False: the target network moves at every multiple of "+
			"target_update_interval; with concurrent True it moves at the ends of windows", c.Tau)
	case c.GradientSteps > 1 && rate*float64(c.GradientSteps) > mostMoved:
		return fmt.Sprintf("gradient_steps: %d with a learning_rate of %g makes concurrent default to False: so much is learned at a time "+
			"that actions should not wait for the end of the next window; concurrent True overlaps them all the same", c.GradientSteps, rate)
	}
	return ""
}

// largestRate returns the largest learning rate of the settings.
func (c *Config) largestRate() float64 {
	rate := c.LearningRate
	for i, p := range c.LearningRateCurve {
		if i == 0 || p.Value > rate {
			rate = p.Value
		}
	}
	if final := c.LearningRateFinal; len(c.LearningRateCurve) == 0 && final > rate { // not if it is NaN
		rate = final
	}
	return rate
}

// steadySteps is the default length of a window: 1000 steps or, if training is concurrent, fewer,
// so that the updates of a window move a weight by at most mostMoved.
func (c *Config) steadySteps() int {
	steps := mostMoved * float64(c.TrainFreq) / (c.largestRate() * float64(c.GradientSteps))
	if c.concurrent() && steps < 1000 {
		return int(steps)
	}
	return 1000
}
