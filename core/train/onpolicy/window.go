package onpolicy

import (
	"errors"

	"github.com/paceline-rl/paceline/core/actor"
	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/rollout"
)

// Window is the experience that a Worker learns from: environments, and the latest rounds of their
// steps, as many as an update learns from. It is all that a Worker and a Run ask of experience that
// the library steps, so rows in the memory of a GPU can take the place of a rollout.Rollout.
type Window interface {
	// Reset begins new episodes in all environments, and Repair in those that failed.
	Reset() error
	Repair() error
	// Pending returns how many steps the next round has: environments that reset take none.
	Pending() int
	// Round takes a round. t counts its first step. anotherFollows says that another round follows at
	// once, with the same parameters; a part of it may begin then (InRound). Steps are recorded even
	// if some environments fail.
	Round(t int64, c policy.Chooser, anotherFollows bool) (actor.Ran, error)
	// InRound reports whether a part of the next round has begun. The caller takes that round in
	// any case, also after an error.
	InRound() bool
	// Left returns how many rounds the window lacks, and Full whether it lacks none.
	Left() int
	Full() bool
	// Steps returns how many steps the window has.
	Steps() int
	// Finish computes advantages and returns of a full window, by generalised advantage estimation.
	// values returns the values of observations under the parameters that acted last.
	Finish(gamma, lambda float64, values func(obs []byte, rows int) ([]float32, error)) error
	// Next discards all rounds, and Drop the oldest ones.
	Next() error
	Drop(rounds int) error
	// StartResets begins to reset the environments whose episodes ended and were not reset at once,
	// and reports whether there are any. FinishResets waits for them.
	StartResets() (any bool, err error)
	FinishResets() error
	// Parts lists the parts of a checkpoint, in an order that never changes. The environments come
	// last.
	Parts(saving bool) []checkpoint.Part
}

// hostWindow is a Window in host memory.
type hostWindow struct {
	*actor.Group
	rollout *rollout.Rollout
}

func (w *hostWindow) Pending() int { return w.Group.Steps() }
func (w *hostWindow) Left() int    { return w.rollout.Left() }
func (w *hostWindow) Full() bool   { return w.rollout.Full() }
func (w *hostWindow) Steps() int   { return w.rollout.Steps() }
func (w *hostWindow) Next() error  { return w.rollout.Next() }

func (w *hostWindow) Drop(rounds int) error { return w.rollout.Drop(rounds) }

func (w *hostWindow) Round(t int64, c policy.Chooser, anotherFollows bool) (actor.Ran, error) {
	ran, err := w.Group.Round(t, c, anotherFollows)
	return ran, errors.Join(err, w.rollout.EndRound())
}

func (w *hostWindow) Finish(gamma, lambda float64, values func(obs []byte, rows int) ([]float32, error)) error {
	return w.rollout.Finish(gamma, lambda, values)
}

func (w *hostWindow) Parts(saving bool) []checkpoint.Part {
	return []checkpoint.Part{
		w.Exploration(),
		{Name: "rollout.bin", Version: 1, Optional: true, Write: w.rollout.Save, Read: w.rollout.Load},
		w.Environments(saving),
	}
}
