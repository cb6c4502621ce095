package cpu

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/nn"
)

type optimizer struct {
	cfg   nn.OptimizerConfig // complete
	step  int64
	state []nn.Tensor

	team *kernel.Team
}

func (d *device) Optimizer(cfg nn.OptimizerConfig, size int) (nn.Optimizer, error) {
	state, err := cfg.NewState(size)
	if err != nil {
		return nil, err
	}
	return &optimizer{cfg: cfg, state: state, team: d.team}, nil
}

func (o *optimizer) Step() int64        { return o.step }
func (o *optimizer) SetStep(step int64) { o.step = step }
func (o *optimizer) State() []nn.Tensor { return o.state }

func (o *optimizer) Apply(p *nn.Params, grad []float32, factor float32, lr float64) error {
	if n := o.size(); len(p.Raw()) != n || len(grad) != n {
		return fmt.Errorf("optimizer: %d parameters and %d gradients, must be %d each", len(p.Raw()), len(grad), n)
	}
	o.step++
	o.apply(p.Host(), 0, grad, factor, float32(lr), o.step)
	p.Updates++
	p.Wrote()
	return nil
}

func (o *optimizer) ApplyRange(p *nn.Params, first int, grad []float32, factor float32, lr float64, step int64) error {
	n := o.size()
	switch {
	case len(p.Raw()) != n:
		return fmt.Errorf("optimizer: %d parameters, must be %d", len(p.Raw()), n)
	case first < 0 || len(grad) == 0 || first > n-len(grad):
		return fmt.Errorf("optimizer: range of %d from %d on, must be 1 or more of the %d parameters", len(grad), first, n)
	case step < 1:
		return fmt.Errorf("optimizer: step %d, must be at least 1", step)
	}
	o.apply(p.Host()[first:first+len(grad)], first, grad, factor, float32(lr), step)
	return nil
}

// size returns the number of parameters.
func (o *optimizer) size() int { return len(o.state[0].Data) }

// apply takes a step of theta, whose first element is parameter number first.
func (o *optimizer) apply(theta []float32, first int, grad []float32, by, lr float32, step int64) {
	c, eps := &o.cfg, float32(o.cfg.Eps)
	state := func(i int) []float32 { return o.state[i].Data[first : first+len(theta)] }
	switch c.Name {
	case "adam":
		kernel.Adam(o.team, theta, grad, by, state(0), state(1), lr, c.Beta1, c.Beta2, eps, step)
	case "radam":
		kernel.RAdam(o.team, theta, grad, by, state(0), state(1), lr, c.Beta1, c.Beta2, eps, step)
	case "adagrad":
		kernel.AdaGrad(o.team, theta, grad, by, state(0), lr, eps)
	default: // an RMSProp
		var avg []float32
		if c.Centered {
			avg = state(1)
		}
		kernel.RMSProp(o.team, theta, grad, by, avg, state(0), lr, c.Decay, eps, c.Centered, c.EpsInside)
	}
}
