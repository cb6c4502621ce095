package policy

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/env/envtest"
	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/vec"
)

// randomMask allows at least one action.
func randomMask(r *rand.Rand, n int) []byte {
	mask := make([]byte, n)
	for a := range mask {
		mask[a] = byte(r.IntN(2))
	}
	mask[r.IntN(n)] = 1
	return mask
}

// allowedOnly returns the allowed actions and their values.
func allowedOnly(mask []byte, values []float32) (actions []int32, of []float32) {
	for a, allowed := range mask {
		if allowed != 0 {
			actions, of = append(actions, int32(a)), append(of, values[a])
		}
	}
	return actions, of
}

// With a mask, choosers choose as if the other actions did not exist, with the same number of
// draws.
func TestChoosersSeeAllowedActionsOnly(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	streams := [2]*rng.Stream{rng.New(9, "explore", 0), rng.New(9, "explore", 0)}
	for range 3000 {
		n := 1 + r.IntN(9)
		mask, values := randomMask(r, n), make([]float32, n)
		for a := range values {
			values[a] = float32(r.IntN(4)) - 2 // ties
		}
		actions, few := allowedOnly(mask, values)
		epsilon := func(int64) float64 { return 0.4 }
		for _, c := range [][2]Chooser{
			{Uniform{n}, Uniform{len(few)}},
			{&EpsilonGreedy{Actions: n, Epsilon: epsilon}, &EpsilonGreedy{Actions: len(few), Epsilon: epsilon}},
			{softmaxOf(0, 0), softmaxOf(0, 0)},
		} {
			got, want := experience.Step{Action: make([]int32, 1), Columns: make([]float32, 2)}, experience.Step{Action: make([]int32, 1), Columns: make([]float32, 2)}
			if err := errors.Join(c[0].Choose(0, &outputs{heads: [][]float32{values}}, mask, streams[0], &got),
				c[1].Choose(0, &outputs{heads: [][]float32{few}}, nil, streams[1], &want)); err != nil {
				t.Fatal(err)
			}
			if got.Action[0] != actions[want.Action[0]] || got.Columns[0] != want.Columns[0] {
				t.Fatalf("%T, mask %v, values %v: action %d, want %d; %v, want %v", c[0], mask, values, got.Action[0], actions[want.Action[0]], got.Columns, want.Columns)
			}
		}
	}
}

// masked returns a policy with five actions.
func masked(t *testing.T) *Policy {
	t.Helper()
	p := cartPole(t, 3)
	spec := p.spec
	spec.Env.Action.N = 5
	spec.Net.Heads = []nn.Head{{Name: "pi", Out: 5}, {Name: "v", Out: 1}}
	return New(spec, must(spec.Net.InitialParams(rng.New(3, "weights", 0)))(t))
}

func TestActTakesAllowedActionsOnly(t *testing.T) {
	p := masked(t)
	const n = 400
	obs, r := observations(p, n, 8), rand.New(rand.NewPCG(2, 2))
	var masks []byte
	for range n {
		masks = append(masks, randomMask(r, 5)...)
	}
	_, outputs := acted(t, p, n, obs, nil)
	for _, o := range []Options{{}, {Sample: true}, {Epsilon: 1}, {Epsilon: 0.5, Sample: true}} {
		o.Seed, o.Masks = 4, masks
		actions, logits := acted(t, p, n, obs, &o)
		if !slices.Equal(logits[0], outputs[0]) {
			t.Error("masks change the outputs")
		}
		greedy := 0
		for i, a := range actions {
			mask, of := masks[5*i:5*i+5], outputs[0][5*i:5*i+5]
			if mask[a] == 0 {
				t.Fatalf("%+v: row %d takes action %d of mask %v", o, i, a, mask)
			}
			few, values := allowedOnly(mask, of)
			if a == few[nn.Argmax(values, nil)] {
				greedy++
			}
		}
		if o.random() == (greedy == n) {
			t.Errorf("%d of %d actions are greedy with epsilon %v, sample %v", greedy, n, o.Epsilon, o.Sample)
		}
		// Masks that allow everything choose as no masks do.
		o.Masks = nil
		without, _ := acted(t, p, n, obs, &o)
		o.Masks = slices.Repeat([]byte{1}, 5*n)
		if all, _ := acted(t, p, n, obs, &o); !slices.Equal(all, without) {
			t.Errorf("%+v: masks that allow everything change actions", o)
		}
	}
}

func TestActRejectsWrongMasks(t *testing.T) {
	p := masked(t)
	obs, actions := observations(p, 3, 8), []int32{7, 7, 7}
	err := p.Act(3, obs, &Options{Masks: []byte{1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}, vec.Actions{Discrete: actions}, nil)
	var e *env.Error
	if !errors.As(err, &e) || e.Index != 1 || !strings.Contains(err.Error(), "allows none of 5 actions") {
		t.Errorf("%v, want row 1", err)
	}
	if err := p.Act(3, obs, &Options{Masks: make([]byte, 14)}, vec.Actions{Discrete: actions}, nil); err == nil || err.Error() != "masks: 14 bytes, must be 15 (3 rows of 5)" {
		t.Errorf("%v", err)
	}
	if !slices.Equal(actions, []int32{7, 7, 7}) {
		t.Errorf("actions %v were written", actions)
	}
}

func init() { env.RegisterPlain("Walled-v0", func() env.Env { return envtest.NewWalled() }) }

// Walled returns an error for a step into the wall, which random and untrained policies soon reach.
func TestEvaluateTakesAllowedActionsOnly(t *testing.T) {
	e := envtest.NewWalled()
	net := nn.Spec{Obs: e.Spec().Obs, Trunks: []nn.Trunk{{Arch: "mlp", Hidden: []int{8}}}, Heads: []nn.Head{{Name: "pi", Out: 2}}}
	for seed := range uint64(4) {
		p := New(Spec{Set: "policy", Env: e.Spec(), Net: net, Kind: Categorical}, must(net.InitialParams(rng.New(seed, "weights", 0)))(t))
		for _, o := range []EvalOptions{{}, {Epsilon: 1}, {Sample: true}, {Epsilon: 0.5}} {
			o.Episodes = 100
			got, err := p.Evaluate("Walled-v0", nil, o)
			// With the masks, no episode ends on the wrong side.
			if err != nil || got.MinReturn < 0 || math.IsNaN(got.MeanReturn) || o.Epsilon == 1 && got.MeanReturn == 0 {
				t.Fatalf("seed %d, %+v: %+v, %v", seed, o, got, err)
			}
		}
	}
}
