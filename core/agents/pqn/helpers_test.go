package pqn

import (
	"testing"

	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

var check = traintest.Check

func must[T any](v T, err error) func(testing.TB) T { return traintest.Must(v, err) }

func configOf(t testing.TB, c Config) *train.Config { return traintest.ConfigOf(t, "pqn", c) }
