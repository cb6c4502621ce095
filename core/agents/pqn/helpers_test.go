package pqn

import (
	"testing"

	"github.com/paceline-rl/paceline/core/train"
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
	cfg := must(train.NewConfig("pqn"))(t)
	*cfg.Struct().(*Config) = c
	return cfg
}
