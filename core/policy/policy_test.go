package policy

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/env"
	_ "github.com/paceline-rl/paceline/core/env/builtin"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/vec"
)

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// cartPole returns an actor-critic policy with random weights.
func cartPole(t *testing.T, seed uint64) *Policy {
	t.Helper()
	e := must(env.Make("CartPole-v1", nil))(t)
	defer e.Close()
	net := nn.Spec{
		Obs: e.Spec().Obs, Trunks: []nn.Trunk{{Arch: "mlp", Hidden: []int{16}, Activation: "tanh"}},
		Heads: []nn.Head{{Name: "pi", Out: 2}, {Name: "v", Out: 1}},
	}
	params := must(net.InitialParams(rng.New(seed, "weights", 0)))(t)
	return New(Spec{Set: "policy", Env: e.Spec(), Net: net, Head: 0, Kind: Categorical}, params)
}

func observations(p *Policy, n int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	obs := make([]byte, 0, n*p.Spec().Obs.Bytes())
	for range n * p.Spec().Obs.Len() {
		obs = binary.NativeEndian.AppendUint32(obs, math.Float32bits(float32(r.NormFloat64())))
	}
	return obs
}

// acted returns n actions and all outputs.
func acted(t *testing.T, p *Policy, n int, obs []byte, o *Options) (actions []int32, outputs [][]float32) {
	t.Helper()
	actions, outputs = make([]int32, n), make([][]float32, 0, 2)
	for _, x := range p.Outputs() {
		outputs = append(outputs, make([]float32, n*x.Len))
	}
	if err := p.Act(n, obs, o, vec.Actions{Discrete: actions}, outputs); err != nil {
		t.Fatal(err)
	}
	return actions, outputs
}

// Action and outputs of a row are the same alone, in any batch and on any goroutine.
func TestActComputesRowsIndependently(t *testing.T) {
	p := cartPole(t, 1)
	if want := []Output{{"logits", 2}, {"value", 1}}; !slices.Equal(p.Outputs(), want) {
		t.Fatalf("outputs %v, want %v", p.Outputs(), want)
	}
	const n = 70 // more than two batches
	obs := observations(p, n, 2)
	actions, outputs := acted(t, p, n, obs, nil)
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() {
			one, out := acted(t, p, 1, obs[16*i:16*(i+1)], nil)
			if one[0] != actions[i] || !slices.Equal(out[0], outputs[0][2*i:2*i+2]) || out[1][0] != outputs[1][i] {
				t.Errorf("row %d alone: %v %v, in a batch %v %v", i, one[0], out, actions[i], outputs[0][2*i:2*i+2])
			}
			if one[0] != nn.Argmax(out[0], nil) {
				t.Errorf("row %d: action %d of logits %v", i, one[0], out[0])
			}
		})
	}
	wait.Wait()
}

// Draws are a function of the seed, the counter and the row's number.
func TestActDrawsFromSeedCounterAndRow(t *testing.T) {
	p := cartPole(t, 1)
	const n = 4000
	obs := slices.Repeat(observations(p, 1, 3), n)
	greedy, outputs := acted(t, p, 1, obs[:16], nil)
	likely := softmax(outputs[0])[greedy[0]]
	first, _ := acted(t, p, n, obs, &Options{Sample: true, Seed: 5, Counter: 6})
	again, _ := acted(t, p, n, obs, &Options{Sample: true, Seed: 5, Counter: 6})
	if !slices.Equal(first, again) {
		t.Error("two calls with the same seed and counter, two results")
	}
	for _, o := range []*Options{{Sample: true, Seed: 5, Counter: 7}, {Sample: true, Seed: 6, Counter: 6}} {
		if other, _ := acted(t, p, n, obs, o); slices.Equal(first, other) {
			t.Errorf("%+v draws what seed 5 and counter 6 draw", o)
		}
	}
	share := func(o *Options) float64 {
		actions, _ := acted(t, p, n, obs, o)
		same := 0
		for _, a := range actions {
			if a == greedy[0] {
				same++
			}
		}
		return float64(same) / n
	}
	for _, c := range []struct {
		o    *Options
		want float64
	}{
		{&Options{Sample: true}, likely}, {&Options{Epsilon: 0.5, Seed: 1}, 0.75}, {&Options{Epsilon: 1, Seed: 2}, 0.5},
		{&Options{Sample: true, Epsilon: 0.5}, likely/2 + 0.25}, {&Options{}, 1},
	} {
		if got := share(c.o); math.Abs(got-c.want) > 0.03 {
			t.Errorf("%+v: a share of %v of the actions is greedy, want %v", c.o, got, c.want)
		}
	}
}

func TestActRejectsWrongArguments(t *testing.T) {
	p := cartPole(t, 1)
	obs := make([]byte, 32)
	for _, c := range []struct {
		says    string
		n       int
		obs     []byte
		o       *Options
		actions []int32
		outputs [][]float32
	}{
		{"obs: 31 bytes, must be 32 (2 rows of 16)", 2, obs[:31], nil, make([]int32, 2), nil},
		{"actions: 1, must be 2", 2, obs, nil, make([]int32, 1), nil},
		{"outputs: 1, must be 2", 2, obs, nil, make([]int32, 2), make([][]float32, 1)},
		{"epsilon: 1.5, must be 0 to 1", 2, obs, &Options{Epsilon: 1.5}, make([]int32, 2), nil},
		{"epsilon: NaN, must be 0 to 1", 2, obs, &Options{Epsilon: math.NaN()}, make([]int32, 2), nil},
		{"outputs[0] (pi): 3, must be 4 (2 rows of 2)", 2, obs, nil, make([]int32, 2), [][]float32{make([]float32, 3), nil}},
	} {
		if err := p.Act(c.n, c.obs, c.o, vec.Actions{Discrete: c.actions}, c.outputs); err == nil || !strings.HasPrefix(err.Error(), c.says) {
			t.Errorf("%v, want %q", err, c.says)
		}
	}
}

// A policy is the same from a file and from bytes, and changed or cut files are rejected.
func TestFilesAndBytesHoldThePolicy(t *testing.T) {
	p := cartPole(t, 4)
	path := filepath.Join(t.TempDir(), "p.paceline")
	if err := p.Save(path); err != nil {
		t.Fatal(err)
	}
	b := must(p.Bytes())(t)
	obs := observations(p, 40, 5)
	actions, outputs := acted(t, p, 40, obs, nil)
	for name, q := range map[string]*Policy{"file": must(Load(path))(t), "bytes": must(FromBytes(b))(t), "file's bytes": must(FromBytes(must(os.ReadFile(path))(t)))(t)} {
		a, out := acted(t, q, 40, obs, nil)
		if !slices.Equal(a, actions) || !reflect.DeepEqual(out, outputs) || q.Kind() != Categorical || q.Spec().ID != "CartPole-v1" {
			t.Errorf("%s: another policy", name)
		}
	}
	for k := range b { // every byte belongs to the format or has a checksum
		if k%13 != 0 {
			continue
		}
		bad := slices.Clone(b)
		bad[k] ^= 0x41
		if q, err := FromBytes(bad); err == nil {
			if a, out := acted(t, q, 40, obs, nil); !slices.Equal(a, actions) || !reflect.DeepEqual(out, outputs) {
				t.Errorf("byte %d changed: loaded, and acts otherwise", k)
			}
		}
	}
	if _, err := FromBytes(b[:len(b)/2]); err == nil {
		t.Error("half of a file was loaded")
	}
}

// Files of other kinds, such as a parameter store's, are refused by their kind.
func TestFilesOfOtherKindsAreRefused(t *testing.T) {
	const says = `kind: "store", must be "policy" or "run"`
	if _, err := FromBytes(must(checkpoint.SaveBytes("store", nil, nil))(t)); err == nil || err.Error() != says {
		t.Errorf("%v, want %s", err, says)
	}
	path := filepath.Join(t.TempDir(), "store")
	if err := checkpoint.Save(path, "store", nil, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || err.Error() != path+": "+says {
		t.Errorf("%v, want %s: %s", err, path, says)
	}
}

func TestSavedSpecsAreChecked(t *testing.T) {
	good := cartPole(t, 1).spec.Saved()
	if spec := must(good.Spec())(t); !reflect.DeepEqual(spec.Saved(), good) {
		t.Errorf("%+v, want %+v", spec.Saved(), good)
	}
	for says, change := range map[string]func(s *Saved){
		`policy.dtype: "int8", must be uint8 or float32`:                                  func(s *Saved) { s.DType = "int8" },
		`policy.kind: "best", must be greedy, softmax or gaussian`:                        func(s *Saved) { s.Kind = "best" },
		`policy.head: 2, must be 0 to 1`:                                                  func(s *Saved) { s.Head = 2 },
		`policy.head: -1, must be 0 to 1`:                                                 func(s *Saved) { s.Head = -1 },
		`policy.heads: head "pi" has 2 outputs, must have 3 where actions are 3 discrete`: func(s *Saved) { s.Actions = 3 },
		`policy.head: 1 (v), must be that of "pi" or "mu"`:                                func(s *Saved) { s.Head = 1 },
		`observation shape: [0], every axis must be at least 1`:                           func(s *Saved) { s.Axes = []int{0} },
	} {
		s := good
		change(&s)
		if _, err := s.Spec(); err == nil || !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

// Evaluate gives the returns of a plain loop over single environments.
func TestEvaluateMatchesAPlainLoop(t *testing.T) {
	p := cartPole(t, 6)
	for _, o := range []EvalOptions{
		{Episodes: 40, Seed: 3}, {Episodes: 5, Seed: 4, Sample: true}, {Episodes: 33, Seed: 5, Epsilon: 0.3}, {Episodes: 1, Seed: 6, Sample: true, Epsilon: 0.1},
	} {
		var returns []float64
		for k := range o.Episodes {
			e := must(env.Make("CartPole-v1", nil))(t)
			r := rng.New(o.Seed, "eval", k)
			e.Seed(r.Uint64())
			obs, sum := make([]byte, 16), 0.0
			if err := e.Reset(obs); err != nil {
				t.Fatal(err)
			}
			for end := env.End(0); end == 0; {
				action, outputs := acted(t, p, 1, obs, nil)
				if r.Float64() < o.Epsilon {
					action[0] = int32(r.Intn(2))
				} else if o.Sample {
					action[0], _ = sampleSoftmax(outputs[0], nil, r.Float64())
				}
				var reward float32
				var err error
				if reward, end, err = e.Step(action[0], obs); err != nil {
					t.Fatal(err)
				}
				sum += float64(reward)
			}
			e.Close()
			returns = append(returns, sum)
		}
		got := must(p.Evaluate("CartPole-v1", nil, o))(t)
		mean, square := 0.0, 0.0
		for _, x := range returns {
			mean += x / float64(len(returns))
		}
		for _, x := range returns {
			square += (x - mean) * (x - mean)
		}
		std := 0.0
		if len(returns) > 1 {
			std = math.Sqrt(square / float64(len(returns)-1))
		}
		if got.Episodes != o.Episodes || math.Abs(got.MeanReturn-mean) > 1e-9 || math.Abs(got.StdReturn-std) > 1e-9 ||
			got.MinReturn != slices.Min(returns) || got.MaxReturn != slices.Max(returns) || math.Abs(got.MeanLen-mean) > 1e-9 || !slices.Equal(got.Returns, returns) || len(got.Lengths) != len(returns) {
			t.Errorf("%+v: %+v, want mean %v, deviation %v, %v to %v", o, got, mean, std, slices.Min(returns), slices.Max(returns))
		}
	}
	for says, o := range map[string]EvalOptions{"episodes: 0, must be 1 to 1000000": {}, "epsilon: 2, must be 0 to 1": {Episodes: 1, Epsilon: 2}} {
		if _, err := p.Evaluate("CartPole-v1", nil, o); err == nil || err.Error() != says {
			t.Errorf("%v, want %q", err, says)
		}
	}
	if _, err := p.Evaluate("Acrobot-v1", nil, EvalOptions{Episodes: 1}); err == nil || !strings.HasPrefix(err.Error(), `env: "Acrobot-v1" has observations of 24 bytes (float32), must be 16 (float32)`) {
		t.Errorf("%v", err)
	}
}

func TestMeanOfEqualReturnsIsExact(t *testing.T) {
	played := make([]episode, 30)
	for i := range played {
		played[i].reward, played[i].length = -21, 811
	}
	if got := summarise(played); got.MeanReturn != -21 || got.StdReturn != 0 || got.MeanLen != 811 {
		t.Errorf("thirty games of -21: %+v", got)
	}
}

// A stop ends the evaluations in progress and does not affect later ones.
func TestStopEvaluationsEndsThoseInProgress(t *testing.T) {
	p := cartPole(t, 7)
	ended := make(chan error)
	for range 2 {
		go func() {
			_, err := p.Evaluate("CartPole-v1", nil, EvalOptions{Episodes: 1_000_000})
			ended <- err
		}()
	}
	for left := 2; left > 0; {
		p.StopEvaluations() // repeated, because an evaluation may not have begun yet
		select {
		case err := <-ended:
			if left--; !errors.Is(err, fault.ErrStopped) {
				t.Errorf("%v, want %v", err, fault.ErrStopped)
			}
		case <-time.After(10 * time.Millisecond):
		}
	}
	if e := must(p.Evaluate("CartPole-v1", nil, EvalOptions{Episodes: 3}))(t); e.Episodes != 3 {
		t.Errorf("after a stop: %+v", e)
	}
}

// closing is a CartPole that counts the open environments and fails in a step or a reset.
type closing struct {
	env.Env
	steps int
}

// closings is the state that all environments of type closing share.
var closings struct {
	open      int
	failStep  int    // number of the step that fails; 0: none
	failReset int    // number of open environments at which a reset fails; 0: none
	onStep    func() // called before every step
}

func init() {
	env.RegisterPlain("Closing-v0", func() env.Env {
		closings.open++
		e, err := env.Make("CartPole-v1", nil)
		if err != nil {
			panic(err)
		}
		return &closing{Env: e}
	})
}

func (c *closing) Reset(obs []byte) error {
	if closings.open == closings.failReset {
		return errors.New("no reset")
	}
	return c.Env.Reset(obs)
}

func (c *closing) Step(action int32, obs []byte) (float32, env.End, error) {
	closings.onStep()
	if c.steps++; c.steps == closings.failStep {
		return 0, 0, errors.New("no step")
	}
	return c.Env.Step(action, obs)
}

func (c *closing) Close() error {
	closings.open--
	return c.Env.Close()
}

// An evaluation closes its environments on success, on errors and when stopped.
func TestEvaluateClosesItsEnvironments(t *testing.T) {
	p := cartPole(t, 7)
	for _, c := range []struct {
		name        string
		step, reset int
		stop        bool
		want        string
	}{
		{"whole", 0, 0, false, ""}, {"step", 3, 0, false, "no step"}, {"reset", 0, 10, false, "no reset"}, {"stop", 0, 0, true, fault.ErrStopped.Error()},
	} {
		closings.failStep, closings.failReset, closings.onStep = c.step, c.reset, func() {}
		if c.stop {
			closings.onStep = p.StopEvaluations
		}
		_, err := p.Evaluate("Closing-v0", nil, EvalOptions{Episodes: 10})
		if err == nil && c.want != "" || err != nil && (c.want == "" || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if closings.open != 0 {
			t.Errorf("%s: %d environments are open", c.name, closings.open)
		}
		closings.open = 0
	}
}

// panicking panics in a step or in a reset.
type panicking struct {
	env.Env
	inReset bool
}

func (p *panicking) Reset(obs []byte) error {
	if p.inReset {
		panic("no reset")
	}
	return p.Env.Reset(obs)
}

func (p *panicking) Step(int32, []byte) (float32, env.End, error) { panic("no step") }

// A panic of an environment is its error, and spoils nothing: see package fault.
func TestEvaluatePanics(t *testing.T) {
	p := cartPole(t, 7)
	for _, where := range []string{"step", "reset"} {
		id := "Panicking-" + where
		env.Add(id, func(o env.Options) (env.Env, error) {
			e, err := env.Make("CartPole-v1", o)
			return &panicking{e, where == "reset"}, err
		})
		var panicked *fault.Panic
		_, err := p.Evaluate(id, nil, EvalOptions{Episodes: 2})
		if !errors.As(err, &panicked) || fault.Spoils(err) != nil || !strings.Contains(err.Error(), "no "+where) {
			t.Errorf("%s: %v", where, err)
		}
	}
	if _, err := p.Evaluate("CartPole-v1", nil, EvalOptions{Episodes: 1}); err != nil {
		t.Error(err)
	}
}
