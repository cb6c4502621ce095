package cuda

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/paceline-rl/paceline/core/kernel"
)

// TestMain makes the plain Go code of core/kernel the reference. If all tests run, it checks that
// they ran every kernel.
func TestMain(m *testing.M) {
	if err := kernel.Use("go"); err != nil {
		panic(err)
	}
	code := m.Run()
	if code == 0 && len(launched) > 0 && flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.skip").Value.String() == "" {
		for name := range compiledKernels() {
			if !launched[name] {
				fmt.Printf("no test runs %s\n", name)
				code = 1
			}
		}
	}
	os.Exit(code)
}

// precision is the precision of a matrix product's operands.
type precision struct {
	name   string
	kernel kernel.Precision
	round  func(float32) float32 // rounds the reference's operands
	within float64
}

func unrounded(x float32) float32 { return x }

// tf32 rounds to 11 significant bits, ties away from zero.
func tf32(x float32) float32 { return math.Float32frombits((math.Float32bits(x) + 0x1000) &^ 0x1FFF) }

var precisions = []precision{
	{"fp32", kernel.FP32, unrounded, 1e-5},
	{"tf32", kernel.FP32, tf32, 1e-5},
	{"bf16", kernel.BF16, unrounded, 1e-5}, // core/kernel rounds
}

func (p *precision) of(x []float32) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = p.round(v)
	}
	return y
}

// random returns n numbers in [-1, 1), some of them zero.
func random(n int, r *rand.Rand) []float32 {
	x := make([]float32, n)
	for i := range x {
		if x[i] = 2*r.Float32() - 1; r.IntN(16) == 0 {
			x[i] = 0
		}
	}
	return x
}

func randomBytes(n int, r *rand.Rand) []uint8 {
	x := make([]uint8, n)
	for i := range x {
		x[i] = uint8(r.IntN(256))
	}
	return x
}

func floatsOf(x []uint8) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(v)
	}
	return y
}

type convCase struct {
	n     int
	conv  kernel.Conv
	bytes bool
}

// convCases returns random shapes and the shapes of the Nature CNN; under sanitizers only a few.
func convCases() (all []convCase) {
	add := func(n, inC, inH, inW, outC, k, stride int, bytes, linear bool) {
		all = append(all, convCase{n, kernel.Conv{InC: inC, InH: inH, InW: inW, OutC: outC, Kernel: k, Stride: stride, PlanarIn: true, PlanarOut: true, Linear: linear}, bytes})
	}
	add(1, 1, 2, 2, 1, 2, 1, false, false)
	add(3, 2, 13, 10, 5, 4, 2, true, false)
	add(2, 3, 7, 9, 33, 3, 1, false, true)
	if sanitizer() == "thread" {
		return all
	}
	add(2, 4, 36, 36, 32, 8, 4, true, false)
	add(5, 3, 11, 12, 17, 6, 2, false, false)
	if sanitizer() != "" {
		return all
	}
	add(2, 4, 84, 84, 32, 8, 4, true, false)
	add(3, 32, 20, 20, 64, 4, 2, false, false)
	add(3, 64, 9, 9, 64, 3, 1, false, false)
	add(40, 2, 20, 20, 16, 4, 2, true, true) // several parts
	r := rand.New(rand.NewPCG(19, 1))
	for range 12 {
		stride := 1 + r.IntN(4)
		k := stride * (2 + r.IntN(2))
		add(1+r.IntN(9), 1+r.IntN(6), k+r.IntN(20), k+r.IntN(20), 1+r.IntN(40), k, stride, r.IntN(2) == 0, r.IntN(2) == 0)
	}
	return all
}

func TestConv(t *testing.T) {
	d := open(t)
	for i, c := range convCases() {
		for _, p := range precisions {
			t.Run(fmt.Sprintf("%s/%d/%dx%d,%d,%d,%d,%d,%d", p.name, i, c.n, c.conv.InC, c.conv.InH, c.conv.InW, c.conv.OutC, c.conv.Kernel, c.conv.Stride), func(t *testing.T) {
				d.t = t
				testConv(t, d, c, p)
			})
		}
	}
}

func testConv(t *testing.T, d *device, c convCase, p precision) {
	r := rand.New(rand.NewPCG(uint64(c.n), uint64(c.conv.InC)))
	conv, n := c.conv, c.n
	conv.Precision = p.kernel
	shape, err := NewConvShape(n, conv.InC, conv.InH, conv.InW, conv.OutC, conv.Kernel, conv.Stride)
	if err != nil {
		t.Fatal(err)
	}
	relu := int32(1)
	if conv.Linear {
		relu = 0
	}
	scale, kind, bytes := float32(1), "", []uint8(nil)
	x := random(n*conv.InLen(), r)
	if c.bytes {
		scale, kind, bytes = 1.0/255, "bytes_", randomBytes(n*conv.InLen(), r)
		x = floatsOf(bytes)
	}
	w, b, dy := random(conv.WeightLen(), r), random(conv.OutC, r), random(n*conv.OutLen(), r)
	ws := make([]float32, conv.Workspace(n, nil))

	// Forward. The weights include the factor of the bytes.
	scaled := make([]float32, len(w))
	for i, v := range w {
		scaled[i] = v * scale
	}
	packed, want := make([]float32, conv.PackLen()), make([]float32, n*conv.OutLen())
	kernel.ConvPack(nil, packed, p.of(scaled), 1, &conv, ws)
	kernel.ConvForward(nil, want, p.of(x), packed, b, n, &conv, ws)
	forward := ConvForwardArgs{Shape: shape, W: put(d, w), B: put(d, b), Scale: scale, ReLU: relu}
	if forward.X = put(d, x); c.bytes {
		forward.X = put(d, bytes)
	}
	forward.Y = d.outputs(len(want))
	d.launch("conv_forward_"+kind+p.name, shape.Forward(), &forward)
	first := d.result("y", forward.Y, len(want))
	near(t, "y", first, want, p.within)
	if n > 1 { // one image gives the same bits as in a batch
		one := shape
		one.Images = 1
		alone := forward
		alone.Shape, alone.Y = one, d.outputs(conv.OutLen())
		d.launch("conv_forward_"+kind+p.name, one.Forward(), &alone)
		same(t, "y of one image", d.result("y", alone.Y, conv.OutLen()), first[:conv.OutLen()])
	}

	// Backward. Both use the reference's y, so that both mask the same gradients.
	dw, db, dx := make([]float32, len(w)), make([]float32, len(b)), make([]float32, len(x))
	exactDB := make([]float32, len(b))
	back := make([]float32, conv.PackBackLen())
	kernel.ConvPackBack(nil, back, p.of(w), &conv, ws)
	kernel.ConvBackward(nil, dw, exactDB, dx, p.of(x), back, want, dy, n, &conv, ws)
	kernel.ConvBackward(nil, dw, db, dx, p.of(x), back, want, p.of(dy), n, &conv, ws)
	for i := range dw {
		dw[i] *= scale
	}
	y := uint64(0)
	if !conv.Linear {
		y = put(d, want)
	}
	g, split := shape.WeightGradient()
	at := put(d, dy)
	args := ConvWeightGradientArgs{Shape: shape, X: forward.X, DY: at, Y: y, DW: d.outputs(len(dw)), DB: d.outputs(len(db)), Split: split, Scale: scale}
	if split.Parts > 1 {
		args.Parts = d.outputs(int(split.Parts) * shape.PartLen())
	}
	d.launch("conv_weight_gradient_"+kind+p.name, g, &args)
	if split.Parts > 1 {
		sum := WeightGradientSumArgs{Weights: int32(len(dw)), Biases: int32(len(db)), PartsCount: split.Parts, Scale: scale, Parts: args.Parts, DW: args.DW, DB: args.DB}
		d.launch("weight_gradient_sum", Elements(shape.PartLen()), &sum)
	}
	near(t, "dw", d.result("dw", args.DW, len(dw)), dw, p.within)
	near(t, "db", d.result("db", args.DB, len(db)), exactDB, p.within)
	input := ConvInputGradientArgs{Shape: shape, W: forward.W, DY: at, Y: y, DX: d.outputs(len(dx))}
	d.launch("conv_input_gradient_"+p.name, shape.InputGradient(), &input)
	near(t, "dx", d.result("dx", input.DX, len(dx)), dx, p.within)
}

func TestDense(t *testing.T) {
	d := open(t)
	type shape struct{ rows, in, out int }
	all := []shape{{1, 1, 1}, {3, 17, 5}, {33, 40, 34}, {2, 600, 3}, {520, 2, 1}}
	if sanitizer() == "" {
		all = append(all, shape{32, 512, 6}, shape{5, 3136, 512}, shape{1100, 7, 33}, shape{1, 1025, 64})
	}
	for _, s := range all {
		for _, p := range precisions {
			for _, relu := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d,%d,%d,%v", p.name, s.rows, s.in, s.out, relu), func(t *testing.T) {
					d.t = t
					testDense(t, d, s.rows, &kernel.Dense{In: s.in, Out: s.out, ReLU: relu, Precision: p.kernel}, p)
				})
			}
		}
	}
}

func testDense(t *testing.T, d *device, n int, dense *kernel.Dense, p precision) {
	r := rand.New(rand.NewPCG(uint64(n), uint64(dense.In)))
	in, out := dense.In, dense.Out
	if err := CheckDense(n, in, out); err != nil {
		t.Fatal(err)
	}
	relu := int32(0)
	if dense.ReLU {
		relu = 1
	}
	x, w, b, dy := random(n*in, r), random(out*in, r), random(out, r), random(n*out, r)
	ws := make([]float32, dense.Workspace(n, nil))
	want := make([]float32, n*out)
	kernel.DenseForward(nil, want, p.of(x), p.of(w), b, n, dense, ws)
	forward := func(rows int) []float32 {
		g, split := DenseForward(rows, in, out)
		args := DenseForwardArgs{Rows: int32(rows), In: int32(in), Out: int32(out), ReLU: relu, X: put(d, x), W: put(d, w), B: put(d, b), Y: d.outputs(rows * out), Split: split}
		if split.Parts > 1 {
			args.Parts = d.outputs(int(split.Parts) * rows * out)
		}
		d.launch("dense_forward_"+p.name, g, &args)
		if split.Parts > 1 {
			sum := DenseForwardSumArgs{Rows: int32(rows), Out: int32(out), ReLU: relu, PartsCount: split.Parts, Width: NewDivisor(int32(out)), Parts: args.Parts, B: args.B, Y: args.Y}
			d.launch("dense_forward_sum", Elements(rows*out), &sum)
		}
		return d.result("y", args.Y, rows*out)
	}
	y := forward(n)
	near(t, "y", y, want, p.within)
	same(t, "y of one row", forward(1), y[:out])

	dw, db, dx, exactDB := make([]float32, out*in), make([]float32, out), make([]float32, n*in), make([]float32, out)
	kernel.DenseBackward(nil, dw, exactDB, dx, p.of(x), p.of(w), want, dy, n, dense, ws)
	kernel.DenseBackward(nil, dw, db, dx, p.of(x), p.of(w), want, p.of(dy), n, dense, ws)
	mask := uint64(0)
	if dense.ReLU {
		mask = put(d, want)
	}
	at := put(d, dy)
	g, split := DenseWeightGradient(n, in, out)
	args := DenseWeightGradientArgs{Rows: int32(n), In: int32(in), Out: int32(out), X: put(d, x), DY: at, Y: mask, DW: d.outputs(out * in), DB: d.outputs(out), Split: split}
	if split.Parts > 1 {
		args.Parts = d.outputs(int(split.Parts) * out * (in + 1))
	}
	d.launch("dense_weight_gradient_"+p.name, g, &args)
	if split.Parts > 1 {
		sum := WeightGradientSumArgs{Weights: int32(out * in), Biases: int32(out), PartsCount: split.Parts, Scale: 1, Parts: args.Parts, DW: args.DW, DB: args.DB}
		d.launch("weight_gradient_sum", Elements(out*(in+1)), &sum)
	}
	near(t, "dw", d.result("dw", args.DW, out*in), dw, p.within)
	near(t, "db", d.result("db", args.DB, out), exactDB, p.within)
	input := DenseInputGradientArgs{Rows: int32(n), In: int32(in), Out: int32(out), W: put(d, w), DY: at, Y: mask, DX: d.outputs(n * in)}
	d.launch("dense_input_gradient_"+p.name, DenseInputGradient(n, in), &input)
	near(t, "dx", d.result("dx", input.DX, n*in), dx, p.within)
}
