package kernel

import (
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestISAs(t *testing.T) {
	names := ISAs()
	if names[len(names)-1] != "go" {
		t.Errorf("ISAs %v: the last one must be go", names)
	}
	before := ISA()
	defer Use(before)
	for _, isa := range names {
		if err := Use(isa); err != nil || ISA() != isa {
			t.Errorf("Use(%q): %v, in use %q", isa, err, ISA())
		}
	}
	if err := Use("mmx"); err == nil || !strings.Contains(err.Error(), `"mmx"`) || !strings.Contains(err.Error(), "go") {
		t.Errorf(`Use("mmx"): %v, want an error that names it and the choices`, err)
	}
}

// PACELINE_ISA is read when a program starts, so each value needs a process.
func TestEnvironmentVariable(t *testing.T) {
	if want, ok := os.LookupEnv("KERNEL_TEST_WANT"); ok {
		got := ISA()
		if err := Err(); err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) {
			t.Fatalf("%q, want %q", got, want)
		}
		return
	}
	cases := map[string]string{"": ISAs()[0], "sse9": `PACELINE_ISA: "sse9", must be one of `}
	for _, isa := range ISAs() {
		cases[isa] = isa
	}
	for value, want := range cases {
		cmd := exec.Command(os.Args[0], "-test.run=^TestEnvironmentVariable$")
		cmd.Env = append(os.Environ(), "PACELINE_ISA="+value, "KERNEL_TEST_WANT="+want)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("PACELINE_ISA=%q: %v\n%s", value, err, out)
		}
	}
}

// NaN reaches the output, so that a broken run is noticed, and ReLU's edges are
// PyTorch's: nothing passes where y is 0.
func TestNaNFlowsThrough(t *testing.T) {
	eachPath(t, func(t *testing.T, p Precision) {
		inf, minusZero := float32(math.Inf(1)), float32(math.Copysign(0, -1))
		for _, n := range []int{1, 20} {
			d := &Dense{In: 1, Out: 1, ReLU: true, Precision: p}
			y := make([]float32, n)
			x := make([]float32, n)
			x[n-1] = nan
			DenseForward(y, x, []float32{1}, []float32{0}, n, d, 0, 1, make([]float32, d.Workspace(n)))
			if v := y[n-1]; v == v {
				t.Errorf("dense: %v, want NaN", v)
			}

			c := &Conv{InC: 1, InH: 2, InW: 2, OutC: 1, Kernel: 2, Stride: 1, Precision: p}
			ws, packed := make([]float32, c.Workspace()), make([]float32, c.PackLen())
			ConvPack(packed, []float32{1, 1, 1, 1}, 1, c, 0, 1, ws)
			for i := range 4 {
				x := make([]float32, 4*n)
				x[4*(n-1)+i] = nan
				ConvForward(y, x, packed, []float32{0}, n, c, ws)
				if v := y[n-1]; v == v {
					t.Errorf("convolution, input %d: %v, want NaN", i, v)
				}
			}
			if v := SumSquares(x); v == v {
				t.Errorf("sum of squares: %v, want NaN", v)
			}
		}

		y := []float32{0, -1, 1, minusZero, 2, nan}
		dy := []float32{3, 4, nan, inf, inf, 5}
		const n = 6
		check := func(layer string, g []float32) {
			if g[0] != 0 || g[1] != 0 || g[2] == g[2] || g[3] != 0 || g[4] != inf || g[5] != 0 {
				t.Errorf("%s: gradient %v behind the ReLU, want 0 0 NaN 0 +Inf 0", layer, g)
			}
		}
		d := &Dense{In: 1, Out: n, ReLU: true, Precision: p}
		db, ones := make([]float32, n), slices.Repeat([]float32{1}, n)
		DenseBackward(make([]float32, n), db, nil, []float32{1}, ones, y, dy, 1, d, 0, 1, make([]float32, d.Workspace(1)))
		check("dense", db)
		c := &Conv{InC: 1, InH: 2, InW: 2, OutC: n, Kernel: 2, Stride: 1, Precision: p}
		ConvBackwardU8(make([]float32, c.WeightLen()), db, make([]uint8, 4), 1, y, dy, 1, c, make([]float32, c.Workspace()))
		check("convolution", db)
	})
}

func TestNoAllocations(t *testing.T) {
	eachPath(t, func(t *testing.T, p Precision) {
		r := rand.New(rand.NewPCG(17, 18))
		conv := newConvData(2, Conv{InC: 2, InH: 7, InW: 7, OutC: 7, Kernel: 2, Stride: 1}, r).with(true, true, p)
		dense := newDenseCase(3, Dense{In: 17, Out: 9, ReLU: true, Precision: p}, r)
		arrays := updateArrays(33).slices(33)
		if n := testing.AllocsPerRun(10, func() {
			conv.run()
			dense.run()
			SumSquares(conv.x)
			RMSProp(arrays["theta"], arrays["grad"], arrays["s1"], arrays["s2"], 0.01, 0.95, 0.01, true, true)
			Adam(arrays["theta"], arrays["grad"], arrays["s1"], arrays["s2"], 0.01, 0.9, 0.999, 1e-8, 1)
			AdaGrad(arrays["theta"], arrays["grad"], arrays["s2"], 0.01, 1e-10)
			Scale(arrays["s1"], 0.5)
			Add(arrays["s1"], arrays["s2"])
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

func TestPeak(t *testing.T) {
	eachPath(t, func(t *testing.T, p Precision) {
		// From a slow emulator to more than any core does.
		if rate := Peak(p, time.Millisecond); !(rate > 0.001 && rate < 1e5) {
			t.Errorf("%v GFLOP/s", rate)
		}
	})
}

// Mistakes of the calling code are named before any memory is touched.
func TestShortSlicesPanic(t *testing.T) {
	// Pictures of 98 elements, outputs of 252, 56 weights.
	c := &Conv{InC: 2, InH: 7, InW: 7, OutC: 7, Kernel: 2, Stride: 1}
	d := &Dense{In: 3, Out: 4, ReLU: true}
	s := func(n int) []float32 { return make([]float32, n) }
	bytes := func(n int) []uint8 { return make([]uint8, n) }
	big := s(1_000_000)
	for _, p := range []struct {
		want string
		call func()
	}{
		{"ws: 3 elements", func() { ConvPack(big, big, 1, c, 0, 7, s(3)) }},
		{"packed: 255 elements, must be at least", func() { ConvPack(s(255), big, 1, c, 0, 7, big) }},
		{"w: 55 elements, must be at least 56", func() { ConvPack(big, s(55), 1, c, 0, 7, big) }},
		{"ws: 3 elements", func() { ConvPackBack(big, big, c, 0, 7, s(3)) }},
		{"packed: 223 elements, must be at least", func() { ConvPackBack(s(223), big, c, 0, 7, big) }},
		{"w: 55 elements, must be at least 56", func() { ConvPackBack(big, s(55), c, 0, 7, big) }},
		{"outputs 0 to 8 of 7", func() { ConvPack(big, big, 1, c, 0, 8, big) }},
		{"outputs 0 to 6 of 7", func() { ConvPack(big, big, 1, c, 0, 6, big) }},
		{"outputs 1 to 7 of 7", func() { ConvPackBack(big, big, c, 1, 7, big) }},
		{"outputs 0 to 0 of 7", func() { ConvPackBack(big, big, c, 0, 0, big) }},
		{"y: 503 elements, must be at least 504", func() { ConvForward(s(503), big, big, big, 2, c, big) }},
		{"x: 195 elements, must be at least 196", func() { ConvForward(big, s(195), big, big, 2, c, big) }},
		{"packed: 255 elements", func() { ConvForward(big, big, s(255), big, 2, c, big) }},
		{"b: 6 elements, must be at least 7", func() { ConvForward(big, big, big, s(6), 2, c, big) }},
		{"x: 195 elements, must be at least 196", func() { ConvForwardU8(big, bytes(195), big, big, 2, c, big) }},
		{"ws: 3 elements", func() { ConvForwardU8(big, bytes(196), big, big, 2, c, s(3)) }},
		{"dw: 55 elements, must be at least 56", func() { ConvBackward(s(55), big, big, big, big, big, big, 2, c, big) }},
		{"db: 6 elements, must be at least 7", func() { ConvBackward(big, s(6), big, big, big, big, big, 2, c, big) }},
		{"dx: 195 elements, must be at least 196", func() { ConvBackward(big, big, s(195), big, big, big, big, 2, c, big) }},
		{"x: 195 elements, must be at least 196", func() { ConvBackward(big, big, big, s(195), big, big, big, 2, c, big) }},
		{"packed: 223 elements", func() { ConvBackward(big, big, big, big, s(223), big, big, 2, c, big) }},
		{"y: 503 elements, must be at least 504", func() { ConvBackward(big, big, big, big, big, s(503), big, 2, c, big) }},
		{"dy: 503 elements, must be at least 504", func() { ConvBackward(big, big, big, big, big, big, s(503), 2, c, big) }},
		{"ws: 3 elements", func() { ConvBackward(big, big, big, big, big, big, big, 2, c, s(3)) }},
		{"x: 195 elements, must be at least 196", func() { ConvBackwardU8(big, big, bytes(195), 1, big, big, 2, c, big) }},
		{"kernel: 0 pictures", func() { ConvForward(big, big, big, big, 0, c, big) }},
		{"the kernel must fit the picture", func() { ConvPack(big, big, 1, &Conv{1, 4, 4, 1, 6, 3, false, false, FP32}, 0, 1, big) }},
		{"two or three strides wide", func() { ConvPack(big, big, 1, &Conv{1, 4, 4, 1, 4, 1, false, false, FP32}, 0, 1, big) }},
		{"every number must be at least 1", func() { ConvPack(big, big, 1, &Conv{1, 4, 4, 0, 4, 2, false, false, FP32}, 0, 1, big) }},
		{"on 0 rows", func() { DenseForward(big, big, big, big, 0, d, 0, 4, big) }},
		{"2 to 2", func() { DenseForward(big, big, big, big, 1, d, 2, 2, big) }},
		{"0 to 5", func() { DenseForward(big, big, big, big, 1, d, 0, 5, big) }},
		{"-1 to 4", func() { DenseForward(big, big, big, big, 1, d, -1, 4, big) }},
		{"y: 7 elements, must be at least 8", func() { DenseForward(s(7), big, big, big, 2, d, 0, 1, big) }},
		{"x: 5 elements, must be at least 6", func() { DenseForward(big, s(5), big, big, 2, d, 0, 1, big) }},
		{"w: 11 elements, must be at least 12", func() { DenseForward(big, big, s(11), big, 1, d, 0, 1, big) }},
		{"b: 3 elements, must be at least 4", func() { DenseForward(big, big, big, s(3), 1, d, 0, 1, big) }},
		{"ws: 3 elements", func() { DenseForward(big, big, big, big, 1, d, 0, 1, s(3)) }},
		{"0 to 4", func() { DenseBackward(big, big, big, big, big, big, big, 1, d, 0, 4, big) }},
		{"dw: 11 elements, must be at least 12", func() { DenseBackward(s(11), big, big, big, big, big, big, 2, d, 0, 1, big) }},
		{"db: 3 elements, must be at least 4", func() { DenseBackward(big, s(3), big, big, big, big, big, 2, d, 0, 1, big) }},
		{"dx: 5 elements, must be at least 6", func() { DenseBackward(big, big, s(5), big, big, big, big, 2, d, 0, 1, big) }},
		{"x: 5 elements, must be at least 6", func() { DenseBackward(big, big, nil, s(5), big, big, big, 2, d, 0, 1, big) }},
		{"w: 11 elements, must be at least 12", func() { DenseBackward(big, big, nil, big, s(11), big, big, 2, d, 0, 1, big) }},
		{"y: 7 elements, must be at least 8", func() { DenseBackward(big, big, nil, big, big, s(7), big, 2, d, 0, 1, big) }},
		{"dy: 7 elements, must be at least 8", func() { DenseBackward(big, big, nil, big, big, big, s(7), 2, d, 0, 1, big) }},
		{"ws: 3 elements", func() { DenseBackward(big, big, nil, big, big, big, big, 2, d, 0, 1, s(3)) }},
		{"avg: 0 elements, must be at least 3", func() { RMSProp(s(3), s(3), nil, s(3), 1, 1, 1, true, true) }},
		{"step: 0, must be at least 1", func() { Adam(s(1), s(1), s(1), s(1), 1, 0.9, 0.9, 1, 0) }},
		{"grad: 1 elements, must be at least 2", func() { AdaGrad(s(2), s(1), s(2), 1, 1) }},
		{"y: 4 elements, must be at least 5", func() { Add(s(5), s(4)) }},
	} {
		func() {
			defer func() {
				if got, _ := recover().(string); !strings.Contains(got, p.want) {
					t.Errorf("panic %q, want %q", got, p.want)
				}
			}()
			p.call()
		}()
	}
}
