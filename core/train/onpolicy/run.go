package onpolicy

import (
	"errors"

	"github.com/paceline-rl/paceline/core/normalize"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/rollout"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/vec"
)

// Run is the state of a run of such a method: a Worker, what it counts, and how it learns.
type Run struct {
	Worker
	Clock Clock

	method Method
	policy policy.Spec
	units  *train.Units
	// minibatch is the number of the next minibatch of an update in progress; 0: none is.
	minibatch int
	filling   bool // the window slides and was empty after the latest update
	updated   bool // the run's first minibatch was learned from, or the run was loaded
	reported  bool // Report is of a minibatch
	backup    backup
	before    func() error // comes before every gradient; nil: nothing does
	share     func(own rollout.Moments) (rollout.Moments, error)
	empty     bool  // see UpdateEmpty
	err       error // what ended training
}

// Clock holds every count and schedule. A checkpoint holds it.
type Clock struct {
	Steps int64 `json:"steps"` // num_timesteps
	// Others are the steps of other learners, as known at the latest pull (train.Learner).
	Others  int64          `json:"others,omitempty"`
	End     int64          `json:"end"` // the step at which the run and the schedules end
	Updates int64          `json:"updates"`
	Rate    train.Schedule `json:"learning_rate"`
	// Schedules are Config.Schedules, by name.
	Schedules map[string]train.Schedule `json:"schedules,omitempty"`
	// Rollouts counts the rollouts that have become full.
	Rollouts int64 `json:"rollouts"`
	// Epochs counts the passes over a rollout that have begun, in methods with Minibatches.
	Epochs int64 `json:"epochs"`
	// Seed is the seed of their orders.
	Seed uint64 `json:"seed"`
}

// Now is the step of all learners, which schedules follow.
func (c *Clock) Now() int64 { return c.Steps + c.Others }

// SetOtherSteps implements train.Learner.
func (r *Run) SetOtherSteps(steps int64) { r.Clock.Others = steps }

// BeforeUpdates implements train.Learner.
func (r *Run) BeforeUpdates(f func() error) { r.before = f }

// ShareMoments implements train.Learner.
func (r *Run) ShareMoments(f func(own rollout.Moments) (rollout.Moments, error)) { r.share = f }

// UpdateEmpty makes an update due also for a full window without a step. Its minibatches compute no
// gradient, and the function of BeforeUpdates runs before each of them. So all learners whose
// windows become full together have the same number of minibatches.
func (r *Run) UpdateEmpty() { r.empty = true }

// Statistics implements train.Learner.
func (r *Run) Statistics() *normalize.Normalizer { return r.Normalizer }

// RoundsToUpdate implements train.Learner.
func (r *Run) RoundsToUpdate() int {
	if r.due() {
		return 0
	}
	return max(1, r.Window.Left())
}

// set is the name of Theta.
const set = "policy"

// InRollout implements train.Rolling.
func (r *Run) InRollout() bool {
	left := r.Window.Left()
	if left == 0 {
		return r.due()
	}
	return left < r.cfg.Horizon && (left != r.cfg.Slide || r.filling)
}

// Init makes everything of a run of m, which embeds r.
func (r *Run) Init(s *train.Setup, c Config, m Method) (err error) {
	*r = Run{method: m, policy: c.Policy, units: train.NewUnits(c.Net)}
	r.Clock.Seed = uint64(s.Common.Seed)
	c.schedule(&r.Clock)
	r.policy.Set, r.policy.Env, r.policy.Net = set, s.Spec, c.Net
	if err := r.Worker.init(s, c); err != nil {
		return err
	}
	if r.Normalizer != nil {
		r.policy.Normalizer = r.Normalizer.Obs
	}
	if err := r.backup.init(s.Device, &r.Worker); err != nil {
		return err
	}
	return r.initActors(s)
}

// schedule makes the schedules of a run that ends at k.End.
func (c *Config) schedule(k *Clock) {
	end := max(1, k.End) // 0 before the first run
	k.Rate, k.Schedules = c.Rate(end), nil
	for _, s := range c.Schedules {
		if k.Schedules == nil {
			k.Schedules = map[string]train.Schedule{}
		}
		k.Schedules[s.Name] = s.Of(end)
	}
}

// adopted returns a checkpoint's Clock with the schedules that c has. A schedule that the
// checkpoint also has is the checkpoint's.
func (c *Config) adopted(saved Clock) Clock {
	k := saved
	c.schedule(&k)
	k.Rate = saved.Rate
	for name := range k.Schedules {
		if s, ok := saved.Schedules[name]; ok {
			k.Schedules[name] = s
		}
	}
	return k
}

// Advance takes steps until `until` are counted, the Interrupt is raised or its rollouts are full.
// Where the host steps the environments, one pass of its loop is Act, the host's step, Observe.
func (r *Run) Advance(until int64, interrupt *train.Interrupt) error {
	if err := r.Window.Repair(); err != nil {
		return err
	}
	for r.Clock.Steps < until && !interrupt.Raised(r.Monitor.Mark()) {
		if err := r.Settle(interrupt); err != nil {
			return err
		}
		r.beginRound()
		steps, err := r.Fill(r.Clock.Steps, until, interrupt)
		r.count(steps)
		if err != nil {
			return err
		}
		if r.Window.Full() && interrupt.Filled() {
			return nil
		}
	}
	return nil
}

// Act is the first half of a round where the host steps the environments.
func (r *Run) Act(rows *vec.Rows, interrupt *train.Interrupt) (vec.Actions, error) {
	if err := r.Settle(interrupt); err != nil {
		return vec.Actions{}, err
	}
	if err := r.Actors.Use(rows, r.Clock.Steps); err != nil {
		return vec.Actions{}, err
	}
	r.beginRound()
	// One forward pass for all.
	err := r.Actors.Choose(r.Clock.Steps, r.cfg.Chooser, true)
	r.Monitor.Lap(train.Acting)
	return r.Actors.Actions(), err
}

// Observe is the second half. It records all rows, or none.
func (r *Run) Observe(rows *vec.Rows, _ *train.Interrupt) error {
	steps, err := r.Actors.Observe(rows, r.Clock.Steps, nil)
	if err != nil {
		return err
	}
	r.Monitor.Add(steps, r.Actors)
	err = r.Rollout.EndRound()
	r.count(steps)
	return err
}

// Round implements train.Learner.
func (r *Run) Round() error {
	if err := r.Window.Repair(); err != nil {
		return err
	}
	r.beginRound()
	steps, err := r.Fill(r.Clock.Steps, 0, nil)
	r.count(steps)
	return err
}

// CheckUse implements train.Learner.
func (r *Run) CheckUse(rows *vec.Rows) error { return r.Actors.CheckUse(rows, r.Clock.Steps) }

// CheckRows implements train.Learner.
func (r *Run) CheckRows(rows *vec.Rows) error { return r.Actors.CheckRows(rows, r.Clock.Steps, nil) }

// beginRound comes before a round. A window that slides is empty at the start, after a discard and
// after a load without experience; else it has old rounds before its first new one.
func (r *Run) beginRound() {
	if r.cfg.Slide > 0 && r.Window.Left() == r.cfg.Horizon {
		r.filling = true
	}
}

// count counts steps after rounds that may have made the window full.
func (r *Run) count(steps int64) {
	r.Clock.Steps += steps
	if r.Window.Full() {
		r.full++
		r.Clock.Rollouts++
		r.method.Filled()
	}
}

// Filled leaves nothing out; methods that do have one of their own.
func (r *Run) Filled() {}

// Divergence is 0, and Resume does nothing: in most methods no minibatch depends on the results of
// those before it.
func (r *Run) Divergence() float64 { return 0 }
func (r *Run) Resume(float64)      {}

// due reports whether an update is due.
func (r *Run) due() bool { return r.Window.Full() && (r.empty || r.Window.Steps() > 0) }

// Settle does the update of a window that is full. It does at least one minibatch, so that a host
// that calls with a short limit makes progress. Concurrently with the update it resets environments
// whose episode ended and that were not reset at once. It reports a reset that failed even if the
// Interrupt ends the update.
func (r *Run) Settle(interrupt *train.Interrupt) (err error) {
	if r.err != nil || !r.Window.Full() {
		return r.err
	}
	resets, err := r.Window.StartResets()
	if err != nil {
		return err
	}
	if resets {
		defer func() {
			if failed := r.Window.FinishResets(); failed != nil && errors.Is(err, train.ErrInterrupted) {
				err = failed // the Trainer looks for nothing else in an ErrInterrupted
			} else {
				err = errors.Join(err, failed)
			}
		}()
	}
	for done := !r.due(); !done; {
		if r.before != nil {
			if err := r.before(); err != nil {
				return err
			}
		}
		if r.Window.Steps() > 0 {
			if done, err = r.method.Update(r.minibatch); errors.Is(err, train.ErrInterrupted) {
				return err
			}
			r.err = err
		}
		r.minibatch++
		done = done || r.minibatch == r.cfg.Minibatches
		now := r.Monitor.Lap(train.Learning)
		if r.err != nil {
			r.minibatch = 0
			return r.err
		}
		if err := interrupt.Err(now); err != nil && !done {
			return err
		}
	}
	return r.next()
}

// next discards the rounds that the update has made old.
func (r *Run) next() error {
	r.minibatch, r.filling = 0, false
	if err := r.backup.make(r); err != nil {
		return err
	}
	if r.cfg.Slide > 0 {
		return r.Window.Drop(r.cfg.Slide)
	}
	return r.Window.Next()
}
