package appo

import (
	"slices"

	"github.com/paceline-rl/paceline/core/limits"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/async"
	"github.com/paceline-rl/paceline/core/train/onpolicy"
)

// APPO is train.Method by asynchronous proximal policy optimization.
type APPO struct{ async.Method }

func init() {
	train.Register(&train.Definition{
		Name:      "appo",
		Doc:       "asynchronous proximal policy optimization: PPO's learners around one store of parameters",
		Settings:  Settings,
		Shape:     slices.Concat(onpolicy.Shape, async.Shape),
		Masks:     true,
		AnyAction: true,
		OnlyCPU:   true,
		Memory:    func(s *train.Setup) ([]limits.Part, error) { return s.Config.(*Config).async().Memory(s) },
		New: func(s *train.Setup) (train.Method, error) {
			a := new(APPO)
			return a, a.Init(s, *s.Config.(*Config).async())
		},
	})
}
