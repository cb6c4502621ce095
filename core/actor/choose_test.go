package actor_test

import (
	"testing"

	"github.com/paceline-rl/paceline/core/actor"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

// No outputs are computed for a random action of a single environment.
func TestOneEnvironmentComputesOutputsOnlyForGreedyActions(t *testing.T) {
	x := newTrial(t, 1, 1, false)
	network := &traintest.ForwardCounter{Network: x.config.Joint}
	x.config.Joint = network
	g := must(actor.New(x.config))(t)
	defer g.Close()
	check(t, g.Reset())
	const steps = 100
	for k := range int64(steps) {
		must(g.Round(k, half(), false))(t)
	}
	want, stream := 0, rng.New(seed, "explore", 0)
	for range steps {
		if stream.Float64() < 0.5 {
			stream.Intn(3)
		} else {
			want++
		}
	}
	if network.N != want {
		t.Errorf("%d passes for %d greedy actions of %d", network.N, want, steps)
	}
}
