package kernel

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
)

// Precision is what the products of a layer multiply. Sums, weights, gradients
// and everything outside the products are float32 either way.
type Precision int

const (
	FP32 Precision = iota
	// BF16 rounds both factors of every product to bfloat16 (8 significant bits).
	// The path "avx512bf16" has instructions for it. The C paths' products are
	// those of Winograd's filtering, the "go" path's the textbook's.
	BF16
)

// table is one path: an implementation of every function below, called with
// checked arguments.
type table struct {
	name       string
	layers     [2]layers // by Precision
	rmsProp    func(theta, grad, avg, sq []float32, lr float32, decay float64, eps float32, centered, epsInside bool)
	adam       func(theta, grad, m, v []float32, lr float32, beta1, beta2 float64, eps float32, step int64)
	adaGrad    func(theta, grad, sq []float32, lr, eps float32)
	sumSquares func(x []float32) float64
	scale      func(x []float32, a float32)
	add        func(x, y []float32)
}

type layers struct {
	convPack      func(packed, w []float32, scale float32, c *Conv, from, to int, ws []float32)
	convPackBack  func(packed, w []float32, c *Conv, from, to int, ws []float32)
	convForward   func(y, x []float32, x8 []uint8, packed, b []float32, n int, c *Conv, ws []float32)
	convBackward  func(dw, db, dx, x []float32, x8 []uint8, scale float32, packed, y, dy []float32, n int, c *Conv, ws []float32)
	denseForward  func(y, x, w, b []float32, n int, d *Dense, from, to int, ws []float32)
	denseBackward func(dw, db, dx, x, w, y, dy []float32, n int, d *Dense, from, to int, ws []float32)
	peak          func(rounds int) (flop float64)
}

var (
	tables  = append(nativeTables(), &reference) // best first
	current atomic.Pointer[table]
	envErr  error
)

func init() {
	current.Store(tables[0])
	if isa, ok := os.LookupEnv("PACELINE_ISA"); ok && isa != "" {
		if err := Use(isa); err != nil {
			envErr = fmt.Errorf("PACELINE_ISA: %w", err)
		}
	}
}

// ISA returns the name of the path in use.
func ISA() string { return current.Load().name }

// ISAs returns the names of the paths that this machine runs, best first.
func ISAs() []string {
	names := make([]string, len(tables))
	for i, t := range tables {
		names[i] = t.name
	}
	return names
}

// Use switches every later call to the path called isa. It is meant for tests:
// results before and after differ by rounding.
func Use(isa string) error {
	for _, t := range tables {
		if t.name == isa {
			current.Store(t)
			return nil
		}
	}
	return fmt.Errorf("%q, must be one of %s on this machine", isa, strings.Join(ISAs(), ", "))
}

// Err reports a value of PACELINE_ISA that names no path of this machine. The
// best path is in use then; whoever starts a run decides whether to go on.
func Err() error { return envErr }

// RMSProp takes one step over the whole of theta, with g = grad:
//
//	sq    = decay*sq + (1-decay)*g*g
//	avg   = decay*avg + (1-decay)*g     if centered; else avg counts as 0, and may be nil
//	var   = max(sq - avg*avg, 0)
//	theta -= lr*g / sqrt(var + eps)      if epsInside (Mnih et al. 2015)
//	theta -= lr*g / (sqrt(var) + eps)    otherwise (PyTorch, Keras)
func RMSProp(theta, grad, avg, sq []float32, lr float32, decay float64, eps float32, centered, epsInside bool) {
	atLeast("grad", len(grad), len(theta))
	atLeast("sq", len(sq), len(theta))
	if centered {
		atLeast("avg", len(avg), len(theta))
	}
	if len(theta) > 0 {
		current.Load().rmsProp(theta, grad, avg, sq, lr, decay, eps, centered, epsInside)
	}
}

// Adam takes step number step (the first is 1) as PyTorch's Adam does:
//
//	m = beta1*m + (1-beta1)*g
//	v = beta2*v + (1-beta2)*g*g
//	theta -= lr/(1-beta1^step) * m / (sqrt(v)/sqrt(1-beta2^step) + eps)
func Adam(theta, grad, m, v []float32, lr float32, beta1, beta2 float64, eps float32, step int64) {
	atLeast("grad", len(grad), len(theta))
	atLeast("m", len(m), len(theta))
	atLeast("v", len(v), len(theta))
	if step < 1 {
		panic(fmt.Sprintf("kernel: step: %d, must be at least 1", step))
	}
	if len(theta) > 0 {
		current.Load().adam(theta, grad, m, v, lr, beta1, beta2, eps, step)
	}
}

// AdaGrad takes one step as PyTorch's Adagrad does: sq += g*g and
// theta -= lr*g / (sqrt(sq) + eps).
func AdaGrad(theta, grad, sq []float32, lr, eps float32) {
	atLeast("grad", len(grad), len(theta))
	atLeast("sq", len(sq), len(theta))
	if len(theta) > 0 {
		current.Load().adaGrad(theta, grad, sq, lr, eps)
	}
}

// SumSquares returns the sum of x[i]*x[i] in float64, added up in 16
// interleaved partial sums on every path.
func SumSquares(x []float32) float64 {
	if len(x) == 0 {
		return 0
	}
	return current.Load().sumSquares(x)
}

// Add adds y to x, over the whole of x.
func Add(x, y []float32) {
	atLeast("y", len(y), len(x))
	if len(x) > 0 {
		current.Load().add(x, y)
	}
}

// Scale multiplies every element of x by a.
func Scale(x []float32, a float32) {
	if len(x) > 0 {
		current.Load().scale(x, a)
	}
}

func atLeast(name string, have, want int) {
	if have < want {
		panic(fmt.Sprintf("kernel: %s: %d elements, must be at least %d", name, have, want))
	}
}
