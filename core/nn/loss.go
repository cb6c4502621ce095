package nn

import (
	"fmt"

	G "gorgonia.org/gorgonia"
)

// Loss is a function of the heads' outputs and of numbers that come with each row.
// It is a value: TD, ActorCritic and PPO are the ones here. What a loss compares with
// (a target network's values, returns, advantages) comes in columns that are made
// beforehand, so that no gradient flows into it.
type Loss interface {
	// Columns are the numbers of each row, in the order of Batch.Columns.
	Columns() []Column
	// Parts names what the loss is made of, in the order of Report.Parts.
	Parts() []string
	// Build adds the loss to a graph and returns its scalar node. It is called once
	// for each Learner. An error is one sentence that names the field of the loss
	// which is not allowed, or the head that the network lacks. Ops that a loss
	// brings along own their outputs; Gorgonia's own allocate in every run.
	Build(in *Inputs) (cost *G.Node, err error)
}

// Column describes one number of each row.
type Column struct {
	Name string
	Doc  string
}

// Inputs are what a loss is built on.
type Inputs struct {
	Heads   []*G.Node // [rows, Out] each, in the order of Spec.Heads
	Actions *G.Node   // [rows], int32; that they are in range is the loss's to check
	Columns []*G.Node // [rows] each, in the order of Loss.Columns
	// Masks is where Batch.Masks is while a batch is computed.
	Masks *[]byte
	// Parts are where the loss's op leaves the parts of each run.
	Parts []float64

	spec *Spec
}

// Head returns the outputs of the head called name and their number.
func (in *Inputs) Head(name string) (outputs *G.Node, width int, err error) {
	i := in.spec.Head(name)
	if i < 0 {
		return nil, 0, fmt.Errorf("heads: none is called %q, which the loss needs", name)
	}
	return in.Heads[i], in.spec.Heads[i].Out, nil
}

// checkActions checks the actions of a batch.
func checkActions(actions []int32, width int) error {
	for i, a := range actions {
		if a < 0 || int(a) >= width {
			return fmt.Errorf("batch.actions[%d]: %d, must be 0 to %d", i, a, width-1)
		}
	}
	return nil
}
