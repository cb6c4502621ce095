package pixel

import (
	"encoding/binary"

	"github.com/paceline-rl/paceline/core/env"
)

// Bricks is Bricks-v0, a small Breakout on 10x10 cells of 8 pixels. Rows 1 to 3 are a wall of
// bricks. The ball moves one cell a step along a diagonal and bounces off walls, bricks and the
// paddle. A brick that the ball hits disappears, with reward 1. The middle of the paddle keeps the
// ball's horizontal direction; an end of the paddle sends the ball to that side.
//
// An episode starts with the ball below a random column of the wall, moving down to a random side.
// The episode terminates when the ball passes the paddle, and is truncated after 300 steps. If no
// brick is left, the next hit of the paddle builds a new wall.
//
// A random policy scores about 0.4 on average, a policy that follows the ball about 25.
type Bricks struct {
	game
	x, y   int    // the ball's cell
	dx, dy int    // the ball's direction, -1 or 1
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
	b.startEpisode() // Restore refuses a state without a paddle on the board
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
	b.movePaddle(action)
	reward, missed := b.moveBall()
	b.draw(b.x, b.y, 1, ball)
	b.show(obs)
	return reward, b.finish(missed), nil
}

// moveBall moves the ball by one step. A ball that bounces off a wall or the paddle moves along it
// for one step. A ball that hits a brick stays in its cell, so the ball is never in the cell of a
// standing brick.
func (b *Bricks) moveBall() (reward float32, missed bool) {
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

// Restore loads a state from Save. After an error the game is unchanged.
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
