package kernel

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// normShapes cover groups of one number, of less than a vector, of some lanes, of all lanes and of
// more; images and dense layers.
var normShapes = [][2]int{ // channels, positions
	{1, 1}, {3, 1}, {16, 1}, {17, 1}, {31, 1}, {64, 1}, {200, 1}, {512, 1}, {1, 5}, {2, 3}, {5, 4}, {16, 9}, {33, 7}, {32, 20}, {64, 49}, {7, 100},
}

// normCase is a normalisation with the arrays of both passes.
type normCase struct {
	n                                int
	c                                *Norm
	team                             *Team
	a                                *arena
	x, scale, bias, dy               []float32
	y, statistics, dscale, dbias, dx []float32
	ws                               []float32
}

// newNormCase returns a case whose rows have different means, as after a layer with biases.
func newNormCase(n int, c Norm, r *rand.Rand) *normCase {
	a := newArena()
	row, params := c.RowLen(), c.ParamLen()
	k := &normCase{n: n, c: &c, a: a,
		x: a.random("x", n*row, r), scale: a.random("scale", params, r), bias: a.random("bias", params, r), dy: a.random("dy", n*row, r),
		y: a.out("y", n*row), statistics: a.out("statistics", 2*n*c.Groups()),
		dscale: a.out("dscale", params), dbias: a.out("dbias", params), dx: a.out("dx", n*row),
	}
	for i := range k.x {
		k.x[i] += float32(i/row%3) - 1
	}
	return k.on(nil)
}

// on sets the team, with a workspace for it.
func (k *normCase) on(t *Team) *normCase {
	k.team, k.ws = t, k.a.out("ws", k.c.Workspace(k.n, t))
	return k
}

// rows returns a case of rows i to i+m-1 in its own memory.
func (k *normCase) rows(i, m int) *normCase {
	row, a := k.c.RowLen(), newArena()
	s := &normCase{n: m, c: k.c, a: a,
		x: a.copied("x", k.x[i*row:][:m*row]), scale: a.copied("scale", k.scale), bias: a.copied("bias", k.bias), dy: a.copied("dy", k.dy[i*row:][:m*row]),
		y: a.out("y", m*row), statistics: a.out("statistics", 2*m*k.c.Groups()),
		dscale: a.out("dscale", len(k.scale)), dbias: a.out("dbias", len(k.scale)), dx: a.out("dx", m*row),
	}
	return s.on(nil)
}

// reset overwrites the results of an earlier run with NaN.
func (k *normCase) reset() {
	for _, s := range [][]float32{k.y, k.statistics, k.dscale, k.dbias, k.dx, k.ws} {
		fill(s, nan)
	}
}

func (k *normCase) run() {
	NormForward(k.team, k.y, k.statistics, k.x, k.scale, k.bias, k.n, k.c, k.ws)
	y := k.y
	if !k.c.ReLU {
		y = nil
	}
	NormBackward(k.team, k.dscale, k.dbias, k.dx, k.statistics, k.x, y, k.dy, k.scale, k.n, k.c, k.ws)
}

func (k *normCase) results() map[string][]float32 {
	return map[string][]float32{"y": k.y, "statistics": k.statistics, "dscale": k.dscale, "dbias": k.dbias, "dx": k.dx}
}

func (k *normCase) copies() map[string][]float32 {
	m := k.results()
	for name, s := range m {
		m[name] = slices.Clone(s)
	}
	return m
}

// exact returns the results by the definition in float64, from two sums over a group, with the size
// of their terms. It walks rows and parameters by channel and position.
func (k *normCase) exact() map[string]exact {
	c := k.c
	row, params := c.RowLen(), c.ParamLen()
	e := map[string]exact{"y": newExact(k.n * row), "dx": newExact(k.n * row), "dscale": newExact(params), "dbias": newExact(params)}
	number := func(i, ch, p int) int {
		if c.Planar {
			return i*row + ch*c.Positions + p
		}
		return i*row + p*c.Channels + ch
	}
	param := func(ch, p int) int {
		if c.All {
			return ch*c.Positions + p
		}
		return ch
	}
	type place struct{ number, param int }
	for i := range k.n {
		groups := make([][]place, c.Groups())
		for ch := range c.Channels {
			for p := range c.Positions {
				g := 0
				if !c.All {
					g = p
				}
				groups[g] = append(groups[g], place{number(i, ch, p), param(ch, p)})
			}
		}
		for _, g := range groups {
			var sum, squares, largest float64
			for _, at := range g {
				sum += float64(k.x[at.number])
				largest = max(largest, math.Abs(float64(k.x[at.number])))
			}
			mean := sum / float64(len(g))
			for _, at := range g {
				squares += math.Pow(float64(k.x[at.number])-mean, 2)
			}
			by := 1 / math.Sqrt(squares/float64(len(g))+float64(c.Eps))
			var ofG, ofGH, size float64
			hat := func(at place) float64 { return (float64(k.x[at.number]) - mean) * by }
			// The rounding of x changes hat by up to 2^-24 of blur.
			blur := by * largest
			through := func(at place) float64 {
				if c.ReLU && hat(at)*float64(k.scale[at.param])+float64(k.bias[at.param]) <= 0 {
					return 0
				}
				return float64(k.dy[at.number])
			}
			for _, at := range g {
				y := hat(at)*float64(k.scale[at.param]) + float64(k.bias[at.param])
				if c.ReLU {
					y = max(y, 0)
				}
				e["y"].sum[at.number] = y
				e["y"].size[at.number] = (math.Abs(hat(at))+blur)*math.Abs(float64(k.scale[at.param])) + math.Abs(float64(k.bias[at.param]))
				d := through(at)
				e["dbias"].add(at.param, d)
				e["dscale"].add(at.param, d*hat(at))
				e["dscale"].size[at.param] += math.Abs(d) * blur
				gr := d * float64(k.scale[at.param])
				ofG += gr / float64(len(g))
				ofGH += gr * hat(at) / float64(len(g))
				size = max(size, math.Abs(gr)*(1+math.Abs(hat(at))+blur))
			}
			for _, at := range g {
				gr := through(at) * float64(k.scale[at.param])
				e["dx"].sum[at.number] = by * (gr - ofG - hat(at)*ofGH)
				e["dx"].size[at.number] = by * size * (1 + math.Abs(hat(at)) + blur)
			}
		}
	}
	return e
}

// eachNorm calls f with every kind of normalisation of every shape.
func eachNorm(f func(i int, c Norm)) {
	for i, s := range normShapes {
		for kind := range 8 {
			f(8*i+kind, Norm{Channels: s[0], Positions: s[1], Planar: kind&1 != 0, All: kind&2 != 0, ReLU: kind&4 != 0, Eps: []float32{1e-5, 1e-6}[i%2]})
		}
	}
}

func (c *Norm) String() string { return fmt.Sprintf("%+v", *c) }

// Results match the definition in float64, and every path gives the same bits as the Go path.
func TestNormMatchesFloat64(t *testing.T) {
	// About three times the worst errors: 1.4e-7, 2.2e-8, 9.3e-8 and 1.5e-7.
	limits := map[string]float64{"y": 4e-7, "dx": 7e-8, "dscale": 3e-7, "dbias": 4.5e-7}
	worst := worstErrors{}
	defer Use(ISA())
	eachNorm(func(i int, c Norm) {
		n := []int{1, 3, 8, 9, 33}[i%5]
		k := newNormCase(n, c, rand.New(rand.NewPCG(51, uint64(i))))
		exact, where := k.exact(), fmt.Sprintf("%d rows of %v", n, k.c)
		Use("go")
		k.run()
		want := k.copies()
		eachISA(t, func(t *testing.T) {
			k.reset()
			k.run()
			k.a.check(t)
			for name, got := range k.results() {
				sameBits(t, name+" of "+where, got, want[name])
				if limit, ok := limits[name]; ok {
					worst.within(t, name, where, exact[name].errorOf(got), limit)
				}
			}
			without := slices.Clone(k.y)
			NormForward(nil, without, nil, k.x, k.scale, k.bias, n, k.c, k.ws)
			sameBits(t, "y without statistics", without, k.y)
		})
	})
	worst.log(t)
}

// The results of a row do not depend on the other rows, even if they are NaN.
func TestNormRowsAreIndependent(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		eachNorm(func(i int, c Norm) {
			const n = 20
			k := newNormCase(n, c, rand.New(rand.NewPCG(52, uint64(i))))
			k.run()
			row, groups := c.RowLen(), 2*c.Groups()
			for _, s := range []span{{0, 1}, {7, 9}, {12, 20}} {
				few := k.rows(s.from, s.to-s.from)
				few.run()
				sameBits(t, "y", few.y, k.y[s.from*row:s.to*row])
				sameBits(t, "statistics", few.statistics, k.statistics[s.from*groups:s.to*groups])
				sameBits(t, "dx", few.dx, k.dx[s.from*row:s.to*row])
			}
			const at = 13
			spoilt := k.rows(0, n)
			for j := range spoilt.x {
				if j/row != at {
					spoilt.x[j], spoilt.dy[j] = nan, nan
				}
			}
			spoilt.run()
			sameBits(t, "y among NaN", spoilt.y[at*row:][:row], k.y[at*row:][:row])
			sameBits(t, "dx among NaN", spoilt.dx[at*row:][:row], k.dx[at*row:][:row])
			for name, s := range map[string][]float32{"y": spoilt.y[:row], "dscale": spoilt.dscale} {
				if v := s[0]; v == v {
					t.Errorf("%v: %s is %v, want NaN", &c, name, v)
				}
			}
		})
	})
}

// The bits depend neither on the number of threads nor on the address of a workspace.
func TestNormOnTeamsGivesTheSameBits(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		for i, s := range [][3]int{{32, 400, 33}, {64, 49, 40}, {512, 1, 70}, {17, 40, 30}} {
			for kind := range 8 {
				c := Norm{Channels: s[0], Positions: s[1], Planar: kind&1 != 0, All: kind&2 != 0, ReLU: kind&4 != 0, Eps: 1e-5}
				k := newNormCase(s[2], c, rand.New(rand.NewPCG(53, uint64(i))))
				if s[2]*c.RowLen() < 1<<14 {
					t.Fatalf("%v: too small for a team", &c)
				}
				k.run()
				want := k.copies()
				for _, threads := range []int{2, 3, 5} {
					if ISA() == "go" && threads > 2 {
						continue
					}
					k.on(newTeam(t, threads)).reset()
					k.run()
					k.a.check(t)
					for name, got := range k.results() {
						sameBits(t, fmt.Sprintf("%d threads: %s of %v", threads, name, &c), got, want[name])
					}
				}
			}
		}
	})
}

// In a group of equal numbers eps is the whole variance. The edges of the ReLU are PyTorch's.
func TestNormOfEqualNumbersAndReLUEdges(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		c := Norm{Channels: 4, Positions: 1, Eps: 1e-4}
		k := newNormCase(1, c, rand.New(rand.NewPCG(54, 0)))
		copy(k.x, []float32{3, 3, 3, 3})
		copy(k.scale, []float32{1, 2, 3, 4})
		copy(k.bias, []float32{-1, 0, 1, 2})
		copy(k.dy, []float32{1, 0, 0, 0})
		k.run()
		sameBits(t, "y", k.y, k.bias)
		// (g - mean(g)) / sqrt(eps), with the mean 1/4.
		for i, want := range []float64{75, -25, -25, -25} {
			if math.Abs(float64(k.dx[i])-want) > 1e-3 {
				t.Errorf("dx[%d] = %v, want %v", i, k.dx[i], want)
			}
		}
		k.c.ReLU = true
		copy(k.dy, []float32{5, 6, 7, nan})
		k.bias[3] = nan
		k.run()
		if k.y[0] != 0 || k.y[1] != 0 || k.y[2] != 1 || k.y[3] == k.y[3] {
			t.Errorf("y = %v, want 0 0 1 NaN", k.y)
		}
		sameBits(t, "dbias", k.dbias, []float32{0, 0, 7, 0})
	})
}

func TestNormDoesNotAllocate(t *testing.T) {
	team := newTeam(t, 2)
	eachISA(t, func(t *testing.T) {
		for kind := range 4 {
			k := newNormCase(40, Norm{Channels: 20, Positions: 30, Planar: kind&1 != 0, All: kind&2 != 0, Eps: 1e-5, ReLU: true}, rand.New(rand.NewPCG(55, 0)))
			for _, team := range []*Team{nil, team} {
				k.on(team)
				if n := testing.AllocsPerRun(3, k.run); n != 0 {
					t.Errorf("%v allocations", n)
				}
			}
		}
	})
}

// A linear convolution gives the same bits as the convolution with ReLU where the ReLU changes
// nothing.
func TestLinearConvIsConvWithoutReLU(t *testing.T) {
	eachPath(t, func(t *testing.T, p Precision) {
		for s, c := range bitShapes {
			c.Linear = false
			d := newConvData(9, c, rand.New(rand.NewPCG(56, uint64(s))))
			for _, planar := range layouts {
				want := d.with(planar[0], planar[1], p)
				want.run()
				linear := *d
				linear.c.Linear = true
				linear.dy = slices.Clone(d.dy)
				for i, y := range d.y {
					if !(y > 0) {
						linear.dy[i] = 0
					}
				}
				k := linear.with(planar[0], planar[1], p)
				k.run()
				k.a.check(t)
				got, negative := k.results(), 0
				for _, name := range []string{"y", "y of bytes"} {
					for i, v := range got[name] {
						if v < 0 {
							negative++
							got[name][i] = 0
						}
					}
				}
				if negative == 0 {
					t.Errorf("%s: no output is below 0", convName(9, k.convData.c))
				}
				for _, name := range slices.Sorted(maps.Keys(got)) {
					sameBits(t, name, got[name], want.results()[name])
				}
			}
		}
	})
}
