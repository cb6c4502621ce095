package mini

import (
	"math/bits"
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/rng"
)

const invadersPlanes = 6

// invasion is a block that moves to the right, at the start of an episode.
func invasion() *invaders {
	s := new(invaders)
	s.start(rng.New(1, "env", 0))
	s.Dir = 1
	return s
}

// quiet plays a step in which aliens neither move nor shoot.
func quiet(t *testing.T, s *invaders, action int32, reward float32, over bool) {
	t.Helper()
	s.Moved, s.Fired = 0, 0
	must(t, s, action, reward, over)
}

func TestInvadersStart(t *testing.T) {
	r, directions := rng.New(1, "env", 0), map[int8]int{}
	for range 1000 {
		var s invaders
		s.start(r)
		directions[s.Dir]++
		want(t, "start", s, invaders{Cannon: 4, Dir: s.Dir, Aliens: [side]uint16{0xfc, 0xfc, 0xfc, 0xfc}})
	}
	if directions[1] < 420 || directions[-1] < 420 {
		t.Errorf("directions: %v", directions)
	}
}

func TestInvadersCannonMoves(t *testing.T) {
	for _, x := range []struct {
		action   int32
		from, to int8
	}{{left, 4, 3}, {right, 4, 5}, {left, 0, 0}, {right, 9, 9}, {noop, 4, 4}, {up, 4, 4}, {down, 4, 4}, {fire, 4, 4}} {
		s := invasion()
		s.Cannon = x.from
		quiet(t, s, x.action, 0, false)
		want(t, "cannon", s.Cannon, x.to)
	}
}

func TestInvadersShots(t *testing.T) {
	s := invasion()
	quiet(t, s, fire, 0, false)
	want(t, "shot", cells(s, invadersPlanes, invadersShot), "4,8")
	quiet(t, s, left, 0, false)
	want(t, "shot", cells(s, invadersPlanes, invadersShot), "4,7")
	for range 3 {
		quiet(t, s, left, 0, false)
	}
	quiet(t, s, left, 1, false) // in row 3
	want(t, "shot", cells(s, invadersPlanes, invadersShot), "")
	want(t, "aliens", s.Aliens, [side]uint16{0xfc, 0xfc, 0xfc, 0xfc &^ 0x10})

	s = invasion() // one every 4 steps; shots of empty columns leave the board
	s.Cannon = 0
	fired := 0
	for k := range 41 {
		before := s.Reload
		quiet(t, s, fire, 0, false)
		if s.Reload > before {
			want(t, "step", k, 4*fired)
			fired++
		}
	}
	want(t, "shots fired", fired, 11)
	want(t, "shots", cells(s, invadersPlanes, invadersShot), "0,0 0,4 0,8")

	s = invasion() // at once, and shots of both sides pass through each other
	s.Aliens[8] = 1 << 4
	quiet(t, s, fire, 1, false)
	s = invasion()
	s.Shots[7], s.AlienShots[6] = 1, 1
	quiet(t, s, noop, 0, false)
	want(t, "shots", [2]uint16{s.Shots[6], s.AlienShots[7]}, [2]uint16{1, 1})
	s = invasion() // two aliens in one step
	s.Shots[4] = 0b110000
	quiet(t, s, noop, 2, false)
}

func TestInvadersBlockMoves(t *testing.T) {
	for _, dir := range []int8{1, -1} {
		s := invasion()
		s.Dir, s.Cannon = dir, map[int8]int8{1: 0, -1: 9}[dir]
		got := intervals(40, func() { s.Fired = 0; must(t, s, noop, 0, false) }, func() [side]uint16 { return s.Aliens })
		if !slices.Equal(got, []int{10, 10, 10, 10}) {
			t.Errorf("steps between movements: %v, want 4 times 10", got)
		}
		// Two steps to the edge, then down, then back.
		row := map[int8]uint16{1: 0x1f8, -1: 0x7e}[dir]
		want(t, "aliens", s.Aliens, [side]uint16{0, row, row, row, row})
		want(t, "direction", s.Dir, -dir)
	}
}

func TestInvadersBecomeFaster(t *testing.T) {
	for left := 1; left <= 24; left++ {
		s := invasion()
		s.Aliens, s.Cannon = [side]uint16{}, 9
		for k := range left {
			s.Aliens[k/6] |= 1 << (2 + k%6)
		}
		got := intervals(10, func() { s.Fired = 0; must(t, s, noop, 0, false) }, func() [side]uint16 { return s.Aliens })
		want(t, "steps before a movement", got[0], min(left, 10))
	}
}

func TestInvadersNextBlock(t *testing.T) {
	for _, ramping := range []bool{true, false} {
		s, at := invasion(), turn{ramping: ramping, rng: rng.New(1, "env", 0)}
		for block := range 9 {
			n := 10
			if ramping {
				n = max(10-block, 4)
			}
			got := intervals(10, func() { s.Fired = 0; s.step(&at) }, func() [side]uint16 { return s.Aliens })
			if block > 0 {
				n-- // the step in which a shot removed the last alien counts
			}
			want(t, "steps before a movement", got[0], n)
			// The last alien is hit; another shot disappears, and an alien's shot remains.
			s.Aliens, s.Shots, s.AlienShots = [side]uint16{5: 1 << 7}, [side]uint16{3: 1, 6: 1 << 7}, [side]uint16{2: 1}
			if reward, over := s.step(&at); reward != 1 || over {
				t.Fatalf("reward %v, over %v", reward, over)
			}
			want(t, "aliens", s.Aliens, [side]uint16{0xfc, 0xfc, 0xfc, 0xfc})
			want(t, "shots", s.Shots, [side]uint16{})
			want(t, "alien shots", s.AlienShots[3], 1)
		}
	}
	s := invasion() // the last alien moves into a shot
	s.Aliens, s.Shots = [side]uint16{5: 1 << 6}, [side]uint16{6: 1 << 7}
	must(t, s, noop, 1, false)
	got := intervals(10, func() { must(t, s, noop, 0, false) }, func() [side]uint16 { return s.Aliens })
	want(t, "steps before a movement", got[0], 10)
}

func TestInvadersAliensShoot(t *testing.T) {
	s := invasion()
	s.Cannon = 9
	got := intervals(18, func() { s.Moved, s.AlienShots = 0, [side]uint16{}; must(t, s, noop, 0, false) }, func() bool { return s.AlienShots != [side]uint16{} })
	if !slices.Equal(got, []int{6, 1, 5, 1, 5}) {
		t.Errorf("steps at which a shot begins and ends: %v, want 6, 1, 5, 1, 5", got)
	}
	r, columns := rng.New(2, "env", 0), map[int]int{}
	for range 3000 {
		s := &invaders{Cannon: 9, Dir: 1, Aliens: [side]uint16{2: 0b10101, 4: 0b00100}, Fired: alienShotEvery - 1}
		s.step(&turn{rng: r})
		for row, shots := range s.AlienShots {
			if shots != 0 {
				column := bits.TrailingZeros16(shots)
				want(t, "row", row, []int{3, 0, 5, 0, 3}[column])
				columns[column]++
			}
		}
	}
	if len(columns) != 3 || min(columns[0], columns[2], columns[4]) < 900 {
		t.Errorf("shots of columns 0, 2 and 4: %v, want a third each", columns)
	}
	s = invasion() // down by one cell a step, and off the board
	s.AlienShots[0] = 1
	for row := 1; row < side; row++ {
		quiet(t, s, noop, 0, false)
		want(t, "alien shots", s.AlienShots[row], 1)
	}
	quiet(t, s, noop, 0, false)
	want(t, "alien shots", s.AlienShots, [side]uint16{})

	s = &invaders{Cannon: 4, Dir: 1, Aliens: [side]uint16{8: 1 << 4}} // not from row 8
	s.Fired = alienShotEvery - 1
	s.alienShoots(rng.New(1, "env", 0))
	want(t, "alien shots", s.AlienShots, [side]uint16{})
}

func TestInvadersEnds(t *testing.T) {
	s := invasion() // a shot comes, or the cannon moves into it
	s.AlienShots[8] = 1 << 4
	quiet(t, s, noop, 0, true)
	s = invasion()
	s.AlienShots[9] = 1 << 5
	quiet(t, s, right, 0, true)
	s = invasion() // beside the cannon
	s.AlienShots[8] = 1 << 5
	quiet(t, s, noop, 0, false)
	s = &invaders{Cannon: 9, Dir: -1, Aliens: [side]uint16{8: 1}} // an alien in the bottom row
	must(t, s, noop, 0, true)
}

func TestInvadersPlanes(t *testing.T) {
	s := &invaders{Cannon: 6, Dir: -1, Aliens: [side]uint16{1: 0b11}, Shots: [side]uint16{5: 1 << 6}, AlienShots: [side]uint16{4: 1, 9: 1}}
	for plane, cellsOf := range []string{"6,9", "0,1 1,1", "0,1 1,1", "", "6,5", "0,4 0,9"} {
		want(t, "plane", cells(s, invadersPlanes, plane), cellsOf)
	}
	s.Dir = 1
	want(t, "left", cells(s, invadersPlanes, invadersLeft), "")
	want(t, "right", cells(s, invadersPlanes, invadersRight), "0,1 1,1")
}
