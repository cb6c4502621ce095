package bench

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/paceline-rl/paceline/core/agents/dqn"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/cpu"
	"github.com/paceline-rl/paceline/core/replay"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/threads"
	"github.com/paceline-rl/paceline/core/train"
)

// Parts are the costs of the parts of a run: medians in milliseconds. Each part is measured alone.
// A forward pass is measured right after an update, which evicts most of the weights from the
// caches.
//
// limit computes the highest rate of each of the four modes from the parts. With c cores, W
// environments and G updates for every F steps, m concurrent steps take
//
//	steps(m) = Cost + ceil(m / c) Step          if steps wait: the waits overlap
//	steps(m) = ceil(m / c) (Cost + Step)        if steps compute: a core does one step at a time
//
// standard alternates between G updates on all cores and F steps of different environments. Each
// step has its own forward pass with changed weights. If F > W, W steps run at a time:
//
//	F steps take G Update + F/m (ceil(m / c) AloneNew + steps(m)), m = min(F, W)
//
// synchronized alternates between the updates for W steps on all cores, one forward pass of W rows
// with changed weights on all cores, and W concurrent steps:
//
//	W steps take (W G / F) Update + JointNew + steps(W)
//
// concurrent and both run the updates concurrently with the samplers. W steps take the longer of
// two times:
//
//   - The time of the samplers without the trainer. For concurrent, Alone + steps(1), times
//     ceil(W / c) if steps compute. For both, JointOne + steps(W).
//   - The time that the cores need for all of the work. Acting and computing steps take S of core
//     time: W Alone (concurrent) or JointOne (both), W Step, and W Cost if steps compute. So during
//     a time T the training has c - S/T cores on average. An update takes Update on c cores and
//     UpdateOne on one core. The update rate is linear between 0, 1 and c cores. T is the shortest
//     time in which W G / F updates finish.
//
// The limits leave out four costs: caches and wake-ups that threads share, idle cores at the end of
// a layer, the recording of steps, and the waits at the end of a window.
type Parts struct {
	Update    float64 `json:"update_ms"`     // a minibatch update on all cores: sampling, gradient, optimiser
	UpdateOne float64 `json:"update_one_ms"` // an update on one core
	JointNew  float64 `json:"joint_new_ms"`  // forward pass of W rows on all cores, changed weights
	JointOne  float64 `json:"joint_one_ms"`  // forward pass of W rows on one core, unchanged weights
	AloneNew  float64 `json:"alone_new_ms"`  // forward pass of one row on one core, changed weights: mean of ceil(min(F, W) / c)
	Alone     float64 `json:"alone_ms"`      // forward pass of one row on one core, unchanged weights
	Step      float64 `json:"step_ms"`       // the environment's own step
	Cost      float64 `json:"cost_ms"`       // the added cost of a step
	Kind      string  `json:"kind"`          // kind of Cost: "wait" or "busy"

	cores, envs    int
	stepsPerUpdate float64 // F / G
	gradientSteps  float64 // G
}

// limit returns the mode's highest possible rate in steps per second.
func (p *Parts) limit(m mode) float64 {
	w, c := float64(p.envs), float64(p.cores)
	turns := func(steps float64) float64 { return math.Ceil(steps / c) }
	waits := p.Kind == "wait"
	steps := func(n float64) float64 {
		if waits {
			return p.Cost + float64(turns(n)*p.Step)
		}
		return turns(n) * (p.Cost + p.Step)
	}
	updates := w / p.stepsPerUpdate
	busy := w * p.Step // core time for W steps
	if !waits {
		busy = w * (p.Step + p.Cost)
	}
	ms := 0.0 // for W steps
	switch {
	case !m.concurrent && !m.synchronized:
		f := p.stepsPerUpdate * p.gradientSteps
		n := min(f, w)
		ms = w / f * (float64(p.gradientSteps*p.Update) + float64(f/n*(float64(turns(n)*p.AloneNew)+steps(n))))
	case !m.concurrent:
		ms = float64(updates*p.Update) + p.JointNew + steps(w)
	case !m.synchronized:
		alone := p.Alone + steps(1)
		if !waits {
			alone *= turns(w)
		}
		ms = max(alone, p.updateTime(updates, busy+float64(w*p.Alone)))
	default:
		ms = max(p.JointOne+steps(w), p.updateTime(updates, busy+p.JointOne))
	}
	return 1000 * w / ms
}

// updateTime returns the shortest time in which the updates finish, if other work takes busy
// milliseconds of core time.
func (p *Parts) updateTime(updates, busy float64) float64 {
	rate := func(cores float64) float64 { // updates per millisecond
		if cores <= 1 || p.cores == 1 {
			return max(0, cores) / p.UpdateOne
		}
		share := (cores - 1) / float64(p.cores-1)
		return float64((1-share)/p.UpdateOne) + float64(share/p.Update)
	}
	low, high := busy/float64(p.cores), busy+float64(updates*p.UpdateOne)+1e-9
	for range 60 {
		if t := (low + high) / 2; t*rate(float64(p.cores)-busy/t) < updates {
			low = t
		} else {
			high = t
		}
	}
	return high
}

// partsBench measures Parts.
type partsBench struct {
	cores, envs, rounds           int
	stepsPerUpdate, gradientSteps float64
	game                          env.Env
	obs                           []byte
	theta, target                 *nn.Params
	memory                        *replay.Memory
	draws                         *rng.Stream
	learners                      []*learner // the first uses all cores, the second one core
}

// learner has the networks and the optimiser that run on a number of cores.
type learner struct {
	pool         *threads.Pool
	device       nn.Device
	stepper      nn.QStepper
	joint, alone nn.Network
	batch        *experience.Transitions
	picks        []int
	theta        *nn.Params
	report       nn.Report
}

func newPartsBench(o *ModesOptions, w, cores int) (x *partsBench, err error) {
	cfg, err := modesConfig(o, modes[0], w)
	if err != nil {
		return nil, err
	}
	number := func(name string) int {
		text, gerr := cfg.Get(name)
		n, aerr := strconv.Atoi(text)
		err = errors.Join(err, gerr, aerr)
		return n
	}
	rows, trainFreq, gradientSteps := number("batch_size"), number("train_freq"), number("gradient_steps")
	if err != nil {
		return nil, err
	}
	x = &partsBench{cores: cores, envs: w, rounds: int(max(1, min(8, o.Steps/50))), stepsPerUpdate: float64(trainFreq) / float64(gradientSteps), gradientSteps: float64(gradientSteps)}
	defer func() {
		if err != nil {
			err = errors.Join(err, x.Close())
		}
	}()
	if x.game, err = env.Make(o.Env, nil); err != nil {
		return x, err
	}
	spec := x.game.Spec()
	if len(spec.Obs.Shape) != 3 || spec.Obs.DType != env.Uint8 {
		return x, fmt.Errorf("options: env %s, must show images if step_ms is given", o.Env)
	}
	x.obs = make([]byte, w*spec.Obs.Bytes())
	x.draws = rng.New(0, "bench", 0)
	if x.memory, err = randomMemory(spec.Obs, x.draws); err != nil {
		return x, err
	}
	trunk := nn.Trunk{Arch: "nature_cnn"}
	if cfg.Common().Policy == train.PolicyMLP {
		trunk = nn.Trunk{Arch: "mlp", Hidden: cfg.Struct().(*dqn.Config).NetArch}
	}
	net := nn.Spec{Obs: spec.Obs, Trunks: []nn.Trunk{trunk}, Heads: []nn.Head{{Name: "q", Out: spec.Action.N}}, Precision: nn.Precision(cfg.Common().Precision)}
	if x.theta, err = net.InitialParams(x.draws); err != nil {
		return x, err
	}
	x.target = x.theta.Clone()
	for _, n := range []int{cores, 1} {
		m := &learner{theta: x.theta.Clone(), batch: x.memory.Minibatch(rows), picks: make([]int, rows)}
		x.learners = append(x.learners, m)
		if err := m.make(net, n, rows, w); err != nil {
			return x, err
		}
	}
	return x, nil
}

func (m *learner) make(net nn.Spec, cores, rows, w int) (err error) {
	if m.pool, err = threads.NewPool(cores, nil); err != nil {
		return err
	}
	if m.device, err = cpu.New(cores, nil); err != nil {
		return err
	}
	if m.stepper, err = m.device.QStepper(stepperConfig(net, rows), nn.MaxQ{}); err != nil {
		return err
	}
	if m.joint, err = m.device.Network(net, w); err != nil {
		return err
	}
	m.alone, err = m.device.Network(net, 1)
	return err
}

// Close frees everything.
func (x *partsBench) Close() error {
	for _, m := range x.learners {
		if m.pool != nil {
			m.pool.Close()
		}
		if m.device != nil {
			m.device.Close()
		}
	}
	if x.memory != nil {
		x.memory.Close()
	}
	if x.game != nil {
		return x.game.Close()
	}
	return nil
}

// parts measures all parts of a run with this cost per step.
func (x *partsBench) parts(cost *stepCost) (Parts, error) {
	p := Parts{Kind: kinds[1], cores: x.cores, envs: x.envs, stepsPerUpdate: x.stepsPerUpdate, gradientSteps: x.gradientSteps}
	if cost.waits {
		p.Kind = kinds[0]
	}
	var err error
	measure := func(to *float64, times int, before, f func() error) {
		all := make([]float64, 0, x.rounds)
		for k := range x.rounds + 2 { // the first ones warm up
			if before != nil {
				err = errors.Join(err, before())
			}
			began := time.Now()
			for range times {
				err = errors.Join(err, f())
			}
			if k >= 2 {
				all = append(all, time.Since(began).Seconds()*1e3/float64(times))
			}
		}
		*to = median(all)
	}
	all, one := x.learners[0], x.learners[1]
	act := func(net nn.Network, params *nn.Params, rows int) func() error {
		return func() error {
			_, err := net.Forward(params, x.obs[:rows*len(x.obs)/x.envs], rows)
			return err
		}
	}
	update := func() error { return x.update(all) }
	measure(&p.Update, 1, nil, update)
	measure(&p.UpdateOne, 1, nil, func() error { return x.update(one) })
	measure(&p.JointNew, 1, update, act(all.joint, all.theta, x.envs))
	measure(&p.JointOne, 1, update, act(one.joint, x.target, x.envs))
	measure(&p.AloneNew, int(math.Ceil(min(x.stepsPerUpdate*x.gradientSteps, float64(x.envs))/float64(x.cores))), update, act(one.alone, all.theta, 1))
	measure(&p.Alone, 1, update, act(one.alone, x.target, 1))
	row, ended := x.obs[:len(x.obs)/x.envs], true
	measure(&p.Step, 100, nil, func() error {
		if ended {
			ended = false
			return x.game.Reset(row)
		}
		_, end, err := x.game.Step(0, row)
		ended = end.Over()
		return err
	})
	if cost.each > 0 {
		cost.on.Store(true)
		measure(&p.Cost, 1, nil, func() error { cost.pay(); return nil })
		cost.on.Store(false)
	}
	return p, err
}

// update does one minibatch update.
func (x *partsBench) update(m *learner) error {
	replay.Uniform{Memory: x.memory}.Draw(x.draws, m.picks)
	x.memory.Gather(m.picks, 1, 0.99, m.batch, m.pool)
	clear(m.batch.Actions) // the memory has more actions than the network
	return m.stepper.Update(m.theta, x.target, m.batch, 1e-4, &m.report)
}
