package a2c

import (
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/threads"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/vec"
)

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// configOf is c as a host has it.
func configOf(t testing.TB, c Config) *train.Config {
	t.Helper()
	cfg := must(train.NewConfig("a2c"))(t)
	*cfg.Struct().(*Config) = c
	return cfg
}

// small is a configuration that learns something from a walk at every few steps.
func small(edit ...func(*Config)) Config {
	c := *Settings.Defaults().Struct().(*Config)
	c.NumEnvs, c.NetArchPi, c.NetArchVf, c.LearningRate, c.EntCoef = 3, []int{8}, []int{8}, 1e-2, .01
	for _, e := range edit {
		e(&c)
	}
	return c
}

func newTrainer(t testing.TB, c Config, mk func(i int) (env.Env, error)) *train.Trainer {
	t.Helper()
	tr := must(train.New(configOf(t, c), mk))(t)
	t.Cleanup(func() { check(t, tr.Close()) })
	return tr
}

// host steps environments on the caller's side, as a Gymnasium vector environment
// does, and pushes them into a Trainer.
type host struct {
	tr      *train.Trainer
	vec     *vec.Vec
	rows    *vec.Rows
	actions vec.Actions
}

func newHost(t testing.TB, c Config, nextStep bool, mk func(i int) (env.Env, error)) *host {
	t.Helper()
	mode := vec.SameStep
	if c.Autoreset = "same_step"; nextStep {
		c.Autoreset, mode = "next_step", vec.NextStep
	}
	pool := must(threads.NewPool(1, nil))(t)
	v := must(vec.New(mk, c.NumEnvs, pool, mode))(t)
	tr := must(train.NewPushed(configOf(t, c), *v.Spec()))(t)
	t.Cleanup(func() { check(t, tr.Close()); check(t, v.Close()); pool.Close() })
	return &host{tr, v, vec.NewRows(v.Spec().Obs, c.NumEnvs), vec.Actions{Discrete: make([]int32, c.NumEnvs)}}
}

func (h *host) begin(t testing.TB, total int64) {
	t.Helper()
	check(t, h.vec.Reset(h.rows, nil))
	check(t, h.tr.Begin(total, 0))
}

func (h *host) round(t testing.TB) {
	t.Helper()
	check(t, h.tr.Act(h.rows, h.actions, 0))
	check(t, h.vec.Step(h.actions, h.rows))
	check(t, h.tr.Observe(h.rows, 0))
}
