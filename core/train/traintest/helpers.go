package traintest

import (
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/train"
)

// Check ends a test with an error.
func Check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var check = Check

// Must returns a function that returns v, or ends a test with err: Must(f(x))(t).
func Must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Check(t, err)
		return v
	}
}

// ConfigOf returns the configuration of a method whose settings are c.
func ConfigOf[C any](t testing.TB, method string, c C) *train.Config {
	t.Helper()
	cfg := Must(train.NewConfig(method))(t)
	*any(cfg.Struct()).(*C) = c
	return cfg
}

// NewTrainer makes a Trainer that is closed with the test.
func NewTrainer(t testing.TB, c *train.Config, mk func(i int) (env.Env, error)) *train.Trainer {
	t.Helper()
	tr := Must(train.New(c, mk))(t)
	t.Cleanup(func() { Check(t, tr.Close()) })
	return tr
}
