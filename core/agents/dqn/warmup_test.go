package dqn

import (
	"path/filepath"
	"testing"

	"github.com/paceline-rl/paceline/core/train"
)

// The rings of a run that loads a file have other sizes. In a warm-up longer than the replay
// memory, what can be read does not depend on them.
func TestALongWarmUpContinuesTheSame(t *testing.T) {
	edit := func(c *Config) {
		c.TargetUpdateInterval, c.Window, c.BufferSize, c.LearningStarts = 1000, 1000, 1000, 3000
	}
	whole, d := newDQN(t, cartpole(edit)), newDQN(t, cartpole(edit))
	check(t, whole.Begin(4000, 0))
	check(t, d.Begin(4000, 0))
	check(t, d.Run(2000, 0))
	path := filepath.Join(t.TempDir(), "a.paceline")
	check(t, d.Save(path, true))
	next := newDQN(t, must(loadConfig(path))(t))
	check(t, next.Load(path))
	check(t, whole.Run(2000, 0))
	for range 50 {
		check(t, whole.Run(20, 0))
		check(t, next.Run(20, 0))
		if got, want := hashesOf(t, next), hashesOf(t, whole); got != want {
			t.Errorf("at %d: %+v, want %+v", whole.Stats().Steps, got, want)
		}
	}
}

// A full memory keeps its size in the warm-up of a further run.
func TestASecondWarmUpOverwrites(t *testing.T) {
	d := newDQN(t, cartpole(func(c *Config) { c.BufferSize, c.LearningStarts = 1000, 700 }))
	check(t, d.Begin(1600, 0))
	check(t, d.Run(0, 0))
	bytes := d.m.Memory.Bytes()
	check(t, d.Begin(1600, train.ResetTimesteps|train.ResetEnvs))
	check(t, d.Run(600, 0))
	if now := d.m.Memory.Bytes(); now != bytes || d.m.Memory.Len() != 1000 {
		t.Errorf("%d transitions in %d bytes, in the first run %d bytes", d.m.Memory.Len(), now, bytes)
	}
}
