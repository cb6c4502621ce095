package bench

import (
	"errors"
	"fmt"
	"time"

	"github.com/paceline-rl/paceline/core/actor"
	"github.com/paceline-rl/paceline/core/cpu"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/rollout"
	"github.com/paceline-rl/paceline/core/threads"
	"github.com/paceline-rl/paceline/core/vec"
)

// AlternateOptions are those of the benchmark of alternating samplers, on two cores.
type AlternateOptions struct {
	Env       string  `json:"env"`
	NumEnvs   int     `json:"num_envs"`
	Rounds    int     `json:"rounds"` // of a trial
	Trials    int     `json:"trials"`
	WaitMS    float64 `json:"wait_ms"`
	Precision string  `json:"precision"`
}

// AlternateReport has steps per second of every trial, with the Nature CNN; trial i of all was
// measured before trial i+1 of any.
type AlternateReport struct {
	Options AlternateOptions `json:"options"`
	ISA     string           `json:"isa"`
	// Acting alone, in batches of half of the environments, and stepping alone, on one core
	// each; two groups with one core for acting and one for stepping; one group that has two
	// cores for both, one after the other; two groups where both cores do what there is.
	Act      []float64 `json:"act"`
	Step     []float64 `json:"step"`
	Two      []float64 `json:"two_groups"`
	One      []float64 `json:"one_group"`
	TwoFree  []float64 `json:"two_groups_both_cores"`
	WaitOne  []float64 `json:"wait_one_group"` // Catch-v0, whose own step takes little, and a wait, on two cores
	WaitTwo  []float64 `json:"wait_two_groups"`
	OfSlower float64   `json:"alternating_of_slower"` // medians of the trials' Two over the slower of Act and Step
	OneOf    float64   `json:"one_group_of_slower"`
	FreeOf   float64   `json:"two_groups_both_cores_of_slower"`
	Waiting  float64   `json:"waiting_two_of_one"`
}

// sampling is a Group that fills rollouts and learns nothing.
type sampling struct {
	group   *actor.Group
	rollout *rollout.Rollout
	close   []func() error
}

// newSampling makes environments and what acts in them, with so many threads for acting, for
// stepping, and for both together.
func newSampling(o *AlternateOptions, envs, groups, act, step, cores int, cost *stepCost) (x *sampling, err error) {
	x = &sampling{}
	defer func() {
		if err != nil {
			err = errors.Join(err, x.Close())
		}
	}()
	closes := func(f func()) { x.close = append(x.close, func() error { f(); return nil }) }
	budget, err := threads.NewBudget(cores)
	if err != nil {
		return x, err
	}
	pool, err := threads.NewPool(step, budget)
	if err != nil {
		return x, err
	}
	closes(pool.Close)
	device, err := nn.NewCPU(act, budget)
	if err != nil {
		return x, err
	}
	closes(device.Close)
	source, err := vec.New(func(i int) (env.Env, error) {
		id := o.Env
		if cost.waits {
			id = "Catch-v0"
		}
		e, err := env.Make(id, nil)
		if err != nil {
			return nil, err
		}
		e.Seed(vec.SeedFor(1, i))
		return &costly{e, cost}, nil
	}, envs, pool, vec.SameStep)
	if err != nil {
		return x, err
	}
	x.close = append(x.close, source.Close)
	spec := source.Spec()
	if len(spec.Obs.Shape) != 3 || spec.Obs.DType != env.Uint8 {
		return x, fmt.Errorf("options: env %s, must show images", o.Env)
	}
	net := nn.Spec{
		Obs: spec.Obs, Trunks: []nn.Trunk{{Arch: "nature_cnn"}}, Precision: nn.Precision(o.Precision),
		Heads: []nn.Head{{Name: "pi", Out: spec.Action.N}, {Name: "v", Out: 1}},
	}
	theta, err := net.InitialParams(rng.New(1, "weights", 0))
	if err != nil {
		return x, err
	}
	network, err := device.Network(net, envs)
	if err != nil {
		return x, err
	}
	if x.rollout, err = rollout.New(rollout.Config{Obs: spec.Obs, Actions: spec.Action.N, Horizon: 128, Envs: envs, Columns: chooser.Columns()}); err != nil {
		return x, err
	}
	x.group, err = actor.New(actor.Config{
		Spec: *spec, Envs: envs, Seed: 1, Source: source, Groups: groups, Sink: x.rollout, Columns: len(chooser.Columns()),
		Joint: network, Cores: budget, Acting: theta,
	})
	if err != nil {
		return x, err
	}
	closes(x.group.Close)
	budget.Acquire()
	cost.on.Store(true)
	return x, x.group.Reset()
}

var chooser = &policy.Softmax{Pi: 0, V: 1}

// Close frees everything, the newest first.
func (x *sampling) Close() (err error) {
	for k := len(x.close) - 1; k >= 0; k-- {
		err = errors.Join(err, x.close[k]())
	}
	return err
}

// rounds takes so many rounds and returns the steps per second.
func (x *sampling) rounds(n int) (float64, error) {
	began, steps := time.Now(), int64(0)
	for k := range n {
		ran, err := x.group.Round(0, chooser, x.rollout.Left() > 1 && k < n-1)
		if err == nil {
			err = x.rollout.EndRound()
		}
		if err == nil && x.rollout.Full() {
			err = x.rollout.Next()
		}
		if err != nil {
			return 0, err
		}
		steps += ran.Made
	}
	return float64(steps) / time.Since(began).Seconds(), nil
}

// acts chooses actions as often, and takes no step.
func (x *sampling) acts(n int) (float64, error) {
	began := time.Now()
	for range n {
		if err := x.group.Choose(0, chooser, true); err != nil {
			return 0, err
		}
	}
	return float64(n*x.group.Envs) / time.Since(began).Seconds(), nil
}

// steps takes as many rounds with random actions.
func (x *sampling) steps(n int) (float64, error) {
	began := time.Now()
	for range n {
		if _, err := x.group.Round(0, uniform{policy.Uniform{Actions: x.group.Spec.Action.N}}, false); err != nil {
			return 0, err
		}
		if err := errors.Join(x.rollout.EndRound(), x.rollout.Drop(1)); err != nil {
			return 0, err
		}
	}
	return float64(n*x.group.Envs) / time.Since(began).Seconds(), nil
}

// uniform has the columns of the rollout, which it leaves as they are.
type uniform struct{ policy.Uniform }

func (uniform) Columns() []string { return chooser.Columns() }

// benchAlternate times alternating samplers, what they are made of, and one group.
func benchAlternate(decode func(any) error) (any, error) {
	o := AlternateOptions{Env: "Pong", NumEnvs: 16, Rounds: 150, Trials: 7, WaitMS: 1, Precision: "fp32"}
	if err := decode(&o); err != nil {
		return nil, err
	}
	switch {
	case o.NumEnvs < 2 || o.NumEnvs%2 != 0 || o.NumEnvs > threads.Max:
		return nil, fmt.Errorf("options: num_envs %d, must be even, 2 to %d", o.NumEnvs, threads.Max)
	case o.Rounds < 1 || o.Trials < 1:
		return nil, fmt.Errorf("options: rounds %d, trials %d, must be at least 1", o.Rounds, o.Trials)
	case !(o.WaitMS >= 0 && o.WaitMS <= 1000):
		return nil, fmt.Errorf("options: wait_ms %v, must be 0 to 1000", o.WaitMS)
	case o.Precision != "fp32" && o.Precision != "bf16":
		return nil, fmt.Errorf("options: precision %q, must be fp32 or bf16", o.Precision)
	}
	r := &AlternateReport{Options: o, ISA: cpu.Chosen()}
	wait := time.Duration(o.WaitMS * float64(time.Millisecond))
	cells := []struct {
		to                             *[]float64
		envs, groups, act, step, cores int
		wait                           bool
		run                            func(x *sampling, n int) (float64, error)
	}{
		{&r.Act, o.NumEnvs / 2, 1, 1, 1, 1, false, (*sampling).acts},
		{&r.Step, o.NumEnvs, 1, 1, 1, 1, false, (*sampling).steps},
		{&r.Two, o.NumEnvs, 2, 1, 1, 2, false, (*sampling).rounds},
		{&r.One, o.NumEnvs, 1, 2, 2, 2, false, (*sampling).rounds},
		{&r.TwoFree, o.NumEnvs, 2, 2, 2, 2, false, (*sampling).rounds},
		{&r.WaitOne, o.NumEnvs, 1, 2, 2, 2, true, (*sampling).rounds},
		{&r.WaitTwo, o.NumEnvs, 2, 2, 2, 2, true, (*sampling).rounds},
	}
	made := make([]*sampling, len(cells))
	closeAll := func() (err error) {
		for _, x := range made {
			if x != nil {
				err = errors.Join(err, x.Close())
			}
		}
		return err
	}
	for trial := range o.Trials + 1 { // the first one warms up
		for k, c := range cells {
			if trial == 0 {
				cost := &stepCost{}
				if c.wait {
					cost.waits, cost.each = true, wait
				}
				x, err := newSampling(&o, c.envs, c.groups, c.act, c.step, c.cores, cost)
				if err != nil {
					return nil, errors.Join(err, closeAll())
				}
				made[k] = x
			}
			rate, err := c.run(made[k], o.Rounds)
			if err != nil {
				return nil, errors.Join(err, closeAll())
			}
			if trial > 0 {
				*c.to = append(*c.to, rate)
			}
		}
	}
	slower := make([]float64, o.Trials)
	for k := range slower {
		slower[k] = min(r.Act[k], r.Step[k])
	}
	of := func(rates, base []float64) float64 {
		ratios := make([]float64, o.Trials)
		for k := range ratios {
			ratios[k] = rates[k] / base[k]
		}
		return median(ratios)
	}
	r.OfSlower, r.OneOf, r.FreeOf, r.Waiting = of(r.Two, slower), of(r.One, slower), of(r.TwoFree, slower), of(r.WaitTwo, r.WaitOne)
	return r, closeAll()
}
