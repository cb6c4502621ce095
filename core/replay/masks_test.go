package replay

import (
	"errors"
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
)

func maskedConfig() Config {
	return Config{Obs: stackSpec(1, 2), Envs: 1, Capacity: 9, Window: 5, Actions: 11}
}

// Masks that no Memory writes are refused.
func TestForgedMasksAreRefused(t *testing.T) {
	a, b := must(New(maskedConfig())), must(New(maskedConfig()))
	defer a.Close()
	defer b.Close()
	check(t, a.Begin(0, []byte{1, 2}))
	check(t, addMasked(a, 0, 10, 0, 0, 0, []byte{3, 4}, []byte{0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1}))
	check(t, addStep(a, 0, 3, 0, 0, env.Terminated, nil))
	data := saved(t, a)
	check(t, load(b, data))
	frames := 2 * 2
	// the first transition's mask
	first := len(data) - frames - 2*(transitionBytes+2) + transitionBytes
	if data[first] != 8 || data[first+1] != 4 {
		t.Fatalf("mask stored as %v", data[first:first+2])
	}
	for what, change := range map[string]func(){
		"nothing is allowed":            func() { data[first], data[first+1] = 0, 0 },
		"an action that does not exist": func() { data[first+1] |= 8 },
		"a bit after the last action":   func() { data[first+1] |= 128 },
		"garbage after a termination":   func() { data[first+transitionBytes+3] = 16 },
	} {
		was := append([]byte(nil), data...)
		change()
		if err := load(b, data); !errors.Is(err, errDamaged) {
			t.Errorf("%s: %v", what, err)
		}
		copy(data, was)
	}
	for _, actions := range []int{0, 3, 30} {
		c := maskedConfig()
		c.Actions = actions
		other := must(New(c))
		if err := load(other, data); err == nil {
			t.Errorf("masks of 11 actions were loaded as of %d", actions)
		}
		other.Close()
	}
}

func TestMasksOfAnotherLengthAreRefused(t *testing.T) {
	m := must(New(maskedConfig()))
	defer m.Close()
	check(t, m.Begin(0, []byte{1, 2}))
	if err := addMasked(m, 0, 0, 0, 0, 0, []byte{3, 4}, make([]byte, 10)); err == nil || err.Error() != "environment 0: action mask of 10, must be 11" {
		t.Errorf("%v", err)
	}
	check(t, addMasked(m, 0, 0, 0, 0, env.Terminated, nil, nil)) // needs no mask
}

// A mask takes one bit per action and is part of BytesOf and Bytes.
func TestMasksAreCounted(t *testing.T) {
	c := maskedConfig()
	plain := c
	plain.Actions = 0
	with, without := must(BytesOf(c)), must(BytesOf(plain))
	slots, _ := c.slots(0, 1, live{})
	m := must(New(c))
	defer m.Close()
	if with != without+2*slots || m.Bytes() != with {
		t.Errorf("%d bytes, %d without masks, %d in use", with, without, m.Bytes())
	}
}

// The masks of observations are those of the first of the n steps, also after a save and a load.
func TestOwnMasksAreThoseOfTheFirstStep(t *testing.T) {
	c := maskedConfig()
	c.OwnMasks = true
	a, b := must(New(c)), must(New(c))
	defer a.Close()
	defer b.Close()
	check(t, a.Begin(0, []byte{1, 2}))
	actions := []int32{4, 7, 0, 9, 10}
	for i, action := range actions {
		end := env.End(0)
		if i == 3 {
			end = env.Terminated
		}
		check(t, addStep(a, 0, action, 1, 0, end, []byte{3, 4}))
		if end != 0 {
			check(t, a.Begin(0, []byte{5, 6}))
		}
	}
	a.Flush()
	if err := a.Add(0, &experience.Step{Action: []int32{1}, NextMask: make([]byte, 11)}, []byte{3, 4}); err == nil || err.Error() != "environment 0: action mask of 0 for the observation, must be 11" {
		t.Errorf("%v", err)
	}
	data := saved(t, a)
	check(t, load(b, data))
	for _, m := range []*Memory{a, b} {
		for _, n := range []int{1, 3} {
			rows := m.Minibatch(1)
			for i, action := range actions {
				m.Gather([]int{i}, n, 0.9, rows, nil)
				if !slices.Equal(rows.Masks, ownMask(11, action)) || slices.Contains(rows.NextMasks, 0) {
					t.Errorf("transition %d over %d steps: masks %v, %v", i, n, rows.Masks, rows.NextMasks)
				}
			}
		}
	}
	if with, without := must(BytesOf(c)), must(BytesOf(maskedConfig())); a.Bytes() != with || with <= without {
		t.Errorf("%d bytes, %d without these masks, %d in use", with, without, a.Bytes())
	}
	// the first transition's own mask, 4 bytes of masks each
	first := len(data) - int(a.parts[0].nextFrame-a.parts[0].oldestFrame)*2 - 5*(transitionBytes+4) + transitionBytes + 2
	for what, change := range map[string]func(){
		"nothing is allowed":          func() { data[first], data[first+1] = 0, 0 },
		"a bit after the last action": func() { data[first+1] |= 128 },
	} {
		was := slices.Clone(data)
		change()
		if err := load(b, data); !errors.Is(err, errDamaged) {
			t.Errorf("%s: %v", what, err)
		}
		copy(data, was)
	}
}
