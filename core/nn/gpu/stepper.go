package gpu

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/paceline-rl/paceline/core/cuda"
	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/graph"
)

const stepBytes = int(unsafe.Sizeof(cuda.Step{}))

// stepper is an nn.Stepper on a GPU. Learn, Step and Update are one launch each.
type stepper struct {
	*learner
	optimizer *optimizer
	maxNorm   float64 // +Inf: never clipped
}

func (d *device) Stepper(c nn.StepperConfig) (nn.Stepper, error) {
	s, err := d.stepper(c, func(*learner) {})
	return s, err
}

// stepper makes a stepper. more adds pieces to its minibatches.
func (d *device) stepper(c nn.StepperConfig, more func(*learner)) (*stepper, error) {
	if err := graph.CheckStepper(&c); err != nil {
		return nil, err
	}
	if c.External != nil || c.Admit != nil {
		return nil, errors.New("stepper: the caller takes or admits the steps, must be on the CPU")
	}
	l := d.gpu.learner()
	if err := l.make(c.Net, c.Rows, c.Loss); err != nil {
		return nil, err
	}
	more(l)
	if err := l.allocate(); err != nil {
		return nil, err
	}
	o, err := d.optimizer(c.Optimizer, l.graph.Layout.Size, l.lanes)
	if err != nil {
		return nil, err
	}
	s := &stepper{learner: l, optimizer: o, maxNorm: c.MaxGradNorm}
	if s.maxNorm == 0 {
		s.maxNorm = math.Inf(1)
	}
	return s, nil
}

func (s *stepper) Optimizer() nn.Optimizer { return s.optimizer }

func (s *stepper) Learn(p *nn.Params, b nn.Batch, r *nn.Report) error {
	return s.do(learning, p, &b, 0, r)
}

func (s *stepper) Step(p *nn.Params, lr float64, r *nn.Report) error {
	if math.IsNaN(r.Loss) || math.IsInf(r.Loss, 0) {
		return &nn.NotFinite{What: "loss", Value: r.Loss}
	}
	return s.do(stepping, p, nil, lr, r)
}

func (s *stepper) Update(p *nn.Params, b nn.Batch, lr float64, r *nn.Report) error {
	return s.do(learning|stepping, p, &b, lr, r)
}

func (s *stepper) do(what updatePart, p *nn.Params, b *nn.Batch, lr float64, r *nn.Report) error {
	key := learningKey{what: what}
	if b != nil {
		key.masked, key.obsRows = b.Masks != nil, s.rowsOf(b)
		if err := s.load(p, b); err != nil {
			return err
		}
	}
	var err error
	if key.params, err = s.gpu.address(p); err != nil {
		return err
	}
	return s.launch(key, p, lr, r, func() error { return s.recordBatch(key) })
}

// launch runs the graph of key and waits for it. gradient lists the kernels of the gradient.
func (s *stepper) launch(key learningKey, p *nn.Params, lr float64, r *nn.Report, gradient func() error) error {
	if err := s.graph.CheckReport(r); err != nil {
		return err
	}
	if key.what&stepping != 0 {
		if err := s.optimizer.prepare(lr); err != nil {
			return err
		}
	}
	if err := s.programs.run(key, 1, func() error { return s.record(key, gradient) }, func() error { return s.enqueue(key) }); err != nil {
		return err
	}
	if err := s.lanes.main.Synchronize(); err != nil {
		return err
	}
	if key.what&learning != 0 {
		s.report(r)
		r.Norm = 0
	}
	if key.what&stepping == 0 {
		return nil
	}
	return s.optimizer.stepped(p, r)
}

func (s *stepper) record(key learningKey, gradient func() error) error {
	s.recorder.list = nil
	if key.what&learning != 0 {
		if err := gradient(); err != nil {
			return err
		}
	}
	if key.what&stepping == 0 {
		return nil
	}
	return s.optimizer.record(s.recorder, stepOf{params: key.params, grad: s.grad, loss: s.loss.at(), rates: s.optimizer.rate.at(), maxNorm: s.maxNorm})
}

func (s *stepper) enqueue(key learningKey) error {
	switch key.what {
	case learning:
		return s.learner.enqueue(key)
	case stepping:
		return s.optimizer.enqueue(&s.lanes, s.recorder.list)
	}
	if err := s.fetch(key); err != nil {
		return err
	}
	if err := s.optimizer.enqueue(&s.lanes, s.recorder.list); err != nil {
		return err
	}
	return s.losses.download(s.lanes.main)
}

// qStepper is an nn.QStepper on a GPU. An update is one launch, in which the pass of the target
// network runs concurrently with the forward pass.
type qStepper struct {
	*stepper
	target, online *forwardPass // online chooses the actions of double Q-learning; nil: not double
	next           piece
	rewards        piece
	discounts      piece
	best           uint64
	window         *window
}

// forwardPass is a forward pass inside an update.
type forwardPass struct{ graph *graph.Graph }

func (d *device) QStepper(c nn.StepperConfig, target nn.Target) (nn.QStepper, error) {
	if err := graph.CheckQStepper(&c, target); err != nil {
		return nil, err
	}
	if _, ok := target.(nn.Munchausen); ok {
		return nil, fmt.Errorf("target: %#v, must be a MaxQ on %s", target, d.gpu.name())
	}
	q := &qStepper{}
	var err error
	q.stepper, err = d.stepper(c, func(l *learner) {
		// The pieces from actions to masks are the numbers of a minibatch in a window (window.go).
		q.rewards, q.discounts = l.batch.add(4*c.Rows), l.batch.add(4*c.Rows)
		if len(l.columns) > 1 { // importance weights
			l.columns[1] = l.batch.add(4 * c.Rows)
		}
		l.masks = l.batch.add(c.Rows * c.Net.Heads[c.Net.Head("q")].Out)
		q.next = l.batch.add(c.Rows * c.Net.Obs.Bytes())
	})
	if err != nil {
		return nil, err
	}
	if q.best, err = d.gpu.memory(int64(4 * c.Rows)); err != nil {
		return nil, err
	}
	if q.target, err = q.pass(c); err == nil && target.Passes() > 1 {
		q.online, err = q.pass(c)
	}
	if err != nil {
		return nil, err
	}
	return q, q.newWindow(c.Window)
}

func (q *qStepper) pass(c nn.StepperConfig) (*forwardPass, error) {
	g, _, err := q.gpu.build(c.Net, c.Rows)
	if err != nil {
		return nil, err
	}
	q.recorder.at[g.Obs] = q.next.at()
	return &forwardPass{g}, nil
}

// record lists the kernels of a pass at params and returns the address of the Q-values.
func (p *forwardPass) record(r *recorder, params uint64) (uint64, error) {
	r.put(p.graph, params)
	if err := r.walk(p.graph.Order, p.graph, p.graph.Rows); err != nil {
		return 0, err
	}
	return r.address(p.graph.Heads[0])
}

func (q *qStepper) Update(theta, target *nn.Params, t *experience.Transitions, lr float64, r *nn.Report) error {
	if err := q.loadTransitions(theta, target, t); err != nil {
		return err
	}
	at, err := q.gpu.address(theta)
	if err != nil {
		return err
	}
	key := learningKey{what: learning | stepping, params: at, masked: len(t.NextMasks) > 0}
	if key.target, err = q.gpu.address(target); err != nil {
		return err
	}
	return q.launch(key, theta, lr, r, func() error { return q.gradient(key) })
}

// gradient lists the targets on the side stream, concurrently with the forward pass. The kernel of
// the loss waits for both.
func (q *qStepper) gradient(key learningKey) error {
	if err := q.recorder.forkSide(func() error { return q.targets(key) }); err != nil {
		return err
	}
	return q.learner.record(key.params, false)
}

// targets lists the kernels that compute the column of the loss.
func (q *qStepper) targets(key learningKey) error {
	rows, width := q.graph.Rows, q.graph.Spec.Heads[q.graph.Spec.Head("q")].Out
	next, err := q.target.record(q.recorder, key.target)
	if err != nil {
		return err
	}
	args := cuda.TDTargetsArgs{Rows: int32(rows), Width: int32(width), Next: next, Rewards: q.rewards.at(), Discounts: q.discounts.at(), Targets: q.columns[0].at()}
	if q.online != nil || key.masked {
		choice := cuda.ArgmaxArgs{Rows: args.Rows, Width: args.Width, Values: next, Actions: q.best}
		if q.online != nil {
			if choice.Values, err = q.online.record(q.recorder, key.params); err != nil {
				return err
			}
		}
		if key.masked {
			choice.Masks = q.masks.at()
		}
		if err := enqueue(q.recorder, "argmax", cuda.Loss(rows), choice); err != nil {
			return err
		}
		args.Actions = q.best
	}
	return enqueue(q.recorder, "td_targets", cuda.Loss(rows), args)
}

// weights are the importance weights of the minibatch, in page-locked memory; nil: the loss has
// none.
func (q *qStepper) weights() []float32 {
	if len(q.columns) == 1 {
		return nil
	}
	return view[float32](q.columns[1])
}

// loadTransitions checks a minibatch and copies it to page-locked memory for the upload.
func (q *qStepper) loadTransitions(theta, target *nn.Params, t *experience.Transitions) error {
	rows := q.graph.Rows
	if err := graph.CheckTransitions(t, rows, q.masks.bytes/rows, q.weights() != nil); err != nil {
		return err
	}
	own := nn.Batch{Obs: t.Obs, Actions: t.Actions, Columns: [][]float32{t.Rewards}} // the GPU overwrites the column with the targets
	if weights := q.weights(); weights != nil {
		own.Columns = append(own.Columns, t.Weights)
		if t.Weights == nil {
			for i := range weights {
				weights[i] = 1
			}
			own.Columns[1] = weights
		}
	}
	if err := q.load(theta, &own); err != nil {
		return err
	}
	if err := q.graph.Layout.CheckParams("target", target); err != nil {
		return err
	}
	if err := graph.CheckObs(&q.graph.Spec, "next_obs", t.NextObs, rows); err != nil {
		return err
	}
	if own := q.next.host(); &own[0] == &t.NextObs[0] { // t is OwnTransitions
		return nil
	}
	copy(q.next.host(), t.NextObs)
	copy(q.rewards.host(), graph.BytesOf(t.Rewards))
	copy(q.discounts.host(), graph.BytesOf(t.Discounts))
	copy(q.masks.host(), t.NextMasks)
	return nil
}
