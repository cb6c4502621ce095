package mini

import (
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/rng"
)

const asterixPlanes = 4

func TestAsterixPlayerMovesInFourDirectionsWithinTheLanes(t *testing.T) {
	var a asterix
	a.start(nil)
	want(t, "start", a, asterix{Col: 5, Row: 5})
	for _, x := range []struct {
		action           int32
		col, row, to, at int8
	}{
		{noop, 5, 5, 5, 5}, {left, 5, 5, 4, 5}, {right, 5, 5, 6, 5}, {up, 5, 5, 5, 4}, {down, 5, 5, 5, 6}, {fire, 5, 5, 5, 5},
		{left, 0, 5, 0, 5}, {right, 9, 5, 9, 5}, {up, 5, 1, 5, 1}, {down, 5, 8, 5, 8},
	} {
		a = asterix{Col: x.col, Row: x.row}
		must(t, &a, x.action, 0, false)
		want(t, "player", [2]int8{a.Col, a.Row}, [2]int8{x.to, x.at})
	}
}

func TestAsterixContacts(t *testing.T) {
	object := func(col, dir int8, treasure bool) *asterix {
		a := &asterix{Col: 5, Row: 3}
		a.Lanes[2], a.Treasure[2] = mover{col, dir}, treasure
		return a
	}
	for _, treasure := range []bool{true, false} {
		reward := map[bool]float32{true: 1}[treasure]
		for _, dir := range []int8{-1, 1} { // the player moves into the object, also against it
			a := object(4, dir, treasure)
			must(t, a, left, reward, !treasure)
			want(t, "objects left", a.Lanes[2] != mover{}, !treasure)
		}
		a := object(4, 1, treasure) // the object moves into the player
		a.Moved = asterixMove - 1
		must(t, a, noop, reward, !treasure)
		want(t, "objects left", a.Lanes[2] != mover{}, !treasure)

		a = object(4, 1, treasure) // not in other lanes
		a.Row, a.Moved = 4, asterixMove-1
		must(t, a, noop, 0, false)
	}
}

func TestAsterixObjectsMoveAndLeave(t *testing.T) {
	a := &asterix{Col: 5, Row: 8}
	a.Lanes[0], a.Lanes[1] = mover{7, 1}, mover{2, -1}
	a.Entered = 0
	got := intervals(12, func() { a.Entered = 0; must(t, a, noop, 0, false) }, func() [2]mover { return [2]mover{a.Lanes[0], a.Lanes[1]} })
	if !slices.Equal(got, []int{4, 4, 4}) {
		t.Errorf("steps between movements: %v, want 4", got)
	}
	want(t, "objects", [2]mover{a.Lanes[0], a.Lanes[1]}, [2]mover{}) // 8, 9, gone; 1, 0, gone
}

func TestAsterixObjectsEnter(t *testing.T) {
	// Objects do not move in this test, so the eight lanes are full at the end.
	a := &asterix{Col: 5, Row: 5}
	count := func() (n int) {
		for _, m := range a.Lanes {
			if m.Dir != 0 {
				n++
			}
		}
		return n
	}
	got := intervals(80, func() { a.Moved = 0; must(t, a, noop, 0, false) }, count)
	if !slices.Equal(got, slices.Repeat([]int{8}, 8)) {
		t.Errorf("steps between objects: %v, want 8 times 8", got)
	}
	treasures := 0
	r := rng.New(4, "env", 0)
	for range 3000 {
		a := &asterix{Col: 5, Row: 5, Entered: asterixEnter - 1}
		a.step(&turn{rng: r})
		if slices.Contains(a.Treasure[:], true) {
			treasures++
		}
	}
	if treasures < 900 || treasures > 1100 {
		t.Errorf("%d of 3000 objects are treasures, want a third", treasures)
	}
}

func TestAsterixRamping(t *testing.T) {
	r := rng.New(5, "env", 0)
	for _, ramping := range []bool{true, false} {
		for level := range 9 {
			k := min(level, 6)
			if !ramping {
				k = 0
			}
			for _, steps := range []int{level * 200, level*200 + 199} {
				a, at := &asterix{Col: 5, Row: 8}, turn{steps: steps, ramping: ramping, rng: r}
				got := intervals(8, func() { a.Lanes = [lanes]mover{}; a.step(&at) }, func() bool { return a.Lanes != [lanes]mover{} })
				want(t, "steps before an object", got[0], 8-k)
				a = &asterix{Col: 5, Row: 8, Lanes: [lanes]mover{{5, 1}}}
				got = intervals(4, func() { a.Entered = 0; a.step(&at) }, func() int8 { return a.Lanes[0].Col })
				want(t, "steps before a movement", got[0], []int{4, 4, 3, 3, 2, 2, 1}[k])
			}
		}
	}
}

func TestAsterixPlanes(t *testing.T) {
	a := &asterix{Col: 3, Row: 4}
	a.Lanes[0], a.Lanes[2], a.Lanes[7] = mover{0, 1}, mover{5, 1}, mover{7, -1}
	a.Treasure[2] = true
	for plane, cellsOf := range []string{"3,4", "0,1 7,8", "4,3 8,8", "5,3"} {
		want(t, "plane", cells(a, asterixPlanes, plane), cellsOf)
	}
}
