package dqn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/nn"
)

// unsure is an environment whose resets and steps sometimes fail, and which lists its transitions.
// Its observation is [environment, episode, step].
type unsure struct {
	index, episode, step int
	chance               *rand.Rand
	now                  [3]float32
	list                 []tuple
	resetsLost           int // failures of a reset after an end
	over                 bool
}

func (u *unsure) Spec() env.Spec {
	return env.Spec{ID: "unsure", Obs: env.ObsSpec{DType: env.Float32, Shape: []int{3}, Low: []float32{-1e9}, High: []float32{1e9}}, Action: env.ActionSpec{N: 2}}
}
func (u *unsure) Seed(uint64) {}
func (u *unsure) write(obs []byte) {
	u.now = [3]float32{float32(u.index), float32(u.episode), float32(u.step)}
	for k, v := range u.now {
		binary.NativeEndian.PutUint32(obs[4*k:], math.Float32bits(v))
	}
}

func (u *unsure) Reset(obs []byte) error {
	over := u.over
	u.over = false
	if u.chance.Float64() < 0.05 {
		if over {
			u.resetsLost++
		}
		switch u.chance.IntN(3) {
		case 0:
			panic("the simulator caught fire")
		case 1: // the observation it wrote is not used
			for k := range obs {
				obs[k] = 0x55
			}
		}
		return errors.New("no reset today")
	}
	u.episode, u.step = u.episode+1, 0
	u.write(obs)
	return nil
}

func (u *unsure) Step(action int32, obs []byte) (float32, env.End, error) {
	if u.chance.Float64() < 0.01 {
		u.over = false
		return 0, 0, errors.New("no step today")
	}
	u.step++
	before := u.now
	u.write(obs)
	t := tuple{obs: before, next: u.now, action: action, reward: float32(u.chance.IntN(100))}
	end := env.End(0)
	if u.chance.IntN(4) == 0 {
		end, u.over = env.End(1+u.chance.IntN(3)), true
	}
	if end&env.Terminated != 0 {
		t.terminated, t.next = true, [3]float32{}
	}
	u.list = append(u.list, t)
	return t.reward, end, nil
}
func (u *unsure) Close() error { return nil }

// D has every transition of the environments, and each is counted as a step, also if a step or a
// reset fails. If the reset after an episode fails, the episode's last transition is stored.
func TestFailuresLoseNoTransition(t *testing.T) {
	lost := 0
	for name, edit := range fourModes {
		for w := 1; w <= 6; w++ {
			envs := make([]*unsure, w)
			d := must(newTrial(cartpole(edit, func(c *Config) { c.Env, c.NumEnvs, c.GradientSteps = "", w, 1 }), func(i int) (env.Env, error) {
				envs[i] = &unsure{index: i, episode: -1, chance: rand.New(rand.NewPCG(uint64(w), uint64(i)))}
				return envs[i], nil
			}))(t)
			t.Cleanup(func() { check(t, d.Close()) })
			goOn := func(err error) bool {
				var e *env.Error
				if err != nil && !errors.As(err, &e) {
					t.Fatalf("%s, W %d: %v", name, w, err)
				}
				return err != nil
			}
			for goOn(d.Begin(600, 0)) {
			}
			for goOn(d.Run(0, 0)) {
			}
			d.m.Memory.Flush()
			var want []tuple
			for _, u := range envs {
				want = append(want, u.list...)
				lost += u.resetsLost
			}
			if got := contents(d.m.Memory); !slices.Equal(got, want) {
				t.Errorf("%s, W %d: stored %d, the environments took %d%s", name, w, len(got), len(want), firstDifference(got, want))
			}
			if steps := d.Stats().Steps; steps != int64(len(want)) {
				t.Errorf("%s, W %d: %d steps counted, the environments took %d", name, w, steps, len(want))
			}
		}
	}
	if lost < 24 {
		t.Errorf("%d resets failed after an end: the test proves little", lost)
	}
}

func firstDifference(got, want []tuple) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("; transition %d is %+v, want %+v", i, got[i], want[i])
		}
	}
	return ""
}

// spoilt fails from its third update on, as if its gradient were not finite.
type spoilt struct {
	nn.QStepper
	times int
}

func (s *spoilt) Update(theta, target *nn.Params, t *experience.Transitions, lr float64, r *nn.Report) error {
	if s.times++; s.times >= 3 {
		return &nn.NotFinite{What: "gradient norm", Value: math.Inf(1)}
	}
	return s.QStepper.Update(theta, target, t, lr, r)
}

// An update whose gradient is not finite ends training with an error that names its step.
func TestAGradientThatIsNotFiniteEndsTraining(t *testing.T) {
	for _, clip := range []float64{0, 10} {
		d := newDQN(t, cartpole(func(c *Config) { c.MaxGradNorm = clip }))
		wrap(d, func(s nn.QStepper) nn.QStepper { return &spoilt{QStepper: s} })
		check(t, d.Begin(2000, 0))
		err := d.Run(0, 0)
		if !errors.Is(err, fault.ErrNotFinite) || !strings.Contains(err.Error(), "gradient norm: +Inf at step 106 (update 3)") {
			t.Fatalf("max_grad_norm %g: %v", clip, err)
		}
		theta := make([]float32, d.m.Theta.Layout.Size)
		if u := must(d.GetParameters("q_net", theta))(t); u != 2 || slices.ContainsFunc(theta, func(v float32) bool { return v-v != 0 }) {
			t.Errorf("max_grad_norm %g: %d updates, %v", clip, u, theta)
		}
	}
}
