package replay

import (
	"errors"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
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
