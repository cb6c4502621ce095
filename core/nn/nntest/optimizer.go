package nntest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rng"
)

// Optimizers returns every optimiser, with its forms.
func Optimizers() []nn.OptimizerConfig {
	return []nn.OptimizerConfig{
		{Name: "adam"}, {Name: "radam"}, {Name: "radam", Beta2: 0.9}, {Name: "adagrad"}, {Name: "rmsprop"}, {Name: "rmsprop", Centered: true},
		{Name: "rmsprop", EpsInside: true, FirstAverage: 1}, {Name: "rmsprop_mnih"}, {Name: "rmsprop_keras"},
	}
}

// testThreeStepsByHand compares three steps of one parameter with numbers computed by hand: theta
// 1, gradients 0.5, -0.25, 0.5, learning rate 0.1.
func (on *suite) testThreeStepsByHand(t *testing.T) {
	grads := []float64{0.5, -0.25, 0.5}
	for _, c := range []struct {
		cfg  nn.OptimizerConfig
		want []float64
	}{
		// s = .125, .09375, .171875; a = .25, 0, .25; d = .5
		// s - a² = .0625, .09375, .109375
		{nn.OptimizerConfig{Name: "rmsprop_mnih", Decay: 0.5, Eps: 0.01}, []float64{
			1 - 0.05/math.Sqrt(0.0725),
			1 - 0.05/math.Sqrt(0.0725) + 0.025/math.Sqrt(0.10375),
			1 - 0.05/math.Sqrt(0.0725) + 0.025/math.Sqrt(0.10375) - 0.05/math.Sqrt(0.119375)}},
		{nn.OptimizerConfig{Name: "rmsprop_keras", Decay: 0.5, Eps: 0.01}, []float64{
			1 - 0.05/0.26,
			1 - 0.05/0.26 + 0.025/(math.Sqrt(0.09375)+0.01),
			1 - 0.05/0.26 + 0.025/(math.Sqrt(0.09375)+0.01) - 0.05/(math.Sqrt(0.109375)+0.01)}},
		{nn.OptimizerConfig{Name: "rmsprop", Decay: 0.5, Eps: 0.01, Centered: true}, []float64{
			1 - 0.05/0.26,
			1 - 0.05/0.26 + 0.025/(math.Sqrt(0.09375)+0.01),
			1 - 0.05/0.26 + 0.025/(math.Sqrt(0.09375)+0.01) - 0.05/(math.Sqrt(0.109375)+0.01)}},
		{nn.OptimizerConfig{Name: "rmsprop", Decay: 0.5, Eps: 0.01}, []float64{
			1 - 0.05/(math.Sqrt(0.125)+0.01),
			1 - 0.05/(math.Sqrt(0.125)+0.01) + 0.025/(math.Sqrt(0.09375)+0.01),
			1 - 0.05/(math.Sqrt(0.125)+0.01) + 0.025/(math.Sqrt(0.09375)+0.01) - 0.05/(math.Sqrt(0.171875)+0.01)}},
		{nn.OptimizerConfig{Name: "rmsprop", Decay: 0.5, Eps: 0.01, EpsInside: true}, []float64{
			1 - 0.05/math.Sqrt(0.135),
			1 - 0.05/math.Sqrt(0.135) + 0.025/math.Sqrt(0.10375),
			1 - 0.05/math.Sqrt(0.135) + 0.025/math.Sqrt(0.10375) - 0.05/math.Sqrt(0.181875)}},
		// From 1: s = .625, .34375, .296875.
		{nn.OptimizerConfig{Name: "rmsprop", Decay: 0.5, Eps: 0.01, FirstAverage: 1}, []float64{
			1 - 0.05/(math.Sqrt(0.625)+0.01),
			1 - 0.05/(math.Sqrt(0.625)+0.01) + 0.025/(math.Sqrt(0.34375)+0.01),
			1 - 0.05/(math.Sqrt(0.625)+0.01) + 0.025/(math.Sqrt(0.34375)+0.01) - 0.05/(math.Sqrt(0.296875)+0.01)}},
		{nn.OptimizerConfig{Name: "rmsprop", Decay: 0.5, Eps: 0.01, FirstAverage: 1, EpsInside: true, Centered: true}, []float64{
			1 - 0.05/math.Sqrt(0.5725),
			1 - 0.05/math.Sqrt(0.5725) + 0.025/math.Sqrt(0.35375),
			1 - 0.05/math.Sqrt(0.5725) + 0.025/math.Sqrt(0.35375) - 0.05/math.Sqrt(0.244375)}},
		// The sum of squares is .25, .3125, .5625.
		{nn.OptimizerConfig{Name: "adagrad", Eps: 0.01}, []float64{
			1 - 0.05/0.51,
			1 - 0.05/0.51 + 0.025/(math.Sqrt(0.3125)+0.01),
			1 - 0.05/0.51 + 0.025/(math.Sqrt(0.3125)+0.01) - 0.05/0.76}},
		// m = .25, 0, .25 over 1-.5^t = .5, .75, .875;
		// v = .0625, .0625, .109375 over 1-.75^t = .25, .4375, .578125.
		{nn.OptimizerConfig{Name: "adam", Beta1: 0.5, Beta2: 0.75, Eps: 0.01}, []float64{
			1 - 0.1*0.5/0.51,
			1 - 0.1*0.5/0.51,
			1 - 0.1*0.5/0.51 - 0.1*(0.25/0.875)/(math.Sqrt(0.109375/0.578125)+0.01)}},
		// r_inf = 39, r_1 = 1, r_2 = 1.97, r_3 = 2.93: not above 5, so lr m/(1-.5^t).
		{nn.OptimizerConfig{Name: "radam", Beta1: 0.5, Beta2: 0.95, Eps: 0.01}, []float64{
			1 - 0.1*0.5, 1 - 0.1*0.5, 1 - 0.1*0.5 - 0.1*(0.25/0.875)}},
		{nn.OptimizerConfig{Name: "radam"}, []float64{1 - 0.1*0.5}},
		// The defaults, one step: m/(1-β1) = g and v/(1-β2) = g².
		{nn.OptimizerConfig{Name: "adam"}, []float64{1 - 0.1*0.5/(0.5+1e-8)}},
		{nn.OptimizerConfig{Name: "adagrad"}, []float64{1 - 0.1*0.5/(0.5+1e-10)}},
		{nn.OptimizerConfig{Name: "rmsprop"}, []float64{1 - 0.1*0.5/(math.Sqrt(0.01*0.25)+1e-8)}},
		{nn.OptimizerConfig{Name: "rmsprop_mnih"}, []float64{1 - 0.1*0.5/math.Sqrt(0.05*0.25-0.025*0.025+0.01)}},
		{nn.OptimizerConfig{Name: "rmsprop_keras"}, []float64{1 - 0.1*0.5/(math.Sqrt(0.05*0.25-0.025*0.025)+0.01)}},
	} {
		on.eachPath(t, func(t *testing.T) {
			o := on.optimizer(t, c.cfg, 1)
			theta := Flat(1)
			theta.Host()[0] = 1
			for i, want := range c.want {
				grad := []float32{float32(grads[i])}
				if err := o.Apply(theta, grad, 1, 0.1); err != nil {
					t.Fatal(err)
				}
				if math.Abs(float64(theta.Host()[0])-want) > 2e-6 {
					t.Errorf("%+v: step %d gives %v, want %v", c.cfg, i+1, theta.Host()[0], want)
				}
				if n := uint64(i + 1); o.Step() != int64(n) || theta.Updates != n || theta.Writes != n || grad[0] != float32(grads[i]) {
					t.Errorf("%+v: step count %d, %d updates and %d writes after %d steps, gradient now %v", c.cfg, o.Step(), theta.Updates, theta.Writes, n, grad[0])
				}
			}
		})
	}
}

// testRAdamRectifies compares RAdam with PyTorch's formula in float64. RAdam divides by the root of
// v from step 6 on with the default beta2, from step 7 on with .8, and never with .6, whose r_inf
// is 4.
func (on *suite) testRAdamRectifies(t *testing.T) {
	for _, c := range []struct {
		beta2 float64
		first int // rectified step; 0: none
	}{{0.999, 6}, {0.8, 7}, {0.6, 0}} {
		on.eachPath(t, func(t *testing.T) {
			o, theta := on.optimizer(t, nn.OptimizerConfig{Name: "radam", Beta2: c.beta2, Eps: 1e-3}, 1), Flat(1)
			r := rng.New(3, "test", 0)
			var m, v, want float64
			first := 0
			for step := 1; step <= 40; step++ {
				g := float32(r.Uniform(-1, 1))
				if err := o.Apply(theta, []float32{g}, 1, 1e-2); err != nil {
					t.Fatal(err)
				}
				m = 0.9*m + 0.1*float64(g)
				v = c.beta2*v + (1-c.beta2)*float64(g)*float64(g)
				correction1, correction2 := 1-math.Pow(0.9, float64(step)), 1-math.Pow(c.beta2, float64(step))
				far := 2/(1-c.beta2) - 1
				rho := far - 2*float64(step)*math.Pow(c.beta2, float64(step))/correction2
				by := 1.0
				if rho > 5 {
					if first == 0 {
						first = step
					}
					rect := math.Sqrt((rho - 4) * (rho - 2) * far / ((far - 4) * (far - 2) * rho))
					by = rect * math.Sqrt(correction2) / (math.Sqrt(v) + 1e-3)
				}
				want -= 1e-2 * m / correction1 * by
				if math.Abs(float64(theta.Host()[0])-want) > 2e-7 {
					t.Fatalf("beta2 %v, step %d: %v, want %v", c.beta2, step, theta.Host()[0], want)
				}
			}
			if first != c.first {
				t.Errorf("beta2 %v: the first rectified step is %d, want %d", c.beta2, first, c.first)
			}
		})
	}
}

// testOptimizerStateIsAll restores an optimiser from Step and State. Its next steps have the same
// bits.
func (on *suite) testOptimizerStateIsAll(t *testing.T) {
	const size = 37
	for _, cfg := range Optimizers() {
		r := rng.New(1, "test", 0)
		var grads [6][]float32
		for i := range grads {
			for range size {
				grads[i] = append(grads[i], float32(r.Uniform(-1, 1)))
			}
		}
		run := func(o nn.Optimizer, theta *nn.Params, grads [][]float32) {
			for _, g := range grads {
				if err := o.Apply(theta, g, 1, 1e-2); err != nil {
					t.Fatal(err)
				}
			}
		}
		make1 := func() (nn.Optimizer, *nn.Params) { return on.optimizer(t, cfg, size), Flat(size) }
		whole, theta := make1()
		run(whole, theta, grads[:])
		half, theta1 := make1()
		run(half, theta1, grads[:3])
		rest, _ := make1()
		run(rest, Flat(size), grads[4:]) // state to be overwritten
		rest.SetStep(half.Step())
		for i, s := range half.State() {
			copy(rest.State()[i].Data, s.Data)
		}
		run(rest, theta1, grads[3:])
		if !slices.Equal(theta.Host(), theta1.Host()) || rest.Step() != 6 {
			t.Errorf("%+v: not the same after a restore", cfg)
		}
		if a := testing.AllocsPerRun(5, func() { whole.Apply(theta, grads[0], 1, 1e-2) }); a != 0 {
			t.Errorf("%+v: %v allocations", cfg, a)
		}
	}
}

func (on *suite) testOptimizerErrors(t *testing.T) {
	for want, cfg := range map[string]nn.OptimizerConfig{
		`optimizer.name: "sgd", must be one of adagrad, adam, radam, rmsprop, rmsprop_keras, rmsprop_mnih`: {Name: "sgd"},
		"optimizer.eps: -1, must be above 0 and at most 1e6":                                               {Name: "adam", Eps: -1},
		"optimizer.eps: NaN, must be above 0 and at most 1e6":                                              {Name: "adam", Eps: math.NaN()},
		"optimizer.eps: 1e-60, must be above 0 and at most 1e6":                                            {Name: "adam", Eps: 1e-60},
		"optimizer.decay: 0.9, adam has no such setting":                                                   {Name: "adam", Decay: 0.9},
		"optimizer.decay: 1, must be above 0 and below 1":                                                  {Name: "rmsprop", Decay: 1},
		"optimizer.beta1: 0.9, rmsprop_mnih has no such setting":                                           {Name: "rmsprop_mnih", Beta1: 0.9},
		"optimizer.beta2: -0.5, must be above 0 and below 1":                                               {Name: "adam", Beta2: -0.5},
		"optimizer.centered: true, adagrad has no such setting":                                            {Name: "adagrad", Centered: true},
		"optimizer.eps_inside: true, rmsprop_keras has no such setting":                                    {Name: "rmsprop_keras", EpsInside: true},
		"optimizer.first_average: 1, adam has no such setting":                                             {Name: "adam", FirstAverage: 1},
		"optimizer.first_average: 2, must be 0 or 1":                                                       {Name: "rmsprop", FirstAverage: 2},
	} {
		if _, err := on.device(t, 1).Optimizer(cfg, 1); err == nil || err.Error() != want {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if _, err := on.device(t, 1).Optimizer(nn.OptimizerConfig{Name: "adam"}, 0); err == nil {
		t.Error("an optimiser of nothing")
	}
	o := on.optimizer(t, nn.OptimizerConfig{Name: "adam"}, 2)
	if err := o.Apply(Flat(2), []float32{1, 2}, 1, 0.1); err != nil {
		t.Fatal(err)
	}
	for _, grad := range [][]float32{{1}, {1, 2, 3}} {
		if err := o.Apply(Flat(len(grad)), grad, 1, 0.1); err == nil || err.Error() != fmt.Sprintf("optimizer: %d parameters and %d gradients, must be 2 each", len(grad), len(grad)) {
			t.Errorf("error %v", err)
		}
	}
}

func (on *suite) testClipGradNorm(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	on.eachPath(t, func(t *testing.T) {
		for _, c := range []struct {
			grad              []float32
			max, norm, factor float64
		}{
			{[]float32{3, -4, 0}, 10, 5, 1},
			{[]float32{3, -4, 0}, 1, 5, 0.2},
			{[]float32{3, -4, 0}, inf, 5, 1},
			{[]float32{1, float32(nan)}, 1, nan, nan},
			{[]float32{1, float32(inf)}, 1, inf, 0},
			{[]float32{1, float32(inf)}, inf, inf, nan},
		} {
			before := slices.Clone(c.grad)
			norm, factor := on.device(t, 1).ClipGradNorm(c.grad, c.max)
			near := func(a, b float64) bool { return a == b || math.Abs(a-b) < 1e-6 || a != a && b != b }
			if !near(norm, c.norm) || !near(float64(factor), c.factor) {
				t.Errorf("%v to at most %v: norm %v, factor %v, want %v, %v", before, c.max, norm, factor, c.norm, c.factor)
			}
			if !slices.EqualFunc(c.grad, before, func(a, b float32) bool { return a == b || a != a && b != b }) {
				t.Errorf("gradient %v, was %v", c.grad, before)
			}
		}
	})
}
