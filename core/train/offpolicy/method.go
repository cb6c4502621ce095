package offpolicy

import (
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/vec"
)

// Names of the parameter sets.
const (
	setTheta      = "q_net"
	setThetaMinus = "q_net_target"
	setSnapshot   = "snapshot"
)

// Begin implements train.Method.
func (r *Run) Begin(total int64, flags train.Flags) error {
	if flags&train.ResetTimesteps != 0 {
		r.Updates.forgive(fault.ErrNotFinite)
		r.Updates.forgive(train.ErrNothingToDraw)
	}
	r.room.forget()
	if flags&train.ResetEnvs != 0 {
		if err := r.Samplers.Reset(); err != nil {
			return err
		}
	}
	if flags&train.ResetTimesteps != 0 {
		// Updates that the steps of the previous run asked for are due no longer, and staged experience
		// enters the replay memory now, while no window is open.
		r.Updates.Halt()
		r.Flush()
		r.Clock = Clock{Windows: r.Clock.Windows, UpdatesBefore: r.Updates.Done(), WarmAt: int64(r.cfg.LearningStarts), TargetMultiple: -1}
		if r.cfg.Periods.ByUpdates {
			r.Clock.AppliedBefore = int64(r.Theta.Updates)
		}
	}
	r.Clock.End = r.Clock.Steps() + r.Clock.Others + total
	r.Schedule = r.cfg.schedule(r.Clock.End, r.learners)
	// The weights of minibatches that a GPU has for the rest of the window have the betas of the run
	// before.
	r.Updates.gpu.prefetch.discard()
	r.firstUpdate = r.Updates.Done() + 1
	r.Monitor.Steps.Store(r.Clock.Steps())
	return nil
}

// Settle implements train.Method. Between Act and Observe it also does the updates of the round in
// progress, because some of them may have begun.
func (r *Run) Settle(interrupt *train.Interrupt) error {
	defer r.reportRate()
	switch {
	case !r.Clock.Warm:
		return r.Updates.Failed()
	case r.cfg.Concurrent && r.order != UpdatesFirst:
		return r.await(r.due(r.Clock.T), interrupt)
	}
	return r.CatchUp(interrupt)
}

// Report says what there is to say between two rounds.
func (r *Run) Report() {
	r.backup.Poll()
	if err := r.Updates.outgrown(); err != nil {
		r.Monitor.Notify("replay_device: auto, and the CPU gathers the minibatches from now on: %v", err)
	}
	if r.refillNotice && r.Clock.Refill > 0 {
		r.refillNotice = false
		r.Monitor.Notify("the file loaded has no experience: %d steps with random actions fill the replay memory before updates go on; "+
			"a file saved with its experience, or experience loaded after it, needs none", int64(max(1, r.learners))*(r.Clock.WarmAt-r.Clock.Warmup))
	}
	r.reportRate()
}

// reportRate reports the learning rate of a run's first update when that update is done.
func (r *Run) reportRate() {
	if r.firstUpdate > 0 && r.Monitor.Updates.Load() >= r.firstUpdate {
		at := r.Updates.updater.stepOf(r.firstUpdate)
		if r.cfg.Periods.ByUpdates {
			at = r.Clock.Applied
		}
		r.Monitor.FirstUpdate("learning_rate", r.Schedule.Rate, at)
		r.firstUpdate = 0
	}
}

// Knobs implements train.Tunable.
func (r *Run) Knobs() train.Knobs {
	p := r.cfg.Periods
	longest := p.TargetInterval
	if p.ByUpdates {
		longest = p.StepsOf(longest)
	}
	return train.Knobs{
		Synchronized: r.cfg.Synchronized, Alternates: r.cfg.Synchronized,
		Replay: true, Concurrent: r.cfg.Concurrent, Window: p.Window, Longest: longest,
	}
}

// Halt implements train.Background.
func (r *Run) Halt() { r.Updates.Halt() }

// Wake implements train.Background.
func (r *Run) Wake() { r.Updates.wake() }

// Failed implements train.Method.
func (r *Run) Failed() error { return r.Updates.Failed() }

// Sets are Theta and ThetaMinus.
func (r *Run) Sets() []nn.Set {
	return []nn.Set{{Name: setTheta, Params: r.Theta, Writable: true}, {Name: setThetaMinus, Params: r.ThetaMinus, Writable: true}}
}

// Wrote implements train.Method. The snapshot follows Theta.
func (r *Run) Wrote(set string) {
	r.Updates.forgive(fault.ErrNotFinite)
	if set == setTheta && r.Snapshot != nil {
		r.Snapshot.CopyFrom(r.Theta)
	}
}

// Policy is Theta, with the action of the largest Q-value.
func (r *Run) Policy() policy.Spec {
	return policy.Spec{Set: setTheta, Env: r.spec, Net: r.cfg.Net, Kind: policy.Greedy}
}

// Digests implements train.Digested.
func (r *Run) Digests() []train.Digest {
	return []train.Digest{{Name: "replay", Sum: r.Memory.Hash}}
}

// Latest implements train.Stepped.
func (r *Run) Latest() (*vec.Rows, vec.Actions) { return r.Samplers.Latest() }

// Metrics implements train.Method.
func (r *Run) Metrics(m *train.Metrics) {
	c := &r.Clock
	scheduled, rated := r.Schedule.Epsilon.At(r.Elapsed()), c.Steps()+c.Others
	if r.cfg.Periods.ByUpdates {
		rated = c.Applied
	}
	epsilon, outside := 1.0, 0.0
	if c.Warm {
		epsilon = scheduled
	}
	if c.End > 0 { // a run was begun
		outside = scheduled
	}
	m.Due(r.due(c.T))
	m.Add("rollout/exploration_rate", "", "probability of a random action", epsilon)
	m.Add("train/learning_rate", "", "step size of the optimiser at this step", r.Schedule.Rate.At(rated))
	m.Add("train/loss", "", "mean of the latest 100 updates", r.Updates.meanLoss())
	if r.cfg.Outliers > 0 {
		m.Add("train/outliers", "", "gradients that were dropped because of their loss", float64(r.Updates.droppedGradients()))
	}
	r.Updates.updater.units.Metrics(m, r.Monitor)
	m.Add("windows", "", "flushes into the replay memory after the warm-up", float64(c.Windows))
	m.Add("replay_size", "transitions", "transitions that can be sampled", float64(r.Memory.Len()))
	m.Add("replay_pending", "transitions", "transitions that can be sampled from the next window on", float64(r.Memory.Pending()))
	m.Add("replay_bytes", "bytes", "memory of the replay, every slot counted", float64(r.Memory.Bytes()))
	m.Add("predict/exploration_rate", "", "the schedule's probability of a random action, also while the memory is filled at random; 0 before the first run", outside)
}
