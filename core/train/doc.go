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
// # Schedules
//
// Learning rates, clip ranges and epsilon are functions of progress, as in
// Stable-Baselines3. Begin sets the end of the run to num_timesteps + total, and the
// schedules go from step 0 to that end: at step t the remaining progress is 1 - t/end.
// So they rise again with every further run (without ResetTimesteps), which goes on
// learning, and the rest of an interrupted run has the same end and hence the same bits.
// Past the end they keep their last values. Settings in steps ("exploration_steps",
// "learning_starts") are absolute. A checkpoint has the schedules and the end; a Load
// goes on along them until the next Begin.
//
// If a rate is 0 in all updates of a run, Notice says so once.
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
