package cuda

// The arguments of the kernels, as kernels/args.cuh declares them, field by field: there a
// name has words between underscores, and a pointer is an address of 64 bits here.

// Divisor divides numbers of 31 bits by a constant; see NewDivisor.
type Divisor struct{ By, Magic, Shift uint32 }

// Cut says how the k of a product are cut into parts that are summed by themselves.
type Cut struct {
	Parts  int32 // 1 or more
	Chunks int32 // of a part; the last one may have fewer
}

// ConvShape is a convolution over so many images; see NewConvShape.
type ConvShape struct {
	Images, InC, InH, InW, OutC, OutH, OutW, Kernel, Stride int32
	Positions, Width, Taps, Side                            Divisor
	CellH, CellW                                            int32
	Cells, CellWidth, CellTaps, CellSide, Phase             Divisor
}

// ConvForwardArgs are those of conv_forward_* and conv_forward_bytes_*.
type ConvForwardArgs struct {
	Shape      ConvShape
	X, W, B, Y uint64
	Scale      float32 // of bytes
	ReLU       int32   `c:"relu"`
}

// ConvWeightGradientArgs are those of conv_weight_gradient_* and
// conv_weight_gradient_bytes_*.
type ConvWeightGradientArgs struct {
	Shape  ConvShape
	X, DY  uint64
	Y      uint64 // 0: no ReLU
	DW, DB uint64
	Parts  uint64 // 0 where there is one part
	Cut    Cut
	Scale  float32 // of bytes
}

// ConvInputGradientArgs are those of conv_input_gradient_*.
type ConvInputGradientArgs struct {
	Shape ConvShape
	W, DY uint64
	Y     uint64 // 0: no ReLU
	DX    uint64
}

// DenseForwardArgs are those of dense_forward_*.
type DenseForwardArgs struct {
	Rows, In, Out int32
	ReLU          int32 `c:"relu"`
	X, W, B, Y    uint64
	Parts         uint64 // 0 where there is one part
	Cut           Cut
}

// DenseForwardSumArgs are those of dense_forward_sum.
type DenseForwardSumArgs struct {
	Rows, Out   int32
	ReLU        int32 `c:"relu"`
	Count       int32 // of the parts
	Width       Divisor
	Parts, B, Y uint64
}

// DenseWeightGradientArgs are those of dense_weight_gradient_*.
type DenseWeightGradientArgs struct {
	Rows, In, Out int32
	X, DY         uint64
	Y             uint64 // 0: no ReLU
	DW, DB        uint64
	Parts         uint64 // 0 where there is one part
	Cut           Cut
}

// DenseInputGradientArgs are those of dense_input_gradient_*.
type DenseInputGradientArgs struct {
	Rows, In, Out int32
	W, DY         uint64
	Y             uint64 // 0: no ReLU
	DX            uint64
}

// WeightGradientSumArgs are those of weight_gradient_sum.
type WeightGradientSumArgs struct {
	Weights, Biases, Count int32
	Scale                  float32
	Parts, DW, DB          uint64
}
