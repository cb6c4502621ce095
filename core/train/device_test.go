package train

import (
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/gpu"
	"github.com/paceline-rl/paceline/core/settings"
)

// plainConfig has only settings that every device computes.
type plainConfig struct{ Common }

func (c *plainConfig) Resolve() ([]string, error) { return nil, nil }

// cpuConfig has settings that a GPU does not compute.
type cpuConfig struct{ plainConfig }

func (c *cpuConfig) OnlyCPU(string) (given, must string) { return "dueling: true", "false" }

// onDevice is a Trainer of a method that has the settings of a table.
func onDevice(table *settings.Table, edit func(*Common)) *Trainer {
	def := &Definition{Name: "some method", Settings: table}
	cfg := &Config{table.Defaults(), def}
	edit(cfg.Common())
	return &Trainer{def: def, cfg: cfg, common: cfg.Common(), monitor: newMonitor(1)}
}

// Device auto is a GPU for convolutions, but not where a setting is computed on the CPU alone.
func TestAutoIsTheCPUForSettingsOfTheCPU(t *testing.T) {
	plain := settings.New[plainConfig]("plain", CommonSettings(func(c *plainConfig) *Common { return &c.Common }), nil)
	only := settings.New[cpuConfig]("cpu", CommonSettings(func(c *cpuConfig) *Common { return &c.Common }), nil)
	const name = "cuda:0 (test)"
	none, turing, ampere := gpu.Info{}, gpu.Info{Device: "cuda:0", Name: "test", Major: 7}, gpu.Info{Device: "cuda:0", Name: "test", Major: 8}
	faster := "device: auto, and the CPU computes, which is faster for networks without convolutions; device: cuda takes " + name
	because := "device: auto, and the CPU computes, because " + name + " does not compute "
	taken := "device: auto, and " + name + " computes; device: cpu has results of its own for the same seed"
	for _, c := range []struct {
		name      string
		table     *settings.Table
		policy    string
		precision nn.Precision
		gpu       gpu.Info
		want      string
		said      []string
	}{
		{"no GPU", plain, PolicyCNN, nn.FP32, none, "cpu", nil},
		{"no GPU, a setting of the CPU", only, PolicyCNN, nn.FP32, none, "cpu", nil},
		{"no GPU, bf16", plain, PolicyCNN, nn.BF16, none, "cpu", nil},
		{"convolutions", plain, PolicyCNN, nn.FP32, ampere, "cuda", []string{taken}},
		{"dense layers", plain, PolicyMLP, nn.FP32, ampere, "cpu", []string{faster}},
		{"convolutions, a setting of the CPU", only, PolicyCNN, nn.FP32, ampere, "cpu", []string{because + "dueling: true"}},
		{"dense layers, a setting of the CPU", only, PolicyMLP, nn.FP32, ampere, "cpu", []string{because + "dueling: true"}},
		{"an old GPU", plain, PolicyCNN, nn.FP32, turing, "cuda", []string{taken}},
		{"bf16", plain, PolicyCNN, nn.BF16, ampere, "cuda", []string{taken}},
		{"bf16 on an old GPU", plain, PolicyCNN, nn.BF16, turing, "cpu", []string{because + "precision: bf16"}},
		{"tf32 on an old GPU, which refuses it", plain, PolicyCNN, nn.TF32, turing, "cuda", []string{taken}},
	} {
		tr := onDevice(c.table, func(s *Common) { s.Policy, s.Precision = c.policy, string(c.precision) })
		if got := tr.choose(func() (gpu.Info, bool) { return c.gpu, c.gpu != none }); got != c.want || !slices.Equal(tr.monitor.notices, c.said) {
			t.Errorf("%s: %s, %q, want %s, %q", c.name, got, tr.monitor.notices, c.want, c.said)
		}
	}
}

// A GPU that the caller names is refused before it is opened.
func TestSettingsOfTheCPURefuseAGPU(t *testing.T) {
	only := settings.New[cpuConfig]("cpu", CommonSettings(func(c *cpuConfig) *Common { return &c.Common }), nil)
	for _, device := range []string{"cuda", "cuda:1"} {
		err := onDevice(only, func(s *Common) { s.Policy, s.Device = PolicyCNN, device }).openDevice()
		if want := "dueling: true, must be false on " + device + "; the device cpu computes it"; err == nil || err.Error() != want {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
