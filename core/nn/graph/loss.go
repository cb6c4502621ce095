package graph

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/nn"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// WeightColumn is the index of the weights in the columns of nn.ActorCritic and nn.PPO.
const WeightColumn = 2

// Learner is a network with a loss and the gradient of the loss for the parameters.
type Learner struct {
	Graph
	Actions    *tensor.Dense   // [Rows, Integers], int32; nil: the actions have no integers
	Continuous *tensor.Dense   // [Rows, Gaussians]; nil: the actions have none
	Columns    []*tensor.Dense // [Rows, Width] each, in the order of Loss.Columns
	Grads      []*tensor.Dense // in layout order
	Cost       int             // index of the loss in Order.Nodes
	Forward    *Order          // the part of Order that computes the heads
	Parts      int             // numbers of Report.Parts

	Integers  int // of an action
	Gaussians int // numbers of an action

	columns []nn.Column
	perRow  bool // the loss has a number for each row
}

// NewLearner returns the graph of a learner for batches of rows rows.
func NewLearner(s nn.Spec, rows int, loss nn.Loss) (*Learner, error) {
	building.Lock()
	defer building.Unlock()
	g, err := build(nn.LearnerSpec(s, loss), rows)
	if err != nil {
		return nil, err
	}
	l := &Learner{Graph: *g, Parts: len(loss.Parts()), perRow: loss.PerRow() != ""}
	l.Learns = true
	cost, err := l.loss(loss)
	if err != nil {
		return nil, err
	}
	// The sigmas of noisy layers have no part in the graph: see nn.Noise.
	grads, err := G.Grad(cost, l.params[:l.learned()]...)
	if err != nil {
		return nil, err
	}
	for i, n := range grads {
		// A parameter that two layers share would have a sum here, which needs a buffer of its own.
		o, ok := n.Op().(interface{ flat() *tensor.Dense })
		if !ok {
			return nil, fmt.Errorf("nn: the gradient of %s is %v, not an op that writes into the flat gradient", l.Layout.Params[i].Name, n.Op())
		}
		l.Grads = append(l.Grads, o.flat())
	}
	if err := l.means(); err != nil { // not before, because no gradient flows through means
		return nil, err
	}
	if l.Order, err = Sorted(l.exprs); err != nil {
		return nil, err
	}
	l.Cost, l.Forward = l.Order.index(cost), l.Order.part(l.outputs)
	return l, nil
}

// learned returns the number of parameters that the loss depends on: all but the sigmas of noisy
// layers, which are the last.
func (l *Learner) learned() int {
	n := len(l.Layout.Params)
	for i := range l.Layers {
		if l.Layers[i].Sigma > 0 {
			n -= 2
		}
	}
	return n
}

// loss adds a loss and its inputs.
func (l *Learner) loss(loss nn.Loss) (*G.Node, error) {
	var actions, continuous *G.Node
	var columns G.Nodes
	branches, gaussians := l.Spec.Policy()
	if l.Integers, l.Gaussians = len(branches), gaussians; l.Spec.Head("q") >= 0 {
		l.Integers = 1
	}
	switch l.Integers {
	case 0:
	case 1:
		actions, l.Actions = l.leaf("actions", tensor.Int32, l.Rows)
	default:
		actions, l.Actions = l.leaf("actions", tensor.Int32, l.Rows, l.Integers)
	}
	if l.Gaussians > 0 {
		continuous, l.Continuous = l.leaf("continuous", tensor.Float32, l.Rows, l.Gaussians)
	}
	if err := loss.Check(&l.Spec); err != nil {
		return nil, err
	}
	l.columns = loss.Columns(&l.Spec)
	for _, c := range l.columns {
		shape := []int{l.Rows}
		if c.Width > 1 {
			shape = append(shape, c.Width)
		}
		n, t := l.taus, l.Taus // the layers read this column, too
		if c.Name != "taus" {
			n, t = l.leaf("column."+c.Name, tensor.Float32, shape...)
		}
		columns, l.Columns = append(columns, n), append(l.Columns, t)
	}
	switch loss := loss.(type) {
	case nn.TD:
		q := l.Spec.Head("q")
		inputs := append(G.Nodes{l.heads[q], actions}, columns...)
		return G.ApplyOp(&TDOp{op: newOp("td_loss", nil, inputs...), Loss: loss, Width: l.Spec.Heads[q].Out}, inputs...)
	case nn.CrossEntropy, nn.QuantileHuber, nn.ImplicitHuber:
		return l.distribution(loss, actions, columns)
	case nn.ActorCritic:
		return l.actorCritic("actor_critic", actions, continuous, columns, loss, nil)
	case nn.PPO:
		return l.actorCritic("ppo", actions, continuous, columns, nn.ActorCritic{EntropyCoef: loss.EntropyCoef, ValueCoef: loss.ValueCoef}, &loss)
	}
	return nil, fmt.Errorf("loss: %T, must be nn.TD, nn.CrossEntropy, nn.QuantileHuber, nn.ImplicitHuber, nn.ActorCritic or nn.PPO", loss)
}

// TDOp has the inputs q [n, Width], actions [n] (int32), targets [n] and, where the loss has them,
// weights [n]. Its output is the scalar loss; the same pass computes the gradient of q.
type TDOp struct {
	op
	Loss  nn.TD
	Width int
	DQ    *tensor.Dense
}

func (o *TDOp) DiffWRT(inputs int) []bool { return append([]bool{true}, make([]bool, inputs-1)...) }

func (o *TDOp) SymDiff(in G.Nodes, loss, grad *G.Node) (G.Nodes, error) {
	of := newLossGradient(o.name+".q'", in[0], loss, grad)
	o.DQ = of.Value
	dq, err := G.ApplyOp(of, loss, grad)
	return append(G.Nodes{dq}, make(G.Nodes, len(in)-1)...), err
}

// ActorCriticOp has the inputs of ActorCriticInputs. Its output is the scalar loss; the same pass
// computes the gradients of the first four inputs.
type ActorCriticOp struct {
	op
	Loss     nn.ActorCritic
	Clipped  *nn.PPO // nil: the loss is not PPO's
	Width    int     // logits of a row; 0: the policy has no head "pi"
	Branches []int32 // of the head "pi"
	Size     int     // outputs of the head "mu"; 0: the policy has no such head

	DLogits, DMeans, DLogStd, DValues *tensor.Dense // nil: the network has no such input
}

// ActorCriticInputs are the inputs of an ActorCriticOp, in their order. An input that the network
// has not is left out, and nil here.
type ActorCriticInputs struct {
	Logits     G.Value   // [n, Width]
	Means      G.Value   // [n, Size]
	LogStd     G.Value   // [Size]
	Values     G.Value   // [n, 1]
	Actions    G.Value   // [n, branches], int32
	Continuous G.Value   // [n, Size]
	Columns    []G.Value // [n] each, of the loss
}

// Inputs names the inputs of a run.
func (o *ActorCriticOp) Inputs(in []G.Value) (named ActorCriticInputs) {
	if o.Width > 0 {
		named.Logits, in = in[0], in[1:]
	}
	if o.Size > 0 {
		named.Means, named.LogStd, in = in[0], in[1], in[2:]
	}
	named.Values, in = in[0], in[1:]
	if o.Width > 0 {
		named.Actions, in = in[0], in[1:]
	}
	if o.Size > 0 {
		named.Continuous, in = in[0], in[1:]
	}
	named.Columns = in
	return named
}

// actorCritic adds the loss called name.
func (l *Learner) actorCritic(name string, actions, continuous *G.Node, columns G.Nodes, loss nn.ActorCritic, clipped *nn.PPO) (*G.Node, error) {
	o := &ActorCriticOp{Loss: loss, Clipped: clipped}
	var inputs, constants G.Nodes
	if pi := l.Spec.Head("pi"); pi >= 0 {
		o.Width = l.Spec.Heads[pi].Out
		inputs, constants = append(inputs, l.heads[pi]), append(constants, actions)
	}
	o.Branches, o.Size = l.Spec.Policy()
	if o.Size > 0 {
		inputs = append(inputs, l.heads[l.Spec.Head("mu")], l.params[len(l.params)-1])
		constants = append(constants, continuous)
	}
	inputs = append(append(inputs, l.heads[l.Spec.Head("v")]), append(constants, columns...)...)
	o.op = newOp(name, nil, inputs...)
	return G.ApplyOp(o, inputs...)
}

// gradients returns the places of the gradients of the inputs that have one, in their order, and
// the names of the inputs.
func (o *ActorCriticOp) gradients() (to []**tensor.Dense, names []string) {
	if o.Width > 0 {
		to, names = append(to, &o.DLogits), append(names, "pi")
	}
	if o.Size > 0 {
		to, names = append(to, &o.DMeans, &o.DLogStd), append(names, "mu", "log_std")
	}
	return append(to, &o.DValues), append(names, "v")
}

func (o *ActorCriticOp) DiffWRT(inputs int) []bool {
	wrt := make([]bool, inputs)
	to, _ := o.gradients()
	for i := range to {
		wrt[i] = true
	}
	return wrt
}

func (o *ActorCriticOp) SymDiff(in G.Nodes, loss, grad *G.Node) (G.Nodes, error) {
	grads := make(G.Nodes, len(in)) // nil: no gradient flows into actions and columns
	to, names := o.gradients()
	for i, d := range to {
		of := newLossGradient(o.name+"."+names[i]+"'", in[i], loss, grad)
		of.Flat = d == &o.DLogStd
		*d = of.Value
		var err error
		if grads[i], err = G.ApplyOp(of, loss, grad); err != nil {
			return nil, err
		}
	}
	return grads, nil
}

// LossGradient has the inputs loss and the scalar gradient of the loss. The op of the loss writes
// Value.
type LossGradient struct {
	op
	Value *tensor.Dense
	Flat  bool // Value is the gradient of a parameter: a part of the flat gradient
}

func (o *LossGradient) flat() *tensor.Dense { return o.Value }

// newLossGradient returns the gradient of a loss for the node of.
func newLossGradient(name string, of, loss, grad *G.Node) *LossGradient {
	o := &LossGradient{op: newOp(name, of.Shape(), loss, grad)}
	o.Value = o.output()
	return o
}
