package nntest

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rng"
)

func (on *suite) testGradientAgainstFiniteDifferences(t *testing.T) {
	cnn := SmallNature()
	cnn.Obs.Shape = []int{1, 36, 36}
	raw := func(s nn.Spec) nn.Spec { s.RawImages = true; return s }
	vector, bytes := func(shape ...int) env.ObsSpec { return env.ObsSpec{DType: env.Float32, Shape: shape} }, func(shape ...int) env.ObsSpec { return env.ObsSpec{Shape: shape} }
	mlp := func(activation string, hidden ...int) nn.Trunk {
		return nn.Trunk{Arch: "mlp", Hidden: append([]int{}, hidden...), Activation: activation}
	}
	tds := []nn.Loss{nn.TD{Kind: "huber", Reduction: "mean"}, nn.TD{Kind: "huber", Reduction: "sum"}, nn.TD{Kind: "squared", Reduction: "mean"}, nn.TD{Kind: "squared", Reduction: "sum"},
		nn.TD{Kind: "squared", Reduction: "mean", Weighted: true, Scale: 0.5}, nn.TD{Kind: "huber", Reduction: "sum", Weighted: true},
		nn.TD{Kind: "huber", Reduction: "mean", Importance: nn.ImportanceLoss}, nn.TD{Kind: "huber", Reduction: "mean", Importance: nn.ImportanceError}, nn.TD{Kind: "squared", Reduction: "sum", Importance: nn.ImportanceError}}
	plus, most := nn.ActorCritic{EntropyCoef: 0.1, ValueCoef: 0.25, Regulariser: nn.RegulariserPlus, LogEps: 0.01}, nn.ActorCritic{EntropyCoef: 0.2, ValueCoef: 0.25, Regulariser: nn.RegulariserMax, LogEps: 0.3}
	acs := []nn.Loss{nn.ActorCritic{EntropyCoef: 0, ValueCoef: 0.5}, nn.ActorCritic{EntropyCoef: 0.1, ValueCoef: 0.25}, nn.PPO{EntropyCoef: 0.1, ValueCoef: 0.25, Largest: false}, nn.PPO{EntropyCoef: 0.1, ValueCoef: 0.25, Largest: true}}
	crosses := []nn.Loss{nn.CrossEntropy{Reduction: "mean"}, nn.CrossEntropy{Reduction: "sum", Importance: nn.ImportanceLoss}}
	hubers := []nn.Loss{nn.QuantileHuber{Kappa: 1, Reduction: "mean"}, nn.QuantileHuber{Kappa: 0.3, Reduction: "sum", Importance: nn.ImportanceLoss}}
	taus := []nn.Loss{nn.ImplicitHuber{Taus: 4, Targets: 6, Kappa: 1, Reduction: "mean"}, nn.ImplicitHuber{Taus: 5, Targets: 1, Kappa: 0.3, Reduction: "sum", Importance: nn.ImportanceLoss}}
	for _, c := range []struct {
		name   string
		spec   nn.Spec
		batch  int
		losses []nn.Loss
	}{
		{"mlp", SmallMLP(), 9, tds}, {"one row", SmallMLP(), 1, tds},
		{"bytes", QSpec(bytes(3), 2, mlp("", 4)), 5, tds}, {"image", QSpec(bytes(1, 2, 3), 2, mlp("relu", 1)), 4, tds},
		{"linear", QSpec(vector(2, 2), 1, mlp("")), 3, tds}, {"linear one row", QSpec(vector(2, 2), 1, mlp("")), 1, tds},
		{"linear bytes", QSpec(bytes(2, 2), 2, mlp("")), 6, tds}, {"cnn", cnn, 2, tds[1:2]},
		{"two trunks", TwoMLPs(), 9, acs}, {"two trunks, one row", TwoMLPs(), 1, acs},
		{"one trunk", ActorCritic(vector(5), 3, mlp("tanh", 6, 5)), 7, append(acs, plus, most)}, {"one trunk of bytes", ActorCritic(bytes(5), 2, mlp("relu", 4)), 7, acs},
		{"two linear heads", ActorCritic(vector(4), 3, mlp("")), 6, acs}, {"two trunks of images, one linear", ActorCritic(bytes(1, 3, 3), 3, mlp("tanh", 4), mlp("")), 6, acs},
		{"raw image", raw(QSpec(bytes(1, 2, 3), 2, mlp("relu", 1))), 4, tds[1:2]}, {"raw cnn", raw(QSpec(bytes(1, 20, 20), 2, nn.Trunk{Arch: "small_cnn"})), 2, tds[1:2]},
		{"norm", WithNorm(SmallMLP(), "layer_channels"), 5, tds[:1]}, {"norm, one row", WithNorm(SmallMLP(), "layer_all"), 1, tds[2:3]}, {"norm of two trunks", WithNorm(TwoMLPs(), "layer_all"), 4, acs[1:]},
		{"norm of bytes", WithNorm(QSpec(bytes(3), 2, mlp("", 6)), "layer_channels"), 3, tds[:1]}, {"norm of nothing", WithNorm(QSpec(vector(2, 2), 1, mlp("")), "layer_all"), 3, tds[:1]},
		{"norm of a cnn's channels", WithNorm(cnn, "layer_channels"), 2, tds[1:2]}, {"norm of a cnn", WithNorm(cnn, "layer_all"), 2, tds[1:2]},
		{"norm of one cnn", WithNorm(OneCNN(), "layer_all"), 3, acs[1:]}, {"norm of one cnn's channels", WithNorm(OneCNN(), "layer_channels"), 3, acs[1:]},
		{"branches", Policies()[0], 7, acs}, {"Gaussians", Policies()[1], 7, acs}, {"branches and Gaussians", Policies()[2], 7, append(acs, plus, most)}, {"one trunk of both", Policies()[3], 7, acs},
		{"norm of Gaussians", WithNorm(Policies()[1], "layer_all"), 4, acs[1:]}, {"Gaussians on one cnn", WithPolicy(OneCNN(), nil, 2), 3, acs[1:]},
		{"atoms", Distributions()[0], 6, crosses}, {"atoms, one row", Distributions()[0], 1, crosses}, {"atoms on a cnn", Distributions()[1], 2, crosses[:1]},
		{"quantiles", Distributions()[2], 6, hubers}, {"quantiles, one row", Distributions()[2], 1, hubers}, {"quantiles on a norm", WithNorm(Distributions()[2], "layer_all"), 3, hubers[:1]},
		{"dueling", Duels()[0], 5, tds[:1]}, {"linear dueling", Duels()[1], 5, tds[:1]}, {"dueling on a norm", Duels()[2], 3, tds[:1]},
		{"dueling atoms", Duels()[3], 4, crosses[:1]}, {"dueling atoms on a cnn", Duels()[4], 2, crosses[:1]}, {"dueling quantiles", Duels()[5], 4, hubers[:1]},
		{"taus", Implicits()[0], 5, taus}, {"taus, one row", Implicits()[0], 1, taus}, {"taus on a cnn", Implicits()[1], 2, taus[:1]}, {"taus on bytes", Implicits()[2], 3, taus[:1]},
		{"dueling taus", Duels()[6], 4, taus},
		{"tiny cnn", Tiny(), 3, tds[1:2]}, {"padded cnn", Padded(), 2, tds[1:2]}, {"patches", Patches(), 2, tds[1:2]}, {"norm of patches", WithNorm(Patches(), "layer_channels"), 2, tds[1:2]},
		{"one cnn", OneCNN(), 3, acs[1:]}, {"cnn and mlp", ActorCritic(bytes(1, 20, 20), 2, nn.Trunk{Arch: "small_cnn"}, mlp("tanh", 3)), 2, acs[1:]},
	} {
		for _, loss := range c.losses {
			r := rng.New(7, "test", 0)
			p := Init(t, c.spec, 1)
			StirNorms(p, r)
			if (c.spec.Heads[0].Points() > 1 || c.spec.Heads[0].Dueling || onlyOnCPU(c.spec.Trunks[0].Arch)) && on.device(t, 1).Name() != "cpu" {
				continue
			}
			b := RandomBatch(c.spec, loss, r, c.batch)
			if _, ok := loss.(nn.PPO); ok {
				acted(c.spec, p, &b, r)
			}
			wantLoss := naiveLoss(c.spec, loss, p, &b)
			wantSlopes := slopes(c.spec, loss, p, &b, r)
			on.eachPath(t, func(t *testing.T) {
				grad := make([]float32, len(p.Host()))
				for i := range grad {
					grad[i] = 99 // must be overwritten
				}
				var got nn.Report
				if err := on.learner(t, c.spec, c.batch, loss).Gradient(p, b, grad, &got); err != nil {
					t.Fatal(err)
				}
				if math.Abs(got.Loss-wantLoss) > 1e-5*(1+math.Abs(wantLoss)) {
					t.Errorf("%s, %v: loss %v, want %v", c.name, loss, got.Loss, wantLoss)
				}
				if l, ok := loss.(nn.ActorCritic); ok {
					if sum := got.Parts[0] + l.ValueCoef*got.Parts[1] - l.EntropyCoef*got.Parts[2]; len(got.Parts) != 3 || math.Abs(sum-got.Loss) > 1e-6*(1+math.Abs(sum)) {
						t.Errorf("%s, %v: parts %v, loss %v", c.name, loss, got.Parts, got.Loss)
					}
				}
				for _, w := range wantSlopes {
					// The gradient has float32 sums; the difference may have a kink of ReLU or Huber within h.
					if math.Abs(float64(grad[w.index])-w.value) > 1e-4*(1+math.Abs(w.value)) {
						t.Errorf("%s, %v: gradient of %s[%d] is %v, finite difference %v", c.name, loss, w.part.Name, w.index-w.part.Offset, grad[w.index], w.value)
					}
				}
			})
		}
	}
}

// The gradient of a trunk under two heads is the sum of the gradients of each head's loss.
func (on *suite) testGradientsAdd(t *testing.T) {
	const rows = 3
	s := ActorCritic(env.ObsSpec{DType: env.Float32, Shape: []int{4}}, 2, nn.Trunk{Arch: "mlp", Hidden: []int{5}})
	p, b := Init(t, s, 1), RandomBatch(s, nn.ActorCritic{}, rng.New(1, "test", 0), rows)
	gradient := func(loss nn.ActorCritic, advantages []float32) []float32 {
		of := b
		of.Columns = append([][]float32{advantages}, b.Columns[1:]...)
		grad := make([]float32, len(p.Host()))
		Check(t, on.learner(t, s, rows, loss).Gradient(p, of, grad, &nn.Report{}))
		return grad
	}
	policy := gradient(nn.ActorCritic{EntropyCoef: 0.1}, b.Columns[0])
	value := gradient(nn.ActorCritic{ValueCoef: 0.5}, make([]float32, rows))
	both := gradient(nn.ActorCritic{EntropyCoef: 0.1, ValueCoef: 0.5}, b.Columns[0])
	var size float64
	for i := range both {
		size += math.Abs(float64(policy[i])) * math.Abs(float64(value[i]))
		if math.Abs(float64(policy[i]+value[i]-both[i])) > 1e-5 {
			t.Errorf("gradient[%d]: %v of both heads, %v + %v of each", i, both[i], policy[i], value[i])
		}
	}
	if size == 0 {
		t.Error("the heads' gradients do not meet")
	}
}

func (on *suite) testGradientIsDeterministic(t *testing.T) {
	on.eachPath(t, func(t *testing.T) {
		for _, s := range slices.Concat(Norms(OneCNN(), TwoMLPs()), Policies(), []nn.Spec{SmallNature(), TwoMLPs(), OneCNN()}, on.distributions(t)) {
			p, b := Init(t, s, 1), RandomBatch(s, LossOf(s), rng.New(3, "test", 0), 8)
			var first []float32
			for range 2 {
				l := on.learner(t, s, 8, LossOf(s))
				for range 2 {
					grad := make([]float32, len(p.Host()))
					if err := l.Gradient(p, b, grad, &nn.Report{}); err != nil {
						t.Fatal(err)
					}
					if first == nil {
						first = grad
					}
					for i := range grad {
						if math.Float32bits(grad[i]) != math.Float32bits(first[i]) {
							t.Fatalf("%s: element %d: %v, then %v", Name(s), i, first[i], grad[i])
						}
					}
				}
			}
		}
	})
}

func (on *suite) testNaNReachesTheLoss(t *testing.T) {
	s := SmallMLP()
	p := Init(t, s, 1)
	for _, loss := range []nn.Loss{nn.TD{Kind: "huber", Reduction: "mean"}, nn.TD{Kind: "squared", Reduction: "sum"}} {
		b := RandomBatch(s, loss, rng.New(3, "test", 0), 4)
		for name, spoil := range map[string]*float32{"parameters": &Named(p, "q_net.4.bias")[b.Actions[2]], "target": &b.Columns[0][2]} {
			was := *spoil
			*spoil = float32(math.NaN())
			var got nn.Report
			err := on.learner(t, s, 4, loss).Gradient(p, b, make([]float32, len(p.Host())), &got)
			*spoil = was
			if err != nil || got.Loss == got.Loss {
				t.Errorf("NaN in %s: loss %v, error %v", name, got.Loss, err)
			}
		}
	}
}

// A row of weight 0 changes nothing, whatever its columns hold.
func (on *suite) testHolesHaveNoPart(t *testing.T) {
	for _, s := range append(Policies(), TwoMLPs()) {
		loss := LossOf(s)
		p, b := Init(t, s, 1), RandomBatch(s, loss, rng.New(5, "test", 0), 12)
		run := func() (grad []float32, r nn.Report) {
			grad = make([]float32, len(p.Host()))
			if err := on.learner(t, s, 12, loss).Gradient(p, b, grad, &r); err != nil {
				t.Fatal(err)
			}
			return grad, r
		}
		want, wantReport := run()
		holes, nan := 0, float32(math.NaN())
		for i, w := range b.Columns[2] {
			if w != 0 {
				continue
			}
			holes++
			b.Columns[0][i], b.Columns[1][i] = nan, float32(math.Inf(1))
			integers, numbers := len(b.Actions)/12, len(b.Continuous)/12
			clear(b.Actions[i*integers : (i+1)*integers])
			for k := range numbers {
				b.Continuous[i*numbers+k] = nan
			}
		}
		got, report := run()
		if holes == 0 || !slices.Equal(got, want) || report.Loss != wantReport.Loss {
			t.Errorf("%s: %d holes: loss %v, was %v", Name(s), holes, report.Loss, wantReport.Loss)
		}
	}
}

func (on *suite) testGradientErrors(t *testing.T) {
	s := SmallMLP()
	loss := nn.TD{Kind: "huber", Reduction: "mean"}
	l, p := on.learner(t, s, 2, loss), Init(t, s, 1)
	other := s
	other.Trunks = []nn.Trunk{{Arch: "mlp", Hidden: []int{6, 7}}}
	otherParams := Init(t, other, 1)
	grad := make([]float32, len(p.Host()))
	good := func() nn.Batch { return RandomBatch(s, loss, rng.New(1, "test", 0), 2) }
	for _, c := range []struct {
		want   string
		change func(b *nn.Batch) (*nn.Params, []float32)
	}{
		{"batch.obs: 39 bytes, must be 40 for 2 rows of float32 [5]", func(b *nn.Batch) (*nn.Params, []float32) { b.Obs = b.Obs[1:]; return p, grad }},
		{"must be a multiple of 4", func(b *nn.Batch) (*nn.Params, []float32) {
			b.Obs = append(make([]byte, 1, 64), b.Obs...)[1:]
			return p, grad
		}},
		{"batch.actions: 1, must be 2", func(b *nn.Batch) (*nn.Params, []float32) { b.Actions = b.Actions[:1]; return p, grad }},
		{"batch.actions[1]: 3, must be 0 to 2", func(b *nn.Batch) (*nn.Params, []float32) { b.Actions[1] = 3; return p, grad }},
		{"batch.actions[0]: -1, must be 0 to 2", func(b *nn.Batch) (*nn.Params, []float32) { b.Actions[0] = -1; return p, grad }},
		{"batch.columns: 0, must be 1: [target]", func(b *nn.Batch) (*nn.Params, []float32) { b.Columns = nil; return p, grad }},
		{"batch.columns[0] (target): 1 numbers, must be 2", func(b *nn.Batch) (*nn.Params, []float32) { b.Columns[0] = b.Columns[0][:1]; return p, grad }},
		{"parameters: of another network", func(b *nn.Batch) (*nn.Params, []float32) { return otherParams, grad }},
		{"parameters: of another network", func(b *nn.Batch) (*nn.Params, []float32) { return nil, grad }},
		{"grad: 1 floats, must be", func(b *nn.Batch) (*nn.Params, []float32) { return p, grad[:1] }},
	} {
		b := good()
		p, g := c.change(&b)
		if err := l.Gradient(p, b, g, &nn.Report{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
	if err := l.Gradient(p, good(), grad, &nn.Report{}); err != nil {
		t.Errorf("after the errors: %v", err)
	}
	wide := TwoMLPs()
	wide.Heads[1].Out = 2
	for _, c := range []struct {
		want string
		spec nn.Spec
		rows int
		loss nn.Loss
	}{
		{"rows: 0, must be 1 to 65536", s, 0, loss},
		{`loss.kind: "hubert", must be "huber" or "squared"`, s, 1, nn.TD{Kind: "hubert", Reduction: "mean"}},
		{`loss.reduction: "", must be "mean" or "sum"`, s, 1, nn.TD{Kind: "huber", Reduction: ""}},
		{"loss.scale: -1, must be 0 to 1e6", s, 1, nn.TD{Kind: "huber", Reduction: "sum", Scale: -1}},
		{`loss.importance: "td", must be "", "loss", "gradient" or "error"`, s, 1, nn.TD{Kind: "huber", Reduction: "sum", Importance: "td"}},
		{`loss.importance: "gradient", must be another where loss.kind is "squared", whose gradient is not clipped`, s, 1, nn.TD{Kind: "squared", Reduction: "sum", Importance: "gradient"}},
		{`loss.importance: "loss", must be "" for a loss that is weighted`, s, 1, nn.TD{Kind: "huber", Reduction: "sum", Importance: "loss", Weighted: true}},
		{`heads: none is called "q", which the loss needs`, TwoMLPs(), 1, loss},
		{`heads: none is called "pi" or "mu", which the loss needs`, s, 1, nn.ActorCritic{}},
		{`heads: "v" has 2 outputs, must be 1`, wide, 1, nn.ActorCritic{}},
		{"loss.entropy_coef: -1, must be 0 to 1e6", TwoMLPs(), 1, nn.ActorCritic{EntropyCoef: -1}},
		{"loss.value_coef: NaN, must be 0 to 1e6", TwoMLPs(), 1, nn.ActorCritic{ValueCoef: math.NaN()}},
	} {
		if _, err := on.device(t, 1).Learner(c.spec, c.rows, c.loss); err == nil || err.Error() != c.want {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}
