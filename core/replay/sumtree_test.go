package replay

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// After many changes the tree is, bit for bit, the tree of its leaves, and leaves of 0 are never
// found.
func TestSumTreeIsAFunctionOfItsLeaves(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{1, 7, 8, 9, 64, 65, 700} {
		tree, leaves := newSumTree(n), make([]float64, n)
		for range 20 * n {
			i := r.IntN(n)
			leaves[i] = 0
			if r.IntN(3) > 0 {
				leaves[i] = math.Exp(r.Float64()*60 - 30)
			}
			tree.set(i, leaves[i])
		}
		fresh := newSumTree(n)
		for i, x := range leaves {
			fresh.set(i, x)
		}
		for l := range tree.levels {
			if !slices.Equal(tree.levels[l], fresh.levels[l]) {
				t.Fatalf("%d leaves: level %d depends on earlier numbers", n, l)
			}
		}
		if tree.total() == 0 {
			tree.set(0, 1)
			leaves[0] = 1
		}
		before, sums := 0.0, make([]float64, n+1)
		for i, x := range leaves {
			before += x
			sums[i+1] = before
		}
		if total := tree.total(); math.Abs(total-before) > 1e-12*before {
			t.Fatalf("%d leaves: total %v, must be %v", n, total, before)
		}
		for k := range 1000 {
			x := float64(k) / 999 * tree.total()
			leaf, number := tree.find(x)
			if within := 1e-12 * before; number == 0 || number != leaves[leaf] || x < sums[leaf]-within || x > sums[leaf+1]+within {
				t.Fatalf("%d leaves: %v is in leaf %d (%v), which is from %v to %v", n, x, leaf, number, sums[leaf], sums[leaf+1])
			}
		}
	}
}

func TestRanksEqualASortedList(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	for _, n := range []int{1, 5, 300, 3000} {
		const alpha = 0.7
		k, keys := newRanks(n, alpha), map[int]float32{}
		compare := func() {
			t.Helper()
			var order []int
			for leaf := range keys {
				order = append(order, leaf)
			}
			slices.SortFunc(order, func(a, b int) int {
				if keys[a] != keys[b] {
					if keys[a] > keys[b] {
						return -1
					}
					return 1
				}
				return a - b
			})
			sum := 0.0
			for rank, leaf := range order {
				mass := math.Pow(float64(rank+1), -alpha)
				got, itsMass := k.find(sum + mass/2)
				if got != leaf || math.Abs(itsMass-mass) > 1e-12 || k.mass(leaf) != itsMass || k.get(leaf) != float64(keys[leaf]) {
					t.Fatalf("n %d: rank %d is leaf %d of mass %v, must be %d of %v", n, rank+1, got, itsMass, leaf, mass)
				}
				sum += mass
			}
			if k.n != len(order) || math.Abs(k.total()-sum) > 1e-12*sum {
				t.Fatalf("n %d: %d leaves, total %v, must be %d, %v", n, k.n, k.total(), len(order), sum)
			}
			for j := range len(k.order) - 1 {
				if a, b := len(k.block(j)), len(k.block(j+1)); a == 0 || a+b <= mergeSize {
					t.Fatalf("n %d: neighbours of %d and %d leaves", n, a, b)
				}
			}
		}
		// The list fills, changes and becomes empty, in random order and at one end.
		for phase, removes := range []int{1, 5, 9, 0, 10} {
			for i := range 4 * n {
				leaf := r.IntN(n)
				if phase >= 3 {
					leaf = i % n
				}
				if r.IntN(10) < removes {
					k.remove(leaf)
					delete(keys, leaf)
					continue
				}
				key := float32(r.IntN(50))
				if phase == 3 {
					key = float32(i)
				}
				k.set(leaf, float64(key))
				keys[leaf] = key
			}
			compare()
		}
		if k.n != 0 || len(k.order) != 0 {
			t.Errorf("n %d: %d leaves in %d blocks are left", n, k.n, len(k.order))
		}
	}
}
