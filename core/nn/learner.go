package nn

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/kernel"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Batch is a minibatch of n transitions, in the caller's memory.
type Batch struct {
	Obs, NextObs []byte  // n*Obs.Bytes() each; float32 aligned to 4 bytes
	Actions      []int32 // [n], 0 to Actions-1
	Rewards      []float32
	// Discounts are what the value of NextObs counts: gamma, or 0 where the
	// transition terminated. The value must be finite even there: 0 times NaN is
	// NaN.
	Discounts []float32
}

// Learner computes the Q-learning loss of a batch and its gradient. It holds
// buffers and a graph but no parameters. One goroutine at a time.
type Learner struct {
	spec    Spec
	layout  *Layout
	graph   *graph
	machine *machine

	online, target              *network
	actions, rewards, discounts *tensor.Dense
	grads                       []*tensor.Dense // in layout order
	loss                        *lossOp
}

// NewLearner returns a learner for batches of exactly batch rows, 1 to MaxRows.
// Its work is shared by the threads of team, which stays the caller's; nil: the
// calling goroutine alone.
func NewLearner(s Spec, batch int, loss Loss, team *kernel.Team) (*Learner, error) {
	if batch < 1 || batch > MaxRows {
		return nil, fmt.Errorf("batch_size: %d, must be 1 to %d", batch, MaxRows)
	}
	if err := loss.check(); err != nil {
		return nil, err
	}
	layout, err := s.Layout()
	if err != nil {
		return nil, err
	}
	building.Lock()
	defer building.Unlock()
	l := &Learner{spec: s, layout: layout, graph: newGraph(batch, team)}
	if err := l.build(loss); err != nil {
		return nil, err
	}
	l.machine, err = newMachine(l.graph.ExprGraph)
	return l, err
}

// build adds loss = L(Q(obs; theta)[actions], rewards + discounts * max Q(nextObs; theta-minus))
// and its gradient for theta.
func (l *Learner) build(loss Loss) (err error) {
	g := l.graph
	if l.online, err = g.network("theta.", l.spec); err != nil {
		return err
	}
	if l.target, err = g.network("theta-minus.", l.spec); err != nil {
		return err
	}
	var actions, rewards, discounts *G.Node
	actions, l.actions = g.leaf("actions", tensor.Int32, g.capacity)
	rewards, l.rewards = g.leaf("rewards", tensor.Float32, g.capacity)
	discounts, l.discounts = g.leaf("discounts", tensor.Float32, g.capacity)
	cost, op, err := g.tdLoss("td_loss", loss, l.online.q, l.target.q, actions, rewards, discounts)
	if err != nil {
		return err
	}
	l.loss = op
	grads, err := G.Grad(cost, l.online.params...)
	if err != nil {
		return err
	}
	for i, n := range grads {
		// A parameter used by more than one layer would have a sum here, which
		// would need a buffer of its own.
		op, ok := n.Op().(interface{ parameterGradient() *tensor.Dense })
		if !ok {
			return fmt.Errorf("nn: the gradient of %s is %v, not an op that writes into the flat gradient", l.layout.Params[i].Name, n.Op())
		}
		l.grads = append(l.grads, op.parameterGradient())
	}
	return nil
}

// Gradient returns the loss of b with online parameters theta and target
// parameters target, and overwrites grad, which has theta's layout, with the
// loss's gradient for theta. The target is treated as a constant. target may be
// theta. theta, target and b are only read and stay the caller's. A loss or gradient that is
// not finite is no error: the caller looks at the loss. Gradient does not allocate.
func (l *Learner) Gradient(theta, target *Params, b *Batch, grad []float32) (loss float32, err error) {
	if err := l.check(theta, target, b, grad); err != nil {
		return 0, err
	}
	l.online.bind(theta, b.Obs)
	l.target.bind(target, b.NextObs)
	l.actions.Raw, l.rewards.Raw, l.discounts.Raw = bytesOf(b.Actions), bytesOf(b.Rewards), bytesOf(b.Discounts)
	for i, p := range l.layout.Params {
		l.grads[i].Raw = bytesOf(grad[p.Offset : p.Offset+p.Size])
	}
	defer l.release()
	if err := l.machine.RunAll(); err != nil {
		return 0, err
	}
	return float32(*l.loss.out), nil
}

func (l *Learner) release() {
	l.online.release()
	l.target.release()
	l.actions.Raw, l.rewards.Raw, l.discounts.Raw = nil, nil, nil
	for _, t := range l.grads {
		t.Raw = nil
	}
}

func (l *Learner) check(theta, target *Params, b *Batch, grad []float32) error {
	n := l.graph.capacity
	if err := l.layout.checkParams("theta", theta); err != nil {
		return err
	}
	if err := l.layout.checkParams("target", target); err != nil {
		return err
	}
	if err := l.spec.checkObs("batch.obs", b.Obs, n); err != nil {
		return err
	}
	if err := l.spec.checkObs("batch.next_obs", b.NextObs, n); err != nil {
		return err
	}
	if len(b.Actions) != n || len(b.Rewards) != n || len(b.Discounts) != n {
		return fmt.Errorf("batch: %d actions, %d rewards, %d discounts, must be %d each", len(b.Actions), len(b.Rewards), len(b.Discounts), n)
	}
	for i, a := range b.Actions {
		if a < 0 || int(a) >= l.spec.Actions {
			return fmt.Errorf("batch.actions[%d]: %d, must be 0 to %d", i, a, l.spec.Actions-1)
		}
	}
	if len(grad) != l.layout.Size {
		return fmt.Errorf("grad: %d floats, must be %d", len(grad), l.layout.Size)
	}
	return nil
}
