package replay

// fanout is the number of children of a node: a block of them is a cache line.
const fanout = 8

// sumTree has numbers from 0 on in its leaves, and finds leaves in proportion to them. A node is
// the sum of its children, computed from them whenever one changes. So the tree is a function of
// its leaves, and rounding errors do not add up over a run.
type sumTree struct {
	// levels[0] are the leaves, each higher level the sums of blocks. The last level is one block.
	levels [][]float64
	sum    float64 // of the last level
}

func newSumTree(leaves int) *sumTree {
	t := &sumTree{}
	for n := leaves; ; n = len(t.levels[len(t.levels)-1]) / fanout {
		blocks := (n + fanout - 1) / fanout
		t.levels = append(t.levels, make([]float64, blocks*fanout))
		if blocks == 1 {
			return t
		}
	}
}

func sumTreeBytes(leaves int64) (n int64) {
	for leaves > 1 {
		leaves = (leaves + fanout - 1) / fanout
		n += leaves * fanout * 8
	}
	return n
}

func (t *sumTree) get(leaf int) float64 { return t.levels[0][leaf] }

func (t *sumTree) set(leaf int, x float64) {
	i := leaf
	for l, level := range t.levels {
		level[i] = x
		i /= fanout
		x = 0
		for _, child := range level[i*fanout : (i+1)*fanout] {
			x += child
		}
		if l == len(t.levels)-1 {
			t.sum = x
		}
	}
}

func (t *sumTree) remove(leaf int) { t.set(leaf, 0) }

func (t *sumTree) total() float64 { return t.sum }

// mass is get: leaves are drawn in proportion to their priorities.
func (t *sumTree) mass(leaf int) float64 { return t.levels[0][leaf] }

// find returns the leaf in which x lies, where the leaves follow one another from 0 to total, and
// its number, which is above 0. total is above 0.
func (t *sumTree) find(x float64) (leaf int, number float64) {
	for l := len(t.levels) - 1; l >= 0; l-- {
		first, within := leaf*fanout, x
		for i, child := range t.levels[l][first : first+fanout] {
			if child == 0 {
				continue
			}
			leaf, number, within = first+i, child, x // the last child, if rounding has left x beyond all
			if x < child {
				break
			}
			x -= child
		}
		x = within
	}
	return leaf, number
}
