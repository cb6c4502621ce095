package pixel

import (
	"encoding/binary"

	"github.com/paceline-rl/paceline/core/env"
)

// Bricks is Bricks-v0, a small breakout on 10x10 cells of 8 pixels. Rows 1 to 3
// are a wall of bricks. The ball moves one cell a step along a diagonal and
// turns back at walls, bricks and paddle; a brick it meets is gone and scores
// +1. The middle of the paddle leaves the ball's sideways direction as it is,
// an end of it sends the ball to that side. An episode begins with the ball
// under a random column of the wall, on its way down to a random side, and
// terminates when the ball passes the paddle; 300 steps truncate it. When the
// last brick is gone, a new wall stands as soon as the ball is back on the
// paddle.
//
// A random policy scores about 0.4 on average, one that follows the ball 25.
type Bricks struct {
	game
	x, y   int    // of the ball
	dx, dy int    // -1 or 1
	wall   uint32 // bit 10*(row-1)+column: the brick stands
}

const (
	brickCells = 10
	firstRow   = 1
	lastRow    = 3
	wholeWall  = 1<<(brickCells*(lastRow-firstRow+1)) - 1
)

// NewBricks returns a Bricks, not yet reset.
func NewBricks() *Bricks {
	b := &Bricks{game: newGame("Bricks-v0", brickCells, 8, 300, 10), dx: 1, dy: 1}
	b.startEpisode() // Save and Restore need a paddle on the board
	b.active = false
	return b
}

// Reset builds the wall and serves the ball.
func (b *Bricks) Reset(obs []byte) error {
	b.startEpisode()
	b.build()
	b.x, b.y = b.stream.Intn(brickCells), lastRow+1
	b.dx, b.dy = 2*b.stream.Intn(2)-1, 1
	b.draw(b.x, b.y, 1, ball)
	b.show(obs)
	return nil
}

func (b *Bricks) build() {
	b.wall = wholeWall
	for row := firstRow; row <= lastRow; row++ {
		b.draw(0, row, brickCells, brick)
	}
}

// Step moves the paddle, then the ball.
func (b *Bricks) Step(action int32, obs []byte) (float32, env.End, error) {
	if !b.active {
		return 0, 0, errNotActive
	}
	b.draw(b.x, b.y, 1, floor)
	b.move(action)
	reward, missed := b.fly()
	b.draw(b.x, b.y, 1, ball)
	b.show(obs)
	return reward, b.finish(missed), nil
}

// fly moves the ball by one step. Walls and paddle turn it back in its row (or
// column), so that it moves along them for one step; at a brick it stays in its
// cell, and so is never in the cell of a brick that stands.
func (b *Bricks) fly() (reward float32, missed bool) {
	x, y := b.x+b.dx, b.y+b.dy
	if x < 0 || x >= brickCells {
		x, b.dx = b.x, -b.dx
	}
	if b.stands(x, y) {
		b.wall &^= bit(x, y)
		b.draw(x, y, 1, floor)
		b.dy = -b.dy
		return 1, false
	}
	b.x = x
	switch {
	case y < 0:
		b.dy = 1
	case y < brickCells-1:
		b.y = y
	case b.caught(x):
		b.dy = -1
		if x != b.paddle {
			b.dx = x - b.paddle
		}
		if b.wall == 0 {
			b.build()
		}
	default:
		b.y = y
		return 0, true
	}
	return 0, false
}

func bit(column, row int) uint32 { return 1 << (brickCells*(row-firstRow) + column) }

func (b *Bricks) stands(column, row int) bool {
	return row >= firstRow && row <= lastRow && b.wall&bit(column, row) != 0
}

// Save returns the whole state.
func (b *Bricks) Save() ([]byte, error) {
	return b.save(binary.LittleEndian.AppendUint32(
		[]byte{byte(b.x), byte(b.y), byte(b.dx + 1), byte(b.dy + 1)}, b.wall)...)
}

// Restore goes on from what Save returned; after an error nothing has changed.
func (b *Bricks) Restore(state []byte) error {
	own, err := b.restore(state, 8, func(own []byte) bool {
		return own[0] < brickCells && own[1] < brickCells &&
			(own[2] == 0 || own[2] == 2) && (own[3] == 0 || own[3] == 2) &&
			binary.LittleEndian.Uint32(own[4:])&^wholeWall == 0
	})
	if err == nil {
		b.x, b.y, b.dx, b.dy = int(own[0]), int(own[1]), int(own[2])-1, int(own[3])-1
		b.wall = binary.LittleEndian.Uint32(own[4:])
	}
	return err
}
