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
	ResetTimesteps Flags = 1 << iota // count steps from 0, with a new warm-up
	ResetEnvs                        // cut the episodes in progress and begin new ones
)

// Method is one paper's algorithm. The Trainer calls it from one goroutine at a
// time, with a core held.
type Method interface {
	// Begin begins a run of total further steps, as flags say, with schedules from step 0 to
	// the end of the run.
	Begin(total int64, flags Flags) error
	// Advance takes steps until `until` are counted, or until the Interrupt is raised. It returns
	// between two rounds and does not wait for updates that run concurrently. After an error,
	// ErrInterrupted included, it can be called again.
	Advance(until int64, interrupt *Interrupt) error
	// Settle does everything that is due at this step, or returns ErrInterrupted.
	Settle(interrupt *Interrupt) error
	// Failed returns the error that ended training, if one did.
	Failed() error
	// Parts lists what a checkpoint holds; an Optional part is experience. saving
	// says what for: a part that cannot be written now has no Write then. Parts are
	// read in their order.
	Parts(saving bool) []checkpoint.Part
	// Sets lists the parameter sets.
	Sets() []nn.Set
	// Wrote says that a set was written from outside: what depends on it follows,
	// and training that had failed may go on.
	Wrote(set string)
	// Policy says which set acts, and how.
	Policy() policy.Spec
	// Metrics reports numbers of this moment.
	Metrics(m *Metrics)
	Close() error
}

// Setup is what a method is made from.
type Setup struct {
	// Config is the method's own struct, which Resolve has checked. Trainer.Config shows it as New
	// leaves it.
	Config Settings
	Common *Common // the part of Config that every method has
	// Spec describes the environments. Source steps them, in SameStep or Disabled; it is nil
	// where the host does, and the Trainer's.
	Spec   env.Spec
	Source actor.Source
	// Disabled says that Source does not reset environments whose episode has ended: see LateResets.
	Disabled bool
	// Trusted says that the environments are the library's own, which stack frames
	// as their Spec says. Declared says that the user has declared Spec's stack.
	Trusted, Declared bool
	// Cores are num_threads, and Pool is a pool of them for rows. Both are the
	// Trainer's.
	Cores *threads.Budget
	Pool  *threads.Pool
	// Device computes, for the goroutine that calls the method. It is the Trainer's.
	Device nn.Device
	Host   *Host
}

// InitialParams returns fresh parameters of a network: the same for the same seed,
// whatever else the seed is used for.
func (s *Setup) InitialParams(net nn.Spec) (*nn.Params, error) {
	return net.InitialParams(rng.New(uint64(s.Common.Seed), "weights", 0))
}

// Group is what an actor.Group is made from, whatever it acts with: the caller adds
// Sink, Columns, networks and Acting.
func (s *Setup) Group() actor.Config {
	c := s.Common
	return actor.Config{Spec: s.Spec, Envs: c.NumEnvs, Seed: uint64(c.Seed), Source: s.Source, NextStep: c.Autoreset == "next_step", Cores: s.Cores, Groups: c.Groups, Disabled: s.Disabled}
}
