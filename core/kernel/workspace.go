package kernel

// The caller owns the scratch of a call: one slice, cut into equal parts for the threads. The sums
// in this file mirror the take() calls of the C loops with the largest tile of any path, so that
// one workspace fits every path. take() rounds each piece up to 16 floats; aligning the first piece
// costs at most 15 more.
//
// Each comment names the constant of the C files.
const (
	maxRows   = 14  // largest MR
	maxCols   = 32  // largest NR
	maxVector = 16  // largest VW
	chunk     = 16  // CHUNK
	points    = 16  // points of a Winograd tile
	packBlock = 8   // BLOCK
	dotRows   = 64  // largest ROWS of dense.h
	dotDepth  = 512 // DEPTH
	convBlock = 8   // PACELINE_CONV_BLOCK
	normBlock = 8   // PACELINE_NORM_BLOCK

	// AMX tiles: amx.h and amx_dense.h.
	tileSide    = 16  // SIDE
	tileLen     = 256 // TILE
	tileDepth   = 32  // CHUNK_OPERANDS
	tileRows    = 128 // ROWS
	tileColumns = 128 // COLUMNS
)

// cells is the shape of a layer in the Winograd loops: struct shape in conv.h.
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

// PackLen returns the number of floats that ConvPack writes.
func (c *Conv) PackLen() int {
	if c.patched() {
		return c.WeightLen()
	}
	return max(points*roundUp(c.OutC, maxCols)*c.cells().deep, roundUp(c.OutC, tileSide)*c.Kernel*roundUp(c.run(), tileDepth)/2)
}

// PackBackLen returns the number of floats that ConvPackBack writes.
func (c *Conv) PackBackLen() int {
	if c.patched() {
		return c.WeightLen()
	}
	return max(points*roundUp(c.cells().deep, maxCols)*c.OutC, c.Kernel*roundUp(c.run(), tileSide)*roundUp(c.OutC, tileDepth)/2)
}

// run returns the number of inputs, contiguous in an image, of one line of the kernel.
func (c *Conv) run() int { return c.Kernel * c.InC }

// Workspace returns the floats of scratch that any convolution call with team t on up to n images
// needs, on every path.
func (c *Conv) Workspace(n int, t *Team) int {
	if c.patched() {
		return c.patchWorkspace(n, t)
	}
	return t.Threads()*c.perThread() + (convBlocks(n)-1)*(c.WeightLen()+c.OutC)
}

// convBlocks returns the number of blocks of images with sums of their own in a backward pass.
func convBlocks(n int) int { return (n + convBlock - 1) / convBlock }

// perThread returns the scratch of one thread, in floats.
func (c *Conv) perThread() int {
	s := c.cells()
	wide, deepWide := roundUp(c.OutC, maxCols), roundUp(s.deep, maxCols)
	// Images in a group of a forward pass, of the weight gradients and of the input gradients.
	forward, weights, inputs := max(1, 54/s.tiles), max(1, 200/s.tiles), max(1, 64/s.tiles)
	return max(
		pieces(c.patch()*wide, points*packBlock*maxCols, points*maxVector*maxCols),
		pieces(wide, forward*s.image, 4*forward*s.tiles*roundUp(s.deep, chunk), points*forward*s.tiles*wide, c.OutLen()),
		pieces(points*c.OutC*deepWide, weights*s.image, 4*weights*s.tiles*deepWide, 4*weights*s.tiles*rowStep(c.OutC),
			4*inputs*s.tiles*roundUp(c.OutC, chunk), inputs*s.image, c.patch(), 2*c.OutLen(), weights*s.gradient),
		c.amxPerThread(),
	)
}

// amxPerThread returns the scratch of one thread on the path amx, in floats.
func (c *Conv) amxPerThread() int {
	overread := (tileSide-1)*c.Stride*c.InC + roundUp(c.run(), tileDepth)
	image := convBlock * roundUp(c.InLen()+overread, tileDepth) / 2
	outputs, wide := roundUp(convBlock*c.OutH()*c.OutW(), tileDepth), roundUp(c.OutC, tileDepth)
	deep := c.Kernel * roundUp(c.run(), tileSide)
	return max(
		pieces(2*c.patch()),
		pieces(wide, image, c.InLen(), c.OutLen(), 4*tileLen),
		pieces(image, c.InLen(), 2*c.OutLen(), (outputs+tileDepth)*wide/2, outputs*wide/2, outputs*tileSide, wide*deep,
			deep*c.Kernel, 4*tileLen, 2*outputs, c.InLen()),
	)
}

// Workspace returns the floats of scratch for any call with team t on up to n rows, on every path.
// Each thread has a part. The other parts are the parameters in the order of a row's numbers, and
// the sums of a backward pass over blocks of rows.
func (c *Norm) Workspace(n int, t *Team) int {
	return t.Threads()*c.perThread() + 2*c.ParamLen()*(1+normBlocks(n))
}

// normBlocks returns the number of blocks of rows with sums of their own in a backward pass.
func normBlocks(n int) int { return (n + normBlock - 1) / normBlock }

// perThread returns the scratch of one thread, in floats: transposed rows.
func (c *Norm) perThread() int {
	if !c.Planar || c.All {
		return 0
	}
	return pieces(c.RowLen(), c.RowLen(), c.RowLen())
}

// Workspace returns the floats of scratch that any call with team t on up to n rows needs, on every
// path.
func (d *Dense) Workspace(n int, t *Team) int { return t.Threads() * d.perThread(n) }

// perThread returns the scratch of one thread, in floats.
func (d *Dense) perThread(n int) int {
	return max(
		pieces(n*d.In, 8*d.In, min(n, dotRows)*8*maxVector),
		d.tiledPerThread(),
		pieces(n*d.Out, n*d.Out, n*roundUp(d.Out, chunk), n*roundUp(d.In, maxCols), d.Out*4*maxCols, maxRows*maxCols),
		d.amxPerThread(n),
	)
}

// tiledPerThread returns the scratch of one thread for a forward pass by tiles, in floats.
func (d *Dense) tiledPerThread() int {
	if !d.Tiled || d.Precision != FP32 {
		return 0
	}
	depth := min(d.In, dotDepth)
	return pieces(maxRows*roundUp(depth, chunk), depth*roundUp(d.Out, maxCols), maxRows*maxCols)
}

// amxPerThread returns the scratch of one thread on the path amx, in floats.
func (d *Dense) amxPerThread(n int) int {
	in, out, deep := roundUp(d.In, tileDepth), roundUp(d.Out, tileDepth), roundUp(n, tileDepth)
	return max(
		pieces(roundUp(min(n, tileRows), tileSide)*in/2, tileSide*in, 4*tileLen),
		pieces(n*d.Out, deep*out/2, out*deep/2, in*deep/2, tileColumns*out/2, 4*tileLen),
	)
}

// pieces returns the scratch for take() calls of these lengths.
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
