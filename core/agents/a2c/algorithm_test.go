package a2c

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
	"github.com/paceline-rl/paceline/core/vec"
)

// bandit rewards one action of three, in episodes of four steps. The observation says which one.
type bandit struct {
	right, step int
	wage        *float32 // nil: 1
	failStep    bool     // the next Step fails
	failReset   bool     // the next Reset fails
}

func (b *bandit) Spec() env.Spec {
	return env.Spec{ID: "bandit", Obs: env.ObsSpec{DType: env.Uint8, Shape: []int{3}, Low: []float32{0}, High: []float32{1}}, Action: env.ActionSpec{N: 3}}
}
func (b *bandit) Seed(uint64) {}
func (b *bandit) write(obs []byte) {
	clear(obs)
	obs[b.right] = 1
}
func (b *bandit) Reset(obs []byte) error {
	if b.failReset {
		b.failReset = false
		return errors.New("the casino is closed")
	}
	b.step = 0
	b.write(obs)
	return nil
}
func (b *bandit) Step(action int32, obs []byte) (reward float32, end env.End, err error) {
	if b.failStep {
		b.failStep = false
		return 0, 0, errors.New("the lever broke")
	}
	if int(action) == b.right {
		if reward = 1; b.wage != nil {
			reward = *b.wage
		}
	}
	b.right = (b.right + 1) % 3
	b.step++
	if b.step == 4 {
		end = env.Terminated
	}
	b.write(obs)
	return reward, end, nil
}
func (b *bandit) Close() error { return nil }

func bandits(list ...*bandit) func(i int) (env.Env, error) {
	return func(i int) (env.Env, error) { return list[i], nil }
}

// With every optimiser, with one trunk or two, A2C learns the rewarded action of each observation.
func TestLearnsABandit(t *testing.T) {
	for _, edit := range []func(*Config){
		func(*Config) {},
		func(c *Config) { c.NormalizeAdvantage, c.GAELambda = true, .95 },
		func(c *Config) { c.UseRMSProp = false },
		func(c *Config) {
			c.RMSPropEpsInside, c.RMSPropFirst, c.RMSPropAlpha, c.LearningRateFinal = true, 1, .9, 0
		},
		func(c *Config) { c.Trunk, c.ActivationFn, c.OrthoInit = "shared", "relu", false },
	} {
		c := small(edit)
		tr := newTrainer(t, c, bandits(&bandit{}, &bandit{}, &bandit{}))
		check(t, tr.Begin(6000, 0))
		check(t, tr.Run(0, 0))
		p := must(tr.Policy())(t)
		actions := make([]int32, 3)
		check(t, p.Act(3, []byte{1, 0, 0, 0, 1, 0, 0, 0, 1}, nil, vec.Actions{Discrete: actions}, nil))
		if s := tr.Stats(); !slices.Equal(actions, []int32{0, 1, 2}) || s.MeanReturn < 3.6 {
			t.Errorf("%+v: actions %v, mean return %g", c, actions, s.MeanReturn)
		}
	}
}

// The number of threads changes no bit; another seed does.
func TestThreadsChangeNoBit(t *testing.T) {
	sums := map[string]bool{}
	for _, c := range []Config{
		small(), small(func(c *Config) { c.NumThreads = 1 }), small(func(c *Config) { c.NumThreads = 4 }),
	} {
		tr := newTrainer(t, c, traintest.MakeWalk(5))
		check(t, tr.Begin(501, 0))
		check(t, tr.Run(0, 0))
		sums[must(tr.Hash("policy"))(t)+must(tr.Hash("rollout"))(t)] = true
	}
	if len(sums) != 1 {
		t.Fatalf("%d results of one seed", len(sums))
	}
	tr := newTrainer(t, small(func(c *Config) { c.Seed = 1 }), traintest.MakeWalk(5))
	check(t, tr.Begin(501, 0))
	check(t, tr.Run(0, 0))
	if sums[must(tr.Hash("policy"))(t)+must(tr.Hash("rollout"))(t)] {
		t.Fatal("another seed gives the same result")
	}
}

// A rollout of resets alone gives no update and no division by 0.
func TestARolloutWithoutStepsGivesNoUpdate(t *testing.T) {
	c := small(func(c *Config) { c.NumEnvs, c.NSteps, c.NormalizeAdvantage = 2, 1, true })
	h := traintest.NewHost(t, configOf(t, c), vec.NextStep, bandits(&bandit{}, &bandit{}))
	h.Begin(t, 1000)
	for range 50 { // ten times four steps and a reset
		h.Round(t)
	}
	check(t, h.Trainer.Settle(0))
	if s := h.Trainer.Stats(); s.Steps != 80 || s.Updates != 40 || s.UpdatesDue != 40 || s.Episodes != 20 {
		t.Fatalf("%+v", s)
	}
}

// An environment that fails leaves a hole in the rollout, and all environments go on.
func TestAFailingEnvironmentLeavesAHole(t *testing.T) {
	for _, inReset := range []bool{false, true} {
		list := []*bandit{{}, {}, {}}
		tr := newTrainer(t, small(), bandits(list...))
		check(t, tr.Begin(3000, 0))
		check(t, tr.Run(21, 0)) // seven rounds: inside a rollout, before the end of an episode
		want := int64(24)
		if list[1].failReset = inReset; !inReset {
			list[1].failStep = true
			want-- // its step is not counted
		}
		err := tr.Run(3, 0)
		if e := (*env.Error)(nil); !errors.As(err, &e) || e.Index != 1 {
			t.Fatalf("%v, want environment 1's failure", err)
		}
		if s := tr.Stats(); s.Steps != want || inReset && s.Episodes != 6 {
			t.Fatalf("in reset: %v: %+v, want %d steps", inReset, s, want)
		}
		check(t, tr.Run(0, 0))
		if s := tr.Stats(); s.MeanReturn < 3 {
			t.Errorf("in reset: %v: mean return %g afterwards", inReset, s.MeanReturn)
		}
	}
}

// A loss that is not finite is an error with its step, and changes no parameter. After a write of
// the parameters or in a new run training goes on.
func TestALossThatIsNotFiniteChangesNoParameter(t *testing.T) {
	for _, heal := range []string{"set", "begin"} {
		wage := float32(1)
		tr := newTrainer(t, small(), bandits(&bandit{wage: &wage}, &bandit{wage: &wage}, &bandit{wage: &wage}))
		check(t, tr.Begin(3000, 0))
		check(t, tr.Run(30, 0))
		weights := make([]float32, tr.ParameterSets()[0].Size)
		must(tr.GetParameters("policy", weights))(t)
		wage = 1e38
		err := tr.Run(30, 0)
		if !errors.Is(err, fault.ErrNotFinite) || !strings.Contains(err.Error(), "at step 45 (update 3)") {
			t.Fatal(err)
		}
		if err := tr.Run(30, 0); !errors.Is(err, fault.ErrNotFinite) {
			t.Fatalf("%v, want the same again", err)
		}
		after := make([]float32, len(weights))
		if u := must(tr.GetParameters("policy", after))(t); u != 2 || !slices.Equal(weights, after) {
			t.Fatalf("%d updates; the parameters were spoilt", u)
		}
		path := filepath.Join(t.TempDir(), "a")
		check(t, tr.Save(path, true))
		wage = 1
		if heal == "set" {
			check(t, tr.SetParameters("policy", weights))
		} else {
			check(t, tr.Begin(3000, train.ResetTimesteps))
		}
		check(t, tr.Run(0, 0))
		if s := tr.Stats(); math.IsNaN(s.MeanReturn) || s.MeanReturn < 3 {
			t.Errorf("%s: mean return %g afterwards", heal, s.MeanReturn)
		}
	}
}

// spoilt fails as if its gradient were not finite.
type spoilt struct{ nn.Stepper }

func (spoilt) Update(*nn.Params, nn.Batch, float64, *nn.Report) error {
	return &nn.NotFinite{What: "gradient norm", Value: math.NaN()}
}

// An update whose gradient is not finite ends training with an error that names its step.
func TestAGradientThatIsNotFiniteEndsTraining(t *testing.T) {
	for _, clip := range []float64{0, 0.5} {
		tr := newTrainer(t, small(func(c *Config) { c.MaxGradNorm = clip }), traintest.MakeWalk(1))
		check(t, tr.Begin(300, 0))
		check(t, tr.Run(30, 0))
		before := must(tr.Hash("policy"))(t)
		a := tr.Method().(*A2C)
		a.Stepper = spoilt{a.Stepper}
		if err := tr.Run(0, 0); !errors.Is(err, fault.ErrNotFinite) || !strings.Contains(err.Error(), "gradient norm: NaN at step 45 (update 3)") {
			t.Errorf("max_grad_norm %g: %v", clip, err)
		}
		if after := must(tr.Hash("policy"))(t); after != before {
			t.Errorf("max_grad_norm %g: the parameters were spoilt", clip)
		}
	}
}

// recorder records the learning rate of every update, in thousandths.
type recorder struct {
	nn.Stepper
	rates *[]string
}

func (r recorder) Update(p *nn.Params, b nn.Batch, rate float64, report *nn.Report) error {
	*r.rates = append(*r.rates, fmt.Sprintf("%.4g", 1000*rate))
	return r.Stepper.Update(p, b, rate, report)
}

// The learning rate of an update at step t is that of the remaining progress 1 - t/end, where end
// is that of the latest Begin. The expected values are Stable-Baselines3's, of three slices and a
// new run.
func TestLearningRateFollowsTheRemainingProgress(t *testing.T) {
	tr := newTrainer(t, small(func(c *Config) { c.LearningRate, c.LearningRateFinal = 1e-2, 0 }), traintest.MakeWalk(1))
	a := tr.Method().(*A2C)
	var got, want []string
	a.Stepper = recorder{a.Stepper, &got}
	steps := int64(0)
	for _, run := range []struct {
		length int64
		flags  train.Flags
	}{{300, 0}, {300, 0}, {150, 0}, {75, train.ResetTimesteps}, {15, 0}} {
		if run.flags != 0 {
			steps = 0
		}
		check(t, tr.Begin(run.length, run.flags))
		check(t, tr.Run(0, 0))
		for end := steps + run.length; steps < end; {
			steps += 15
			want = append(want, fmt.Sprintf("%.4g", 10-10*float64(steps)/float64(end)))
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
	// The last run had one update, at its end.
	if said, err := tr.Notice(); err != nil || !strings.HasPrefix(said, "learning_rate: 0 from the first update of this run (step 90) to its last") {
		t.Errorf("%q, %v", said, err)
	}
}

// A network whose means are not finite gives no action to an environment, whoever steps it. After
// other parameters training goes on.
func TestMeansThatAreNotFiniteAreNoActions(t *testing.T) {
	boxed := func(i int) (env.Env, error) {
		e, err := traintest.MakeWalk(1)(i)
		e.(*traintest.Walk).Action = env.ActionSpec{Low: []float32{float32(math.Inf(-1)), -1}, High: []float32{1, 1}}
		return e, err
	}
	own := newTrainer(t, small(), boxed)
	host := traintest.NewHost(t, configOf(t, small()), vec.SameStep, boxed)
	host.Begin(t, 100)
	for tr, act := range map[*train.Trainer]func() error{
		own: func() error { return own.Run(30, 0) }, host.Trainer: host.Act,
	} {
		set := tr.ParameterSets()[0]
		good := make([]float32, set.Size)
		must(tr.GetParameters("policy", good))(t)
		bad := slices.Repeat([]float32{3e38}, set.Size) // sums are infinite, or NaN
		for _, p := range set.Params {
			if p.Name == "action_net.weight" {
				copy(bad[p.Offset:], slices.Repeat([]float32{-3e38}, p.Size))
			}
		}
		check(t, tr.SetParameters("policy", bad))
		if err := act(); err == nil || !regexp.MustCompile(`^environment 0: action\[0\]: (NaN|-Inf), must be finite$`).MatchString(err.Error()) {
			t.Errorf("%v", err)
		}
		check(t, tr.SetParameters("policy", good))
		check(t, act())
	}
}

// A dead layer is reported, with actions of every kind.
func TestDeadUnitsAreReported(t *testing.T) {
	box := []float32{1}
	for name, action := range map[string]env.ActionSpec{
		"discrete": {N: 3}, "a box": {Low: []float32{-1}, High: box}, "branches and a box": {Branches: []int32{3, 2}, Low: box, High: box},
	} {
		t.Run(name, func(t *testing.T) { reportsDeadUnits(t, action) })
	}
}

func reportsDeadUnits(t *testing.T, action env.ActionSpec) {
	tr := newTrainer(t, small(func(c *Config) { c.Device, c.ActivationFn, c.LearningRate = "cpu", "relu", 1e-12 }), func(i int) (env.Env, error) {
		e, err := traintest.MakeWalk(1)(i)
		e.(*traintest.Walk).Action = action
		return e, err
	})
	check(t, tr.Begin(11_000, 0))
	theta := make([]float32, tr.ParameterSets()[0].Size)
	must(tr.GetParameters("policy", theta))(t)
	for _, p := range tr.ParameterSets()[0].Params {
		if p.Name == "mlp_extractor.value_net.0.bias" {
			for k := range p.Size {
				theta[p.Offset+k] = -1e6
			}
		}
	}
	check(t, tr.SetParameters("policy", theta))
	check(t, tr.Run(0, 0))
	shares := map[string]float64{}
	for i := 0; ; i++ {
		m, ok := tr.Metric(i)
		if !ok {
			break
		}
		shares[m.Name] = m.Value
	}
	if pi, v := shares["train/dead_units/mlp_extractor.policy_net.0"], shares["train/dead_units/mlp_extractor.value_net.0"]; !(pi < 1) || v != 1 {
		t.Errorf("%v", shares)
	}
	if said, err := tr.Notice(); err != nil || !strings.HasPrefix(said, "dead units: every unit of mlp_extractor.value_net.0 is 0") {
		t.Errorf("%q, %v", said, err)
	}
	if said, err := tr.Notice(); err != nil || said != "" { // pi depends on the state
		t.Errorf("%q, %v", said, err)
	}
}

// RunRollouts returns at the round that makes the last of its rollouts full, before its update,
// also at the end of the run. The rollout in progress is the first; a new run has none.
func TestRunRollouts(t *testing.T) {
	tr := newTrainer(t, small(), traintest.MakeWalk(3)) // 15 steps are a rollout
	state := func(what string, steps, updates, due int64) {
		t.Helper()
		if s := tr.Stats(); s.Steps != steps || s.Updates != updates || s.UpdatesDue != due {
			t.Errorf("%s: %d steps, %d updates, %d due, want %d, %d, %d", what, s.Steps, s.Updates, s.UpdatesDue, steps, updates, due)
		}
	}
	check(t, tr.Begin(60, 0))
	check(t, tr.RunRollouts(0, 6, 0))
	state("no limit", 6, 0, 0)
	check(t, tr.RunRollouts(2, 0, 0))
	state("two rollouts, the first in progress", 30, 1, 2)
	check(t, tr.RunRollouts(1, 4, 0))
	state("fewer steps than a rollout", 36, 2, 2)
	if err := tr.RunRollouts(-1, 0, 0); err == nil || err.Error() != "max_rollouts: -1, must be at least 0" {
		t.Error(err)
	}
	check(t, tr.RunRollouts(2, 0, 0))
	state("the end of the run", 60, 3, 4)
	check(t, tr.Settle(0))
	state("settled", 60, 4, 4)
	check(t, tr.RunRollouts(0, 6, 0))
	check(t, tr.Begin(60, train.ResetTimesteps))
	check(t, tr.RunRollouts(1, 0, 0))
	state("a new run", 15, 4, 5)
	check(t, tr.RunRollouts(5, 0, 0))
	state("fewer rollouts than asked for", 60, 8, 8)
}
