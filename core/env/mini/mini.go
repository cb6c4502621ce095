// Package mini holds five small games in the manner of MinAtar (Young & Tian 2019, arXiv
// 1903.03176): Mini-Asterix-v0, Mini-Breakout-v0, Mini-Freeway-v0, Mini-Seaquest-v0 and
// Mini-SpaceInvaders-v0. docs/pages/reference/mini-games.md has their rules. The code follows that
// page, and the page what is generally known of MinAtar's games: only the abstract of the paper was
// read, and no program.
//
// A game is played on a board of 10x10 cells. Its observation has a plane for each kind of object,
// whose bytes are 255 where the object is and 0 elsewhere.
//
// These hold in every game:
//   - The observation is a function of the state alone: draw changes nothing.
//   - A step moves every object by at most one cell, and contacts are tested after each movement.
//     So two objects that act on each other never pass through one another.
//   - Nothing enters the board in the player's cell. So the player always has a chance.
//   - The exported fields of a game are its whole state. They have fixed sizes: encoding/binary
//     writes them for Save and reads them for Restore, and valid checks them.
package mini

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/rng"
)

// Actions. Every game has all six; an action that a game does not use is a no-op.
const (
	noop = iota
	left
	up
	right
	down
	fire
	actions
)

// rules are the rules and the state of one game.
type rules interface {
	// start begins an episode.
	start(r *rng.Stream)
	// step plays one step. over says that the episode has terminated.
	step(t *turn) (reward float32, over bool)
	// draw sets the cells of the planes, which are all zero.
	draw(p planes)
	// valid reports whether the state is one that step can go on from, or if the episode is not
	// active, one that draw can draw.
	valid(active bool) bool
}

// turn is what a game is told about a step.
type turn struct {
	action  int32
	steps   int // of the episode, before this one
	ramping bool
	rng     *rng.Stream
}

// direction returns the movement that the action asks for.
func (t *turn) direction() (col, row int8) {
	switch t.action {
	case left:
		return -1, 0
	case right:
		return 1, 0
	case up:
		return 0, -1
	case down:
		return 0, 1
	}
	return 0, 0
}

// kind describes one of the games.
type kind struct {
	id       string
	maxSteps int      // default of max_episode_steps
	colours  []colour // of each plane
	make     func() rules
}

var kinds = []kind{
	{"Mini-Asterix-v0", 10_000, asterixColours, func() rules { return new(asterix) }},
	{"Mini-Breakout-v0", 10_000, breakoutColours, func() rules { return new(breakout) }},
	{"Mini-Freeway-v0", 2_500, freewayColours, func() rules { return new(freeway) }},
	{"Mini-Seaquest-v0", 10_000, seaquestColours, func() rules { return new(seaquest) }},
	{"Mini-SpaceInvaders-v0", 10_000, invadersColours, func() rules { return new(invaders) }},
}

func init() {
	for _, k := range kinds {
		env.Register(k.id, func(o env.Options) (env.Env, error) { return k.new(o) })
	}
}

// Game is one of the games.
type Game struct {
	kind   kind
	spec   env.Spec
	sticky float64 // probability that an action is repeated

	rules  rules
	stream *rng.Stream
	turn   turn // turn.action is the last action played, turn.steps counts the steps of the episode
	active bool
}

// new returns a game, not yet reset.
func (k kind) new(o env.Options) (*Game, error) {
	sticky, ramping, maxSteps := 0.1, true, k.maxSteps
	if err := o.Read(k.id, []env.Field{
		{Name: "sticky_action_prob", To: &sticky, Max: 1},
		{Name: "ramping", To: &ramping},
		{Name: "max_episode_steps", To: &maxSteps, Max: math.MaxInt32},
	}); err != nil {
		return nil, err
	}
	g := &Game{
		kind: k,
		spec: env.Spec{
			ID: k.id,
			Obs: env.ObsSpec{DType: env.Uint8, Shape: []int{len(k.colours), side, side},
				Low: []float32{0}, High: []float32{255}},
			Action:   env.ActionSpec{N: actions, Names: []string{"NOOP", "LEFT", "UP", "RIGHT", "DOWN", "FIRE"}},
			MaxSteps: maxSteps,
			FPS:      10,
		},
		sticky: sticky,
		rules:  k.make(),
		turn:   turn{ramping: ramping},
	}
	g.Seed(0)
	g.rules.start(g.stream) // Save before the first reset needs a valid state
	g.Seed(0)
	return g, nil
}

// Spec describes the game.
func (g *Game) Spec() env.Spec { return g.spec }

// Seed restarts the stream of the game.
func (g *Game) Seed(seed uint64) { g.stream = rng.New(seed, "env", 0) }

// Bytes returns more than the size of any of the games.
func (g *Game) Bytes() int64 { return 1024 }

// Close does nothing.
func (g *Game) Close() error { return nil }

// Reset starts an episode.
func (g *Game) Reset(obs []byte) error {
	g.turn.action, g.turn.steps, g.active = noop, 0, true
	g.rules.start(g.stream)
	g.show(obs)
	return nil
}

// Step plays the action, or with the probability of sticky actions the last one again.
func (g *Game) Step(action int32, obs []byte) (float32, env.End, error) {
	if !g.active {
		return 0, 0, errors.New("step before reset")
	}
	if g.sticky == 0 || g.stream.Float64() >= g.sticky {
		g.turn.action = action
	}
	g.turn.rng = g.stream
	reward, over := g.rules.step(&g.turn)
	g.turn.steps++
	var end env.End
	if over {
		end |= env.Terminated
	}
	if g.spec.MaxSteps > 0 && g.turn.steps >= g.spec.MaxSteps {
		end |= env.Truncated
	}
	g.active = end == 0
	g.show(obs)
	return reward, end, nil
}

func (g *Game) show(obs []byte) {
	clear(obs)
	g.rules.draw(obs)
}

const (
	saveVersion = 1
	saveHeader  = 1 + 1 + 1 + 4 + rng.StateSize
)

// Save returns the state: a version byte, a byte that says whether an episode is in progress, the
// last action, the number of steps, the stream and the fields of the game, little-endian. The
// options are not part of the state.
func (g *Game) Save() ([]byte, error) {
	stream, err := g.stream.MarshalBinary()
	if err != nil {
		return nil, err
	}
	b := []byte{saveVersion, 0, byte(g.turn.action)}
	if g.active {
		b[1] = 1
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(g.turn.steps))
	return binary.Append(append(b, stream...), binary.LittleEndian, g.rules)
}

// Restore loads a state from Save. After an error the game is unchanged.
func (g *Game) Restore(b []byte) error {
	size := saveHeader + binary.Size(g.rules)
	if len(b) != size || b[0] != saveVersion {
		return fmt.Errorf("%s state: %d bytes, must be %d of version %d", g.spec.ID, len(b), size, saveVersion)
	}
	stream, state := new(rng.Stream), g.kind.make()
	if err := stream.UnmarshalBinary(b[saveHeader-rng.StateSize : saveHeader]); err != nil {
		return err
	}
	if _, err := binary.Decode(b[saveHeader:], binary.LittleEndian, state); err != nil {
		return err
	}
	if b[1] > 1 || b[2] >= actions || !state.valid(b[1] == 1) {
		return fmt.Errorf("%s state: damaged, must be what Save returned", g.spec.ID)
	}
	g.active, g.turn.action, g.turn.steps = b[1] == 1, int32(b[2]), int(binary.LittleEndian.Uint32(b[3:]))
	g.stream, g.rules = stream, state
	return nil
}
