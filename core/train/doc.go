// Package train is what a host holds during training: a Trainer, which is the same for every
// method, around a Method, which is one paper.
//
// # Who does what
//
// A Trainer does everything that is the same for all methods. It makes the environments, after it
// has added up the memory of a run. It refuses a call while another one is in progress, holds a
// core of the thread budget during a call, and turns a panic into an error. It checks the rows that
// the host pushes, and passes Stop and time limits to the method as an Interrupt. It counts steps
// and episodes, and writes and reads checkpoints.
//
// A Method takes steps (Advance, or Act and Observe), does the updates that are due, and names its
// parameter sets, the parts of its state, its policy and its metrics. It registers a Definition
// when its package is imported. Its optional interfaces are in optional.go.
//
// With the setting updates "outside" (outside.go) the program takes the steps of the updates:
// Gradient computes the gradient of the next one, and Adopt brings the parameters.
//
// # What a reader sees
//
// Run returns between two rounds, while a method's own goroutine may do updates. A call that reads
// parameters or experience (Policy, Save, GetParameters, Hash, the end of a run) first waits for
// exactly the updates that are due at that step. Its result is therefore a function of the seed and
// the step. After Stop, updates that are due wait for the next step, and readers get the current
// parameters.
//
// # Schedules
//
// Learning rates, clip ranges and epsilon are functions of progress, as in Stable-Baselines3. Begin
// sets the end of the run to num_timesteps + total, and the schedules go from step 0 to that end:
// at step t the remaining progress is 1 - t/end. A further run (without ResetTimesteps) therefore
// raises the rates again. The rest of an interrupted run has the same end and therefore the same
// bits. After the end the rates have their last values. Settings in steps ("exploration_steps",
// "learning_starts") are absolute. A checkpoint holds the schedules and the end, which are valid
// until the next Begin.
//
// If a rate is 0 in all updates of a run, Notice says so once.
//
// # Goroutines
//
// One call at a time, from any goroutine (else fault.ErrBusy), except Stop, Stats, Metric, Episodes
// and Close, which may be called at any time.
//
// At most num_threads threads compute at any time: the cores of a threads.Budget. The caller holds
// one inside a call, except while it waits for an update or for steps that wait (env.Spec.Waits).
// The threads that take such steps hold none.
package train
