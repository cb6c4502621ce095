package cpu

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/nn/graph"
	"github.com/paceline-rl/paceline/core/nn/nntest"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// stock returns a graph of Gorgonia's own ops: repeated inputs, argument order, a gradient that is
// a sum, constants, and a leaf that is used in several places.
func stock(t *testing.T) (g *G.ExprGraph, x, loss *G.Node, grads G.Nodes) {
	g = G.NewGraph()
	m := func(name string, rows, cols int, from float64) *G.Node {
		data := make([]float32, rows*cols)
		for i := range data {
			data[i] = float32(math.Sin(from + float64(i)))
		}
		return G.NewMatrix(g, tensor.Float32, G.WithShape(rows, cols), G.WithName(name),
			G.WithValue(tensor.New(tensor.WithShape(rows, cols), tensor.WithBacking(data))))
	}
	x = m("x", 3, 4, 0)
	w, v := m("w", 4, 4, 1), m("v", 4, 2, 2)
	h := G.Must(G.Tanh(G.Must(G.Mul(x, w))))
	y := G.Must(G.Mul(G.Must(G.Sub(G.Must(G.HadamardProd(h, h)), h)), v))
	z := G.Must(G.Sub(G.Must(G.HadamardProd(y, y)), G.Must(G.Mul(x, v))))
	loss = G.Must(G.Mean(G.Must(G.Mul(z, G.NewConstant(float32(3))))))
	grads, err := G.Grad(loss, w, v, x)
	nntest.Check(t, err)
	return g, x, loss, grads
}

// value returns the latest run's value of n.
func (m *machine) value(n *G.Node) G.Value { return m.values[slices.Index(m.nodes, n)] }

func TestMachineEqualsTapeMachine(t *testing.T) {
	g, _, loss, grads := stock(t)
	tape := G.NewTapeMachine(g)
	defer tape.Close()
	nntest.Check(t, tape.RunAll())
	g2, x2, loss2, grads2 := stock(t)
	m := new(state).machine(nntest.Must(graph.Sorted(g2))(t))
	first := 0.0
	for range 2 { // a second run must not depend on the first
		nntest.Check(t, m.RunAll())
		first = graph.Scalar(m.value(loss2))
		if graph.Scalar(loss.Value()) != first {
			t.Errorf("loss %v, tape machine %v", first, loss.Value())
		}
		for i := range grads {
			want, got := grads[i].Value().Data().([]float32), m.value(grads2[i]).Data().([]float32)
			for k := range want {
				if want[k] != got[k] {
					t.Errorf("gradient %d[%d]: %v, tape machine %v", i, k, got[k], want[k])
				}
			}
		}
	}
	// The memory of a leaf that is set again counts in the next run.
	x2.Value().(*tensor.Dense).Raw = graph.BytesOf(make([]float32, 12))
	nntest.Check(t, m.RunAll())
	if got := graph.Scalar(m.value(loss2)); got != 0 || first == 0 {
		t.Errorf("loss %v at x = 0, %v before", got, first)
	}
}

// failingOp fails or panics on request.
type failingOp struct{ failure string }

func (o *failingOp) String() string { return "failingOp" }

func (o *failingOp) Do(in ...G.Value) (G.Value, error) {
	switch o.failure {
	case "panic":
		panic("no")
	case "error":
		return nil, fmt.Errorf("will not")
	}
	return in[0], nil
}

// opMachine returns a machine that passes a leaf of two numbers through ops.
func opMachine(ops ...runner) *machine {
	g := G.NewGraph()
	x := tensor.New(tensor.WithShape(2), tensor.WithBacking([]float32{1, 2}))
	m := &machine{nodes: []*G.Node{G.NewVector(g, tensor.Float32, G.WithShape(2), G.WithName("x"), G.WithValue(x))}}
	for i, op := range ops {
		m.steps = append(m.steps, step{op: op, in: []int{i}, out: i + 1, inputs: make([]G.Value, 1)})
	}
	m.values = append([]G.Value{x}, make([]G.Value, len(ops))...)
	return m
}

func TestFailedOpsAreReported(t *testing.T) {
	op := &failingOp{}
	m := opMachine(op)
	for _, c := range []struct{ failure, want string }{
		{"panic", "nn: failingOp: panic: no"}, {"error", "will not"}, {"", ""},
	} {
		op.failure = c.failure
		switch err := m.RunAll(); {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("failure %q: error %v, want %q", c.failure, err, c.want)
		}
	}
	if got := floats(m.values[1]); got[0] != 1 || got[1] != 2 {
		t.Errorf("after the failures: %v", got)
	}
}

func BenchmarkMachine(b *testing.B) { // the cost of a run without its ops
	var ops []runner
	for range 10 {
		ops = append(ops, &failingOp{})
	}
	m := opMachine(ops...)
	b.ReportAllocs()
	for b.Loop() {
		nntest.Check(b, m.RunAll())
	}
}
