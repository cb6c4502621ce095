package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

type denseCase struct {
	n              int
	d              *Dense
	team           *Team
	a              *arena
	x, w, b, y, dy []float32 // y: input of the backward pass
	out            []float32 // output of the forward pass
	dw, db, dx, ws []float32
}

func newDenseCase(n int, d Dense, r *rand.Rand) *denseCase {
	a := newArena()
	return &denseCase{n: n, d: &d, a: a,
		x: a.random("x", n*d.In, r), w: a.random("w", d.Out*d.In, r), b: a.random("b", d.Out, r),
		y: a.random("y", n*d.Out, r), dy: a.random("dy", n*d.Out, r),
		out: a.out("out", n*d.Out), dw: a.out("dw", d.Out*d.In), db: a.out("db", d.Out), dx: a.out("dx", n*d.In),
		ws: a.out("ws", d.Workspace(n, nil)),
	}
}

// fresh returns a case with the same inputs and unwritten outputs.
func (k *denseCase) fresh() *denseCase {
	a := newArena()
	return &denseCase{n: k.n, d: k.d, a: a,
		x: a.copied("x", k.x), w: a.copied("w", k.w), b: a.copied("b", k.b), y: a.copied("y", k.y), dy: a.copied("dy", k.dy),
		out: a.out("out", len(k.out)), dw: a.out("dw", len(k.dw)), db: a.out("db", len(k.db)), dx: a.out("dx", len(k.dx)),
		ws: a.out("ws", len(k.ws)),
	}
}

// on sets the team, with a workspace for it.
func (k *denseCase) on(t *Team) *denseCase {
	k.team, k.ws = t, k.a.out("ws", k.d.Workspace(k.n, t))
	return k
}

func (k *denseCase) run() {
	DenseForward(k.team, k.out, k.x, k.w, k.b, k.n, k.d, k.ws)
	y := k.y
	if !k.d.ReLU {
		y = nil
	}
	DenseBackward(k.team, k.dw, k.db, k.dx, k.x, k.w, y, k.dy, k.n, k.d, k.ws)
}

// exact returns the results in float64, from operands rounded to the precision.
func (k *denseCase) exact() (y, dw, db, dx exact) {
	in, out := k.d.In, k.d.Out
	of := func(v float32) float64 { return float64(rounding{k.d.Precision == BF16}.round(v)) }
	y, dw, db, dx = newExact(k.n*out), newExact(out*in), newExact(out), newExact(k.n*in)
	for i := range k.n {
		for o := range out {
			y.add(i*out+o, float64(k.b[o]))
			var g float64
			if !k.d.ReLU || k.y[i*out+o] > 0 {
				db.add(o, float64(k.dy[i*out+o]))
				g = of(k.dy[i*out+o])
			}
			for j := range in {
				x, w := of(k.x[i*in+j]), of(k.w[o*in+j])
				y.add(i*out+o, x*w)
				dw.add(o*in+j, x*g)
				dx.add(i*in+j, w*g)
			}
		}
	}
	if k.d.ReLU {
		y.relu()
	}
	return y, dw, db, dx
}

func TestDenseMatchesFloat64(t *testing.T) {
	// About three times the worst error of any path, 2.8e-7, by exact.errorOf. Products of two bf16
	// are exact, so in both precisions the error is that of the sums.
	const limit = 9e-7
	worst := worstErrors{}
	r := rand.New(rand.NewPCG(7, 8))
	check := func(n, in, out int) {
		for p, precision := range precisions {
			d := Dense{In: in, Out: out, ReLU: r.IntN(2) == 0, Precision: Precision(p), Tiled: r.IntN(2) == 0}
			k := newDenseCase(n, d, r)
			y, dw, db, dx := k.exact()
			where := fmt.Sprintf("%d rows of %+v", n, d)
			eachISA(t, func(t *testing.T) {
				got := k.fresh()
				got.run()
				got.a.check(t)
				worst.within(t, precision+" y", where, y.errorOf(got.out), limit)
				worst.within(t, precision+" dw", where, dw.errorOf(got.dw), limit)
				worst.within(t, precision+" db", where, db.errorOf(got.db), limit)
				worst.within(t, precision+" dx", where, dx.errorOf(got.dx), limit)
			})
		}
	}
	for _, n := range []int{1, 2, 5, 7, 33} {
		for _, in := range []int{1, 3, 4, 15, 16, 17, 31, 64, 100, 513} {
			for _, out := range []int{1, 2, 6, 7, 8, 9, 16, 33, 64} {
				check(n, in, out)
			}
		}
	}
	// More than one block of rows, of inputs and of columns of dw, on every path.
	check(67, 2611, 19)
	check(300, 641, 9)
	for range 3 {
		check(67, 1100, 77)
	}
	worst.log(t)
}

// Row i depends on row i alone, not on the number of rows nor on the other rows.
func TestDenseRowsAreIndependent(t *testing.T) {
	eachPath(t, func(t *testing.T, p Precision) {
		r := rand.New(rand.NewPCG(9, 10))
		for _, in := range []int{4, 64, 513, 2611} {
			for _, out := range []int{6, 64, 77} {
				for _, tiled := range []bool{false, true} {
					testDenseRows(t, r, Dense{In: in, Out: out, ReLU: true, Precision: p, Tiled: tiled})
				}
			}
		}
	})
}

func testDenseRows(t *testing.T, r *rand.Rand, d Dense) {
	t.Helper()
	const rows = 67
	k := newDenseCase(rows, d, r)
	k.run()
	for _, n := range []int{1, 7, 33} {
		for i := 0; i+n <= rows; i += 13 {
			few := newDenseCase(n, d, r)
			copy(few.x, k.x[i*d.In:])
			copy(few.y, k.y[i*d.Out:])
			copy(few.dy, k.dy[i*d.Out:])
			copy(few.w, k.w)
			copy(few.b, k.b)
			few.ws = make([]float32, d.Workspace(n, nil)) // with another alignment
			few.run()
			sameBits(t, "y", few.out, k.out[i*d.Out:(i+n)*d.Out])
			sameBits(t, "dx", few.dx, k.dx[i*d.In:(i+n)*d.In])
		}
	}
}

// Packed and unpacked weights give the same bits.
func TestPackedWeightsGiveTheSameBits(t *testing.T) {
	eachPath(t, func(t *testing.T, p Precision) {
		r := rand.New(rand.NewPCG(17, 18))
		for _, shape := range [][3]int{{1, 1, 1}, {1, 33, 9}, {3, 31, 8}, {4, 32, 7}, {6, 100, 19}, {9, 513, 64}, {8, 1100, 260}} {
			d := Dense{In: shape[1], Out: shape[2], ReLU: r.IntN(2) == 0, Precision: p, Tiled: shape[0] > 4}
			k := newDenseCase(shape[0], d, r)
			k.run()
			for threads := 1; threads <= 3; threads++ {
				team := newTeam(t, threads)
				packed, y := k.a.out("packed", len(k.w)), k.a.out("y'", len(k.out))
				DensePack(team, packed, k.w, &d)
				DenseForwardPacked(team, y, k.x, packed, k.b, k.n, &d, k.a.out("ws'", d.Workspace(k.n, team)))
				sameBits(t, fmt.Sprintf("%d rows of %+v, %d threads: y", k.n, d, threads), y, k.out)
				k.a.check(t)
			}
		}
	})
}

// With dx nil, dw and db have the same bits.
func TestNilDxChangesNoOtherGradient(t *testing.T) {
	eachPath(t, func(t *testing.T, p Precision) {
		r := rand.New(rand.NewPCG(19, 20))
		for _, in := range []int{1, 33, 100} {
			whole := newDenseCase(5, Dense{In: in, Out: 9, ReLU: in == 33, Precision: p}, r)
			whole.run()
			rest := whole.fresh()
			rest.dx = nil
			rest.run()
			rest.a.check(t)
			sameBits(t, "dw", rest.dw, whole.dw)
			sameBits(t, "db", rest.db, whole.db)
		}
	})
}

// roundedByHand rounds to bf16 by a float64 formula: the nearest multiple of the last of eight
// significant bits, ties to even.
func roundedByHand(x float32) float32 {
	v := float64(x)
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return x
	}
	_, exp := math.Frexp(v)
	unit := math.Ldexp(1, exp-8)
	v = math.RoundToEven(v/unit) * unit
	if math.Abs(v) >= math.Ldexp(1, 128) {
		v = math.Inf(int(math.Copysign(1, v)))
	}
	return float32(v)
}

// A layer with the single weight 1 returns its rounded input; with the input 1, its rounded weight.
func TestBF16RoundsToNearestEven(t *testing.T) {
	inf := float32(math.Inf(1))
	values := []float32{0, 1, -1, inf, -inf, nan, math.MaxFloat32, -math.MaxFloat32,
		// Around half a step below infinity; NaNs from which an addition would carry over.
		math.Float32frombits(0x7F7F7FFF), math.Float32frombits(0x7F7F8000),
		math.Float32frombits(0x7FFFFFFF), math.Float32frombits(0x7F800001),
		math.Float32frombits(0xFFFFFFFF), math.Float32frombits(0x00800000)}
	for _, high := range []uint32{0x3F80, 0x3F81, 0xBF80, 0xBFFF, 0x4280, 0x0100, 0x7F00} {
		for _, low := range []uint32{0x0001, 0x7FFF, 0x8000, 0x8001, 0xFFFF} { // ties; around ties
			values = append(values, math.Float32frombits(high<<16|low))
		}
	}
	r := rand.New(rand.NewPCG(21, 22))
	for range 2000 {
		// No denormals: the C paths flush them.
		if v := math.Float32frombits(r.Uint32()); math.Abs(float64(v)) >= 0x1p-126 {
			values = append(values, v)
		}
	}
	d := &Dense{In: 1, Out: 1, Precision: BF16}
	ws := make([]float32, d.Workspace(1, nil))
	same := func(a, b float32) bool { return a == b || a != a && b != b }
	for _, v := range values {
		if got, want := roundBF16(v), roundedByHand(v); !same(got, want) {
			t.Errorf("roundBF16(%x) = %x, want %x", v, got, want)
		}
	}
	eachISA(t, func(t *testing.T) {
		var y, dw, db, dx [1]float32
		one, none := []float32{1}, []float32{0}
		for _, v := range values {
			want := roundBF16(v)
			is := func(operand string, got float32) {
				if !same(got, want) {
					t.Errorf("%s of %x rounds to %x, want %x", operand, v, got, want)
				}
			}
			DenseForward(nil, y[:], []float32{v}, one, none, 1, d, ws)
			is("input", y[0])
			DenseForward(nil, y[:], one, []float32{v}, none, 1, d, ws)
			is("weight", y[0])
			DenseBackward(nil, dw[:], db[:], dx[:], []float32{v}, one, nil, one, 1, d, ws)
			is("input backwards", dw[0])
			DenseBackward(nil, dw[:], db[:], dx[:], one, []float32{v}, nil, one, 1, d, ws)
			is("weight backwards", dx[0])
			DenseBackward(nil, dw[:], db[:], dx[:], one, one, nil, []float32{v}, 1, d, ws)
			is("gradient for the weight", dw[0])
			is("gradient for the input", dx[0])
			if !same(db[0], v) {
				t.Errorf("db %x, want %x: biases are summed in fp32", db[0], v)
			}
		}
	})
}
