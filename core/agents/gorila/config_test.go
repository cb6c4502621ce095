package gorila_test

import (
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

func TestPresetsResolve(t *testing.T) { traintest.PresetsResolve(t, "gorila") }

// The settings of Algorithm 1 cannot be changed, and messages name the settings of Gorila.
func TestBadSettingsAreRefused(t *testing.T) {
	cfg := must(train.NewConfig("gorila"))(t)
	for _, name := range []string{"learners", "rule", "sync_period", "adam_time", "clock", "concurrent", "synchronized", "actor", "window", "noisy"} {
		if err := cfg.Set(name, "1"); err == nil || !strings.Contains(err.Error(), "is not known") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, c := range []struct{ edit, want string }{
		{"bundles=0", "bundles: 0, must be 1 to 100"},
		{"bundles=101", "bundles: 101, must be 1 to 100"},
		{"outliers=-1", "outliers: -1, must be 0 to 1e+06"},
	} {
		name, value, _ := strings.Cut(c.edit, "=")
		if err := cfg.Set(name, value); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	for _, c := range []struct{ edit, want string }{
		{"bundles=3", "num_envs: 4, must be a multiple of bundles (3)"},
		{"groups=2", "groups: 2, must be at most num_envs / bundles (1)"},
		{"buffer_size=16", "buffer_size: 16, must be at least 32 with 4 bundles, which share it"},
		{"schedule=recorded", "order: empty, must name a file with schedule recorded"},
		{"device=cuda", "device: cuda, must be auto or cpu for gorila"},
	} {
		tr, err := train.New(gorila(t, c.edit), traintest.MakeWalk(1))
		if err == nil || err.Error() != c.want {
			t.Errorf("%v, want %q", err, c.want)
		}
		if err == nil {
			tr.Close()
		}
	}
}
