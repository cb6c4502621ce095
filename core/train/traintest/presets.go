package traintest

import (
	"fmt"
	"maps"
	"testing"

	"github.com/paceline-rl/paceline/core/train"
)

// With is a copy of a preset's values with others on top.
func With(values, others map[string]string) map[string]string {
	values = maps.Clone(values)
	maps.Copy(values, others)
	return values
}

// Presets holds every setting of a method's presets against values written down beside their
// sources: want has, by "preset environment", those that are not the defaults. A preset for any
// environment is looked at for CartPole-v1 and for an Atari game.
func Presets(t *testing.T, method string, want map[string]map[string]string) {
	defaults, err := train.NewConfig(method)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, p := range defaults.Table().Presets() {
		envs := p.Envs
		if envs == nil {
			envs = []string{"CartPole-v1", "atari/breakout"}
		}
		for _, id := range envs {
			key := fmt.Sprint(p.Name, " ", id)
			values, ok := want[key]
			if !ok {
				t.Errorf("%s: its values are not written down", key)
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
		t.Errorf("%d of the %d presets written down are there", seen, len(want))
	}
}
