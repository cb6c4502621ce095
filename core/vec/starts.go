package vec

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/rng"
)

// starts decorrelates environments that start together (Stooke & Abbeel 2018): in the
// first reset after a seed each takes a number of random steps, drawn from 0 to most.
type starts struct {
	most  int
	due   []bool
	seeds []uint64
}

// Decorrelate makes the first reset after a seed end with 0 to most random steps, whose
// number and actions come from the seed; episodes that end on the way begin anew. It is
// called before the environments are seeded.
func (v *Vec) Decorrelate(most int) error {
	if most < 0 {
		return fmt.Errorf("decorrelation_steps: %d, must be at least 0", most)
	}
	v.starts = nil
	if most > 0 {
		v.starts = &starts{most: most, due: make([]bool, len(v.envs)), seeds: make([]uint64, len(v.envs))}
	}
	return nil
}

func (s *starts) seed(i int, seed uint64) { s.due[i], s.seeds[i] = true, seed }

// walk takes the random steps of environment i, which was just reset, if they are due.
func (s *starts) walk(e env.Env, i int, obs []byte) error {
	if !s.due[i] {
		return nil
	}
	s.due[i] = false
	spec, stream := e.Spec().Action, rng.New(s.seeds[i], "start", 0)
	var mask []byte
	if e.Spec().Masks {
		mask = make([]byte, spec.N)
	}
	box := make([]float32, len(spec.Low))
	for range stream.Intn(s.most + 1) {
		var end env.End
		var err error
		if mask != nil {
			if err = env.ReadMask(e, mask); err != nil {
				return err
			}
		}
		if spec.N > 0 {
			_, end, err = e.Step(env.RandomAction(spec.N, mask, stream), obs)
		} else {
			for k := range box {
				box[k] = float32(stream.Uniform(float64(spec.Low[k]), float64(spec.High[k])))
			}
			_, end, err = e.(env.BoxEnv).StepBox(box, obs)
		}
		if err == nil && end.Over() {
			err = e.Reset(obs)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
