package train

import "github.com/paceline-rl/paceline/core/vec"

// optional holds the optional interfaces of a Method. nil: the method does not implement it.
type optional struct {
	background Background
	recoverer  Recoverer
	pushed     Pushed
	stepped    Stepped
	replayed   Replayed
	digested   Digested
	ordered    Ordered
	traced     Traced
	tunable    Tunable
}

func optionalOf(m Method) (o optional) {
	o.background, _ = m.(Background)
	o.recoverer, _ = m.(Recoverer)
	o.pushed, _ = m.(Pushed)
	o.stepped, _ = m.(Stepped)
	o.replayed, _ = m.(Replayed)
	o.digested, _ = m.(Digested)
	o.ordered, _ = m.(Ordered)
	o.traced, _ = m.(Traced)
	o.tunable, _ = m.(Tunable)
	return o
}

// Background is a Method that does updates on a goroutine of its own.
type Background interface {
	// Halt leaves the updates that are due and have not begun to the next step.
	Halt()
	// Wake makes a wait in progress check its Interrupt. Any goroutine may call it.
	Wake()
}

// Recoverer is a Method that keeps copies of what a GPU changes.
type Recoverer interface {
	// Recover goes back to the latest copy, after the GPU was lost, and reports whether there is
	// one. Reads and checkpoints then show the state of that copy, without experience.
	Recover() bool
}

// Pushed is a Method whose environments the host may step. A round is Act, the host's step,
// Observe. The size of rows has been checked.
type Pushed interface {
	// Act chooses an action for every row.
	Act(rows *vec.Rows, interrupt *Interrupt) (actions vec.Actions, err error)
	// Observe records the result of the host's step. If it refuses a row, it records none.
	Observe(rows *vec.Rows, interrupt *Interrupt) error
}

// Stepped is a Method that shows the steps it takes.
type Stepped interface {
	// Latest returns the rows and actions of the latest round of a source: see actor.Group.
	Latest() (*vec.Rows, vec.Actions)
}

// Digested is a Method of which Hash knows parts besides the parameter sets.
type Digested interface {
	Digests() []Digest
}

// Digest is the SHA-256 of a part of the experience.
type Digest struct {
	Name string
	Sum  func() [32]byte
}

// Ordered is a Method of learners that visit a store of parameters.
type Ordered interface {
	// Order returns the file of the order of their visits, of a race so far or of the one that is
	// repeated; nil: the schedule records none.
	Order() []byte
}

// Traced is a Method that adjusts its own numbers of threads and environments.
type Traced interface {
	// Trace returns what was proposed and kept, as comma-separated values; nil: nothing is adjusted.
	Trace() []byte
}

// Tunable is a Method for which Trainer.Proposal has rules.
type Tunable interface {
	Knobs() Knobs
}

// Knobs are the settings that bound the speed of a method with lockstep rounds.
type Knobs struct {
	Synchronized bool // one forward pass for all environments
	Alternates   bool // groups may be 2
	// Replay says that the method trains from a replay memory, which the others are about.
	Replay          bool
	Concurrent      bool
	Window, Longest int64 // steps of a window, and of the longest that is sensible
}
