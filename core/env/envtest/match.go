package envtest

import (
	"encoding/binary"
	"math"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/rng"
)

// Match is a task of branches, a box or both whose optimum is known. Its observation is a random
// number in [-1, 1] for every part of an action. The best value of a branch is the interval, of
// equally long ones, that holds the number; the best value of a component of the box is the number.
// A part adds to the reward: 1 for the best value of a branch, 1 - |difference| for a component.
// The reward is the mean over the parts, so the best policy scores MatchSteps, the length of an
// episode.
type Match struct {
	spec    env.Spec
	stream  *rng.Stream
	targets []float32
	steps   int
}

// MatchSteps is the length of an episode of Match.
const MatchSteps = 20

// NewMatch returns a Match with actions of a spec, whose bounds must be -1 and 1.
func NewMatch(action env.ActionSpec) *Match {
	parts := action.Ints() + action.Floats()
	m := &Match{targets: make([]float32, parts), spec: env.Spec{
		ID:       "Match-v0",
		Obs:      env.ObsSpec{DType: env.Float32, Shape: []int{parts}, Low: []float32{-1}, High: []float32{1}},
		Action:   action,
		MaxSteps: MatchSteps,
	}}
	m.Seed(0)
	return m
}

// Spec describes the task.
func (m *Match) Spec() env.Spec { return m.spec }

// Seed restarts the stream of targets.
func (m *Match) Seed(seed uint64) { m.stream = rng.New(seed, "env", 0) }

// Close does nothing.
func (m *Match) Close() error { return nil }

// Reset begins an episode.
func (m *Match) Reset(obs []byte) error {
	m.steps = 0
	m.draw(obs)
	return nil
}

func (m *Match) draw(obs []byte) {
	for k := range m.targets {
		m.targets[k] = float32(m.stream.Uniform(-1, 1))
		binary.NativeEndian.PutUint32(obs[4*k:], math.Float32bits(m.targets[k]))
	}
}

// Step is the step of a single discrete action.
func (m *Match) Step(action int32, obs []byte) (float32, env.End, error) {
	return m.StepAction([]int32{action}, nil, obs)
}

// StepAction compares every part with its target.
func (m *Match) StepAction(branches []int32, box []float32, obs []byte) (reward float32, end env.End, err error) {
	for b, a := range branches {
		n := float32(m.spec.Action.Branch(b))
		if best := min(float32(int(0.5*(m.targets[b]+1)*n)), n-1); float32(a) == best {
			reward++
		}
	}
	for k, x := range box {
		reward += 1 - float32(math.Abs(float64(x-m.targets[len(branches)+k])))
	}
	m.draw(obs)
	if m.steps++; m.steps == MatchSteps {
		end = env.Truncated
	}
	return reward / float32(len(m.targets)), end, nil
}
