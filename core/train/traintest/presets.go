package traintest

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
)

// With returns a copy of values in which others replaces values of the same name.
func With(values, others map[string]string) map[string]string {
	values = maps.Clone(values)
	maps.Copy(values, others)
	return values
}

// PresetsResolve checks that the settings of every preset of a method go together, without a
// notice. A preset for any environment is tested with CartPole-v1 and an Atari game.
func PresetsResolve(t *testing.T, method string) {
	for _, p := range Must(train.NewConfig(method))(t).Table().Presets() {
		for _, id := range presetEnvs(p) {
			cfg := Must(train.NewConfig(method))(t)
			check(t, cfg.Preset(p.Name, id))
			if notices, err := cfg.Struct().(train.Settings).Resolve(); err != nil || len(notices) > 0 {
				t.Errorf("%s for %s: %q, %v", p.Name, id, notices, err)
			}
			if got := Must(cfg.Get("env"))(t); got != id {
				t.Errorf("%s: env %q, want %q", p.Name, got, id)
			}
		}
	}
}

// ActorCriticNotices are cases of Notices for every method with onpolicy.ActorCritic and V-trace.
var ActorCriticNotices = [][2][]string{
	{{"use_rms_prop", "false", "rms_prop_alpha", "0.9", "rms_prop_eps", "0.1", "rms_prop_eps_inside", "true", "rms_prop_first", "1"}, {"rms_prop_alpha: 0.9 is not used where use_rms_prop is false", "rms_prop_eps: 0.1 is not used where use_rms_prop is false", "rms_prop_eps_inside: true is not used where use_rms_prop is false", "rms_prop_first: 1 is not used where use_rms_prop is false"}},
	{{"vtrace_rho", "0.1", "vtrace_c", "0.2"}, {"vtrace_rho: 0.1 is not used where vtrace is false", "vtrace_c: 0.2 is not used where vtrace is false"}},
}

// Notices checks the notices of Resolve. Each of list is settings, as names and values in turn, and
// the notices that they must have.
func Notices(t *testing.T, method string, list [][2][]string) {
	for _, c := range list {
		values, want := c[0], c[1]
		cfg := Must(train.NewConfig(method))(t)
		for i := 0; i < len(values); i += 2 {
			check(t, cfg.Set(values[i], values[i+1]))
		}
		if got := Must(cfg.Struct().(train.Settings).Resolve())(t); !slices.Equal(got, want) {
			t.Errorf("%s %q: %q, must be %q", method, values, got, want)
		}
	}
}

func presetEnvs(p settings.Preset) []string {
	if p.Envs != nil {
		return p.Envs
	}
	return []string{"CartPole-v1", "atari/breakout"}
}

// Presets compares every setting of a method's presets with want, in which the method's test states
// the source of each value. want has the values that are not defaults, by "preset environment". A
// preset for any environment is tested with CartPole-v1 and an Atari game.
func Presets(t *testing.T, method string, want map[string]map[string]string) {
	defaults, err := train.NewConfig(method)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, p := range defaults.Table().Presets() {
		for _, id := range presetEnvs(p) {
			key := fmt.Sprint(p.Name, " ", id)
			values, ok := want[key]
			if !ok {
				t.Errorf("%s: no values to compare with", key)
				continue
			}
			seen++
			cfg := defaults.Clone()
			if err := cfg.Preset(p.Name, id); err != nil {
				t.Fatal(err)
			}
			for name, got := range cfg.Map() {
				expected, named := values[name]
				if !named {
					if expected, err = defaults.Get(name); err != nil {
						t.Fatal(err)
					}
				}
				if name != "env" && got != expected {
					t.Errorf("%s: %s is %q, want %q", key, name, got, expected)
				}
			}
			for name := range values {
				if _, err := cfg.Get(name); err != nil {
					t.Errorf("%s: %v", key, err)
				}
			}
		}
	}
	if seen != len(want) {
		t.Errorf("%d of the %d presets in want exist", seen, len(want))
	}
}
