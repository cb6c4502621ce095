package nn

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// OptimizerConfig names an optimiser and its constants. A zero field stands for the default in the
// table. A field that the optimiser does not have must be zero. g is the gradient, a and s are
// running averages that start at 0, and p' = 1-p.
//
//	Name          step                                             defaults
//	adam          PyTorch's Adam: m = β1 m + β1' g,                Beta1 .9, Beta2 .999, Eps 1e-8
//	              v = β2 v + β2' g²,
//	              θ -= lr (m/(1-β1^t)) / (sqrt(v/(1-β2^t)) + eps)
//	radam         PyTorch's RAdam (Liu et al. 2020), without        Beta1 .9, Beta2 .999, Eps 1e-8
//	              weight decay: m and v as adam's, r_t = 2/β2' - 1 -
//	              2t β2^t/(1-β2^t); where r_t is above 5
//	              θ -= lr m/(1-β1^t) R sqrt(1-β2^t)/(sqrt(v) + eps)
//	              with R² = (r_t-4)(r_t-2)r_∞ / ((r_∞-4)(r_∞-2)r_t),
//	              else θ -= lr m/(1-β1^t)
//	adagrad       PyTorch's Adagrad: s += g²,                      Eps 1e-10
//	              θ -= lr g / (sqrt(s) + eps)
//	rmsprop       PyTorch's RMSprop: s = d s + d' g²,              Decay .99, Eps 1e-8
//	              θ -= lr g / (sqrt(s) + eps);
//	              Centered: a = d a + d' g, s - a² instead of s;
//	              EpsInside: sqrt(s + eps), as in Mnih et al. and Lasagne;
//	              FirstAverage 1: s starts at 1, as in TensorFlow 1.
//	              EpsInside with FirstAverage 1 is
//	              Stable-Baselines3's RMSpropTFLike
//	rmsprop_mnih  Mnih et al. 2015: centred, eps inside the root,  Decay .95, Eps .01
//	              θ -= lr g / sqrt(s - a² + eps);
//	              meant for a summed gradient (Loss.Reduction "sum")
//	rmsprop_keras TensorFlow 2's Keras, as in the code of fast     Decay .95, Eps .01
//	              DQN: centred, θ -= lr g / (sqrt(s - a²) + eps)
//
// Eps inside or outside the root changes the size of small steps by orders of magnitude: the root
// of .01 is .1. rmsprop_keras is rmsprop, centred, with other defaults.
type OptimizerConfig struct {
	Name     string
	Eps      float64 // above 0
	Decay    float64 // between 0 and 1; the RMSProps
	Beta1    float64 // between 0 and 1; adam, radam
	Beta2    float64 // between 0 and 1; adam, radam
	Centered bool    // rmsprop; the other two RMSProps always are
	// EpsInside puts Eps inside the root; rmsprop only.
	EpsInside bool
	// FirstAverage is the value of s before the first step, 0 or 1; rmsprop only.
	FirstAverage float64
}

// optimizers are the state arrays and the defaults of each optimiser. A zero field of the defaults
// is a setting that the optimiser does not have.
var optimizers = map[string]struct {
	state    []string
	defaults OptimizerConfig
}{
	"adam":          {[]string{"m", "v"}, OptimizerConfig{Beta1: .9, Beta2: .999, Eps: 1e-8}},
	"radam":         {[]string{"m", "v"}, OptimizerConfig{Beta1: .9, Beta2: .999, Eps: 1e-8}},
	"adagrad":       {[]string{"sum"}, OptimizerConfig{Eps: 1e-10}},
	"rmsprop":       {[]string{"square_avg"}, OptimizerConfig{Decay: .99, Eps: 1e-8}},
	"rmsprop_mnih":  {[]string{"square_avg", "grad_avg"}, OptimizerConfig{Decay: .95, Eps: .01, Centered: true, EpsInside: true}},
	"rmsprop_keras": {[]string{"square_avg", "grad_avg"}, OptimizerConfig{Decay: .95, Eps: .01, Centered: true}},
}

// Complete checks the configuration, fills in the defaults and returns the names of the arrays of
// the optimiser's state.
func (c *OptimizerConfig) Complete() (state []string, err error) {
	r, ok := optimizers[c.Name]
	if !ok {
		names := slices.Sorted(maps.Keys(optimizers))
		return nil, fmt.Errorf("optimizer.name: %q, must be one of %s", c.Name, strings.Join(names, ", "))
	}
	for _, f := range []struct {
		name     string
		value    *float64
		standard float64
		belowOne bool
	}{
		{"eps", &c.Eps, r.defaults.Eps, false},
		{"decay", &c.Decay, r.defaults.Decay, true},
		{"beta1", &c.Beta1, r.defaults.Beta1, true},
		{"beta2", &c.Beta2, r.defaults.Beta2, true},
	} {
		switch v := *f.value; {
		case v == 0:
			*f.value = f.standard
		case f.standard == 0:
			return nil, fmt.Errorf("optimizer.%s: %g, %s has no such setting", f.name, v, c.Name)
		case f.belowOne && !(v > 0 && v < 1):
			return nil, fmt.Errorf("optimizer.%s: %g, must be above 0 and below 1", f.name, v)
		case !(float32(v) > 0 && v <= 1e6):
			return nil, fmt.Errorf("optimizer.%s: %g, must be above 0 and at most 1e6", f.name, v)
		}
	}
	state = r.state
	if c.Name != "rmsprop" {
		switch {
		case c.Centered && !r.defaults.Centered:
			return nil, fmt.Errorf("optimizer.centered: true, %s has no such setting", c.Name)
		case c.EpsInside && !r.defaults.EpsInside:
			return nil, fmt.Errorf("optimizer.eps_inside: true, %s has no such setting", c.Name)
		case c.FirstAverage != 0:
			return nil, fmt.Errorf("optimizer.first_average: %g, %s has no such setting", c.FirstAverage, c.Name)
		}
		c.Centered, c.EpsInside = r.defaults.Centered, r.defaults.EpsInside
		return state, nil
	}
	if c.FirstAverage != 0 && c.FirstAverage != 1 {
		return nil, fmt.Errorf("optimizer.first_average: %g, must be 0 or 1", c.FirstAverage)
	}
	if c.Centered {
		state = append(slices.Clone(state), "grad_avg")
	}
	return state, nil
}

// NewState completes c and returns fresh arrays of the optimiser's state for size parameters.
func (c *OptimizerConfig) NewState(size int) (state []Tensor, err error) {
	names, err := c.Complete()
	if err != nil {
		return nil, err
	}
	if size < 1 {
		return nil, fmt.Errorf("optimizer: %d parameters, must be at least 1", size)
	}
	for _, name := range names {
		state = append(state, Tensor{name, []int{size}, make([]float32, size)})
	}
	if c.FirstAverage != 0 {
		for i := range state[0].Data {
			state[0].Data[i] = float32(c.FirstAverage)
		}
	}
	return state, nil
}

// ClipFactor returns the factor that scales a norm down to at most max, 1 where it is at most max.
func ClipFactor(norm, max float64) float32 {
	if by := max / (norm + 1e-6); !(by >= 1) {
		return float32(by)
	}
	return 1
}
