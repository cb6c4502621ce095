package traintest

import (
	"maps"
	"math"
	"strings"
	"testing"
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
