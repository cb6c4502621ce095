package cuda

import (
	"fmt"
	"math/bits"
)

// Geometry is the geometry of a launch: the blocks of its grid and the threads of a block. The
// geometry and the splits of sums follow from the shapes alone: the same shapes give the same bits
// on any chip. No kernel uses dynamic shared memory.
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
//	norm_rows_*, norm_positions_*       NormArgs                 NormForm.Forward ...
//	argmax, td_targets, td_loss,        ArgmaxArgs ...           Loss(rows)
//	actor_critic, actor_critic_product
//	sum_squares                         SumSquaresArgs           SumSquares(n)
//	advance                             AdvanceArgs              Advance
//	rmsprop, adam, radam, adagrad       OptimizerArgs            Elements(n)
//
// P is fp32, tf32 or bf16; chips before sm_80 have neither tf32 nor bf16. If a SplitK has more than
// one part, the kernel writes the parts, PartLen floats each, and a second kernel with
// PartsCount = Parts adds them up: dense_forward_sum or weight_gradient_sum.
type Geometry struct{ Grid, Block [3]uint32 }

const (
	tile          = 32 // rows, and columns, of a product that a block computes
	chunk         = 16 // k that a warp stages at a time
	warpsPerBlock = 4  // of the matrix products
	gemmThreads   = 32 * warpsPerBlock
	minPartChunks = 32 // chunks per part, if there are several parts
	maxParts      = 64

	lossRowsPerBlock = 128
	minNormRows      = 32 // rows per part of a normalisation's parameter gradients
	squaresPerBlock  = 4096

	elementThreads = 256
	maxBlocks      = 1024 // of Elements

	// maxElements is the most elements that an array may have: kernels use 32-bit indices.
	maxElements = 1<<31 - 1
)

// NewDivisor returns the Divisor for d, 1 to 2^31-1: n/d is (n*Magic>>32 + n) >> Shift for every
// 31-bit n (Granlund and Montgomery 1994).
func NewDivisor(d int32) Divisor {
	shift := uint32(bits.Len32(uint32(d - 1)))
	return Divisor{uint32(d), uint32(((1<<shift-uint64(d))<<32)/uint64(d) + 1), shift}
}

// splitFor splits a sum over depth numbers.
func splitFor(depth int) SplitK {
	chunks := ceil(depth, chunk)
	parts := min(maxParts, ceil(chunks, minPartChunks))
	each := warpsPerBlock * ceil(ceil(chunks, parts), warpsPerBlock) // every warp gets the same number
	return SplitK{int32(ceil(chunks, each)), int32(each)}
}

// gemmGeometry is the geometry of a matrix product with z blocks per tile.
func gemmGeometry(rows, columns, z int) Geometry {
	return Geometry{[3]uint32{uint32(ceil(columns, tile)), uint32(ceil(rows, tile)), uint32(z)}, [3]uint32{gemmThreads, 1, 1}}
}

// Elements is the geometry of elementwise kernels; n is at least 1.
func Elements(n int) Geometry {
	return Geometry{[3]uint32{uint32(min(maxBlocks, ceil(n, elementThreads))), 1, 1}, [3]uint32{elementThreads, 1, 1}}
}

// NewConvShape returns the convolution of images [inC, inH, inW] with kernels
// [outC, inC, kernel, kernel], without padding. A kernel must be two or three strides wide and fit
// the image.
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
		if err := checkSize("convolution", sizes[:], array); err != nil {
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

// checkSize returns an error if an array has too many elements.
func checkSize(what string, sizes, array []int) error {
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
	return gemmGeometry(int(s.OutC), int(s.Images*s.OutH*s.OutW), 1)
}

// WeightGradient is the geometry of conv_weight_gradient_*.
func (s *ConvShape) WeightGradient() (g Geometry, split SplitK) {
	split = splitFor(int(s.Images * s.OutH * s.OutW))
	return gemmGeometry(int(s.OutC), s.patch(), int(split.Parts)), split
}

// PartLen returns the number of floats in a part of the weights' and biases' gradients.
func (s *ConvShape) PartLen() int { return int(s.OutC) * (s.patch() + 1) }

// InputGradient is the geometry of conv_input_gradient_*. The z of a block is a phase: the row and
// the column of an input modulo the stride.
func (s *ConvShape) InputGradient() Geometry {
	return gemmGeometry(int(s.InC), int(s.Images*s.CellH*s.CellW), int(s.Stride*s.Stride))
}

// Gather is the geometry of gather: a block per frame. An observation has at most 65,535 frames.
func Gather(rows, frames int) Geometry {
	return Geometry{[3]uint32{uint32(rows), uint32(frames), 1}, [3]uint32{128, 1, 1}}
}

// Pick is the geometry of pick. A row has width bytes, all rows together fewer than 2^31.
func Pick(rows, width int) Geometry {
	piece := 1 // bytes that a thread copies at a time, if both arrays are aligned to them
	if width%16 == 0 {
		piece = 16
	} else if width%4 == 0 {
		piece = 4
	}
	return Elements(rows * width / piece)
}

// Loss is the geometry of argmax, td_targets, td_loss, actor_critic and actor_critic_product. Each
// block of the losses writes LossTerms doubles, which the last block adds up.
func Loss(rows int) Geometry {
	return Geometry{[3]uint32{uint32(ceil(rows, lossRowsPerBlock)), 1, 1}, [3]uint32{lossRowsPerBlock, 1, 1}}
}

// LossTerms is the most terms that a loss has.
const LossTerms = 5

// SumSquares is the geometry of sum_squares, which writes a double per block.
func SumSquares(n int) Geometry {
	return Geometry{[3]uint32{uint32(ceil(n, squaresPerBlock)), 1, 1}, [3]uint32{elementThreads, 1, 1}}
}

// Advance is the geometry of advance.
var Advance = Geometry{[3]uint32{1, 1, 1}, [3]uint32{elementThreads, 1, 1}}

// NormForm is the shape of a layer normalisation. It selects the kernels: norm_rows_* or
// norm_positions_*.
type NormForm struct {
	Rows, Channels, Positions int
	// ByRow: normalises each whole row; otherwise the channels at each position.
	ByRow bool
}

// Params returns the number of scales, which is also the number of biases.
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

// ParameterGradient is the geometry of norm_*_parameter_gradient. A part sums partRows rows. If
// there are several parts, each is 2*Params floats, and weight_gradient_sum adds them up with
// Weights = Biases = Params and Scale = 1.
func (f *NormForm) ParameterGradient() (g Geometry, parts, partRows int) {
	parts = min(maxParts, ceil(f.Rows, minNormRows))
	partRows = ceil(f.Rows, parts)
	parts = ceil(f.Rows, partRows)
	blocks := f.Channels
	if f.ByRow {
		blocks = ceil(f.Params(), 128)
	}
	return Geometry{[3]uint32{uint32(blocks), uint32(parts), 1}, [3]uint32{128, 1, 1}}, parts, partRows
}

// CheckDense returns an error for a dense layer that is too large for the kernels.
func CheckDense(rows, in, out int) error {
	sizes := []int{rows, in, out}
	for _, n := range sizes {
		if n < 1 || n > maxElements {
			return fmt.Errorf("dense layer %v: every number must be 1 to %d", sizes, maxElements)
		}
	}
	for _, array := range [][]int{{rows, in}, {rows, out}, {out, in + 1}} {
		if err := checkSize("dense layer", sizes, array); err != nil {
			return err
		}
	}
	if limit := 65535 * tile; rows > limit || out > limit { // grids have at most 65,535 blocks in y
		return fmt.Errorf("dense layer %v: rows and outputs must be at most %d", sizes, limit)
	}
	return nil
}

// DenseForward is the geometry of dense_forward_*. A part has rows*out floats. The split does not
// depend on rows, so that a row has the same bits in any batch.
func DenseForward(rows, in, out int) (g Geometry, split SplitK) {
	split = splitFor(in)
	return gemmGeometry(rows, out, int(split.Parts)), split
}

// DenseWeightGradient is the geometry of dense_weight_gradient_*. A part has out*(in+1) floats.
func DenseWeightGradient(rows, in, out int) (g Geometry, split SplitK) {
	split = splitFor(rows)
	return gemmGeometry(out, in, int(split.Parts)), split
}

// DenseInputGradient is the geometry of dense_input_gradient_*.
func DenseInputGradient(rows, in int) Geometry { return gemmGeometry(rows, in, 1) }

func ceil(n, by int) int { return (n + by - 1) / by }
