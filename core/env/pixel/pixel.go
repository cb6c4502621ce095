// Package pixel holds two small games with images as observations: Catch-v0 and Bricks-v0. They
// need no files, and the network for Atari learns them within minutes. Their observation is that of
// Atari: the last four grey frames of 84x84 pixels, oldest first. Frames before an episode are
// black (zero).
//
// Both games are boards of square cells. The actions 0 stay, 1 left and 2 right move the paddle by
// at most one cell, before the ball moves. The paddle is three cells wide, in the bottom row, and
// always wholly on the board. Only the start of an episode is random.
package pixel

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/rng"
)

func init() {
	env.RegisterPlain("Catch-v0", func() env.Env { return NewCatch() })
	env.RegisterPlain("Bricks-v0", func() env.Env { return NewBricks() })
}

const (
	side      = 84 // width and height of a frame in pixels
	frameSize = side * side
	depth     = 4 // frames in an observation
)

// Grey levels.
const (
	floor  = 0
	brick  = 90
	paddle = 160
	ball   = 255
)

// Actions.
const (
	stay = iota
	left
	right
	actions
)

// game is the common part of both games: the board, its frame, the stack of frames and the episode.
type game struct {
	spec   env.Spec
	stream *rng.Stream
	steps  int // in this episode
	active bool

	cells, cell, margin int // cells a row, pixels a cell, black pixels around the board
	frame               [frameSize]byte
	stack               *env.Stack
	paddle              int // column of the paddle's middle
}

func newGame(id string, cells, cell, maxSteps int, threshold float64) game {
	g := game{
		spec: env.Spec{
			ID: id,
			Obs: env.ObsSpec{DType: env.Uint8, Shape: []int{depth, side, side},
				Low: []float32{0}, High: []float32{255}, FrameStack: depth},
			Action:    env.ActionSpec{N: actions},
			MaxSteps:  maxSteps,
			FPS:       10,
			Threshold: threshold,
		},
		cells: cells, cell: cell, margin: (side - cells*cell) / 2,
		stack: env.NewStack(depth, frameSize),
	}
	g.Seed(0)
	return g
}

// Spec describes the game.
func (g *game) Spec() env.Spec { return g.spec }

// Seed restarts the stream that draws the starts of episodes.
func (g *game) Seed(seed uint64) { g.stream = rng.New(seed, "env", 0) }

// Bytes returns the size of the newest frame and the stack, and 2 KB for the rest.
func (g *game) Bytes() int64 { return (1+depth)*frameSize + 2048 }

// Close does nothing.
func (g *game) Close() error { return nil }

// Render returns the newest frame in grey, 84x84.
func (g *game) Render() (rgb []byte, width, height int, err error) {
	rgb = make([]byte, 0, 3*frameSize)
	for _, level := range g.frame {
		rgb = append(rgb, level, level, level)
	}
	return rgb, side, side, nil
}

// startEpisode starts an episode with an empty board and the paddle in its middle.
func (g *game) startEpisode() {
	g.steps, g.active = 0, true
	clear(g.frame[:])
	g.stack.Clear()
	g.paddle = g.cells / 2
	g.drawPaddle(paddle)
}

var errNotActive = errors.New("step before reset")

func (g *game) movePaddle(action int32) {
	to := g.paddle
	switch action {
	case left:
		to = max(to-1, 1)
	case right:
		to = min(to+1, g.cells-2)
	}
	if to != g.paddle {
		g.drawPaddle(floor)
		g.paddle = to
		g.drawPaddle(paddle)
	}
}

// caught reports whether the paddle covers a column.
func (g *game) caught(column int) bool { return column >= g.paddle-1 && column <= g.paddle+1 }

// finish counts a step and returns its End.
func (g *game) finish(terminated bool) env.End {
	g.steps++
	var end env.End
	if terminated {
		end |= env.Terminated
	}
	if g.spec.MaxSteps > 0 && g.steps >= g.spec.MaxSteps {
		end |= env.Truncated
	}
	g.active = end == 0
	return end
}

// show adds the frame to the stack and writes the observation.
func (g *game) show(obs []byte) {
	copy(g.stack.Next(), g.frame[:])
	g.stack.Write(obs)
}

func (g *game) drawPaddle(level byte) { g.draw(g.paddle-1, g.cells-1, 3, level) }

// draw fills width cells of a row, from column on.
func (g *game) draw(column, row, width int, level byte) {
	at := (g.margin+row*g.cell)*side + g.margin + column*g.cell
	line := g.frame[at : at+width*g.cell]
	for i := range line {
		line[i] = level
	}
	for range g.cell - 1 {
		at += side
		copy(g.frame[at:], line)
	}
}

const (
	saveVersion = 1
	saveHeader  = 1 + 1 + 4 + rng.StateSize + 1
	saveSize    = saveHeader + depth*frameSize // without the game's own bytes
)

// save writes a version byte, a byte that says whether an episode is in progress, the number of
// steps, the stream, the paddle, the game's own bytes and the stack of frames.
func (g *game) save(own ...byte) ([]byte, error) {
	stream, err := g.stream.MarshalBinary()
	if err != nil {
		return nil, err
	}
	b := make([]byte, 2, saveSize+len(own))
	b[0] = saveVersion
	if g.active {
		b[1] = 1
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(g.steps))
	b = append(b, stream...)
	b = append(b, byte(g.paddle))
	b = append(b, own...)
	return g.stack.Append(b), nil
}

// restore reads a state from save. n is the number of the game's own bytes, and check checks them.
// After an error the game is unchanged.
func (g *game) restore(b []byte, n int, check func(own []byte) bool) (own []byte, err error) {
	if len(b) != saveSize+n || b[0] != saveVersion || b[1] > 1 {
		return nil, fmt.Errorf("%s state: %d bytes, must be %d of version %d", g.spec.ID, len(b), saveSize+n, saveVersion)
	}
	steps, at, own := binary.LittleEndian.Uint32(b[2:]), int(b[saveHeader-1]), b[saveHeader:saveHeader+n]
	if at < 1 || at > g.cells-2 || !check(own) {
		return nil, fmt.Errorf("%s state: damaged, a piece lies off the board", g.spec.ID)
	}
	stream := new(rng.Stream)
	if err := stream.UnmarshalBinary(b[6 : 6+rng.StateSize]); err != nil {
		return nil, err
	}
	frames := b[saveHeader+n:]
	if err := g.stack.Restore(frames); err != nil {
		return nil, err
	}
	copy(g.frame[:], frames[(depth-1)*frameSize:])
	g.active, g.steps, g.paddle, g.stream = b[1] == 1, int(steps), at, stream
	return own, nil
}
