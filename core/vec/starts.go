package vec

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/rng"
)

// decorrelation spreads environments that start together over their episodes (Stooke & Abbeel
// 2018, section 5.3): the first reset after a seed ends with 0 to maxSteps random steps.
type decorrelation struct {
	maxSteps int
	due      []bool   // [envs]: seeded and not reset since
	seeds    []uint64 // [envs]
}

// Decorrelate makes the first reset after a seed end with 0 to maxSteps random steps. Their number
// and their actions are a function of the seed. An episode that ends during these steps is reset.
// Decorrelate must be called before the environments are seeded.
func (v *Vec) Decorrelate(maxSteps int) error {
	if maxSteps < 0 {
		return fmt.Errorf("decorrelation_steps: %d, must be at least 0", maxSteps)
	}
	v.decorrelation = nil
	if maxSteps > 0 {
		v.decorrelation = &decorrelation{maxSteps: maxSteps, due: make([]bool, len(v.envs)), seeds: make([]uint64, len(v.envs))}
	}
	return nil
}

func (d *decorrelation) seed(i int, seed uint64) { d.due[i], d.seeds[i] = true, seed }

// randomSteps takes the random steps of environment i, if they are due. The environment was reset
// just before.
func (d *decorrelation) randomSteps(e env.Env, i int, obs []byte) error {
	if !d.due[i] {
		return nil
	}
	d.due[i] = false
	spec, stream := e.Spec().Action, rng.New(d.seeds[i], "start", 0)
	var mask []byte
	if e.Spec().Masks {
		mask = make([]byte, spec.N)
	}
	box := make([]float32, len(spec.Low))
	for range stream.Intn(d.maxSteps + 1) {
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
