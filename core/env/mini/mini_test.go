package mini

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/rng"
)

// make1 makes a game with options in JSON, and memory for its observation.
func make1(t testing.TB, id, options string) (*Game, planes) {
	t.Helper()
	o, err := env.ParseOptions(options)
	if err != nil {
		t.Fatal(err)
	}
	e, err := env.Make(id, o)
	if err != nil {
		t.Fatal(err)
	}
	return e.(*Game), make(planes, e.Spec().Obs.Bytes())
}

func reset(t testing.TB, g *Game, obs []byte) {
	t.Helper()
	if err := g.Reset(obs); err != nil {
		t.Fatal(err)
	}
}

func step(t testing.TB, g *Game, action int32, obs []byte) (float32, env.End) {
	t.Helper()
	reward, end, err := g.Step(action, obs)
	if err != nil {
		t.Fatal(err)
	}
	return reward, end
}

// play plays one step of a game's rules, at the start of an episode.
func play(r rules, action int32) (reward float32, over bool) {
	return r.step(&turn{action: action, rng: rng.New(1, "env", 0)})
}

// must plays one step and fails the test at another result.
func must(t testing.TB, r rules, action int32, reward float32, over bool) {
	t.Helper()
	if got, ended := play(r, action); got != reward || ended != over {
		t.Fatalf("action %d: reward %v, over %v; want %v, %v", action, got, ended, reward, over)
	}
}

// want fails the test if two values differ.
func want[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
}

// intervals returns the steps between changes of value() in n steps of play. The first step is 1.
func intervals[T comparable](n int, advance func(), value func() T) (steps []int) {
	last, at := value(), 0
	for k := 1; k <= n; k++ {
		advance()
		if v := value(); v != last {
			steps, last, at = append(steps, k-at), v, k
		}
	}
	return steps
}

// cells draws a game and returns the cells of a plane as "column,row" in reading order.
func cells(r rules, planeCount, plane int) string {
	p := make(planes, planeCount*side*side)
	r.draw(p)
	return p.cells(plane)
}

func (p planes) cells(plane int) string {
	var list []string
	for i, x := range p[plane*side*side : (plane+1)*side*side] {
		if x != 0 {
			list = append(list, fmt.Sprintf("%d,%d", i%side, i/side))
		}
	}
	return strings.Join(list, " ")
}

func (p planes) count(plane int) int {
	return bytes.Count(p[plane*side*side:(plane+1)*side*side], []byte{255})
}

// meet reports whether two planes have a cell in common.
func (p planes) meet(a, b int) bool {
	for i := range side * side {
		if p[a*side*side+i] != 0 && p[b*side*side+i] != 0 {
			return true
		}
	}
	return false
}

// check tests what holds of every observation of a game.
var checks = map[string]func(p planes) bool{
	"Mini-Asterix-v0": func(p planes) bool {
		objects := p.count(asterixEnemy) + p.count(asterixGold)
		return p.count(asterixPlayer) == 1 && objects <= lanes && p.count(asterixTrail) <= objects
	},
	"Mini-Breakout-v0": func(p planes) bool {
		return p.count(breakoutPaddle) == 2 && p.count(breakoutBall) == 1 && p.count(breakoutTrail) == 1 && p.count(breakoutBrick) <= 30
	},
	"Mini-Freeway-v0": func(p planes) bool {
		trails := 0
		for plane := freewayTrail; plane < freewayTrail+carSpeeds; plane++ {
			trails += p.count(plane)
		}
		return p.count(freewayChicken) == 1 && p.count(freewayCar) == 2*roadLanes && trails == 2*roadLanes
	},
	"Mini-Seaquest-v0": func(p planes) bool {
		return p.count(seaFront) == 1 && p.count(seaBack) <= 1 && p.count(seaShot) <= maxShots &&
			p.count(seaFish)+p.count(seaSub) <= lanes && p.count(seaDiver) <= lanes && p.count(seaEnemyShot) <= lanes &&
			p.count(seaAir) <= side && p.count(seaAboard) <= maxAboard && !p.meet(seaShot, seaFish) && !p.meet(seaShot, seaSub)
	},
	"Mini-SpaceInvaders-v0": func(p planes) bool {
		aliens := p.count(invadersAlien)
		return p.count(invadersCannon) == 1 && aliens >= 1 && aliens <= 24 && p.count(invadersLeft)+p.count(invadersRight) == aliens
	},
}

// rewards are the largest rewards of a step. All are whole and none is negative.
var rewards = map[string]float32{
	"Mini-Asterix-v0": 1, "Mini-Breakout-v0": 1, "Mini-Freeway-v0": 1, "Mini-Seaquest-v0": 10 + maxShots, "Mini-SpaceInvaders-v0": 3,
}

// golden are the beginnings of digests of 3,000 random steps. A change of the rules changes them,
// and needs another version in the game's name.
var golden = map[string]string{
	"Mini-Asterix-v0": "5d7bb7fcae27", "Mini-Breakout-v0": "f07a3458d56e", "Mini-Freeway-v0": "10d5066b1001",
	"Mini-Seaquest-v0": "e7ac5fc2cc30", "Mini-SpaceInvaders-v0": "690f0bac78de",
}

func TestRandomPlayKeepsTheInvariants(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.id, func(t *testing.T) {
			g, obs := make1(t, k.id, "")
			r, digest := rand.New(rand.NewPCG(5, 6)), sha256.New()
			g.Seed(9)
			end, returns, episodes, total := env.Terminated, float32(0), 0, float32(0)
			for n := range 30_000 {
				var reward float32
				for i := range obs {
					obs[i] = byte(n) // an observation does not depend on the memory's content
				}
				if end != 0 {
					reset(t, g, obs)
					episodes++
					end = 0
				} else {
					reward, end = step(t, g, int32(r.IntN(actions)), obs)
				}
				total += reward
				returns += reward
				if reward < 0 || reward > rewards[k.id] || reward != float32(math.Trunc(float64(reward))) {
					t.Fatalf("step %d: reward %v", n, reward)
				}
				for _, x := range obs {
					if x != 0 && x != 255 {
						t.Fatalf("step %d: a byte is %d", n, x)
					}
				}
				if !checks[k.id](obs) || !g.rules.valid(g.active) {
					t.Fatalf("step %d: the state %+v is not allowed", n, g.rules)
				}
				if n < 3000 {
					digest.Write(append(binary.LittleEndian.AppendUint32(obs[:len(obs):len(obs)], math.Float32bits(reward)), byte(end)))
				}
			}
			t.Logf("%d episodes, mean return %.2f", episodes, float64(total)/float64(episodes))
			if sum := fmt.Sprintf("%x", digest.Sum(nil)[:6]); sum != golden[k.id] {
				t.Errorf("digest of 3,000 steps: %q, want %q", sum, golden[k.id])
			}
		})
	}
}

// A sticky action is the last one played, also if that one was sticky, and no-op at first.
func TestStickyActions(t *testing.T) {
	g, obs := make1(t, "Mini-Asterix-v0", `{"sticky_action_prob": 1}`)
	reset(t, g, obs)
	step(t, g, up, obs)
	want(t, "player", obs.cells(asterixPlayer), "5,5")

	// The player moves between two columns of an empty board if the action is not repeated.
	g, obs = make1(t, "Mini-Asterix-v0", `{"sticky_action_prob": 0.25, "max_episode_steps": 0}`)
	reset(t, g, obs)
	state, repeated, last := g.rules.(*asterix), 0, int32(noop)
	const n = 20_000
	for k := range int32(n) {
		*state = asterix{Col: 5, Row: 5}
		given := left + 2*(k%2) // left, right
		step(t, g, given, obs)
		played := map[int8]int32{4: left, 5: noop, 6: right}[state.Col]
		if played != given {
			repeated++
			want(t, "repeated action", played, last)
		}
		last = played
	}
	// A repeated action differs from the given one if the number of repetitions since is odd.
	if share := float64(repeated) / n; math.Abs(share-0.25/1.25) > 0.01 {
		t.Errorf("share of other actions: %v, want 0.2", share)
	}
	g, obs = make1(t, "Mini-Asterix-v0", "")
	want(t, "default", g.sticky, 0.1)
	reset(t, g, obs)
	g.turn.action = up
	reset(t, g, obs)
	want(t, "last action after a reset", g.turn.action, noop)

	saved, err := (&Game{kind: g.kind, rules: g.rules, stream: g.stream, turn: turn{action: down}, active: true}).Save()
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Restore(saved); err != nil {
		t.Fatal(err)
	}
	want(t, "last action after Restore", g.turn.action, down)
}

func TestOptions(t *testing.T) {
	for options, says := range map[string]string{
		`{"sticky_action_prob": 1.5}`: "sticky_action_prob: 1.5, must be a number of 0 to 1",
		`{"ramping": 1}`:              "ramping: 1, must be true or false",
		`{"max_episode_steps": -1}`:   "max_episode_steps: -1, must be a whole number of 0 to 2147483647",
		`{"stciky_action_prob": 0}`:   `option "stciky_action_prob": Mini-Freeway-v0 has no such option; did you mean sticky_action_prob?`,
	} {
		o, err := env.ParseOptions(options)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := env.Make("Mini-Freeway-v0", o); err == nil || err.Error() != says {
			t.Errorf("%s: %v, want %s", options, err, says)
		}
	}
}

func TestEpisodesAreTruncated(t *testing.T) {
	for _, k := range kinds {
		limits := map[string]int{"": k.maxSteps, `{"max_episode_steps": 3}`: 3, `{"max_episode_steps": 0}`: 0}
		for options, limit := range limits {
			g, obs := make1(t, k.id, options)
			want(t, "max_steps", g.spec.MaxSteps, limit)
			reset(t, g, obs)
			if g.turn.steps = limit - 2; limit == 0 {
				g.turn.steps = 20_000
			}
			_, first := step(t, g, noop, obs)
			_, second := step(t, g, noop, obs)
			if first != 0 || second != map[bool]env.End{true: env.Truncated}[limit > 0] {
				t.Errorf("%s %s: ends %d, %d", k.id, options, first, second)
			}
		}
	}
	g, obs := make1(t, "Mini-Freeway-v0", `{"ramping": true}`)
	reset(t, g, obs)
	for k := 1; k <= 2500; k++ {
		if _, end := step(t, g, up, obs); end != map[bool]env.End{true: env.Truncated}[k == 2500] {
			t.Fatalf("step %d: end %d", k, end)
		}
	}
	if _, _, err := g.Step(up, obs); err == nil {
		t.Error("a step after the end was accepted")
	}
}

// A damaged state is refused, or is one that the game can go on from.
func TestRestoreOfDamagedStates(t *testing.T) {
	for _, k := range kinds {
		r := rand.New(rand.NewPCG(7, 8))
		g, obs := make1(t, k.id, "")
		reset(t, g, obs)
		refused, accepted := 0, 0
		for range 4000 {
			if _, end := step(t, g, int32(r.IntN(actions)), obs); end != 0 {
				reset(t, g, obs)
			}
			good, err := g.Save()
			if err != nil {
				t.Fatal(err)
			}
			bad := bytes.Clone(good)
			bad[r.IntN(len(bad))] = byte(r.IntN(256))
			other, otherObs := make1(t, k.id, "")
			before, _ := other.Save()
			if err := other.Restore(bad); err != nil {
				refused++
				if after, _ := other.Save(); !bytes.Equal(before, after) || !strings.HasPrefix(err.Error(), k.id+" state: ") {
					t.Fatalf("%s: %v; the game must be unchanged", k.id, err)
				}
				continue
			}
			accepted++
			for range 40 {
				if !other.active {
					break
				}
				step(t, other, int32(r.IntN(actions)), otherObs)
			}
		}
		if refused < 100 || accepted < 100 {
			t.Errorf("%s: %d refused, %d accepted", k.id, refused, accepted)
		}
		state, _ := g.Save()
		for _, bad := range [][]byte{nil, state[1:], append(bytes.Clone(state), 0)} {
			if err := g.Restore(bad); err == nil {
				t.Errorf("%s: a state of %d bytes was accepted", k.id, len(bad))
			}
		}
	}
}

// enter uses every empty lane and both ends, and never the player's cell.
func TestObjectsEnterAtTheEndsOfEmptyLanes(t *testing.T) {
	r, seen := rng.New(3, "env", 0), map[[3]int8]int{}
	for range 3000 {
		movers := [lanes]mover{2: {5, 1}, 6: {0, 1}}
		before := movers
		lane := enter(r, &movers, 0, 1)
		if lane == 2 || lane == 6 || before[lane] != (mover{}) {
			t.Fatalf("lane %d is not empty", lane)
		}
		seen[[3]int8{int8(lane), movers[lane].Col, movers[lane].Dir}]++
	}
	want(t, "places", len(seen), 11) // six lanes with two ends, but for the player's cell
	for place, n := range seen {
		expected := 250
		if place[0] == 0 {
			expected = 500
		}
		if place[1] != 0 && place[1] != side-1 || place[2] != map[int8]int8{0: 1, side - 1: -1}[place[1]] || n < expected-90 || n > expected+90 {
			t.Errorf("lane, column, direction %v: %d times", place, n)
		}
	}
	full := [lanes]mover{}
	for i := range full {
		full[i] = mover{1, 1}
	}
	want(t, "lane", enter(r, &full, 0, 1), -1)
}

// Render shows the first of the planes of a cell.
func TestRender(t *testing.T) {
	for _, k := range kinds {
		g, obs := make1(t, k.id, "")
		reset(t, g, obs)
		for range 40 {
			if _, end := step(t, g, fire, obs); end != 0 {
				break
			}
		}
		rgb, w, h, err := g.Render()
		if err != nil || w != side*cell || h != side*cell || len(rgb) != 3*w*h {
			t.Fatalf("%s: %d bytes, %dx%d, %v", k.id, len(rgb), w, h, err)
		}
		for i := range side * side {
			expected := background
			for plane := len(k.colours) - 1; plane >= 0; plane-- {
				if obs[plane*side*side+i] != 0 && k.colours[plane] != (colour{}) {
					expected = k.colours[plane]
				}
			}
			x, y := i%side*cell+cell/2, i/side*cell+cell/2
			if at := 3 * (y*w + x); colour(rgb[at:at+3]) != expected {
				t.Errorf("%s: cell %d,%d is %v, want %v", k.id, i%side, i/side, rgb[at:at+3], expected)
			}
		}
	}
}

func BenchmarkStep(b *testing.B) {
	for _, k := range kinds {
		b.Run(k.id, func(b *testing.B) {
			g, obs := make1(b, k.id, "")
			end := env.Terminated
			b.ReportAllocs()
			for i := uint32(0); b.Loop(); i++ {
				if end != 0 {
					reset(b, g, obs)
				}
				_, end = step(b, g, int32(i*2654435761>>16)%actions, obs)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Msteps/s")
		})
	}
}
