package dqn

import (
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/vec"
)

func noisy(c *Config) { c.Noisy.Noisy, c.ExplorationInitial, c.ExplorationFinal = true, 0, 0 }

func TestBadNoiseIsRefused(t *testing.T) {
	for want, edit := range map[string]func(*Config){
		"noisy: true, must be false where synchronized is false: the environments of a round share its noise": func(c *Config) { c.Synchronized = false },
		"noisy: true, must be false where learners is 2":                                                      func(c *Config) { c.NumEnvs, c.Learners = 2, 2 },
		"noisy_sigma: 0, must be 1e-06 to 1000":                                                               func(c *Config) { c.NoisySigma = 0 },
	} {
		d, err := newTrial(cartpole(noisy, edit), nil)
		if err == nil {
			d.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// With epsilon 0 every action is the best one of the acting parameters with the noise of the round,
// which is drawn for the step at which the round begins.
func TestEveryRoundActsWithNoiseOfItsOwn(t *testing.T) {
	for _, actor := range []string{ActorOnline, ActorTarget, ActorSnapshot} {
		for _, mode := range []vec.Autoreset{vec.SameStep, vec.NextStep} {
			c := cartpole(noisy, func(c *Config) {
				c.NumEnvs, c.Seed, c.LearningStarts, c.BatchSize, c.TrainFreq, c.Actor = 3, 5, 12, 4, 6, actor
				c.Window, c.TargetUpdateInterval, c.NoisySigma = 30, 30, 2
				c.Concurrent = settings.SwitchOf(actor != ActorOnline)
			})
			h := newHost(t, c, mode, makeWalks(2, false))
			h.Begin(t, 300)
			net := must(cpu(t).Network(h.d.m.cfg.network(*h.d.Spec()), 1))(t)
			from := map[string]*nn.Params{ActorOnline: h.d.m.Theta, ActorTarget: h.d.m.ThetaMinus, ActorSnapshot: h.d.m.Snapshot}[actor]
			noise, with, differ := must(h.d.m.cfg.network(*h.d.Spec()).NewNoise())(t), from.Clone(), 0
			for range 60 {
				check(t, h.Act())
				if h.d.m.Clock.Warm {
					noise.Draw(rng.New(5, "noise act", int(h.d.m.Clock.UpdatesBefore<<32+h.d.m.Clock.T)))
					noise.Apply(with, from)
					if !slices.Equal(with.Host(), h.d.m.Samplers.Acting.Host()) {
						t.Fatalf("%s, t %d: other parameters act", actor, h.d.m.Clock.T)
					}
					for i, a := range h.Actions.Discrete {
						obs := h.Rows.Obs[8*i : 8*i+8]
						if resets := mode == vec.NextStep && h.Rows.Ends[i] != 0; resets {
							continue
						}
						if best := nn.Argmax(qValues(t, net, with, obs), nil); a != best {
							t.Fatalf("%s, t %d: action %d, want %d", actor, h.d.m.Clock.T, a, best)
						}
						if a != nn.Argmax(qValues(t, net, from, obs), nil) {
							differ++
						}
					}
				}
				check(t, h.Vec.Step(h.Actions, h.Rows))
				check(t, h.Observe())
			}
			if differ == 0 {
				t.Errorf("%s: the noise changed no action", actor)
			}
		}
	}
}

// Each outside learner has noise of its own, in its actions and in its updates. Learner 0 has that
// of a run without learners, and a checkpoint that another learner loads changes neither.
func TestOutsideLearnersHaveNoiseOfTheirOwn(t *testing.T) {
	learner := func(k, of int) *trial {
		return newDQN(t, cartpole(noisy, func(c *Config) {
			c.Concurrent, c.Clock, c.Updates, c.OutsideLearners, c.OutsideLearner = settings.Off, clockUpdates, "outside", of, k
			c.BatchSize, c.LearningStarts, c.NumEnvs = 1, 4, 1
		}))
	}
	batch := train.Transitions{
		Obs: slices.Repeat([]byte{0, 0, 128, 63}, 4), NextObs: make([]byte, 16), Actions: []int32{1}, // 1 and 0
		Rewards: []float32{1}, Discounts: []float32{1}, Weights: []float32{1},
	}
	noise := func(d *trial) (acting, gradient []float32) {
		d.m.Perturb()
		gradient = make([]float32, d.m.Theta.Layout.Size)
		if info, err := d.GradientOf(gradient, &batch, nil); err != nil || info.State != train.GradientReady {
			t.Fatalf("%+v, %v", info, err)
		}
		return slices.Clone(d.m.Samplers.Acting.Host()), gradient
	}
	alone := learner(0, 1)
	path := t.TempDir() + "/a.paceline"
	check(t, alone.Save(path, true))
	acting, gradient := noise(alone)
	for k := range 2 {
		for _, load := range []bool{false, true} {
			d := learner(k, 2)
			if load {
				check(t, d.Load(path))
			}
			acts, learns := noise(d)
			if slices.Equal(acts, acting) != (k == 0) {
				t.Errorf("learner %d, load %v: acts with the noise of a run alone: %v", k, load, k > 0)
			}
			if slices.Equal(learns, gradient) != (k == 0) {
				t.Errorf("learner %d, load %v: learns with the noise of a run alone: %v", k, load, k > 0)
			}
		}
	}
}

// The policy, its files and evaluation have no noise.
func TestPoliciesHaveNoNoise(t *testing.T) {
	d := newDQN(t, cartpole(noisy))
	check(t, d.Run(600, 0))
	check(t, d.Settle())
	p := must(d.Policy())(t)
	net := d.m.cfg.network(*d.Spec())
	plain := net
	plain.Trunks = slices.Clone(net.Trunks)
	plain.Trunks[0].Noisy = 0
	means := nn.NewParams(must(plain.Layout())(t))
	copy(means.Host(), d.m.Theta.Host())
	with, without := must(cpu(t).Network(net, 1))(t), must(cpu(t).Network(plain, 1))(t)
	obs := make([]byte, 16)
	obs[2], obs[3] = 128, 63 // 1
	want := slices.Clone(qValues(t, without, means, obs))
	if got := qValues(t, with, d.m.Theta, obs); !slices.Equal(got, want) {
		t.Errorf("Q-values %v, without sigmas %v", got, want)
	}
	a, b := must(p.Evaluate("CartPole-v1", nil, policy.EvalOptions{Episodes: 3, Seed: 1}))(t), must(p.Evaluate("CartPole-v1", nil, policy.EvalOptions{Episodes: 3, Seed: 1}))(t)
	if a.MeanReturn != b.MeanReturn {
		t.Errorf("returns %v and %v", a.MeanReturn, b.MeanReturn)
	}
}

// The sigmas learn, and theta-minus is a copy with its sigmas.
func TestSigmasLearn(t *testing.T) {
	d := newDQN(t, cartpole(noisy))
	var first int
	for _, p := range d.m.Theta.Layout.Params {
		if strings.HasSuffix(p.Name, "_sigma") {
			first = p.Offset
			break
		}
	}
	before := slices.Clone(d.m.Theta.Host()[first:])
	check(t, d.Run(800, 0))
	check(t, d.Settle())
	changed := 0
	for i, s := range d.m.Theta.Host()[first:] {
		if s != before[i] {
			changed++
		}
	}
	if changed < len(before)/2 {
		t.Errorf("%d of %d sigmas have changed", changed, len(before))
	}
}

// The sets with noise are counted: that of acting, and two or three of an update.
func TestMemoryOfNoiseIsCounted(t *testing.T) {
	total := func(edits ...func(*Config)) (sum int64, size int) {
		d := newDQN(t, cartpole(edits...))
		c := d.Config()
		for _, a := range must(memoryOf(&train.Setup{Config: c.Struct().(train.Settings), Common: c.Common(), Spec: *d.Spec(), Device: cpu(t)}))(t) {
			sum += a.Bytes
		}
		return sum, d.m.Theta.Layout.Size
	}
	plain, few := total()
	with, many := total(noisy)
	if least := plain + int64(4*(3*many+6*(many-few))); with < least {
		t.Errorf("%d bytes, without noise %d, must be at least %d", with, plain, least)
	}
}

func TestNoiseLearns(t *testing.T) {
	trains(t)
	for name, edits := range map[string][]func(*Config){
		"noisy":   {noisy},
		"Rainbow": {noisy, categorical, func(c *Config) { c.Prioritized, c.NSteps, c.DoubleQ, c.Dueling = "dqn_zoo", 3, true, true }},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDQN(t, cartpole(append(edits, func(c *Config) {
				c.NumEnvs, c.NetArch, c.BatchSize, c.BufferSize, c.LearningStarts = 8, []int{64, 64}, 32, 10_000, 500
				c.TargetUpdateInterval = 192
			})...))
			check(t, d.Run(12_000, 0))
			e := must(must(d.Policy())(t).Evaluate("CartPole-v1", nil, policy.EvalOptions{Episodes: 20, Seed: 1}))(t)
			if t.Logf("mean return %v", e.MeanReturn); e.MeanReturn < 60 {
				t.Errorf("mean return %v, must be at least 60", e.MeanReturn)
			}
		})
	}
}
