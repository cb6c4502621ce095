package mini

import (
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/rng"
)

const seaquestPlanes = 10

// diving is a submarine in row 4, column 4, that faces right.
func diving() *seaquest {
	s := new(seaquest)
	s.start(nil)
	return s
}

// calm plays a step in which nothing enters.
func calm(t *testing.T, s *seaquest, action int32, reward float32, over bool) {
	t.Helper()
	s.EnemyEntered, s.DiverEntered = 0, 0
	must(t, s, action, reward, over)
}

func TestSeaquestSubmarineMoves(t *testing.T) {
	want(t, "start", *diving(), seaquest{Col: 4, Row: 4, Dir: 1, Air: 240})
	for _, x := range []struct {
		action int32
		from   [3]int8 // column, row, direction
		to     [3]int8
	}{
		{noop, [3]int8{4, 4, 1}, [3]int8{4, 4, 1}}, {right, [3]int8{4, 4, 1}, [3]int8{5, 4, 1}}, {left, [3]int8{4, 4, 1}, [3]int8{3, 4, -1}},
		{up, [3]int8{4, 4, -1}, [3]int8{4, 3, -1}}, {down, [3]int8{4, 4, 1}, [3]int8{4, 5, 1}}, {fire, [3]int8{4, 4, -1}, [3]int8{4, 4, -1}},
		{left, [3]int8{0, 4, 1}, [3]int8{0, 4, -1}}, {right, [3]int8{9, 4, 1}, [3]int8{9, 4, 1}},
		{down, [3]int8{4, 8, 1}, [3]int8{4, 8, 1}}, {up, [3]int8{4, 0, 1}, [3]int8{4, 0, 1}},
	} {
		s := diving()
		s.Col, s.Row, s.Dir = x.from[0], x.from[1], x.from[2]
		calm(t, s, x.action, 0, false)
		want(t, "submarine", [3]int8{s.Col, s.Row, s.Dir}, x.to)
	}
}

func TestSeaquestShots(t *testing.T) {
	for _, dir := range []int8{-1, 1} {
		s := diving()
		s.Dir = dir
		calm(t, s, fire, 0, false)
		want(t, "shot", cells(s, seaquestPlanes, seaShot), map[int8]string{-1: "3,4", 1: "5,4"}[dir])
		calm(t, s, down, 0, false)
		want(t, "shot", cells(s, seaquestPlanes, seaShot), map[int8]string{-1: "2,4", 1: "6,4"}[dir])
		for range 5 {
			calm(t, s, noop, 0, false)
		}
		want(t, "shots", s.Shots, [maxShots]mover{})
	}
	s := diving() // one every 4 steps, from one end of the board to the other
	s.Col = 0
	fired := 0
	for k := range 41 {
		before := s.Reload
		calm(t, s, fire, 0, false)
		if s.Reload > before {
			want(t, "step", k, 4*fired)
			fired++
		}
	}
	want(t, "shots fired", fired, 11)
	s = diving() // no cell ahead
	s.Col = 9
	calm(t, s, fire, 0, false)
	want(t, "shots", s.Shots, [maxShots]mover{})
	want(t, "steps until the next shot", s.Reload, 0)
}

func TestSeaquestShotsRemoveEnemies(t *testing.T) {
	for _, sub := range []bool{false, true} {
		s := diving() // at once
		s.Enemies[3], s.Subs[3], s.Reloads[3] = mover{5, -1}, sub, 8
		calm(t, s, fire, 1, false)
		want(t, "enemy", s.Enemies[3], mover{})
		want(t, "shots", s.Shots, [maxShots]mover{})

		for gap := int8(2); gap < 5; gap++ { // a shot and an enemy never pass through each other
			s = diving()
			s.Enemies[3], s.Subs[3], s.Reloads[3] = mover{4 + gap, -1}, sub, 8
			total := float32(0)
			for k := range 5 {
				s.EnemiesMoved = enemyMove - 1 // the enemy moves in each step
				s.Reloads[3] = 8
				reward, over := play(s, []int32{fire, noop}[min(k, 1)])
				if total += reward; over {
					t.Fatal("the enemy came through")
				}
			}
			want(t, "reward", total, 1)
		}
		s = diving() // in another row, and at the surface
		s.Enemies[4], s.Subs[4], s.Reloads[4] = mover{5, 1}, sub, 8
		calm(t, s, fire, 0, false)
		s = diving()
		s.Row, s.Enemies[0], s.Reloads[0] = 0, mover{5, 1}, 8
		calm(t, s, fire, 0, false)
	}
}

func TestSeaquestEnemiesEnterIntoShots(t *testing.T) {
	s := diving()
	s.Row, s.EnemyEntered = 1, enemyEnter-1
	for lane := range s.Enemies[1:] { // so that the enemy enters in row 1
		s.Enemies[lane+1] = mover{0, 1}
	}
	s.Shots = [maxShots]mover{{1, -1}, {8, 1}} // in the columns at the edges when it does
	s.ShotRows = [maxShots]int8{1, 1}
	must(t, s, noop, 1, false)
	want(t, "enemy", s.Enemies[0], mover{})
}

func TestSeaquestContactsEndTheEpisode(t *testing.T) {
	for _, action := range []int32{noop, right} {
		s := diving() // an enemy moves, or the submarine
		s.Enemies[3], s.EnemiesMoved = mover{5, -1}, enemyMove-1
		calm(t, s, action, 0, true)
		s = diving() // the same with a shot
		s.EnemyShots[3] = mover{5, -1}
		calm(t, s, action, 0, true)
	}
	s := diving() // the back cannot be touched
	s.Enemies[3] = mover{3, -1}
	calm(t, s, noop, 0, false)
	s = diving() // a reward of the last step counts
	s.Shots[0], s.ShotRows[0], s.Enemies[0], s.Enemies[3] = mover{2, 1}, 1, mover{3, 1}, mover{5, -1}
	calm(t, s, right, 1, true)
}

func TestSeaquestDivers(t *testing.T) {
	s := diving()
	s.Divers[3], s.Divers[4] = mover{5, 1}, mover{5, -1}
	calm(t, s, right, 0, false)
	want(t, "on board", s.Aboard, 1)
	want(t, "divers", [2]mover{s.Divers[3], s.Divers[4]}, [2]mover{{}, {5, -1}})

	s.Divers[3], s.DiversMoved = mover{6, -1}, diverMove-1 // the diver comes
	calm(t, s, noop, 0, false)
	want(t, "on board", s.Aboard, 2)

	s.Aboard, s.Divers[3] = 6, mover{6, 1} // no seventh
	calm(t, s, right, 0, false)
	want(t, "on board", s.Aboard, 6)
	want(t, "diver", s.Divers[3], mover{6, 1})

	s = diving()
	s.Divers[0] = mover{0, 1}
	got := intervals(10, func() { calm(t, s, noop, 0, false) }, func() int8 { return s.Divers[0].Col })
	if !slices.Equal(got, []int{5, 5}) {
		t.Errorf("steps between movements: %v, want 5, 5", got)
	}
}

func TestSeaquestAir(t *testing.T) {
	s := diving()
	for k := 1; k < 240; k++ {
		calm(t, s, noop, 0, false)
		want(t, "gauge", int(s.gauge()), (240-k+23)/24)
	}
	calm(t, s, noop, 0, true)

	s = diving() // also at the surface
	s.Row, s.Air = 0, 2
	calm(t, s, up, 0, false)
	calm(t, s, noop, 0, true)
}

func TestSeaquestSurfacing(t *testing.T) {
	for aboard := uint8(0); aboard <= 6; aboard++ {
		s := diving()
		s.Row, s.Aboard, s.Air = 1, aboard, 49 // three cells of the gauge
		rest := max(aboard, 1) - 1
		reward := float32(0)
		if aboard == 6 {
			rest, reward = 0, 3
		}
		calm(t, s, up, reward, aboard == 0)
		want(t, "on board", s.Aboard, rest)
		want(t, "row", s.Row, 0)
		if aboard > 0 {
			want(t, "air", s.Air, 239)
			calm(t, s, up, 0, false) // a stay
			want(t, "air and divers", [2]uint8{s.Air, s.Aboard}, [2]uint8{238, rest})
		}
	}
	s := diving() // with the last step of air
	s.Row, s.Aboard, s.Air = 1, 1, 1
	calm(t, s, up, 0, false)
}

func TestSeaquestEnemies(t *testing.T) {
	r, subs, lanesSeen := rng.New(6, "env", 0), 0, map[int]bool{}
	for range 3000 {
		s := diving()
		s.EnemyEntered, s.DiverEntered = enemyEnter-1, 0
		s.Reloads = [lanes]uint8{8, 8, 8, 8, 8, 8, 8, 8}
		s.step(&turn{rng: r})
		i := slices.IndexFunc(s.Enemies[:], func(m mover) bool { return m.Dir != 0 })
		want(t, "steps until it shoots", s.Reloads[i], 0)
		lanesSeen[i] = true
		if s.Subs[i] {
			subs++
		}
	}
	want(t, "rows", len(lanesSeen), 8)
	if subs < 900 || subs > 1100 {
		t.Errorf("%d of 3000 enemies are submarines, want a third", subs)
	}
	s := diving() // enemies, every 12 steps, and divers, every 25, enter until the rows are full
	number := func(movers *[lanes]mover) func() int {
		return func() (n int) {
			for _, m := range movers {
				if m.Dir != 0 {
					n++
				}
			}
			return n
		}
	}
	advance := func() {
		s.EnemiesMoved, s.DiversMoved, s.Air, s.Subs = 0, 0, 240, [lanes]bool{}
		must(t, s, noop, 0, false)
	}
	if got := intervals(110, advance, number(&s.Enemies)); !slices.Equal(got, slices.Repeat([]int{12}, 8)) {
		t.Errorf("steps between enemies: %v, want 8 times 12", got)
	}
	s = diving()
	if got := intervals(210, advance, number(&s.Divers)); !slices.Equal(got, slices.Repeat([]int{25}, 8)) {
		t.Errorf("steps between divers: %v, want 8 times 25", got)
	}
}

func TestSeaquestRamping(t *testing.T) {
	r := rng.New(5, "env", 0)
	for _, ramping := range []bool{true, false} {
		s, at := diving(), turn{ramping: ramping, rng: r}
		for surfaced := range 11 {
			k := min(surfaced, 8)
			if !ramping {
				k = 0
			}
			s.EnemyEntered, s.EnemiesMoved, s.DiverEntered = 0, 0, 0
			got := intervals(12, func() { s.Enemies = [lanes]mover{}; s.step(&at) }, func() bool { return s.Enemies != [lanes]mover{} })
			want(t, "steps before an enemy", got[0], 12-k)
			s.Enemies, s.Subs, s.EnemiesMoved = [lanes]mover{7: {5, 1}}, [lanes]bool{}, 0
			got = intervals(4, func() { s.EnemyEntered = 0; s.step(&at) }, func() int8 { return s.Enemies[7].Col })
			want(t, "steps before a movement", got[0], []int{4, 4, 3, 3, 2, 2, 2, 2, 2}[k])
			s.Row, s.Aboard, s.Enemies, s.EnemyShots = 1, 2, [lanes]mover{}, [lanes]mover{}
			at.action = up
			s.step(&at)
			at.action, s.Row = noop, 4
		}
	}
}

func TestSeaquestEnemySubmarinesShoot(t *testing.T) {
	sub := func() *seaquest {
		s := diving()
		s.Enemies[0], s.Subs[0] = mover{2, 1}, true
		return s
	}
	s := sub() // the step after it has entered
	calm(t, s, noop, 0, false)
	want(t, "shot", s.EnemyShots[0], mover{3, 1})
	calm(t, s, noop, 0, false)
	want(t, "shot", s.EnemyShots[0], mover{4, 1})

	s = sub() // then every 8 steps
	got := intervals(17, func() {
		s.EnemiesMoved, s.EnemyShots = 0, [lanes]mover{}
		calm(t, s, noop, 0, false)
	}, func() bool { return s.EnemyShots[0].Dir != 0 })
	if !slices.Equal(got, []int{1, 1, 7, 1, 7}) {
		t.Errorf("steps at which a shot begins and ends: %v, want 1, 1, 7, 1, 7", got)
	}
	for name, wait := range map[string]func(s *seaquest){
		"fish":                      func(s *seaquest) { s.Subs[0] = false },
		"a shot in the row":         func(s *seaquest) { s.EnemyShots[0] = mover{7, -1} },
		"the edge ahead":            func(s *seaquest) { s.Enemies[0].Col = 9 },
		"the submarine ahead":       func(s *seaquest) { s.Row, s.Col = 1, 3 },
		"steps until the next shot": func(s *seaquest) { s.Reloads[0] = 2 },
	} {
		s = sub()
		wait(s)
		calm(t, s, noop, 0, false)
		if s.EnemyShots[0].Dir == 1 {
			t.Errorf("%s: it shoots", name)
		}
	}
	s = sub() // a shot outlives its submarine
	s.EnemyShots[0], s.Enemies[0] = mover{4, 1}, mover{}
	calm(t, s, noop, 0, false)
	want(t, "shot", s.EnemyShots[0], mover{5, 1})
}

func TestSeaquestPlanes(t *testing.T) {
	s := diving()
	s.Air, s.Aboard = 25, 3
	s.Shots[1], s.ShotRows[1] = mover{8, 1}, 2
	s.Enemies[0], s.Enemies[6], s.Subs[6] = mover{0, 1}, mover{6, -1}, true
	s.EnemyShots[6], s.Divers[7] = mover{2, -1}, mover{9, 1}
	for plane, cellsOf := range []string{"4,4", "3,4", "8,2", "7,7 8,8", "2,7", "0,1", "6,7", "0,9 1,9 2,9", "0,9 1,9", "9,8"} {
		want(t, "plane", cells(s, seaquestPlanes, plane), cellsOf)
	}
	s.Col, s.Dir = 9, -1
	want(t, "back off the board", cells(s, seaquestPlanes, seaBack), "")
}
