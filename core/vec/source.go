package vec

import (
	"time"

	"github.com/paceline-rl/paceline/core/env"
)

// Source is n environments that are stepped together, in lockstep. A Vec is one; the
// methods are explained there. They must not run at the same time.
type Source interface {
	Spec() *env.Spec
	Infos() []env.InfoSpec
	Len() int
	Seed(seeds []uint64, mask []bool) error
	Reset(rows *Rows, mask []bool) error
	Step(a Actions, rows *Rows) error
	Close() error
}

// One is a Source that also steps a single environment, which the modes without
// lockstep need. Calls for different environments may run at the same time.
type One interface {
	StepOne(i int, a Action, rows *Rows) error
}

// Queue is environments that are stepped asynchronously: actions are sent to some, and
// rows come back in batches, in whatever order the environments are done. An Async is
// one, and says what may run at the same time.
type Queue interface {
	Offer(rows *Rows) error
	Send(ids []int32, a Actions) error
	Recv(limit time.Duration) (*Rows, error)
	Drain()
}

var (
	_ Source = (*Vec)(nil)
	_ One    = (*Vec)(nil)
	_ Queue  = (*Async)(nil)
)
