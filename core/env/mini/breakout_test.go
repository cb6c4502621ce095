package mini

import (
	"testing"

	"github.com/paceline-rl/paceline/core/rng"
)

const breakoutPlanes = 4

func TestBreakoutStarts(t *testing.T) {
	r, seen := rng.New(1, "env", 0), map[[2]int8]int{}
	for range 1600 {
		var b breakout
		b.start(r)
		seen[[2]int8{b.Col, b.DX}]++
		want(t, "start", b, breakout{Paddle: 4, Col: b.Col, Row: 4, DX: b.DX, DY: 1, Bricks: [3]uint16{1023, 1023, 1023}})
	}
	want(t, "starts", len(seen), 16)
	for at, n := range seen {
		if at[0] < 1 || at[0] > 8 || n < 60 || n > 140 {
			t.Errorf("column and direction %v: %d times", at, n)
		}
	}
}

func TestBreakoutPaddleStaysOnTheBoard(t *testing.T) {
	for _, x := range []struct {
		action   int32
		from, to int8
	}{{left, 4, 3}, {right, 4, 5}, {left, 0, 0}, {right, 8, 8}, {noop, 4, 4}, {up, 4, 4}, {down, 4, 4}, {fire, 4, 4}} {
		b := breakout{Paddle: x.from, Col: 5, Row: 5, DX: 1, DY: -1}
		must(t, &b, x.action, 0, false)
		want(t, "paddle", b.Paddle, x.to)
	}
}

func TestBreakoutBall(t *testing.T) {
	type ball [4]int8 // column, row, direction
	for _, x := range []struct {
		name     string
		from, to ball
		paddle   int8
		brick    [2]int8 // a brick's cell, removed by the step with reward 1; row 0: none
		over     bool
	}{
		{name: "diagonal", from: ball{5, 6, 1, -1}, to: ball{6, 5, 1, -1}},
		{name: "left wall", from: ball{0, 6, -1, -1}, to: ball{1, 5, 1, -1}},
		{name: "right wall", from: ball{9, 6, 1, 1}, to: ball{8, 7, -1, 1}},
		{name: "top", from: ball{4, 0, 1, -1}, to: ball{5, 1, 1, 1}},
		{name: "corner", from: ball{0, 0, -1, -1}, to: ball{1, 1, 1, 1}},
		{name: "brick from below", from: ball{5, 4, 1, -1}, to: ball{5, 4, 1, 1}, brick: [2]int8{6, 3}},
		{name: "brick from above", from: ball{5, 0, 1, -1}, to: ball{5, 0, 1, -1}, brick: [2]int8{6, 1}},
		{name: "brick at the wall", from: ball{0, 4, -1, -1}, to: ball{0, 4, -1, 1}, brick: [2]int8{1, 3}},
		{name: "left cell", from: ball{5, 8, -1, 1}, to: ball{4, 8, -1, -1}, paddle: 4},
		{name: "left cell from the left", from: ball{3, 8, 1, 1}, to: ball{4, 8, -1, -1}, paddle: 4},
		{name: "right cell", from: ball{4, 8, 1, 1}, to: ball{5, 8, 1, -1}, paddle: 4},
		{name: "right cell from the right", from: ball{6, 8, -1, 1}, to: ball{5, 8, 1, -1}, paddle: 4},
		{name: "right cell by the wall", from: ball{0, 8, -1, 1}, to: ball{1, 8, 1, -1}, paddle: 0},
		{name: "missed to the left", from: ball{2, 8, 1, 1}, to: ball{3, 9, 1, 1}, paddle: 4, over: true},
		{name: "missed to the right", from: ball{7, 8, -1, 1}, to: ball{6, 9, -1, 1}, paddle: 4, over: true},
	} {
		t.Run(x.name, func(t *testing.T) {
			// A brick that no step of this test reaches: the wall is not built again.
			b := &breakout{Paddle: x.paddle, Col: x.from[0], Row: x.from[1], DX: x.from[2], DY: x.from[3], Bricks: [3]uint16{0, 1 << 9, 0}}
			rest, reward := b.Bricks, float32(0)
			if x.brick[1] > 0 {
				b.Bricks[x.brick[1]-firstBrick] |= 1 << x.brick[0]
				reward = 1
			}
			must(t, b, noop, reward, x.over)
			want(t, "ball", ball{b.Col, b.Row, b.DX, b.DY}, x.to)
			want(t, "bricks", b.Bricks, rest)
		})
	}
}

// The paddle moves before the ball.
func TestBreakoutPaddleCatchesWithItsMovement(t *testing.T) {
	b := &breakout{Paddle: 5, Col: 5, Row: 8, DX: -1, DY: 1}
	must(t, b, left, 0, false)
	want(t, "direction", [2]int8{b.DX, b.DY}, [2]int8{-1, -1})
}

func TestBreakoutNextWall(t *testing.T) {
	b := &breakout{Paddle: 4, Col: 5, Row: 4, DX: -1, DY: -1, Bricks: [3]uint16{0, 0, 1 << 4}}
	must(t, b, noop, 1, false)
	for b.Row < bottom-1 {
		want(t, "bricks", b.Bricks, [3]uint16{})
		must(t, b, noop, 0, false)
	}
	b.Paddle = b.Col - 1
	must(t, b, noop, 0, false)
	want(t, "bricks", b.Bricks, [3]uint16{1023, 1023, 1023})
}

// The ball reaches every brick: a paddle that follows it shoots down whole walls. The trail shows
// the direction of the ball in every state.
func TestBreakoutWallsCanBeShotDown(t *testing.T) {
	r := rng.New(2, "env", 0)
	var b breakout
	b.start(r)
	total, best := float32(0), 30
	for range 20_000 {
		reward, over := b.step(&turn{action: follow(&b, r), rng: r})
		if total += reward; over {
			t.Fatal("the paddle missed the ball")
		}
		left := 0
		for col := range int8(side) {
			for row := range int8(side) {
				if b.stands(col, row) {
					left++
				}
			}
		}
		best = min(best, left)
		var p planes = make([]byte, breakoutPlanes*side*side)
		b.draw(p)
		if p.count(breakoutTrail) != 1 || p[(breakoutTrail*side+int(b.Row-b.DY))*side+int(b.Col-b.DX)] == 0 {
			t.Fatalf("%+v: the trail is not behind the ball", b)
		}
	}
	if best > 0 || total < 300 {
		t.Errorf("at least %d bricks were left, %v were shot down", best, total)
	}
}

// follow returns the action of a paddle that is under the ball's next column, with either cell.
func follow(b *breakout, r *rng.Stream) int32 {
	next := b.Col + b.DX
	if !onBoard(next) {
		next = b.Col - b.DX
	}
	switch paddle := next - int8(r.Intn(2)); {
	case b.Row < bottom-1 && (b.Paddle == next || b.Paddle+1 == next):
		return noop
	case b.Row == bottom-1 && (b.Paddle == next || b.Paddle+1 == next) && (paddle == b.Paddle || paddle < 0 || paddle > side-2):
		return noop
	case paddle < b.Paddle:
		return left
	case paddle > b.Paddle:
		return right
	}
	return noop
}

func TestBreakoutPlanes(t *testing.T) {
	b := &breakout{Paddle: 7, Col: 3, Row: 5, DX: 1, DY: -1, Bricks: [3]uint16{1, 0, 1<<9 | 1<<2}}
	for plane, cellsOf := range []string{"7,9 8,9", "3,5", "2,6", "0,1 2,3 9,3"} {
		want(t, "plane", cells(b, breakoutPlanes, plane), cellsOf)
	}
}
