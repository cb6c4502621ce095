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
	Actions *tensor.Dense   // [Rows], int32
	Columns []*tensor.Dense // [Rows] each, in the order of Loss.Columns
	Grads   []*tensor.Dense // in layout order
	Cost    int             // index of the loss in Order.Nodes
	Forward *Order          // the part of Order that computes the heads
	Parts   int             // numbers of Report.Parts

	columns []string // their names
}

// NewLearner returns the graph of a learner for batches of rows rows.
func NewLearner(s nn.Spec, rows int, loss nn.Loss) (*Learner, error) {
	building.Lock()
	defer building.Unlock()
	g, err := build(s, rows)
	if err != nil {
		return nil, err
	}
	l := &Learner{Graph: *g, Parts: len(loss.Parts())}
	l.Learns = true
	cost, err := l.loss(loss)
	if err != nil {
		return nil, err
	}
	grads, err := G.Grad(cost, l.params...)
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
	if l.Order, err = Sorted(l.exprs); err != nil {
		return nil, err
	}
	l.Cost, l.Forward = l.Order.index(cost), l.Order.part(l.heads)
	return l, nil
}

// loss adds a loss and its inputs.
func (l *Learner) loss(loss nn.Loss) (*G.Node, error) {
	var actions *G.Node
	var columns G.Nodes
	actions, l.Actions = l.leaf("actions", tensor.Int32, l.Rows)
	for _, c := range loss.Columns() {
		n, t := l.leaf("column."+c.Name, tensor.Float32, l.Rows)
		columns, l.Columns, l.columns = append(columns, n), append(l.Columns, t), append(l.columns, c.Name)
	}
	if err := loss.Check(&l.Spec); err != nil {
		return nil, err
	}
	switch loss := loss.(type) {
	case nn.TD:
		q := l.Spec.Head("q")
		inputs := append(G.Nodes{l.heads[q], actions}, columns...)
		return G.ApplyOp(&TDOp{op: newOp("td_loss", nil, inputs...), Loss: loss, Width: l.Spec.Heads[q].Out}, inputs...)
	case nn.ActorCritic:
		return l.actorCritic("actor_critic", actions, columns, loss, nil)
	case nn.PPO:
		return l.actorCritic("ppo", actions, columns, nn.ActorCritic{EntropyCoef: loss.EntropyCoef, ValueCoef: loss.ValueCoef}, &loss)
	}
	return nil, fmt.Errorf("loss: %T, must be nn.TD, nn.ActorCritic or nn.PPO", loss)
}

// TDOp has the inputs q [n, Width], actions [n] (int32), targets [n] and, where the loss is
// Weighted, weights [n]. Its output is the scalar loss; the same pass computes the gradient of q.
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

// ActorCriticOp has the inputs logits [n, Width], values [n, 1], actions [n] (int32) and the
// columns [n] of its loss. Its output is the scalar loss; the same pass computes the gradients of
// logits and values.
type ActorCriticOp struct {
	op
	Loss             nn.ActorCritic
	Clipped          *nn.PPO // nil: the loss is not PPO's
	Width            int
	DLogits, DValues *tensor.Dense
}

// actorCritic adds the loss called name.
func (l *Learner) actorCritic(name string, actions *G.Node, columns G.Nodes, loss nn.ActorCritic, clipped *nn.PPO) (*G.Node, error) {
	pi, v := l.Spec.Head("pi"), l.Spec.Head("v")
	inputs := append(G.Nodes{l.heads[pi], l.heads[v], actions}, columns...)
	return G.ApplyOp(&ActorCriticOp{op: newOp(name, nil, inputs...), Loss: loss, Clipped: clipped, Width: l.Spec.Heads[pi].Out}, inputs...)
}

func (o *ActorCriticOp) DiffWRT(inputs int) []bool {
	return append([]bool{true, true}, make([]bool, inputs-2)...)
}

func (o *ActorCriticOp) SymDiff(in G.Nodes, loss, grad *G.Node) (G.Nodes, error) {
	forLogits := newLossGradient(o.name+".pi'", in[0], loss, grad)
	forValues := newLossGradient(o.name+".v'", in[1], loss, grad)
	o.DLogits, o.DValues = forLogits.Value, forValues.Value
	grads := make(G.Nodes, len(in)) // nil: no gradient flows into the columns
	var err error
	if grads[0], err = G.ApplyOp(forLogits, loss, grad); err != nil {
		return nil, err
	}
	grads[1], err = G.ApplyOp(forValues, loss, grad)
	return grads, err
}

// LossGradient has the inputs loss and the scalar gradient of the loss. The op of the loss writes
// Value.
type LossGradient struct {
	op
	Value *tensor.Dense
}

// newLossGradient returns the gradient of a loss for the node of.
func newLossGradient(name string, of, loss, grad *G.Node) *LossGradient {
	o := &LossGradient{op: newOp(name, of.Shape(), loss, grad)}
	o.Value = o.output()
	return o
}
