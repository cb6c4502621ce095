package kernel

// The C loops cut their scratch from one slice that the caller owns, first in
// equal parts for the threads. The sums here mirror their take() calls, with the
// largest tile of any path, so that one workspace fits every path; take() rounds
// each piece up to 16 floats, and aligning the first costs at most 15 more.
const (
	maxRows   = 14 // of a tile: MR in the C files
	maxCols   = 32 // NR
	maxVector = 16 // VW
	chunk     = 16 // CHUNK
	points    = 16 // of a Winograd tile
	packBlock = 8  // BLOCK
	dotRows   = 64 // ROWS
	convBlock = 8  // PACELINE_CONV_BLOCK
	normBlock = 8  // PACELINE_NORM_BLOCK

	// Of the processor's tiles: see amx.h and amx_dense.h.
	tileSide    = 16  // SIDE
	tileLen     = 256 // TILE
	tileDepth   = 32  // CHUNK_OPERANDS
	tileRows    = 128 // ROWS
	tileColumns = 128 // COLUMNS
)

// cells is the layer as the Winograd loops see it: struct shape in conv.h.
type cells struct{ taps, side, deep, tiles, tilesH, tilesW, image, gradient int }

func (c *Conv) cells() cells {
	s := cells{taps: c.Kernel / c.Stride, deep: c.Stride * c.Stride * c.InC}
	s.side = 5 - s.taps
	s.tilesH = (c.OutH() + s.side - 1) / s.side
	s.tilesW = (c.OutW() + s.side - 1) / s.side
	s.tiles = s.tilesH * s.tilesW
	s.image = (s.side*s.tilesH + s.taps - 1) * (s.side*s.tilesW + s.taps - 1) * s.deep
	s.gradient = s.side * s.side * s.tiles * c.OutC
	return s
}

// PackLen returns the floats of weights packed by ConvPack.
func (c *Conv) PackLen() int {
	return max(points*roundUp(c.OutC, maxCols)*c.cells().deep, roundUp(c.OutC, tileSide)*c.Kernel*roundUp(c.run(), tileDepth)/2)
}

// PackBackLen returns the floats of weights packed by ConvPackBack.
func (c *Conv) PackBackLen() int {
	return max(points*roundUp(c.cells().deep, maxCols)*c.OutC, c.Kernel*roundUp(c.run(), tileSide)*roundUp(c.OutC, tileDepth)/2)
}

// run returns the numbers of an image that a line of the kernel sees.
func (c *Conv) run() int { return c.Kernel * c.InC }

// Workspace returns the floats of scratch that any convolution call of a team on
// this shape and up to n images needs, on every path.
func (c *Conv) Workspace(n int, t *Team) int {
	return t.Threads()*c.each() + (convBlocks(n)-1)*(c.WeightLen()+c.OutC)
}

// convBlocks returns the number of blocks that a backward pass sums up separately.
func convBlocks(n int) int { return (n + convBlock - 1) / convBlock }

// each is the floats of one thread.
func (c *Conv) each() int {
	s := c.cells()
	wide, deepWide := roundUp(c.OutC, maxCols), roundUp(s.deep, maxCols)
	ahead, back, few := max(1, 54/s.tiles), max(1, 200/s.tiles), max(1, 64/s.tiles) // images in a group
	return max(
		pieces(c.patch()*wide, points*packBlock*maxCols, points*maxVector*maxCols),
		pieces(wide, ahead*s.image, 4*ahead*s.tiles*roundUp(s.deep, chunk), points*ahead*s.tiles*wide, c.OutLen()),
		pieces(points*c.OutC*deepWide, back*s.image, 4*back*s.tiles*deepWide, 4*back*s.tiles*rowStep(c.OutC),
			4*few*s.tiles*roundUp(c.OutC, chunk), few*s.image, c.patch(), 2*c.OutLen(), back*s.gradient),
		c.tiles(),
	)
}

// tiles is the floats of one thread on the path amx.
func (c *Conv) tiles() int {
	behind := (tileSide-1)*c.Stride*c.InC + roundUp(c.run(), tileDepth)
	image := convBlock * roundUp(c.InLen()+behind, tileDepth) / 2
	outputs, wide := roundUp(convBlock*c.OutH()*c.OutW(), tileDepth), roundUp(c.OutC, tileDepth)
	deep := c.Kernel * roundUp(c.run(), tileSide)
	return max(
		pieces(2*c.patch()),
		pieces(wide, image, c.InLen(), c.OutLen(), 4*tileLen),
		pieces(image, c.InLen(), 2*c.OutLen(), (outputs+tileDepth)*wide/2, outputs*wide/2, outputs*tileSide, wide*deep,
			deep*c.Kernel, 4*tileLen, 2*outputs, c.InLen()),
	)
}

// Workspace returns the floats of scratch that any call of a team on up to n rows
// needs, on every path: each thread's, the parameters in the order of a row's
// numbers, and the sums of a backward pass's blocks of rows.
func (c *Norm) Workspace(n int, t *Team) int {
	return t.Threads()*c.each() + 2*c.ParamLen()*(1+normBlocks(n))
}

// normBlocks returns the number of blocks that a backward pass sums up separately.
func normBlocks(n int) int { return (n + normBlock - 1) / normBlock }

// each is the floats of one thread: rows that are transposed.
func (c *Norm) each() int {
	if !c.Planar || c.All {
		return 0
	}
	return pieces(c.RowLen(), c.RowLen(), c.RowLen())
}

// Workspace returns the floats of scratch that a call of a team on up to n rows
// needs, on every path.
func (d *Dense) Workspace(n int, t *Team) int { return t.Threads() * d.each(n) }

func (d *Dense) each(n int) int {
	return max(
		pieces(n*d.In, 8*d.In, min(n, dotRows)*8*maxVector),
		pieces(n*d.Out, n*d.Out, n*roundUp(d.Out, chunk), n*roundUp(d.In, maxCols), d.Out*4*maxCols, maxRows*maxCols),
		d.tiles(n),
	)
}

// tiles is the floats of one thread on the path amx.
func (d *Dense) tiles(n int) int {
	in, out, deep := roundUp(d.In, tileDepth), roundUp(d.Out, tileDepth), roundUp(n, tileDepth)
	return max(
		pieces(roundUp(min(n, tileRows), tileSide)*in/2, tileSide*in, 4*tileLen),
		pieces(n*d.Out, deep*out/2, out*deep/2, in*deep/2, tileColumns*out/2, 4*tileLen),
	)
}

func pieces(lengths ...int) int {
	total := 15
	for _, n := range lengths {
		total += roundUp(n, 16)
	}
	return total
}

// rowStep is row_step in conv_backward.h.
func rowStep(outC int) int { return 16 * ((outC+15)/16 | 1) }

func roundUp(n, to int) int { return (n + to - 1) / to * to }
