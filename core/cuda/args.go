package cuda

// The arguments of the kernels. The structs mirror kernels/args.cuh field by field: InC is in_c
// there, and a pointer there is a 64-bit address here. args.cuh documents the fields.

// Divisor divides 31-bit numbers by a constant; see NewDivisor.
type Divisor struct{ By, Magic, Shift uint32 }

// SplitK splits the sum over k of a matrix product into parts.
type SplitK struct {
	Parts  int32 // 1 or more
	Chunks int32 // per part; the last part may have fewer
}

// ConvShape is a convolution over a number of images; see NewConvShape.
type ConvShape struct {
	Images, InC, InH, InW, OutC, OutH, OutW, Kernel, Stride int32
	Positions, Width, Taps, Side                            Divisor
	CellH, CellW                                            int32
	Cells, CellWidth, CellTaps, CellSide, Phase             Divisor
}

// ConvForwardArgs are the arguments of conv_forward_* and conv_forward_bytes_*.
type ConvForwardArgs struct {
	Shape      ConvShape
	X, W, B, Y uint64
	Scale      float32 // factor of bytes
	ReLU       int32   `c:"relu"`
}

// ConvWeightGradientArgs are the arguments of conv_weight_gradient_* and
// conv_weight_gradient_bytes_*.
type ConvWeightGradientArgs struct {
	Shape  ConvShape
	X, DY  uint64
	Y      uint64 // 0: no ReLU
	DW, DB uint64
	Parts  uint64 // 0: one part
	Split  SplitK
	Scale  float32 // factor of bytes
}

// ConvInputGradientArgs are the arguments of conv_input_gradient_*.
type ConvInputGradientArgs struct {
	Shape ConvShape
	W, DY uint64
	Y     uint64 // 0: no ReLU
	DX    uint64
}

// DenseForwardArgs are the arguments of dense_forward_*.
type DenseForwardArgs struct {
	Rows, In, Out int32
	ReLU          int32 `c:"relu"`
	X, W, B, Y    uint64
	Parts         uint64 // 0: one part
	Split         SplitK
}

// DenseForwardSumArgs are the arguments of dense_forward_sum.
type DenseForwardSumArgs struct {
	Rows, Out   int32
	ReLU        int32 `c:"relu"`
	PartsCount  int32
	Width       Divisor
	Parts, B, Y uint64
}

// DenseWeightGradientArgs are the arguments of dense_weight_gradient_*.
type DenseWeightGradientArgs struct {
	Rows, In, Out int32
	X, DY         uint64
	Y             uint64 // 0: no ReLU
	DW, DB        uint64
	Parts         uint64 // 0: one part
	Split         SplitK
}

// DenseInputGradientArgs are the arguments of dense_input_gradient_*.
type DenseInputGradientArgs struct {
	Rows, In, Out int32
	W, DY         uint64
	Y             uint64 // 0: no ReLU
	DX            uint64
}

// WeightGradientSumArgs are the arguments of weight_gradient_sum.
type WeightGradientSumArgs struct {
	Weights, Biases, PartsCount int32
	Scale                       float32
	Parts, DW, DB               uint64
}

// ElementsArgs are the arguments of most kernels of elementwise.cu.
type ElementsArgs struct {
	N             int64
	X, Y, To      uint64
	Decay, Factor float32
}

// SelectArgs are the arguments of select.
type SelectArgs struct {
	Words, First int64
	Update       uint64 // address of a Step: Update is its first field
	From, To     uint64
}

// Stack is one observation, a stack of frames in an arena.
type Stack struct {
	First  int32 // slot of the oldest frame
	Base   int32 // first slot of the ring
	Slots  int32 // number of slots of the ring
	Frames int32 // the newest Frames frames are valid; older frames read as zeros
}

// GatherArgs are the arguments of gather.
type GatherArgs struct {
	Rows, Frames, Width int32 // frames per observation, bytes per frame
	Arena, Stacks       uint64
	Update              uint64 // address of a Step, or 0
	To                  uint64
}

// PickArgs are the arguments of pick.
type PickArgs struct {
	Rows, Width, First int64 // Width: bytes per row
	Index              uint64
	From, To           uint64
	Update             uint64 // address of a Step, or 0
}

// Step is the state of an optimiser in GPU memory. Before a window of updates the host writes all
// zeros, except for the field Step. After the window the host reads the results.
type Step struct {
	Update           int64 // applied updates of this window
	Step             int64 // applied updates ever
	Loss, Norm       float64
	LossSum, NormSum float64
	Rate, Size, Root float32
	GradFactor       float32
	Rectified, Apply int32
	Refused          int32 // 0, RefusedLoss or RefusedNorm; later updates of the window are not applied
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

// AdvanceArgs are the arguments of advance.
type AdvanceArgs struct {
	Step    uint64
	Loss    uint64 // address of a double; 0: none
	Parts   uint64 // sum_squares writes them; 0: none
	Rates   uint64
	First   int64
	Record  uint64 // 0: none
	MaxNorm float64
	Beta1   float64
	Beta2   float64

	PartsCount, Rule int32
}

// SumSquaresArgs are the arguments of sum_squares, which also does the work of advance.
type SumSquaresArgs struct {
	N        int64
	X, Parts uint64
	Arrived  uint64 // address of a uint32, which is 0
	Advance  AdvanceArgs
}

// OptimizerArgs are the arguments of rmsprop, adam, radam and adagrad.
type OptimizerArgs struct {
	N, Centered, EpsInside                int32
	Decay1, Weight1, Decay2, Weight2, Eps float32
	Step, Grad, Theta, First, Second      uint64
}

// NormArgs are the arguments of norm_*.
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

// LossSumArgs are the arguments of the last block of a loss, which adds up the terms of all blocks.
type LossSumArgs struct {
	Terms                  int32
	EntropyCoef, ValueCoef float64
	Parts                  uint64 // LossTerms doubles per block
	Arrived                uint64 // address of a uint32, which is 0
	Loss                   uint64
}

// TDTargetsArgs are the arguments of td_targets.
type TDTargetsArgs struct {
	Rows, Width        int32
	Next               uint64
	Actions            uint64 // 0: the actions with the largest values
	Rewards, Discounts uint64
	Targets            uint64
}

// ArgmaxArgs are the arguments of argmax.
type ArgmaxArgs struct {
	Rows, Width int32
	Values      uint64
	Masks       uint64 // 0: all actions are allowed
	Actions     uint64
}

// TDLossArgs are the arguments of td_loss.
type TDLossArgs struct {
	Rows, Width, Squared, Mean int32
	Importance                 int32 // 0: Weights are not importance weights
	Scale                      float32
	Q, Actions, Targets        uint64
	Weights                    uint64 // 0: every row has weight 1
	DQ                         uint64
	Update                     uint64 // address of a Step, whose Update counts the errors' places; 0: 0
	Errors                     uint64
	Sum                        LossSumArgs
}

// Values of TDLossArgs.Importance; see nn.TD.
const (
	ImportanceLoss     = 1
	ImportanceGradient = 2
	ImportanceError    = 3
)

// Values of ActorCriticArgs.Regulariser; 0: none.
const (
	RegulariserPlus = 1
	RegulariserMax  = 2
)

// ActorCriticArgs are the arguments of actor_critic.
type ActorCriticArgs struct {
	Rows, Width, LargestError    int32
	Regulariser                  int32 // without LogProbs only
	EntropyCoef, ValueCoef       float32
	LogEps                       float32 // of Regulariser
	Logits, Values, Actions      uint64
	Masks                        uint64 // 0: all actions are allowed
	Advantages, Returns, Weights uint64
	LogProbs                     uint64 // 0: A2C's loss instead of PPO's
	Clips, OldValues, ValueClips uint64
	DLogits, DValues             uint64
	Sum                          LossSumArgs
}

// ActorCriticProductArgs are the arguments of actor_critic_product.
type ActorCriticProductArgs struct {
	Loss                ActorCriticArgs
	BranchesCount, Size int32
	Branches            uint64
	Means, Continuous   uint64
	LogStd              uint64
	DMeans              uint64
	DLogStd             uint64
	LogStdParts         uint64 // Size doubles per block
}
