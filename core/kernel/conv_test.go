package kernel

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// convShapes cover a single output; outputs that fill Winograd's tiles (3 x 3 outputs if the kernel
// is two strides wide, 2 x 2 if it is three) and outputs that do not; images that need no padding
// and are read in place; rows that no kernel reaches; channels and cells that do not fill a vector,
// a pair or a tile; batches around PACELINE_CONV_BLOCK; several groups of tiles (54 forward, 64 and
// 200 backward), and images larger than a group; patches that do not overlap, and patches of
// kernels that are less than one, more than three or no whole number of strides wide.
var convShapes = []struct {
	n int
	c Conv
}{
	{1, Conv{InC: 1, InH: 2, InW: 2, OutC: 1, Kernel: 2, Stride: 1}},
	{7, Conv{InC: 3, InH: 5, InW: 8, OutC: 17, Kernel: 2, Stride: 1}},
	{8, Conv{InC: 16, InH: 7, InW: 7, OutC: 33, Kernel: 2, Stride: 1}},
	{9, Conv{InC: 64, InH: 5, InW: 3, OutC: 40, Kernel: 2, Stride: 1}},
	{33, Conv{InC: 5, InH: 4, InW: 7, OutC: 2, Kernel: 2, Stride: 1}},
	{33, Conv{InC: 2, InH: 9, InW: 9, OutC: 3, Kernel: 2, Stride: 1}},
	{1, Conv{InC: 1, InH: 3, InW: 3, OutC: 7, Kernel: 3, Stride: 1}},
	{1, Conv{InC: 64, InH: 9, InW: 9, OutC: 64, Kernel: 3, Stride: 1}},
	{7, Conv{InC: 40, InH: 4, InW: 7, OutC: 64, Kernel: 3, Stride: 1}},
	{9, Conv{InC: 17, InH: 5, InW: 8, OutC: 16, Kernel: 3, Stride: 1}},
	{33, Conv{InC: 2, InH: 6, InW: 6, OutC: 5, Kernel: 3, Stride: 1}},
	{33, Conv{InC: 7, InH: 8, InW: 5, OutC: 33, Kernel: 3, Stride: 1}},
	{33, Conv{InC: 3, InH: 8, InW: 8, OutC: 10, Kernel: 3, Stride: 1}},
	{3, Conv{InC: 1, InH: 33, InW: 30, OutC: 2, Kernel: 3, Stride: 1}},
	{1, Conv{InC: 1, InH: 4, InW: 4, OutC: 1, Kernel: 4, Stride: 2}},
	{1, Conv{InC: 32, InH: 20, InW: 20, OutC: 64, Kernel: 4, Stride: 2}},
	{8, Conv{InC: 33, InH: 9, InW: 8, OutC: 5, Kernel: 4, Stride: 2}},
	{9, Conv{InC: 16, InH: 8, InW: 14, OutC: 17, Kernel: 4, Stride: 2}},
	{33, Conv{InC: 3, InH: 15, InW: 10, OutC: 7, Kernel: 4, Stride: 2}},
	{1, Conv{InC: 2, InH: 6, InW: 6, OutC: 3, Kernel: 6, Stride: 2}},
	{7, Conv{InC: 5, InH: 9, InW: 13, OutC: 40, Kernel: 6, Stride: 2}},
	{8, Conv{InC: 17, InH: 12, InW: 8, OutC: 16, Kernel: 6, Stride: 2}},
	{33, Conv{InC: 1, InH: 8, InW: 7, OutC: 17, Kernel: 6, Stride: 2}},
	{1, Conv{InC: 7, InH: 6, InW: 6, OutC: 64, Kernel: 6, Stride: 3}},
	{7, Conv{InC: 3, InH: 16, InW: 21, OutC: 2, Kernel: 6, Stride: 3}},
	{9, Conv{InC: 1, InH: 13, InW: 8, OutC: 33, Kernel: 6, Stride: 3}},
	{33, Conv{InC: 16, InH: 12, InW: 12, OutC: 1, Kernel: 6, Stride: 3}},
	{1, Conv{InC: 3, InH: 9, InW: 9, OutC: 5, Kernel: 9, Stride: 3}},
	{7, Conv{InC: 33, InH: 12, InW: 15, OutC: 17, Kernel: 9, Stride: 3}},
	{8, Conv{InC: 2, InH: 17, InW: 14, OutC: 7, Kernel: 9, Stride: 3}},
	{33, Conv{InC: 5, InH: 9, InW: 12, OutC: 16, Kernel: 9, Stride: 3}},
	{1, Conv{InC: 1, InH: 8, InW: 8, OutC: 1, Kernel: 8, Stride: 4}},
	{1, Conv{InC: 4, InH: 84, InW: 84, OutC: 32, Kernel: 8, Stride: 4}},
	{2, Conv{InC: 4, InH: 8, InW: 28, OutC: 3, Kernel: 8, Stride: 4}},
	{7, Conv{InC: 40, InH: 8, InW: 12, OutC: 3, Kernel: 8, Stride: 4}},
	{9, Conv{InC: 2, InH: 35, InW: 11, OutC: 40, Kernel: 8, Stride: 4}},
	{33, Conv{InC: 4, InH: 16, InW: 16, OutC: 7, Kernel: 8, Stride: 4}},
	{1, Conv{InC: 5, InH: 12, InW: 12, OutC: 16, Kernel: 12, Stride: 4}},
	{7, Conv{InC: 4, InH: 21, InW: 30, OutC: 17, Kernel: 12, Stride: 4}},
	{8, Conv{InC: 7, InH: 20, InW: 16, OutC: 33, Kernel: 12, Stride: 4}},
	{33, Conv{InC: 1, InH: 16, InW: 19, OutC: 2, Kernel: 12, Stride: 4}},
	{1, Conv{InC: 1, InH: 1, InW: 1, OutC: 1, Kernel: 1, Stride: 1}},
	{9, Conv{InC: 17, InH: 3, InW: 4, OutC: 33, Kernel: 1, Stride: 1}},
	{33, Conv{InC: 3, InH: 6, InW: 5, OutC: 7, Kernel: 2, Stride: 2}},
	{7, Conv{InC: 4, InH: 14, InW: 16, OutC: 33, Kernel: 5, Stride: 5}},
	{1, Conv{InC: 4, InH: 84, InW: 84, OutC: 32, Kernel: 5, Stride: 5}},
	{9, Conv{InC: 3, InH: 12, InW: 10, OutC: 17, Kernel: 8, Stride: 1}},
	{7, Conv{InC: 4, InH: 21, InW: 17, OutC: 5, Kernel: 8, Stride: 2}},
	{1, Conv{InC: 4, InH: 36, InW: 33, OutC: 32, Kernel: 8, Stride: 3}},
	{9, Conv{InC: 2, InH: 7, InW: 9, OutC: 3, Kernel: 2, Stride: 3}},
	{8, Conv{InC: 32, InH: 16, InW: 16, OutC: 64, Kernel: 5, Stride: 5}},
}

// layouts are all values of PlanarIn and PlanarOut.
var layouts = [][2]bool{{false, false}, {false, true}, {true, false}, {true, true}}

// convLimits are about three times the worst error of any path in TestConvMatchesFloat64 and
// TestConvOfRandomShapesMatchesFloat64 (-v logs them), by exact.errorOfWhole:
//
//	      y       dw      dx
//	fp32  4.7e-6  1.7e-6  1.3e-6
//	bf16  0.019   0.016   0.017
//
// In fp32 the worst is the Go path, which sums hundreds of terms in one chain. In bf16 the Go
// path's 0.008 comes from rounding the operands; Winograd's points, sums of up to four operands,
// are rounded once more.
var convLimits = map[string][2]float64{
	"y":  {FP32: 1.4e-5, BF16: 0.055},
	"dw": {FP32: 5e-6, BF16: 0.05},
	"dx": {FP32: 4e-6, BF16: 0.05},
}

// biasLimit is the limit for db, by exact.errorOf. db is a plain fp32 sum in both precisions; the
// worst error is 1.2e-7.
const biasLimit = 4e-7

// compare checks the results in one layout, on every path in both precisions. withGo includes the
// Go path.
func (d *convData) compare(t *testing.T, planar [2]bool, withGo bool, want convExact, worst worstErrors) {
	t.Helper()
	k := d.with(planar[0], planar[1], FP32)
	eachPath(t, func(t *testing.T, p Precision) {
		if ISA() == "go" && !withGo {
			return
		}
		k.reset(p)
		k.run()
		k.a.check(t)
		where := fmt.Sprintf("%s, planar %v", convName(d.n, d.c), planar)
		got := k.results()
		for name, e := range want.byName() {
			kind, _, _ := strings.Cut(name, " ")
			if kind == "db" {
				worst.within(t, precisions[p]+" "+name, where, e.errorOf(got[name]), biasLimit)
			} else {
				worst.within(t, precisions[p]+" "+name, where, e.errorOfWhole(got[name]), convLimits[kind][p])
			}
		}
	})
}

func TestConvMatchesFloat64(t *testing.T) {
	worst := worstErrors{}
	for i, s := range convShapes {
		d := newConvData(s.n, s.c, rand.New(rand.NewPCG(3, uint64(i))))
		want := d.exact()
		for l, planar := range layouts {
			// The Go path takes seconds for every layout of the larger shapes.
			withGo := products(s.n, s.c) < 200_000 || l == i%len(layouts) && !testing.Short()
			d.compare(t, planar, withGo, want, worst)
		}
	}
	worst.log(t)
}

// randomShape returns a layer and a batch size with at most 100,000 products.
func randomShape(r *rand.Rand) (n int, c Conv) {
	for {
		c.Stride = 1 + r.IntN(5)
		c.Kernel = c.Stride * (1 + r.IntN(3))
		if r.IntN(4) == 0 {
			c.Kernel = 1 + r.IntN(9)
		}
		c.InH = c.Kernel + r.IntN(7*c.Stride)
		c.InW = c.Kernel + r.IntN(7*c.Stride)
		c.InC, c.OutC, n = 1+r.IntN(40/c.Stride), 1+r.IntN(40), 1+r.IntN(40)
		if products(n, c) <= 100_000 {
			return n, c
		}
	}
}

func TestConvOfRandomShapesMatchesFloat64(t *testing.T) {
	worst := worstErrors{}
	shapes := 300
	if testing.Short() {
		shapes = 50
	}
	for i := range shapes {
		r := rand.New(rand.NewPCG(4, uint64(i)))
		n, c := randomShape(r)
		c.Linear = i%3 == 0
		d := newConvData(n, c, r)
		d.compare(t, layouts[i%len(layouts)], true, d.exact(), worst)
	}
	worst.log(t)
}
