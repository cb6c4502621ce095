package onpolicy

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/vec"
)

// Begin implements train.Method.
func (r *Run) Begin(total int64, flags train.Flags) error {
	if flags&train.ResetTimesteps != 0 {
		r.forgive()
		if !r.Window.Full() { // else its update is due
			if err := r.Discard(); err != nil {
				return err
			}
		}
	}
	if flags&train.ResetEnvs != 0 {
		if err := r.Window.Reset(); err != nil {
			return err
		}
	}
	if flags&train.ResetTimesteps != 0 {
		r.Clock.Steps, r.Clock.Others = 0, 0
	}
	r.Clock.End = r.Clock.Now() + total
	r.cfg.schedule(&r.Clock)
	r.updated = false
	r.Monitor.Steps.Store(r.Clock.Steps)
	return nil
}

// Failed returns the error that ended training, if one did.
func (r *Run) Failed() error { return r.err }

// forgive lets training continue after a loss that is not finite, because the parameters or the run
// are others now. The rollout of that loss is discarded.
func (r *Run) forgive() {
	if errors.Is(r.err, fault.ErrNotFinite) && r.Discard() == nil {
		r.err = nil
	}
}

// Discard implements train.Learner.
func (r *Run) Discard() error {
	r.minibatch, r.uploaded = 0, upload{}
	return r.Window.Next()
}

// Sets is Theta.
func (r *Run) Sets() []nn.Set { return []nn.Set{{Name: set, Params: r.Theta, Writable: true}} }

// Wrote implements train.Method.
func (r *Run) Wrote(string) { r.forgive() }

// Policy is Theta, with actions as Config.Policy says.
func (r *Run) Policy() policy.Spec { return r.policy }

// Knobs implements train.Tunable.
func (r *Run) Knobs() train.Knobs {
	return train.Knobs{Synchronized: true, Alternates: r.Normalizer == nil}
}

// Latest implements train.Stepped.
func (r *Run) Latest() (*vec.Rows, vec.Actions) { return r.Actors.Latest() }

// Close ends the threads of the environments. The Trainer owns everything else that has threads.
func (r *Run) Close() error {
	r.close()
	return nil
}

// Digests implements train.Digested: the rollout as a checkpoint holds it.
func (r *Run) Digests() []train.Digest {
	return []train.Digest{{Name: "rollout", Sum: func() (sum [32]byte) {
		h := sha256.New()
		if err := r.Rollout.Save(h); err != nil { // only inside a round, where Hash cannot be called
			return sum
		}
		return [32]byte(h.Sum(nil))
	}}}
}

// Metrics reports the updates that are due, the learning rate and the latest update's loss. Methods
// with more metrics call it first.
func (r *Run) Metrics(m *train.Metrics) {
	due, loss := r.Clock.Updates, math.NaN()
	if r.due() {
		due += int64(r.cfg.Minibatches - r.minibatch)
	}
	if r.reported {
		loss = r.Report.Loss
	}
	m.Due(due)
	m.Add("rollouts", "", "rollouts that have become full", float64(r.Clock.Rollouts))
	m.Add("train/learning_rate", "", "step size of the optimiser at this step", r.Clock.Rate.At(r.Clock.Now()))
	m.Add("train/loss", "", "of the latest update", loss)
	AddStd(m, r.Theta)
	r.units.Metrics(m, r.Monitor)
}

// AddStd adds the standard deviation of theta's policy, if it has a box.
func AddStd(m *train.Metrics, theta *nn.Params) {
	logStds, sum := theta.LogStd(), 0.0
	if logStds == nil {
		return
	}
	for _, v := range logStds {
		sum += math.Exp(float64(v))
	}
	m.Add("train/std", "", "standard deviation of the policy's Gaussian, mean over the components of a box action", sum/float64(len(logStds)))
}

// Parts lists a checkpoint's parts. Experience comes last, and the environments at the very end
// (see actor.Group). After a loss that is not finite no experience is saved: the rollout of that
// loss is discarded, and an update may have learned from a part of it.
func (r *Run) Parts(saving bool) []checkpoint.Part {
	parts := append([]checkpoint.Part{
		policy.SetPart(set, r.Theta),
		nn.TensorsPart("optimizer.safetensors", r.Stepper.Optimizer().State()),
		r.clockPart(),
	}, r.Window.Parts(saving)...)
	if r.Normalizer != nil {
		parts = slices.Insert(parts, 0, r.Normalizer.Part())
	}
	parts = slices.Insert(parts, len(parts)-1, r.updatePart(saving))
	for i := range parts {
		if p := &parts[i]; saving && p.Optional && errors.Is(r.err, fault.ErrNotFinite) {
			p.Write = nil
		}
	}
	return parts
}

// savedClock is part "clock".
type savedClock struct {
	Clock         Clock `json:"clock"`
	OptimizerStep int64 `json:"optimizer_step"`
	Filling       bool  `json:"filling,omitempty"` // see Run
}

func (r *Run) clockPart() checkpoint.Part {
	save := func() (savedClock, error) {
		return savedClock{r.Clock, r.Stepper.Optimizer().Step(), r.filling}, nil
	}
	return checkpoint.JSON("clock.json", 1<<20, save, func(s savedClock) (func(), error) {
		return func() {
			r.Clock, r.err, r.minibatch, r.updated = r.cfg.adopted(s.Clock), nil, 0, true
			r.filling = s.Filling
			r.loads++
			r.Stepper.Optimizer().SetStep(s.OptimizerStep)
			r.Theta.Updates = uint64(s.Clock.Updates)
			r.Monitor.Steps.Store(s.Clock.Steps)
			r.Monitor.Updates.Store(s.Clock.Updates)
		}, s.check(&r.cfg)
	})
}

// savedUpdate is part "update": an update that a Stop or a time limit has interrupted. The file
// needs the returns, because the parameters that acted, from which they follow, exist no longer.
type savedUpdate struct {
	Minibatch  int       `json:"minibatch"` // the next one
	Advantages []float32 `json:"advantages"`
	Returns    []float32 `json:"returns"`
	Divergence float64   `json:"divergence"` // Method's
}

// updatePart comes after the rollout's part, to whose rows it belongs.
func (r *Run) updatePart(saving bool) checkpoint.Part {
	save := func() (savedUpdate, error) {
		b := r.Rollout.Batch()
		d := r.method.Divergence()
		if math.IsNaN(d) { // which cannot be written, and is above no limit, as 0
			d = 0
		}
		return savedUpdate{r.minibatch, b.Advantages, b.Returns, min(d, math.MaxFloat64)}, nil
	}
	rows := len(r.Rollout.Batch().Weights)
	part := checkpoint.JSON("update.json", int64(64*rows+1024), save, func(s savedUpdate) (func(), error) {
		return func() {
			if b := r.Rollout.Batch(); s.Minibatch > 0 && r.Rollout.Full() {
				r.minibatch = s.Minibatch
				copy(b.Advantages, s.Advantages)
				copy(b.Returns, s.Returns)
				r.method.Resume(s.Divergence)
			}
		}, s.check(&r.cfg, rows)
	})
	part.Optional = true
	read := part.Read
	part.Read = func(in io.Reader, n int64) (func(), error) {
		if in == nil { // no update was in progress
			return func() {}, nil
		}
		return read(in, n)
	}
	if saving && r.minibatch == 0 {
		part.Write = nil
	}
	return part
}

// check refuses an update that no run has.
func (s *savedUpdate) check(c *Config, rows int) error {
	if s.Minibatch < 1 || s.Minibatch >= c.Minibatches || len(s.Advantages) != rows || len(s.Returns) != rows {
		return fmt.Errorf("update: minibatch %d of %d, %d advantages and %d returns of %d rows", s.Minibatch, c.Minibatches, len(s.Advantages), len(s.Returns), rows)
	}
	return nil
}

// check refuses counts and schedules that no run has.
func (s *savedClock) check(c *Config) error {
	const most = int64(1) << 51
	for _, v := range []struct {
		name  string
		value int64
	}{{"steps", s.Clock.Steps}, {"others", s.Clock.Others}, {"end", s.Clock.End}, {"updates", s.Clock.Updates}, {"optimizer_step", s.OptimizerStep}, {"epochs", s.Clock.Epochs}, {"rollouts", s.Clock.Rollouts}} {
		if v.value < 0 || v.value > most {
			return fmt.Errorf("clock: %s is %d", v.name, v.value)
		}
	}
	if s.OptimizerStep != s.Clock.Updates {
		return fmt.Errorf("clock: %d updates, %d steps of the optimiser", s.Clock.Updates, s.OptimizerStep)
	}
	for _, schedule := range c.Schedules {
		saved, ok := s.Clock.Schedules[schedule.Name]
		if !ok { // see adopted
			continue
		}
		if err := saved.Check(schedule.Name, schedule.Most); err != nil {
			return err
		}
	}
	return s.Clock.Rate.Check("learning_rate", 1e3)
}
