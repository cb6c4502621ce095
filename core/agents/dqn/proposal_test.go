package dqn

import (
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/train"
)

// Proposals are about the settings in effect, and need a second of training.
func TestProposal(t *testing.T) {
	tr := newDQN(t, cartpole(func(c *Config) { c.NumEnvs, c.Window, c.TargetUpdateInterval = 4, 64, 256 }))
	want := train.Knobs{Synchronized: true, Alternates: true, Replay: true, Concurrent: true, Window: 64, Longest: 256}
	if got := tr.Trainer.Method().(train.Tunable).Knobs(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := tr.Proposal(); !strings.HasPrefix(got, "not measured yet: ") {
		t.Error(got)
	}
}
