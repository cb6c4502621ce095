package dqn

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/nearest"
)

// Config holds every setting of a run. Options describes each field, under
// the name that C and Python use for it.
type Config struct {
	Env        string
	EnvOptions string // a JSON object
	Policy     string
	NetArch    []int

	NumEnvs      int // W
	NumThreads   int
	Concurrent   bool
	Synchronized bool
	Actor        string
	Window       int

	LearningRate         float64
	LearningRateFinal    float64 // NaN: constant
	BufferSize           int     // of the replay memory D
	LearningStarts       int     // N
	BatchSize            int
	Gamma                float64
	TrainFreq            int // F = TrainFreq / GradientSteps
	GradientSteps        int
	TargetUpdateInterval int // C
	ExplorationFraction  float64
	ExplorationInitial   float64
	ExplorationFinal     float64
	ExplorationSteps     int
	MaxGradNorm          float64
	Optimizer            string
	OptimizerEps         float64 // NaN: the optimiser's own
	Loss                 string
	LossReduction        string

	Precision  string
	Seed       int
	FrameStack int
	Autoreset  string
}

// Option describes one setting.
type Option struct {
	Name    string
	Type    string // "int", "float", "bool", "string" or "ints"
	Default string
	Doc     string

	get func(*Config) string
	set func(*Config, string) error
}

// Actors: whose parameters the samplers act with.
const (
	ActorAuto     = "auto"
	ActorOnline   = "online"
	ActorTarget   = "target"
	ActorSnapshot = "snapshot"
)

// precisions are what Precision may be.
var precisions = map[string]kernel.Precision{"fp32": kernel.FP32, "bf16": kernel.BF16}

// Policies, named as in Stable-Baselines3.
const (
	policyAuto = "auto"
	policyCNN  = "CnnPolicy"
	policyMLP  = "MlpPolicy"
)

// Options is the table of all settings, in the order in which they are worth
// reading.
var Options = []Option{
	text("env", "", "name of the built-in environment to step", nil, func(c *Config) *string { return &c.Env }),
	text("env_options", "", "what the built-in environment is made with, as a JSON object: {\"recipe\": \"mnih2015\"}", nil, func(c *Config) *string { return &c.EnvOptions }),
	text("policy", policyAuto, "network: CnnPolicy (Nature CNN, for pictures), MlpPolicy (dense layers), or auto by the observation", []string{policyAuto, policyCNN, policyMLP}, func(c *Config) *string { return &c.Policy }),
	{Name: "net_arch", Type: "ints", Default: "64,64", Doc: "widths of MlpPolicy's hidden layers, each 1 to 65536",
		get: func(c *Config) string { return joinInts(c.NetArch) }, set: setNetArch},
	integer("num_envs", 1, 1, 65536, "W: environments stepped together", func(c *Config) *int { return &c.NumEnvs }),
	integer("num_threads", 0, 0, 1024, "threads that compute at any time: the trainer's, the samplers' and their helpers together; 0: one per core. Changes the speed, never the result", func(c *Config) *int { return &c.NumThreads }),
	flag("concurrent", "true", "Concurrent Training (section 3 of the paper): updates run beside the samplers, on experience up to the last window", func(c *Config) *bool { return &c.Concurrent }),
	flag("synchronized", "true", "Synchronized Execution (section 4): one forward pass for all environments of a round, instead of one each", func(c *Config) *bool { return &c.Synchronized }),
	text("actor", "auto", "parameters that choose actions: online (theta), target (theta-minus), snapshot (theta at the window's start); auto: snapshot when concurrent, else online", []string{ActorAuto, ActorOnline, ActorTarget, ActorSnapshot}, func(c *Config) *string { return &c.Actor }),
	integer("window", 0, 0, 1<<40, "steps between two flushes into the replay memory; 0: min(target_update_interval, 1000), or target_update_interval with actor target", func(c *Config) *int { return &c.Window }),
	number("learning_rate", 1e-4, 0, 1e3, "step size of the optimiser", func(c *Config) *float64 { return &c.LearningRate }),
	optional("learning_rate_final", "empty: constant. Else learning_rate falls (or rises) to this on a straight line over the course of learning", func(c *Config) *float64 { return &c.LearningRateFinal }),
	integer("buffer_size", 1_000_000, 1, 1<<40, "transitions that can be sampled from the replay memory", func(c *Config) *int { return &c.BufferSize }),
	integer("learning_starts", 100, 0, 1<<40, "N: steps of random actions before learning, over all environments; at least batch_size", func(c *Config) *int { return &c.LearningStarts }),
	integer("batch_size", 32, 1, 65536, "transitions in a minibatch", func(c *Config) *int { return &c.BatchSize }),
	number("gamma", 0.99, 0, 1, "discount factor", func(c *Config) *float64 { return &c.Gamma }),
	integer("train_freq", 4, 1, 1<<40, "steps (of all environments together) for every gradient_steps updates", func(c *Config) *int { return &c.TrainFreq }),
	integer("gradient_steps", 1, 1, 1<<20, "updates for every train_freq steps", func(c *Config) *int { return &c.GradientSteps }),
	integer("target_update_interval", 10000, 1, 1<<40, "C: steps between two copies theta-minus <- theta", func(c *Config) *int { return &c.TargetUpdateInterval }),
	number("exploration_fraction", 0.1, 0, 1, "part of the course of learning over which epsilon falls; ignored if exploration_steps is set", func(c *Config) *float64 { return &c.ExplorationFraction }),
	number("exploration_initial_eps", 1, 0, 1, "epsilon at the first step after the warm-up", func(c *Config) *float64 { return &c.ExplorationInitial }),
	number("exploration_final_eps", 0.05, 0, 1, "epsilon after it has fallen", func(c *Config) *float64 { return &c.ExplorationFinal }),
	integer("exploration_steps", 0, 0, 1<<40, "steps after the warm-up over which epsilon falls; 0: by exploration_fraction", func(c *Config) *int { return &c.ExplorationSteps }),
	number("max_grad_norm", 10, 0, math.MaxFloat64, "gradients of a larger Euclidean norm are scaled down to it; 0: never", func(c *Config) *float64 { return &c.MaxGradNorm }),
	text("optimizer", "adam", "adam, adagrad, rmsprop (PyTorch's), rmsprop_mnih (centred, eps inside the root) or rmsprop_keras (centred, eps outside)", []string{"adam", "adagrad", "rmsprop", "rmsprop_mnih", "rmsprop_keras"}, func(c *Config) *string { return &c.Optimizer }),
	optional("optimizer_eps", "the optimiser's small constant; empty: its own default", func(c *Config) *float64 { return &c.OptimizerEps }),
	text("loss", "huber", "loss of a temporal-difference error: huber (quadratic up to 1) or squared", []string{"huber", "squared"}, func(c *Config) *string { return &c.Loss }),
	text("loss_reduction", "mean", "over the minibatch: mean or sum", []string{"mean", "sum"}, func(c *Config) *string { return &c.LossReduction }),
	text("precision", "fp32", "what the networks' products multiply, in updates and in acting: fp32, or bf16 (operands rounded to bfloat16, sums and weights float32; faster where the processor has AVX-512 BF16)", []string{"fp32", "bf16"}, func(c *Config) *string { return &c.Precision }),
	integer("seed", 0, 0, math.MaxInt64, "the one seed of everything random", func(c *Config) *int { return &c.Seed }),
	integer("frame_stack", 0, 0, 64, "successive frames along an observation's first axis: anything else is then an error; 0: as the environment says, or found out where the caller steps it", func(c *Config) *int { return &c.FrameStack }),
	text("autoreset", "same_step", "what a pushed observation row holds after an episode's end: same_step (the next episode's first) or next_step (the ended one's last)", []string{"same_step", "next_step"}, func(c *Config) *string { return &c.Autoreset }),
}

// DefaultConfig returns every setting's default.
func DefaultConfig() Config {
	var c Config
	for _, o := range Options {
		if err := o.set(&c, o.Default); err != nil {
			panic(fmt.Sprintf("dqn: default of %s: %v", o.Name, err))
		}
	}
	return c
}

// Set gives the setting called name the value that text spells.
func (c *Config) Set(name, text string) error {
	o, err := option(name)
	if err != nil {
		return err
	}
	return o.set(c, strings.TrimSpace(text))
}

// Get returns the value of a setting as text that Set accepts.
func (c *Config) Get(name string) (string, error) {
	o, err := option(name)
	if err != nil {
		return "", err
	}
	return o.get(c), nil
}

func option(name string) (*Option, error) {
	for i := range Options {
		if Options[i].Name == name {
			return &Options[i], nil
		}
	}
	var names []string
	for _, o := range Options {
		names = append(names, o.Name)
	}
	if near := nearest.Names(name, names, 3, nil); near != nil {
		return nil, fmt.Errorf("setting %q is not known; did you mean %s?", name, strings.Join(near, " or "))
	}
	return nil, fmt.Errorf("setting %q is not known", name)
}

func integer(name string, def, lo, hi int, doc string, field func(*Config) *int) Option {
	return Option{Name: name, Type: "int", Default: strconv.Itoa(def), Doc: doc,
		get: func(c *Config) string { return strconv.Itoa(*field(c)) },
		set: func(c *Config, s string) error {
			v, err := strconv.Atoi(s)
			if err != nil {
				// Python and shells like to write 1e6.
				f, ferr := strconv.ParseFloat(s, 64)
				if ferr != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
					return fmt.Errorf("%s: %q, must be a whole number", name, s)
				}
				v = int(f)
			}
			if v < lo || v > hi {
				return fmt.Errorf("%s: %d, must be %d to %d", name, v, lo, hi)
			}
			*field(c) = v
			return nil
		}}
}

func number(name string, def, lo, hi float64, doc string, field func(*Config) *float64) Option {
	return Option{Name: name, Type: "float", Default: formatFloat(def), Doc: doc,
		get: func(c *Config) string { return formatFloat(*field(c)) },
		set: func(c *Config, s string) error {
			v, err := strconv.ParseFloat(s, 64)
			if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Errorf("%s: %q, must be a finite number", name, s)
			}
			if v < lo || v > hi {
				return fmt.Errorf("%s: %s, must be %s to %s", name, formatFloat(v), formatFloat(lo), formatFloat(hi))
			}
			*field(c) = v
			return nil
		}}
}

// optional is a number that may be absent: the empty text, kept as NaN.
func optional(name, doc string, field func(*Config) *float64) Option {
	o := number(name, 0, 0, 1e3, doc, field)
	get, set := o.get, o.set
	o.Default = ""
	o.get = func(c *Config) string {
		if math.IsNaN(*field(c)) {
			return ""
		}
		return get(c)
	}
	o.set = func(c *Config, s string) error {
		if s == "" {
			*field(c) = math.NaN()
			return nil
		}
		return set(c, s)
	}
	return o
}

func flag(name, def, doc string, field func(*Config) *bool) Option {
	return Option{Name: name, Type: "bool", Default: def, Doc: doc,
		get: func(c *Config) string { return strconv.FormatBool(*field(c)) },
		set: func(c *Config, s string) error {
			v, err := strconv.ParseBool(s)
			if err != nil {
				return fmt.Errorf("%s: %q, must be true or false", name, s)
			}
			*field(c) = v
			return nil
		}}
}

func text(name, def, doc string, allowed []string, field func(*Config) *string) Option {
	return Option{Name: name, Type: "string", Default: def, Doc: doc,
		get: func(c *Config) string { return *field(c) },
		set: func(c *Config, s string) error {
			if allowed != nil && !slices.Contains(allowed, s) {
				return fmt.Errorf("%s: %q, must be %s", name, s, strings.Join(allowed, ", "))
			}
			*field(c) = s
			return nil
		}}
}

func setNetArch(c *Config, s string) error {
	var widths []int
	if s != "" {
		for _, part := range strings.Split(s, ",") {
			w, err := strconv.Atoi(strings.TrimSpace(part))
			if err != nil || w < 1 || w > 65536 {
				return fmt.Errorf("net_arch: %q, must be widths of 1 to 65536 with commas between", s)
			}
			widths = append(widths, w)
		}
	}
	c.NetArch = widths
	return nil
}

func joinInts(v []int) string {
	parts := make([]string, len(v))
	for i, x := range v {
		parts[i] = strconv.Itoa(x)
	}
	return strings.Join(parts, ",")
}

func formatFloat(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// resolve checks every setting, replaces what was left open ("auto", 0) by what
// it stands for and checks how they go together. It returns the remarks that
// are worth making once.
func (c *Config) resolve() (notices []string, err error) {
	for i := range Options {
		o := &Options[i]
		if err := o.set(new(Config), o.get(c)); err != nil {
			return nil, err // of a field that was not set by Set
		}
	}
	if c.Actor == ActorAuto {
		c.Actor = ActorOnline
		if c.Concurrent {
			c.Actor = ActorSnapshot
		}
	}
	if c.Concurrent && c.Actor == ActorOnline {
		return nil, fmt.Errorf("actor: online, must be target or snapshot when concurrent is true: the trainer is rewriting theta while the samplers act")
	}
	if c.Window == 0 {
		c.Window = max(c.TargetUpdateInterval, c.NumEnvs)
		if c.Actor != ActorTarget {
			c.Window = max(min(c.TargetUpdateInterval, 1000), c.TrainFreq, c.NumEnvs)
		}
	}
	if c.Window < c.NumEnvs {
		return nil, fmt.Errorf("window: %d, must be at least num_envs (%d): a window is whole rounds", c.Window, c.NumEnvs)
	}
	if c.BatchSize > c.BufferSize {
		return nil, fmt.Errorf("batch_size: %d, must be at most buffer_size (%d)", c.BatchSize, c.BufferSize)
	}
	if c.LearningStarts < c.BatchSize {
		return nil, fmt.Errorf("learning_starts: %d, must be at least batch_size (%d)", c.LearningStarts, c.BatchSize)
	}
	if c.BufferSize < c.NumEnvs {
		return nil, fmt.Errorf("buffer_size: %d, must be at least num_envs (%d)", c.BufferSize, c.NumEnvs)
	}
	if c.Concurrent && c.TargetUpdateInterval < c.Window {
		notices = append(notices, fmt.Sprintf("target_update_interval: %d is below the window and acts as %d, because theta-minus does not change inside a window",
			c.TargetUpdateInterval, c.Window))
	}
	return notices, nil
}
