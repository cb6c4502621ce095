package envtest

import (
	"testing"

	"github.com/paceline-rl/paceline/core/env"
)

func init() { env.RegisterPlain("Corridor-v0", func() env.Env { return NewCorridor() }) }

func TestCorridorPassesTheSuite(t *testing.T) { Run(t, "Corridor-v0") }

func TestCorridorEndsAndRewards(t *testing.T) {
	c, obs, goals := NewCorridor(), make([]byte, 8), map[int]bool{}
	for range 20 {
		for _, action := range []int32{0, 1} {
			if err := c.Reset(obs); err != nil {
				t.Fatal(err)
			}
			goals[c.goal] = true
			want := float32(c.goal * (2*int(action) - 1))
			for k := 1; k <= corridorLast/2; k++ {
				reward, end, err := c.Step(action, obs)
				if last := k == corridorLast/2; err != nil || (end == env.Terminated) != last || last && reward != want || !last && reward != 0 {
					t.Fatalf("goal %d, action %d, step %d: reward %v, end %d, %v", c.goal, action, k, reward, end, err)
				}
			}
		}
	}
	if !goals[-1] || !goals[1] {
		t.Errorf("goals: %v, must be at both ends", goals)
	}
	if err := c.Reset(obs); err != nil {
		t.Fatal(err)
	}
	for k := 1; k <= corridorSteps; k++ {
		if _, end, err := c.Step(int32(k%2), obs); err != nil || (end == env.Truncated) != (k == corridorSteps) {
			t.Fatalf("step %d: end %d, %v", k, end, err)
		}
	}
	if _, _, err := c.Step(0, obs); err == nil {
		t.Error("a step after the end was accepted")
	}
	state, err := c.Save()
	if err != nil {
		t.Fatal(err)
	}
	for k, bad := range map[int]byte{0: corridorLast + 1, 1: 1, 2: corridorSteps + 1, 3: 2} {
		b := append([]byte(nil), state...)
		b[k] = bad
		if err := c.Restore(b); err == nil {
			t.Errorf("byte %d: %d was accepted", k, bad)
		}
	}
}

func init() { env.RegisterPlain("Walled-v0", func() env.Env { return NewWalled() }) }

func TestWalledPassesTheSuite(t *testing.T) { Run(t, "Walled-v0") }

// The mask forbids only the step into the wall, and Step refuses it.
func TestMaskForbidsOnlyTheWall(t *testing.T) {
	w, obs, mask := NewWalled(), make([]byte, 8), make([]byte, 2)
	for range 20 {
		if err := w.Reset(obs); err != nil {
			t.Fatal(err)
		}
		away := int32((1 - w.goal) / 2)
		for cells := corridorLast / 2; ; cells-- {
			if err := env.ReadMask(w, &w.spec.Action, mask); err != nil || mask[1-away] != 1 || (mask[away] == 1) != (cells > 1) {
				t.Fatalf("%d cells before the end: mask %v, %v", cells, mask, err)
			}
			_, end, err := w.Step(away, obs)
			if (err != nil) != (cells == 1) || end != 0 {
				t.Fatalf("%d cells before the end: end %d, %v", cells, end, err)
			}
			if err != nil {
				break
			}
		}
	}
}
