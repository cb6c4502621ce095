package traintest

import (
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paceline-rl/paceline/core/cuda/cudatest"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/train"
)

// OnGPU runs the part of the suite that depends on the device, on "cuda". Every run has the same
// bits, also a run in pieces. The numbers are those of the CPU up to rounding. The caller must have
// called cudatest.Start.
func OnGPU(t *testing.T, s Subject) {
	cpu := s
	cpu.Settings, s.Settings = maps.Clone(s.Settings), maps.Clone(s.Settings)
	cpu.Settings["device"] = "cpu"
	s.Settings["device"] = "cuda"
	t.Run("threads do not change the results", func(t *testing.T) { threadsDoNotMatter(t, s) })
	t.Run("a resumed run continues with the same bits", func(t *testing.T) { resume(t, s) })
	t.Run("stop and continue", func(t *testing.T) { stopAndContinue(t, s) })
	t.Run("pushed equals built in", func(t *testing.T) { pushedEqualsBuiltIn(t, s) })
	t.Run("close to the CPU", func(t *testing.T) { closeToCPU(t, s, cpu) })
}

// closeToCPU compares the parameters after the first updates. Later, rounding may change an action,
// and the runs differ from then on.
func closeToCPU(t *testing.T, gpu, cpu Subject) {
	const steps = 100
	var all [2][]float32
	for i, s := range []Subject{gpu, cpu} {
		tr := s.newTrainer(t, s.config(t), nil)
		if on := tr.Config().Common().Device; (i == 0) != strings.HasPrefix(on, "cuda:") {
			t.Fatalf("device: %s", on)
		}
		check(t, tr.Begin(total, 0))
		before := make([]float32, s.size(t, tr))
		_, err := tr.GetParameters(s.Set, before)
		check(t, err)
		check(t, tr.Run(steps, 0))
		check(t, tr.Settle(0))
		all[i] = make([]float32, len(before))
		updates, err := tr.GetParameters(s.Set, all[i])
		check(t, err)
		moved := 0.0
		for k, v := range all[i] {
			moved = max(moved, math.Abs(float64(v)-float64(before[k])))
		}
		if updates < 2 || !(moved > 1e-2) {
			t.Errorf("%d updates have moved the parameters by %g: the test shows little", updates, moved)
		}
	}
	for k, v := range all[0] {
		if d := math.Abs(float64(v) - float64(all[1][k])); !(d < 1e-4) {
			t.Fatalf("parameter %d: %g, on the CPU %g", k, v, all[1][k])
		}
	}
}

// LostGPU tests the loss of a GPU during a run. Training ends with an error. The copies of the
// device's memory that were made before can be read and saved, and another run continues from the
// file. The software device is lost for a whole process. Therefore each case runs the test called
// name in a process of its own.
func LostGPU(t *testing.T, s Subject, name string) {
	if os.Getenv(cudatest.Mode) != "software" {
		t.Skip("skipped: only the software device can be lost")
	}
	if function := os.Getenv("PACELINE_TEST_LOSE"); function != "" {
		loseGPU(t, s, function)
		return
	}
	// DQN's windows and the copies call the last two.
	for _, function := range []string{"cuGraphLaunch", "cuStreamSynchronize", "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoDAsync_v2", "cuEventSynchronize"} {
		c := cudatest.Command(os.Args[0], "-test.run=^"+name+"$", "-test.v")
		c.Env = append(os.Environ(), "PACELINE_TEST_LOSE="+function)
		if out, err := c.CombinedOutput(); err != nil || strings.Contains(string(out), "SKIP") {
			t.Errorf("%s: %v\n%s", function, err, out)
		}
	}
}

func loseGPU(t *testing.T, s Subject, function string) {
	tr := s.newTrainer(t, s.config(t, "device", "cuda"), nil)
	if m, ok := tr.Method().(interface{ BackUpEvery(time.Duration) }); ok {
		m.BackUpEvery(0)
	}
	check(t, tr.Begin(4000, train.ResetTimesteps))
	check(t, tr.Run(300, 0))
	check(t, tr.Settle(0))
	path := filepath.Join(t.TempDir(), "run.zip")
	check(t, os.Setenv("PACELINE_SOFTWARE_FAIL", function+":0:700")) // also sets the C library's environment
	if function == "cuMemcpyDtoHAsync_v2" {
		check(t, tr.Save(path, true)) // Save copies from the device and finds that it is lost
	}
	err := tr.Run(200, 0)
	if !errors.Is(err, fault.ErrDeviceLost) || !strings.Contains(err.Error(), "is lost with the contents of its memory") {
		t.Fatalf("error %v", err)
	}
	check(t, tr.Save(path, true))
	saved := make([]float32, s.size(t, tr))
	updates, err := tr.GetParameters(s.Set, saved)
	check(t, err)
	at := tr.Stats().Steps
	check(t, tr.Close())
	check(t, os.Unsetenv("PACELINE_SOFTWARE_FAIL"))

	// The counts belong to the saved parameters: a run on the CPU has the same at that step.
	same := s.newTrainer(t, s.config(t, "device", "cpu"), nil)
	check(t, same.Begin(4000, train.ResetTimesteps))
	check(t, same.Run(at, 0))
	want := make([]float32, len(saved))
	if n, err := same.GetParameters(s.Set, want); err != nil || n != updates {
		t.Errorf("%d updates at step %d, must be %d: %v", updates, at, n, err)
	}
	for k, v := range want {
		if !(math.Abs(float64(v-saved[k])) < 1e-3) {
			t.Fatalf("parameter %d is %v, must be %v", k, saved[k], v)
		}
	}

	c, err := train.LoadConfig(path)
	check(t, err)
	check(t, c.Set("device", "cpu"))
	loaded := s.newTrainer(t, c, nil)
	check(t, loaded.Load(path))
	notices := ""
	for {
		text, err := loaded.Notice()
		check(t, err)
		if notices += text; text == "" {
			break
		}
	}
	if !strings.Contains(notices, "is lost") {
		t.Errorf("no notice about the lost device after Load: %q", notices)
	}
	have := make([]float32, len(saved))
	n, err := loaded.GetParameters(s.Set, have)
	check(t, err)
	if n != updates || n == 0 || !slices.Equal(have, saved) || loaded.Stats().Steps != at {
		t.Errorf("%d updates at step %d, must be %d at step %d", n, loaded.Stats().Steps, updates, at)
	}
	check(t, loaded.Begin(600, train.ResetEnvs))
	check(t, loaded.Run(0, 0))
	if n, err := loaded.GetParameters(s.Set, have); err != nil || n <= updates {
		t.Errorf("%d updates after another run, %d before: %v", n, updates, err)
	}
}

// ForwardCounter counts the forward passes of a Network.
type ForwardCounter struct {
	nn.Network
	N int
}

func (p *ForwardCounter) Forward(theta *nn.Params, obs []byte, rows int) (nn.Outputs, error) {
	p.N++
	return p.Network.Forward(theta, obs, rows)
}
