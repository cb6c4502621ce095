// Package train is what a host holds while something is learnt: a Trainer, which
// is the same for every method, around a Method, which is one paper.
//
// # Who does what
//
// A Trainer keeps other calls out while one is in progress, holds a core of the
// thread budget during a call, makes the environments, checks what the host
// pushes in, carries Stop and time limits to the method as a Pause, turns a panic
// into an error that spoils this Trainer only, adds up memory before any of it is
// taken, counts steps and episodes, and writes and reads checkpoints. None of it
// is written again in a method.
//
// A Method takes steps (Advance, or Act and Observe), does the updates that are
// due, and names its parameter sets, the parts of its state, its policy and its
// metrics. It registers a Definition when its package is imported.
//
// # What can be seen
//
// Run returns between two rounds and may leave a method's own goroutine at work.
// What reads weights or experience (Policy, Save, GetParameters, Hash, the end of a
// run) first waits for exactly the updates due at that step, so that its result is a
// function of the seed and the step. After Stop pending updates are
// not run until the next step; readers get the current weights.
//
// # Goroutines
//
// One call at a time, from any goroutine (fault.ErrBusy otherwise), except for
// Stop, Stats, Metric and Close, which may be called at any time.
//
// At most num_threads threads compute at any time: the cores of a threads.Budget.
// The caller holds one inside a call, except while it waits for an update, or for steps
// that wait (env.Spec.Waits). The threads that take such steps hold none.
package train
