package pixel

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
)

const obsBytes = depth * frameSize

// reset and step fail the test on errors.

func reset(t *testing.T, e env.Env, obs []byte) {
	t.Helper()
	if err := e.Reset(obs); err != nil {
		t.Fatal(err)
	}
}

func step(t *testing.T, e env.Env, action int32, obs []byte) (float32, env.End) {
	t.Helper()
	reward, end, err := e.Step(action, obs)
	if err != nil {
		t.Fatal(err)
	}
	return reward, end
}

// toward returns the action that moves the paddle towards a column.
func toward(g *game, column int) int32 {
	switch {
	case column < g.paddle:
		return left
	case column > g.paddle:
		return right
	}
	return stay
}

// paint draws a board pixel by pixel; level returns the grey level of a cell.
func paint(cells, cell int, level func(column, row int) byte) []byte {
	frame := make([]byte, frameSize)
	margin := (side - cells*cell) / 2
	for y := range cells * cell {
		for x := range cells * cell {
			frame[(margin+y)*side+margin+x] = level(x/cell, y/cell)
		}
	}
	return frame
}

func (c *Catch) paint() []byte {
	return paint(12, 7, func(column, row int) byte {
		switch {
		case column == c.column && row == c.row:
			return ball
		case row == 11 && column >= c.paddle-1 && column <= c.paddle+1:
			return paddle
		}
		return 0
	})
}

func (b *Bricks) paint() []byte {
	return paint(10, 8, func(column, row int) byte {
		switch {
		case column == b.x && row == b.y:
			return ball
		case row == 9 && column >= b.paddle-1 && column <= b.paddle+1:
			return paddle
		case row >= 1 && row <= 3 && b.wall>>(10*(row-1)+column)&1 == 1:
			return brick
		}
		return 0
	})
}

// Observations equal the last four frames, oldest first, painted from scratch. Frames before the
// episode are black. The old contents of the caller's memory do not matter.
func TestObservationsAreTheLastFourFrames(t *testing.T) {
	catch, bricks := NewCatch(), NewBricks()
	for _, x := range []struct {
		env   env.Env
		game  *game
		paint func() []byte
	}{{catch, &catch.game, catch.paint}, {bricks, &bricks.game, bricks.paint}} {
		r := rand.New(rand.NewPCG(3, 4))
		obs := make([]byte, obsBytes)
		var history []byte
		for k := range 5000 {
			for i := range obs {
				obs[i] = byte(k)
			}
			if x.game.active {
				action := toward(x.game, map[bool]int{true: catch.column, false: bricks.x}[x.env == env.Env(catch)])
				if r.IntN(6) == 0 {
					action = int32(r.IntN(3))
				}
				step(t, x.env, action, obs)
			} else {
				reset(t, x.env, obs)
				history = make([]byte, obsBytes)
			}
			history = append(history[frameSize:], x.paint()...)
			if !bytes.Equal(obs, history) {
				t.Fatalf("%s: wrong observation at call %d", x.env.Spec().ID, k)
			}
		}
		if rgb, w, h, err := x.env.(env.Renderer).Render(); err != nil || w != side || h != side || len(rgb) != 3*w*h || rgb[3*side*side-1] != obs[obsBytes-1] {
			t.Errorf("%s: Render: %d bytes, %dx%d, %v", x.env.Spec().ID, len(rgb), w, h, err)
		}
	}
}

// Every episode has 11 steps. A paddle that follows the ball catches it from every column. A paddle
// that does not move catches the ball in the three columns above the paddle.
func TestCatchRewardsCaughtBalls(t *testing.T) {
	c := NewCatch()
	obs := make([]byte, obsBytes)
	seen := map[int]int{}
	for k := range 600 {
		reset(t, c, obs)
		start := c.column
		seen[start]++
		follow := k%2 == 0
		for n := 1; ; n++ {
			action := int32(stay)
			if follow {
				action = toward(&c.game, c.column)
			}
			reward, end := step(t, c, action, obs)
			if n < 11 {
				if reward != 0 || end != 0 {
					t.Fatalf("step %d: reward %v, end %v", n, reward, end)
				}
				continue
			}
			want := float32(-1)
			if follow || start >= 5 && start <= 7 {
				want = 1
			}
			if reward != want || end != env.Terminated {
				t.Fatalf("column %d, follow %v: reward %v, end %v", start, follow, reward, end)
			}
			break
		}
	}
	if len(seen) != 12 {
		t.Errorf("balls fell in %d columns of 12", len(seen))
	}
}

func TestPaddleStaysOnTheBoard(t *testing.T) {
	c := NewCatch()
	obs := make([]byte, obsBytes)
	for action, want := range map[int32]int{left: 1, right: 10} {
		reset(t, c, obs)
		for c.active {
			step(t, c, action, obs)
		}
		if c.paddle != want {
			t.Errorf("action %d: paddle at %d, want %d", action, c.paddle, want)
		}
	}
}

// Each case is one step of the ball.
func TestBallBouncesAndBreaksBricks(t *testing.T) {
	type state struct{ x, y, dx, dy int }
	for _, c := range []struct {
		name        string
		from, to    state
		paddle      int
		wall, left  uint32 // the wall before and after the step
		reward      float32
		end         env.End
		stepsBefore int
	}{
		{name: "free", from: state{4, 5, 1, 1}, to: state{5, 6, 1, 1}, paddle: 5, wall: wholeWall, left: wholeWall},
		{name: "left wall", from: state{0, 5, -1, 1}, to: state{0, 6, 1, 1}, paddle: 5, wall: wholeWall, left: wholeWall},
		{name: "right wall", from: state{9, 6, 1, -1}, to: state{9, 5, -1, -1}, paddle: 5, wall: wholeWall, left: wholeWall},
		{name: "ceiling", from: state{4, 0, 1, -1}, to: state{5, 0, 1, 1}, paddle: 5, wall: 0, left: 0},
		{name: "brick from below", from: state{4, 4, 1, -1}, to: state{4, 4, 1, 1}, paddle: 5, wall: wholeWall, left: wholeWall &^ (1 << 25), reward: 1},
		{name: "brick from above", from: state{4, 0, -1, 1}, to: state{4, 0, -1, -1}, paddle: 5, wall: wholeWall, left: wholeWall &^ (1 << 3), reward: 1},
		{name: "brick in the corner", from: state{9, 4, 1, -1}, to: state{9, 4, -1, 1}, paddle: 5, wall: wholeWall, left: wholeWall &^ (1 << 29), reward: 1},
		{name: "through a gap", from: state{4, 4, 1, -1}, to: state{5, 3, 1, -1}, paddle: 5, wall: wholeWall &^ (1 << 25), left: wholeWall &^ (1 << 25)},
		{name: "paddle, middle", from: state{4, 8, 1, 1}, to: state{5, 8, 1, -1}, paddle: 5, wall: wholeWall, left: wholeWall},
		{name: "paddle, left end", from: state{3, 8, 1, 1}, to: state{4, 8, -1, -1}, paddle: 5, wall: wholeWall, left: wholeWall},
		{name: "paddle, right end", from: state{7, 8, -1, 1}, to: state{6, 8, 1, -1}, paddle: 5, wall: wholeWall, left: wholeWall},
		{name: "missed", from: state{6, 8, 1, 1}, to: state{7, 9, 1, 1}, paddle: 5, wall: wholeWall, left: wholeWall, end: env.Terminated},
		{name: "missed on the last step", from: state{6, 8, 1, 1}, to: state{7, 9, 1, 1}, paddle: 5, wall: 1, left: 1, end: env.Terminated | env.Truncated, stepsBefore: 299},
		{name: "time", from: state{4, 5, 1, 1}, to: state{5, 6, 1, 1}, paddle: 5, wall: 1, left: 1, end: env.Truncated, stepsBefore: 299},
		{name: "last brick", from: state{4, 4, 1, -1}, to: state{4, 4, 1, 1}, paddle: 5, wall: 1 << 25, left: 0, reward: 1},
		{name: "new wall", from: state{4, 8, 1, 1}, to: state{5, 8, 1, -1}, paddle: 5, wall: 0, left: wholeWall},
	} {
		b := NewBricks()
		obs := make([]byte, obsBytes)
		reset(t, b, obs)
		b.x, b.y, b.dx, b.dy = c.from.x, c.from.y, c.from.dx, c.from.dy
		b.paddle, b.wall, b.steps = c.paddle, c.wall, c.stepsBefore
		copy(b.frame[:], b.paint())
		reward, end := step(t, b, stay, obs)
		if got := (state{b.x, b.y, b.dx, b.dy}); got != c.to || reward != c.reward || end != c.end || b.wall != c.left {
			t.Errorf("%s: ball %v, reward %v, end %v, wall %b; want %+v", c.name, got, reward, end, b.wall, c)
		}
		if !bytes.Equal(b.frame[:], b.paint()) {
			t.Errorf("%s: wrong image", c.name)
		}
	}
}

// Bricks is neither trivial nor too hard.
func TestBricksScoresOfTwoPolicies(t *testing.T) {
	b := NewBricks()
	b.Seed(5)
	obs := make([]byte, obsBytes)
	r := rand.New(rand.NewPCG(1, 1))
	const episodes = 400
	play := func(policy func() int32) (mean float64) {
		for range episodes {
			reset(t, b, obs)
			for b.active {
				reward, _ := step(t, b, policy(), obs)
				mean += float64(reward) / episodes
			}
		}
		return mean
	}
	random := play(func() int32 { return int32(r.IntN(actions)) })
	if random < 0.2 || random > 0.8 {
		t.Errorf("random policy: %.2f bricks, want 0.2 to 0.8", random)
	}
	follow := play(func() int32 { return toward(&b.game, b.x) })
	if follow < 23 {
		t.Errorf("following the ball: %.2f bricks, want 23 at least", follow)
	}
	t.Logf("random %.2f, following the ball %.2f", random, follow)
}

func TestRestoreRefusesDamagedStates(t *testing.T) {
	catch, bricks := NewCatch(), NewBricks()
	obs := make([]byte, obsBytes)
	reset(t, catch, obs)
	reset(t, bricks, obs)
	spoil := func(state []byte, at int, value byte) []byte {
		state = bytes.Clone(state)
		state[at] = value
		return state
	}
	for _, e := range []env.Saver{catch, bricks} {
		good, err := e.Save()
		if err != nil {
			t.Fatal(err)
		}
		bad := map[string][]byte{
			"empty":     nil,
			"truncated": good[:len(good)-1],
			"version":   spoil(good, 0, 2),
			"flag":      spoil(good, 1, 2),
			"paddle":    spoil(good, saveHeader-1, 0),
			"ball":      spoil(good, saveHeader, 12),
			"ball row":  spoil(good, saveHeader+1, 12),
		}
		if e == env.Saver(bricks) {
			bad["direction"] = spoil(good, saveHeader+2, 1)
			bad["wall"] = spoil(good, saveHeader+7, 0x40)
		}
		for name, state := range bad {
			if err := e.Restore(state); err == nil || !strings.HasPrefix(err.Error(), e.Spec().ID+" state: ") {
				t.Errorf("%s, %s: %v", e.Spec().ID, name, err)
			}
			if after, err := e.Save(); err != nil || !bytes.Equal(after, good) {
				t.Errorf("%s, %s: changed by a refused Restore", e.Spec().ID, name)
			}
		}
	}
}

func BenchmarkStep(b *testing.B) {
	for _, e := range []env.Env{NewCatch(), NewBricks()} {
		b.Run(e.Spec().ID, func(b *testing.B) {
			obs := make([]byte, obsBytes)
			end := env.Terminated
			b.ReportAllocs()
			for i := int32(0); b.Loop(); i++ {
				if end != 0 {
					_ = e.Reset(obs)
				}
				_, end, _ = e.Step(i%actions, obs)
			}
		})
	}
}
