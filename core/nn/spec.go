package nn

import (
	"fmt"
	"slices"

	"github.com/paceline-rl/paceline/core/env"
)

const (
	// MaxRows bounds the rows of a Network and of a Learner.
	MaxRows = 65536
	// MaxOutputs bounds the outputs of a head.
	MaxOutputs = 65536

	// maxParams bounds a network at 1 GiB of parameters: a larger one is a mistake in the shape of
	// an observation.
	maxParams = 1 << 28
)

// Precision is the type of the factors in the products of all layers, forward and backward.
// Parameters, gradients and outputs are always float32.
type Precision string

// The precisions. The zero value is FP32.
const (
	FP32 Precision = "fp32"
	BF16 Precision = "bf16" // bfloat16, 8 significant bits
	TF32 Precision = "tf32" // 11 significant bits on a GPU; on a CPU as FP32
)

// Spec describes a network: its observations, its trunks and the heads on them.
type Spec struct {
	Obs    env.ObsSpec
	Trunks []Trunk // at least one; each has at least one head
	Heads  []Head  // at least one
	// Init is the distribution of initial parameters, see InitialParams: "uniform" (also ""),
	// "orthogonal", "he_normal", "xavier_uniform" or "variance_scaling".
	Init      string
	Precision Precision
	// ISA is "auto" (also ""), the best instructions of the processor, or "portable". Portable
	// layers have the same bits on every processor and take several times as long.
	ISA string
	// RawImages says that images are not divided by 255.
	RawImages bool
	// LogStdInit is the initial value of the parameter log_std of a network with a head "mu".
	LogStdInit float64
}

// Trunk turns an observation into features. Files have its fields under the names of the tags.
type Trunk struct {
	// Arch is "nature_cnn", "small_cnn", "cule_cnn", "ga3c_1_cnn" to "ga3c_4_cnn", "minatar_cnn",
	// "dopamine_cnn", "der_cnn" or "mlp".
	//
	// nature_cnn is the network of Mnih et al. 2015 without padding, as in Stable-Baselines3's
	// CnnPolicy: convolutions of 32 8x8 stride 4, 64 4x4 stride 2, 64 3x3 stride 1 and a dense layer
	// of 512. It reads uint8 images [C, H, W] of at least 36x36, divided by 255.
	//
	// small_cnn is the network of Mnih et al. 2016 and of Stooke & Abbeel: convolutions of 16 8x8
	// stride 4 and 32 4x4 stride 2 and a dense layer of 256. Its images are at least 20x20.
	//
	// cule_cnn is the network of Dalton et al. 2020 (CuLE): nature_cnn with 32 channels in its third
	// convolution.
	//
	// ga3c_1_cnn to ga3c_4_cnn are the large networks of Babaeizadeh et al. 2017 (GA3C), section 5.1:
	// convolutions of 32 8x8, with the stride in the name, 32 4x4 stride 2 and 64 4x4 stride 2, and a
	// dense layer of 256. Images are at least 8 plus 9 strides high and wide.
	//
	// minatar_cnn is the network of Young & Tian 2019 (MinAtar): a convolution of 16 3x3 stride 1 and
	// a dense layer of 128. Its images are at least 5x5.
	//
	// dopamine_cnn is nature_cnn with the padding "SAME" in each convolution, as in Dopamine: 84x84
	// images become 11x11 features of 64 channels. A GPU does not compute it.
	//
	// der_cnn is the network of van Hasselt et al. 2019 (data-efficient Rainbow): convolutions of 32
	// 5x5 stride 5 and 64 5x5 stride 5, without padding, and a dense layer of 256. Its images are at
	// least 25x25. A GPU does not compute it.
	//
	// mlp has dense layers of the widths in Hidden. It reads any observation, flattened. uint8 is
	// converted to float32, and divided by 255 if it is an image (three axes).
	Arch string `json:"Arch"`
	// Hidden are the widths of the layers of mlp. nil stands for [64, 64], as in Stable-Baselines3.
	// If Hidden is empty, the features are the observation. Other architectures have no Hidden.
	Hidden []int `json:"Hidden"`
	// Activation follows every layer: "relu" (also "") or, only for mlp, "tanh".
	Activation string `json:"Activation"`
	// Norm is the normalisation between every layer and its activation, with a learned scale and
	// bias, computed in float32. "" is none. "layer_channels" normalises the outputs of a
	// convolution over the channels at each position, with parameters [C], as flax's LayerNorm.
	// "layer_all" normalises over channels, rows and columns, with parameters [C, H, W], as
	// PyTorch's LayerNorm([C, H, W]). For a dense layer both normalise over all outputs.
	Norm string `json:"Norm,omitempty"`
	// NormEps is added to the variance, 0 to 1. 0 stands for 1e-6 with "layer_channels" (flax) and
	// for 1e-5 with "layer_all" (PyTorch).
	NormEps float64 `json:"NormEps,omitempty"`
	// Noisy, above 0, makes every dense layer noisy (Fortunato et al. 2018; Noise), the heads'
	// included, whose sigmas begin as Noisy/sqrt(inputs). Only a network of one head "q" may be noisy.
	// 0: none is. The embedding of a head with taus is noisy, too; that of Rainbow-IQN (Toromanoff et
	// al. 2019) is not.
	Noisy float64 `json:"Noisy,omitempty"`
}

// noisy reports whether dense layers are noisy.
func (s *Spec) noisy() bool { return s.Trunks[0].Noisy > 0 }

// Head returns the index of the head called name, or -1.
func (s *Spec) Head(name string) int {
	return slices.IndexFunc(s.Heads, func(h Head) bool { return h.Name == name })
}

// Policy returns the branches of the head "pi", none without this head, and the outputs of the head
// "mu", 0 without this head. A head "pi" without Branches has one branch of Out.
func (s *Spec) Policy() (branches []int32, gaussians int) {
	if i := s.Head("pi"); i >= 0 {
		if branches = s.Heads[i].Branches; branches == nil {
			branches = []int32{int32(s.Heads[i].Out)}
		}
	}
	if i := s.Head("mu"); i >= 0 {
		gaussians = s.Heads[i].Out
	}
	return branches, gaussians
}

// checkBranches checks the branches of head i.
func (s *Spec) checkBranches(i int) error {
	h, sum := &s.Heads[i], 0
	if h.Branches == nil {
		return nil
	}
	for k, choices := range h.Branches {
		if choices < 1 || choices > MaxOutputs {
			return fmt.Errorf("heads[%d].branches[%d]: %d, must be 1 to %d", i, k, choices, MaxOutputs)
		}
		sum += int(choices)
	}
	switch {
	case h.Name != "pi":
		return fmt.Errorf("heads[%d].branches: %v, must be nil for a head %q", i, h.Branches, h.Name)
	case sum != h.Out:
		return fmt.Errorf("heads[%d].branches: %v, must add up to %d outputs", i, h.Branches, h.Out)
	}
	return nil
}

// check checks what does not depend on the observation.
func (s *Spec) check() error {
	switch s.Precision {
	case FP32, BF16, TF32, "":
	default:
		return fmt.Errorf("precision: %q, must be \"fp32\", \"bf16\" or \"tf32\"", string(s.Precision))
	}
	if s.ISA != "" && s.ISA != "auto" && s.ISA != "portable" {
		return fmt.Errorf("isa: %q, must be \"auto\" or \"portable\"", s.ISA)
	}
	if s.Init != "" && !slices.Contains(inits, s.Init) {
		return fmt.Errorf("init: %q, must be \"uniform\", \"orthogonal\", \"he_normal\", \"xavier_uniform\" or \"variance_scaling\"", s.Init)
	}
	if len(s.Trunks) == 0 || len(s.Heads) == 0 {
		return fmt.Errorf("network: %d trunks and %d heads, must be at least one each", len(s.Trunks), len(s.Heads))
	}
	for i, t := range s.Trunks {
		if a := t.Activation; a != "relu" && a != "" && !(a == "tanh" && t.Arch == "mlp") {
			return fmt.Errorf("%sactivation: %q, must be \"relu\", or \"tanh\" for mlp", s.prefix(i), a)
		}
		if n := t.Norm; n != "" && n != normChannels && n != normAll {
			return fmt.Errorf("%snorm: %q, must be \"\", %q or %q", s.prefix(i), n, normChannels, normAll)
		}
		if e := t.NormEps; e != 0 && (t.Norm == "" || !(float32(e) > 0 && e <= 1)) {
			return fmt.Errorf("%snorm_eps: %v, must be above 0 and at most 1, or 0 for norm's own; 0 without norm", s.prefix(i), e)
		}
		if n := t.Noisy; !(n >= 0 && n <= 1e3) || n > 0 && n < 1e-6 {
			return fmt.Errorf("%snoisy: %v, must be 1e-6 to 1000, or 0 for none", s.prefix(i), n)
		} else if n > 0 && !s.isQ() {
			return fmt.Errorf("%snoisy: %v, must be 0 for a network that is not of one head \"q\"", s.prefix(i), n)
		}
		if !slices.ContainsFunc(s.Heads, func(h Head) bool { return h.Trunk == i }) {
			return fmt.Errorf("trunks[%d]: no head is on it", i)
		}
	}
	for i, h := range s.Heads {
		switch {
		case h.Out < 1 || h.Out > MaxOutputs:
			return fmt.Errorf("heads[%d].out: %d, must be 1 to %d", i, h.Out, MaxOutputs)
		case h.Trunk < 0 || h.Trunk >= len(s.Trunks):
			return fmt.Errorf("heads[%d].trunk: %d, must be 0 to %d", i, h.Trunk, len(s.Trunks)-1)
		case h.Name == "" || s.Head(h.Name) != i:
			return fmt.Errorf("heads[%d].name: %q, must not be empty and not that of another head", i, h.Name)
		case !(h.Gain >= 0 && h.Gain <= 1e6):
			return fmt.Errorf("heads[%d].gain: %v, must be 0 to 1e6", i, h.Gain)
		}
		if err := s.checkBranches(i); err != nil {
			return err
		}
		if err := s.checkDistribution(i); err != nil {
			return err
		}
		if err := s.checkDueling(i); err != nil {
			return err
		}
	}
	if l := s.LogStdInit; !(l >= -20 && l <= 20) {
		return fmt.Errorf("log_std_init: %v, must be -20 to 20", l)
	}
	return nil
}

// prefix begins an error about a trunk; "" if there is only one.
func (s *Spec) prefix(trunk int) string {
	if len(s.Trunks) == 1 {
		return ""
	}
	return fmt.Sprintf("trunks[%d].", trunk)
}

// hidden returns the widths of an mlp's layers.
func (t *Trunk) hidden() []int {
	if t.Hidden == nil {
		return []int{64, 64}
	}
	return t.Hidden
}

// ObsScale is the factor of uint8 observations.
func (s *Spec) ObsScale() float32 {
	if len(s.Obs.Shape) == 3 && !s.RawImages {
		return 1.0 / 255
	}
	return 1
}
