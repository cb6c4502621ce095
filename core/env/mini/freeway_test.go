package mini

import (
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/rng"
)

const freewayPlanes = 7

// parked has cars that do not come to the chicken's column in the first steps.
func parked(row int8) *freeway {
	f := &freeway{Row: row}
	for i := range f.Cars {
		f.Cars[i] = car{Col: 9, Dir: 1, Every: 5}
	}
	return f
}

func TestFreewayStarts(t *testing.T) {
	r, columns, speeds := rng.New(1, "env", 0), map[int8]int{}, map[[2]int8]int{}
	for range 500 {
		var f freeway
		f.start(r)
		want(t, "row", f.Row, 9)
		for _, c := range f.Cars {
			columns[c.Col]++
			speeds[[2]int8{c.Dir, int8(c.Every)}]++
		}
	}
	if len(columns) != 10 || len(speeds) != 10 {
		t.Fatalf("columns %v, directions and speeds %v", columns, speeds)
	}
	for _, n := range columns { // of 3000 cars
		if n < 220 || n > 380 {
			t.Errorf("columns: %v", columns)
		}
	}
	for at, n := range speeds {
		if want := 100 * int(at[1]); n < want-65 || n > want+65 {
			t.Errorf("directions and speeds: %v", speeds)
		}
	}
}

func TestFreewayChickenMovesEveryThreeSteps(t *testing.T) {
	f := parked(9)
	got := intervals(9, func() { f.Cars = parked(9).Cars; must(t, f, up, 0, false) }, func() int8 { return f.Row })
	if !slices.Equal(got, []int{1, 3, 3}) {
		t.Errorf("steps between movements: %v, want 1, 3, 3", got)
	}
	f.Rest = 0
	must(t, f, down, 0, false)
	want(t, "row", f.Row, 7)
	for _, action := range []int32{noop, left, right, fire} {
		f.Rest = 0
		must(t, f, action, 0, false)
		want(t, "row", f.Row, 7)
	}
	f = parked(9) // at the bottom down does nothing, and the chicken need not rest
	must(t, f, down, 0, false)
	must(t, f, up, 0, false)
	want(t, "row", f.Row, 8)
}

func TestFreewayTopPaysAndChangesSpeeds(t *testing.T) {
	f := parked(1)
	must(t, f, up, 1, false)
	want(t, "row", f.Row, 9)
	changed := 0
	for _, c := range f.Cars {
		if c.Dir != 1 || c.Every != 5 {
			changed++
		}
		if at := (c.Col - 9 + 10) % 10; at > 1 && at < 9 {
			t.Errorf("a car went from column 9 to %d", c.Col)
		}
	}
	if changed < 3 {
		t.Errorf("%d of 6 cars have another speed", changed)
	}
	for _, c := range f.Cars {
		want(t, "steps since a car moved", c.Moved, 1%c.Every) // this step counts
	}
	must(t, f, up, 0, false) // it rests at the bottom, too
	want(t, "row", f.Row, 9)
}

func TestFreewayCarsReturnTheChicken(t *testing.T) {
	f := parked(4) // the chicken goes in front of a car, in row 3
	f.Cars[2] = car{Col: chickenCol, Dir: 1, Every: 5}
	must(t, f, up, 0, false)
	want(t, "row", f.Row, 9)
	for dir, col := range map[int8]int8{1: chickenCol - 1, -1: chickenCol + 1} { // the car comes
		f = parked(6)
		f.Cars[3] = car{Col: col, Dir: dir, Every: 1}
		must(t, f, noop, 0, false)
		want(t, "row", f.Row, 9)
	}
	f = parked(4) // a car that drives on as the chicken comes
	f.Cars[2] = car{Col: chickenCol, Dir: 1, Every: 1}
	must(t, f, up, 0, false)
	want(t, "row", f.Row, 9)
	f = parked(5) // not in another row
	for i := range f.Cars {
		f.Cars[i] = car{Col: chickenCol, Dir: 1, Every: 5}
	}
	must(t, f, up, 0, false)
	want(t, "row", f.Row, 4)
}

func TestFreewayCarsMove(t *testing.T) {
	for every := 1; every <= 5; every++ {
		for _, dir := range []int8{-1, 1} {
			f := parked(9)
			f.Cars[5] = car{Col: 0, Dir: dir, Every: uint8(every)}
			got := intervals(10*every, func() { must(t, f, noop, 0, false) }, func() int8 { return f.Cars[5].Col })
			if !slices.Equal(got, slices.Repeat([]int{every}, 10)) || f.Cars[5].Col != 0 {
				t.Errorf("steps between movements: %v, want %d; column %d", got, every, f.Cars[5].Col)
			}
		}
	}
	f := parked(9)
	f.Cars[0], f.Cars[1] = car{Col: 9, Dir: 1, Every: 1}, car{Col: 0, Dir: -1, Every: 1}
	must(t, f, noop, 0, false)
	want(t, "columns", [2]int8{f.Cars[0].Col, f.Cars[1].Col}, [2]int8{0, 9})
}

func TestFreewayPlanes(t *testing.T) {
	f := parked(6)
	f.Cars = [6]car{{Col: 3, Dir: 1, Every: 1}, {Col: 3, Dir: -1, Every: 2}, {Col: 0, Dir: 1, Every: 3},
		{Col: 9, Dir: -1, Every: 4}, {Col: 5, Dir: 1, Every: 5}, {Col: 5, Dir: -1, Every: 1}}
	for plane, cellsOf := range []string{"4,6", "3,1 3,2 0,3 9,6 5,7 5,8", "2,1 6,8", "4,2", "9,3", "0,6", "4,7"} {
		want(t, "plane", cells(f, freewayPlanes, plane), cellsOf)
	}
}
