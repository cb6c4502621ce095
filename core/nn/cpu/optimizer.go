package cpu

import (
	"fmt"
	"math"

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
	if n := len(o.state[0].Data); len(p.Raw()) != n || len(grad) != n {
		return fmt.Errorf("optimizer: %d parameters and %d gradients, must be %d each", len(p.Raw()), len(grad), n)
	}
	o.step++
	o.apply(p.Host(), grad, factor, float32(lr))
	p.Updates++
	p.Wrote()
	return nil
}

func (o *optimizer) apply(theta, grad []float32, by, lr float32) {
	c, first, eps := &o.cfg, o.state[0].Data, float32(o.cfg.Eps)
	switch c.Name {
	case "adam":
		kernel.Adam(o.team, theta, grad, by, first, o.state[1].Data, lr, c.Beta1, c.Beta2, eps, o.step)
	case "radam":
		kernel.RAdam(o.team, theta, grad, by, first, o.state[1].Data, lr, c.Beta1, c.Beta2, eps, o.step)
	case "adagrad":
		kernel.AdaGrad(o.team, theta, grad, by, first, lr, eps)
	default: // an RMSProp
		var avg []float32
		if c.Centered {
			avg = o.state[1].Data
		}
		kernel.RMSProp(o.team, theta, grad, by, avg, first, lr, c.Decay, eps, c.Centered, c.EpsInside)
	}
}

func (o *optimizer) ClipGradNorm(grad []float32, max float64) (norm float64, factor float32) {
	norm = math.Sqrt(kernel.SumSquares(o.team, grad))
	return norm, nn.ClipFactor(norm, max)
}
