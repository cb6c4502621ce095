package capi

/*
#include <stdlib.h>
#include "bridge.h"
*/
import "C"

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"github.com/paceline-rl/paceline/core/atari"
	"github.com/paceline-rl/paceline/core/atari/games"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/nearest"
)

// console is an atari.Console. Calls on it exclude each other, except reads of what never
// changes: its game and the address of its view.
type console struct {
	mu       sync.Mutex
	console  *atari.Console
	settings atari.Settings
	view     *C.paceline_console_state
	freed    bool
}

var consoles = newTable[*console](kindConsole)

// callConsole runs f on the console if no other call is in progress.
func callConsole(id C.uint64_t, why *C.pl_error, f func(c *console) error) C.int {
	return report(consoles.use(uint64(id), func(c *console) error {
		if !c.mu.TryLock() {
			return fault.ErrBusy
		}
		defer c.mu.Unlock()
		if c.freed { // after use found it and before TryLock
			return &handleError{uint64(id), kindConsole}
		}
		err := f(c)
		c.updateView()
		return err
	}), why)
}

//export pacelineGoConsoleNew
func pacelineGoConsoleNew(out *C.uint64_t, rom, game *C.char, otherMD5 C.int, seed C.uint32_t, sticky C.double, skip C.uint32_t, why *C.pl_error) C.int {
	return create(out, consoles, why, func() (*console, error) {
		if err := checkFrameSkip(int(skip)); err != nil {
			return nil, err
		}
		r, err := findROM(rom, game, otherMD5 != 0)
		if err != nil {
			return nil, err
		}
		c := &console{settings: atari.Settings{Seed: uint32(seed), RepeatActionProbability: float64(sticky), FrameSkip: int(skip)}}
		if c.console, err = atari.NewConsole(r, c.settings); err != nil {
			return nil, err
		}
		c.view = newView(c.console)
		c.updateView()
		return c, nil
	})
}

// checkFrameSkip bounds the frames of one act, since no call can stop an act.
func checkFrameSkip(n int) error {
	if n < 1 || n > 1<<20 {
		return fmt.Errorf("frame_skip: %d, must be 1 to %d", n, 1<<20)
	}
	return nil
}

func findROM(rom, game *C.char, otherMD5 bool) (*atari.ROM, error) {
	switch {
	case game != nil:
		return atari.FindROM(C.GoString(game), C.GoString(rom), otherMD5)
	case rom == nil:
		return nil, fmt.Errorf("rom: NULL, and game, too; one must be given")
	}
	return atari.OpenROM(C.GoString(rom), otherMD5)
}

//export pacelineGoROMFolder
func pacelineGoROMFolder(folder *C.char, why *C.pl_error) C.int {
	return report(guarded(func() error {
		atari.AddFolder(C.GoString(folder))
		return nil
	}), why)
}

//export pacelineGoROMIdentify
func pacelineGoROMIdentify(out **C.char, file *C.char, why *C.pl_error) C.int {
	return report(guarded(func() error {
		id, err := atari.Identify(C.GoString(file))
		return putText(out, id, err)
	}), why)
}

//export pacelineGoConsoleSet
func pacelineGoConsoleSet(id C.uint64_t, name, value *C.char, why *C.pl_error) C.int {
	return callConsole(id, why, func(c *console) error {
		return c.set(C.GoString(name), C.GoString(value))
	})
}

var consoleSettings = []string{"frame_skip", "repeat_action_probability", "max_num_frames_per_episode", "reward_min", "reward_max",
	"reset", "color_averaging", "mode", "difficulty"}

func (c *console) set(name, value string) error {
	s := c.settings
	integer := func() (int, error) {
		n, err := strconv.ParseInt(value, 10, 32)
		if err != nil {
			return 0, fmt.Errorf("%s: %q, must be a whole number of 32 bits", name, value)
		}
		return int(n), nil
	}
	var err error
	switch name {
	case "frame_skip":
		if s.FrameSkip, err = integer(); err == nil {
			err = checkFrameSkip(s.FrameSkip)
		}
	case "repeat_action_probability":
		if s.RepeatActionProbability, err = strconv.ParseFloat(value, 64); err != nil {
			err = fmt.Errorf("%s: %q, must be a number from 0 to 1", name, value)
		}
	case "max_num_frames_per_episode":
		s.MaxEpisodeFrames, err = integer()
	case "reward_min":
		s.RewardMin, err = integer()
	case "reward_max":
		s.RewardMax, err = integer()
	case "reset":
		s.Reset, err = atari.ParseReset(value)
	case "color_averaging":
		if s.ColourAveraging, err = strconv.ParseBool(value); err != nil {
			err = fmt.Errorf("%s: %q, must be true or false", name, value)
		}
	case "mode":
		n, err := integer()
		if err != nil {
			return err
		}
		return c.console.SetMode(n)
	case "difficulty":
		n, err := integer()
		if err != nil {
			return err
		}
		return c.console.SetDifficulty(n)
	default:
		if near := nearest.Names(name, consoleSettings, 4, nil); near != nil {
			return fmt.Errorf("name: %q is not a setting; did you mean %s?", name, strings.Join(near, " or "))
		}
		return fmt.Errorf("name: %q is not a setting; the settings are %s", name, strings.Join(consoleSettings, ", "))
	}
	if err == nil {
		err = c.console.Set(s)
	}
	if err == nil {
		c.settings = s
	}
	return err
}

//export pacelineGoConsoleReset
func pacelineGoConsoleReset(id C.uint64_t, why *C.pl_error) C.int {
	return callConsole(id, why, func(c *console) error {
		return c.console.Reset()
	})
}

// maxStrength bounds the turn of a paddle in one act. A player turns it by at most 1. ale-py
// takes any number and overflows at about this one.
const maxStrength = 90_000

//export pacelineGoConsoleAct
func pacelineGoConsoleAct(reward *C.int32_t, id C.uint64_t, action C.int32_t, strength C.float, why *C.pl_error) C.int {
	return callConsole(id, why, func(c *console) error {
		if !(strength >= -maxStrength && strength <= maxStrength) {
			return fmt.Errorf("strength: %v, must be -%d to %d", float32(strength), maxStrength, maxStrength)
		}
		*reward = C.int32_t(c.console.Act(games.Action(action), float32(strength)))
		return nil
	})
}

//export pacelineGoConsoleView
func pacelineGoConsoleView(out **C.paceline_console_state, id C.uint64_t, why *C.pl_error) C.int {
	return report(consoles.use(uint64(id), func(c *console) error {
		*out = c.view
		return nil
	}), why)
}

// updateView copies the console's state to the host's view.
func (c *console) updateView() {
	s, v := c.console, c.view
	v.ended = 0
	if s.GameOver() {
		v.ended |= C.PACELINE_TERMINATED
	}
	if s.Truncated() {
		v.ended |= C.PACELINE_TRUNCATED
	}
	v.lives, v.mode, v.difficulty = C.int32_t(s.Lives()), C.int32_t(s.Mode()), C.int32_t(s.Difficulty())
	v.frame_number, v.episode_frame_number = C.int64_t(s.FrameNumber()), C.int64_t(s.EpisodeFrameNumber())
}

// newView returns the view of a console, in memory of C, with the fields that never change.
func newView(s *atari.Console) *C.paceline_console_state {
	v := (*C.paceline_console_state)(C.calloc(1, C.sizeof_paceline_console_state))
	v.struct_size = C.sizeof_paceline_console_state
	if s.PAL() {
		v.pal = 1
	}
	v.height, v.width = C.uint32_t(s.Rows()), atari.Width
	name := s.ROM().Game().ID
	for i := range min(len(name), len(v.game)-1) {
		v.game[i] = C.char(name[i])
	}
	return v
}

//export pacelineGoConsoleList
func pacelineGoConsoleList(out *C.int32_t, capacity C.size_t, count *C.size_t, id C.uint64_t, which C.uint32_t, why *C.pl_error) C.int {
	return report(consoles.use(uint64(id), func(c *console) error {
		g := c.console.ROM().Game()
		var list []int
		switch which {
		case C.PACELINE_MINIMAL_ACTIONS, C.PACELINE_LEGAL_ACTIONS:
			actions := g.MinActions
			if which == C.PACELINE_LEGAL_ACTIONS {
				actions = g.LegalActions
			}
			for _, a := range actions {
				list = append(list, int(a))
			}
		case C.PACELINE_MODES:
			list = g.Modes
		case C.PACELINE_DIFFICULTIES:
			list = g.Difficulties
		default:
			return fmt.Errorf("which: %d, must be one of enum paceline_console_list", which)
		}
		*count = C.size_t(len(list))
		n := min(len(list), int(min(capacity, 1<<16)))
		for i, to := 0, unsafe.Slice((*int32)(out), n); i < n; i++ {
			to[i] = int32(list[i])
		}
		return nil
	}), why)
}

//export pacelineGoConsoleRAM
func pacelineGoConsoleRAM(out *C.uint8_t, id C.uint64_t, why *C.pl_error) C.int {
	return callConsole(id, why, func(c *console) error {
		copy(unsafe.Slice((*byte)(out), 128), c.console.RAM()[:])
		return nil
	})
}

//export pacelineGoConsolePoke
func pacelineGoConsolePoke(id C.uint64_t, index C.uint32_t, value C.uint8_t, why *C.pl_error) C.int {
	return callConsole(id, why, func(c *console) error {
		if index > 127 {
			return fmt.Errorf("index: %d, must be 0 to 127", index)
		}
		c.console.RAM()[index] = byte(value)
		return nil
	})
}

//export pacelineGoConsoleScreen
func pacelineGoConsoleScreen(out *C.uint8_t, size C.size_t, id C.uint64_t, kind C.uint32_t, why *C.pl_error) C.int {
	return callConsole(id, why, func(c *console) error {
		if kind > C.PACELINE_SCREEN_OBSERVED {
			return fmt.Errorf("kind: %d, must be one of enum paceline_screen", kind)
		}
		want := c.console.Rows() * atari.Width
		switch kind {
		case C.PACELINE_SCREEN_RGB:
			want *= 3
		case C.PACELINE_SCREEN_OBSERVED:
			want = atari.Side * atari.Side
		}
		if uint64(size) != uint64(want) {
			return fmt.Errorf("size: %d, must be %d for this kind", size, want)
		}
		to := unsafe.Slice((*byte)(out), want)
		switch kind {
		case C.PACELINE_SCREEN_COLOUR:
			copy(to, c.console.Screen())
		case C.PACELINE_SCREEN_GREY:
			c.console.Grey(to)
		case C.PACELINE_SCREEN_RGB:
			c.console.RGB(to)
		default:
			c.console.Observe(to)
		}
		return nil
	})
}

//export pacelineGoConsoleSave
func pacelineGoConsoleSave(out unsafe.Pointer, size *C.size_t, id C.uint64_t, withRNG C.int, why *C.pl_error) C.int {
	return callConsole(id, why, func(c *console) error {
		return putBytes(out, size, c.console.Save(withRNG != 0))
	})
}

//export pacelineGoConsoleRestore
func pacelineGoConsoleRestore(id C.uint64_t, state unsafe.Pointer, size C.size_t, why *C.pl_error) C.int {
	return callConsole(id, why, func(c *console) error {
		if size > maxState {
			return fmt.Errorf("size: %d, must be that of a console's state", size)
		}
		return c.console.Restore(unsafe.Slice((*byte)(state), int(size)))
	})
}

//export pacelineGoConsoleFree
func pacelineGoConsoleFree(id C.uint64_t) {
	if c, ok := consoles.remove(uint64(id)); ok {
		c.mu.Lock() // a call in progress ends first
		defer c.mu.Unlock()
		C.free(unsafe.Pointer(c.view))
		c.freed = true
	}
}
