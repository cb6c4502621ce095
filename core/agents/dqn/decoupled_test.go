package dqn

import (
	"errors"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/vec"
)

// decoupled is a replay memory and a learner with minibatches of 2 rows.
func decoupled(t *testing.T, edit ...func(*Config)) *trial {
	return newDQN(t, cartpole(append(edit, func(c *Config) {
		c.Concurrent, c.Clock, c.Updates, c.BatchSize = settings.Off, clockUpdates, "outside", 2
	})...))
}

// minibatchOf2 returns a minibatch of 2 rows.
func minibatchOf2() *train.Transitions {
	return &train.Transitions{
		Obs: make([]byte, 32), NextObs: make([]byte, 32), Actions: []int32{1, 0},
		Rewards: []float32{1, 2}, Discounts: []float32{1, 0}, Weights: []float32{1, 1},
	}
}

// Rows and steps that are refused have numbers.
func TestBadMinibatchesAndStepsAreRefused(t *testing.T) {
	d := decoupled(t)
	for says, change := range map[string]func(x *train.Transitions){
		"row 1: action: 2, must be 0 to 1":                                 func(x *train.Transitions) { x.Actions[1] = 2 },
		"row 0: discount: 7, must be 0 to 1":                               func(x *train.Transitions) { x.Discounts[0] = 7 },
		"row 1: weight: -1, must be finite and at least 0":                 func(x *train.Transitions) { x.Weights[1] = -1 },
		"row 1: reward: +Inf, must be finite":                              func(x *train.Transitions) { x.Rewards[1] = float32(math.Inf(1)) },
		"row 1: obs: observation: component 2 is NaN, must be finite":      func(x *train.Transitions) { copy(x.Obs[24:], []byte{0, 0, 0xc0, 0x7f}) },
		"row 0: next_obs: observation: component 0 is NaN, must be finite": func(x *train.Transitions) { copy(x.NextObs, []byte{0, 0, 0xc0, 0x7f}) },
		"minibatch.num_rows: 3, must be batch_size (2)":                    func(x *train.Transitions) { x.Actions = append(x.Actions, 0) },
		"minibatch.rewards: 1 entries, must be 2 (batch_size: 2)":          func(x *train.Transitions) { x.Rewards = x.Rewards[:1] },
	} {
		x := minibatchOf2()
		change(x)
		_, err := d.GradientOf(make([]float32, d.m.Theta.Layout.Size), x, nil)
		refuses(t, err, says)
		refusesRow(t, err, says)
	}
	err := d.SetErrors([]int64{0, 1}, []float32{0, float32(math.NaN())})
	refuses(t, err, "row 1: error: NaN, must be finite")
	refusesRow(t, err, "row 1: ")
	for says, change := range map[string]func(x *train.Steps){
		"step 2: action: -1, must be 0 to 1":                                    func(x *train.Steps) { x.Actions[2] = -1 },
		"step 1: reward: NaN, must be finite":                                   func(x *train.Steps) { x.Rewards[1] = float32(math.NaN()) },
		"step 0: row 0 of obs: observation: component 0 is NaN, must be finite": func(x *train.Steps) { copy(x.Obs, []byte{0, 0, 0xc0, 0x7f}) },
		"step 2: row 3 of obs: observation: component 0 is NaN, must be finite": func(x *train.Steps) { copy(x.Obs[48:], []byte{0, 0, 0xc0, 0x7f}) },
	} {
		x := &train.Steps{Begins: true, Obs: make([]byte, 64), Actions: make([]int32, 3), Rewards: make([]float32, 3), End: env.Truncated}
		change(x)
		err := d.AddSteps(0, x)
		refuses(t, err, says)
		refusesRow(t, err, says)
	}
}

// A learner whose minibatches are brought has more updates than its steps ask for. Its file loads.
func TestALearnerOfBroughtMinibatchesIsLoaded(t *testing.T) {
	d, next, path := decoupled(t), decoupled(t), filepath.Join(t.TempDir(), "a")
	gradient := make([]float32, d.m.Theta.Layout.Size)
	step := func(d *trial, u int64) string {
		_, err := d.GradientOf(gradient, minibatchOf2(), nil)
		check(t, err)
		theta := make([]float32, len(gradient))
		must(d.GetParameters("q_net", theta))(t)
		for i, g := range gradient {
			theta[i] -= 0.01 * g
		}
		check(t, d.Adopt(theta, u, -1))
		return must(d.Hash("q_net"))(t)
	}
	for u := range int64(500) {
		step(d, u+1)
	}
	check(t, d.Save(path, true))
	check(t, next.Load(path))
	if want, got := step(d, 501), step(next, 501); got != want {
		t.Errorf("loaded and continued %.16s, want %.16s", got, want)
	}
}

// Transitions are added also while an update from outside is due, which stays due.
func TestTransitionsAreAddedWhileAnUpdateFromOutsideIsDue(t *testing.T) {
	c := cartpole(func(c *Config) { c.Updates, c.Concurrent, c.TrainFreq, c.Env = "outside", settings.Off, 4, "" })
	h := newHost(t, c, vec.SameStep, counters(func(*counter) {}))
	h.Begin(t, 10_000)
	for h.d.m.RoundsToUpdate() > 0 {
		check(t, h.Act())
		check(t, h.Vec.Step(h.Actions, h.Rows))
		check(t, h.Observe())
	}
	x := rowsOf(*h.d.Spec(), c.NumEnvs)
	before := h.d.m.Memory.Len()
	check(t, h.Trainer.AddTransitions(x))
	if now := h.d.m.Memory.Len(); now < before+c.NumEnvs {
		t.Errorf("%d transitions after %d", now, before)
	}
	info, err := h.Trainer.Gradient(make([]float32, h.d.m.Theta.Layout.Size), 0)
	if err != nil || info.State != train.GradientReady {
		t.Errorf("%+v, %v", info, err)
	}
}

// Calls that fail write nothing.
func TestFailedDrawsAndGradientsWriteNothing(t *testing.T) {
	for _, edit := range []func(*Config){func(c *Config) { c.Loss = "squared" }, func(c *Config) { c.Prioritized = "dqn_zoo" }} {
		d := decoupled(t, edit)
		x, identities := minibatchOf2(), []int64{-7, -7}
		x.Weights = []float32{7, 7}
		if err := d.Draw(0.5, x, identities); err == nil {
			t.Error("a draw from an empty memory")
		}
		if !slices.Equal(x.Weights, []float32{7, 7}) || !slices.Equal(identities, []int64{-7, -7}) {
			t.Errorf("after a failed draw: weights %v, identities %v", x.Weights, identities)
		}
		x = minibatchOf2()
		x.Rewards[0], x.Weights[0] = math.MaxFloat32, math.MaxFloat32
		gradient, errs := make([]float32, d.m.Theta.Layout.Size), []float32{42, 42}
		gradient[0] = 5
		if _, err := d.GradientOf(gradient, x, errs); !errors.Is(err, fault.ErrNotFinite) {
			t.Errorf("a loss that is not finite: %v", err)
		}
		if !slices.Equal(errs, []float32{42, 42}) || gradient[0] != 5 {
			t.Errorf("after a failed gradient_of: errors %v, gradient %v", errs, gradient[0])
		}
	}
}

// A learner takes no steps. Begin says where its learning rate ends.
func TestALearningRateOfALearnerNeedsBegin(t *testing.T) {
	d := decoupled(t, func(c *Config) { c.LearningRateFinal = 0 })
	gradient := make([]float32, d.m.Theta.Layout.Size)
	_, err := d.GradientOf(gradient, minibatchOf2(), nil)
	refuses(t, err, "gradient_of: no run was begun, and learning_rate changes; call begin first, which says where it ends")
	check(t, d.Begin(1100, 0)) // 100 of the warm-up, then 500 updates
	for u := range int64(3) {
		info := must(d.GradientOf(gradient, minibatchOf2(), nil))(t)
		if want := 1e-3 * (1 - float64(u)/500); math.Abs(info.Rate-want) > 1e-12 {
			t.Errorf("update %d: %v, want %v", u, info.Rate, want)
		}
		theta := make([]float32, len(gradient))
		must(d.GetParameters(d.ParameterSets()[0].Name, theta))(t)
		check(t, d.Adopt(theta, u+1, -1))
	}
}
