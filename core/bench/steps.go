package bench

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/paceline-rl/paceline/core/cpu"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/vec"
)

// StepResult is one cell of the table of modes by cost of a step. A trial's limit is the mean of
// two limits, from parts measured right before and right after the trial, because the speed of a
// shared machine changes.
type StepResult struct {
	Kind       string    `json:"kind"` // "wait": steps wait, and Spec.Waits is set; "busy": steps compute
	StepMS     float64   `json:"step_ms"`
	Mode       string    `json:"mode"`
	NumEnvs    int       `json:"num_envs"`
	PerSecond  []float64 `json:"steps_per_second"`
	Limits     []float64 `json:"limits"`      // steps per second
	Median     float64   `json:"median"`      // of PerSecond
	Limit      float64   `json:"limit"`       // median of Limits
	Share      float64   `json:"share"`       // median of the trials' rate / limit
	VsStandard float64   `json:"vs_standard"` // Median / Median of standard
	// LimitVsStandard is Limit / Limit of standard.
	LimitVsStandard float64 `json:"limit_vs_standard"`
}

// StepsReport is the table of modes by the cost of a step.
type StepsReport struct {
	Env      string       `json:"env"`
	Threads  int          `json:"threads"`
	Steps    int64        `json:"steps"`
	ISA      string       `json:"isa"`
	Parts    []Parts      `json:"parts"` // before and after every trial of every cell
	Results  []StepResult `json:"results"`
	Settings string       `json:"settings"`
}

// kinds are the kinds of a step's cost.
var kinds = []string{"wait", "busy"}

// stepCost is an added cost of each step. It applies while on is set.
type stepCost struct {
	each  time.Duration
	waits bool
	on    atomic.Bool
}

func (c *stepCost) pay() {
	switch {
	case !c.on.Load() || c.each == 0:
	case c.waits:
		wait(c.each)
	default:
		for began := time.Now(); time.Since(began) < c.each; {
		}
	}
}

// costly adds a cost to an environment's steps.
type costly struct {
	env.Env
	cost *stepCost
}

func (c *costly) Spec() env.Spec {
	s := c.Env.Spec()
	s.Waits = c.cost.waits
	return s
}

func (c *costly) Step(action int32, obs []byte) (float32, env.End, error) {
	c.cost.pay()
	return c.Env.Step(action, obs)
}

// benchSteps times the four modes in turns, for each kind and cost of a step.
func benchSteps(o *ModesOptions, numThreads int) (any, error) {
	for _, ms := range o.StepMS {
		if !(ms >= 0 && ms <= 1000) {
			return nil, fmt.Errorf("options: step_ms %v, must be 0 to 1000", ms)
		}
	}
	r := StepsReport{Env: o.Env, Threads: numThreads, Steps: o.Steps, ISA: cpu.Chosen(), Settings: modesSettings}
	for trial := range o.Trials {
		i := 0
		for _, w := range o.NumEnvs {
			bench, err := newPartsBench(o, w, numThreads)
			if err != nil {
				return nil, err
			}
			for _, kind := range kinds {
				for _, ms := range o.StepMS {
					cost := &stepCost{each: time.Duration(ms * float64(time.Millisecond)), waits: kind == "wait"}
					before, err := bench.parts(cost)
					if err != nil {
						return nil, errors.Join(err, bench.Close())
					}
					r.Parts = append(r.Parts, before)
					for _, m := range modes {
						if trial == 0 {
							r.Results = append(r.Results, StepResult{Kind: kind, StepMS: ms, Mode: m.name, NumEnvs: w})
						}
						cell := &r.Results[i]
						rate, err := timeMode(o, m, w, cost)
						if err != nil {
							return nil, errors.Join(fmt.Errorf("mode %s, num_envs %d, step_ms %v: %w", m.name, w, ms, err), bench.Close())
						}
						after, err := bench.parts(cost)
						if err != nil {
							return nil, errors.Join(err, bench.Close())
						}
						r.Parts = append(r.Parts, after)
						cell.PerSecond = append(cell.PerSecond, rate)
						cell.Limits = append(cell.Limits, (before.limit(m)+after.limit(m))/2)
						before = after
						i++
					}
				}
			}
			if err := bench.Close(); err != nil {
				return nil, err
			}
		}
	}
	for i := range r.Results {
		c := &r.Results[i]
		shares := make([]float64, len(c.PerSecond))
		for k := range shares {
			shares[k] = c.PerSecond[k] / c.Limits[k]
		}
		c.Median, c.Limit, c.Share = median(c.PerSecond), median(c.Limits), median(shares)
		standard := &r.Results[i/len(modes)*len(modes)]
		c.VsStandard, c.LimitVsStandard = c.Median/standard.Median, c.Limit/standard.Limit
	}
	return r, nil
}

// costlyMaker returns a function that makes the environments of a run, with this cost per step.
func costlyMaker(cfg *train.Config, cost *stepCost) func(i int) (env.Env, error) {
	c := cfg.Common()
	return func(i int) (env.Env, error) {
		e, err := env.Make(c.Env, nil)
		if err != nil {
			return nil, err
		}
		e.Seed(vec.SeedFor(uint64(c.Seed), i))
		return &costly{e, cost}, nil
	}
}
