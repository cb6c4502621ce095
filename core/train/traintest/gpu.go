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

	"github.com/paceline-rl/paceline/core/cuda/cudatest"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/train"
)

// OnGPU is the part of the suite that a device may break, on "cuda": the same bits in every run,
// however it is cut into pieces, and the CPU's numbers to within rounding. The caller has
// started on a device (cudatest.Start).
func OnGPU(t *testing.T, s Subject) {
	cpu := s
	cpu.Settings, s.Settings = maps.Clone(s.Settings), maps.Clone(s.Settings)
	cpu.Settings["device"] = "cpu"
	s.Settings["device"] = "cuda"
	t.Run("threads do not matter", func(t *testing.T) { threadsDoNotMatter(t, s) })
	t.Run("resume goes on with the same bits", func(t *testing.T) { resume(t, s) })
	t.Run("stop and go on", func(t *testing.T) { stopAndGoOn(t, s) })
	t.Run("pushed equals built in", func(t *testing.T) { pushedEqualsBuiltIn(t, s) })
	t.Run("close to the CPU", func(t *testing.T) { closeToCPU(t, s, cpu) })
}

// closeToCPU compares the parameters after some updates. Rounding may let an action be another
// one sooner or later, behind which nothing can be compared.
func closeToCPU(t *testing.T, gpu, cpu Subject) {
	const steps = 100
	var all [2][]float32
	for i, s := range []Subject{gpu, cpu} {
		tr := s.start(t, s.config(t), nil)
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

// LostGPU is the part of the suite about a GPU that is lost in the middle: training ends with a
// sentence, what was copied from it before can be read and saved, and learning goes on from
// there. The software device is lost for a whole process, so that each way to lose it has one, in
// which the test called name runs again.
func LostGPU(t *testing.T, s Subject, name string) {
	if os.Getenv(cudatest.Mode) != "software" {
		t.Skip("left out: only the software device can be lost")
	}
	if function := os.Getenv("PACELINE_TEST_LOSE"); function != "" {
		loseGPU(t, s, function)
		return
	}
	for _, function := range []string{"cuGraphLaunch", "cuStreamSynchronize", "cuMemcpyDtoHAsync_v2"} {
		c := cudatest.Command(os.Args[0], "-test.run=^"+name+"$", "-test.v")
		c.Env = append(os.Environ(), "PACELINE_TEST_LOSE="+function)
		if out, err := c.CombinedOutput(); err != nil || strings.Contains(string(out), "SKIP") {
			t.Errorf("%s: %v\n%s", function, err, out)
		}
	}
}

func loseGPU(t *testing.T, s Subject, function string) {
	tr := s.start(t, s.config(t, "device", "cuda"), nil)
	check(t, tr.Begin(4000, train.ResetTimesteps))
	check(t, tr.Run(300, 0))
	check(t, tr.Settle(0))
	path := filepath.Join(t.TempDir(), "run.zip")
	check(t, os.Setenv("PACELINE_SOFTWARE_FAIL", function+":0:700")) // the C library's, too
	if function == "cuMemcpyDtoHAsync_v2" {
		check(t, tr.Save(path, true)) // it is found to be lost there
	}
	err := tr.Run(200, 0)
	if !errors.Is(err, nn.ErrLost) || !strings.Contains(err.Error(), "is lost, and what lay in its memory") {
		t.Fatalf("error %v", err)
	}
	check(t, tr.Save(path, true))
	saved := make([]float32, s.size(t, tr))
	updates, err := tr.GetParameters(s.Set, saved)
	check(t, err)
	at := tr.Stats().Steps
	check(t, tr.Close())
	check(t, os.Unsetenv("PACELINE_SOFTWARE_FAIL"))

	// The counts are those of the parameters: a run that lost nothing has the same at that step.
	same := s.start(t, s.config(t, "device", "cpu"), nil)
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
	on := s.start(t, c, nil)
	check(t, on.Load(path))
	said := ""
	for {
		text, err := on.Notice()
		check(t, err)
		if said += text; text == "" {
			break
		}
	}
	if !strings.Contains(said, "is lost") {
		t.Errorf("the file does not say so: %q", said)
	}
	have := make([]float32, len(saved))
	n, err := on.GetParameters(s.Set, have)
	check(t, err)
	if n != updates || n == 0 || !slices.Equal(have, saved) || on.Stats().Steps != at {
		t.Errorf("%d updates at step %d, were %d at step %d", n, on.Stats().Steps, updates, at)
	}
	check(t, on.Begin(600, train.ResetEnvs))
	check(t, on.Run(0, 0))
	if n, err := on.GetParameters(s.Set, have); err != nil || n <= updates {
		t.Errorf("%d updates after going on, were %d: %v", n, updates, err)
	}
}

// Passes counts the forward passes of a Network.
type Passes struct {
	nn.Network
	N int
}

func (p *Passes) Forward(theta *nn.Params, obs []byte, rows int) (nn.Outputs, error) {
	p.N++
	return p.Network.Forward(theta, obs, rows)
}
