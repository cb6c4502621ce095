package bench

import (
	"errors"
	"fmt"
	"time"

	"github.com/paceline-rl/paceline/core/actor"
	"github.com/paceline-rl/paceline/core/cpu"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/devices"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/rollout"
	"github.com/paceline-rl/paceline/core/threads"
	"github.com/paceline-rl/paceline/core/vec"
)

// AlternateOptions are the options of the benchmark of alternating samplers, which uses two cores.
type AlternateOptions struct {
	Env       string  `json:"env"`
	NumEnvs   int     `json:"num_envs"`
	Rounds    int     `json:"rounds"` // per trial
	Trials    int     `json:"trials"`
	WaitMS    float64 `json:"wait_ms"`
	Precision string  `json:"precision"`
}

// AlternateReport has the steps per second of every trial, with the Nature CNN. All cases run trial
// i before any case runs trial i+1.
type AlternateReport struct {
	Options AlternateOptions `json:"options"`
	ISA     string           `json:"isa"`

	Act                []float64 `json:"act"`                   // one core, acting only, batches of half of the environments
	Step               []float64 `json:"step"`                  // one core, stepping only
	TwoGroups          []float64 `json:"two_groups"`            // one core acts, the other steps
	OneGroup           []float64 `json:"one_group"`             // both cores act, then both step
	TwoGroupsBothCores []float64 `json:"two_groups_both_cores"` // both cores act and step
	WaitOneGroup       []float64 `json:"wait_one_group"`        // two cores, Catch-v0 with steps that wait
	WaitTwoGroups      []float64 `json:"wait_two_groups"`

	// Medians of the ratios of the trials. The slower is the slower of Act and Step.
	AlternatingOfSlower float64 `json:"alternating_of_slower"`
	OneGroupOfSlower    float64 `json:"one_group_of_slower"`
	BothCoresOfSlower   float64 `json:"two_groups_both_cores_of_slower"`
	WaitingTwoOfOne     float64 `json:"waiting_two_of_one"`
}

// sampler is a Group that fills rollouts, without learning.
type sampler struct {
	group   *actor.Group
	chooser *policy.Sampler
	rollout *rollout.Rollout
	close   []func() error
}

// newSampler makes environments and a group that acts in them, with act threads for acting and step
// threads for stepping, of which at most cores run at the same time.
func newSampler(o *AlternateOptions, envs, groups, act, step, cores int, cost *stepCost) (x *sampler, err error) {
	x = &sampler{}
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
	device, err := devices.Open("cpu", act, budget)
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
	x.chooser = policy.NewSampler(spec.Action, &net, policy.Bounds{})
	theta, err := net.InitialParams(rng.New(1, "weights", 0))
	if err != nil {
		return x, err
	}
	network, err := device.Network(net, envs)
	if err != nil {
		return x, err
	}
	if x.rollout, err = rollout.New(rollout.Config{Obs: spec.Obs, Action: spec.Action, Horizon: 128, Envs: envs, Columns: x.chooser.Columns()}); err != nil {
		return x, err
	}
	x.group, err = actor.New(actor.Config{
		Spec: *spec, Envs: envs, Seed: 1, Source: source, Halves: groups, Sink: x.rollout, Columns: len(x.chooser.Columns()),
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

// Close frees everything, in reverse order.
func (x *sampler) Close() (err error) {
	for k := len(x.close) - 1; k >= 0; k-- {
		err = errors.Join(err, x.close[k]())
	}
	return err
}

// roundRate runs n rounds and returns the steps per second.
func (x *sampler) roundRate(n int) (float64, error) {
	began, steps := time.Now(), int64(0)
	for k := range n {
		ran, err := x.group.Round(0, x.chooser, x.rollout.Left() > 1 && k < n-1)
		if err == nil {
			err = x.rollout.EndRound()
		}
		if err == nil && x.rollout.Full() {
			err = x.rollout.Next()
		}
		if err != nil {
			return 0, err
		}
		steps += ran.Taken
	}
	return float64(steps) / time.Since(began).Seconds(), nil
}

// actRate chooses the actions of n rounds without stepping and returns the actions per second.
func (x *sampler) actRate(n int) (float64, error) {
	began := time.Now()
	for range n {
		if err := x.group.Choose(0, x.chooser, true); err != nil {
			return 0, err
		}
	}
	return float64(n*x.group.Envs) / time.Since(began).Seconds(), nil
}

// stepRate runs n rounds with random actions and returns the steps per second.
func (x *sampler) stepRate(n int) (float64, error) {
	began := time.Now()
	for range n {
		if _, err := x.group.Round(0, policy.Uniform{Actions: x.group.Spec.Action.N}, false); err != nil {
			return 0, err
		}
		if err := errors.Join(x.rollout.EndRound(), x.rollout.Drop(1)); err != nil {
			return 0, err
		}
	}
	return float64(n*x.group.Envs) / time.Since(began).Seconds(), nil
}

// benchAlternate times alternating samplers, acting and stepping alone, and a single group.
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
		run                            func(x *sampler, n int) (float64, error)
	}{
		{&r.Act, o.NumEnvs / 2, 1, 1, 1, 1, false, (*sampler).actRate},
		{&r.Step, o.NumEnvs, 1, 1, 1, 1, false, (*sampler).stepRate},
		{&r.TwoGroups, o.NumEnvs, 2, 1, 1, 2, false, (*sampler).roundRate},
		{&r.OneGroup, o.NumEnvs, 1, 2, 2, 2, false, (*sampler).roundRate},
		{&r.TwoGroupsBothCores, o.NumEnvs, 2, 2, 2, 2, false, (*sampler).roundRate},
		{&r.WaitOneGroup, o.NumEnvs, 1, 2, 2, 2, true, (*sampler).roundRate},
		{&r.WaitTwoGroups, o.NumEnvs, 2, 2, 2, 2, true, (*sampler).roundRate},
	}
	made := make([]*sampler, len(cells))
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
				x, err := newSampler(&o, c.envs, c.groups, c.act, c.step, c.cores, cost)
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
	r.AlternatingOfSlower, r.OneGroupOfSlower, r.BothCoresOfSlower, r.WaitingTwoOfOne = of(r.TwoGroups, slower), of(r.OneGroup, slower), of(r.TwoGroupsBothCores, slower), of(r.WaitTwoGroups, r.WaitOneGroup)
	return r, closeAll()
}
