//go:build gpu && cgo && linux

package ppo

import (
	"maps"
	"testing"

	"github.com/paceline-rl/paceline/core/cuda/cudatest"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

func init() { cudatest.Start() }

// The suite passes on a GPU.
func TestSuiteOnGPU(t *testing.T) {
	cudatest.Need(t)
	traintest.OnGPU(t, subject(nil))
}

// The update of a rollout uploads its observations once. Each minibatch and each forward pass for
// the returns is one launch. There are no other copies and launches.
func TestAMinibatchOnAGPUIsOneLaunch(t *testing.T) {
	cudatest.Need(t)
	const envs, rounds, size, epochs = 4, 7, 6, 3
	const minibatches = epochs * ((envs*rounds + size - 1) / size)
	c := configOf(t, *Settings.Defaults().Struct().(*Config))
	for name, value := range subject(map[string]string{"device": "cuda", "num_envs": "4"}).Settings {
		check(t, c.Set(name, value))
	}
	tr := must(train.New(c, traintest.MakeWalk(1)))(t)
	defer func() { check(t, tr.Close()) }()
	p := tr.Method().(*PPO)
	counted := &traintest.ForwardCounter{Network: p.Network}
	p.Network = counted
	check(t, tr.Begin(10_000, 0))
	for rollout := range 3 {
		check(t, tr.Run(envs*rounds, 0))
		before := tr.Stats().Updates
		counted.N = 0
		got := cudatest.Calls(t, func() { check(t, tr.Settle(0)) })
		if n := tr.Stats().Updates - before; n != minibatches {
			t.Fatalf("rollout %d: %d updates, want %d", rollout, n, minibatches)
		}
		launches := minibatches + counted.N
		want := map[string]int{"cuGraphLaunch": launches, "cuMemcpyHtoDAsync_v2": 1, "cuStreamSynchronize": launches + 1}
		if rollout > 0 && !maps.Equal(got, want) { // the first update makes graphs
			t.Errorf("rollout %d: %v, want %v", rollout, got, want)
		}
	}
}

func TestLostGPU(t *testing.T) { traintest.LostGPU(t, subject(nil), "TestLostGPU") }
