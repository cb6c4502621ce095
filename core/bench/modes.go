package bench

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/paceline-rl/paceline/core/cpu"
	"github.com/paceline-rl/paceline/core/env"
	_ "github.com/paceline-rl/paceline/core/env/builtin"
	"github.com/paceline-rl/paceline/core/threads"
	"github.com/paceline-rl/paceline/core/train"
)

// ModesOptions are the options of the benchmark of the four modes.
type ModesOptions struct {
	Env        string            `json:"env"`
	NumEnvs    []int             `json:"num_envs"`
	NumThreads int               `json:"num_threads"` // 0: one per core
	Steps      int64             `json:"steps"`       // timed steps per trial
	Trials     int               `json:"trials"`
	Settings   map[string]string `json:"settings"` // override the paper's settings
	// StepMS adds a cost in milliseconds to each step of the environments, once as a wait and once
	// as computation. If StepMS is not empty, the report is a StepsReport.
	StepMS []float64 `json:"step_ms"`
}

// ModeResult is one cell of the paper's Table 1, in agent steps per second.
type ModeResult struct {
	Mode       string    `json:"mode"`
	NumEnvs    int       `json:"num_envs"`
	PerSecond  []float64 `json:"steps_per_second"` // per trial
	Median     float64   `json:"median"`
	VsStandard float64   `json:"vs_standard"` // Median / Median of standard with one environment
}

// ModesReport is the paper's Table 1 on this machine.
type ModesReport struct {
	Env      string       `json:"env"`
	Threads  int          `json:"threads"`
	Steps    int64        `json:"steps"`
	ISA      string       `json:"isa"`
	Notes    []string     `json:"notes"`
	Results  []ModeResult `json:"results"`
	Settings string       `json:"settings"`
}

const modesSettings = "batch 32, train_freq 4, window = target_update_interval = 1000, actor target when concurrent"

type mode struct {
	name                     string
	concurrent, synchronized bool
}

var modes = []mode{
	{"standard", false, false},
	{"concurrent", true, false},
	{"synchronized", false, true},
	{"both", true, true},
}

// benchModes times the four modes in turns, after a warm-up that is not timed. Epsilon is fixed at
// 0.1, as in section 5.1 of the paper. As in its Table 1, one environment has no synchronized
// modes.
func benchModes(decode func(any) error) (any, error) {
	o := ModesOptions{Env: "Catch-v0", NumEnvs: []int{1, 2, 4, 8}, Steps: 2000, Trials: 3}
	if err := decode(&o); err != nil {
		return nil, err
	}
	if o.Steps < 1 || o.Trials < 1 || len(o.NumEnvs) == 0 {
		return nil, fmt.Errorf("options: steps %d, trials %d, num_envs %v, must be at least 1 each", o.Steps, o.Trials, o.NumEnvs)
	}
	numThreads := o.NumThreads
	if numThreads == 0 {
		numThreads = threads.Cores
	}
	if len(o.StepMS) > 0 {
		return benchSteps(&o, numThreads)
	}
	r := ModesReport{Env: o.Env, Threads: numThreads, Steps: o.Steps, ISA: cpu.Chosen(),
		Notes:    []string{"agent steps per second while learning; warm-up not timed; epsilon 0.1; all updates done when the clock stops"},
		Settings: modesSettings}
	for trial := range o.Trials {
		i := 0
		for _, w := range o.NumEnvs {
			for _, m := range modes {
				if w == 1 && m.synchronized {
					continue
				}
				if trial == 0 {
					r.Results = append(r.Results, ModeResult{Mode: m.name, NumEnvs: w})
				}
				rate, err := timeMode(&o, m, w, nil)
				if err != nil {
					return nil, fmt.Errorf("mode %s, num_envs %d: %w", m.name, w, err)
				}
				r.Results[i].PerSecond = append(r.Results[i].PerSecond, rate)
				i++
			}
		}
	}
	base := 0.0
	for i := range r.Results {
		c := &r.Results[i]
		c.Median = median(c.PerSecond)
		if c.Mode == "standard" && (base == 0 || c.NumEnvs == 1) {
			base = c.Median
		}
	}
	for i := range r.Results {
		r.Results[i].VsStandard = r.Results[i].Median / base
	}
	return r, nil
}

// modesConfig returns the configuration of a run with w environments.
func modesConfig(o *ModesOptions, m mode, w int) (*train.Config, error) {
	cfg, err := train.NewConfig("dqn")
	if err != nil {
		return nil, err
	}
	actor := "auto"
	if m.concurrent {
		actor = "target"
	}
	settings := map[string]string{
		"env": o.Env, "num_envs": strconv.Itoa(w), "num_threads": strconv.Itoa(o.NumThreads), "device": "cpu",
		"concurrent": strconv.FormatBool(m.concurrent), "synchronized": strconv.FormatBool(m.synchronized), "actor": actor,
		"buffer_size": "10000", "learning_starts": "1000", "target_update_interval": "1000", "window": "1000",
		"exploration_initial_eps": "0.1", "exploration_final_eps": "0.1",
	}
	maps.Copy(settings, o.Settings)
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if err := cfg.Set(name, settings[name]); err != nil {
			return nil, err
		}
	}
	return cfg, nil
}

// timeMode returns the steps per second of a run. If cost is not nil, the environments' steps have
// this cost after the warm-up.
func timeMode(o *ModesOptions, m mode, w int, cost *stepCost) (rate float64, err error) {
	cfg, err := modesConfig(o, m, w)
	if err != nil {
		return 0, err
	}
	var mk func(i int) (env.Env, error)
	if cost != nil {
		mk = costlyMaker(cfg, cost)
	}
	t, err := train.New(cfg, mk)
	if err != nil {
		return 0, err
	}
	defer func() {
		if cerr := t.Close(); err == nil {
			err = cerr
		}
	}()
	starts, err := cfg.Get("learning_starts")
	if err != nil {
		return 0, err
	}
	first, err := strconv.ParseInt(starts, 10, 64)
	if err != nil {
		return 0, err
	}
	if err := t.Begin(first+o.Steps, 0); err != nil {
		return 0, err
	}
	if err := t.Run(first, 0); err != nil {
		return 0, err
	}
	if cost != nil {
		cost.on.Store(true)
		defer cost.on.Store(false)
	}
	from, began := t.Stats().Steps, time.Now()
	if err := t.Run(0, 0); err != nil { // until the end of the run, including its last update
		return 0, err
	}
	return float64(t.Stats().Steps-from) / time.Since(began).Seconds(), nil
}
