package kernel

// The C loops cut their scratch from one slice that the caller owns. The sums
// here mirror their take() calls, with the largest tile of any path, so that one
// workspace fits every path; take() rounds each piece up to 16 floats, and
// aligning the first costs at most 15 more.
const (
	maxRows  = 14 // of a tile: MR in the C files
	maxCols  = 32 // NR
	strip    = 64 // STRIP
	tileSize = maxRows * maxCols
)

// Workspace returns the floats of scratch that any convolution call on this
// shape needs, on every path and for every n.
func (c Conv) Workspace() int {
	outputs, patch := c.OutH()*c.OutW(), c.patch()
	return max(
		pieces(roundUp(c.OutC, maxCols)*patch, roundUp(c.OutC, maxCols), c.InLen(), c.InC*strip, 4*patch, maxRows*roundUp(patch, 4), tileSize),
		pieces(c.OutC*patch, c.InLen(), c.InC*strip, c.OutC*roundUp(outputs, 4), outputs*maxCols, tileSize),
		pieces(roundUp(patch, maxCols)*c.OutC, c.InLen(), patch, maxRows*roundUp(c.OutC, 4), tileSize),
	)
}

// DenseWorkspace returns the floats of scratch that DenseGradW and DenseGradX
// need, on every path.
func DenseWorkspace(n, in, out int) int {
	return max(
		pieces(maxRows*roundUp(n, 4), n*maxCols, tileSize),
		pieces(n*roundUp(out, 4), out*maxCols, tileSize),
	)
}

func pieces(lengths ...int) int {
	total := 15
	for _, n := range lengths {
		total += roundUp(n, 16)
	}
	return total
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }
