package nn

import (
	"fmt"
	"math"

	"github.com/paceline-rl/paceline/core/experience"
)

// stepper is a Stepper on the CPU.
type stepper struct {
	Learner
	optimizer Optimizer
	maxNorm   float64 // +Inf: never clipped
	grad      []float32
}

func (d *cpu) Stepper(c StepperConfig) (Stepper, error) { return d.stepper(c) }

func (d *cpu) stepper(c StepperConfig) (*stepper, error) {
	if err := c.checkNorm(); err != nil {
		return nil, err
	}
	l, err := d.Learner(c.Net, c.Rows, c.Loss)
	if err != nil {
		return nil, err
	}
	size := l.Layout().Size
	o, err := d.Optimizer(c.Optimizer, size)
	if err != nil {
		return nil, err
	}
	s := &stepper{Learner: l, optimizer: o, maxNorm: c.MaxGradNorm, grad: make([]float32, size)}
	if s.maxNorm == 0 {
		s.maxNorm = math.Inf(1)
	}
	return s, nil
}

func (s *stepper) Learn(p *Params, b Batch, r *Report) error { return s.Gradient(p, b, s.grad, r) }
func (s *stepper) Optimizer() Optimizer                      { return s.optimizer }

func (s *stepper) Step(p *Params, lr float64, r *Report) error {
	if !finite(r.Loss) {
		return &NotFinite{"loss", r.Loss}
	}
	norm, factor := s.optimizer.ClipGradNorm(s.grad, s.maxNorm)
	if r.Norm = norm; !finite(norm) {
		return &NotFinite{"gradient norm", norm}
	}
	return s.optimizer.Apply(p, s.grad, factor, lr)
}

func (s *stepper) Update(p *Params, b Batch, lr float64, r *Report) error {
	if err := s.Learn(p, b, r); err != nil {
		return err
	}
	return s.Step(p, lr, r)
}

func (c *StepperConfig) checkNorm() error {
	if !(c.MaxGradNorm >= 0) {
		return fmt.Errorf("max_grad_norm: %v, must be at least 0", c.MaxGradNorm)
	}
	return nil
}

// checkQ checks what a QStepper needs.
func (c *StepperConfig) checkQ() error {
	if l, ok := c.Loss.(TD); !ok || l.Weighted {
		return fmt.Errorf("loss: %#v, must be a TD that is not weighted", c.Loss)
	}
	return nil
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// qStepper is a QStepper on the CPU.
type qStepper struct {
	*stepper
	target Network
	online Network // for the choice of actions; nil: not double
	batch  Batch
	best   []int32 // the action whose value a target has, where it is not simply the largest
	width  int     // actions
}

func (d *cpu) QStepper(c StepperConfig, double bool) (QStepper, error) {
	if err := c.checkQ(); err != nil {
		return nil, err
	}
	own, err := d.stepper(c)
	if err != nil {
		return nil, err
	}
	s := &qStepper{stepper: own, batch: Batch{Columns: [][]float32{make([]float32, c.Rows)}}, best: make([]int32, c.Rows), width: c.Net.Heads[c.Net.Head("q")].Out}
	if s.target, err = d.Network(c.Net, c.Rows); err == nil && double {
		s.online, err = d.Network(c.Net, c.Rows)
	}
	return s, err
}

// checkTransitions checks what is not checked where it is used.
func checkTransitions(t *experience.Transitions, rows, width int) error {
	if len(t.Rewards) != rows || len(t.Discounts) != rows {
		return fmt.Errorf("transitions: %d rewards and %d discounts, must be %d each", len(t.Rewards), len(t.Discounts), rows)
	}
	if n := len(t.NextMasks); n != 0 && n != rows*width {
		return fmt.Errorf("transitions.next_masks: %d bytes, must be none or %d", n, rows*width)
	}
	return nil
}

func (s *qStepper) Update(theta, target *Params, t *experience.Transitions, lr float64, r *Report) error {
	if err := checkTransitions(t, len(s.best), s.width); err != nil {
		return err
	}
	if err := s.targets(theta, target, t); err != nil {
		return err
	}
	s.batch.Obs, s.batch.Actions = t.Obs, t.Actions
	return s.stepper.Update(theta, s.batch, lr, r)
}

// targets computes the column of the loss.
func (s *qStepper) targets(theta, target *Params, t *experience.Transitions) error {
	rows, targets := len(s.best), s.batch.Columns[0]
	next, err := s.target.Forward(target, t.NextObs, rows)
	if err != nil {
		return err
	}
	choosing, width := next, len(t.NextMasks)/rows
	switch {
	case s.online != nil:
		if choosing, err = s.online.Forward(theta, t.NextObs, rows); err != nil {
			return err
		}
	case width == 0:
		return TDTargets(targets, next.Values[0], t.Rewards, t.Discounts)
	}
	for i := range s.best {
		var mask []byte
		if width > 0 {
			mask = t.NextMasks[i*width : (i+1)*width]
		}
		s.best[i] = Argmax(choosing.Row(0, i), mask)
	}
	return TDTargetsAt(targets, next.Values[0], s.best, t.Rewards, t.Discounts)
}
