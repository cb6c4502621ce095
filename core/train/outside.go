package train

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/threads"
)

// This file is updates from outside: Gradient computes the gradient of the next update, the program
// applies it where it likes (param.Range is a place), and Adopt brings the parameters back. A
// method that is a Learner and embeds Outside in its settings has them.
//
// The steppers of such a method take no steps: their optimiser copies the gradient to the caller.
// The method does updates inside Gradient alone. Everything else that would do one (Save,
// GetParameters, Begin) finds that it is interrupted, and leaves the update to the next Gradient.

// Outside are the settings of updates from outside, which a method's struct embeds.
type Outside struct {
	Updates         string
	OutsideLearners int
	OutsideLearner  int
}

func (o *Outside) outside() *Outside { return o }

// Values of the setting updates.
const (
	updatesOwn     = "own"
	updatesOutside = "outside"
)

// OutsideShape names the settings of Outside in which a checkpoint and the trainer that loads it
// must agree.
var OutsideShape = []string{"updates"}

// OutsideSettings describes Outside for a method whose struct is C.
func OutsideSettings[C any](part func(*C) *Outside) []settings.Setting {
	return settings.Within(part, []settings.Setting{
		settings.Text("updates", updatesOwn, "who takes the steps of the updates: own (the trainer's optimiser) or outside (the program, which gets each gradient and brings new parameters: paceline_trainer_gradient and paceline_trainer_adopt); outside is for the CPU", []string{updatesOwn, updatesOutside}, func(c *Outside) *string { return &c.Updates }),
		settings.Int("outside_learners", 1, 1, 1<<16, "K: learners, in any processes, that share a run with updates outside", func(c *Outside) *int { return &c.OutsideLearners }),
		settings.Int("outside_learner", 0, 0, 1<<16-1, "number of this learner among outside_learners; its environments and random numbers are those of this learner where one process has all K", func(c *Outside) *int { return &c.OutsideLearner }),
	})
}

// FromOutside reports whether the updates come from outside.
func (o *Outside) FromOutside() bool { return o.Updates == updatesOutside }

// CheckOutside refuses settings that do not go together.
func (o *Outside) CheckOutside() error {
	switch {
	case o.OutsideLearner >= o.OutsideLearners:
		return fmt.Errorf("outside_learner: %d, must be below outside_learners (%d)", o.OutsideLearner, o.OutsideLearners)
	case !o.FromOutside() && o.OutsideLearners > 1:
		return fmt.Errorf("outside_learners: %d, must be 1 where updates is own", o.OutsideLearners)
	}
	return nil
}

// outsideOf returns the settings of updates from outside; nil: the trainer's optimiser takes the
// steps.
func outsideOf(c Settings) *Outside {
	if s, ok := c.(interface{ outside() *Outside }); ok && s.outside().FromOutside() {
		return s.outside()
	}
	return nil
}

// GradientState says what a Gradient has come to.
type GradientState int

const (
	// GradientNone: the run has ended, and no update is left.
	GradientNone GradientState = iota
	GradientReady
	// GradientDropped: an update was due, and the method has dropped its gradient, because of its
	// loss.
	GradientDropped
	// GradientLater: no update is due, where the host steps the environments.
	GradientLater
)

// GradientInfo describes the gradient of an update.
type GradientInfo struct {
	State GradientState
	// Number counts the gradients of the trainer that were not dropped, from 1 on. A checkpoint holds
	// it.
	Number int64
	// Updates is what the latest Adopt has said; 0 before the first.
	Updates int64
	// Steps is num_timesteps.
	Steps int64
	// Loss is the loss of the minibatch, and Rows the number of its rows.
	Loss float64
	Rows int
	// Rate is the learning rate of the update.
	Rate float64
}

// externalUpdates is the state of a Trainer whose updates come from outside. It is the optimiser of
// the method's steppers.
type externalUpdates struct {
	learner Learner
	others  int64 // steps of other learners, as of the latest Adopt
	number  int64

	// Of the Gradient in progress.
	to   []float32 // nil: none is in progress
	info GradientInfo
	rows int // of a minibatch
}

// done reports whether the Gradient in progress has its update.
func (o *externalUpdates) done() bool {
	return o.info.State == GradientReady || o.info.State == GradientDropped
}

// errOutside ends a method's update that no Gradient has asked for.
var errOutside = fmt.Errorf("%w: the update comes from outside", ErrInterrupted)

// begin comes before every gradient.
func (o *externalUpdates) begin() error {
	if o.to == nil || o.done() {
		return errOutside
	}
	return nil
}

// admitted wraps StepperConfig.Admit.
func (o *externalUpdates) admitted(admit func(*nn.Report) bool) func(*nn.Report) bool {
	return func(r *nn.Report) bool {
		o.info.Loss, o.info.Rows = r.Loss, o.rows
		if admit != nil && !admit(r) {
			o.info.State = GradientDropped
			return false
		}
		return true
	}
}

func (o *externalUpdates) Step() int64        { return o.number }
func (o *externalUpdates) SetStep(step int64) { o.number = step }
func (o *externalUpdates) State() []nn.Tensor { return nil }

func (o *externalUpdates) ApplyRange(*nn.Params, int, []float32, float32, float64, int64) error {
	return errors.New("optimizer: a learner takes steps of all parameters")
}

// Apply takes the gradient that the optimiser would step along.
func (o *externalUpdates) Apply(_ *nn.Params, grad []float32, factor float32, lr float64) error {
	if len(grad) != len(o.to) {
		return fmt.Errorf("gradient: %d numbers, must be %d", len(o.to), len(grad))
	}
	if factor == 1 {
		copy(o.to, grad)
	} else {
		for i, g := range grad {
			o.to[i] = factor * g
		}
	}
	o.number++
	o.info.Rate, o.info.State = lr, GradientReady
	return nil
}

// outsideDevice is a device whose steppers take no steps.
type outsideDevice struct {
	nn.Device
	of *externalUpdates
}

func (d *outsideDevice) changed(c nn.StepperConfig) nn.StepperConfig {
	d.of.rows = c.Rows
	c.External, c.Admit = d.of, d.of.admitted(c.Admit)
	return c
}

func (d *outsideDevice) Stepper(c nn.StepperConfig) (nn.Stepper, error) {
	return d.Device.Stepper(d.changed(c))
}

func (d *outsideDevice) QStepper(c nn.StepperConfig, target nn.Target) (nn.QStepper, error) {
	return d.Device.QStepper(d.changed(c), target)
}

func (d *outsideDevice) Another(n int, budget *threads.Budget) (nn.Device, error) {
	other, err := d.Device.Another(n, budget)
	return &outsideDevice{other, d.of}, err
}

// Gradient takes rounds until an update is due, and computes its gradient at the parameters that
// the trainer has. If the state is GradientReady, it has written the gradient to `to`, which has as
// many numbers as the method's first parameter set, scaled down where the method clips its norm.
// The next Gradient is that of the next update, whether or not Adopt is called between. A run ends
// where a rollout ends, as with RunRollouts; a method without rollouts ends at the end of the run.
// Where the host steps the environments, Gradient takes no rounds, and is called after every
// Observe until the state is GradientLater; Act refuses a round while an update is due.
//
// After limit (0: none), at the end of a round, the error is fault.ErrTimedOut, after Stop
// fault.ErrStopped. Neither loses anything. A loss that is not finite is an error that wraps
// fault.ErrNotFinite and ends training until Adopt, SetParameters or a Begin with ResetTimesteps.
func (t *Trainer) Gradient(to []float32, limit time.Duration) (info GradientInfo, err error) {
	if err := t.enter(); err != nil {
		return info, err
	}
	defer t.leave(&err)
	o := t.external
	switch {
	case o == nil:
		return info, t.notOutside("gradient")
	case !t.begun || t.needsReset:
		return info, errors.New("gradient: no run was begun since the environments were made or loaded; call begin first")
	case t.acted:
		return info, errors.New("gradient: must not be called between act and observe")
	}
	theta := t.method.Sets()[0].Params
	if size := theta.Layout.Size; len(to) != size {
		return info, fmt.Errorf("gradient: %d numbers, must be %d", len(to), size)
	}
	o.to, o.info = to, GradientInfo{}
	defer func() { o.to = nil }()
	if err := t.nextUpdate(t.interrupt(limit)); err != nil {
		return info, err
	}
	o.info.Number, o.info.Updates, o.info.Steps = o.number, int64(theta.Updates), t.monitor.Steps.Load()
	return o.info, nil
}

// nextUpdate takes rounds and does the next update, unless the run ends before it.
func (t *Trainer) nextUpdate(interrupt *Interrupt) error {
	o := t.external
	t.halted = false
	for took := false; ; took = true {
		if err := t.method.Failed(); err != nil {
			return err
		}
		if t.stopping.Swap(false) {
			return fmt.Errorf("gradient: %w", fault.ErrStopped)
		}
		if o.learner.RoundsToUpdate() == 0 {
			if err := t.method.Settle(nil); err != nil && !errors.Is(err, ErrInterrupted) {
				return err
			}
			if o.done() {
				return nil
			}
			continue // an update of rows that nothing is learned from
		}
		if t.monitor.Steps.Load()+o.others >= t.end && !InRollout(o.learner) {
			return nil
		}
		if took && errors.Is(interrupt.Err(time.Now()), fault.ErrTimedOut) {
			return fmt.Errorf("gradient: %w", fault.ErrTimedOut)
		}
		if t.source == nil {
			o.info.State = GradientLater
			return nil
		}
		if err := o.learner.Round(); err != nil {
			return err
		}
	}
}

// Adopt overwrites the parameters with those that the steps outside have led to. updates is the
// number of updates of all learners that they have seen, for the method's clocks and targets; the
// largest number that Adopt was ever given counts, so that a server that has lost updates turns no
// clock back. steps is num_timesteps of all learners, which the schedules and the end of the run
// follow; -1: as before.
func (t *Trainer) Adopt(from []float32, updates, steps int64) (err error) {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.leave(&err)
	o := t.external
	if o == nil {
		return t.notOutside("adopt")
	}
	set := t.method.Sets()[0]
	switch size := set.Params.Layout.Size; {
	case len(from) != size:
		return fmt.Errorf("parameters: %d numbers, must be %d", len(from), size)
	case updates < 0 || updates > maxSteps:
		return fmt.Errorf("updates: %d, must be 0 to %d", updates, int64(maxSteps))
	case steps < -1 || steps > maxEnd:
		return fmt.Errorf("steps: %d, must be -1 to %d", steps, int64(maxEnd))
	}
	// The norm is finite exactly if all numbers are. A kernel computes it faster than a loop.
	if norm, _ := t.device.ClipGradNorm(from, math.Inf(1)); !(norm <= math.MaxFloat64) {
		k := slices.IndexFunc(from, func(v float32) bool { return v-v != 0 })
		return fmt.Errorf("parameters: number %d is %v, %w", k, from[k], fault.ErrNotFinite)
	}
	if err := set.Params.Write(from); err != nil {
		return err
	}
	set.Params.Updates = max(set.Params.Updates, uint64(updates))
	if steps >= 0 {
		o.others = max(0, steps-t.monitor.Steps.Load())
		o.learner.SetOtherSteps(o.others)
	}
	if errors.Is(t.method.Failed(), fault.ErrNotFinite) {
		t.method.Wrote(set.Name)
	}
	return nil
}

// notOutside is the error of a call that needs updates from outside.
func (t *Trainer) notOutside(call string) error {
	if _, err := t.cfg.Get("updates"); err != nil {
		return fmt.Errorf("%s: the updates of %s are its own, must be a method with the setting updates", call, t.def.Name)
	}
	return fmt.Errorf("%s: updates is %s, must be %s", call, updatesOwn, updatesOutside)
}
