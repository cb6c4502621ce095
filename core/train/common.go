package train

import (
	"fmt"
	"math"
	"slices"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/settings"
)

// Common holds the settings that every method has.
type Common struct {
	Env        string
	EnvOptions string // a JSON object
	NumEnvs    int    // W
	NumThreads int
	Groups     int
	Device     string
	Precision  string
	ISA        string
	Seed       int
	FrameStack int
	Autoreset  string
	// ActionMasks says that observations come with action masks. If the Trainer steps the
	// environments, their Spec decides.
	ActionMasks bool
	Policy      string
	// NormalizeImages is the setting behind RawImages.
	NormalizeImages bool
	HostData        string
	StatsWindowSize int

	sharesMoments bool // see SharesMoments
}

func (c *Common) common() *Common { return c }

// SharesMoments reports whether the settings are of a learner whose advantages are normalised with
// those of other learners, so that it may have one row (Learner.ShareMoments).
func (c *Common) SharesMoments() bool { return c.sharesMoments }

// maxStatsWindow is the largest stats_window_size.
const maxStatsWindow = 10_000

// Policies, named as in Stable-Baselines3.
const (
	policyAuto = "auto"
	PolicyCNN  = "CnnPolicy"
	PolicyMLP  = "MlpPolicy"
)

// The cnn of images that are too small for a method's default.
const smallCNN = "minatar"

// fitPolicy replaces policy "auto" by the policy that fits the observation. With it the default
// cnn, which may have been set explicitly, gives way to smallCNN where images are too small for it.
// Images that are too small for smallCNN are refused with its least size.
func (c *Config) fitPolicy(obs env.ObsSpec) error {
	common := c.Common()
	if common.Policy != policyAuto {
		return nil
	}
	common.Policy = PolicyMLP
	if len(obs.Shape) != 3 {
		return nil
	}
	common.Policy = PolicyCNN
	cnn, err := c.Get("cnn")
	if err != nil {
		return nil // the method has no such setting
	}
	if usual, _ := c.Table().Defaults().Get("cnn"); cnn == usual && obs.DType == env.Uint8 && !takes(cnn, obs) {
		return c.Set("cnn", smallCNN)
	}
	return nil
}

// takes reports whether the convolutions of a cnn can be computed on images.
func takes(cnn string, obs env.ObsSpec) bool {
	net := nn.Spec{Obs: obs, Trunks: []nn.Trunk{{Arch: cnn + "_cnn"}}, Heads: []nn.Head{{Name: "q", Out: 1}}}
	_, err := net.Layout()
	return err == nil
}

// RawImages says that the numbers of images reach the network as they are, by the settings or
// because they are planes of 0 and 1.
func (c *Common) RawImages(obs env.ObsSpec) bool {
	planes := len(obs.Shape) == 3 && obs.DType == env.Uint8 && len(obs.High) > 0 && slices.Max(obs.High) <= 1
	return !c.NormalizeImages || planes
}

// Misfit is the error of an environment that the policy's network does not fit, with the reason
// err.
func (c *Common) Misfit(err error) error {
	hint := " (MlpPolicy takes any)"
	if c.Policy == PolicyMLP {
		hint = "" // a number of actions or a width is too large
	}
	return fmt.Errorf("policy: %s does not fit the environment%s: %w", c.Policy, hint, err)
}

// CommonSettings describes Common for a method whose struct is C.
func CommonSettings[C any](part func(*C) *Common) []settings.Setting {
	return settings.Within(part, []settings.Setting{
		settings.Text("env", "", "name of the built-in environment to train in", nil, func(c *Common) *string { return &c.Env }),
		settings.Text("env_options", "", "options of the environment, a JSON object: {\"recipe\": \"mnih2015\"}", nil, func(c *Common) *string { return &c.EnvOptions }),
		settings.Int("num_envs", 1, 1, 65536, "W: number of environments", func(c *Common) *int { return &c.NumEnvs }),
		settings.Int("num_threads", 0, 0, 1024, "most threads that compute at the same time, in updates, in acting and in environments; 0: one per core. Changes the speed, never the result", func(c *Common) *int { return &c.NumThreads }),
		settings.Int("groups", 1, 1, 2, "2: two groups of environments step by turns, and while one steps, the actions of the other are computed. Changes the speed, never the result; helps where steps wait", func(c *Common) *int { return &c.Groups }),
		settings.Text("device", deviceAuto, "device of the networks: cpu; cuda (or cuda:1 ...), an NVIDIA GPU, if the library was built for it; or auto: a usable GPU for convolutions if it computes all settings, else the CPU. A seed has one result for each device", nil, func(c *Common) *string { return &c.Device }),
		settings.Text("precision", "fp32", "operands of the networks' products, in updates and in acting: fp32, bf16 (rounded to bfloat16, with float32 sums and weights; faster on processors with AVX-512 BF16 and on GPUs), or on GPUs tf32 (rounded to 11 bits)", []string{"fp32", "bf16", "tf32"}, func(c *Common) *string { return &c.Precision }),
		settings.Text("isa", "auto", "auto: the processor's best instructions; portable: equal weights, bit for bit, on every processor, in several times the time", []string{"auto", "portable"}, func(c *Common) *string { return &c.ISA }),
		settings.Int("seed", 0, 0, math.MaxInt64, "seed of all random numbers", func(c *Common) *int { return &c.Seed }),
		settings.Int("frame_stack", 0, 0, 64, "number of successive frames along an observation's first axis, which it must divide; a replay memory stores each frame once, and refuses other observations; 0: as the environment says, or detected where the caller steps the environment", func(c *Common) *int { return &c.FrameStack }),
		settings.Text("autoreset", "same_step", "observation of a pushed row after an episode's end: same_step (the first of the next episode) or next_step (the last of the ended episode)", []string{"same_step", "next_step"}, func(c *Common) *string { return &c.Autoreset }),
		settings.Bool("action_masks", false, "whether pushed observations come with masks of the allowed actions; environments that the library steps decide themselves", func(c *Common) *bool { return &c.ActionMasks }),
		settings.Text("policy", policyAuto, "network: CnnPolicy (convolutions, for images), MlpPolicy (dense layers), or auto: CnnPolicy for images, else MlpPolicy; where cnn is its default, set or not, and images are too small for it, auto takes the cnn minatar instead", []string{policyAuto, PolicyCNN, PolicyMLP}, func(c *Common) *string { return &c.Policy }),
		settings.Bool("normalize_images", true, "images are divided by 255 before the network, unless they are planes of 0 and 1; false: the network gets 0 to 255", func(c *Common) *bool { return &c.NormalizeImages }),
		settings.Int("stats_window_size", 100, 1, maxStatsWindow, "number of latest episodes of the means mean_return and mean_length", func(c *Common) *int { return &c.StatsWindowSize }),
		settings.Text("host_data", "", "a text of the host that checkpoints and policies hold; the library does not read it", nil, func(c *Common) *string { return &c.HostData }),
	})
}

// Activation is the setting activation_fn, for which methods have different defaults.
func Activation[C any](def string, field func(*C) *string) settings.Setting {
	return settings.Text("activation_fn", def, "activation after each of MlpPolicy's hidden layers: tanh or relu", []string{"tanh", "relu"}, field)
}

// Config holds the settings of one method.
type Config struct {
	*settings.Values
	def *Definition
}

// NewConfig returns the default settings of a method.
func NewConfig(method string) (*Config, error) {
	def, err := lookup(method)
	if err != nil {
		return nil, err
	}
	return &Config{def.Settings.Defaults(), def}, nil
}

// Method returns the name of the method.
func (c *Config) Method() string { return c.def.Name }

// Common returns the settings that every method has, in place.
func (c *Config) Common() *Common { return c.settings().common() }

func (c *Config) settings() Settings { return c.Struct().(Settings) }

// Clone returns a deep copy.
func (c *Config) Clone() *Config { return &Config{c.Values.Clone(), c.def} }
