package replay

import (
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
)

// addStep is m.Add with the step written out.
func addStep(m *Memory, e int, action int32, reward float32, updates uint64, end env.End, next []byte) error {
	return m.Add(e, &experience.Step{Action: action, Reward: reward, Updates: updates, End: end}, next)
}
