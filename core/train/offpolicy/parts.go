package offpolicy

import (
	"errors"
	"fmt"
	"io"

	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/replay"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/train"
)

// savedClock is part "clock": every count, schedule and random stream except those of the
// environments.
type savedClock struct {
	Clock         Clock             `json:"clock"`
	Schedule      Schedule          `json:"schedule"`
	Periods       Periods           `json:"periods"`
	Updates       int64             `json:"updates"`
	OptimizerStep int64             `json:"optimizer_step"`
	Draws         []byte            `json:"replay_stream"`
	Seen          map[string]uint64 `json:"updates_seen"` // by each parameter set
	UpdatesDue    int64             `json:"updates_due"`
	// Learner says that the Run is one of several learners. Updates are its own, those that the
	// parameters have seen are those of all learners.
	Learner bool `json:"learner,omitempty"`
	// Noise is the run's seed of a noisy network's noise.
	Noise uint64 `json:"noise_seed,omitempty"`
	// Outliers is absent if no gradient's loss was looked at.
	Outliers *outliers `json:"outliers,omitempty"`
}

// Parts lists a checkpoint's parts. Experience comes last, and the environments at the very end
// (see actor.Group).
func (r *Run) Parts(saving bool) []checkpoint.Part {
	clockLoaded := false // false: experience is loaded alone
	optimizer := nn.TensorsPart("optimizer.safetensors", r.Updates.updater.stepper.Optimizer().State())
	parts := []checkpoint.Part{
		policy.SetPart(setTheta, r.Theta),
		policy.SetPart(setThetaMinus, r.ThetaMinus),
		optimizer,
		r.clockPart(&clockLoaded),
		r.Samplers.Exploration(),
	}
	if r.Snapshot != nil {
		parts = append(parts, r.snapshotPart())
	}
	parts = append(parts, r.replayPart(&clockLoaded))
	if p, ok := r.drawing.Part("priorities.bin"); ok {
		parts = append(parts, r.prioritiesPart(p, &clockLoaded))
	}
	return append(parts, r.Samplers.Environments(saving))
}

// snapshotPart is the part of Snapshot. If the file has none, Snapshot is a copy of Theta.
func (r *Run) snapshotPart() checkpoint.Part {
	p := policy.SetPart(setSnapshot, r.Snapshot)
	p.Optional = true
	read := p.Read
	p.Read = func(in io.Reader, n int64) (func(), error) {
		if in == nil {
			return func() { r.Snapshot.CopyFrom(r.Theta) }, nil
		}
		return read(in, n)
	}
	return p
}

// clockPart is the part of the counts. It sets clockLoaded when it is read.
func (r *Run) clockPart(clockLoaded *bool) checkpoint.Part {
	save := func() (s savedClock, err error) {
		draws, err := r.Updates.updater.draws.MarshalBinary()
		s = savedClock{r.Clock, r.Schedule, r.cfg.Periods, r.Updates.Done(), r.Updates.updater.stepper.Optimizer().Step(), draws,
			map[string]uint64{setTheta: r.Theta.Updates, setThetaMinus: r.ThetaMinus.Updates}, r.asked(r.Clock.T), r.learners > 0, 0, nil}
		if r.noise != nil {
			s.Noise = r.noise.run
		}
		if r.Snapshot != nil {
			s.Seen[setSnapshot] = r.Snapshot.Updates
		}
		if o := r.Updates.updater.outliers; o.Seen > 0 {
			s.Outliers = &o
		}
		return s, err
	}
	return checkpoint.JSON("clock.json", 1<<20, save, func(s savedClock) (func(), error) {
		draws := new(rng.Stream)
		err := s.check(max(r.envs, r.Monitor.Loading), r.learners > 0, r.Updates.before != nil)
		if err == nil {
			err = draws.UnmarshalBinary(s.Draws)
		}
		if err != nil {
			return nil, err
		}
		*clockLoaded = true
		return func() {
			r.Updates.updater.draws = draws
			r.Clock, r.Schedule = s.Clock, s.Schedule
			if (r.Schedule.Beta == nil) != (r.cfg.Beta == nil) {
				r.Schedule.Beta = r.cfg.schedule(r.Clock.End, r.learners).Beta
			}
			r.Clock.changePeriods(s.UpdatesDue, s.Periods, &r.cfg)
			r.Updates.set(s.Updates, s.outliers().Dropped)
			r.Updates.updater.stepper.Optimizer().SetStep(s.OptimizerStep)
			r.Theta.Updates, r.ThetaMinus.Updates = s.Seen[setTheta], s.Seen[setThetaMinus]
			if r.Snapshot != nil {
				r.Snapshot.Updates = s.Seen[setSnapshot]
			}
			if r.noise != nil {
				r.noise.setRun(s.Noise)
			}
			r.Updates.updater.outliers = s.outliers()
			r.turn, r.firstUpdate = 0, 0
			r.room.forget()
			r.Monitor.Steps.Store(r.Clock.Steps())
		}, nil
	})
}

// mostCounted bounds the steps and updates that a file counts, so that sums do not overflow.
const mostCounted = int64(1) << 51

// check refuses counts that no run has, so that a damaged file never asks for endless updates. envs
// is the largest number of environments that may have counted. brought says that minibatches may
// come from outside (UpdateOf).
func (s *savedClock) check(envs int, learner, brought bool) error {
	c, p := &s.Clock, s.Periods
	for name, v := range map[string]int64{"warmup": c.Warmup, "warm_at": c.WarmAt, "t": c.T, "windows": c.Windows, "due": c.NextWindow,
		"begun": c.UpdatesBefore + mostCounted, "end": c.End, "updates": s.Updates, "optimizer_step": s.OptimizerStep, "copies": c.TargetMultiple + 1, "refill": c.Refill} {
		if v < 0 || v > 2*mostCounted {
			return fmt.Errorf("clock: %s is %d", name, v)
		}
	}
	if p.TrainFreq < 1 || int64(p.TrainFreq) > 1<<40 || p.GradientSteps < 1 || p.GradientSteps > 1<<20 || p.TargetInterval < 1 || p.Window < 1 || p.Window > mostCounted ||
		max(c.T, c.NextWindow)/int64(p.TrainFreq) > mostCounted/int64(p.GradientSteps) {
		return fmt.Errorf("clock: periods %+v", p)
	}
	if err := s.Schedule.Epsilon.Check("epsilon", 1); err != nil {
		return err
	}
	if err := s.Schedule.Rate.Check("learning_rate", 1e3); err != nil {
		return err
	}
	if s.Schedule.Beta != nil {
		if err := s.Schedule.Beta.Check("beta", 1); err != nil {
			return err
		}
	}
	w := int64(envs)
	if err := s.checkWarmup(w); err != nil {
		return err
	}
	// Others, of whose steps a learner hears at a pull, move on by any number of steps in a window.
	if c.Others < 0 || c.Others > mostCounted || c.OthersT < 0 || c.OthersT > c.Others {
		return fmt.Errorf("clock: %d steps of other learners, %d after their warm-up", c.Others, c.OthersT)
	}
	if err := s.checkTarget(w); err != nil {
		return err
	}
	if err := s.checkUpdates(w, learner, brought); err != nil {
		return err
	}
	return s.checkSeen(learner)
}

// checkWarmup checks the warm-up and the windows after it. A round of w environments may go past
// the end of the warm-up, and past a boundary.
func (s *savedClock) checkWarmup(w int64) error {
	c, window := &s.Clock, s.Periods.Window
	tooLong := c.Warmup >= c.WarmAt+w
	tooShort := c.Warm && c.Warmup < c.WarmAt
	badRefill := c.Refill > c.WarmAt || c.Warm && c.Refill > 0
	if tooLong || tooShort || badRefill {
		return fmt.Errorf("clock: %d steps of warm-up, which ends at %d", c.Warmup, c.WarmAt)
	}
	missed := c.T >= c.NextWindow+w
	tooFar := c.NextWindow > (c.T/window+1)*window
	if c.Warm && (missed || tooFar) {
		return fmt.Errorf("clock: the next window at %d, at t %d", c.NextWindow, c.T)
	}
	return nil
}

// checkTarget checks the updates of the target network. Where this learner's steps alone ask for
// them, they lag by little more than a window.
func (s *savedClock) checkTarget(w int64) error {
	c, p := &s.Clock, s.Periods
	passed := c.elapsed(p.ByUpdates) / p.TargetInterval
	tooMany := c.TargetMultiple > passed
	noneYet := c.TargetMultiple < 0 && c.T > 0
	ownSteps := c.Others == 0 && !p.ByUpdates
	tooFew := ownSteps && c.TargetMultiple < passed-2-(p.Window+w)/p.TargetInterval
	if tooMany || noneYet || tooFew {
		return fmt.Errorf("clock: %d copies of the target, where %d are due", c.TargetMultiple, passed)
	}
	return nil
}

// checkUpdates checks the updates due and done. Those that are left are at most the updates of a
// window, or a burst. So are those done before they are due, except where minibatches are brought.
func (s *savedClock) checkUpdates(w int64, learner, brought bool) error {
	c, p := &s.Clock, s.Periods
	slack := p.spread(min(p.Window, 1<<20)+w) + int64(p.GradientSteps)
	behind := p.spread(min(p.Window, c.T)+w) + int64(p.GradientSteps)
	if learner { // see HoldUpdates
		behind = max(behind, s.UpdatesDue-c.UpdatesBefore)
	}
	due := s.UpdatesDue - c.UpdatesBefore // since t = 0
	inBursts := due == p.burst(c.T)
	evenly := due == min(p.spread(c.T), p.burst(max(c.T, c.NextWindow)))
	tooMany := !brought && s.Updates > s.UpdatesDue+slack
	tooFew := s.UpdatesDue-s.Updates > behind
	if !inBursts && !evenly || tooMany || tooFew {
		return fmt.Errorf("clock: %d updates where %d are due at t %d", s.Updates, s.UpdatesDue, c.T)
	}
	return nil
}

// checkSeen checks the steps of the optimiser and the updates that the parameters have seen. The
// parameters of a learner have also seen updates of the other learners.
func (s *savedClock) checkSeen(learner bool) error {
	c, o, seen := &s.Clock, s.outliers(), s.Seen[setTheta]
	if err := o.check(s.Updates); err != nil {
		return err
	}
	applied := s.Updates - o.Dropped
	otherKind := s.Learner != learner
	otherSteps := s.OptimizerStep != applied
	otherTheta := !learner && seen != uint64(applied)
	tooMany := seen > uint64(mostCounted) || s.Seen[setThetaMinus] > seen || s.Seen[setSnapshot] > seen
	if otherKind || otherSteps || otherTheta || tooMany {
		return fmt.Errorf("clock: %d updates, %d steps of the optimiser, seen by the parameters %v", s.Updates, s.OptimizerStep, s.Seen)
	}
	if c.Applied < 0 || c.AppliedBefore < 0 || c.Applied > int64(seen) || c.AppliedBefore > int64(seen)-c.Applied {
		return fmt.Errorf("clock: %d and %d updates of the parameters, of %d", c.AppliedBefore, c.Applied, seen)
	}
	return nil
}

// outliers are those of the file.
func (s *savedClock) outliers() outliers {
	if s.Outliers == nil {
		return outliers{}
	}
	return *s.Outliers
}

// replayPart is the part of the replay memory. If the file has none, a load of the whole file
// empties the memory at the end, and a load of experience alone is refused. After a load of a file
// without experience, or of experience alone of which nothing can be drawn, learning_starts random
// steps come before further updates; a later load of experience ends these steps. clockLoaded is
// that of clockPart.
func (r *Run) replayPart(clockLoaded *bool) checkpoint.Part {
	p := r.Memory.Part("replay.bin", r.spec.Action.N)
	p.Alone = true
	read := p.Read
	p.Read = func(in io.Reader, n int64) (func(), error) {
		if in == nil && !*clockLoaded {
			return nil, errors.New("missing; the file must be saved with its experience")
		}
		adopt, err := read(in, n)
		if err != nil {
			return nil, err
		}
		return func() {
			adopt()
			r.Updates.forgive(train.ErrNothingToDraw)
			r.drawing.Flushed()
			r.room.forget()
			// The loaded episodes in progress are not those of the trainer's environments. A file
			// with environments has them in a later part.
			r.Samplers.Forget()
			switch c, empty := &r.Clock, r.drawing.Len() == 0; {
			case in == nil || empty && c.Warm && !*clockLoaded:
				c.refill(int64(r.cfg.LearningStarts))
				r.refillNotice = c.Refill > 0 && r.learner == 0 // which speaks for all learners
			case !*clockLoaded && c.Refill > 0 && (!empty || c.ownWarmAt() > c.Warmup):
				c.refilled()
			}
		}, nil
	}
	return p
}

// prioritiesPart is the part of the priorities. Experience that is loaded alone may have none, or
// other ones: its transitions then have the priority of new ones, and a notice says why.
// clockLoaded is that of clockPart.
func (r *Run) prioritiesPart(p checkpoint.Part, clockLoaded *bool) checkpoint.Part {
	p.Alone = true
	read := p.Read
	p.Read = func(in io.Reader, n int64) (func(), error) {
		if *clockLoaded {
			return read(in, n)
		}
		const instead = "; the transitions of the file were loaded with the priority of new ones"
		if in == nil {
			return func() { r.Monitor.Notify("prioritized: none in the file" + instead) }, nil
		}
		adopt, err := read(in, n)
		if other := (*replay.OtherPriorities)(nil); errors.As(err, &other) {
			_, err := io.Copy(io.Discard, in)
			return func() { r.Monitor.Notify("%v"+instead, other) }, err
		}
		return adopt, err
	}
	return p
}
