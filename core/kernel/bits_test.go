package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/cpu"
)

// bitShapes are shapes of which 33 images fill a group of tiles, or do not; some are read in place.
var bitShapes = []Conv{
	{InC: 2, InH: 8, InW: 8, OutC: 7, Kernel: 3, Stride: 1},
	{InC: 7, InH: 6, InW: 9, OutC: 33, Kernel: 2, Stride: 1},
	{InC: 3, InH: 15, InW: 10, OutC: 16, Kernel: 4, Stride: 2},
	{InC: 4, InH: 16, InW: 16, OutC: 17, Kernel: 8, Stride: 4},
	{InC: 4, InH: 36, InW: 38, OutC: 5, Kernel: 8, Stride: 4},
	{InC: 5, InH: 9, InW: 15, OutC: 3, Kernel: 9, Stride: 3},
	{InC: 1, InH: 8, InW: 8, OutC: 1, Kernel: 6, Stride: 2},
	{InC: 5, InH: 9, InW: 12, OutC: 19, Kernel: 6, Stride: 3, Linear: true},
	{InC: 3, InH: 11, InW: 16, OutC: 18, Kernel: 5, Stride: 5},
	{InC: 4, InH: 4, InW: 7, OutC: 9, Kernel: 2, Stride: 2, Linear: true},
	{InC: 3, InH: 14, InW: 11, OutC: 18, Kernel: 8, Stride: 3},
}

// realigned moves every slice from the odd addresses of the arena to memory of its own.
func (k *convCase) realigned() *convCase {
	k.eachSlice(func(s *[]float32) { *s = slices.Clone(*s) })
	k.x8 = slices.Clone(k.x8)
	return k
}

// images returns images i to i+m-1 of y and dx.
func (k *convCase) images(i, m int) map[string][]float32 {
	got, in, out := k.results(), k.c.InLen(), k.c.OutLen()
	return map[string][]float32{"y": got["y"][i*out:][:m*out], "y of bytes": got["y of bytes"][i*out:][:m*out],
		"dx": got["dx"][i*in:][:m*in]}
}

// The results of an image depend neither on the other images of the batch nor on the addresses of
// the slices.
func TestConvImagesAreIndependent(t *testing.T) {
	eachPath(t, func(t *testing.T, p Precision) {
		for s, c := range bitShapes {
			r := rand.New(rand.NewPCG(5, uint64(s)))
			d := newConvData(33, c, r)
			planarIn, planarOut := s%2 == 0, s/2%2 == 0
			whole := d.with(planarIn, planarOut, p)
			whole.run()
			for _, rows := range []span{{0, 1}, {10, 11}, {32, 33}, {13, 20}, {20, 33}} {
				m := rows.to - rows.from
				few := d.slice(rows.from, m).with(planarIn, planarOut, p).realigned()
				few.run()
				got := few.images(0, m)
				for name, want := range whole.images(rows.from, m) {
					sameBits(t, convName(33, c)+" "+name, got[name], want)
				}
			}

			// The other images are NaN.
			const i = 17
			spoilt := *d
			spoilt.x, spoilt.dy = slices.Repeat([]float32{nan}, len(d.x)), slices.Repeat([]float32{nan}, len(d.dy))
			spoilt.x8 = slices.Repeat([]uint8{255}, len(d.x8))
			spoilt.y = slices.Repeat([]float32{1}, len(d.y))
			one := d.slice(i, 1)
			copy(spoilt.x[i*c.InLen():], one.x)
			copy(spoilt.x8[i*c.InLen():], one.x8)
			copy(spoilt.y[i*c.OutLen():], one.y)
			copy(spoilt.dy[i*c.OutLen():], one.dy)
			k := spoilt.with(planarIn, planarOut, p)
			k.run()
			got := k.images(i, 1)
			for name, want := range whole.images(i, 1) {
				sameBits(t, convName(33, c)+" among NaN, "+name, got[name], want)
			}
		}
	})
}

// Results depend neither on the content nor on the address of a workspace. The weight gradients of
// a batch are the gradients of its blocks, added in order.
func TestConvGradientsAreSumsOfBlocks(t *testing.T) {
	const n = 4*convBlock + 1
	for s, c := range bitShapes {
		d := newConvData(n, c, rand.New(rand.NewPCG(6, uint64(s))))
		eachPath(t, func(t *testing.T, p Precision) {
			if ISA() == "go" {
				t.Skip("the Go path adds up images one by one")
			}
			planarIn, planarOut := s%2 == 0, s/2%2 == 0
			sum := map[string][]float32{"dw": make([]float32, len(d.w)), "dw of bytes": make([]float32, len(d.w)),
				"db": make([]float32, c.OutC), "db of bytes": make([]float32, c.OutC)}
			whole := d.with(planarIn, planarOut, p)
			whole.run()
			for first := 0; first < n; first += convBlock {
				m := min(convBlock, n-first)
				block := d.slice(first, m).with(planarIn, planarOut, p)
				block.run()
				again := d.slice(first, m).with(planarIn, planarOut, p).realigned()
				for i := range again.ws {
					again.ws[i] = float32(i)
				}
				again.run()
				got := again.results()
				for name, s := range block.results() {
					sameBits(t, name+" of another workspace", got[name], s)
					if first == 0 {
						copy(sum[name], s)
						continue
					}
					for i := range sum[name] {
						sum[name][i] += s[i]
					}
				}
				sameBits(t, "dx of a block", got["dx"], whole.images(first, m)["dx"])
			}
			got := whole.results()
			for name, s := range sum {
				sameBits(t, name+" of "+convName(n, c), got[name], s)
			}
		})
	}
}

// span is the rows `from` to `to`-1.
type span struct{ from, to int }

// In bf16 the Winograd paths multiply the same operands, in pairs or one by one; so do amx and go.
// Their results differ by the rounding of sums, which is thousands of times smaller than the
// rounding of operands.
func TestPathsRoundTheSameOperands(t *testing.T) {
	var winograd, direct []string
	for _, isa := range ISAs() {
		if isa == cpu.AMX || isa == cpu.Go {
			direct = append(direct, isa)
		} else {
			winograd = append(winograd, isa)
		}
	}
	sameOperands(t, winograd, 2e-6, math.MaxInt) // the worst error is 6.8e-7
	sameOperands(t, direct, 1e-5, 200_000)       // go sums hundreds of terms in one chain: 4.7e-6
}

// sameOperands compares the results of the paths, on layers with at most maxProducts products.
func sameOperands(t *testing.T, paths []string, limit float64, maxProducts int) {
	defer Use(ISA())
	if len(paths) < 2 {
		t.Logf("nothing to compare: %v", paths)
		return
	}
	worst := worstErrors{}
	for i, s := range convShapes {
		if products(s.n, s.c) > maxProducts {
			continue
		}
		d := newConvData(s.n, s.c, rand.New(rand.NewPCG(23, uint64(i))))
		exact := d.exact().byName()
		var first map[string][]float32
		for _, isa := range paths {
			Use(isa)
			k := d.with(i%2 == 0, i/2%2 == 0, BF16)
			k.run()
			got := k.results()
			if first == nil {
				first = got
				continue
			}
			for name, s := range got {
				largest := 0.0
				for j, v := range s {
					largest = max(largest, math.Abs(float64(v)-float64(first[name][j])))
				}
				err := relative(largest, math.Sqrt(slices.Max(exact[name].squares)))
				worst.within(t, name, convName(d.n, d.c)+" against "+paths[0], err, limit)
			}
		}
	}
	worst.log(t)
}

// The same call gives the same bits, also from several goroutines at once.
func TestSameCallGivesTheSameBits(t *testing.T) {
	eachPath(t, func(t *testing.T, p Precision) {
		run := func() map[string][]float32 {
			r := rand.New(rand.NewPCG(15, 16))
			conv := newConvData(5, Conv{InC: 3, InH: 13, InW: 13, OutC: 35, Kernel: 6, Stride: 3}, r).with(true, false, p)
			dense := newDenseCase(9, Dense{In: 130, Out: 41, ReLU: true, Precision: p}, r)
			conv.run()
			dense.run()
			all := conv.results()
			all["dense y"], all["dense dw"], all["dense db"], all["dense dx"] = dense.out, dense.dw, dense.db, dense.dx
			return all
		}
		want := run()
		results := make(chan map[string][]float32)
		for range 4 {
			go func() { results <- run() }()
		}
		for range 4 {
			for name, s := range <-results {
				sameBits(t, name, s, want[name])
			}
		}
	})
}
