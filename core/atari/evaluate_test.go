package atari

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
	"unsafe"

	"github.com/paceline-rl/paceline/core/atari/games"
	"github.com/paceline-rl/paceline/core/env"
)

// humanPlay plays a console as a human does, frame by frame, and scores some points.
func humanPlay(t *testing.T, frames int) *Console {
	t.Helper()
	c := newTetris(t, Settings{Seed: 5})
	c.resetAsALE()
	points := 0
	for i := range frames {
		points += c.Act([]games.Action{games.Right, games.Noop, games.Fire}[i%3], 1)
	}
	if points == 0 || c.EpisodeFrameNumber() != frames {
		t.Fatalf("%d points in %d frames, the console counts %d", points, frames, c.EpisodeFrameNumber())
	}
	return c
}

// From a start state an environment of every recipe goes on frame by frame as the console does on
// which the state was saved, and counts only the points after the state.
func TestEnvGoesOnFromAStart(t *testing.T) {
	for _, options := range []string{`{}`, `{"recipe": "mnih2015"}`, `{"recipe": "sb3"}`, `{"recipe": "stooke_abbeel"}`, `{"obs_type": "ram"}`,
		`{"recipe": "mnih2015", "frameskip": 6}`, `{"reset": "cached", "frameskip": 1}`} {
		human := humanPlay(t, 100)
		state := human.Save(false)
		e := newEnv(t, options)
		e.Evaluate()
		obs := make([]byte, e.Spec().Obs.Bytes())
		e.Seed(3)
		if err := e.StartAt(state, obs); err != nil {
			t.Fatalf("%s: %v", options, err)
		}
		if e.console.FrameNumber() != human.FrameNumber() || *e.console.RAM() != *human.RAM() || !bytes.Equal(e.console.Screen(), human.Screen()) {
			t.Fatalf("%s: the start is not the human's last frame", options)
		}
		frame := len(obs) / max(1, e.recipe.Stack)
		if n := len(obs) - frame; !bytes.Equal(obs[:n], make([]byte, n)) || bytes.Equal(obs[n:], make([]byte, frame)) {
			t.Errorf("%s: the first observation is not black frames and an image", options)
		}
		over, total := env.End(0), float32(0)
		for i := 0; over == 0 && i < 60; i++ {
			a := int32(i * 5 % 7 % 5)
			points := 0
			for range e.recipe.FrameSkip {
				if !human.GameOver() {
					points += human.Act(e.actions[a], 1)
				}
			}
			reward, end, err := e.Step(a, obs)
			if err != nil || reward != float32(points) || (end != 0) != human.GameOver() {
				t.Fatalf("%s, step %d: reward %v, end %v, %v; the human's console has %d, over %v", options, i, reward, end, err, points, human.GameOver())
			}
			if *e.console.RAM() != *human.RAM() || !bytes.Equal(e.console.Screen(), human.Screen()) {
				t.Fatalf("%s, step %d: another frame than the human's console", options, i)
			}
			total, over = total+reward, end
		}
		if total == 0 {
			t.Errorf("%s: no points", options)
		}
	}
}

// The limit of frames counts the human's frames and cuts the last act short.
func TestLimitOfFramesCountsTheHumans(t *testing.T) {
	for _, recipe := range []string{"ale", "mnih2015", "sb3"} {
		state := humanPlay(t, 100).Save(false)
		e := newEnv(t, `{"recipe": "`+recipe+`"}`)
		e.Evaluate()
		e.LimitFrames(110)
		obs := make([]byte, e.Spec().Obs.Bytes())
		for range 2 { // the second start does not depend on the first
			if err := e.StartAt(state, obs); err != nil {
				t.Fatal(err)
			}
			var ends []env.End
			for end := env.End(0); end == 0; ends = append(ends, end) {
				var err error
				if _, end, err = e.Step(0, obs); err != nil {
					t.Fatal(err)
				}
			}
			if len(ends) != 3 || ends[2] != env.Truncated || e.console.EpisodeFrameNumber() != 110 {
				t.Errorf("%s: %v, the last frame is %d, want three steps and frame 110", recipe, ends, e.console.EpisodeFrameNumber())
			}
		}
		// A game from a reset has the same limit.
		if err := e.Reset(obs); err != nil {
			t.Fatal(err)
		}
		steps := 0
		for end := env.End(0); end == 0; steps++ {
			var err error
			if _, end, err = e.Step(0, obs); err != nil {
				t.Fatal(err)
			}
		}
		if steps < 15 || steps > 28 { // sb3 counts its frames of NOOP and FIRE
			t.Errorf("%s: %d steps from a reset, want 110 frames", recipe, steps)
		}
	}
}

func TestStartsThatCannotBePlayedAreRefused(t *testing.T) {
	human := humanPlay(t, 100)
	state := human.Save(false)
	at := stateHead + int(unsafe.Offsetof(human.state.episodeFrames))
	forged := func(frames int64) []byte {
		b := bytes.Clone(state)
		binary.NativeEndian.PutUint64(b[at:], uint64(frames))
		return resum(b)
	}
	for !human.GameOver() {
		human.Act(games.Left, 1)
	}
	e := newEnv(t, `{}`)
	e.LimitFrames(101)
	obs := make([]byte, e.Spec().Obs.Bytes())
	for says, bad := range map[string][]byte{
		"state: its game is over, must go on":                               human.Save(false),
		"state: 101 frames of its game are played, must be fewer than 101":  forged(101),
		"state: -1 frames of its game are played, must be 0 to 1073741824":  forged(-1),
		"frames of its game are played, must be 0 to 1073741824":            forged(-1 << 63),
		"state: 0 bytes that are not a console's state":                     nil,
		"state: its checksum is wrong, it is damaged":                       append(bytes.Clone(state[:len(state)-1]), state[len(state)-1]^1),
		"of the cartridge with MD5":                                         newConsole(t, newROM(t, "kaboom", paddleImage()), Settings{}).Save(false),
		"state: 9223372036854775807 frames of its game are played, must be": forged(1<<63 - 1),
	} {
		if err := e.StartAt(bad, obs); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
		if _, _, err := e.Step(0, obs); err == nil {
			t.Errorf("%s: a step after the refused start was accepted", says)
		}
		if err := e.StartAt(forged(100), obs); err != nil {
			t.Errorf("the valid state after a refused one: %v", err)
		}
	}
}
