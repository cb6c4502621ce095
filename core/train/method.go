package train

import (
	"github.com/paceline-rl/paceline/core/actor"
	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/threads"
)

// Flags of Begin.
type Flags uint32

const (
	ResetTimesteps Flags = 1 << iota // count steps and episodes from 0, with a new warm-up; discard an unfinished rollout
	ResetEnvs                        // cut the episodes in progress and begin new ones
)

// Method is one paper's algorithm. The Trainer calls it from one goroutine at a time, which holds a
// core. Optional interfaces are in optional.go.
type Method interface {
	// Begin begins a run of total further steps, with schedules from step 0 to the end of the run.
	Begin(total int64, flags Flags) error
	// Advance takes steps until `until` are counted, or until the Interrupt is raised. It returns
	// between two rounds and does not wait for updates that run concurrently. After an error,
	// ErrInterrupted included, it can be called again.
	Advance(until int64, interrupt *Interrupt) error
	// Settle does everything that is due at this step, or returns ErrInterrupted.
	Settle(interrupt *Interrupt) error
	// Failed returns the error that ended training, if one did.
	Failed() error
	// Parts lists the parts of a checkpoint, in the order in which they are read; Optional parts
	// are experience. With saving, a part that cannot be written now has no Write.
	Parts(saving bool) []checkpoint.Part
	// Sets lists the parameter sets.
	Sets() []nn.Set
	// Wrote is called after the host has written a set. Sets that follow it are updated, and
	// training that had failed may continue.
	Wrote(set string)
	// Policy says which set acts, and how.
	Policy() policy.Spec
	// Metrics reports the current numbers.
	Metrics(m *Metrics)
	Close() error
}

// Setup is what the Trainer gives to a method that is made.
type Setup struct {
	// Config is the method's own struct, which Resolve has checked. Trainer.Config shows it as New
	// leaves it.
	Config Settings
	Common *Common // the part of Config that every method has
	// Spec describes the environments. Source, which the Trainer owns, steps them, in mode SameStep
	// or Disabled. nil: the host steps them.
	Spec   env.Spec
	Source actor.Source
	// Learners is the number of learners that share the run, of which the method is one (Replica), and
	// FirstEnv the number of its first environment. 0: the method is alone.
	Learners, FirstEnv int
	// Disabled says that Source does not reset environments whose episode has ended: see
	// LateResets.
	Disabled bool
	// Trusted says that the environments are built in, and stack frames as Spec says.
	Trusted bool
	// Cores are num_threads cores, and Pool is a pool of as many threads. The Trainer owns both.
	Cores *threads.Budget
	Pool  *threads.Pool
	// Device computes for the goroutine that calls the method. The Trainer owns it.
	Device  nn.Device
	Monitor *Monitor

	cfg *Config // Config, by name
	// initial are the initial parameters of learners, whose networks are equal. Orthogonal weights of
	// the Nature CNN take half a second. nil: the method is alone.
	initial *initial
}

type initial struct{ params *nn.Params }

// Learner returns the number of the learner among Learners, which selects its random numbers; 0 if
// the method is alone.
func (s *Setup) Learner() int { return s.FirstEnv / s.Common.NumEnvs }

// InitialParams returns new parameters of a network. They are a function of the seed and the
// network. Learners of one Setup compute them once.
func (s *Setup) InitialParams(net nn.Spec) (*nn.Params, error) {
	if s.initial != nil && s.initial.params != nil {
		return s.initial.params.Clone(), nil
	}
	params, err := net.InitialParams(rng.New(uint64(s.Common.Seed), "weights", 0))
	if err == nil && s.initial != nil {
		s.initial.params = params.Clone()
	}
	return params, err
}

// Group returns the configuration of an actor.Group, to which the caller adds Sink, Columns,
// networks and Acting.
func (s *Setup) Group() actor.Config {
	c := s.Common
	return actor.Config{
		Spec: s.Spec, Envs: c.NumEnvs, First: s.FirstEnv, Seed: uint64(c.Seed), Source: s.Source, NextStep: c.Autoreset == "next_step",
		Cores: s.Cores, Halves: c.Groups, Disabled: s.Disabled,
	}
}
