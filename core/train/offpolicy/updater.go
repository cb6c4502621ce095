package offpolicy

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/replay"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/threads"
	"github.com/paceline-rl/paceline/core/train"
)

// updater does the updates one by one: it draws a minibatch from the replay memory and takes a step
// of Theta along the gradient of its loss. Stream draws stands where the minibatch of the next
// update is drawn, even while a GPU has later minibatches already.
type updater struct {
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

func (upd *updater) init(r *Run, draws *rng.Stream, device nn.Device, pool *threads.Pool) (err error) {
	c := &r.cfg
	*upd = updater{
		cfg: c, clock: &r.Clock, schedule: &r.Schedule, theta: r.Theta, thetaMinus: r.ThetaMinus,
		memory: r.Memory, draws: draws, drawing: r.drawing,
		picks: make([]int, c.BatchSize), batch: *r.Memory.Minibatch(c.BatchSize),
		pool: pool, units: train.NewUnits(c.Net), learner: r.learners > 0,
	}
	if c.Priorities != nil {
		upd.batch.Weights, upd.report.Rows = make([]float32, c.BatchSize), make([]float32, c.BatchSize)
	}
	_, upd.keys = c.Loss.(nn.ImplicitHuber)
	var seed *uint64
	if r.noise != nil {
		seed = &r.noise.seed
	}
	var admit func(*nn.Report) bool
	if c.Outliers > 0 {
		admit = func(of *nn.Report) bool { return upd.outliers.admit(of.Loss, c.Outliers) }
	}
	upd.stepper, err = device.QStepper(nn.StepperConfig{
		Seed: seed, Admit: admit,
		Net: c.Net, Rows: c.BatchSize, Loss: c.Loss, Optimizer: c.Optimizer, MaxGradNorm: c.MaxGradNorm, Window: c.windowUpdates(r.envs),
	}, c.Target)
	return err
}

// gatherInto makes minibatches be gathered in memory of a stepper, which then need not copy them.
func (upd *updater) gatherInto(own *experience.Transitions) {
	if len(upd.batch.NextMasks) == 0 {
		own.NextMasks = nil
	}
	if upd.batch.Weights == nil {
		own.Weights = nil
	}
	upd.batch = *own
}

// update does update u, and returns its loss.
func (upd *updater) update(u int64) (losses []float32, err error) {
	defer fault.Recover(&err)
	if err := upd.drawable(); err != nil {
		return nil, err
	}
	upd.draw(upd.beta(u), upd.picks, &upd.batch)
	if err := upd.step(u, &upd.batch); err != nil {
		return nil, err
	}
	upd.drawing.Update(upd.picks, upd.report.Rows)
	return upd.loss[:], nil
}

// beta is the exponent of the importance weights of update u.
func (upd *updater) beta(u int64) float64 {
	if upd.batch.Weights == nil {
		return 0
	}
	return upd.schedule.Beta.At(upd.stepOf(u))
}

// draw draws picks and gathers their transitions. beta is the exponent of importance weights.
func (upd *updater) draw(beta float64, picks []int, to *experience.Transitions) {
	upd.drawing.Draw(upd.draws, picks)
	if to.Weights != nil {
		upd.drawing.Weights(beta, to.Weights)
	}
	if upd.keys {
		to.Key = upd.draws.Uint64()
	}
	upd.memory.Gather(picks, upd.cfg.NSteps, upd.cfg.Gamma, to, upd.pool)
}

// step is the step of update u along the gradient of a minibatch.
func (upd *updater) step(u int64, batch *experience.Transitions) error {
	at := upd.stepOf(u)
	if err := upd.stepper.Update(upd.theta, upd.thetaMinus, batch, upd.rate(u, 0), &upd.report); err != nil {
		return train.AtUpdate(err, at, u)
	}
	if !upd.learner {
		upd.theta.Updates = uint64(u - upd.outliers.Dropped)
	}
	upd.units.Look(upd.stepper, at, batch.Obs)
	upd.loss[0] = float32(upd.report.Loss)
	return nil
}

// drawable returns train.ErrNothingToDraw, with the cause, if no transition can be drawn.
func (upd *updater) drawable() error {
	n, stored, tails := upd.cfg.NSteps, upd.memory.Len(), upd.cfg.Tails
	switch {
	case upd.drawing.Len() > 0:
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
func (upd *updater) stepOf(u int64) int64 {
	return upd.clock.Warmup + upd.cfg.Periods.burstAt(u-upd.clock.UpdatesBefore) + upd.clock.Others
}

// rate is the learning rate of update u, before which `ahead` updates of Theta are still to come.
func (upd *updater) rate(u, ahead int64) float64 {
	if upd.cfg.Periods.ByUpdates {
		return upd.schedule.Rate.At(max(0, int64(upd.theta.Updates)+ahead-upd.clock.AppliedBefore))
	}
	return upd.schedule.Rate.At(upd.stepOf(u))
}

// lastInWindow is the number of the latest update that draws from the replay memory as it is now,
// where updates up to number released may begin.
func (upd *updater) lastInWindow(released int64) int64 {
	if !upd.cfg.Concurrent {
		return released
	}
	return max(released, upd.clock.UpdatesBefore+upd.cfg.updatesDue(upd.clock.NextWindow, upd.clock.NextWindow))
}
