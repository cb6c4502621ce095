//go:build gpu && cgo && linux

package a2c

import (
	"maps"
	"testing"

	"github.com/paceline-rl/paceline/core/cuda/cudatest"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

func init() { cudatest.Start() }

// The suite passes on a GPU, also with action masks and with V-trace.
func TestSuiteOnGPU(t *testing.T) {
	cudatest.Need(t)
	masked := subject(nil)
	masked.Masked = true
	traintest.OnGPU(t, masked)
	t.Run("V-trace", func(t *testing.T) {
		traintest.OnGPU(t, subject(map[string]string{"vtrace": "true", "n_steps": "8", "vtrace_groups": "2", "vtrace_steps": "2"}))
	})
}

// A V-trace update has two launches: log pi and V of the group's rows, and then the step. Each
// forward pass of the observations after these rows is a further launch. An update uploads the
// rounds since the previous update, and no observation twice.
func TestAVTraceUpdateOnGPUIsFewLaunches(t *testing.T) {
	cudatest.Need(t)
	const envs, nSteps, steps = 4, 8, 2
	c := must(train.NewConfig("a2c"))(t)
	for name, value := range subject(map[string]string{"device": "cuda", "num_envs": "4", "vtrace": "true", "n_steps": "8", "vtrace_groups": "2", "vtrace_steps": "2"}).Settings {
		check(t, c.Set(name, value))
	}
	tr := must(train.New(c, traintest.MakeWalk(1)))(t)
	defer func() { check(t, tr.Close()) }()
	a := tr.Method().(*A2C)
	counted := &traintest.ForwardCounter{Network: a.Network}
	a.Network = counted
	check(t, tr.Begin(10_000, 0))
	check(t, tr.Run(envs*(nSteps-steps), 0))
	wraps := 0
	for update := range 12 {
		check(t, tr.Run(envs*steps, 0))
		first, rows := a.Rollout.Newest(steps)
		uploads := 1
		if first+rows > envs*(nSteps+1) { // the newest rounds wrap to the beginning of the ring
			uploads = 2
			wraps++
		}
		before := tr.Stats().Updates
		counted.N = 0
		got := cudatest.Calls(t, func() { check(t, tr.Settle(0)) })
		if n := tr.Stats().Updates - before; n != 1 {
			t.Fatalf("update %d: %d updates", update, n)
		}
		launches := 2 + counted.N
		want := map[string]int{"cuGraphLaunch": launches, "cuMemcpyHtoDAsync_v2": uploads, "cuStreamSynchronize": launches + uploads}
		if update > 2 && !maps.Equal(got, want) { // the first updates make graphs
			t.Errorf("update %d: %v, want %v", update, got, want)
		}
	}
	if wraps == 0 {
		t.Error("the newest rounds have never gone on at the ring's beginning")
	}
}

func TestLostGPU(t *testing.T) { traintest.LostGPU(t, subject(nil), "TestLostGPU") }
