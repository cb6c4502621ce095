package dqn

import (
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

func munchausen(c *Config) { c.Munchausen.Munchausen = true }

func TestBadMunchausenIsRefused(t *testing.T) {
	for want, edit := range map[string]func(*Config){
		"double_q: true, must be false where munchausen is true: a target has the expectation over all actions, and no action is chosen": func(c *Config) { c.DoubleQ = true },
		"distribution: categorical, must be none, quantile or implicit where munchausen is true":                                         categorical,
		"munchausen_alpha: 2, must be 0 to 1":     func(c *Config) { c.MunchausenAlpha = 2 },
		"munchausen_tau: 0, must be 1e-06 to":     func(c *Config) { c.MunchausenTau = 0 },
		"munchausen_clip: 1, must be -1e+09 to 0": func(c *Config) { c.MunchausenClip = 1 },
	} {
		d, err := newTrial(cartpole(munchausen, edit), nil)
		if err == nil {
			d.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// The target of the settings goes with both losses and with priorities, and has the settings'
// numbers.
func TestMunchausenOfSettings(t *testing.T) {
	for _, edits := range [][]func(*Config){
		{munchausen}, {munchausen, quantile}, {munchausen, implicit}, {munchausen, func(c *Config) { c.Prioritized, c.NSteps, c.Dueling = "dqn_zoo", 3, true }},
		{munchausen, func(c *Config) { c.MunchausenAlpha, c.MunchausenTau, c.MunchausenClip = 0.5, 0.1, -2 }},
	} {
		d := newDQN(t, cartpole(edits...))
		of := d.Config()
		c := of.Struct().(*Config)
		run := must(c.run(&train.Setup{Config: c, Common: of.Common(), Spec: *d.Spec(), Device: cpu(t)}))(t)
		want := nn.Munchausen{Alpha: c.MunchausenAlpha, Tau: c.MunchausenTau, Least: c.MunchausenClip}
		if c.Distribution == Implicit {
			want.Taus, want.Choosing = 6, 5
		}
		if run.Target != want {
			t.Errorf("target %#v, want %#v", run.Target, want)
		}
	}
	if d := DefaultConfig(); d.MunchausenAlpha != 0.9 || d.MunchausenTau != 0.03 || d.MunchausenClip != -1 {
		t.Errorf("defaults %+v", d.Munchausen)
	}
}

// watched calls see with the minibatch of every update.
type watched struct {
	nn.QStepper
	see func(t *experience.Transitions)
}

func (w *watched) Update(theta, target *nn.Params, t *experience.Transitions, lr float64, r *nn.Report) error {
	w.see(t)
	return w.QStepper.Update(theta, target, t, lr, r)
}

// The masks of a minibatch are those of its observations, and over n steps those of the first and
// of the last. The masks of a walk are a function of its observation.
func TestMinibatchesHaveTheMasksOfObservations(t *testing.T) {
	for _, n := range []int{1, 3} {
		d := must(newTrial(cartpole(munchausen, func(c *Config) {
			c.Env, c.NSteps, c.NumEnvs, c.Concurrent, c.LearningStarts, c.BatchSize, c.TrainFreq = "", n, 3, settings.Off, 60, 16, 8
		}), makeWalks(2, true)))(t)
		defer d.Close()
		forbidden, rows := 0, 0
		d.m.Updates.Wrap(func(s nn.QStepper) nn.QStepper {
			return &watched{s, func(x *experience.Transitions) {
				for i := range x.Actions {
					masks, next := x.Masks[3*i:3*i+3], x.NextMasks[3*i:3*i+3]
					if !slices.Equal(masks, traintest.WalkMask(x.Obs[8*i:8*i+8])) || masks[x.Actions[i]] == 0 {
						t.Errorf("masks %v of %v, action %d", masks, x.Obs[8*i:8*i+8], x.Actions[i])
					}
					if want := traintest.WalkMask(x.NextObs[8*i : 8*i+8]); x.Discounts[i] > 0 && !slices.Equal(next, want) {
						t.Errorf("next masks %v, want %v", next, want)
					}
					if rows++; slices.Contains(masks, 0) {
						forbidden++
					}
				}
			}}
		}, nil)
		check(t, d.Begin(400, 0))
		check(t, d.Run(0, 0))
		if rows == 0 || forbidden == 0 {
			t.Errorf("%d of %d rows forbid an action", forbidden, rows)
		}
	}
}

// Transitions of the host come without the masks of their observations.
func TestMunchausenRefusesTransitionsWithoutMasks(t *testing.T) {
	d := must(newTrial(cartpole(munchausen, func(c *Config) { c.Env = "" }), makeWalks(2, true)))(t)
	defer d.Close()
	err := d.AddTransitions(&train.Transitions{Obs: make([]byte, 8), NextObs: make([]byte, 8), Actions: []int32{1}, Rewards: []float32{1}, Terminated: []bool{false}, NextMasks: []byte{1, 1, 1}})
	if err == nil || !strings.HasPrefix(err.Error(), "munchausen: true, no transitions can be added where environments have action masks") {
		t.Errorf("%v", err)
	}
}

// A minibatch of another replay memory comes without the masks of its observations, too. It is
// taken where actions have no masks, and where the target needs none of the observations.
func TestMunchausenRefusesMinibatchesWithoutMasks(t *testing.T) {
	for _, c := range []struct{ munchausen, masks bool }{{true, true}, {true, false}, {false, true}} {
		d := must(newTrial(cartpole(func(cfg *Config) {
			cfg.Env, cfg.Concurrent, cfg.Clock, cfg.Updates, cfg.BatchSize = "", settings.Off, clockUpdates, "outside", 1
			cfg.Munchausen.Munchausen = c.munchausen
		}), makeWalks(2, c.masks)))(t)
		defer d.Close()
		batch := train.Transitions{
			Obs: make([]byte, 8), NextObs: make([]byte, 8), Actions: []int32{1},
			Rewards: []float32{1}, Discounts: []float32{1}, Weights: []float32{1},
		}
		if c.masks {
			batch.NextMasks = []byte{1, 1, 1}
		}
		info, err := d.GradientOf(make([]float32, d.m.Theta.Layout.Size), &batch, nil)
		switch {
		case c.munchausen && c.masks:
			if err == nil || !strings.HasPrefix(err.Error(), "munchausen: true, must be false for gradient_of where environments have action masks") {
				t.Errorf("%v", err)
			}
		case err != nil || info.State != train.GradientReady:
			t.Errorf("%+v: %+v, %v", c, info, err)
		}
	}
}

// The second forward pass and the masks are counted.
func TestMemoryOfMunchausenIsCounted(t *testing.T) {
	total := func(edits ...func(*Config)) (sum int64) {
		d := must(newTrial(cartpole(append(edits, func(c *Config) { c.Env = "" })...), makeWalks(2, true)))(t)
		defer d.Close()
		c := d.Config()
		for _, a := range must(memoryOf(&train.Setup{Config: c.Struct().(train.Settings), Common: c.Common(), Spec: *d.Spec(), Device: cpu(t)}))(t) {
			sum += a.Bytes
		}
		return sum
	}
	for name, head := range map[string]func(*Config){"mean": func(*Config) {}, "implicit": implicit} {
		plain, double, soft := total(head), total(head, func(c *Config) { c.DoubleQ = true }), total(head, munchausen)
		if double <= plain || soft <= double {
			t.Errorf("%s: %d bytes, with double_q %d, with munchausen %d", name, plain, double, soft)
		}
	}
}

func TestMunchausenLearns(t *testing.T) {
	trains(t)
	for name, edits := range map[string][]func(*Config){
		"mean": {munchausen}, "implicit": {munchausen, implicit}, "quantile, three steps": {munchausen, quantile, func(c *Config) { c.NSteps = 3 }},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDQN(t, cartpole(append(edits, func(c *Config) {
				c.NumEnvs, c.NetArch, c.BatchSize, c.BufferSize, c.LearningStarts = 8, []int{64, 64}, 32, 10_000, 500
				c.ExplorationSteps, c.TargetUpdateInterval = 4000, 192
			})...))
			check(t, d.Run(12_000, 0))
			e := must(must(d.Policy())(t).Evaluate("CartPole-v1", nil, policy.EvalOptions{Episodes: 20, Seed: 1}))(t)
			if t.Logf("mean return %v", e.MeanReturn); e.MeanReturn < 60 {
				t.Errorf("mean return %v, must be at least 60", e.MeanReturn)
			}
		})
	}
}
