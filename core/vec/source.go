package vec

import (
	"time"

	"github.com/paceline-rl/paceline/core/env"
)

// Source is n environments that are stepped in lockstep. Vec implements and documents the methods.
// They must not run concurrently.
type Source interface {
	Spec() *env.Spec
	Infos() []env.InfoSpec
	Len() int
	Seed(seeds []uint64, mask []bool) error
	Reset(rows *Rows, mask []bool) error
	Step(a Actions, rows *Rows) error
	Close() error
}

// SingleStepper steps a single environment of a Source, for callers that do not step in lockstep.
// Calls for different environments may run concurrently.
type SingleStepper interface {
	StepOne(i int, a Action, rows *Rows) error
}

// Queue is environments that are stepped asynchronously. The caller sends actions to some of the
// environments and receives batches of rows in the order in which the steps finish. Async
// implements and documents the methods, and says which may run concurrently.
type Queue interface {
	Offer(rows *Rows) error
	Send(ids []int32, a Actions) error
	Recv(limit time.Duration) (*Rows, error)
	Drain()
}

var (
	_ Source        = (*Vec)(nil)
	_ SingleStepper = (*Vec)(nil)
	_ Queue         = (*Async)(nil)
)
