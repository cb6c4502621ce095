package cpu

import (
	"math"

	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/graph"
)

// stepper is an nn.Stepper.
type stepper struct {
	*learner
	device    *device
	optimizer nn.Optimizer
	maxNorm   float64 // +Inf: never clipped
	admit     func(*nn.Report) bool
	grad      []float32
}

func (d *device) Stepper(c nn.StepperConfig) (nn.Stepper, error) { return d.stepper(c) }

func (d *device) stepper(c nn.StepperConfig) (*stepper, error) {
	if err := graph.CheckStepper(&c); err != nil {
		return nil, err
	}
	l, err := d.learner(c.Net, c.Rows, c.Loss)
	if err != nil {
		return nil, err
	}
	size := l.Layout().Size
	o := c.External
	if o == nil {
		if o, err = d.Optimizer(c.Optimizer, size); err != nil {
			return nil, err
		}
	}
	s := &stepper{device: d, learner: l, optimizer: o, maxNorm: c.MaxGradNorm, admit: c.Admit, grad: make([]float32, size)}
	if s.maxNorm == 0 {
		s.maxNorm = math.Inf(1)
	}
	return s, nil
}

func (s *stepper) Learn(p *nn.Params, b nn.Batch, r *nn.Report) error {
	return s.Gradient(p, b, s.grad, r)
}

func (s *stepper) Optimizer() nn.Optimizer { return s.optimizer }

func (s *stepper) Step(p *nn.Params, lr float64, r *nn.Report) error {
	if !finite(r.Loss) {
		return &nn.NotFinite{What: "loss", Value: r.Loss}
	}
	for _, row := range r.Rows { // a row's error may overflow where the weighted mean does not
		if !finite(float64(row)) {
			return &nn.NotFinite{What: "error of a row", Value: float64(row)}
		}
	}
	if s.admit != nil && !s.admit(r) {
		return nil
	}
	norm, factor := s.device.ClipGradNorm(s.grad, s.maxNorm)
	if r.Norm = norm; !finite(norm) {
		return &nn.NotFinite{What: "gradient norm", Value: norm}
	}
	return s.optimizer.Apply(p, s.grad, factor, lr)
}

func (s *stepper) Update(p *nn.Params, b nn.Batch, lr float64, r *nn.Report) error {
	if err := s.Learn(p, b, r); err != nil {
		return err
	}
	return s.Step(p, lr, r)
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// qStepper is an nn.QStepper.
type qStepper struct {
	*stepper
	of     nn.Target
	target *network
	// online is the second forward pass: it chooses the actions of double Q-learning, or computes the
	// observations for nn.Munchausen; nil: there is one pass.
	online *network
	soft   soft // of nn.Munchausen
	batch  nn.Batch
	drawn  *implicitTargets // nil: the target has no taus
	ones   []float32        // the weights of transitions without weights; nil: the loss has no weights
	best   []int32          // the chosen actions
	noise  *noisy           // nil: the network is not noisy
	head   nn.Head
}

func (d *device) QStepper(c nn.StepperConfig, target nn.Target) (nn.QStepper, error) {
	if err := graph.CheckQStepper(&c, target); err != nil {
		return nil, err
	}
	own, err := d.stepper(c)
	if err != nil {
		return nil, err
	}
	s := &qStepper{stepper: own, of: target, best: make([]int32, c.Rows), head: c.Net.Heads[c.Net.Head("q")]}
	if s.noise, err = newNoisy(&c, target); err != nil {
		return nil, err
	}
	for _, column := range c.Loss.Columns(&c.Net) { // the weights are the last
		s.batch.Columns = append(s.batch.Columns, make([]float32, c.Rows*column.Width))
		if column.Name == "weight" {
			s.ones = s.batch.Columns[len(s.batch.Columns)-1]
		}
	}
	for i := range s.ones {
		s.ones[i] = 1
	}
	switch of := target.(type) {
	case nn.Implicit:
		s.drawn = newImplicitTargets(of, c.Rows, s.head.Out)
	case nn.Munchausen:
		s.soft = soft{tau: of.Tau, pi: make([]float64, s.head.Out)}
		if of.Choosing > 0 {
			s.drawn = newImplicitTargets(nn.Implicit{Taus: of.Taus, Choosing: of.Choosing}, c.Rows, s.head.Out)
		}
	}
	specs := nn.TargetSpecs(c.Net, target)
	if s.target, err = d.network(specs[0], c.Rows); err == nil && len(specs) > 1 {
		s.online, err = d.network(specs[1], c.Rows)
	}
	return s, err
}

func (s *qStepper) Update(theta, target *nn.Params, t *experience.Transitions, lr float64, r *nn.Report) error {
	if err := graph.CheckTransitions(t, len(s.best), s.head.Out, s.ones != nil); err != nil {
		return err
	}
	learned, choosing := theta, theta
	if s.noise != nil {
		learned, choosing, target = s.noise.draw(theta, target, s.optimizer.Step())
	}
	if err := s.targets(choosing, target, t); err != nil {
		return err
	}
	s.batch.Obs, s.batch.Actions = t.Obs, t.Actions
	if s.ones != nil {
		weights := &s.batch.Columns[len(s.batch.Columns)-1]
		*weights = s.ones
		if t.Weights != nil {
			*weights = t.Weights
		}
	}
	if s.noise == nil {
		return s.stepper.Update(theta, s.batch, lr, r)
	}
	if err := s.Learn(learned, s.batch, r); err != nil {
		return err
	}
	s.noise.sets[0].noise.Gradient(s.grad)
	return s.Step(theta, lr, r)
}

// targets computes the column of the loss.
func (s *qStepper) targets(theta, target *nn.Params, t *experience.Transitions) error {
	rows, targets := len(s.best), s.batch.Columns[0]
	var next nn.Outputs
	var err error
	if s.drawn != nil {
		next, err = s.drawn.forward(s, theta, target, t)
	} else {
		next, err = s.target.Forward(target, t.NextObs, rows)
	}
	if err != nil {
		return err
	}
	if m, ok := s.of.(nn.Munchausen); ok {
		if err := graph.CheckActions(t.Actions, s.head.Out); err != nil {
			return err
		}
		return s.munchausen(m, target, next, t)
	}
	choosing := next
	switch {
	case s.drawn != nil:
	case s.online != nil:
		if choosing, err = s.online.Forward(theta, t.NextObs, rows); err != nil {
			return err
		}
	case len(t.NextMasks) == 0 && s.head.Points() == 1 && s.head.Quantiles == 0:
		return tdTargets(targets, next.Values[0], t.Rewards, t.Discounts)
	}
	for i := range s.best {
		s.best[i] = nn.Argmax(choosing.Row(0, i), maskOf(t.NextMasks, i, rows))
	}
	switch h := &s.head; s.of.(type) {
	case nn.Projected:
		kernel.Project(targets, s.target.points[0], s.best, t.Rewards, t.Discounts, h.Out, supportOf(h))
	case nn.Implicit:
		s.drawn.columns(s, t)
	case nn.Quantile:
		kernel.QuantileTargets(targets, s.target.points[0], s.best, t.Rewards, t.Discounts, h.Out, h.Quantiles)
	default:
		return tdTargetsAt(targets, next.Values[0], s.best, t.Rewards, t.Discounts)
	}
	return nil
}
