package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestCosinesMatchFloat64(t *testing.T) {
	r, a := rand.New(rand.NewPCG(1, 2)), newArena()
	taus := []float32{0, 1, 0.5, 0.25, 1 - 0x1p-24, 0x1p-24, 1e-6}
	for range 500 {
		taus = append(taus, r.Float32())
	}
	for _, n := range []int{1, 2, 64, 1024} {
		to := a.out(fmt.Sprint("to", n), len(taus)*n)
		Cosines(to, taus, n)
		a.check(t)
		for k, got := range to {
			i, tau := k%n+1, float64(taus[k/n])
			if want := math.Cos(math.Pi * math.Mod(float64(i)*tau, 2)); math.Abs(float64(got)-want) > 6e-8 {
				t.Fatalf("cos(pi %d %v) = %v, must be %v", i, tau, got, want)
			}
		}
	}
}

// Every element and every sum is that of float64, on all paths with the same bits, and with
// threads.
func TestModulateMatchesFloat64(t *testing.T) {
	team := newTeam(t, 2)
	for _, c := range []struct{ n, times, width int }{{1, 1, 1}, {3, 5, 7}, {2, 1, 64}, {5, 8, 1000}} {
		sameOnPaths(t, func(t *testing.T) []float32 {
			r, a := rand.New(rand.NewPCG(3, uint64(c.width))), newArena()
			rows := c.n * c.times
			x, by, dy := a.random("x", c.n*c.width, r), a.random("by", rows*c.width, r), a.random("dy", rows*c.width, r)
			y, dby, dx := a.out("y", rows*c.width), a.out("dby", rows*c.width), a.out("dx", c.n*c.width)
			Modulate(nil, y, x, by, c.n, c.times, c.width)
			ModulateBackward(nil, dby, dx, x, by, dy, c.n, c.times, c.width)
			a.check(t)
			sums := make([]float64, c.n*c.width)
			for k := range y {
				own := k/c.width/c.times*c.width + k%c.width
				near(t, "y", y[k], float64(x[own])*float64(by[k]), 1)
				near(t, "dby", dby[k], float64(x[own])*float64(dy[k]), 1)
				sums[own] += float64(dy[k]) * float64(by[k])
			}
			for k, want := range sums {
				near(t, "dx", dx[k], want, float64(c.times))
			}
			one := slices.Concat(y, dby, dx)
			Modulate(team, y, x, by, c.n, c.times, c.width)
			ModulateBackward(team, dby, dx, x, by, dy, c.n, c.times, c.width)
			sameBits(t, "two threads", slices.Concat(y, dby, dx), one)
			return one
		})
	}
}

// BenchmarkModulate times the features of an implicit quantile network on Atari, batch 32 and 64
// taus.
func BenchmarkModulate(b *testing.B) {
	const n, times, width = 32, 64, 3136
	r := rand.New(rand.NewPCG(1, 2))
	x, by, y, dby, dx := randomFloats(n*width, r), randomFloats(n*times*width, r), make([]float32, n*times*width), make([]float32, n*times*width), make([]float32, n*width)
	taus, cosines := make([]float32, n*times), make([]float32, n*times*64)
	for i := range taus {
		taus[i] = r.Float32()
	}
	for _, isa := range ISAs() {
		for name, run := range map[string]func(){
			"cosines":  func() { Cosines(cosines, taus, 64) },
			"forward":  func() { Modulate(nil, y, x, by, n, times, width) },
			"backward": func() { ModulateBackward(nil, dby, dx, x, by, y, n, times, width) },
		} {
			b.Run(isa+"/"+name, func(b *testing.B) {
				defer Use(ISA())
				Use(isa)
				for b.Loop() {
					run()
				}
			})
		}
	}
}
