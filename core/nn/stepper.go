package nn

import (
	"fmt"
	"math"

	"github.com/paceline-rl/paceline/core/fault"
)

// stepper is a Stepper on the CPU.
type stepper struct {
	learner   Learner
	optimizer Optimizer
	maxNorm   float64
	grad      []float32
	batch     Batch
	report    Report // of one update
}

func (d *cpu) Stepper(l Learner, o Optimizer, maxGradNorm float64) (Stepper, error) {
	if !(maxGradNorm >= 0) {
		return nil, fmt.Errorf("max_grad_norm: %v, must be at least 0", maxGradNorm)
	}
	size := l.Layout().Size
	if n := len(o.State()[0].Data); n != size {
		return nil, fmt.Errorf("optimizer: made for %d parameters, must be for the learner's %d", n, size)
	}
	return &stepper{learner: l, optimizer: o, maxNorm: maxGradNorm, grad: make([]float32, size)}, nil
}

func (s *stepper) Update(p *Params, n int, next func(k int, b *Batch) (lr float64, err error), r *Report) error {
	r.Loss, r.Norm, r.Parts = 0, 0, r.Parts[:0]
	for k := range n {
		lr, err := next(k, &s.batch)
		if err != nil {
			return err
		}
		one := &s.report
		if err := s.learner.Gradient(p, s.batch, s.grad, one); err != nil {
			return err
		}
		if !finite(one.Loss) {
			return fmt.Errorf("loss: %v, %w; a lower learning_rate or smaller rewards may help", one.Loss, fault.ErrNotFinite)
		}
		factor := float32(1)
		if s.maxNorm > 0 {
			if one.Norm, factor = s.optimizer.ClipGradNorm(s.grad, s.maxNorm); !finite(one.Norm) {
				return fmt.Errorf("gradient norm: %v, %w; a lower learning_rate or smaller rewards may help", one.Norm, fault.ErrNotFinite)
			}
		}
		if err := s.optimizer.Apply(p, s.grad, factor, lr); err != nil {
			return err
		}
		share := 1 / float64(n)
		r.Loss += float64(one.Loss * share)
		r.Norm += float64(one.Norm * share)
		for i, v := range one.Parts {
			if k == 0 {
				r.Parts = append(r.Parts, 0)
			}
			r.Parts[i] += float64(v * share)
		}
	}
	return nil
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
