package dqn

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
)

// This file is about the layers below the head.

// Layers holds the settings of the layers below the head.
type Layers struct {
	CNN          string
	NetArch      []int
	ActivationFn string
}

// Values of cnn that a GPU does not compute.
const (
	Dopamine = "dopamine" // its initial weights are not PyTorch's
	DER      = "der"
)

// ofLayers are the settings of Layers.
func ofLayers() []settings.Setting {
	return settings.Within(func(c *Config) *Layers { return &c.Layers }, []settings.Setting{
		settings.Text("cnn", "nature", "CnnPolicy's layers: nature (Mnih et al. 2015), small (Mnih et al. 2016: 16 of 8x8 stride 4, 32 of 4x4 stride 2, 256), minatar (Young & Tian 2019, for images from 5x5 on: 16 of 3x3, 128), dopamine (nature with TensorFlow's padding SAME and the initial weights of Dopamine's JAX code) or der (van Hasselt et al. 2019: 32 of 5x5 stride 5, 64 of 5x5 stride 5, 256). A GPU does not compute the last two", []string{"nature", "small", "minatar", Dopamine, DER}, func(l *Layers) *string { return &l.CNN }),
		settings.Ints("net_arch", "64,64", 1, 65536, "widths", "widths of MlpPolicy's hidden layers; none: a linear network", func(l *Layers) *[]int { return &l.NetArch }),
		train.Activation("relu", func(l *Layers) *string { return &l.ActivationFn }),
	})
}

// trunk is the trunk that resolved settings stand for, and the distribution of the network's
// initial weights. Dopamine's DQN and its distributional agents draw them differently.
func (c *Config) trunk() (t nn.Trunk, init string) {
	switch {
	case c.Policy == train.PolicyMLP:
		return nn.Trunk{Arch: "mlp", Hidden: c.NetArch, Activation: c.ActivationFn}, ""
	case c.CNN != Dopamine:
		return nn.Trunk{Arch: c.CNN + "_cnn"}, ""
	case c.Distribution == NoDistribution:
		return nn.Trunk{Arch: "dopamine_cnn"}, "xavier_uniform"
	}
	return nn.Trunk{Arch: "dopamine_cnn"}, "variance_scaling"
}

// checkTrunk refuses layers that the head cannot be on.
func (c *Config) checkTrunk() error {
	if c.Distribution == Implicit && c.Policy == train.PolicyMLP && len(c.NetArch) < 2 {
		return fmt.Errorf("net_arch: %v, must be at least two widths where distribution is implicit: embeddings of taus multiply the layer before the last", c.NetArch)
	}
	return nil
}
