package policy

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/vec"
)

// hybridAction has two branches and a box of two.
var hybridAction = env.ActionSpec{Branches: []int32{3, 2}, Low: []float32{-1, float32(math.Inf(-1))}, High: []float32{1, 2}}

// hybrid returns the distribution and outputs of hybridAction.
func hybrid() (*Distribution, *BatchRow) {
	d := &Distribution{Action: hybridAction, Pi: 0, Mu: 2}
	values := [][]float32{{0.5, -1, 2, 1, 0.25}, {7}, {0.3, -2}}
	return d, &BatchRow{Outputs: nn.Outputs{Rows: 1, Values: values}, LogStds: []float32{-0.5, 0.25}}
}

func stepOf(a env.ActionSpec) *experience.Step {
	return &experience.Step{Action: make([]int32, a.Ints()), Continuous: make([]float32, a.Floats()), Columns: make([]float32, 2)}
}

// The frequencies and moments of a million actions are those of the distribution, and the
// log-probability is that of the formulas in float64.
func TestSamplesHaveTheDistribution(t *testing.T) {
	const n = 1_000_000
	d, row := hybrid()
	logits, mean := row.Outputs.Values[0], row.Outputs.Values[2]
	for name, mask := range map[string][]byte{"no mask": nil, "mask": {1, 0, 1, 1, 1}} {
		of := func(b int) (p []float64) {
			first, end := 3*b, 3+2*b
			sum := 0.0
			for a := first; a < end; a++ {
				if mask == nil || mask[a] != 0 {
					p = append(p, math.Exp(float64(logits[a])))
				} else {
					p = append(p, 0)
				}
				sum += p[len(p)-1]
			}
			for a := range p {
				p[a] /= sum
			}
			return p
		}
		probabilities := [][]float64{of(0), of(1)}
		var counts [3][2]float64
		var first, second, product [2]float64
		r, s := rng.New(3, "explore", 1), stepOf(d.Action)
		for range n {
			logProb, err := d.Sample(row, mask, r, s)
			if err != nil {
				t.Fatal(err)
			}
			want := math.Log(probabilities[0][s.Action[0]]) + math.Log(probabilities[1][s.Action[1]])
			for k, x := range s.Continuous {
				std := math.Exp(float64(row.LogStds[k]))
				z := (float64(x) - float64(mean[k])) / std
				want += -z*z/2 - float64(row.LogStds[k]) - math.Log(2*math.Pi)/2
				first[k] += z / n
				second[k] += z * z / n
				product[k] += z * float64(s.Action[k]) / n
			}
			if math.Abs(float64(logProb)-want) > 2e-6*(1+math.Abs(want)) {
				t.Fatalf("%s: log-probability %v of %v %v, must be %v", name, logProb, s.Action, s.Continuous, want)
			}
			counts[s.Action[0]][s.Action[1]]++
		}
		// The branches are independent of each other: chi-squared of the joint frequencies.
		chi, cells := 0.0, 0
		for a, row := range counts {
			for b, c := range row {
				want := n * probabilities[0][a] * probabilities[1][b]
				if want == 0 {
					if c != 0 {
						t.Errorf("%s: %v actions that the mask forbids", name, c)
					}
					continue
				}
				cells++
				chi += (c - want) * (c - want) / want
			}
		}
		if chi > 30 { // at most 5 degrees of freedom: beyond it once in 60,000
			t.Errorf("%s: chi-squared %v of %d cells", name, chi, cells)
		}
		for k := range first {
			if math.Abs(first[k]) > 5/math.Sqrt(n) || math.Abs(second[k]-1) > 5*math.Sqrt(2.0/n) || math.Abs(product[k]) > 10/math.Sqrt(n) {
				t.Errorf("%s: component %d: moments %v, %v and %v with the branch, must be 0, 1 and 0", name, k, first[k], second[k], product[k])
			}
		}
	}
}

func TestLogProbHasTheBitsOfSample(t *testing.T) {
	d, row := hybrid()
	r, s := rng.New(5, "explore", 0), stepOf(d.Action)
	for _, mask := range [][]byte{nil, {0, 1, 1, 1, 0}} {
		for range 100 {
			want, err := d.Sample(row, mask, r, s)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := d.LogProb(row, mask, s.Action, s.Continuous); err != nil || got != want {
				t.Fatalf("%v, %v, must be %v", got, err, want)
			}
		}
	}
}

// A draw takes one number for each part of the action.
func TestSampleDrawsOneNumberForEachPart(t *testing.T) {
	d, row := hybrid()
	if n := drawn(t, func(r *rng.Stream) { _, _ = d.Sample(row, nil, r, stepOf(d.Action)) }); n != 4 {
		t.Errorf("%d numbers drawn, want 4", n)
	}
}

func TestModeIsTheMostProbableAction(t *testing.T) {
	d, row := hybrid()
	s := stepOf(d.Action)
	if err := d.Mode(row, []byte{1, 1, 0, 1, 1}, s); err != nil || !slices.Equal(s.Action, []int32{0, 0}) || !slices.Equal(s.Continuous, []float32{0.3, -2}) {
		t.Errorf("%v: %v %v", err, s.Action, s.Continuous)
	}
}

func TestBoundsTurnSamplesIntoActions(t *testing.T) {
	a := env.ActionSpec{Low: []float32{-2, 0}, High: []float32{2, 10}}
	tanh := func(x float64) float32 { return float32(math.Tanh(x)) }
	for _, c := range []struct {
		bounds Bounds
		want   []float32
	}{
		{Bounds{}, []float32{0.5, 0}},
		{Bounds{Squash: true}, []float32{tanh(0.5), 0}},
		{Bounds{Scaled: true}, []float32{1, 0}},
		{Bounds{Squash: true, Scaled: true}, []float32{2 * tanh(0.5), 5 * (1 + tanh(-3))}},
	} {
		d := &Distribution{Action: a, Pi: -1, Mu: 0, Bounds: c.bounds}
		got := make([]float32, 2)
		d.ToBox(got, []float32{0.5, -3})
		for k := range got {
			if math.Abs(float64(got[k]-c.want[k])) > 1e-6 {
				t.Errorf("%+v: %v, must be %v", c.bounds, got, c.want)
			}
		}
	}
	wide := env.ActionSpec{Low: []float32{0, -3e38}, High: []float32{1, 3e38}}
	for says, check := range map[string]error{
		"scaled: true, must be false where high[1] - low[1] of the box (3e+38 - -3e+38) is above 3.4028235e+38": Bounds{Scaled: true}.Check(wide),
		"scaled: true, must be false where a bound of the box is infinite":                                      Bounds{Scaled: true}.Check(hybridAction),
		"squashed: true, scaled: false, must be false where actions are 3 discrete":                             Bounds{Squash: true}.Check(env.ActionSpec{N: 3}),
		"squashed: false, scaled: true, must be false where actions are branches of [3 2]":                      Bounds{Scaled: true}.Check(env.ActionSpec{Branches: []int32{3, 2}}),
	} {
		if check == nil || check.Error() != says {
			t.Errorf("%v, must be %q", check, says)
		}
	}
}

// hybridPolicy returns a policy of hybridAction.
func hybridPolicy(t *testing.T) *Policy {
	t.Helper()
	net := nn.Spec{
		Obs: env.ObsSpec{DType: env.Float32, Shape: []int{3}, Low: []float32{-9}, High: []float32{9}}, Trunks: []nn.Trunk{{Arch: "mlp", Hidden: []int{8}}},
		Heads: []nn.Head{{Name: "pi", Out: 5, Branches: []int32{3, 2}}, {Name: "v", Out: 1}, {Name: "mu", Out: 2}}, LogStdInit: -0.5,
	}
	params := must(net.InitialParams(rng.New(1, "weights", 0)))(t)
	return New(Spec{Set: "policy", Env: env.Spec{Obs: net.Obs, Action: hybridAction}, Net: net, Kind: Gaussian}, params)
}

func TestPolicyOfBranchesAndABox(t *testing.T) {
	p := hybridPolicy(t)
	const n = 50
	obs := observations(p, n, 4)
	act := func(p *Policy, o *Options) vec.Actions {
		t.Helper()
		a := vec.Actions{Discrete: make([]int32, 2*n), Box: make([]float32, 2*n)}
		if err := p.Act(n, obs, o, a, nil); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			one := a.At(i, &hybridAction)
			if err := hybridAction.CheckAction(one.Discrete, one.Box); err != nil {
				t.Fatalf("row %d: %v", i, err)
			}
		}
		return a
	}
	b := must(p.Bytes())(t)
	q := must(FromBytes(b))(t)
	if !reflect.DeepEqual(q.Spec().Action, p.Spec().Action) {
		t.Errorf("%+v, must be %+v", q.Spec().Action, p.Spec().Action)
	}
	for name, o := range map[string]*Options{"mode": nil, "sample": {Sample: true, Seed: 3}, "random": {Sample: true, Epsilon: 1, Seed: 3}, "masks": {Sample: true, Masks: slices.Repeat([]byte{0, 0, 1, 0, 1}, n)}} {
		a := act(p, o)
		if got := act(q, o); !reflect.DeepEqual(got, a) {
			t.Errorf("%s: a loaded policy acts differently", name)
		}
		if name == "masks" {
			for i := range n {
				if a.Discrete[2*i] != 2 || a.Discrete[2*i+1] != 1 {
					t.Fatalf("row %d: %v, the only allowed action is [2 1]", i, a.Discrete[2*i:2*i+2])
				}
			}
		}
	}
	for says, err := range map[string]error{
		"actions: 3 integers, must be 4, 2 for each environment":         p.Act(2, obs[:24], nil, vec.Actions{Discrete: make([]int32, 3), Box: make([]float32, 4)}, nil),
		"actions: 1 numbers of a box, must be 4, 2 for each environment": p.Act(2, obs[:24], nil, vec.Actions{Discrete: make([]int32, 4), Box: make([]float32, 1)}, nil),
		"environment 1: action mask: branch 1 allows none of 2 actions":  p.Act(2, obs[:24], &Options{Masks: []byte{1, 1, 1, 1, 1, 1, 1, 1, 0, 0}}, vec.Actions{Discrete: make([]int32, 4), Box: make([]float32, 4)}, nil),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%v, must be %q", err, says)
		}
	}
}

func TestInfiniteBoundsAreSaved(t *testing.T) {
	text := must(json.Marshal(hybridPolicy(t).spec.Saved()))(t)
	if want := `"low":[-1,null],"high":[1,2]`; !strings.Contains(string(text), want) {
		t.Errorf("%s, must have %s", text, want)
	}
}

// An environment's actions must have the policy's bounds.
func TestEvaluatesWithinItsBoundsOnly(t *testing.T) {
	net := nn.Spec{
		Obs: env.ObsSpec{DType: env.Float32, Shape: []int{3}, Low: []float32{-9}, High: []float32{9}}, Trunks: []nn.Trunk{{Arch: "mlp", Hidden: []int{8}}},
		Heads: []nn.Head{{Name: "mu", Out: 1}, {Name: "v", Out: 1}},
	}
	for high, says := range map[float32]string{2: "", 1.5: `env: "Pendulum-v1" has actions whose high[0] is 2, must be 1.5 as the policy's`} {
		params := must(net.InitialParams(rng.New(1, "weights", 0)))(t)
		p := New(Spec{Set: "policy", Env: env.Spec{Obs: net.Obs, Action: env.ActionSpec{Low: []float32{-2}, High: []float32{high}}}, Net: net, Kind: Gaussian}, params)
		_, err := p.Evaluate("Pendulum-v1", nil, EvalOptions{Episodes: 1})
		if err == nil && says != "" || err != nil && err.Error() != says {
			t.Errorf("%v, must be %q", err, says)
		}
	}
}

// An observation that is not finite is refused before anything is written. A network whose means
// are not finite gives no action.
func TestActRefusesNumbersThatAreNotFinite(t *testing.T) {
	p := hybridPolicy(t)
	const n, size = 70, 12 // more than two batches
	for k, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		obs := observations(p, n, 4)
		binary.NativeEndian.PutUint32(obs[size*40+4*k:], math.Float32bits(float32(x)))
		a := vec.Actions{Discrete: slices.Repeat([]int32{-7}, 2*n), Box: make([]float32, 2*n)}
		for _, o := range []*Options{nil, {Sample: true}, {Epsilon: 1}} {
			err, failed := p.Act(n, obs, o, a, nil), (*env.Error)(nil)
			if !errors.As(err, &failed) || failed.Index != 40 || !errors.Is(err, fault.ErrNotFinite) || !strings.Contains(err.Error(), fmt.Sprintf("observation: component %d is %v", k, x)) {
				t.Errorf("%v", err)
			}
		}
		if a.Discrete[0] != -7 {
			t.Error("actions were written")
		}
	}
	for _, part := range p.params.Layout.Params { // the means are -Inf; action[1] has no lower bound
		for k := range part.Size {
			if p.params.Host()[part.Offset+k] = 3e38; part.Name == "mu_net.weight" {
				p.params.Host()[part.Offset+k] = -3e38
			}
		}
	}
	for name, o := range map[string]*Options{"mode": nil, "sample": {Sample: true}} {
		a := vec.Actions{Discrete: make([]int32, 2*n), Box: make([]float32, 2*n)}
		err := p.Act(n, make([]byte, size*n), o, a, nil)
		if err == nil || !errors.Is(err, fault.ErrNotFinite) || err.Error() != "environment 0: action[1]: -Inf, must be finite" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
