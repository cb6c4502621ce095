package dqn

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
	"github.com/paceline-rl/paceline/core/vec"
)

// In 100,000 steps no mode chooses a forbidden action, which the walks would refuse, also during
// the warm-up.
func TestNoForbiddenActionIsChosen(t *testing.T) {
	steps := int64(100_000)
	if testing.Short() {
		steps = 5_000
	}
	for _, concurrent := range []bool{false, true} {
		for _, synchronized := range []bool{false, true} {
			c := cartpole(func(c *Config) {
				c.Env, c.NetArch, c.Concurrent, c.Synchronized = "", []int{8}, settings.SwitchOf(concurrent), synchronized
				c.LearningStarts, c.TrainFreq, c.BatchSize, c.ExplorationFinal = int(steps/5), 64, 8, 0.2
				c.Window, c.TargetUpdateInterval, c.DoubleQ = 500, 1000, synchronized
			})
			d := must(newTrial(c, makeWalks(1, true)))(t)
			check(t, d.Begin(steps, 0))
			if err := d.Run(0, 0); err != nil || d.Stats().Steps < steps {
				t.Errorf("concurrent %v, synchronized %v: %v at step %d", concurrent, synchronized, err, d.Stats().Steps)
			}
			check(t, d.Close())
		}
	}
}

// A mask that allows no action is refused with the environment's number. Nothing is recorded then,
// and the same call can be made again.
func TestMasksThatAllowNothingAreRefused(t *testing.T) {
	for _, mode := range []vec.Autoreset{vec.SameStep, vec.NextStep} {
		c := cartpole(func(c *Config) { c.ActionMasks = true })
		twin, h := newHost(t, c, mode, makeWalks(2, true)), newHost(t, c, mode, makeWalks(2, true))
		twin.Begin(t, 1500)
		h.Begin(t, 1500)
		refused := func(what string, masks []byte, i int, call func() error) {
			t.Helper()
			row := masks[3*i : 3*i+3]
			was := bytes.Clone(row)
			clear(row)
			err := call()
			copy(row, was)
			var e *env.Error
			if !errors.As(err, &e) || e.Index != i || !strings.Contains(err.Error(), "action mask: allows none of 3 actions, must allow one") || !strings.Contains(err.Error(), fmt.Sprintf("step %d: ", h.d.Stats().Steps)) {
				t.Fatalf("%v, %s, row %d: %v", mode, what, i, err)
			}
		}
		truncated, terminated := 0, 0
		for k := range 300 {
			resetting := make([]bool, 4)
			for i := range resetting {
				resetting[i] = mode == vec.NextStep && h.Rows.Ends[i] != 0
			}
			if i := k % 4; !resetting[i] {
				refused("act", h.Rows.Masks, i, h.Act)
			}
			check(t, h.Act())
			check(t, h.Vec.Step(h.Actions, h.Rows))
			for i, end := range h.Rows.Ends {
				over := end&env.Terminated != 0 && !resetting[i]
				switch {
				case over && mode == vec.NextStep:
					clear(h.Rows.Masks[3*i : 3*i+3]) // no action is chosen there
					terminated++
				case over:
					clear(h.Rows.FinalMasks[3*i : 3*i+3])
					terminated++
				case end != 0 && mode == vec.SameStep:
					refused("final", h.Rows.FinalMasks, i, h.Observe)
					truncated++
				default:
					refused("observe", h.Rows.Masks, i, h.Observe)
				}
			}
			check(t, h.Observe())
			twin.Round(t)
		}
		if terminated == 0 || mode == vec.SameStep && truncated == 0 {
			t.Errorf("%v: %d terminations, %d truncations: the test proves nothing", mode, terminated, truncated)
		}
		if a, b := hashesOf(t, h.d), hashesOf(t, twin.d); a != b || !slices.Equal(h.Actions.Discrete, twin.Actions.Discrete) {
			t.Errorf("%v: refused calls changed the run", mode)
		}
	}
}

// Rows without masks are refused where masks are used, and rows with masks where they are not.
func TestRowsMustHaveMasksWhereTheyAreUsed(t *testing.T) {
	h := newHost(t, cartpole(func(c *Config) { c.ActionMasks = true }), vec.SameStep, makeWalks(2, true))
	h.Begin(t, 100)
	masks, final := h.Rows.Masks, h.Rows.FinalMasks
	h.Rows.Masks = nil
	if err := h.Act(); err == nil || err.Error() != "rows.Masks: 0, must be 12 (num_envs 4 times 3 actions)" {
		t.Errorf("%v", err)
	}
	h.Rows.Masks, h.Rows.FinalMasks = masks, nil
	check(t, h.Act())
	if err := h.Observe(); err == nil || err.Error() != "rows.FinalMasks: 0, must be 12 (num_envs 4 times 3 actions)" {
		t.Errorf("%v", err)
	}
	h.Rows.FinalMasks = final
	check(t, h.Observe())
	h = newHost(t, cartpole(), vec.SameStep, traintest.MakeWalk(2))
	h.Begin(t, 100)
	h.Rows.Masks = masks
	if err := h.Act(); err == nil || err.Error() != "rows.Masks: set, must be nil where action_masks is false" {
		t.Errorf("%v", err)
	}
}

// A run with masks does not load a file of a run without, and the other way round.
func TestMasksMustAgreeWithTheCheckpoint(t *testing.T) {
	paths := map[bool]string{}
	trials := map[bool]*trial{}
	for _, masks := range []bool{false, true} {
		d := must(newTrial(cartpole(func(c *Config) { c.Env = "" }), makeWalks(2, masks)))(t)
		defer d.Close()
		check(t, d.Begin(400, 0))
		check(t, d.Run(0, 0))
		paths[masks], trials[masks] = filepath.Join(t.TempDir(), "a"), d
		check(t, d.Save(paths[masks], true))
	}
	for masks, d := range trials {
		want := fmt.Sprintf("action_masks: the checkpoint has %q, this trainer has %q", fmt.Sprint(!masks), fmt.Sprint(masks))
		if err := d.Load(paths[!masks]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		check(t, d.Load(paths[masks]))
	}
	_, err := newTrial(cartpole(func(c *Config) { c.Env, c.ActionMasks = "", true }), traintest.MakeWalk(2))
	if err == nil || err.Error() != "action_masks: true, must be false: walk gives none" {
		t.Errorf("%v", err)
	}
}

// The memory of masks and of the second network is counted.
func TestMemoryOfMasksAndDoubleQIsCounted(t *testing.T) {
	total := func(masks, double bool) (sum int64) {
		d := must(newTrial(cartpole(func(c *Config) { c.Env, c.DoubleQ = "", double }), makeWalks(2, masks)))(t)
		defer d.Close()
		c := d.Config()
		for _, a := range must(memoryOf(&train.Setup{Config: c.Struct().(train.Settings), Common: c.Common(), Spec: *d.Spec(), Device: cpu(t)}))(t) {
			sum += a.Bytes
		}
		return sum
	}
	plain := total(false, false)
	if masks, double := total(true, false), total(false, true); masks < plain+2000 || double <= plain {
		t.Errorf("%d bytes, with masks %d, with double_q %d", plain, masks, double)
	}
}
