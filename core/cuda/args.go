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

// ElementsArgs are those of the kernels of elementwise.cu that have no others.
type ElementsArgs struct {
	N        int64
	X, Y, To uint64
	Keep, By float32
}

// SelectArgs are those of select.
type SelectArgs struct {
	Words, First int64
	Update       uint64 // of a Step, whose first field it is
	From, To     uint64
}

// Stack is one observation in an arena of frames.
type Stack struct {
	First  int32 // the slot of its oldest frame
	Base   int32 // the first slot of its ring
	Slots  int32 // of its ring
	Frames int32 // the newest that count; the others are zeros
}

// GatherArgs are those of gather.
type GatherArgs struct {
	Rows, Frames, Width int32 // frames of an observation, bytes of a frame
	Arena, Stacks       uint64
	Update              uint64 // of a Step, or 0
	To                  uint64
}

// PickArgs are those of pick.
type PickArgs struct {
	Rows, Width, First int64 // width: bytes of a row
	Index              uint64
	From, To           uint64
	Update             uint64 // of a Step, or 0
}

// Step is what an optimiser reads of the update at hand, on the device, and what the host
// reads of those done. The host writes it before a window of updates: all zeros but for Step.
type Step struct {
	Update           int64 // of the window: how many were applied
	Step             int64 // of the optimiser: how many were applied ever
	Loss, Norm       float64
	LossSum, NormSum float64
	Rate, Size, Root float32
	By               float32
	Rectified, Apply int32
	Refused          int32 // 0, RefusedLoss or RefusedNorm; no later update is applied
	Reserved         int32
}

// Values of Step.Refused.
const (
	RefusedLoss = 1
	RefusedNorm = 2
)

// Values of AdvanceArgs.Rule.
const (
	RulePlain = 0 // rmsprop, adagrad
	RuleAdam  = 1
	RuleRAdam = 2
)

// AdvanceArgs are those of advance.
type AdvanceArgs struct {
	Step    uint64
	Loss    uint64 // a double; 0: none
	Parts   uint64 // that sum_squares has written; 0: none
	Rates   uint64
	First   int64
	Record  uint64 // 0: none
	MaxNorm float64
	Beta1   float64
	Beta2   float64

	PartsCount, Rule int32
}

// SumSquaresArgs are those of sum_squares, whose last block advances.
type SumSquaresArgs struct {
	N        int64
	X, Parts uint64
	Arrived  uint64 // of an uint32, 0
	Advance  AdvanceArgs
}

// OptimizerArgs are those of rmsprop, adam, radam and adagrad.
type OptimizerArgs struct {
	N, Centered, EpsInside           int32
	Keep1, Rest1, Keep2, Rest2, Eps  float32
	Step, Grad, Theta, First, Second uint64
}

// NormArgs are those of norm_*.
type NormArgs struct {
	Rows, Channels, Positions int32
	ReLU                      int32 `c:"relu"`
	PartRows                  int32
	Eps                       float32
	X, Scale, Bias            uint64
	Y, Statistics             uint64
	DY, DX, DScale, DBias     uint64
	Parts                     uint64
}

// LossSumArgs say how the last block of a loss sums up what all of them have left.
type LossSumArgs struct {
	PartsOfLoss            int32
	EntropyCoef, ValueCoef float64
	Parts                  uint64 // LossParts doubles for each block
	Arrived                uint64 // of an uint32, 0
	Loss                   uint64
}

// TDTargetsArgs are those of td_targets.
type TDTargetsArgs struct {
	Rows, Width        int32
	Next               uint64
	Actions            uint64 // 0: the largest
	Rewards, Discounts uint64
	Targets            uint64
}

// ArgmaxArgs are those of argmax.
type ArgmaxArgs struct {
	Rows, Width int32
	Values      uint64
	Masks       uint64 // 0: all actions are allowed
	Actions     uint64
}

// TDLossArgs are those of td_loss.
type TDLossArgs struct {
	Rows, Width, Squared, Mean int32
	Scale                      float32
	Q, Actions, Targets        uint64
	Weights                    uint64 // 0: 1 each
	DQ                         uint64
	Sum                        LossSumArgs
}

// ActorCriticArgs are those of actor_critic.
type ActorCriticArgs struct {
	Rows, Width, LargestError    int32
	EntropyCoef, ValueCoef       float32
	Logits, Values, Actions      uint64
	Masks                        uint64 // 0: all actions are allowed
	Advantages, Returns, Weights uint64
	LogProbs                     uint64 // 0: not PPO's
	Clips, OldValues, ValueClips uint64
	DLogits, DValues             uint64
	Sum                          LossSumArgs
}
