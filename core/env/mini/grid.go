package mini

import (
	"math/bits"

	"github.com/paceline-rl/paceline/core/rng"
)

const (
	side    = 10          // rows and columns of the board
	lanes   = 8           // rows in which objects cross the board: lane i is row i+1
	bottom  = side - 1    // the last row
	fullRow = 1<<side - 1 // all columns of a row: bit c is column c
)

// planes is an observation, [planes, side, side].
type planes []byte

// set marks a cell. A column off the board has no cell.
func (p planes) set(plane int, col, row int8) {
	if onBoard(col) {
		p[(plane*side+int(row))*side+int(col)] = 255
	}
}

// setRow marks the cells of a row whose bits are set: bit c is column c.
func (p planes) setRow(plane, row int, cells uint16) {
	for ; cells != 0; cells &= cells - 1 {
		p[(plane*side+row)*side+bits.TrailingZeros16(cells)] = 255
	}
}

func onBoard(col int8) bool { return col >= 0 && col < side }

// mover is an object that crosses the board in a row. Dir is 1 for an object that moves to the
// right, -1 for one that moves to the left. The zero mover is no object.
type mover struct{ Col, Dir int8 }

func (m *mover) at(col int8) bool { return m.Dir != 0 && m.Col == col }

// advance moves an object by one cell. An object that leaves the board is removed.
func (m *mover) advance() {
	if m.Col += m.Dir; !onBoard(m.Col) {
		*m = mover{}
	}
}

func (m *mover) valid() bool {
	return *m == mover{} || (m.Dir == 1 || m.Dir == -1) && onBoard(m.Col)
}

// draw marks an object, and the cell behind it in the plane of trails.
func (m *mover) draw(p planes, plane, trail int, row int8) {
	if m.Dir != 0 {
		p.set(plane, m.Col, row)
		p.set(trail, m.Col-m.Dir, row)
	}
}

// enter puts an object into a random empty lane, at a random end but not in the player's cell. It
// returns the lane, or -1 if no lane is empty.
func enter(r *rng.Stream, movers *[lanes]mover, playerCol, playerRow int8) int {
	var empty [lanes]int
	n := 0
	for i := range movers {
		if movers[i].Dir == 0 {
			empty[n] = i
			n++
		}
	}
	if n == 0 {
		return -1
	}
	lane := empty[r.Intn(n)]
	fromLeft, fromRight := mover{0, 1}, mover{side - 1, -1}
	m := fromLeft
	if r.Intn(2) == 1 {
		m = fromRight
	}
	if int8(lane+1) == playerRow && m.Col == playerCol {
		if m == fromLeft {
			m = fromRight
		} else {
			m = fromLeft
		}
	}
	movers[lane] = m
	return lane
}

// due counts a step and reports whether it is the n-th since the count was last zero, which it
// then is again.
func due(count *uint8, n int) bool {
	if *count++; int(*count) < n {
		return false
	}
	*count = 0
	return true
}

// colour is that of a plane in an image. Black planes are not painted.
type colour [3]byte

const cell = 20 // pixels

var background = colour{28, 28, 36}

// Render returns an image of the board, 200x200. If a cell is set in several planes, the first of
// them is seen.
func (g *Game) Render() (rgb []byte, width, height int, err error) {
	obs := make(planes, g.spec.Obs.Bytes())
	g.rules.draw(obs)
	const pixels = side * cell
	rgb = make([]byte, 3*pixels*pixels)
	for y := range pixels {
		for x := range pixels {
			c := background
			for plane := range g.kind.colours {
				// A cell has a margin of one pixel, so that neighbours can be told apart.
				inside := x%cell != 0 && y%cell != 0
				if inside && obs[(plane*side+y/cell)*side+x/cell] != 0 && g.kind.colours[plane] != (colour{}) {
					c = g.kind.colours[plane]
					break
				}
			}
			copy(rgb[3*(y*pixels+x):], c[:])
		}
	}
	return rgb, pixels, pixels, nil
}
