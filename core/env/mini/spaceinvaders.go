package mini

import (
	"math/bits"

	"github.com/paceline-rl/paceline/core/rng"
)

// invaders is Mini-SpaceInvaders-v0. Aliens and shots are rows of bits: bit c is column c.
type invaders struct {
	Cannon                    int8 // column
	Dir                       int8 // of the aliens, -1 or 1
	Aliens, Shots, AlienShots [side]uint16
	Blocks                    uint8 // blocks that were shot down, at most blockLevels
	Reload                    uint8 // steps until the next shot may be fired
	Moved, Fired              uint8 // steps since aliens last moved and since one was last due to shoot
}

const (
	blockRows      = 4
	blockRow       = 1<<8 - 1<<2 // columns 2 to 7
	blockMove      = 10          // most steps between movements of the first block
	blockLevels    = 6
	alienShotEvery = 6
)

// Planes of invaders.
const (
	invadersCannon = iota
	invadersAlien
	invadersLeft
	invadersRight
	invadersShot
	invadersAlienShot
)

// The planes of directions show the aliens.
var invadersColours = []colour{{80, 160, 255}, {}, {90, 220, 120}, {150, 200, 80}, {250, 250, 250}, {250, 130, 40}}

func (s *invaders) start(r *rng.Stream) {
	*s = invaders{Cannon: 4}
	s.nextBlock(r)
}

// nextBlock puts a whole block on the board, with a random direction, and removes the cannon's
// shots.
func (s *invaders) nextBlock(r *rng.Stream) {
	s.Aliens, s.Shots = [side]uint16{}, [side]uint16{}
	for row := range blockRows {
		s.Aliens[row] = blockRow
	}
	s.Dir, s.Moved = 2*int8(r.Intn(2))-1, 0
}

func (s *invaders) step(t *turn) (reward float32, over bool) {
	copy(s.Shots[:], s.Shots[1:]) // a shot never is in the bottom row
	reward = s.hit(t)
	s.act(t)
	reward += s.hit(t)
	if s.lost() {
		return reward, true
	}
	most := blockMove
	if t.ramping {
		most -= int(s.Blocks)
	}
	if due(&s.Moved, min(most, s.left())) {
		s.moveAliens()
		reward += s.hit(t)
	}
	copy(s.AlienShots[1:], s.AlienShots[:bottom])
	s.AlienShots[0] = 0
	if s.lost() {
		return reward, true
	}
	if due(&s.Fired, alienShotEvery) {
		s.alienShoots(t.rng)
	}
	return reward, false
}

// act moves the cannon or fires.
func (s *invaders) act(t *turn) {
	if s.Reload > 0 {
		s.Reload--
	}
	if t.action == fire && s.Reload == 0 {
		s.Shots[bottom-1] |= 1 << s.Cannon
		s.Reload = shotEvery
	}
	col, _ := t.direction()
	s.Cannon = min(max(s.Cannon+col, 0), side-1)
}

// hit removes aliens and shots of the cannon that are in the same cell. If no alien is left, the
// next block appears.
func (s *invaders) hit(t *turn) (reward float32) {
	for row := range s.Aliens {
		if both := s.Aliens[row] & s.Shots[row]; both != 0 {
			s.Aliens[row] &^= both
			s.Shots[row] &^= both
			reward += float32(bits.OnesCount16(both))
		}
	}
	if reward > 0 && s.left() == 0 {
		s.Blocks = min(s.Blocks+1, blockLevels)
		s.nextBlock(t.rng)
	}
	return reward
}

// left returns the number of aliens.
func (s *invaders) left() (n int) {
	for _, row := range s.Aliens {
		n += bits.OnesCount16(row)
	}
	return n
}

// lost reports whether an alien is in the bottom row or an alien shot in the cannon's cell.
func (s *invaders) lost() bool { return s.Aliens[bottom] != 0 || s.AlienShots[bottom]>>s.Cannon&1 == 1 }

// columns returns the columns that have an alien.
func (s *invaders) columns() (columns uint16) {
	for _, row := range s.Aliens {
		columns |= row
	}
	return columns
}

// moveAliens moves the block to the side, or down if an alien is at the edge.
func (s *invaders) moveAliens() {
	columns := s.columns()
	switch {
	case s.Dir < 0 && columns&1 != 0, s.Dir > 0 && columns>>(side-1)&1 != 0:
		copy(s.Aliens[1:], s.Aliens[:bottom])
		s.Aliens[0], s.Dir = 0, -s.Dir
	case s.Dir < 0:
		for row := range s.Aliens {
			s.Aliens[row] >>= 1
		}
	default:
		for row := range s.Aliens {
			s.Aliens[row] <<= 1
		}
	}
}

// alienShoots lets the lowest alien of a random column shoot.
func (s *invaders) alienShoots(r *rng.Stream) {
	columns := s.columns()
	for range r.Intn(bits.OnesCount16(columns)) {
		columns &= columns - 1
	}
	column := columns & -columns
	row := bottom
	for s.Aliens[row]&column == 0 {
		row--
	}
	if row+1 < bottom {
		s.AlienShots[row+1] |= column
	}
}

func (s *invaders) draw(p planes) {
	p.set(invadersCannon, s.Cannon, bottom)
	direction := invadersLeft
	if s.Dir > 0 {
		direction = invadersRight
	}
	for row := range s.Aliens {
		p.setRow(invadersAlien, row, s.Aliens[row])
		p.setRow(direction, row, s.Aliens[row])
		p.setRow(invadersShot, row, s.Shots[row])
		p.setRow(invadersAlienShot, row, s.AlienShots[row])
	}
}

func (s *invaders) valid(active bool) bool {
	for row := range s.Aliens {
		if s.Aliens[row] > fullRow || s.Shots[row] > fullRow || s.AlienShots[row] > fullRow {
			return false
		}
	}
	return onBoard(s.Cannon) && (s.Dir == 1 || s.Dir == -1) && s.left() > 0 && s.Shots[bottom] == 0 &&
		(s.Aliens[bottom] == 0 || !active) && s.Blocks <= blockLevels && s.Reload <= shotEvery &&
		s.Moved < blockMove && s.Fired < alienShotEvery
}
