package nn

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/paceline-rl/paceline/core/kernel"
)

// OptimizerConfig names an optimiser and its constants. A zero field stands for
// the default in the table; a field the optimiser does not have must be zero.
// g is the gradient, a and s running averages that start at 0, p' = 1-p.
//
//	Name          step                                             defaults
//	adam          PyTorch's Adam: m = β1 m + β1' g,                Beta1 .9, Beta2 .999, Eps 1e-8
//	              v = β2 v + β2' g²,
//	              θ -= lr (m/(1-β1^t)) / (sqrt(v/(1-β2^t)) + eps)
//	adagrad       PyTorch's Adagrad: s += g²,                      Eps 1e-10
//	              θ -= lr g / (sqrt(s) + eps)
//	rmsprop       PyTorch's RMSprop: s = d s + d' g²,              Decay .99, Eps 1e-8
//	              θ -= lr g / (sqrt(s) + eps);
//	              Centered: a = d a + d' g, sqrt(s - a²) + eps
//	rmsprop_mnih  Mnih et al. 2015: centred, eps inside the root,  Decay .95, Eps .01
//	              θ -= lr g / sqrt(s - a² + eps);
//	              meant for a summed gradient (Loss.Reduction "sum")
//	rmsprop_keras TensorFlow 2's Keras, as fast DQN's own code:    Decay .95, Eps .01
//	              centred, θ -= lr g / (sqrt(s - a²) + eps)
//
// Where eps stands changes the size of small steps by orders of magnitude: the
// root of .01 is .1. rmsprop_keras is rmsprop centred with other defaults.
type OptimizerConfig struct {
	Name     string
	Eps      float64 // above 0
	Decay    float64 // between 0 and 1; the RMSProps
	Beta1    float64 // between 0 and 1; adam
	Beta2    float64 // between 0 and 1; adam
	Centered bool    // rmsprop; the other two RMSProps always are
}

// State is one named array of an optimiser's state, as long as the parameters.
type State struct {
	Name string
	Data []float32
}

// Optimizer steps a flat parameter array along a flat gradient. Steps are
// element by element, so they do not depend on the layout. One goroutine at a
// time.
type Optimizer interface {
	// Name returns the name in OptimizerConfig.
	Name() string
	// Apply changes theta by one step with learning rate lr, and counts it.
	// Both slices have the size the optimiser was made for; grad is left as it
	// was. It does not allocate.
	Apply(theta, grad []float32, lr float64)
	// ClipGradNorm scales grad, of the size the optimiser was made for, so that
	// its Euclidean norm is at most max (above 0) and returns the norm it had, as
	// PyTorch's clip_grad_norm_ does: the factor is max/(norm + 1e-6) where that
	// is below 1. A norm that is not finite makes the gradient NaN, as there; the
	// caller looks at the returned norm. It does not allocate.
	ClipGradNorm(grad []float32, max float64) (norm float64)
	// Step returns how many steps were applied.
	Step() int64
	// State returns the optimiser's arrays, in place and always in the same
	// order: with Step, all that a checkpoint must hold.
	State() []State
	// SetState overwrites Step and State. The names, order and sizes must be
	// those that State returns; otherwise nothing changes.
	SetState(step int64, state []State) error
}

// rule is an optimiser's arithmetic and its documented defaults.
type rule struct {
	state    []string
	defaults OptimizerConfig // zero fields do not exist in this rule
	apply    func(o *optimizer, theta, grad []float32, lr float32)
}

var rules = map[string]rule{
	"adam":          {[]string{"m", "v"}, OptimizerConfig{Beta1: .9, Beta2: .999, Eps: 1e-8}, applyAdam},
	"adagrad":       {[]string{"sum"}, OptimizerConfig{Eps: 1e-10}, applyAdaGrad},
	"rmsprop":       {[]string{"square_avg"}, OptimizerConfig{Decay: .99, Eps: 1e-8}, applyRMSProp},
	"rmsprop_mnih":  {[]string{"square_avg", "grad_avg"}, OptimizerConfig{Decay: .95, Eps: .01, Centered: true}, applyRMSProp},
	"rmsprop_keras": {[]string{"square_avg", "grad_avg"}, OptimizerConfig{Decay: .95, Eps: .01, Centered: true}, applyRMSProp},
}

type optimizer struct {
	cfg   OptimizerConfig // defaults filled in
	rule  rule
	step  int64
	state []State

	team *kernel.Team
}

// NewOptimizer returns an optimiser for parameters of size floats, its state
// zero. Its work is shared by the threads of team, which stays the caller's; nil:
// the calling goroutine alone.
func NewOptimizer(cfg OptimizerConfig, size int, team *kernel.Team) (Optimizer, error) {
	r, ok := rules[cfg.Name]
	if !ok {
		var names []string
		for name := range rules {
			names = append(names, name)
		}
		slices.Sort(names)
		return nil, fmt.Errorf("optimizer.name: %q, must be one of %s", cfg.Name, strings.Join(names, ", "))
	}
	if size < 1 {
		return nil, fmt.Errorf("optimizer: %d parameters, must be at least 1", size)
	}
	for _, f := range []struct {
		name     string
		value    *float64
		standard float64
		belowOne bool
	}{
		{"eps", &cfg.Eps, r.defaults.Eps, false},
		{"decay", &cfg.Decay, r.defaults.Decay, true},
		{"beta1", &cfg.Beta1, r.defaults.Beta1, true},
		{"beta2", &cfg.Beta2, r.defaults.Beta2, true},
	} {
		switch v := *f.value; {
		case v == 0:
			*f.value = f.standard
		case f.standard == 0:
			return nil, fmt.Errorf("optimizer.%s: %g, %s has no such setting", f.name, v, cfg.Name)
		case f.belowOne && !(v > 0 && v < 1):
			return nil, fmt.Errorf("optimizer.%s: %g, must be above 0 and below 1", f.name, v)
		case !(float32(v) > 0 && v <= 1e6):
			return nil, fmt.Errorf("optimizer.%s: %g, must be above 0 and at most 1e6", f.name, v)
		}
	}
	names := r.state
	switch {
	case r.defaults.Centered:
		cfg.Centered = true
	case cfg.Centered && cfg.Name == "rmsprop":
		names = append(slices.Clone(names), "grad_avg")
	case cfg.Centered:
		return nil, fmt.Errorf("optimizer.centered: true, %s has no such setting", cfg.Name)
	}
	o := &optimizer{cfg: cfg, rule: r, team: team}
	for _, name := range names {
		o.state = append(o.state, State{name, make([]float32, size)})
	}
	return o, nil
}

func (o *optimizer) Name() string   { return o.cfg.Name }
func (o *optimizer) Step() int64    { return o.step }
func (o *optimizer) State() []State { return o.state }

func (o *optimizer) Apply(theta, grad []float32, lr float64) {
	if n := len(o.state[0].Data); len(theta) != n || len(grad) != n {
		panic(fmt.Sprintf("nn: Apply on %d parameters and %d gradients, made for %d", len(theta), len(grad), n))
	}
	o.step++
	o.rule.apply(o, theta, grad, float32(lr))
}

func (o *optimizer) ClipGradNorm(grad []float32, max float64) (norm float64) {
	norm = math.Sqrt(kernel.SumSquares(o.team, grad))
	if factor := max / (norm + 1e-6); !(factor >= 1) {
		kernel.Scale(o.team, grad, float32(factor))
	}
	return norm
}

func (o *optimizer) SetState(step int64, state []State) error {
	if step < 0 {
		return fmt.Errorf("optimizer step: %d, must be at least 0", step)
	}
	if len(state) != len(o.state) {
		return fmt.Errorf("optimizer state: %d arrays, %s has %d", len(state), o.cfg.Name, len(o.state))
	}
	for i, s := range state {
		if want := o.state[i]; s.Name != want.Name || len(s.Data) != len(want.Data) {
			return fmt.Errorf("optimizer state: %q of %d floats, %s needs %q of %d", s.Name, len(s.Data), o.cfg.Name, want.Name, len(want.Data))
		}
	}
	o.step = step
	for i, s := range state {
		copy(o.state[i].Data, s.Data)
	}
	return nil
}

func applyAdam(o *optimizer, theta, grad []float32, lr float32) {
	kernel.Adam(o.team, theta, grad, o.state[0].Data, o.state[1].Data, lr, o.cfg.Beta1, o.cfg.Beta2, float32(o.cfg.Eps), o.step)
}

func applyAdaGrad(o *optimizer, theta, grad []float32, lr float32) {
	kernel.AdaGrad(o.team, theta, grad, o.state[0].Data, lr, float32(o.cfg.Eps))
}

func applyRMSProp(o *optimizer, theta, grad []float32, lr float32) {
	var avg []float32
	if o.cfg.Centered {
		avg = o.state[1].Data
	}
	kernel.RMSProp(o.team, theta, grad, avg, o.state[0].Data, lr, o.cfg.Decay, float32(o.cfg.Eps),
		o.cfg.Centered, o.cfg.Name == "rmsprop_mnih")
}
