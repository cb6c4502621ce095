package traintest

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/vec"
)

// Walk is a random environment with three actions, or with actions of another spec. Its observation
// is two float32: a random number and an average of the last actions. Episodes end in every way,
// after 6 steps on average. A Walk can be saved.
type Walk struct {
	stream *rng.Stream
	state  [2]float32

	// BeforeStep and BeforeReset are called before a Step or a Reset, which returns their error.
	// They may also panic or block.
	BeforeStep, BeforeReset func() error
	// Scale multiplies rewards; 0 means 1.
	Scale float32
	// Masked is env.Spec.Masks. An action that the mask does not allow is an error.
	Masked bool
	// Action is env.Spec.Action; zero: three discrete actions. A first branch of three is then what
	// the discrete action is otherwise, and the sum of all numbers, clipped to -1 to 1, moves the
	// average.
	Action env.ActionSpec
	// Waits is env.Spec.Waits.
	Waits bool
	// Lives is env.Spec.LifeLoss: a life is lost where the first number is above 0.6.
	Lives bool
	// BeforeMask may change the mask, or fail.
	BeforeMask func(mask []byte) error
	// Taken counts the successful steps.
	Taken atomic.Int64
}

// MakeWalk makes environment i of a run with the given seed.
func MakeWalk(seed int) func(i int) (env.Env, error) {
	return func(i int) (env.Env, error) {
		w := &Walk{}
		w.Seed(vec.SeedFor(uint64(seed), i))
		return w, nil
	}
}

// MakeMaskedWalk is MakeWalk with masks.
func MakeMaskedWalk(seed int) func(i int) (env.Env, error) {
	return func(i int) (env.Env, error) {
		e, err := MakeWalk(seed)(i)
		e.(*Walk).Masked = true
		return e, err
	}
}

// Actions are the kinds of actions, other than a discrete one, with which a method is tested:
// where Few says so, the kind that has all parts.
func Actions() map[string]env.ActionSpec {
	inf := float32(math.Inf(1))
	kinds := map[string]env.ActionSpec{"branches and a box": {Branches: []int32{3, 4}, Low: []float32{-0.5}, High: []float32{0.5}}}
	if !Few() {
		kinds["branches"] = env.ActionSpec{Branches: []int32{3, 2}}
		kinds["a box"] = env.ActionSpec{Low: []float32{-1, -inf}, High: []float32{1, 2}}
	}
	return kinds
}

// ErrSimulator is an error for BeforeStep and BeforeReset.
var ErrSimulator = errors.New("the simulator caught fire")

func (w *Walk) Spec() env.Spec {
	action := w.Action
	if action.Bytes() == 0 {
		action.N = 3
	}
	return env.Spec{ID: "walk", Obs: env.ObsSpec{DType: env.Float32, Shape: []int{2}, Low: []float32{-2}, High: []float32{2}}, Action: action, Masks: w.Masked, Waits: w.Waits, LifeLoss: w.Lives}
}

func (w *Walk) Seed(seed uint64) { w.stream = rng.New(seed, "walk", 0) }

func (w *Walk) write(obs []byte) {
	for k, v := range w.state {
		binary.NativeEndian.PutUint32(obs[4*k:], math.Float32bits(v))
	}
}

func (w *Walk) Reset(obs []byte) error {
	if w.BeforeReset != nil {
		if err := w.BeforeReset(); err != nil {
			return err
		}
	}
	w.state = [2]float32{float32(w.stream.Uniform(-1, 1)), 0}
	w.write(obs)
	return nil
}

// Mask forbids an action that leads further away from 0 if the average is beyond 0.2, and standing
// still if the first number is above 0.5.
func (w *Walk) Mask(mask []byte) error {
	w.allowed(mask)
	if w.BeforeMask != nil {
		return w.BeforeMask(mask)
	}
	return nil
}

// WalkMask returns the mask of a walk with three actions in a state, by its observation.
func WalkMask(obs []byte) []byte {
	var w Walk
	for k := range w.state {
		w.state[k] = math.Float32frombits(binary.NativeEndian.Uint32(obs[4*k:]))
	}
	mask := make([]byte, 3)
	w.allowed(mask)
	return mask
}

func (w *Walk) allowed(mask []byte) {
	for a := 3; a < len(mask); a++ { // of further branches
		mask[a] = 1
	}
	for a, not := range [3]bool{w.state[1] < -0.2, w.state[0] > 0.5, w.state[1] > 0.2} {
		mask[a] = 1
		if not {
			mask[a] = 0
		}
	}
}

func (w *Walk) Step(action int32, obs []byte) (float32, env.End, error) {
	return w.step(action, float32(action-1), obs)
}

func (w *Walk) StepAction(branches []int32, box []float32, obs []byte) (float32, env.End, error) {
	if spec := w.Spec().Action; spec.CheckAction(branches, box) != nil {
		return 0, 0, fmt.Errorf("action %v %v is not of %v", branches, box, spec)
	}
	move, first := float32(-1), int32(0)
	for _, b := range branches {
		move += float32(b)
	}
	for _, x := range box {
		move += x
	}
	if len(branches) > 0 {
		first = branches[0]
	}
	return w.step(first, min(max(move, -1), 1), obs)
}

// step takes a step with the first of an action's integers that moves the average by half of move.
func (w *Walk) step(first int32, move float32, obs []byte) (float32, env.End, error) {
	if w.Masked {
		var mask [3]byte
		if w.allowed(mask[:]); mask[first] == 0 {
			return 0, 0, fmt.Errorf("action %d is not allowed in %v", first, w.state)
		}
	}
	if w.BeforeStep != nil {
		if err := w.BeforeStep(); err != nil {
			return 0, 0, err
		}
	}
	w.state = [2]float32{float32(w.stream.Uniform(-1, 1)), w.state[1]/2 + move/2}
	w.write(obs)
	end := env.End(0)
	if w.stream.Intn(6) == 0 {
		end = env.End(1 + w.stream.Intn(3))
	}
	if w.Lives && w.state[0] > 0.6 {
		end |= env.Lost
	}
	w.Taken.Add(1)
	reward := w.state[0] + w.state[1]
	if w.Scale != 0 {
		reward *= w.Scale
	}
	return reward, end, nil
}

type savedWalk struct {
	Stream []byte
	State  [2]float32
}

func (w *Walk) Save() ([]byte, error) {
	s, err := w.stream.MarshalBinary()
	if err != nil {
		return nil, err
	}
	return json.Marshal(savedWalk{s, w.state})
}

func (w *Walk) Restore(state []byte) error {
	var s savedWalk
	if err := json.Unmarshal(state, &s); err != nil {
		return err
	}
	w.state = s.State
	return w.stream.UnmarshalBinary(s.Stream)
}

func (w *Walk) Close() error { return nil }
