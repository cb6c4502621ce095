//go:build gpu && cgo && linux

package gpu

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/paceline-rl/paceline/core/cuda/cudatest"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/nntest"
	"github.com/paceline-rl/paceline/core/rng"
)

// lines returns the software device's log of the calls in do: function names with arguments.
func lines(t *testing.T, do func()) []string {
	t.Helper()
	if os.Getenv(cudatest.Mode) != "software" {
		t.Skip("left out: only the software device lists its calls")
	}
	log := filepath.Join(t.TempDir(), "log")
	t.Setenv("PACELINE_SOFTWARE_LOG", log)
	do()
	os.Unsetenv("PACELINE_SOFTWARE_LOG")
	text, err := os.ReadFile(log)
	nntest.Check(t, err)
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// A layer's input gradient is enqueued before its parameter gradients and has a higher stream
// priority, because the previous layer waits for it.
func TestInputGradientsRunFirst(t *testing.T) {
	d := needGPU(t)
	for _, s := range []nn.Spec{nntest.SmallNature(), nntest.SmallMLP(), nntest.WithNorm(nntest.SmallMLP(), "layer_all")} {
		const rows = 3
		l := nntest.Must(d.Learner(s, rows, nntest.LossOf(s)))(t)
		p, b := nntest.Init(t, s, 1), nntest.RandomBatch(s, nntest.LossOf(s), rng.New(1, "test", 0), rows)
		_, err := d.gpu.address(p) // upload the parameters first
		nntest.Check(t, err)
		calls := lines(t, func() { nntest.Check(t, l.Gradient(p, b, make([]float32, len(p.Host())), &nn.Report{})) })
		calls = slices.DeleteFunc(calls, func(line string) bool {
			return !strings.HasPrefix(line, "cuEventRecord") && !strings.HasPrefix(line, "cuLaunchKernel") && !strings.HasPrefix(line, "cuStreamWaitEvent")
		})
		inputs := 0
		for i, line := range calls {
			if !strings.Contains(line, "_input_gradient") {
				continue
			}
			inputs++
			if calls[i-1] != "cuEventRecord" || calls[i+1] != "cuStreamWaitEvent" || !strings.Contains(calls[i+2], "_weight_gradient") && !strings.Contains(calls[i+2], "_parameter_gradient") {
				t.Errorf("%s: around %s: %v", nntest.Name(s), line, calls[i-1:i+3])
			}
			priority, others := line[strings.LastIndex(line, " "):], calls[i+2][strings.LastIndex(calls[i+2], " "):]
			if !(strings.HasPrefix(priority, " -") && others == " 0") {
				t.Errorf("%s: priorities of %s and of %s: the lower number goes first", nntest.Name(s), line, calls[i+2])
			}
		}
		if inputs < 2 {
			t.Errorf("%s: %d gradients of inputs", nntest.Name(s), inputs)
		}
	}
}

// An eager device launches kernels one by one, waits for each, and gives the same bits as graphs.
func TestEagerLaunchesGiveTheBitsOfGraphs(t *testing.T) {
	needGPU(t)
	s := nntest.SmallNature()
	const rows, n = 2, 3
	cfg := nn.StepperConfig{Net: s, Rows: rows, Loss: nn.TD{Kind: "huber", Reduction: "mean"}, Optimizer: nn.OptimizerConfig{Name: "adam"}, MaxGradNorm: 1}
	run := func() (*nn.Params, map[string]int) {
		d := mustOpen(t)
		st, net := nntest.Must(d.QStepper(cfg, nn.MaxQ{Double: true}))(t).(nn.StackStepper), nntest.Must(d.Network(s, rows))(t)
		p, target := nntest.Init(t, s, 1), nntest.Init(t, s, 2)
		x := randomStacks(s, st, rng.New(4, "test", 0), rows, n, 2, 3)
		nntest.Check(t, st.Resize(x.slots, x.width))
		nntest.Check(t, st.Put(0, x.frames))
		nntest.Check(t, st.Upload(0, n))
		counts := map[string]int{}
		for _, line := range lines(t, func() {
			nntest.Check(t, st.Update(p, target, &x.whole[0], 1e-3, &nn.Report{}))
			nntest.Check(t, st.Start(p, target, 0, []float64{1e-3, 2e-3, 3e-3}, false))
			nntest.Must(st.Finish())(t)
			nntest.Must(net.Forward(p, x.whole[0].Obs, rows))(t)
		}) {
			counts[strings.Fields(line)[0]]++
		}
		return p, counts
	}
	want, _ := run()
	t.Setenv("PACELINE_CUDA_EAGER", "1")
	got, counts := run()
	if counts["cuGraphLaunch"] != 0 || counts["cuLaunchKernel"] < 40 || counts["cuStreamSynchronize"] < counts["cuLaunchKernel"] {
		t.Errorf("calls %v", counts)
	}
	if !slices.Equal(got.Host(), want.Host()) {
		t.Error("the parameters differ from those of graphs")
	}
}

// A limited number of updates is enqueued ahead of the GPU. When updates finish, Upload or Finish
// enqueues more.
func TestFewUpdatesAreEnqueuedAhead(t *testing.T) {
	d, s := needGPU(t), nntest.SmallMLP()
	const rows, n = 2, 5*updatesAtOnce + 3
	run := func(some bool) (*nn.Params, []int) {
		st := nntest.Must(d.QStepper(nn.StepperConfig{Net: s, Rows: rows, Loss: nn.TD{Kind: "huber", Reduction: "mean"}, Optimizer: nn.OptimizerConfig{Name: "adam"}, Window: n}, nn.MaxQ{}))(t).(nn.StackStepper)
		p, target := nntest.Init(t, s, 1), nntest.Init(t, s, 2)
		x := randomStacks(s, st, rng.New(4, "test", 0), rows, n, 1, 3)
		nntest.Check(t, st.Resize(x.slots, x.width))
		nntest.Check(t, st.Put(0, x.frames))
		nntest.Check(t, st.Upload(0, n))
		rates := slices.Repeat([]float64{1e-3}, n)
		launches := func(do func()) int { return cudatest.Calls(t, do)["cuGraphLaunch"] }
		counts := []int{launches(func() { nntest.Check(t, st.Start(p, target, 0, rates, false)) })}
		if some {
			for range 3 * updatesAtOnce { // each query lets the software device do some work
				nntest.Check(t, st.Upload(0, 1))
			}
			counts = append(counts, launches(func() { nntest.Check(t, st.Upload(0, 1)) }))
		}
		reports := 0
		last := launches(func() { reports = len(nntest.Must(st.Finish())(t)) })
		if reports != n || p.Updates != n {
			t.Errorf("%d reports of %d updates, must be %d", reports, p.Updates, n)
		}
		return p, append(counts, last)
	}
	want, counts := run(false)
	if counts[0] != n { // the software device did the updates at once
		t.Errorf("%d updates were enqueued, must be %d", counts[0], n)
	}
	t.Setenv("PACELINE_SOFTWARE_LATE", "1")
	for _, some := range []bool{false, true} {
		got, counts := run(some)
		if counts[0] != 2*updatesAtOnce || !some && counts[1] != n-2*updatesAtOnce || some && counts[2] >= n-2*updatesAtOnce {
			t.Errorf("uploads between %v: %v updates were enqueued, must be %d and later the rest", some, counts, 2*updatesAtOnce)
		}
		if !slices.Equal(got.Host(), want.Host()) {
			t.Error("the parameters differ")
		}
	}
}

// After Uploaded the caller may change the minibatches.
func TestMinibatchesMayChangeAfterUploaded(t *testing.T) {
	d, s := needGPU(t), nntest.SmallMLP()
	const rows, n = 3, 2
	if os.Getenv(cudatest.Mode) == "software" {
		t.Setenv("PACELINE_SOFTWARE_LATE", "1")
	}
	run := func(spoil bool) *nn.Params {
		st := nntest.Must(d.QStepper(nn.StepperConfig{Net: s, Rows: rows, Loss: nn.TD{Kind: "huber", Reduction: "mean"}, Optimizer: nn.OptimizerConfig{Name: "adam"}}, nn.MaxQ{}))(t).(nn.StackStepper)
		p, target := nntest.Init(t, s, 1), nntest.Init(t, s, 2)
		x := randomStacks(s, st, rng.New(4, "test", 0), rows, n, 1, 3)
		nntest.Check(t, st.Resize(x.slots, x.width))
		nntest.Check(t, st.Put(0, x.frames))
		nntest.Check(t, st.Upload(0, n))
		nntest.Check(t, st.Uploaded())
		if spoil {
			for k := range n {
				clear(st.Minibatches()[k].Rewards)
			}
		}
		nntest.Check(t, st.Start(p, target, 0, []float64{1e-2, 1e-2}, false))
		nntest.Must(st.Finish())(t)
		return p
	}
	if !slices.Equal(run(true).Host(), run(false).Host()) {
		t.Error("the GPU has read minibatches after Uploaded")
	}
}

// Put of registered memory does not wait for the copy.
func TestRegisteredFramesAreCopiedAsynchronously(t *testing.T) {
	d, s := needGPU(t), nntest.SmallMLP()
	st := nntest.Must(d.QStepper(nn.StepperConfig{Net: s, Rows: 2, Loss: nn.TD{Kind: "huber", Reduction: "mean"}, Optimizer: nn.OptimizerConfig{Name: "adam"}}, nn.MaxQ{}))(t).(nn.StackStepper)
	memory := pages(t)
	width := s.Obs.Bytes()
	nntest.Check(t, st.Resize(4, width))
	put := func() int {
		return cudatest.Calls(t, func() { nntest.Check(t, st.Put(1, memory[:2*width])) })["cuStreamSynchronize"]
	}
	before := put()
	release := nntest.Must(st.Register(memory))(t)
	if during := put(); before != 1 || during != 0 {
		t.Errorf("a Put waits %d times, of registered memory %d times, must be 1 and 0", before, during)
	}
	release()
	release() // a second release is allowed
	if after := put(); after != 1 {
		t.Errorf("a Put of released memory waits %d times, must be 1", after)
	}
}

// pages returns one page of mapped memory.
func pages(t *testing.T) []byte {
	memory, err := syscall.Mmap(-1, 0, os.Getpagesize(), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	nntest.Check(t, err)
	t.Cleanup(func() { syscall.Munmap(memory) })
	return memory
}
