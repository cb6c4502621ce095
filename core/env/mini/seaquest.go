package mini

import "github.com/paceline-rl/paceline/core/rng"

// seaquest is Mini-Seaquest-v0: a submarine shoots enemies, rescues divers and needs air. Its place
// is that of its front, the only part that can be touched.
type seaquest struct {
	Col, Row, Dir int8
	Air           uint8 // steps
	Aboard        uint8 // divers
	Level         uint8
	Reload        uint8 // steps until the next shot may be fired

	Shots    [maxShots]mover // of the submarine
	ShotRows [maxShots]int8

	Enemies    [lanes]mover
	Subs       [lanes]bool  // the enemy of the lane is a submarine, else a fish
	Reloads    [lanes]uint8 // steps until the submarine of the lane may shoot
	EnemyShots [lanes]mover
	Divers     [lanes]mover

	// Steps since enemies and divers last moved, and since one was last due to enter.
	EnemiesMoved, DiversMoved, EnemyEntered, DiverEntered uint8
}

const (
	maxShots     = 3 // a shot has left the board before the third one after it is fired
	shotEvery    = 4 // steps between shots of the player, also in Space Invaders
	subShotEvery = 8
	enemyMove    = 4 // steps between movements at level 0
	enemyMoveMin = 2
	enemyEnter   = 12 // steps between enemies at level 0
	enemySubs    = 3  // one of so many enemies is a submarine
	diverMove    = 5
	diverEnter   = 25
	maxAboard    = 6
	seaLevels    = 8
	airCell      = 24 // steps of air in a cell of the gauge
	fullAir      = side * airCell
)

// Planes of seaquest.
const (
	seaFront = iota
	seaBack
	seaShot
	seaTrail
	seaEnemyShot
	seaFish
	seaSub
	seaAboard // before the air, so that images show both gauges
	seaAir
	seaDiver
)

var seaquestColours = []colour{{250, 210, 60}, {170, 140, 40}, {250, 250, 250}, {60, 70, 90}, {250, 130, 40},
	{230, 70, 70}, {180, 60, 160}, {90, 220, 120}, {110, 180, 230}, {90, 220, 120}}

func (s *seaquest) start(*rng.Stream) { *s = seaquest{Col: 4, Row: 4, Dir: 1, Air: fullAir} }

func (s *seaquest) step(t *turn) (reward float32, over bool) {
	for i := range s.Shots {
		s.Shots[i].advance()
	}
	reward = s.hit()
	gain, over := s.act(t)
	reward += gain + s.hit()
	if s.Air--; over || s.Air == 0 || s.touched() {
		return reward, true
	}
	s.takeAboard()

	if due(&s.EnemiesMoved, max(enemyMove-int(s.Level)/2, enemyMoveMin)) {
		for i := range s.Enemies {
			s.Enemies[i].advance()
		}
		reward += s.hit()
	}
	for i := range s.EnemyShots {
		s.EnemyShots[i].advance()
	}
	if s.touched() {
		return reward, true
	}
	if due(&s.DiversMoved, diverMove) {
		for i := range s.Divers {
			s.Divers[i].advance()
		}
		s.takeAboard()
	}
	s.enemiesShoot()
	if due(&s.EnemyEntered, enemyEnter-int(s.Level)) {
		if lane := enter(t.rng, &s.Enemies, s.Col, s.Row); lane >= 0 {
			s.Subs[lane], s.Reloads[lane] = t.rng.Intn(enemySubs) == 0, 0
			reward += s.hit()
		}
	}
	if due(&s.DiverEntered, diverEnter) {
		enter(t.rng, &s.Divers, s.Col, s.Row)
	}
	return reward, false
}

// act moves the submarine or fires. over says that it has surfaced without a diver.
func (s *seaquest) act(t *turn) (reward float32, over bool) {
	if s.Reload > 0 {
		s.Reload--
	}
	if t.action == fire {
		s.fire()
		return 0, false
	}
	col, row := t.direction()
	if col != 0 {
		s.Dir = col
	}
	from := s.Row
	s.Col, s.Row = min(max(s.Col+col, 0), side-1), min(max(s.Row+row, 0), lanes)
	if s.Row == 0 && from > 0 {
		return s.surface(t.ramping)
	}
	return 0, false
}

func (s *seaquest) fire() {
	if s.Reload > 0 || !onBoard(s.Col+s.Dir) {
		return
	}
	for i := range s.Shots {
		if s.Shots[i].Dir == 0 {
			s.Shots[i], s.ShotRows[i], s.Reload = mover{s.Col + s.Dir, s.Dir}, s.Row, shotEvery
			return
		}
	}
}

func (s *seaquest) surface(ramping bool) (reward float32, over bool) {
	switch s.Aboard {
	case 0:
		return 0, true
	case maxAboard:
		reward, s.Aboard = float32(s.gauge()), 0
	default:
		s.Aboard--
	}
	s.Air = fullAir
	if ramping && s.Level < seaLevels {
		s.Level++
	}
	return reward, false
}

// gauge returns the cells of the air gauge.
func (s *seaquest) gauge() int8 { return int8((int(s.Air) + airCell - 1) / airCell) }

// hit removes enemies and shots of the submarine that are in the same cell.
func (s *seaquest) hit() (reward float32) {
	for i := range s.Shots {
		shot, row := &s.Shots[i], s.ShotRows[i]
		if shot.Dir != 0 && row > 0 && s.Enemies[row-1].at(shot.Col) {
			*shot, s.Enemies[row-1] = mover{}, mover{}
			reward++
		}
	}
	return reward
}

// touched reports whether an enemy or an enemy shot is in the submarine's cell.
func (s *seaquest) touched() bool {
	return s.Row > 0 && (s.Enemies[s.Row-1].at(s.Col) || s.EnemyShots[s.Row-1].at(s.Col))
}

// takeAboard takes a diver in the submarine's cell on board.
func (s *seaquest) takeAboard() {
	if s.Row > 0 && s.Aboard < maxAboard && s.Divers[s.Row-1].at(s.Col) {
		s.Divers[s.Row-1] = mover{}
		s.Aboard++
	}
}

func (s *seaquest) enemiesShoot() {
	for i := range s.Enemies {
		if s.Reloads[i] > 0 {
			s.Reloads[i]--
		}
		sub, ahead := s.Enemies[i], s.Enemies[i].Col+s.Enemies[i].Dir
		if sub.Dir == 0 || !s.Subs[i] || s.Reloads[i] > 0 || s.EnemyShots[i].Dir != 0 || !onBoard(ahead) ||
			s.Row == int8(i+1) && s.Col == ahead {
			continue
		}
		s.EnemyShots[i], s.Reloads[i] = mover{ahead, sub.Dir}, subShotEvery
	}
}

func (s *seaquest) draw(p planes) {
	p.set(seaFront, s.Col, s.Row)
	p.set(seaBack, s.Col-s.Dir, s.Row)
	for i := range s.Shots {
		if s.Shots[i].Dir != 0 {
			p.set(seaShot, s.Shots[i].Col, s.ShotRows[i])
		}
	}
	for i := range s.Enemies {
		row, plane := int8(i+1), seaFish
		if s.Subs[i] {
			plane = seaSub
		}
		s.Enemies[i].draw(p, plane, seaTrail, row)
		s.Divers[i].draw(p, seaDiver, seaTrail, row)
		if s.EnemyShots[i].Dir != 0 {
			p.set(seaEnemyShot, s.EnemyShots[i].Col, row)
		}
	}
	for col := range s.gauge() {
		p.set(seaAir, col, bottom)
	}
	for col := range int8(s.Aboard) {
		p.set(seaAboard, col, bottom)
	}
}

func (s *seaquest) valid(active bool) bool {
	for i := range s.Shots {
		if !s.Shots[i].valid() || s.ShotRows[i] < 0 || s.ShotRows[i] > lanes {
			return false
		}
	}
	for i := range s.Enemies {
		if !s.Enemies[i].valid() || !s.EnemyShots[i].valid() || !s.Divers[i].valid() || s.Reloads[i] > subShotEvery {
			return false
		}
	}
	return onBoard(s.Col) && s.Row >= 0 && s.Row <= lanes && (s.Dir == 1 || s.Dir == -1) &&
		s.Air <= fullAir && (s.Air > 0 || !active) && s.Aboard <= maxAboard && s.Level <= seaLevels && s.Reload <= shotEvery &&
		s.EnemiesMoved < enemyMove && s.DiversMoved < diverMove && s.EnemyEntered < enemyEnter && s.DiverEntered < diverEnter
}
