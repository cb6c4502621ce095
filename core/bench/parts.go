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
	"github.com/paceline-rl/paceline/core/replay"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/threads"
	"github.com/paceline-rl/paceline/core/train"
)

// Parts are what a run is made of, each measured by itself, with nothing beside it, and
// the limits of the four modes follow from them. Times are medians, in milliseconds. A
// forward pass is measured behind an update, which leaves little of the weights in caches.
//
// With c cores, W environments and G updates for every F steps, the best that a mode can
// do is as follows. Where steps wait, those that may be taken at the same time wait at the
// same time; where they compute, a core takes one after the other. So m steps of the
// environments, which may be taken at once, take
//
//	steps(m) = Cost + ceil(m / c) Step          where steps wait
//	steps(m) = ceil(m / c) (Cost + Step)        where they compute
//
// standard: in turns G updates on all cores, then F steps of different environments, each
// with its own forward pass by weights that are new (W of them at a time where F is more):
//
//	F steps take G Update + F/m (ceil(m / c) AloneNew + steps(m)), m = min(F, W)
//
// synchronized: in turns the updates of W steps, on all cores, one forward pass of W rows
// by new weights, on all cores, and W steps at once:
//
//	W steps take (W G / F) Update + JointNew + steps(W)
//
// concurrent, both: the updates run beside the samplers, and a round cannot take less than
// either of these needs:
//
//   - a sampler for its steps, were the trainer not there: Alone + steps(1) where steps
//     wait or there is a core for each (ceil(W / c) times that where they compute) for
//     concurrent, and JointOne + steps(W) for both;
//   - the cores for everything. Acting and computing steps take S of a core's time (W
//     Alone, or JointOne, and W times Step, and Cost where steps compute), so training has
//     on average c - S/T of the cores in a round that takes T. An update takes Update on c
//     cores and UpdateOne on one; for numbers between, its rate is taken from the straight
//     line through these (and 0). T is the shortest in which (W G / F) updates are done.
//
// Left out are what threads cost each other, in caches and in the time that waking
// takes, cores that are idle while a layer is computed to its end, recording steps, and the
// waits at a window's end.
type Parts struct {
	Update    float64 `json:"update_ms"`     // a minibatch update on all cores: drawing it, gradient, optimiser
	UpdateOne float64 `json:"update_one_ms"` // the same on one
	JointNew  float64 `json:"joint_new_ms"`  // W rows in one batch, on all cores, weights not seen before
	JointOne  float64 `json:"joint_one_ms"`  // the same on one core, weights those of before
	AloneNew  float64 `json:"alone_new_ms"`  // one row, one core: the mean of the first ceil(min(F, W) / c) after the weights changed
	Alone     float64 `json:"alone_ms"`      // one row, one core, weights those of before
	Step      float64 `json:"step_ms"`       // the environment's own step
	Cost      float64 `json:"cost_ms"`       // what a step costs beside that
	Kind      string  `json:"kind"`          // of that cost: "wait" or "busy"

	cores, envs int
	every       float64 // F / G: steps for each update
	bursts      float64 // G
}

// limit returns the most steps per second that the mode can take.
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
	updates := w / p.every
	busy := w * p.Step // of a core's time in a round
	if !waits {
		busy = w * (p.Step + p.Cost)
	}
	ms := 0.0 // for W steps
	switch {
	case !m.concurrent && !m.synchronized:
		f := p.every * p.bursts
		n := min(f, w)
		ms = w / f * (float64(p.bursts*p.Update) + float64(f/n*(float64(turns(n)*p.AloneNew)+steps(n))))
	case !m.concurrent:
		ms = float64(updates*p.Update) + p.JointNew + steps(w)
	case !m.synchronized:
		alone := p.Alone + steps(1)
		if !waits {
			alone *= turns(w)
		}
		ms = max(alone, p.shared(updates, busy+float64(w*p.Alone)))
	default:
		ms = max(p.JointOne+steps(w), p.shared(updates, busy+p.JointOne))
	}
	return 1000 * w / ms
}

// shared returns the shortest time in which so many updates are done on the cores that
// others leave, who take busy milliseconds of a core's time.
func (p *Parts) shared(updates, busy float64) float64 {
	rate := func(cores float64) float64 { // updates in a millisecond
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

// measured is what parts are measured with.
type measured struct {
	cores, envs, rounds int
	every, bursts       float64
	game                env.Env
	obs                 []byte
	theta, target       *nn.Params
	memory              *replay.Memory
	draws               *rng.Stream
	sets                []*machinery // on all cores, and on one
}

// machinery is networks and an optimiser for a number of cores.
type machinery struct {
	pool         *threads.Pool
	device       nn.Device
	stepper      nn.QStepper
	joint, alone nn.Network
	batch        *experience.Transitions
	picks        []int
	theta        *nn.Params
	report       nn.Report
}

func newMeasured(o *ModesOptions, w, cores int) (x *measured, err error) {
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
	rows, every, bursts := number("batch_size"), number("train_freq"), number("gradient_steps")
	if err != nil {
		return nil, err
	}
	x = &measured{cores: cores, envs: w, rounds: int(max(1, min(8, o.Steps/50))), every: float64(every) / float64(bursts), bursts: float64(bursts)}
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
		return x, fmt.Errorf("options: env %s, must show images where step_ms is given", o.Env)
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
		m := &machinery{theta: x.theta.Clone(), batch: x.memory.Minibatch(rows), picks: make([]int, rows)}
		x.sets = append(x.sets, m)
		if err := m.make(net, n, rows, w); err != nil {
			return x, err
		}
	}
	return x, nil
}

func (m *machinery) make(net nn.Spec, cores, rows, w int) (err error) {
	if m.pool, err = threads.NewPool(cores, nil); err != nil {
		return err
	}
	if m.device, err = nn.NewCPU(cores, nil); err != nil {
		return err
	}
	if m.stepper, err = m.device.QStepper(stepping(net, rows), false); err != nil {
		return err
	}
	if m.joint, err = m.device.Network(net, w); err != nil {
		return err
	}
	m.alone, err = m.device.Network(net, 1)
	return err
}

// Close frees everything.
func (x *measured) Close() error {
	for _, m := range x.sets {
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

// parts measures all parts of a run whose steps have that cost.
func (x *measured) parts(cost *stepCost) (Parts, error) {
	p := Parts{Kind: kinds[1], cores: x.cores, envs: x.envs, every: x.every, bursts: x.bursts}
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
	all, one := x.sets[0], x.sets[1]
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
	measure(&p.AloneNew, int(math.Ceil(min(x.every*x.bursts, float64(x.envs))/float64(x.cores))), update, act(one.alone, all.theta, 1))
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
func (x *measured) update(m *machinery) error {
	replay.Uniform{Memory: x.memory}.Draw(x.draws, m.picks)
	x.memory.Gather(m.picks, 0.99, m.batch, m.pool)
	clear(m.batch.Actions) // the memory has more actions than the network
	return m.stepper.Update(m.theta, x.target, m.batch, 1e-4, &m.report)
}
