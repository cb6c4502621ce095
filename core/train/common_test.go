package train

import (
	"errors"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/settings"
)

// cnnConfig has the setting cnn.
type cnnConfig struct {
	Common
	CNN string
}

func (c *cnnConfig) Resolve() ([]string, error) { return nil, nil }

func TestMisfitNamesAnotherPolicy(t *testing.T) {
	err := errors.New("reason")
	for policy, want := range map[string]string{
		PolicyCNN: "policy: CnnPolicy does not fit the environment (MlpPolicy takes any): reason",
		PolicyMLP: "policy: MlpPolicy does not fit the environment: reason",
	} {
		if got := (&Common{Policy: policy}).Misfit(err); got.Error() != want || !errors.Is(got, err) {
			t.Errorf("%v, want %q", got, want)
		}
	}
}

// Policy auto takes another cnn only where images are too small for the default one.
func TestAutoFitsTheObservation(t *testing.T) {
	def := &Definition{Settings: settings.New[cnnConfig]("cnn", append(CommonSettings(func(c *cnnConfig) *Common { return &c.Common }),
		settings.Text("cnn", "nature", "layers: nature, small or minatar", []string{"nature", "small", "minatar"}, func(c *cnnConfig) *string { return &c.CNN })), nil)}
	for _, c := range []struct {
		policy, cnn    string
		dtype          env.DType
		shape          []int
		fitted, layers string
	}{
		{policyAuto, "nature", env.Uint8, []int{4, 36, 36}, PolicyCNN, "nature"},
		{policyAuto, "nature", env.Uint8, []int{4, 36, 35}, PolicyCNN, "minatar"},
		{policyAuto, "nature", env.Uint8, []int{4, 5, 5}, PolicyCNN, "minatar"},
		{policyAuto, "nature", env.Uint8, []int{4, 5, 4}, PolicyCNN, "minatar"}, // refused with its least size
		{policyAuto, "nature", env.Float32, []int{4, 10, 10}, PolicyCNN, "nature"},
		{policyAuto, "small", env.Uint8, []int{4, 10, 10}, PolicyCNN, "small"},
		{PolicyCNN, "nature", env.Uint8, []int{4, 10, 10}, PolicyCNN, "nature"},
		{policyAuto, "nature", env.Uint8, []int{10, 10}, PolicyMLP, "nature"},
	} {
		cfg := &Config{def.Settings.Defaults(), def}
		to := cfg.Struct().(*cnnConfig)
		to.Policy, to.CNN = c.policy, c.cnn
		if err := cfg.fitPolicy(env.ObsSpec{DType: c.dtype, Shape: c.shape}); err != nil || to.Policy != c.fitted || to.CNN != c.layers {
			t.Errorf("%v: policy %s, cnn %s, %v", c, to.Policy, to.CNN, err)
		}
	}
}
