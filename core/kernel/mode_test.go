//go:build cgo && amd64

package kernel

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
)

// Every function gives the same bits in any floating-point mode of the calling thread, and leaves
// that mode unchanged.
func TestHostFloatModeChangesNoBits(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const normal, flush, down = 0x1F80, 0x1F80 | 0x8040, 0x1F80 | 0x2000
	before := floatMode()
	defer setFloatMode(before)

	tiny := []float32{1e-38}
	setFloatMode(normal)
	kept := half(tiny)
	setFloatMode(flush)
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
			r := rand.New(rand.NewPCG(13, 14)) // the normal mode: same data every time
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
			conv := d.with(true, false, p)
			arrays := updateArrays(70_000).slices(70_000)
			for i := range arrays["grad"] {
				arrays["grad"][i] *= 1e-19
			}
			norm := newNormCase(40, Norm{Channels: 30, Positions: 20, Planar: true, Eps: 1e-30, ReLU: true}, r)
			for _, s := range [][]float32{norm.x, norm.dy, norm.scale} {
				for i := range s {
					s[i] *= 1e-19
				}
			}
			loss, actorCritic := tdCase(r, 9, 3, 1e-19), acCase(r, 9, 0, acOptions{masks: true, clip: true, largest: true, branches: []int32{3, 2}, size: 3})
			for _, s := range [][]float32{actorCritic.b.Advantages, actorCritic.b.Values, actorCritic.b.Returns, actorCritic.b.Means, actorCritic.b.Continuous} {
				for i := range s {
					s[i] *= 1e-19
				}
			}
			logits := actorCritic.b.Logits
			e, l, th := make([]float32, len(logits)), make([]float32, len(dense.x)), make([]float32, len(dense.x))
			setFloatMode(mode)
			// Helpers inherit the mode of the thread that starts them.
			team := newTeam(t, 2)
			conv.on(team).run()
			dense.on(team).run()
			all := [][]float32{conv.outY, conv.dw, conv.db, conv.dx, conv.outY8, conv.dw8, conv.db8,
				dense.out, dense.dw, dense.db, dense.dx}
			for range 3 {
				RMSProp(team, arrays["theta"], arrays["grad"], 1, arrays["s1"], arrays["s2"], 0.01, 0.95, 0.01, true, true)
				Adam(team, arrays["theta"], arrays["grad"], 1, arrays["s1"], arrays["s2"], 0.01, 0.9, 0.999, 1e-8, 1)
				RAdam(team, arrays["theta"], arrays["grad"], 1, arrays["s1"], arrays["s2"], 0.01, 0.9, 0.999, 1e-8, 9)
				AdaGrad(team, arrays["theta"], arrays["grad"], 1, arrays["s2"], 0.01, 1e-10)
			}
			AdaGrad(team, arrays["theta"], arrays["grad"], 1e-20, arrays["s1"], 0.01, 1e-30)
			Average(team, arrays["s1"], arrays["theta"], 1e-30)
			norm.on(team).run()
			loss.run(true)
			actorCritic.run(1e-19, 1e-10)
			Exp(e, logits)
			Log(l, dense.x)
			Tanh(th, dense.x)
			sum := SumSquares(team, arrays["s2"])
			left := floatMode()
			setFloatMode(normal)
			if left&^0x3f != mode {
				t.Errorf("mode %#x after the calls, %#x before", left, mode)
			}
			all = append(all, arrays["theta"], arrays["grad"], arrays["s1"], arrays["s2"], []float32{float32(sum), float32(loss.loss)}, loss.dq, e, l, th,
				norm.y, norm.dscale, norm.dbias, norm.dx, actorCritic.d.Logits, actorCritic.d.Means, actorCritic.d.LogStd, actorCritic.d.Values, []float32{float32(actorCritic.parts.Policy)})
			return all
		}
		want := results(normal)
		for _, mode := range []uint64{normal, flush, down} {
			for i, s := range results(mode) {
				sameBits(t, fmt.Sprintf("mode %#x, result %d", mode, i), s, want[i])
			}
		}
	})
}

// half is not inlined: the compiler would compute it.
//
//go:noinline
func half(x []float32) float32 { return x[0] * 0.5 }
