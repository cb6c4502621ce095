package cuda

import (
	"fmt"
	"math/bits"
)

// Geometry is how a launch is laid out: blocks of a grid, and threads of a block. It, and
// how sums are cut, follow from shapes alone: the same shapes give the same bits on any
// chip. Of dynamic shared memory no kernel takes any.
//
//	kernel                              arguments                geometry
//	conv_forward_[bytes_]P              ConvForwardArgs          ConvShape.Forward
//	conv_weight_gradient_[bytes_]P      ConvWeightGradientArgs   ConvShape.WeightGradient
//	conv_input_gradient_P               ConvInputGradientArgs    ConvShape.InputGradient
//	dense_forward_P                     DenseForwardArgs         DenseForward
//	dense_forward_sum                   DenseForwardSumArgs      Elements(rows * out)
//	dense_weight_gradient_P             DenseWeightGradientArgs  DenseWeightGradient
//	dense_input_gradient_P              DenseInputGradientArgs   DenseInputGradient
//	weight_gradient_sum                 WeightGradientSumArgs    Elements(weights + biases)
//	tanh_forward, tanh_backward, add,   ElementsArgs             Elements(n)
//	relu_backward, average,
//	convert_bytes
//	select                              SelectArgs               Elements(words)
//	gather                              GatherArgs               Gather(rows, frames)
//	pick                                PickArgs                 Pick(rows, width)
//	norm_rows_*, norm_positions_*       NormArgs                 NormForward ...
//	argmax, td_targets, td_loss,        ArgmaxArgs ...           Loss(rows)
//	actor_critic
//	sum_squares                         SumSquaresArgs           SumSquares(n)
//	advance                             AdvanceArgs              Advance
//	rmsprop, adam, radam, adagrad       OptimizerArgs            Elements(n)
//
// P is fp32, tf32 or bf16; the latter two exist from sm_80 on. Where a Cut has more than
// one part, the kernel writes its parts, of PartLen floats each, and the kernel for sums
// comes after it, with Count = Parts.
type Geometry struct{ Grid, Block [3]uint32 }

const (
	tile        = 32  // rows and columns of a product that a block computes
	chunk       = 16  // k that a warp multiplies at a time
	warps       = 4   // of a block
	gemmThreads = 128 // of a block
	partChunks  = 32  // of a part at least, where there is more than one
	mostParts   = 64

	lossRows = 128  // of a block
	normRows = 32   // of a part of a normalisation's gradients at least
	squares  = 4096 // numbers that a block of sum_squares adds up

	elementThreads = 256
	mostBlocks     = 1024 // of Elements

	// maxElements is how many elements an array of a call may have: kernels count in 32 bits.
	maxElements = 1<<31 - 1
)

// NewDivisor returns a divisor by d, 1 to 2^31-1: n/d is (n*Magic>>32 + n) >> Shift for
// every n of 31 bits (Granlund and Montgomery 1994).
func NewDivisor(d int32) Divisor {
	shift := uint32(bits.Len32(uint32(d - 1)))
	return Divisor{uint32(d), uint32(((1<<shift-uint64(d))<<32)/uint64(d) + 1), shift}
}

// cutOf cuts a sum over depth k.
func cutOf(depth int) Cut {
	chunks := ceil(depth, chunk)
	parts := min(mostParts, ceil(chunks, partChunks))
	each := warps * ceil(ceil(chunks, parts), warps) // the same number for every warp
	return Cut{int32(ceil(chunks, each)), int32(each)}
}

// product is the grid of a product with so many rows and columns.
func product(rows, columns, z int) Geometry {
	return Geometry{[3]uint32{uint32(ceil(columns, tile)), uint32(ceil(rows, tile)), uint32(z)}, [3]uint32{gemmThreads, 1, 1}}
}

// Elements is the geometry of kernels that do each of n elements by itself, 1 or more.
func Elements(n int) Geometry {
	return Geometry{[3]uint32{uint32(min(mostBlocks, ceil(n, elementThreads))), 1, 1}, [3]uint32{elementThreads, 1, 1}}
}

// NewConvShape returns the convolution of images [inC, inH, inW] with kernels
// [outC, inC, kernel, kernel], without padding; a kernel is two or three strides wide, and
// fits the image. It refuses what the kernels do not compute.
func NewConvShape(images, inC, inH, inW, outC, kernel, stride int) (s ConvShape, err error) {
	sizes := [7]int{images, inC, inH, inW, outC, kernel, stride}
	for _, n := range sizes {
		if n < 1 || n > maxElements {
			return s, fmt.Errorf("convolution %v: every number must be 1 to %d", sizes, maxElements)
		}
	}
	if kernel > inH || kernel > inW || kernel != 2*stride && kernel != 3*stride || stride > 255 {
		return s, fmt.Errorf("convolution %v: the kernel must fit the image, and be two or three strides of 1 to 255 wide", sizes)
	}
	outH, outW := (inH-kernel)/stride+1, (inW-kernel)/stride+1
	cellH, cellW := ceil(inH, stride), ceil(inW, stride)
	for _, array := range [][]int{
		{images, inC, inH, inW}, {images, inC, cellH * stride, cellW * stride}, {images, outC, outH, outW},
		{outC + 1, inC, kernel, kernel}, {outC, inC * kernel * kernel},
	} {
		if err := fits("convolution", sizes[:], array); err != nil {
			return s, err
		}
	}
	of := func(n int) Divisor { return NewDivisor(int32(n)) }
	cells := kernel / stride
	return ConvShape{
		Images: int32(images), InC: int32(inC), InH: int32(inH), InW: int32(inW), OutC: int32(outC), OutH: int32(outH), OutW: int32(outW),
		Kernel: int32(kernel), Stride: int32(stride),
		Positions: of(outH * outW), Width: of(outW), Taps: of(kernel * kernel), Side: of(kernel),
		CellH: int32(cellH), CellW: int32(cellW),
		Cells: of(cellH * cellW), CellWidth: of(cellW), CellTaps: of(cells * cells), CellSide: of(cells), Phase: of(stride),
	}, nil
}

// fits returns an error where an array has too many elements.
func fits(what string, sizes, array []int) error {
	n := 1
	for _, d := range array {
		if d > maxElements/n {
			return fmt.Errorf("%s %v: an array %v, must have at most %d elements", what, sizes, array, maxElements)
		}
		n *= d
	}
	return nil
}

func (s *ConvShape) patch() int { return int(s.InC * s.Kernel * s.Kernel) }

// Forward is the geometry of conv_forward_*.
func (s *ConvShape) Forward() Geometry {
	return product(int(s.OutC), int(s.Images*s.OutH*s.OutW), 1)
}

// WeightGradient is the geometry of conv_weight_gradient_*.
func (s *ConvShape) WeightGradient() (g Geometry, c Cut) {
	c = cutOf(int(s.Images * s.OutH * s.OutW))
	return product(int(s.OutC), s.patch(), int(c.Parts)), c
}

// PartLen returns the floats of a part of the weights' and biases' gradients.
func (s *ConvShape) PartLen() int { return int(s.OutC) * (s.patch() + 1) }

// InputGradient is the geometry of conv_input_gradient_*: a block's z is the phase of an
// input, its row and column modulo the stride.
func (s *ConvShape) InputGradient() Geometry {
	return product(int(s.InC), int(s.Images*s.CellH*s.CellW), int(s.Stride*s.Stride))
}

// Gather is the geometry of gather: a block a frame. An observation has 65,535 frames at most.
func Gather(rows, frames int) Geometry {
	return Geometry{[3]uint32{uint32(rows), uint32(frames), 1}, [3]uint32{128, 1, 1}}
}

// Pick is the geometry of pick: rows of so many bytes, below 2^31 in all.
func Pick(rows, width int) Geometry {
	piece := 1 // bytes that a thread copies at a time, where both arrays begin at multiples of them
	if width%16 == 0 {
		piece = 16
	} else if width%4 == 0 {
		piece = 4
	}
	return Elements(rows * width / piece)
}

// Loss is the geometry of argmax, td_targets, td_loss and actor_critic. The latter two write
// LossParts doubles for each of its blocks, which the last block adds up.
func Loss(rows int) Geometry {
	return Geometry{[3]uint32{uint32(ceil(rows, lossRows)), 1, 1}, [3]uint32{lossRows, 1, 1}}
}

// LossParts is how many numbers a block of a loss writes.
const LossParts = 5

// SumSquares is the geometry of sum_squares, which writes a double for each of its blocks.
func SumSquares(n int) Geometry {
	return Geometry{[3]uint32{uint32(ceil(n, squares)), 1, 1}, [3]uint32{elementThreads, 1, 1}}
}

// Advance is the geometry of advance.
var Advance = Geometry{[3]uint32{1, 1, 1}, [3]uint32{elementThreads, 1, 1}}

// NormForm is which numbers a layer normalisation treats together, and so which of the
// kernels do it: norm_rows_* or norm_positions_*.
type NormForm struct {
	Rows, Channels, Positions int
	// ByRow: a whole row; else the channels at each position.
	ByRow bool
}

// Params returns the scales, and the biases.
func (f *NormForm) Params() int {
	if f.ByRow {
		return f.Channels * f.Positions
	}
	return f.Channels
}

// Forward is the geometry of norm_*_forward and norm_*_input_gradient.
func (f *NormForm) Forward() Geometry {
	if f.ByRow {
		return Geometry{[3]uint32{uint32(f.Rows), 1, 1}, [3]uint32{256, 1, 1}}
	}
	return Geometry{[3]uint32{uint32(ceil(f.Rows*f.Positions, 128)), 1, 1}, [3]uint32{128, 1, 1}}
}

// ParameterGradient is the geometry of norm_*_parameter_gradient, which sums partRows rows
// at a time. With more than one part each writes 2*Params floats, which
// weight_gradient_sum adds up: Weights = Biases = Params, Scale = 1.
func (f *NormForm) ParameterGradient() (g Geometry, parts, partRows int) {
	parts = min(mostParts, ceil(f.Rows, normRows))
	partRows = ceil(f.Rows, parts)
	parts = ceil(f.Rows, partRows)
	blocks := f.Channels
	if f.ByRow {
		blocks = ceil(f.Params(), 128)
	}
	return Geometry{[3]uint32{uint32(blocks), uint32(parts), 1}, [3]uint32{128, 1, 1}}, parts, partRows
}

// CheckDense refuses a dense layer that the kernels do not compute.
func CheckDense(rows, in, out int) error {
	sizes := []int{rows, in, out}
	for _, n := range sizes {
		if n < 1 || n > maxElements {
			return fmt.Errorf("dense layer %v: every number must be 1 to %d", sizes, maxElements)
		}
	}
	for _, array := range [][]int{{rows, in}, {rows, out}, {out, in + 1}} {
		if err := fits("dense layer", sizes, array); err != nil {
			return err
		}
	}
	if most := 65535 * tile; rows > most || out > most {
		return fmt.Errorf("dense layer %v: rows and outputs must be at most %d", sizes, most)
	}
	return nil
}

// DenseForward is the geometry of dense_forward_*; a part has rows*out floats. How the sums
// are cut does not depend on rows.
func DenseForward(rows, in, out int) (g Geometry, c Cut) {
	c = cutOf(in)
	return product(rows, out, int(c.Parts)), c
}

// DenseWeightGradient is the geometry of dense_weight_gradient_*; a part has out*(in+1)
// floats.
func DenseWeightGradient(rows, in, out int) (g Geometry, c Cut) {
	c = cutOf(rows)
	return product(out, in, int(c.Parts)), c
}

// DenseInputGradient is the geometry of dense_input_gradient_*.
func DenseInputGradient(rows, in int) Geometry { return product(rows, in, 1) }

func ceil(n, by int) int { return (n + by - 1) / by }
