package offpolicy

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/replay"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/threads"
	"github.com/paceline-rl/paceline/core/train"
)

// minibatch does one update: it draws a minibatch from the replay memory and takes a step of Theta
// along the gradient of its loss. Stream draws stands where the minibatch of the next update is
// drawn, even while a GPU has later minibatches already.
type minibatch struct {
	cfg      *Config
	clock    *Clock // UpdatesBefore and Warmup, which no step changes while updates are in progress
	schedule *Schedule

	theta, thetaMinus *nn.Params
	memory            *replay.Memory
	draws             *rng.Stream // "replay"
	drawing           replay.Sampler
	picks             []int
	batch             experience.Transitions // with weights if they are drawn by priorities
	pool              *threads.Pool

	keys    bool // each update draws the key of its taus from draws
	stepper nn.QStepper
	report  nn.Report
	loss    [1]float32
	units   *train.Units
	learner bool // one of several: the store counts updates of theta

	outliers outliers
}

func (m *minibatch) init(r *Run, draws *rng.Stream, device nn.Device, pool *threads.Pool) (err error) {
	c := &r.cfg
	*m = minibatch{
		cfg: c, clock: &r.Clock, schedule: &r.Schedule, theta: r.Theta, thetaMinus: r.ThetaMinus,
		memory: r.Memory, draws: draws, drawing: r.drawing,
		picks: make([]int, c.BatchSize), batch: *r.Memory.Minibatch(c.BatchSize),
		pool: pool, units: train.NewUnits(c.Net), learner: r.learners > 0,
	}
	if c.Priorities != nil {
		m.batch.Weights, m.report.Rows = make([]float32, c.BatchSize), make([]float32, c.BatchSize)
	}
	_, m.keys = c.Loss.(nn.ImplicitHuber)
	var seed *uint64
	if r.noise != nil {
		seed = &r.noise.seed
	}
	var admit func(*nn.Report) bool
	if c.Outliers > 0 {
		admit = func(of *nn.Report) bool { return m.outliers.admit(of.Loss, c.Outliers) }
	}
	m.stepper, err = device.QStepper(nn.StepperConfig{
		Seed: seed, Admit: admit,
		Net: c.Net, Rows: c.BatchSize, Loss: c.Loss, Optimizer: c.Optimizer, MaxGradNorm: c.MaxGradNorm, Window: c.windowUpdates(r.envs),
	}, c.Target)
	return err
}

// gatherInto makes minibatches be gathered in memory of a stepper, which then need not copy them.
func (m *minibatch) gatherInto(own *experience.Transitions) {
	if len(m.batch.NextMasks) == 0 {
		own.NextMasks = nil
	}
	if m.batch.Weights == nil {
		own.Weights = nil
	}
	m.batch = *own
}

// update does update u, and returns its loss.
func (m *minibatch) update(u int64) (losses []float32, err error) {
	defer caught(&err)
	if err := m.drawable(); err != nil {
		return nil, err
	}
	m.draw(m.beta(u), m.picks, &m.batch)
	if err := m.step(u, &m.batch); err != nil {
		return nil, err
	}
	m.drawing.Update(m.picks, m.report.Rows)
	return m.loss[:], nil
}

// beta is the exponent of the importance weights of update u.
func (m *minibatch) beta(u int64) float64 {
	if m.batch.Weights == nil {
		return 0
	}
	return m.schedule.Beta.At(m.stepOf(u))
}

// draw draws picks and gathers their transitions. beta is the exponent of importance weights.
func (m *minibatch) draw(beta float64, picks []int, to *experience.Transitions) {
	m.drawing.Draw(m.draws, picks)
	if to.Weights != nil {
		m.drawing.Weights(beta, to.Weights)
	}
	if m.keys {
		to.Key = m.draws.Uint64()
	}
	m.memory.Gather(picks, m.cfg.NSteps, m.cfg.Gamma, to, m.pool)
}

// step is the step of update u along the gradient of a minibatch.
func (m *minibatch) step(u int64, batch *experience.Transitions) error {
	at := m.stepOf(u)
	if err := m.stepper.Update(m.theta, m.thetaMinus, batch, m.rate(u, 0), &m.report); err != nil {
		return train.AtUpdate(err, at, u)
	}
	if !m.learner {
		m.theta.Updates = uint64(u - m.outliers.Dropped)
	}
	m.units.Look(m.stepper, at, batch.Obs)
	m.loss[0] = float32(m.report.Loss)
	return nil
}

// drawable returns train.ErrNothingToDraw, with the cause, if no transition can be drawn.
func (m *minibatch) drawable() error {
	n, stored, tails := m.cfg.NSteps, m.memory.Len(), m.cfg.Tails
	switch {
	case m.drawing.Len() > 0:
		return nil
	case stored == 0:
		return fmt.Errorf("replay memory: 0 transitions, %w; add steps or transitions first", train.ErrNothingToDraw)
	case tails == replay.KeepTails:
		return fmt.Errorf("n_steps: %d, %w: no episode among the %d transitions of the replay memory has %d steps or has ended; add steps first",
			n, train.ErrNothingToDraw, stored, n)
	}
	or := ""
	if tails == replay.DropTruncated {
		or = " or terminates"
	}
	return fmt.Errorf("n_step_tails: %s, %w: no episode among the %d transitions of the replay memory has %d steps (n_steps)%s; must be keep, or n_steps smaller",
		replay.TailNames[tails], train.ErrNothingToDraw, stored, n, or)
}

// stepOf is the step, of all learners and warm-up included, of the burst that update u belongs to.
func (m *minibatch) stepOf(u int64) int64 {
	return m.clock.Warmup + m.cfg.Periods.burstAt(u-m.clock.UpdatesBefore) + m.clock.Others
}

// rate is the learning rate of update u, before which `ahead` updates of Theta are still to come.
func (m *minibatch) rate(u, ahead int64) float64 {
	if m.cfg.Periods.ByUpdates {
		return m.schedule.Rate.At(max(0, int64(m.theta.Updates)+ahead-m.clock.AppliedBefore))
	}
	return m.schedule.Rate.At(m.stepOf(u))
}

// lastInWindow is the number of the latest update that draws from the replay memory as it is now,
// where updates up to number released may begin.
func (m *minibatch) lastInWindow(released int64) int64 {
	if !m.cfg.Concurrent {
		return released
	}
	return max(released, m.clock.UpdatesBefore+m.cfg.updatesDue(m.clock.NextWindow, m.clock.NextWindow))
}
