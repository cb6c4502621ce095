package graph

import (
	"slices"

	G "gorgonia.org/gorgonia"
)

// Order lists the ops of a graph in the order of their computation.
type Order struct {
	Steps  []Step
	Nodes  []*G.Node
	Leaves []int // indices in Nodes of inputs and constants
}

// Step is one op. In and Out are indices in Nodes.
type Step struct {
	Op  G.Op
	In  []int
	Out int
}

// Sorted returns the order of a graph, which must not change afterwards.
func Sorted(g *G.ExprGraph) (*Order, error) {
	sorted, err := G.Sort(g) // users before what they use
	if err != nil {
		return nil, err
	}
	o := &Order{}
	indices := map[int64]int{}
	for i := len(sorted) - 1; i >= 0; i-- {
		n, at := sorted[i], len(o.Nodes)
		indices[n.ID()] = at
		o.Nodes = append(o.Nodes, n)
		children := g.From(n.ID())
		if children.Len() == 0 { // an input or a constant
			o.Leaves = append(o.Leaves, at)
			continue
		}
		s := Step{Op: n.Op(), Out: at}
		for children.Next() {
			s.In = append(s.In, indices[children.Node().ID()])
		}
		if len(s.In) == 2 {
			if sum := newSum(n, o.Nodes[s.In[0]], o.Nodes[s.In[1]]); sum != nil {
				s.Op = sum
			}
		}
		o.Steps = append(o.Steps, s)
	}
	return o, nil
}

// part returns the steps that some nodes depend on.
func (o *Order) part(nodes []*G.Node) *Order {
	needed := make([]bool, len(o.Nodes))
	for _, n := range nodes {
		needed[o.index(n)] = true
	}
	p := *o
	p.Steps = nil
	for _, s := range slices.Backward(o.Steps) {
		if needed[s.Out] {
			p.Steps = append(p.Steps, s)
			for _, j := range s.In {
				needed[j] = true
			}
		}
	}
	slices.Reverse(p.Steps)
	return &p
}

func (o *Order) index(n *G.Node) int { return slices.Index(o.Nodes, n) }
