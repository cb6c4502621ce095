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
	spec, stream := e.Spec(), rng.New(d.seeds[i], "start", 0)
	action := &spec.Action
	var mask []byte
	if spec.Masks {
		mask = make([]byte, action.Logits())
	}
	branches, box := make([]int32, action.Ints()), make([]float32, action.Floats())
	for range stream.Intn(d.maxSteps + 1) {
		if mask != nil {
			if err := env.ReadMask(e, action, mask); err != nil {
				return err
			}
		}
		action.Random(mask, stream, branches, box)
		_, end, err := action.Step(e, branches, box, obs)
		if err == nil && end.Over() {
			err = e.Reset(obs)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
