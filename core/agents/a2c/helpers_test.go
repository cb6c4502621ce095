package a2c

import (
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

var check = traintest.Check

func must[T any](v T, err error) func(testing.TB) T { return traintest.Must(v, err) }

func configOf(t testing.TB, c Config) *train.Config { return traintest.ConfigOf(t, "a2c", c) }

// small is a configuration that learns from a walk every few steps.
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
	return traintest.NewTrainer(t, configOf(t, c), mk)
}
