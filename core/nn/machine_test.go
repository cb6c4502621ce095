package nn

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/kernel"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// stock is a graph of Gorgonia's own ops: repeated inputs, order of arguments, a
// gradient that is a sum, constants, a leaf used in several places.
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
	if err != nil {
		t.Fatal(err)
	}
	return g, x, loss, grads
}

// value returns what the latest run computed for n.
func (m *machine) value(n *G.Node) G.Value { return m.values[m.index(n)] }

func TestMachineAgainstTapeMachine(t *testing.T) {
	g, _, loss, grads := stock(t)
	tape := G.NewTapeMachine(g)
	defer tape.Close()
	if err := tape.RunAll(); err != nil {
		t.Fatal(err)
	}
	g2, x2, loss2, grads2 := stock(t)
	m, err := newMachine(g2)
	if err != nil {
		t.Fatal(err)
	}
	first := 0.0
	for range 2 { // a second run must not see the first
		if err := m.RunAll(); err != nil {
			t.Fatal(err)
		}
		first = scalar(m.value(loss2))
		if scalar(loss.Value()) != first {
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
	// A leaf bound anew counts in the next run.
	if err := G.Let(x2, tensor.New(tensor.WithShape(3, 4), tensor.WithBacking(make([]float32, 12)))); err != nil {
		t.Fatal(err)
	}
	if err := m.RunAll(); err != nil {
		t.Fatal(err)
	}
	if got := scalar(m.value(loss2)); got != 0 || first == 0 {
		t.Errorf("loss %v at x = 0, %v before", got, first)
	}
}

// A trunk under two heads gets the sum of their gradients, which is one of
// Gorgonia's own ops among ours.
func TestTrunkUnderTwoHeads(t *testing.T) {
	const rows = 3
	values := func(n int, from float64) (x []float32) {
		for i := range n {
			x = append(x, float32(math.Sin(from+float64(i))))
		}
		return x
	}
	dense := func(name string, from, in, out int, act activation) layer {
		return layer{name: name, from: from, in: in, out: out, act: act, dense: &kernel.Dense{In: in, Out: out, ReLU: act == relu}}
	}
	trunk, heads := dense("trunk", -1, 4, 5, relu), []layer{dense("a", 0, 5, 2, linear), dense("b", 0, 5, 3, linear)}
	gradient := func(use ...int) []float32 {
		g := newGraph(rows, nil)
		leaf := func(name string, data []float32, shape ...int) *G.Node {
			n, d := g.leaf(name, tensor.Float32, shape...)
			d.Raw = bytesOf(data)
			return n
		}
		w := leaf("w", values(20, 0), 5, 4)
		features := G.Must(g.layer(&trunk, leaf("x", values(4*rows, 1), rows, 4), w, leaf("b", values(5, 2), 5)))
		var total *G.Node
		for _, i := range use {
			h := &heads[i]
			q := G.Must(g.layer(h, features, leaf(h.name+"w", values(5*h.out, 4), h.out, 5), leaf(h.name+"b", values(h.out, 5), h.out)))
			loss := G.Must(G.Sum(G.Must(G.HadamardProd(q, leaf(h.name+"by", values(h.out*rows, 6), rows, h.out)))))
			if total == nil {
				total = loss
			} else {
				total = G.Must(G.Add(total, loss))
			}
		}
		grads, err := G.Grad(total, w)
		if err != nil {
			t.Fatal(err)
		}
		m, err := newMachine(g.ExprGraph)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range m.nodes { // what a learner points at the flat gradient
			if o, ok := n.Op().(interface{ parameterGradient() *tensor.Dense }); ok && len(o.parameterGradient().Raw) == 0 {
				o.parameterGradient().Raw = bytesOf(make([]float32, o.parameterGradient().Shape().TotalSize()))
			}
		}
		if err := m.RunAll(); err != nil {
			t.Fatal(err)
		}
		return floats(m.value(grads[0]))
	}
	a, b, both := gradient(0), gradient(1), gradient(0, 1)
	var size float64
	for i := range both {
		size += math.Abs(float64(a[i])) * math.Abs(float64(b[i]))
		if math.Abs(float64(a[i]+b[i]-both[i])) > 1e-5 {
			t.Errorf("gradient[%d]: %v from both heads, %v + %v from each", i, both[i], a[i], b[i])
		}
	}
	if size == 0 {
		t.Error("the heads' gradients do not meet")
	}
}

// moody fails when it is asked to.
type moody struct {
	base
	mood string
}

func (o *moody) Do(in ...G.Value) (G.Value, error) {
	switch o.mood {
	case "panic":
		panic("no")
	case "error":
		return nil, fmt.Errorf("will not")
	}
	return in[0], nil
}

func TestMachineFailures(t *testing.T) {
	g := newGraph(1, nil)
	x, d := g.leaf("x", tensor.Float32, 2)
	op := &moody{base: newBase("moody", x.Shape(), x), mood: "panic"}
	y := G.Must(G.ApplyOp(op, x))
	m, err := newMachine(g.ExprGraph)
	if err != nil {
		t.Fatal(err)
	}
	d.Raw = bytesOf([]float32{1, 2})
	for _, c := range []struct{ mood, want string }{
		{"panic", "nn: moody: panic: no"}, {"error", "will not"}, {"", ""},
	} {
		op.mood = c.mood
		switch err := m.RunAll(); {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("mood %q: error %v, want %q", c.mood, err, c.want)
		}
	}
	if got := floats(m.value(y)); got[0] != 1 || got[1] != 2 {
		t.Errorf("after the failures: %v", got)
	}
}

func BenchmarkMachine(b *testing.B) { // the cost of a run besides its ops
	g := newGraph(1, nil)
	n, d := g.leaf("x", tensor.Float32, 2)
	d.Raw = bytesOf([]float32{1, 2})
	for i := range 10 {
		n = G.Must(G.ApplyOp(&moody{base: newBase(fmt.Sprint("op", i), n.Shape(), n)}, n))
	}
	m, err := newMachine(g.ExprGraph)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := m.RunAll(); err != nil {
			b.Fatal(err)
		}
	}
}
