package train

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/paceline-rl/paceline/core/actor"
	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/limits"
	"github.com/paceline-rl/paceline/core/nearest"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/threads"
	"github.com/paceline-rl/paceline/core/vec"
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
	// Advance takes steps until so many are counted in all, or p is over. It ends
	// between two rounds and does not wait for updates that run beside them. An
	// error, ErrPaused included, leaves everything fit for the next call.
	Advance(until int64, p *Pause) error
	// Settle does everything that is due at this step, or returns ErrPaused.
	Settle(p *Pause) error
	// Halt lets updates that are due and not begun wait for the next step.
	Halt()
	// Wake makes a wait in progress check its Pause. Any goroutine may call it.
	Wake()
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
	// Digests lists what Hash knows besides the sets.
	Digests() []Digest
	// Latest returns what the latest round of a source gave: see actor.Group.
	Latest() (*vec.Rows, []int32)
	// Metrics reports numbers of this moment.
	Metrics(m *Metrics)
	Close() error
}

// Recoverer is a Method that keeps copies of what a GPU changes.
type Recoverer interface {
	// Recover goes back to where the latest copy was made, after the GPU was lost, and reports
	// whether there is one. What is read and saved is as it was then, without experience.
	Recover() bool
}

// Pushed is a Method whose environments the host may step. A round is Act, the
// host's step, Observe. rows have been checked for size.
type Pushed interface {
	// Act chooses an action for every row.
	Act(rows *vec.Rows, p *Pause) (actions []int32, err error)
	// Observe takes what the host's step gave; nothing is taken if a row is refused.
	Observe(rows *vec.Rows, p *Pause) error
}

// Digest is a SHA-256 of a part of what was learnt from.
type Digest struct {
	Name string
	Sum  func() [32]byte
}

// ErrPaused ends a wait or an Advance whose Pause is over.
var ErrPaused = fmt.Errorf("paused: %w", fault.ErrStopped)

// Pause says when a method must return early: at a Stop or at a time limit. A nil
// Pause is never over.
type Pause struct {
	stopping *atomic.Bool
	deadline time.Time // zero: none
}

// Stopped reports whether Stop was called.
func (p *Pause) Stopped() bool { return p != nil && p.stopping.Load() }

// Over reports whether it is time to return, now being the time.
func (p *Pause) Over(now time.Time) bool {
	return p.Stopped() || p != nil && !p.deadline.IsZero() && !now.Before(p.deadline)
}

// Watch returns a function that says whether it is time to return, for loops on
// any goroutines.
func (p *Pause) Watch() func() bool {
	if p == nil || p.deadline.IsZero() {
		return p.Stopped
	}
	return func() bool { return p.Over(time.Now()) }
}

// Deadline returns when the time limit ends; zero: there is none.
func (p *Pause) Deadline() time.Time {
	if p == nil {
		return time.Time{}
	}
	return p.deadline
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
