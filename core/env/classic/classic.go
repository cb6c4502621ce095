// Package classic holds Gymnasium's classic control tasks: CartPole-v1, Acrobot-v1, MountainCar-v0,
// Pendulum-v1 and MountainCarContinuous-v0.
//
// The same state and action lead to the same next state, reward and end as in Gymnasium 1.x; tests
// compare recorded steps in testdata/. The state is float64, the observation float32, and every
// formula keeps Gymnasium's order of operations. Only sines and cosines may differ from NumPy's, in
// the last bit. Start states have Gymnasium's distribution and come from the library's streams.
//
// The time limit is part of the environment. As Gymnasium's TimeLimit wrapper does, it sets
// Truncated on the last allowed step, also if that step terminates.
package classic

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/rng"
)

func init() {
	env.RegisterPlain("CartPole-v1", func() env.Env { return NewCartPole() })
	env.RegisterPlain("Acrobot-v1", func() env.Env { return NewAcrobot() })
	env.RegisterPlain("MountainCar-v0", func() env.Env { return NewMountainCar() })
	env.RegisterPlain("Pendulum-v1", func() env.Env { return NewPendulum() })
	env.RegisterPlain("MountainCarContinuous-v0", func() env.Env { return NewContinuousCar() })
}

// kind is the number of a task in a saved state. Saved files contain it. States that were saved
// before states had a kind have 0 there.
type kind byte

const (
	cartPole kind = iota + 1
	acrobot
	mountainCar
	pendulum
	continuousCar
)

// task is the common part of the tasks. Its state has two or four numbers.
type task struct {
	kind   kind
	spec   env.Spec
	stream *rng.Stream
	steps  int // in this episode
	active bool
	state  [4]float64
}

func newTask(k kind, spec env.Spec) task {
	t := task{kind: k, spec: spec}
	t.Seed(0)
	return t
}

// Spec describes the task.
func (t *task) Spec() env.Spec { return t.spec }

// Seed restarts the stream of start states.
func (t *task) Seed(seed uint64) { t.stream = rng.New(seed, "env", 0) }

// Close does nothing.
func (t *task) Close() error { return nil }

func (t *task) startEpisode() {
	t.steps, t.active = 0, true
}

var (
	errNotActive   = errors.New("step before reset")
	errNotDiscrete = errors.New("action: discrete, must be a box")
)

// boxTask is a task whose actions are a box.
type boxTask struct{ task }

// Step returns an error: StepAction takes the actions.
func (*boxTask) Step(int32, []byte) (float32, env.End, error) { return 0, 0, errNotDiscrete }

// count counts a step and returns its End.
func (t *task) count(terminated bool) env.End {
	t.steps++
	var end env.End
	if terminated {
		end |= env.Terminated
	}
	if t.steps >= t.spec.MaxSteps {
		end |= env.Truncated
	}
	t.active = end == 0
	return end
}

const (
	saveVersion = 1
	saveSize    = 1 + 1 + 4 + rng.StateSize + 4*8
	activeBit   = 1 // of the byte that has the kind in its higher bits
)

// Save returns the state of the episode and of the stream, little-endian: a version byte, a byte
// with the kind of task and whether an episode is in progress, the number of steps, the stream, and
// the four numbers.
func (t *task) Save() ([]byte, error) {
	stream, err := t.stream.MarshalBinary()
	if err != nil {
		return nil, err
	}
	b := make([]byte, 2, saveSize)
	b[0], b[1] = saveVersion, byte(t.kind)<<1
	if t.active {
		b[1] |= activeBit
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(t.steps))
	b = append(b, stream...)
	for _, x := range t.state {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
	}
	return b, nil
}

// Restore loads a state from Save. After an error the environment is unchanged.
func (t *task) Restore(b []byte) error {
	if len(b) != saveSize || b[0] != saveVersion {
		return fmt.Errorf("%s state: %d bytes, must be %d of version %d", t.spec.ID, len(b), saveSize, saveVersion)
	}
	if k := kind(b[1] >> 1); k != 0 && k != t.kind {
		return fmt.Errorf("%s state: kind of task %d, must be %d: the state is of another task or damaged", t.spec.ID, k, t.kind)
	}
	steps := int(binary.LittleEndian.Uint32(b[2:]))
	if steps > t.spec.MaxSteps {
		return fmt.Errorf("%s state: %d steps, must be 0 to %d", t.spec.ID, steps, t.spec.MaxSteps)
	}
	stream := new(rng.Stream)
	if err := stream.UnmarshalBinary(b[6 : 6+rng.StateSize]); err != nil {
		return err
	}
	var state [4]float64
	for i := range state {
		state[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[6+rng.StateSize+8*i:]))
		if !(math.Abs(state[i]) <= maxState) {
			return fmt.Errorf("%s state: number %d is %v, must be at most %g", t.spec.ID, i, state[i], float64(maxState))
		}
	}
	t.active, t.steps, t.stream, t.state = b[1]&activeBit != 0, steps, stream, state
	return nil
}

// maxState is larger than every number of a state that Save returns, and far from overflow.
const maxState = 1e6

// put writes values to an observation, as float32.
func put(obs []byte, values ...float64) {
	for i, x := range values {
		binary.NativeEndian.PutUint32(obs[4*i:], math.Float32bits(float32(x)))
	}
}
