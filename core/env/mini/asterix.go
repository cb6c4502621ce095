package mini

import "github.com/paceline-rl/paceline/core/rng"

// asterix is Mini-Asterix-v0: the player collects treasures and evades enemies.
type asterix struct {
	Col, Row       int8
	Lanes          [lanes]mover
	Treasure       [lanes]bool // the object of the lane is a treasure, else an enemy
	Moved, Entered uint8       // steps since objects last moved and since one was last due to enter
}

const (
	asterixRamp     = 200 // steps of a level
	asterixLevels   = 6
	asterixMove     = 4 // steps between movements at level 0
	asterixEnter    = 8 // steps between objects at level 0
	asterixTreasure = 3 // one of so many objects is a treasure
)

// Planes of asterix.
const (
	asterixPlayer = iota
	asterixEnemy
	asterixTrail
	asterixGold
)

var asterixColours = []colour{{80, 160, 255}, {230, 70, 70}, {90, 80, 80}, {250, 210, 60}}

func (a *asterix) start(*rng.Stream) { *a = asterix{Col: 5, Row: 5} }

func (a *asterix) step(t *turn) (reward float32, over bool) {
	level := 0
	if t.ramping {
		level = min(t.steps/asterixRamp, asterixLevels)
	}
	col, row := t.direction()
	a.Col, a.Row = min(max(a.Col+col, 0), side-1), min(max(a.Row+row, 1), lanes)
	if reward, over = a.touch(); over {
		return reward, true
	}
	if due(&a.Moved, asterixMove-level/2) {
		for i := range a.Lanes {
			a.Lanes[i].advance()
		}
		touched, over := a.touch()
		if reward += touched; over {
			return reward, true
		}
	}
	if due(&a.Entered, asterixEnter-level) {
		if lane := enter(t.rng, &a.Lanes, a.Col, a.Row); lane >= 0 {
			a.Treasure[lane] = t.rng.Intn(asterixTreasure) == 0
		}
	}
	return reward, false
}

// touch takes a treasure in the player's cell. over says that an enemy is there.
func (a *asterix) touch() (reward float32, over bool) {
	lane := a.Row - 1
	if !a.Lanes[lane].at(a.Col) {
		return 0, false
	}
	if !a.Treasure[lane] {
		return 0, true
	}
	a.Lanes[lane] = mover{}
	return 1, false
}

func (a *asterix) draw(p planes) {
	p.set(asterixPlayer, a.Col, a.Row)
	for i := range a.Lanes {
		plane := asterixEnemy
		if a.Treasure[i] {
			plane = asterixGold
		}
		a.Lanes[i].draw(p, plane, asterixTrail, int8(i+1))
	}
}

func (a *asterix) valid(bool) bool {
	for i := range a.Lanes {
		if !a.Lanes[i].valid() {
			return false
		}
	}
	return onBoard(a.Col) && a.Row >= 1 && a.Row <= lanes && a.Moved < asterixMove && a.Entered < asterixEnter
}
