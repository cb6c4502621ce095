package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// lossCase is one batch with its results.
type lossCase struct {
	a                                        *arena
	width                                    int
	dq, q, next, rewards, discounts, targets []float32
	weights                                  []float32 // nil: 1 each
	actions                                  []int32
	weight                                   float32
	loss                                     float64
}

// tdCase returns a batch with errors of a few times size.
func tdCase(r *rand.Rand, rows, width int, size float32) *lossCase {
	a := newArena()
	l := &lossCase{a: a, width: width, dq: a.out("dq", rows*width), q: a.random("q", rows*width, r), next: a.random("next", rows*width, r),
		rewards: a.random("rewards", rows, r), discounts: a.random("discounts", rows, r),
		targets: a.out("targets", rows), weight: 1 / float32(rows)}
	for range rows {
		l.actions = append(l.actions, int32(r.IntN(width)))
	}
	for _, s := range [][]float32{l.q, l.next, l.rewards} {
		for i := range s {
			s[i] *= 2 * size
		}
	}
	return l
}

func (l *lossCase) run(squared bool) {
	TDTargets(l.targets, l.next, l.rewards, l.discounts, l.width)
	l.loss = TDLoss(l.dq, l.q, l.actions, l.targets, l.weights, l.width, squared, WeightLoss, l.weight)
}

// Loss and gradient match their formulas in float64, and every path gives the same bits as the Go
// path.
func TestTDLossMatchesFloat64(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	for _, rows := range []int{1, 7, 32, 100} {
		for _, width := range []int{1, 2, 6, 18} {
			for _, squared := range []bool{false, true} {
				k := tdCase(r, rows, width, 1)
				if width == 6 { // weights 0, 1 and 2
					k.weights = k.a.out("weights", rows)
					for i := range k.weights {
						k.weights[i] = float32(i % 3)
					}
				}
				want, gradient := 0.0, make([]float64, rows*width)
				small, large := 0, 0
				for i, a := range k.actions {
					best := float64(slices.Max(k.next[i*width : (i+1)*width]))
					d := float64(k.q[i*width+int(a)]) - (float64(k.rewards[i]) + float64(k.discounts[i])*best)
					loss, slope := d*d/2, d
					if squared {
						loss, slope = d*d, 2*d
					} else if math.Abs(d) >= 1 {
						loss, slope = math.Abs(d)-0.5, math.Copysign(1, d)
						large++
					} else {
						small++
					}
					weight := 1.0
					if k.weights != nil {
						weight = float64(k.weights[i])
					}
					want += loss * weight / float64(rows)
					gradient[i*width+int(a)] = slope * weight / float64(rows)
				}
				if rows >= 32 && !squared && (small < 3 || large < 3) {
					t.Fatalf("%d small errors, %d large ones: the test shows little", small, large)
				}
				defer Use(ISA())
				Use("go")
				k.run(squared)
				plain, plainTargets, plainLoss := slices.Clone(k.dq), slices.Clone(k.targets), k.loss
				eachISA(t, func(t *testing.T) {
					fill(k.dq, nan)
					fill(k.targets, nan)
					k.run(squared)
					k.a.check(t)
					if math.Abs(k.loss-want) > 1e-6*max(want, 1e-3) {
						t.Errorf("loss %v, want %v", k.loss, want)
					}
					for i, g := range k.dq {
						if math.Abs(float64(g)-gradient[i]) > 2e-6/float64(rows) {
							t.Errorf("gradient %d: %v, want %v", i, g, gradient[i])
						}
					}
					sameBits(t, "gradient", k.dq, plain)
					sameBits(t, "targets", k.targets, plainTargets)
					if k.loss != plainLoss {
						t.Errorf("loss %v, the Go path's is %v", k.loss, plainLoss)
					}
				})
			}
		}
	}
}

// A row of weight 0 changes nothing, even if it holds NaN.
func TestTDLossIgnoresRowsOfWeight0(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		k := tdCase(rand.New(rand.NewPCG(35, 36)), 3, 2, 1)
		k.weights = []float32{1, 0, 1}
		k.run(true)
		want, loss := slices.Clone(k.dq), k.loss
		k.q[2], k.q[3], k.rewards[1] = nan, nan, nan
		k.run(true)
		sameBits(t, "gradient", k.dq, want)
		if k.loss != loss || want[2] != 0 || want[3] != 0 || loss == 0 {
			t.Errorf("loss %v with NaN in a row of weight 0, %v without; gradient %v", k.loss, loss, want)
		}
	})
}

// Any NaN makes the loss NaN, and the gradient of its row's action.
func TestTDLossPropagatesNaN(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		const rows, width = 4, 3
		for place := range 4 {
			for i := range rows * width {
				k := tdCase(rand.New(rand.NewPCG(33, uint64(i))), rows, width, 1)
				row := i / width
				switch place {
				case 0:
					k.q[row*width+int(k.actions[row])] = nan
				case 1:
					k.next[i] = nan
				case 2:
					k.rewards[row] = nan
				case 3:
					k.discounts[row] = nan
				}
				k.run(i%2 == 0)
				if k.loss == k.loss {
					t.Errorf("case %d, element %d: loss %v, want NaN", place, i, k.loss)
				}
				for j, g := range k.dq {
					if at := row*width + int(k.actions[row]); (g != g) != (j == at) {
						t.Errorf("case %d, element %d: gradient %d is %v", place, i, j, g)
					}
				}
			}
		}
	})
}

// The Huber loss of errors in both of its pieces and at their edge.
func TestHuberEdges(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		for _, c := range []struct{ d, loss, slope float32 }{
			{0, 0, 0}, {0.5, 0.125, 0.5}, {-0.5, 0.125, -0.5}, {1, 0.5, 1}, {-1, 0.5, -1}, {3, 2.5, 1}, {-3, 2.5, -1},
			{float32(math.Inf(1)), float32(math.Inf(1)), 1}, {float32(math.Inf(-1)), float32(math.Inf(1)), -1},
		} {
			dq := []float32{7}
			if loss := TDLoss(dq, []float32{c.d}, []int32{0}, []float32{0}, nil, 1, false, WeightLoss, 1); float32(loss) != c.loss || dq[0] != c.slope {
				t.Errorf("error %v: loss %v and slope %v, want %v and %v", c.d, loss, dq[0], c.loss, c.slope)
			}
		}
	})
}

// Trap: w clip(d), clip(w d) and w clip(w d) differ. Each order of weighting has its own loss and
// slope, inside of the clip and outside.
func TestOrdersOfWeights(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		for _, c := range []struct {
			order          WeightOrder
			squared        bool
			d, w           float32
			loss, gradient float32
		}{
			{WeightLoss, false, 0.5, 3, 0.375, 1.5}, {WeightGradient, false, 0.5, 3, 0.375, 1}, {WeightError, false, 0.5, 3, 1, 3},
			{WeightLoss, false, -2, 0.25, 0.375, -0.25}, {WeightGradient, false, -2, 0.25, 0.5, -0.5}, {WeightError, false, -2, 0.25, 0.125, -0.125},
			{WeightLoss, true, -2, 0.25, 1, -1}, {WeightError, true, -2, 0.25, 0.25, -0.25},
			{WeightLoss, false, nan, 0, 0, 0}, {WeightGradient, false, nan, 0, 0, 0}, {WeightError, false, nan, 0, 0, 0},
		} {
			dq := []float32{7}
			loss := TDLoss(dq, []float32{c.d}, []int32{0}, []float32{0}, []float32{c.w}, 1, c.squared, c.order, 1)
			if float32(loss) != c.loss || dq[0] != c.gradient {
				t.Errorf("order %v, error %v, weight %v: loss %v and gradient %v, want %v and %v", c.order, c.d, c.w, loss, dq[0], c.loss, c.gradient)
			}
		}
	})
}
