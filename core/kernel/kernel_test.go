package kernel

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
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

// The same call gives the same bits, from several goroutines at once too.
func TestRepeatable(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		run := func() [][]float32 {
			r := rand.New(rand.NewPCG(15, 16))
			conv, dense := newConvCase(5, Conv{3, 13, 13, 35, 5, 3}, r), newDenseCase(9, 130, 41, r)
			y8, dw8, db8 := conv.run()
			dense.run(true)
			return [][]float32{conv.y, conv.dw, conv.db, conv.dx, y8, dw8, db8, dense.y, dense.dw, dense.db, dense.dx}
		}
		want := run()
		results := make(chan [][]float32)
		for range 4 {
			go func() { results <- run() }()
		}
		for range 4 {
			for i, s := range <-results {
				sameBits(t, "result", s, want[i])
			}
		}
	})
}

func TestNoAllocations(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(17, 18))
		c := Conv{2, 7, 7, 7, 2, 1}
		conv, dense := newConvCase(2, c, r), newDenseCase(3, 17, 9, r)
		arrays := updateArrays(33).slices(33)
		if n := testing.AllocsPerRun(10, func() {
			ConvForward(conv.y, conv.x, conv.w, conv.b, 2, c, conv.ws)
			ConvForwardU8(conv.y, conv.x8, 1, conv.w, conv.b, 2, c, conv.ws)
			ConvGradW(conv.dw, conv.db, conv.x, conv.dz, 2, c, conv.ws)
			ConvGradWU8(conv.dw, conv.db, conv.x8, 1, conv.dz, 2, c, conv.ws)
			ConvGradX(conv.dx, conv.w, conv.dz, 2, c, conv.ws)
			dense.run(true)
			SumSquares(conv.x)
			RMSProp(arrays["theta"], arrays["grad"], arrays["s1"], arrays["s2"], 0.01, 0.95, 0.01, true, true)
			Adam(arrays["theta"], arrays["grad"], arrays["s1"], arrays["s2"], 0.01, 0.9, 0.999, 1e-8, 1)
			AdaGrad(arrays["theta"], arrays["grad"], arrays["s2"], 0.01, 1e-10)
			Scale(arrays["s1"], 0.5)
			ReLUGrad(arrays["grad"], arrays["s1"], arrays["grad"])
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

// Mistakes of the calling code are named before any memory is touched.
func TestShortSlicesPanic(t *testing.T) {
	c := Conv{2, 7, 7, 7, 2, 1}
	s := func(n int) []float32 { return make([]float32, n) }
	big := s(10000)
	for want, call := range map[string]func(){
		"y: 503 elements, must be at least 504":  func() { ConvForward(s(503), big, big, big, 2, c, big) },
		"x: 195 elements, must be at least 196":  func() { ConvForwardU8(big, make([]uint8, 195), 1, big, big, 2, c, big) },
		"dw: 55 elements, must be at least 56":   func() { ConvGradW(s(55), big, big, big, 2, c, big) },
		"dz: 503 elements, must be at least 504": func() { ConvGradX(big, big, s(503), 2, c, big) },
		"ws: 3 elements":                         func() { ConvGradX(big, big, big, 2, c, s(3)) },
		"the kernel must fit the picture":        func() { ConvGradX(big, big, big, 2, Conv{1, 4, 4, 1, 5, 1}, big) },
		"dense layer of 0 rows":                  func() { DenseForward(big, big, big, big, 0, 1, 1, false) },
		"w: 11 elements, must be at least 12":    func() { DenseForward(big, big, s(11), big, 1, 3, 4, false) },
		"avg: 0 elements, must be at least 3":    func() { RMSProp(s(3), s(3), nil, s(3), 1, 1, 1, true, true) },
		"step: 0, must be at least 1":            func() { Adam(s(1), s(1), s(1), s(1), 1, 0.9, 0.9, 1, 0) },
		"dy: 4 elements, must be at least 5":     func() { ReLUGrad(s(5), s(5), s(4)) },
		"grad: 1 elements, must be at least 2":   func() { AdaGrad(s(2), s(1), s(2), 1, 1) },
	} {
		func() {
			defer func() {
				if got, _ := recover().(string); !strings.Contains(got, want) {
					t.Errorf("panic %q, want %q", got, want)
				}
			}()
			call()
		}()
	}
}
