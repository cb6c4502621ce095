package train

import (
	"slices"
	"testing"

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
	return &Trainer{def: def, cfg: cfg, common: cfg.Common(), host: newHost(1)}
}

// Device auto is a GPU for convolutions, but not where a setting is computed on the CPU alone.
func TestAutoIsTheCPUForSettingsOfTheCPU(t *testing.T) {
	plain := settings.New[plainConfig]("plain", CommonSettings(func(c *plainConfig) *Common { return &c.Common }), nil)
	only := settings.New[cpuConfig]("cpu", CommonSettings(func(c *cpuConfig) *Common { return &c.Common }), nil)
	const gpu = "cuda:0 (test)"
	faster := "device: auto, and the CPU computes, which is faster for networks without convolutions; device: cuda takes " + gpu
	because := "device: auto, and the CPU computes, because " + gpu + " does not compute dueling: true"
	taken := "device: auto, and " + gpu + " computes; device: cpu has results of its own for the same seed"
	for _, c := range []struct {
		name   string
		table  *settings.Table
		policy string
		gpu    string
		want   string
		said   []string
	}{
		{"no GPU", plain, PolicyCNN, "", "cpu", nil},
		{"no GPU, a setting of the CPU", only, PolicyCNN, "", "cpu", nil},
		{"convolutions", plain, PolicyCNN, gpu, "cuda", []string{taken}},
		{"dense layers", plain, PolicyMLP, gpu, "cpu", []string{faster}},
		{"convolutions, a setting of the CPU", only, PolicyCNN, gpu, "cpu", []string{because}},
		{"dense layers, a setting of the CPU", only, PolicyMLP, gpu, "cpu", []string{because}},
	} {
		tr := onDevice(c.table, func(s *Common) { s.Policy = c.policy })
		if got := tr.choose(func() string { return c.gpu }); got != c.want || !slices.Equal(tr.host.notices, c.said) {
			t.Errorf("%s: %s, %q, want %s, %q", c.name, got, tr.host.notices, c.want, c.said)
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
