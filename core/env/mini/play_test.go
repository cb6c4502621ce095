package mini

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/paceline-rl/paceline/core/rng"
)

// plan returns the action after which random play scores most in the next steps. The end of the
// episode costs 5.
func plan(g *Game, r *rand.Rand) int32 {
	const rollouts, horizon = 8, 16
	best, most, first := int32(0), float32(-1e9), r.IntN(actions)
	state := reflect.ValueOf(g.rules).Elem()
	for k := range actions {
		action, total := int32((first+k)%actions), float32(0)
		for n := range rollouts {
			copied := g.kind.make()
			reflect.ValueOf(copied).Elem().Set(state)
			t := g.turn
			t.action, t.rng = action, rng.New(uint64(n), "env", 0)
			for range horizon {
				reward, over := copied.step(&t)
				if total += reward; over {
					total -= 5
					break
				}
				t.steps++
				t.action = int32(r.IntN(actions))
			}
		}
		if total > most {
			best, most = action, total
		}
	}
	return best
}

// cross returns the action of a chicken that goes up if no car will be in the next row in the steps
// that the chicken rests there.
func cross(f *freeway) int32 {
	next := *f
	next.Rest = 0
	t := turn{action: up, rng: rng.New(1, "env", 0)}
	for range 1 + chickenRest {
		next.step(&t)
		t.action = noop
	}
	if next.Row == f.Row-1 || f.Row == 1 {
		return up
	}
	return noop
}

// The actions decide how much is won: a player that looks ahead wins many times as much as one that
// plays at random, which wins 0.2 to 3 in an episode.
func TestPlanningWinsMoreThanChance(t *testing.T) {
	for id, least := range map[string]float32{
		"Mini-Asterix-v0": 8, "Mini-Breakout-v0": 8, "Mini-Freeway-v0": 40, "Mini-Seaquest-v0": 4, "Mini-SpaceInvaders-v0": 12,
	} {
		g, obs := make1(t, id, "")
		r := rand.New(rand.NewPCG(1, 2))
		g.Seed(1)
		chance := rng.New(1, "act", 0)
		const episodes = 3
		total, steps := float32(0), 0
		for range episodes {
			reset(t, g, obs)
			for g.active {
				var action int32
				switch rules := g.rules.(type) {
				case *freeway:
					action = cross(rules)
				case *breakout:
					action = follow(rules, chance)
				default:
					action = plan(g, r)
				}
				reward, _ := step(t, g, action, obs)
				total += reward
				steps++
			}
		}
		t.Logf("%s: mean return %.1f, %d steps an episode", id, total/episodes, steps/episodes)
		if total/episodes < least {
			t.Errorf("%s: mean return %.1f, want at least %v", id, total/episodes, least)
		}
	}
}
