package replay

import (
	"bytes"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/threads"
)

const gamma = .5

// oneStep is a truncated step.
var oneStep = experience.Step{Action: make([]int32, 1), End: env.Truncated}

// draw fills a minibatch with uniformly drawn transitions.
func draw(m *Memory, r *rng.Stream, to *experience.Transitions, pool *threads.Pool) {
	picks := make([]int, len(to.Actions))
	Uniform{Memory: m}.Draw(r, picks)
	m.Gather(picks, 1, gamma, to, pool)
}

// addStep calls m.Add with a step after which every action is allowed.
func addStep(m *Memory, e int, action int32, reward float32, updates uint64, end env.End, next []byte) error {
	return addMasked(m, e, action, reward, updates, end, next, bytes.Repeat([]byte{1}, m.cfg.Actions))
}

func addMasked(m *Memory, e int, action int32, reward float32, updates uint64, end env.End, next, mask []byte) error {
	s := &experience.Step{Action: []int32{action}, Reward: reward, Updates: updates, End: end, NextMask: mask}
	if m.cfg.OwnMasks {
		s.Mask = ownMask(m.cfg.Actions, action)
	}
	return m.Add(e, s, next)
}

// ownMask is a mask that allows an action and some of the others.
func ownMask(actions int, action int32) []byte {
	mask := make([]byte, actions)
	for a := range mask {
		if (a+int(action))%3 == 0 {
			mask[a] = 1
		}
	}
	if actions > 0 {
		mask[int(action)%actions] = 1
	}
	return mask
}
