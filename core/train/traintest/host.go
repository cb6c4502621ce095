package traintest

import (
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/threads"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/vec"
)

// Host steps environments on the host's side and pushes their rows into a Trainer.
type Host struct {
	Trainer *train.Trainer
	Vec     *vec.Vec
	Rows    *vec.Rows
	Actions vec.Actions
}

// NewHost makes environments that reset in a mode, and a Trainer for them. Both are closed with the
// test.
func NewHost(t testing.TB, c *train.Config, mode vec.Autoreset, mk func(i int) (env.Env, error)) *Host {
	t.Helper()
	c = c.Clone()
	common := c.Common()
	common.Env, common.Autoreset = "", "same_step"
	if mode == vec.NextStep {
		common.Autoreset = "next_step"
	}
	pool := Must(threads.NewPool(1, nil))(t)
	t.Cleanup(pool.Close)
	v := Must(vec.New(mk, common.NumEnvs, pool, mode))(t)
	t.Cleanup(func() { Check(t, v.Close()) })
	tr := Must(train.NewPushed(c, *v.Spec()))(t)
	t.Cleanup(func() { Check(t, tr.Close()) })
	action, n := v.Spec().Action, v.Len()
	h := &Host{tr, v, vec.NewRows(v.Spec().Obs, n), newActions(action, n)}
	if common.ActionMasks {
		h.Rows.AddMasks(action.Logits())
	}
	return h
}

// newActions returns memory for n actions.
func newActions(spec env.ActionSpec, n int) vec.Actions {
	return vec.Actions{Discrete: make([]int32, n*spec.Ints()), Box: make([]float32, n*spec.Floats())}
}

// Begin resets all environments and begins a run of total steps.
func (h *Host) Begin(t testing.TB, total int64) {
	t.Helper()
	Check(t, h.Vec.Reset(h.Rows, nil))
	Check(t, h.Trainer.Begin(total, 0))
}

// Act is the first half of a round, Observe the second.
func (h *Host) Act() error     { return h.Trainer.Act(h.Rows, h.Actions, 0) }
func (h *Host) Observe() error { return h.Trainer.Observe(h.Rows, 0) }

// Round is a round of steps.
func (h *Host) Round(t testing.TB) {
	t.Helper()
	Check(t, h.tryRound(t))
}

// tryRound is Round. It returns the error of Act or of Observe.
func (h *Host) tryRound(t testing.TB) error {
	t.Helper()
	if err := h.Act(); err != nil {
		return err
	}
	Check(t, h.Vec.Step(h.Actions, h.Rows))
	return h.Observe()
}
