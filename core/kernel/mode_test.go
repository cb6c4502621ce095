//go:build cgo && amd64

package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
)

// Values of the MXCSR register.
const (
	roundNearest   = 0x1F80                // Go's own mode
	flushToZero    = roundNearest | 0x8040 // FTZ and DAZ
	roundDown      = roundNearest | 0x2000
	exceptionFlags = 0x3F // sticky: any operation may set them
)

// Every function gives the same bits in any floating-point mode of the calling thread, and leaves
// that mode unchanged.
func TestHostFloatModeChangesNoBits(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := floatMode()
	defer setFloatMode(before)

	tiny := []float32{1e-38}
	setFloatMode(roundNearest)
	kept := half(tiny)
	setFloatMode(flushToZero)
	flushed := half(tiny)
	setFloatMode(before)
	if kept == 0 || flushed != 0 {
		t.Fatal("the mode has no effect on this thread: the test would show nothing")
	}

	eachPath(t, func(t *testing.T, p Precision) {
		if ISA() == "go" {
			t.Skip("the Go path computes in the mode of its thread")
		}
		// A subtest has its own goroutine, and so its own thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer setFloatMode(floatMode())
		results := func(mode uint64) [][]float32 {
			in := newModeInputs(rand.New(rand.NewPCG(13, 14)), p) // the same data in every mode
			setFloatMode(mode)
			// Helpers inherit the mode of the thread that starts them.
			results := in.run(newTeam(t, 2))
			after := floatMode()
			setFloatMode(roundNearest)
			if after&^exceptionFlags != mode {
				t.Errorf("mode %#x after the calls, %#x before", after, mode)
			}
			return results
		}
		want := results(roundNearest)
		for _, mode := range []uint64{roundNearest, flushToZero, roundDown} {
			for i, s := range results(mode) {
				sameBits(t, fmt.Sprintf("mode %#x, result %d", mode, i), s, want[i])
			}
		}
	})
}

// modeInputs has data for every function, small enough that many values and results are denormal.
type modeInputs struct {
	conv                  *convCase
	dense                 *denseCase
	arrays                map[string][]float32 // of the optimisers
	norm                  *normCase
	loss                  *lossCase
	actorCritic           *actorCriticCase
	exp, logarithm, tanhs []float32 // results
}

func newModeInputs(r *rand.Rand, p Precision) *modeInputs {
	d := newConvData(11, Conv{InC: 3, InH: 13, InW: 13, OutC: 35, Kernel: 6, Stride: 3}, r)
	dense := newDenseCase(70, Dense{In: 65, Out: 64, Precision: p}, r)
	for _, s := range [][]float32{d.x, d.w, d.dy, dense.x, dense.w} {
		for i := range s {
			switch r.IntN(4) {
			case 0:
				s[i] *= 1e-38 // denormal
			case 1:
				s[i] *= 1e-20
			}
		}
	}
	in := &modeInputs{
		conv: d.with(true, false, p), dense: dense, arrays: updateArrays(70_000).slices(70_000),
		norm:        newNormCase(40, Norm{Channels: 30, Positions: 20, Planar: true, Eps: 1e-30, ReLU: true}, r),
		loss:        tdCase(r, 9, 3, 1e-19),
		actorCritic: acCase(r, 9, 0, acOptions{masks: true, clip: true, largest: true, branches: []int32{3, 2}, size: 3}),
	}
	norm, batch := in.norm, in.actorCritic.b
	for _, s := range [][]float32{
		in.arrays["grad"], norm.x, norm.dy, norm.scale,
		batch.Advantages, batch.Values, batch.Returns, batch.Means, batch.Continuous,
	} {
		for i := range s {
			s[i] *= 1e-19
		}
	}
	in.exp, in.logarithm, in.tanhs = make([]float32, len(batch.Logits)), make([]float32, len(dense.x)), make([]float32, len(dense.x))
	return in
}

// run calls every function and returns all results.
func (in *modeInputs) run(team *Team) [][]float32 {
	conv, dense, norm, loss, actorCritic := in.conv, in.dense, in.norm, in.loss, in.actorCritic
	theta, grad, s1, s2 := in.arrays["theta"], in.arrays["grad"], in.arrays["s1"], in.arrays["s2"]
	conv.on(team).run()
	dense.on(team).run()
	for range 3 {
		RMSProp(team, theta, grad, 1, s1, s2, 0.01, 0.95, 0.01, true, true)
		Adam(team, theta, grad, 1, s1, s2, 0.01, 0.9, 0.999, 1e-8, 1)
		RAdam(team, theta, grad, 1, s1, s2, 0.01, 0.9, 0.999, 1e-8, 9)
		AdaGrad(team, theta, grad, 1, s2, 0.01, 1e-10)
	}
	AdaGrad(team, theta, grad, 1e-20, s1, 0.01, 1e-30)
	Average(team, s1, theta, 1e-30)
	norm.on(team).run()
	loss.run(true)
	actorCritic.run(1e-19, 1e-10)
	Exp(in.exp, actorCritic.b.Logits)
	Log(in.logarithm, dense.x)
	Tanh(in.tanhs, dense.x)
	sum := SumSquares(team, s2)
	return [][]float32{
		conv.outY, conv.dw, conv.db, conv.dx, conv.outY8, conv.dw8, conv.db8,
		dense.out, dense.dw, dense.db, dense.dx,
		theta, grad, s1, s2, wordsOf(sum), wordsOf(loss.loss),
		loss.dq, in.exp, in.logarithm, in.tanhs,
		norm.y, norm.dscale, norm.dbias, norm.dx,
		actorCritic.d.Logits, actorCritic.d.Means, actorCritic.d.LogStd, actorCritic.d.Values, wordsOf(actorCritic.parts.Policy),
	}
}

// wordsOf returns the bits of x. A conversion to float32 would round in the thread's mode.
func wordsOf(x float64) []float32 {
	bits := math.Float64bits(x)
	return []float32{math.Float32frombits(uint32(bits >> 32)), math.Float32frombits(uint32(bits))}
}

// half is not inlined: the compiler would compute it.
//
//go:noinline
func half(x []float32) float32 { return x[0] * 0.5 }
