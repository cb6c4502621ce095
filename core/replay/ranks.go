package replay

import (
	"slices"
	"sort"

	"github.com/paceline-rl/paceline/core/portable"
)

// ranks orders leaves by priority, the largest first, and of equal priorities the lower leaf first.
// The leaf of rank r, from 1 on, has the mass r^-alpha. The order is a function of the priorities
// alone, never of the changes that led to them.
//
// The order is cut into blocks of up to blockSize leaves. A block is found by bisection or by rank
// in a list of all blocks; a change moves the leaves of one block. Two neighbours together have
// more leaves than mergeSize, which bounds the number of blocks.
type ranks struct {
	alpha      float64
	priorities []float32 // by leaf
	sums       []float64 // sums[i] is the sum of the masses of the first i*sumEvery ranks
	n          int       // leaves in the order

	leaves []uint32 // blockSize for each block
	sizes  []int32  // of blocks: leaves in use
	order  []int32  // the blocks in order
	groups []int32  // leaves of each groupSize blocks of order
	unused []int32  // blocks
}

const (
	blockSize = 256
	mergeSize = blockSize * 3 / 4
	groupSize = 64
	sumEvery  = 4 // a sum for each rank would be 8 bytes a transition
)

// maxBlocks is the largest number of blocks, and one while a block is split.
func maxBlocks(leaves int) int { return 2*(leaves/mergeSize) + 3 }

func newRanks(leaves int, alpha float64) *ranks {
	blocks := maxBlocks(leaves)
	k := &ranks{alpha: alpha, priorities: make([]float32, leaves), sums: make([]float64, leaves/sumEvery+1),
		leaves: make([]uint32, blocks*blockSize), sizes: make([]int32, blocks), order: make([]int32, 0, blocks),
		groups: make([]int32, 0, (blocks+groupSize-1)/groupSize)}
	for i, sum := 1, 0.0; i < len(k.sums); i++ {
		sum = k.add(sum, (i-1)*sumEvery, i*sumEvery)
		k.sums[i] = sum
	}
	for b := range blocks {
		k.unused = append(k.unused, int32(blocks-1-b))
	}
	return k
}

func ranksBytes(leaves int64) int64 {
	return leaves*4 + (leaves/sumEvery+1)*8 + int64(maxBlocks(int(leaves)))*(blockSize*4+12)
}

// massOf is the mass of rank r.
func (k *ranks) massOf(r int) float64 { return portable.Pow(float64(r), -k.alpha) }

// add adds the masses of the ranks first+1 to last to a sum.
func (k *ranks) add(sum float64, first, last int) float64 {
	for r := first + 1; r <= last; r++ {
		sum += k.massOf(r)
	}
	return sum
}

func (k *ranks) total() float64 {
	i := k.n / sumEvery
	return k.add(k.sums[i], i*sumEvery, k.n)
}

func (k *ranks) get(leaf int) float64 { return float64(k.priorities[leaf]) }

func (k *ranks) find(x float64) (leaf int, mass float64) {
	before := sort.Search(k.n/sumEvery, func(i int) bool { return x < k.sums[i+1] })
	r := before * sumEvery
	for sum := k.sums[before]; r < k.n-1; r++ {
		if sum += k.massOf(r + 1); x < sum {
			break
		}
	}
	r = min(r, k.n-1)
	return k.at(r), k.massOf(r + 1)
}

// at returns the leaf at place i of the order, from 0 on. i may exceed an int32.
func (k *ranks) at(i int) (leaf int) {
	g := 0
	for ; i >= int(k.groups[g]); g++ {
		i -= int(k.groups[g])
	}
	j := g * groupSize
	for ; i >= int(k.sizes[k.order[j]]); j++ {
		i -= int(k.sizes[k.order[j]])
	}
	return int(k.block(j)[i])
}

func (k *ranks) mass(leaf int) float64 {
	j, i := k.locate(leaf)
	for _, n := range k.groups[:j/groupSize] {
		i += int(n)
	}
	for _, b := range k.order[j/groupSize*groupSize : j] {
		i += int(k.sizes[b])
	}
	return k.massOf(i + 1)
}

// block returns the leaves of the block at place j of the order.
func (k *ranks) block(j int) []uint32 {
	b := int(k.order[j])
	return k.leaves[b*blockSize : b*blockSize+int(k.sizes[b])]
}

// compare orders leaves: -1 if a comes before b.
func (k *ranks) compare(a, b uint32) int {
	switch x, y := k.priorities[a], k.priorities[b]; {
	case x > y || x == y && a < b:
		return -1
	case a == b:
		return 0
	}
	return 1
}

// locate returns where leaf is, or would be: place i of the block at place j. There is a block.
func (k *ranks) locate(leaf int) (j, i int) {
	j = sort.Search(len(k.order)-1, func(j int) bool { return k.compare(uint32(leaf), k.block(j + 1)[0]) < 0 })
	i, _ = slices.BinarySearchFunc(k.block(j), uint32(leaf), k.compare)
	return j, i
}

func (k *ranks) set(leaf int, priority float64) {
	k.remove(leaf)
	k.priorities[leaf] = float32(priority)
	if k.n == 0 {
		k.insertBlock(0)
	}
	j, i := k.locate(leaf)
	if len(k.block(j)) == blockSize {
		k.split(j)
		j, i = k.locate(leaf)
	}
	k.resize(j, 1)
	block := k.block(j)
	copy(block[i+1:], block[i:])
	block[i] = uint32(leaf)
	k.n++
}

func (k *ranks) remove(leaf int) {
	if k.n == 0 {
		return
	}
	j, i := k.locate(leaf)
	block := k.block(j)
	if i == len(block) || block[i] != uint32(leaf) {
		return // it is not in the order
	}
	copy(block[i:], block[i+1:])
	k.resize(j, -1)
	k.n--
	k.merge(j)
}

// resize changes the number of leaves of the block at place j.
func (k *ranks) resize(j int, by int32) {
	k.sizes[k.order[j]] += by
	k.groups[j/groupSize] += by
}

// split moves the second half of the block at place j to a block of its own. Its halves may be
// merged with their neighbours.
func (k *ranks) split(j int) {
	k.insertBlock(j + 1)
	from, to := int(k.order[j]), int(k.order[j+1])
	copy(k.leaves[to*blockSize:], k.block(j)[blockSize/2:])
	k.sizes[from], k.sizes[to] = blockSize/2, blockSize/2
	k.count(j)
	k.merge(j + 1)
	k.merge(j)
}

// merge merges the block at place j with its neighbours if they are small, and removes it if it is
// empty.
func (k *ranks) merge(j int) {
	if len(k.block(j)) == 0 {
		k.removeBlock(j)
		return
	}
	for _, j := range [2]int{j, j - 1} {
		if j < 0 || j+1 >= len(k.order) {
			continue
		}
		a, b := k.block(j), k.block(j+1)
		if len(a)+len(b) <= mergeSize {
			to := k.order[j]
			copy(k.leaves[int(to)*blockSize+len(a):], b)
			k.sizes[to] += int32(len(b))
			k.removeBlock(j + 1)
		}
	}
}

// insertBlock inserts an empty block at place j.
func (k *ranks) insertBlock(j int) {
	last := len(k.unused) - 1
	k.order = slices.Insert(k.order, j, k.unused[last])
	k.unused = k.unused[:last]
	k.count(j)
}

func (k *ranks) removeBlock(j int) {
	b := k.order[j]
	k.sizes[b] = 0
	k.unused = append(k.unused, b)
	k.order = slices.Delete(k.order, j, j+1)
	k.count(max(0, j-1))
}

// count counts the groups anew, from that of place j on.
func (k *ranks) count(j int) {
	k.groups = k.groups[:min(j/groupSize, len(k.groups))]
	for first := len(k.groups) * groupSize; first < len(k.order); first += groupSize {
		n := int32(0)
		for _, b := range k.order[first:min(first+groupSize, len(k.order))] {
			n += k.sizes[b]
		}
		k.groups = append(k.groups, n)
	}
}
