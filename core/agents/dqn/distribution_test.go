package dqn

import (
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

// categorical and quantile are CartPole with distributions of its returns.
func categorical(c *Config) {
	c.Distribution, c.NAtoms, c.VMin, c.VMax = Categorical, 21, 0, 100
}

func quantile(c *Config) { c.Distribution, c.NQuantiles = Quantile, 16 }

func implicit(c *Config) {
	c.Distribution, c.NTau, c.NTauTarget, c.NTauAct, c.NCosines, c.NetArch = Implicit, 8, 6, 5, 16, []int{32, 16}
}

func TestBadHeadsAreRefused(t *testing.T) {
	for want, edit := range map[string]func(*Config){
		"v_min: 10, must be below v_max (10)": func(c *Config) { categorical(c); c.VMin, c.VMax = 10, 10 },
		"v_max: 1.000001e+06, must be above v_min (1e+06) by at least 1000.001, a thousandth of the larger of": func(c *Config) { categorical(c); c.VMin, c.VMax = 1e6, 1e6+1 },
		"v_max: -999.5, must be above v_min (-1000) by at least 1, a thousandth of the larger of":              func(c *Config) { categorical(c); c.VMin, c.VMax = -1000, -999.5 },
		"dueling_rescaled: true, must be false where dueling is false":                                         func(c *Config) { c.DuelingRescaled = true },
		`distribution: "normal", must be none, categorical, quantile`:                                          func(c *Config) { c.Distribution = "normal" },
		"net_arch: [32], must be at least two widths where distribution is implicit":                           func(c *Config) { implicit(c); c.NetArch = []int{32} },
		"n_tau: 0, must be 1 to 512":                                        func(c *Config) { implicit(c); c.NTau = 0 },
		"n_tau_target: 513, must be 1 to 512":                               func(c *Config) { implicit(c); c.NTauTarget = 513 },
		"n_tau_act: 0, must be 1 to 512":                                    func(c *Config) { implicit(c); c.NTauAct = 0 },
		"n_cosines: 1025, must be 1 to 1024":                                func(c *Config) { implicit(c); c.NCosines = 1025 },
		"batch_size: 8192, must be at most 5957 with these numbers of taus": func(c *Config) { implicit(c); c.BatchSize, c.BufferSize = 8192, 10_000 },
		"n_atoms: 1, must be 2 to 1024":                                     func(c *Config) { categorical(c); c.NAtoms = 1 },
		"n_quantiles: 0, must be 1 to 1024":                                 func(c *Config) { quantile(c); c.NQuantiles = 0 },
	} {
		d, err := newTrial(cartpole(edit), nil)
		if err == nil {
			d.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	c := cartpole(categorical, func(c *Config) { c.Loss, c.VMin, c.VMax = "squared", 9.99, 10 }) // the narrowest
	said, err := c.Resolve()
	if err != nil || !slices.Contains(said, "loss: squared is not used where distribution is categorical") {
		t.Errorf("%q, %v", said, err)
	}
}

// The error of a head that is too wide names the setting of its distribution.
func TestDistributionsTooWideForTheActionsAreRefused(t *testing.T) {
	taus := func(n, target, act int) func(*Config) {
		return func(c *Config) { implicit(c); c.NTau, c.NTauTarget, c.NTauAct = n, target, act }
	}
	double := func(c *Config) { c.DoubleQ = true }
	for _, c := range []struct {
		actions int
		edits   []func(*Config)
		want    string // "": it is allowed
	}{
		{64, []func(*Config){quantile, func(c *Config) { c.NQuantiles = 1024 }}, ""},
		{65, []func(*Config){quantile, func(c *Config) { c.NQuantiles = 1024 }}, "n_quantiles: 1024, must be at most 1008 where an environment has 65 actions"},
		{100, []func(*Config){categorical, func(c *Config) { c.NAtoms = 656 }}, "n_atoms: 656, must be at most 655 where an environment has 100 actions"},
		{32768, []func(*Config){categorical, func(c *Config) { c.NAtoms = 2 }}, ""},
		{32769, []func(*Config){categorical, func(c *Config) { c.NAtoms = 2 }}, "distribution: categorical, must be none or quantile where an environment has 32769 actions, more than 32768"},
		{200, []func(*Config){taus(512, 64, 32)}, "n_tau: 512, must be at most 327 where an environment has 200 actions"},
		{200, []func(*Config){taus(64, 328, 32)}, "n_tau_target: 328, must be at most 327 where an environment has 200 actions"},
		{200, []func(*Config){taus(64, 64, 328)}, "n_tau_act: 328, must be at most 327 where an environment has 200 actions"},
		{200, []func(*Config){taus(64, 320, 8)}, "n_tau_target: 320 and n_tau_act: 8, must be at most 327 together where an environment has 200 actions"},
		{40_000, []func(*Config){taus(1, 1, 1)}, "double_q: false, must be true with distribution implicit where an environment has 40000 actions"},
		{40_000, []func(*Config){taus(1, 1, 1), double}, ""},
		{200, []func(*Config){taus(327, 327, 8), double}, ""},
		{200, []func(*Config){taus(327, 319, 8)}, ""},
		{200, []func(*Config){taus(327, 319, 8), munchausen}, ""},
	} {
		d, err := newTrial(cartpole(append(c.edits, func(c *Config) { c.Env = "" })...), func(i int) (env.Env, error) {
			e, err := traintest.MakeWalk(2)(i)
			e.(*traintest.Walk).Action = env.ActionSpec{N: c.actions}
			return e, err
		})
		if err == nil {
			d.Close()
		}
		if (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// A GPU that the caller names is refused before it is opened.
func TestGPURefusesSettingsOfTheCPU(t *testing.T) {
	images := func(cnn string) func(*Config) {
		return func(c *Config) { c.Env, c.Policy, c.CNN = "Catch-v0", train.PolicyCNN, cnn }
	}
	for want, edit := range map[string]func(*Config){
		"distribution: quantile, must be none on cuda:1; the device cpu computes it": quantile,
		"distribution: implicit, must be none on cuda:1; the device cpu computes it": implicit,
		"dueling: true, must be false on cuda:1; the device cpu computes it":         func(c *Config) { c.Dueling = true },
		"munchausen: true, must be false on cuda:1; the device cpu computes it":      munchausen,
		"noisy: true, must be false on cuda:1; the device cpu computes it":           noisy,
		"outliers: 3, must be 0 on cuda:1; the device cpu computes it":               func(c *Config) { c.Outliers = 3 },
		"learners: 2, must be 0 on cuda:1; the device cpu computes it":               func(c *Config) { c.Learners = 2 },
		"cnn: dopamine, must be another on cuda:1; the device cpu computes it":       images(Dopamine),
		"cnn: der, must be another on cuda:1; the device cpu computes it":            images(DER),
	} {
		d, err := newTrial(cartpole(edit, func(c *Config) { c.Device = "cuda:1" }), nil)
		if err == nil {
			d.Close()
		}
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// The loss, the target and the head of each setting go together, with priorities too.
func TestDistributionsOfSettings(t *testing.T) {
	for _, c := range []struct {
		edit   func(*Config)
		loss   nn.Loss
		target nn.Target
		head   nn.Head
	}{
		{func(c *Config) {}, nn.TD{Kind: "huber", Reduction: "mean"}, nn.MaxQ{}, nn.Head{Name: "q", Out: 2}},
		// dqn_zoo clips the weighted gradient of a row, the others weight the loss.
		{func(c *Config) { c.Prioritized = "dqn_zoo" }, nn.TD{Kind: "huber", Reduction: "mean", Importance: "gradient"}, nn.MaxQ{}, nn.Head{Name: "q", Out: 2}},
		{func(c *Config) { c.Prioritized, c.Loss = "dqn_zoo", "squared" }, nn.TD{Kind: "squared", Reduction: "mean", Importance: "loss"}, nn.MaxQ{}, nn.Head{Name: "q", Out: 2}},
		{func(c *Config) { c.Prioritized = "dopamine" }, nn.TD{Kind: "huber", Reduction: "mean", Importance: "loss"}, nn.MaxQ{}, nn.Head{Name: "q", Out: 2}},
		{categorical, nn.CrossEntropy{Reduction: "mean"}, nn.Projected{}, nn.Head{Name: "q", Out: 2, Atoms: 21, Max: 100}},
		{func(c *Config) { categorical(c); c.LeastProb = 1e-6 }, nn.CrossEntropy{Reduction: "mean", LeastProb: 1e-6}, nn.Projected{}, nn.Head{Name: "q", Out: 2, Atoms: 21, Max: 100}},
		{func(c *Config) { categorical(c); c.Prioritized, c.DoubleQ = "stooke_abbeel", true }, nn.CrossEntropy{Reduction: "mean", Importance: "loss", Divergence: true},
			nn.Projected{Double: true}, nn.Head{Name: "q", Out: 2, Atoms: 21, Max: 100}},
		{func(c *Config) { categorical(c); c.Prioritized = "dqn_zoo" }, nn.CrossEntropy{Reduction: "mean", Importance: "loss"}, nn.Projected{}, nn.Head{Name: "q", Out: 2, Atoms: 21, Max: 100}},
		{func(c *Config) {
			quantile(c)
			c.Kappa, c.LossReduction, c.DoubleQ, c.Dueling, c.DuelingRescaled = 0.5, "sum", true, true, true
		}, nn.QuantileHuber{Kappa: 0.5, Reduction: "sum"}, nn.Quantile{Double: true}, nn.Head{Name: "q", Out: 2, Quantiles: 16, Dueling: true, Rescaled: true}},
		{func(c *Config) { implicit(c); c.Kappa, c.DoubleQ = 0.5, true }, nn.ImplicitHuber{Taus: 8, Targets: 6, Kappa: 0.5, Reduction: "mean"},
			nn.Implicit{Double: true, Taus: 6, Choosing: 5}, nn.Head{Name: "q", Out: 2, Cosines: 16, Taus: 5}},
		{func(c *Config) { implicit(c); c.Prioritized, c.Dueling = "dopamine", true }, nn.ImplicitHuber{Taus: 8, Targets: 6, Kappa: 1, Reduction: "mean", Importance: "loss"},
			nn.Implicit{Taus: 6, Choosing: 5}, nn.Head{Name: "q", Out: 2, Cosines: 16, Taus: 5, Dueling: true}},
		{func(c *Config) { quantile(c); c.Prioritized = "dopamine" }, nn.QuantileHuber{Kappa: 1, Reduction: "mean", Importance: "loss"}, nn.Quantile{}, nn.Head{Name: "q", Out: 2, Quantiles: 16}},
	} {
		d := newDQN(t, cartpole(c.edit))
		of := d.Config()
		run := must(of.Struct().(*Config).run(&train.Setup{Config: of.Struct().(train.Settings), Common: of.Common(), Spec: *d.Spec(), Device: cpu(t)}))(t)
		h := run.Net.Heads[0]
		same := h.Name == c.head.Name && h.Out == c.head.Out && h.Atoms == c.head.Atoms && h.Max == c.head.Max && h.Quantiles == c.head.Quantiles && h.Cosines == c.head.Cosines && h.Taus == c.head.Taus && h.Dueling == c.head.Dueling && h.Rescaled == c.head.Rescaled
		if run.Loss != c.loss || run.Target != c.target || !same {
			t.Errorf("loss %#v, target %#v, head %+v; want %#v, %#v, %+v", run.Loss, run.Target, h, c.loss, c.target, c.head)
		}
		if p := run.Priorities; p != nil && p.Distributions != (h.Points() > 1) {
			t.Errorf("%+v for the head %+v", *p, h)
		}
	}
}

// The columns of targets and the logits are counted.
func TestMemoryOfDistributionsIsCounted(t *testing.T) {
	total := func(edit func(*Config)) (sum int64) {
		d := newDQN(t, cartpole(edit))
		c := d.Config()
		for _, a := range must(memoryOf(&train.Setup{Config: c.Struct().(train.Settings), Common: c.Common(), Spec: *d.Spec(), Device: cpu(t)}))(t) {
			sum += a.Bytes
		}
		return sum
	}
	plain := total(func(c *Config) {})
	// For each row: the logits and their gradient, the target network's logits, the column.
	if got, least := total(categorical), plain+4*16*(3*2*21+21); got < least {
		t.Errorf("%d bytes, must be at least %d", got, least)
	}
	few := total(implicit)
	many := total(func(c *Config) { implicit(c); c.NTau, c.NTauTarget, c.NTauAct = 16, 12, 10 })
	// For each further tau of a row: cosines, embedding, product, last layer and quantiles.
	if least := few + 4*16*(8+6+5)*(16+2*32+16+2); many < least {
		t.Errorf("%d bytes with more taus, must be at least %d", many, least)
	}
}

// A short run learns to balance with every head. A random policy has a mean return of about 22.
func TestDistributionsLearn(t *testing.T) {
	trains(t)
	for name, edits := range map[string][]func(*Config){
		"categorical":          {categorical},
		"quantile":             {quantile},
		"implicit":             {implicit},
		"dueling":              {func(c *Config) { c.Dueling = true }},
		"categorical, dueling": {categorical, func(c *Config) { c.Dueling, c.DuelingRescaled, c.DoubleQ = true, true, true }},
		"quantile, priorities": {quantile, func(c *Config) { c.Prioritized, c.NSteps = "dopamine", 3 }},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDQN(t, cartpole(append(edits, func(c *Config) {
				c.NumEnvs, c.NetArch, c.BatchSize, c.BufferSize, c.LearningStarts = 8, []int{64, 64}, 32, 10_000, 500
				c.ExplorationSteps, c.TargetUpdateInterval = 4000, 192
			})...))
			check(t, d.Run(12_000, 0))
			p := must(d.Policy())(t)
			e := must(p.Evaluate("CartPole-v1", nil, policy.EvalOptions{Episodes: 20, Seed: 1}))(t)
			if t.Logf("mean return %v", e.MeanReturn); e.MeanReturn < 60 {
				t.Errorf("mean return %v, must be at least 60", e.MeanReturn)
			}
		})
	}
}
