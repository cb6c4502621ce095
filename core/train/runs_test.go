package train_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/vec"
)

// Run begins one run after the other if Begin was never called. After Begin it begins none and goes
// on past the end.
func TestRunBeginsRunsOnlyWithoutABegin(t *testing.T) {
	tr, m := start(t)
	begun := func(want ...string) {
		t.Helper()
		if got := slices.DeleteFunc(m.calls, func(call string) bool { return !strings.HasPrefix(call, "begin ") }); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		m.calls = nil
	}
	check(t, tr.Run(8, 0))
	check(t, tr.Run(8, 0))
	begun("begin 8 3", "begin 8 0")
	check(t, tr.Run(0, 0)) // the run is over
	begun()
	m.round = func() error { tr.Stop(); return nil }
	check(t, tr.Run(12, 0))
	m.round = nil
	check(t, tr.Run(8, 0)) // the rest of the run
	begun("begin 12 0")
	check(t, tr.Run(math.MaxInt64, 1)) // limit: one nanosecond
	begun(fmt.Sprintf("begin %d 0", int64(1)<<50))
	check(t, tr.Begin(4, 0))
	check(t, tr.Run(4, 0))
	check(t, tr.Run(4, 0))
	if s := tr.Stats(); s.Steps != 36 || s.Total != 32 {
		t.Errorf("%+v", s)
	}
	begun("begin 4 0")
}

// A run cannot end at a step that no checkpoint can hold.
func TestRunsBeyondTheLargestStepAreRefused(t *testing.T) {
	tr, m := start(t)
	check(t, tr.Begin(1<<50, 0))
	m.monitor.Steps.Store(1<<51 - 8)
	m.monitor.Updates.Store((1<<51 - 8) / 4)
	says(t, tr.Begin(9, 0), "total_timesteps: 9, must be at most 8 after 2251799813685240 steps")
	check(t, tr.Begin(8, 0))
	check(t, tr.Begin(9, train.ResetTimesteps))
}

// Act and Observe are refused if the Trainer steps the environments.
func TestActIsForPushedEnvironments(t *testing.T) {
	tr, _ := start(t)
	rows := vec.NewRows(tr.Spec().Obs, 4)
	says(t, tr.Act(rows, vec.Actions{Discrete: make([]int32, 4)}, 0), "act: the environments of this trainer are stepped by itself; use run")
	says(t, tr.Observe(rows, 0), "observe: the environments of this trainer are stepped by itself; use run")
}
