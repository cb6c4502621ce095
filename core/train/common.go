package train

import (
	"math"

	"github.com/paceline-rl/paceline/core/env"
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
	// NormalizeImages is the opposite of nn.Spec.RawImages.
	NormalizeImages bool
	HostData        string
	StatsWindowSize int
}

func (c *Common) common() *Common { return c }

// maxStatsWindow is the largest stats_window_size.
const maxStatsWindow = 10_000

// Policies, named as in Stable-Baselines3.
const (
	policyAuto = "auto"
	PolicyCNN  = "CnnPolicy"
	PolicyMLP  = "MlpPolicy"
)

// FitPolicy replaces policy "auto" by the policy that fits the observation.
func (c *Common) FitPolicy(obs env.ObsSpec) {
	if c.Policy != policyAuto {
		return
	}
	c.Policy = PolicyMLP
	if len(obs.Shape) == 3 {
		c.Policy = PolicyCNN
	}
}

// CommonSettings describes Common for a method whose struct is C.
func CommonSettings[C any](part func(*C) *Common) []settings.Setting {
	return settings.Within(part, []settings.Setting{
		settings.Text("env", "", "name of the known environment to step", nil, func(c *Common) *string { return &c.Env }),
		settings.Text("env_options", "", "what the environment is made with, as a JSON object: {\"recipe\": \"mnih2015\"}", nil, func(c *Common) *string { return &c.EnvOptions }),
		settings.Int("num_envs", 1, 1, 65536, "W: environments stepped together", func(c *Common) *int { return &c.NumEnvs }),
		settings.Int("num_threads", 0, 0, 1024, "threads that compute at any time, in updates, in acting and in environments together; 0: one per core. Changes the speed, never the result", func(c *Common) *int { return &c.NumThreads }),
		settings.Int("groups", 1, 1, 2, "2: environments are stepped in two groups by turns, and while one steps, the actions of the other are computed. Changes the speed, never the result; pays where steps wait", func(c *Common) *int { return &c.Groups }),
		settings.Text("device", deviceAuto, "what computes the networks: cpu; cuda (or cuda:1 ...), an NVIDIA GPU, where the library was built with it; or auto: a GPU for convolutions where one answers, else the CPU. A seed has one result for each device", nil, func(c *Common) *string { return &c.Device }),
		settings.Text("precision", "fp32", "what the networks' products multiply, in updates and in acting: fp32, bf16 (operands rounded to bfloat16, sums and weights float32; faster where the processor has AVX-512 BF16, and on GPUs), or on GPUs tf32 (operands rounded to 11 bits)", []string{"fp32", "bf16", "tf32"}, func(c *Common) *string { return &c.Precision }),
		settings.Text("isa", "auto", "auto: the processor's best instructions; portable: the same weights, bit for bit, on every processor that the library runs on, in several times the time", []string{"auto", "portable"}, func(c *Common) *string { return &c.ISA }),
		settings.Int("seed", 0, 0, math.MaxInt64, "the one seed of everything random", func(c *Common) *int { return &c.Seed }),
		settings.Int("frame_stack", 0, 0, 64, "successive frames along an observation's first axis: anything else is then an error; 0: as the environment says, or found out where the caller steps it", func(c *Common) *int { return &c.FrameStack }),
		settings.Text("autoreset", "same_step", "what a pushed observation row holds after an episode's end: same_step (the next episode's first) or next_step (the ended one's last)", []string{"same_step", "next_step"}, func(c *Common) *string { return &c.Autoreset }),
		settings.Bool("action_masks", false, "whether each observation comes with a mask of the actions that may be taken; environments that the library steps say so themselves", func(c *Common) *bool { return &c.ActionMasks }),
		settings.Text("policy", policyAuto, "network: CnnPolicy (convolutions, for images), MlpPolicy (dense layers), or auto by the observation", []string{policyAuto, PolicyCNN, PolicyMLP}, func(c *Common) *string { return &c.Policy }),
		settings.Bool("normalize_images", true, "images enter the network divided by 255; false: as they are, 0 to 255", func(c *Common) *bool { return &c.NormalizeImages }),
		settings.Int("stats_window_size", 100, 1, maxStatsWindow, "how many of the latest episodes mean_return and mean_length are over", func(c *Common) *int { return &c.StatsWindowSize }),
		settings.Text("host_data", "", "a text that the host keeps with checkpoints and policies; the library does not read it", nil, func(c *Common) *string { return &c.HostData }),
	})
}

// Activation is the setting activation_fn, for which methods have different defaults.
func Activation[C any](def string, field func(*C) *string) settings.Setting {
	return settings.Text("activation_fn", def, "what follows each of MlpPolicy's hidden layers: tanh or relu", []string{"tanh", "relu"}, field)
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
