package mini

import "github.com/paceline-rl/paceline/core/rng"

// breakout is Mini-Breakout-v0. The direction of the ball is the one in which it came to its cell.
// At a wall and at the top it turns when it moves on. So the cell behind the ball, its trail, is
// always on the board and shows the direction.
type breakout struct {
	Paddle   int8 // the left one of its two columns
	Col, Row int8 // the ball
	DX, DY   int8 // the ball's direction, -1 or 1
	Bricks   [brickRows]uint16
}

const (
	firstBrick = 1 // row
	brickRows  = 3
)

// Planes of breakout.
const (
	breakoutPaddle = iota
	breakoutBall
	breakoutTrail
	breakoutBrick
)

var breakoutColours = []colour{{80, 160, 255}, {250, 250, 250}, {100, 100, 110}, {210, 110, 60}}

func (b *breakout) start(r *rng.Stream) {
	*b = breakout{
		Paddle: side/2 - 1,
		Col:    1 + int8(r.Intn(side-2)), Row: firstBrick + brickRows,
		DX: 2*int8(r.Intn(2)) - 1, DY: 1,
	}
	b.build()
}

func (b *breakout) build() {
	for i := range b.Bricks {
		b.Bricks[i] = fullRow
	}
}

func (b *breakout) step(t *turn) (reward float32, over bool) {
	col, _ := t.direction()
	b.Paddle = min(max(b.Paddle+col, 0), side-2)
	return b.moveBall()
}

func (b *breakout) moveBall() (reward float32, over bool) {
	dx, dy := b.DX, b.DY
	if !onBoard(b.Col + dx) {
		dx = -dx
	}
	if b.Row+dy < 0 {
		dy = -dy
	}
	col, row := b.Col+dx, b.Row+dy
	switch {
	case b.stands(col, row):
		b.Bricks[row-firstBrick] &^= 1 << col
		b.DY = -dy // the ball stays in its cell
		return 1, false
	case row == bottom && (col == b.Paddle || col == b.Paddle+1):
		// The ball moves along the paddle. Otherwise it would only ever reach cells of one colour
		// of a chessboard.
		b.Col, b.DX, b.DY = col, -1, -1
		if col > b.Paddle {
			b.DX = 1
		}
		if b.Bricks == [brickRows]uint16{} {
			b.build()
		}
		return 0, false
	}
	b.Col, b.Row, b.DX, b.DY = col, row, dx, dy
	return 0, row == bottom
}

func (b *breakout) stands(col, row int8) bool {
	return row >= firstBrick && row < firstBrick+brickRows && b.Bricks[row-firstBrick]>>col&1 == 1
}

func (b *breakout) draw(p planes) {
	p.set(breakoutPaddle, b.Paddle, bottom)
	p.set(breakoutPaddle, b.Paddle+1, bottom)
	p.set(breakoutBall, b.Col, b.Row)
	p.set(breakoutTrail, b.Col-b.DX, b.Row-b.DY)
	for row := int8(firstBrick); row < firstBrick+brickRows; row++ {
		p.setRow(breakoutBrick, int(row), b.Bricks[row-firstBrick])
	}
}

func (b *breakout) valid(active bool) bool {
	for _, row := range b.Bricks {
		if row > fullRow {
			return false
		}
	}
	unit := func(d int8) bool { return d == 1 || d == -1 }
	return b.Paddle >= 0 && b.Paddle < side-1 && unit(b.DX) && unit(b.DY) &&
		onBoard(b.Col) && onBoard(b.Col-b.DX) &&
		b.Row >= 0 && b.Row <= bottom && (b.Row < bottom || !active) &&
		b.Row-b.DY >= 0 && b.Row-b.DY <= bottom && !b.stands(b.Col, b.Row)
}
