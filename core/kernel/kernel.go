// Package kernel holds the numeric inner loops of the networks: convolution,
// dense layers, ReLU and the optimisers, on float32 slices.
//
// Layouts. Everything is row-major. Pictures are [n, channel, height, width],
// convolution weights [out, in, kernel, kernel], dense weights [out, in].
// Kernels are square and never padded. Slices may be longer than a call needs;
// what lies beyond is neither read nor written. Outputs must not overlap
// inputs, except where a function says so.
//
// Paths. Every function exists once per path: "avx512" and "avx2" (C with
// intrinsics), "generic" (the same C on 4-wide vectors, for any processor) and
// "go" (plain Go, the reference the others are tested against, and the only one
// in a build without cgo). The best one the processor runs is chosen when the
// program starts; the environment variable PACELINE_ISA names another. Paths
// agree to rounding, not to the bit: sums run in different orders.
//
// Determinism, on one path:
//   - Same arguments, same bits. Sums run in an order fixed by the shapes and by
//     constants of the path, never by core count, cache size or the position of
//     a slice in memory, and no function starts a thread.
//   - Row i of a forward pass or of an input gradient depends on row i of the
//     input alone: not on n, not on the other rows. A state gets the same
//     Q-values whether it is evaluated alone or in a batch.
//   - The C paths set the floating-point mode (round to nearest, denormals
//     flushed to zero) on entry and restore the caller's on return, because
//     threads inherit their mode from the program that hosts the library. The
//     "go" path computes in whatever mode its thread is in.
//   - The optimisers, SumSquares, Scale and ReLUGrad give the same bits on all
//     paths, denormals aside.
//
// Every function may be called from any number of goroutines at once, on
// different outputs and workspaces. None allocates. A slice that is too short is
// a mistake in the calling code and panics; NaN and infinities flow through.
package kernel

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
)

// table is one path: an implementation of every function below, called with
// checked arguments.
type table struct {
	name          string
	convForward   func(y, x, w, b []float32, n int, c Conv, ws []float32)
	convForwardU8 func(y []float32, x []uint8, scale float32, w, b []float32, n int, c Conv, ws []float32)
	convGradW     func(dw, db, x, dz []float32, n int, c Conv, ws []float32)
	convGradWU8   func(dw, db []float32, x []uint8, scale float32, dz []float32, n int, c Conv, ws []float32)
	convGradX     func(dx, w, dz []float32, n int, c Conv, ws []float32)
	reluGrad      func(dz, y, dy []float32)
	denseForward  func(y, x, w, b []float32, n, in, out int, relu bool)
	denseGradW    func(dw, db, x, dz []float32, n, in, out int, ws []float32)
	denseGradX    func(dx, w, dz []float32, n, in, out int, ws []float32)
	rmsProp       func(theta, grad, avg, sq []float32, lr, decay, eps float32, centered, epsInside bool)
	adam          func(theta, grad, m, v []float32, lr, beta1, beta2, eps float32, step int64)
	adaGrad       func(theta, grad, sq []float32, lr, eps float32)
	sumSquares    func(x []float32) float64
	scale         func(x []float32, a float32)
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

// Conv is the shape of one convolution layer. Every field is at least 1 and
// Kernel at most InH and InW.
type Conv struct{ InC, InH, InW, OutC, Kernel, Stride int }

// OutH returns the height of the output; rows that do not fill a kernel are dropped.
func (c Conv) OutH() int { return (c.InH-c.Kernel)/c.Stride + 1 }

// OutW returns the width of the output.
func (c Conv) OutW() int { return (c.InW-c.Kernel)/c.Stride + 1 }

// InLen returns the elements of one input picture.
func (c Conv) InLen() int { return c.InC * c.InH * c.InW }

// OutLen returns the elements of one output picture.
func (c Conv) OutLen() int { return c.OutC * c.OutH() * c.OutW() }

// WeightLen returns the number of weights, without the biases.
func (c Conv) WeightLen() int { return c.OutC * c.patch() }

// patch returns the inputs that one output element sees.
func (c Conv) patch() int { return c.InC * c.Kernel * c.Kernel }

// ConvForward computes y = relu(conv(x, w) + b): x [n, InC, InH, InW],
// w [OutC, InC, Kernel, Kernel], b [OutC], y [n, OutC, OutH, OutW], ws
// c.Workspace() floats of scratch.
func ConvForward(y, x, w, b []float32, n int, c Conv, ws []float32) {
	c.check(n, ws)
	atLeast("y", len(y), n*c.OutLen())
	atLeast("x", len(x), n*c.InLen())
	atLeast("w", len(w), c.WeightLen())
	atLeast("b", len(b), c.OutC)
	current.Load().convForward(y, x, w, b, n, c, ws)
}

// ConvForwardU8 is ConvForward on bytes: the input is x * scale.
func ConvForwardU8(y []float32, x []uint8, scale float32, w, b []float32, n int, c Conv, ws []float32) {
	c.check(n, ws)
	atLeast("y", len(y), n*c.OutLen())
	atLeast("x", len(x), n*c.InLen())
	atLeast("w", len(w), c.WeightLen())
	atLeast("b", len(b), c.OutC)
	current.Load().convForwardU8(y, x, scale, w, b, n, c, ws)
}

// ConvGradW overwrites dw [OutC, InC, Kernel, Kernel] and db [OutC] with the
// gradients summed over the batch. dz [n, OutC, OutH, OutW] is the gradient
// before the ReLU, where conv(x, w) + b stands.
func ConvGradW(dw, db, x, dz []float32, n int, c Conv, ws []float32) {
	c.check(n, ws)
	atLeast("dw", len(dw), c.WeightLen())
	atLeast("db", len(db), c.OutC)
	atLeast("x", len(x), n*c.InLen())
	atLeast("dz", len(dz), n*c.OutLen())
	current.Load().convGradW(dw, db, x, dz, n, c, ws)
}

// ConvGradWU8 is ConvGradW on bytes: the input is x * scale.
func ConvGradWU8(dw, db []float32, x []uint8, scale float32, dz []float32, n int, c Conv, ws []float32) {
	c.check(n, ws)
	atLeast("dw", len(dw), c.WeightLen())
	atLeast("db", len(db), c.OutC)
	atLeast("x", len(x), n*c.InLen())
	atLeast("dz", len(dz), n*c.OutLen())
	current.Load().convGradWU8(dw, db, x, scale, dz, n, c, ws)
}

// ConvGradX overwrites dx [n, InC, InH, InW] with the gradient of the input.
func ConvGradX(dx, w, dz []float32, n int, c Conv, ws []float32) {
	c.check(n, ws)
	atLeast("dx", len(dx), n*c.InLen())
	atLeast("w", len(w), c.WeightLen())
	atLeast("dz", len(dz), n*c.OutLen())
	current.Load().convGradX(dx, w, dz, n, c, ws)
}

// ReLUGrad computes dz = dy where y > 0, else 0, over len(dz) elements. dz may
// be dy.
func ReLUGrad(dz, y, dy []float32) {
	atLeast("y", len(y), len(dz))
	atLeast("dy", len(dy), len(dz))
	if len(dz) > 0 {
		current.Load().reluGrad(dz, y, dy)
	}
}

// DenseForward computes y = x·wᵀ + b, then max(0, y) where relu is set:
// x [n, in], w [out, in], b [out], y [n, out].
func DenseForward(y, x, w, b []float32, n, in, out int, relu bool) {
	checkDense(n, in, out)
	atLeast("y", len(y), n*out)
	atLeast("x", len(x), n*in)
	atLeast("w", len(w), out*in)
	atLeast("b", len(b), out)
	current.Load().denseForward(y, x, w, b, n, in, out, relu)
}

// DenseGradW overwrites dw [out, in] and db [out] with the gradients summed over
// the batch; dz [n, out] is the gradient before the ReLU; ws is
// DenseWorkspace(n, in, out) floats of scratch.
func DenseGradW(dw, db, x, dz []float32, n, in, out int, ws []float32) {
	checkDense(n, in, out)
	atLeast("dw", len(dw), out*in)
	atLeast("db", len(db), out)
	atLeast("x", len(x), n*in)
	atLeast("dz", len(dz), n*out)
	atLeast("ws", len(ws), DenseWorkspace(n, in, out))
	current.Load().denseGradW(dw, db, x, dz, n, in, out, ws)
}

// DenseGradX overwrites dx [n, in] with the gradient of the input.
func DenseGradX(dx, w, dz []float32, n, in, out int, ws []float32) {
	checkDense(n, in, out)
	atLeast("dx", len(dx), n*in)
	atLeast("w", len(w), out*in)
	atLeast("dz", len(dz), n*out)
	atLeast("ws", len(ws), DenseWorkspace(n, in, out))
	current.Load().denseGradX(dx, w, dz, n, in, out, ws)
}

// RMSProp takes one step over the whole of theta, with g = grad:
//
//	sq    = decay*sq + (1-decay)*g*g
//	avg   = decay*avg + (1-decay)*g     if centered; else avg counts as 0, and may be nil
//	var   = max(sq - avg*avg, 0)
//	theta -= lr*g / sqrt(var + eps)      if epsInside (Mnih et al. 2015)
//	theta -= lr*g / (sqrt(var) + eps)    otherwise (PyTorch, Keras)
func RMSProp(theta, grad, avg, sq []float32, lr, decay, eps float32, centered, epsInside bool) {
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
func Adam(theta, grad, m, v []float32, lr, beta1, beta2, eps float32, step int64) {
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

// Scale multiplies every element of x by a.
func Scale(x []float32, a float32) {
	if len(x) > 0 {
		current.Load().scale(x, a)
	}
}

func (c Conv) check(n int, ws []float32) {
	if n < 1 || c.InC < 1 || c.OutC < 1 || c.Kernel < 1 || c.Stride < 1 || c.InH < c.Kernel || c.InW < c.Kernel {
		panic(fmt.Sprintf("kernel: convolution %+v on %d pictures: every number must be at least 1, and the kernel must fit the picture", c, n))
	}
	atLeast("ws", len(ws), c.Workspace())
}

func checkDense(n, in, out int) {
	if n < 1 || in < 1 || out < 1 {
		panic(fmt.Sprintf("kernel: dense layer of %d rows, %d inputs, %d outputs: each must be at least 1", n, in, out))
	}
}

func atLeast(name string, have, want int) {
	if have < want {
		panic(fmt.Sprintf("kernel: %s: %d elements, must be at least %d", name, have, want))
	}
}
