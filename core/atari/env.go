package atari

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/paceline-rl/paceline/core/atari/games"
	"github.com/paceline-rl/paceline/core/env"
)

// What an environment does to the frames of a game: that of Mnih et al. (2015), with
// episodes that end with the game, not with a life.
const (
	frameSkip  = 4 // of which the last two are looked at
	frameStack = 4
	frameSize  = Side * Side
	maxFrames  = 108_000 // half an hour
)

// Env is a game as a learner sees it: an action lasts four frames, and an
// observation is the last four of the frames [84, 84] that the actions ended with, the
// brighter of two screens in grey. Rewards are clipped to -1, 0 and 1. Actions are
// the game's minimal ones, in the order of their numbers. Episodes begin at stored
// states (ResetCached).
type Env struct {
	console *Console
	actions []games.Action
	stack   *env.Stack
	spec    env.Spec
	running bool // an episode is
}

var _ env.Saver = (*Env)(nil)
var _ env.Renderer = (*Env)(nil)

// NewEnv returns an environment on a cartridge.
func NewEnv(rom *ROM) (*Env, error) {
	c, err := NewConsole(rom, Settings{FrameSkip: frameSkip, Reset: ResetCached})
	if err != nil {
		return nil, err
	}
	e := &Env{console: c, actions: rom.game.MinActions, stack: env.NewStack(frameStack, frameSize)}
	e.spec = env.Spec{
		ID:     "atari/" + rom.game.ID,
		Obs:    env.ObsSpec{Shape: []int{frameStack, Side, Side}, Low: []float32{0}, High: []float32{255}, FrameStack: frameStack},
		Action: env.ActionSpec{N: len(e.actions)}, MaxSteps: maxFrames / frameSkip,
	}
	e.Seed(0)
	return e, nil
}

func init() {
	for _, g := range games.All() {
		if g.Unplayable {
			continue
		}
		id := "atari/" + g.ID
		env.Register(id, func() (env.Env, error) {
			rom, err := FindROM(g.ID, "", false)
			if err != nil {
				return nil, err
			}
			e, err := NewEnv(rom)
			if err != nil {
				return nil, err
			}
			return e, nil
		})
		env.Alias(camelCase(g.ID), id)
	}
}

// camelCase turns "space_invaders" into Gymnasium's "SpaceInvaders".
func camelCase(id string) string {
	var name strings.Builder
	for _, word := range strings.Split(id, "_") {
		name.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return name.String()
}

var errNotActive = errors.New("step before reset")

// Spec describes observations uint8 [4, 84, 84], the oldest frame first.
func (e *Env) Spec() env.Spec { return e.spec }

// Seed sets the stream that chooses start states.
func (e *Env) Seed(seed uint64) { e.console.SeedStarts(seed) }

// Close does nothing: a machine is memory.
func (e *Env) Close() error { return nil }

// Reset begins an episode.
func (e *Env) Reset(obs []byte) error {
	if err := e.console.Reset(); err != nil {
		return err
	}
	e.stack.Clear()
	e.observe(obs)
	e.running = true
	return nil
}

// Step plays an action.
func (e *Env) Step(action int32, obs []byte) (float32, env.End, error) {
	if !e.running {
		return 0, 0, errNotActive
	}
	c := e.console
	reward := c.Act(e.actions[action], 1)
	e.observe(obs)
	var end env.End
	if c.GameOver() {
		end |= env.Terminated
	}
	if c.EpisodeFrameNumber() >= maxFrames {
		end |= env.Truncated
	}
	e.running = end == 0
	return float32(min(max(reward, -1), 1)), end, nil
}

func (e *Env) observe(obs []byte) {
	e.console.Observe(e.stack.Next())
	e.stack.Write(obs)
}

// Render returns the last frame in colour.
func (e *Env) Render() (rgb []byte, width, height int, err error) {
	rgb = make([]byte, 3*Width*e.console.Rows())
	e.console.RGB(rgb)
	return rgb, Width, e.console.Rows(), nil
}

// notRunning, in the last byte of the console's length, says that no episode is.
const notRunning = 0x80

// Save returns the console and the stack.
func (e *Env) Save() ([]byte, error) {
	console := e.console.Save(true)
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(console)))
	if !e.running { // the length has bits to spare
		b[3] |= notRunning
	}
	b = append(b, console...)
	return e.stack.Append(b), nil
}

// Restore goes on from what Save returned.
func (e *Env) Restore(b []byte) error {
	const stackSize = frameStack * frameSize
	if len(b) < 4 {
		return fmt.Errorf("state: %d bytes, that is none of %s", len(b), e.spec.ID)
	}
	running := b[3]&notRunning == 0
	n := int(binary.LittleEndian.Uint32(b) &^ (notRunning << 24))
	if len(b) != 4+n+stackSize {
		return fmt.Errorf("state: %d bytes, must be %d", len(b), 4+n+stackSize)
	}
	if err := e.console.Restore(b[4 : 4+n]); err != nil {
		return err
	}
	e.running = running
	return e.stack.Restore(b[4+n:])
}
