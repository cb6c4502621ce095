package vec

import (
	"errors"
	"fmt"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
)

// threeLives is an environment whose game has three lives. A life is an episode of two steps. The
// observation is (game, life).
type threeLives struct {
	*counter
	life     int
	lifeOver bool
	seeded   bool
}

func newThreeLives() *threeLives { return &threeLives{counter: newCounter(2, env.Terminated)} }

func (g *threeLives) Seed(s uint64) {
	g.counter.Seed(s)
	g.seeded = true
}

func (g *threeLives) Restart() { g.lifeOver = false }

func (g *threeLives) Reset(obs []byte) error {
	goOn := g.lifeOver && g.life > 1 && !g.seeded
	g.lifeOver, g.seeded = false, false
	if g.step = 0; goOn {
		g.life--
	} else {
		g.episode++
		g.life = 3
	}
	g.look(obs)
	return nil
}

func (g *threeLives) look(obs []byte) {
	step := g.step
	g.step = g.life
	g.show(obs)
	g.step = step
}

func (g *threeLives) Step(a int32, obs []byte) (float32, env.End, error) {
	reward, end, err := g.counter.Step(a, obs)
	g.lifeOver = end.Over()
	g.look(obs)
	return reward, end, err
}

// In every mode a Reset begins a new game, also in the middle of a life and after a lost life. In
// Disabled a reset by mask after a lost life continues the game.
func TestResetBeginsAGame(t *testing.T) {
	all, second := []bool{true, true}, []bool{false, true}
	seeds := []uint64{40, 50}
	for _, mode := range []Autoreset{NextStep, SameStep, Disabled} {
		for _, way := range []string{"all", "mask", "seeded mask", "sent", "sent with seeds", "sent as a new game"} {
			for _, steps := range []int{0, 1, 2} { // before the reset; 2 lose a life
				v, rows := newVec(t, func(int) (env.Env, error) { return newThreeLives(), nil }, 2, 1, mode)
				step := func() {
					t.Helper()
					if err := v.Step(Actions{Discrete: []int32{0, 0}}, rows); err != nil {
						t.Fatal(err)
					}
				}
				if err := errors.Join(v.Seed([]uint64{1, 1}, nil), v.Reset(rows, nil)); err != nil {
					t.Fatal(err)
				}
				for range steps {
					step()
				}
				want := "2.3" // the second game, with all its lives
				switch way {
				case "all":
					check(t, v.Reset(rows, nil))
				case "mask":
					check(t, v.Reset(rows, second))
				case "seeded mask":
					check(t, errors.Join(v.Seed(seeds, all), v.Reset(rows, all)))
					want = "50.3"
				default:
					a, err := v.Async(2, 1, -1)
					check(t, err)
					rows.IDs = make([]int32, 2)
					check(t, a.Offer(rows))
					switch ids := []int32{0, 1}; way {
					case "sent":
						check(t, a.SendReset(ids, nil))
					case "sent with seeds":
						check(t, a.SendReset(ids, seeds))
						want = "50.3"
					default:
						check(t, a.SendNewGame(ids))
					}
					_, err = a.Recv(-1)
					check(t, err)
				}
				if ended := mode == Disabled && steps == 2; ended && (way == "mask" || way == "sent") {
					want = "1.2" // the reset replaces an autoreset
				}
				if got := show(rows.Obs, 1); got != want {
					t.Errorf("%v, %s after %d steps: %s, must be %s", mode, way, steps, got, want)
				}
				_ = v.Close()
			}
		}
	}
}

// The three modes play the same games if the caller resets by mask after each end in Disabled.
func TestModesPlayTheSameGames(t *testing.T) {
	played := map[Autoreset]string{}
	for _, mode := range []Autoreset{NextStep, SameStep, Disabled} {
		v, rows := newVec(t, func(int) (env.Env, error) { return newThreeLives(), nil }, 1, 1, mode)
		check(t, v.Reset(rows, nil))
		begun := []string{show(rows.Obs, 0)}
		for len(begun) < 8 {
			check(t, v.Step(Actions{Discrete: []int32{0}}, rows))
			if rows.Ends[0] != 0 && mode == Disabled {
				check(t, v.Reset(rows, []bool{true}))
			}
			if rows.Starts[0] {
				begun = append(begun, show(rows.Obs, 0))
			}
		}
		played[mode] = fmt.Sprint(begun)
	}
	if played[SameStep] != played[NextStep] || played[Disabled] != played[NextStep] || played[NextStep] != "[1.3 1.2 1.1 2.3 2.2 2.1 3.3 3.2]" {
		t.Error(played)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
