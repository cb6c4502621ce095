package atari

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
)

const frameStack = 4

func newEnv(t *testing.T, options string) *Env {
	t.Helper()
	o, err := env.ParseOptions(options)
	if err != nil {
		t.Fatal(err)
	}
	e, err := NewEnv(newROM(t, "tetris", tetrisImage()), o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// The actions of Tetris are NOOP, FIRE, RIGHT, LEFT, DOWN.
const (
	right4 = 2
	left4  = 3
)

func TestEnvPlaysAnEpisode(t *testing.T) {
	e := newEnv(t, `{"reset": "cached"}`)
	s := e.Spec()
	if err := s.Check(); err != nil || s.ID != "atari/tetris" || s.Action.N != 5 || s.Obs.Bytes() != 4*84*84 {
		t.Errorf("%+v, %v", s, err)
	}
	obs := make([]byte, s.Obs.Bytes())
	if _, _, err := e.Step(0, obs); err == nil {
		t.Error("a step before the first reset was accepted")
	}
	if err := e.Reset(obs); err != nil {
		t.Fatal(err)
	}
	frame := len(obs) / frameStack
	if !bytes.Equal(obs[:3*frame], make([]byte, 3*frame)) || bytes.Equal(obs[3*frame:], make([]byte, frame)) {
		t.Error("after a reset the observation is not three black frames and an image")
	}
	reward, end, err := e.Step(right4, obs)
	if reward != 1 || end != 0 || err != nil {
		t.Errorf("four points: %v, %v, %v, want a reward of 1", reward, end, err)
	}
	last := slices.Clone(obs[3*frame:])
	if _, _, err := e.Step(0, obs); err != nil || !bytes.Equal(obs[2*frame:3*frame], last) {
		t.Errorf("the last frame did not move in the stack, %v", err)
	}
	steps := 0
	for end == 0 {
		if _, end, err = e.Step(left4, obs); err != nil {
			t.Fatal(err)
		}
		steps++
	}
	if end != env.Terminated || steps != 13 {
		t.Errorf("end %v after %d steps, want 13, which are 50 frames", end, steps)
	}
	if _, _, err := e.Step(0, obs); err == nil {
		t.Error("a step after the end was accepted")
	}
	rgb, width, height, err := e.Render()
	if err != nil || width != 160 || height != 210 || len(rgb) != 3*width*height {
		t.Errorf("rendered %d x %d, %d bytes, %v", width, height, len(rgb), err)
	}
}

func TestEnvRestoreRefusesDamagedStates(t *testing.T) {
	e := newEnv(t, `{"reset": "cached"}`)
	obs := make([]byte, e.Spec().Obs.Bytes())
	if err := e.Reset(obs); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if _, _, err := e.Step(1, obs); err != nil {
			t.Fatal(err)
		}
	}
	saved, err := e.Save()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := e.Step(2, obs); err != nil {
		t.Fatal(err)
	}
	before, err := e.Save()
	if err != nil {
		t.Fatal(err)
	}
	huge := slices.Clone(saved)
	binary.LittleEndian.PutUint32(huge, 0xFFFFFFFF)
	none := saved[:len(saved)-len(e.console.Save(true))]
	damaged := slices.Clone(saved)
	damaged[len(damaged)-1000] ^= 1
	for what, state := range map[string][]byte{
		"nothing": nil, "three bytes": saved[:3], "half": saved[:len(saved)/2], "all but a byte": saved[:len(saved)-1],
		"a byte more": append(slices.Clone(saved), 0), "a huge console": huge, "no console": none, "a damaged console": damaged,
	} {
		if err := e.Restore(state); err == nil || !strings.Contains(err.Error(), "state") {
			t.Errorf("%s: %v, want an error about the state", what, err)
		}
		if now, err := e.Save(); err != nil || !bytes.Equal(now, before) {
			t.Fatalf("%s was refused, and changed the environment", what)
		}
	}
	if err := e.Restore(saved); err != nil {
		t.Fatal(err)
	}
	if now, err := e.Save(); err != nil || !bytes.Equal(now, saved) {
		t.Error("saved again, the state differs")
	}
}
