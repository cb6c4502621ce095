package train

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paceline-rl/paceline/core/actor"
	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/limits"
	"github.com/paceline-rl/paceline/core/nearest"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/settings"
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
	// Config is the method's own struct, checked by Definition.Check. What New fills
	// in of it is what Trainer.Config shows.
	Config any
	Common *Common // the part of Config that every method has
	// Spec describes the environments. Source steps them, in SameStep or Disabled; it is nil
	// where the host does, and the Trainer's.
	Spec   env.Spec
	Source actor.Source
	// Disabled says that the Source does not reset what has ended: see Definition.MidBatchReset.
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

// Definition is a method as the registry knows it.
type Definition struct {
	Name     string
	Doc      string // one sentence
	Settings *settings.Table
	// Common returns the part of the method's struct that every method has.
	Common func(config any) *Common
	// Check checks every setting and how they go together, and replaces "auto" and
	// 0 by what they stand for as far as that does not depend on the environment. It
	// returns what is worth saying once.
	Check func(config any) (notices []string, err error)
	// Shape names the settings in which a checkpoint and the trainer that loads it
	// must agree.
	Shape []string
	// Placement names settings beside device that say where something is computed, and can be
	// "auto": in checkpoints they are.
	Placement []string
	// Masks says that the method uses action masks.
	Masks bool
	// MidBatchReset says whether a source resets what has ended at once; else the method does
	// (actor.Config.Disabled). Nil: at once.
	MidBatchReset func(config any) bool
	// Memory lists what New will allocate.
	Memory func(*Setup) ([]limits.Part, error)
	New    func(*Setup) (Method, error)
}

var registry = map[string]*Definition{}

// Register makes a method known. It panics where the name is taken, which is a
// mistake in the program.
func Register(d *Definition) {
	if registry[d.Name] != nil {
		panic("train: method " + d.Name + " registered twice")
	}
	registry[d.Name] = d
}

// Methods returns the names of the methods that are known, sorted.
func Methods() []string {
	var names []string
	for name := range registry {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func lookup(name string) (*Definition, error) {
	if d := registry[name]; d != nil {
		return d, nil
	}
	if near := nearest.Names(name, Methods(), 3, nil); near != nil {
		return nil, fmt.Errorf("method %q is not known; did you mean %s?", name, strings.Join(near, " or "))
	}
	return nil, fmt.Errorf("method: %q, must be %s", name, strings.Join(Methods(), ", "))
}
