package a3c

import (
	"slices"

	"github.com/paceline-rl/paceline/core/limits"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/async"
	"github.com/paceline-rl/paceline/core/train/onpolicy"
)

// A3C is train.Method by asynchronous advantage actor-critic.
type A3C struct{ async.Method }

func init() {
	train.Register(&train.Definition{
		Name:      "a3c",
		Doc:       "asynchronous advantage actor-critic: A2C's learners around one store of parameters",
		Settings:  Settings,
		Shape:     slices.Concat(onpolicy.Shape, async.Shape),
		Masks:     true,
		AnyAction: true,
		OnlyCPU:   true,
		Memory:    func(s *train.Setup) ([]limits.Part, error) { return s.Config.(*Config).async().Memory(s) },
		New: func(s *train.Setup) (train.Method, error) {
			a := new(A3C)
			return a, a.Init(s, *s.Config.(*Config).async())
		},
	})
}
