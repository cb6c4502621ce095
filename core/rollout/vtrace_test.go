package rollout

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
)

// What acted, and what is to learn, by the observation. Some of the former are below 1e-5.
func logMu(id int) float64 { return -0.1 - 14*math.Abs(math.Sin(float64(3*id))) }
func logPi(id int) float64 { return -0.1 - 3*math.Abs(math.Cos(float64(id))) }

func (c VTrace) ratio(id int) float64 {
	return math.Exp(float64(float32(logPi(id))) - max(float64(float32(logMu(id))), math.Log(1e-5)))
}

// vtrace is the target by its definition: V plus the sum of all later temporal differences,
// each with the product of the traces before it; and the policy's advantage.
func (n *naive) vtrace(c VTrace, i, t int) (target, advantage float64) {
	s := n.rounds[i][t]
	beyond := func(i, t int) (value float64, goesOn bool) { // V of what step t led to
		s := n.rounds[i][t]
		switch following, _ := n.follow(i, t); {
		case s.end&(env.Terminated|env.Lost) != 0:
			return 0, false
		case s.end&env.Truncated != 0, following == nil:
			return float64(v(s.next)), false
		default:
			return float64(v(following.obs)), true
		}
	}
	target = float64(v(s.obs))
	weight := 1.0
	for u, on := t, true; on; {
		x := n.rounds[i][u]
		next, goesOn := beyond(i, u)
		target += weight * min(c.Rho, c.ratio(x.obs)) * (float64(x.reward) + c.Gamma*next - float64(v(x.obs)))
		weight *= c.Gamma * c.Lambda * min(c.C, c.ratio(x.obs))
		if on = goesOn; on {
			_, u = n.follow(i, u)
		}
	}
	after, goesOn := beyond(i, t)
	if goesOn {
		_, u := n.follow(i, t)
		after, _ = n.vtrace(c, i, u)
	}
	return target, min(c.Rho, c.ratio(s.obs)) * (float64(s.reward) + c.Gamma*after - float64(v(s.obs)))
}

// The targets of groups of environments, in a window that moves along any number of rounds
// and is saved in between, against the definition.
func TestVTrace(t *testing.T) {
	holes, cuts, small := 0, 0, 0
	for k := range 200 {
		rnd := rand.New(rand.NewPCG(71, uint64(k)))
		horizon, envs := 1+rnd.IntN(9), 1+rnd.IntN(4)
		c := VTrace{Gamma: []float64{.9, 1}[rnd.IntN(2)], Lambda: []float64{.8, 1}[rnd.IntN(2)], Rho: []float64{1, 2}[rnd.IntN(2)], C: []float64{.7, 1}[rnd.IntN(2)]}
		t.Run(fmt.Sprintf("%d horizon %d envs %d %+v", k, horizon, envs, c), func(t *testing.T) {
			r := newRollout(t, horizon, envs)
			n := &naive{rounds: make([][]*step, envs), at: slices.Repeat([]int{-1}, envs)}
			ids := 0
			for range 5 {
				play(t, rnd, r, n, k%2 == 0, &ids)
				for round := range horizon {
					for i := range envs {
						if s := n.rounds[i][round]; s != nil {
							r.data.Columns[0][r.row(round, i)] = float32(logMu(s.obs))
						}
					}
				}
				first := rnd.IntN(envs)
				group := 1 + rnd.IntN(envs-first)
				rows := horizon * group
				places, actions, weights := make([]int32, rows), make([]int32, rows), make([]float32, rows)
				r.Gather(first, group, places, actions, nil, weights)
				pi, own, advantages, returns := make([]float32, rows), make([]float32, rows), make([]float32, rows), make([]float32, rows)
				for at := range rows {
					s := n.rounds[first+at%group][at/group]
					id := idOf(r.Obs()[4*places[at]:])
					if (s == nil) != (weights[at] == 0) || s != nil && (id != s.obs || actions[at] != s.action) {
						t.Fatalf("row %d: weight %g, observation %d, action %d, want %+v", at, weights[at], id, actions[at], s)
					}
					if s != nil {
						pi[at], own[at] = float32(logPi(s.obs)), v(s.obs)
					}
				}
				check(t, c.Target(r, first, group, values, pi, own, advantages, returns))
				for at := range rows {
					i, round := first+at%group, at/group
					s := n.rounds[i][round]
					if s == nil {
						holes++
						if advantages[at] != 0 || returns[at] != 0 {
							t.Fatalf("a hole has %g, %g", advantages[at], returns[at])
						}
						continue
					}
					if s.end == env.Truncated {
						cuts++
					}
					if logMu(s.obs) < math.Log(1e-5) {
						small++
					}
					target, advantage := n.vtrace(c, i, round)
					if math.Abs(target-float64(returns[at])) > 1e-5*(1+math.Abs(target)) || math.Abs(advantage-float64(advantages[at])) > 1e-5*(1+math.Abs(advantage)) {
						t.Fatalf("environment %d, round %d: target %g, advantage %g, want %g, %g", i, round, returns[at], advantages[at], target, advantage)
					}
				}
				drop := 1 + rnd.IntN(horizon)
				check(t, r.Drop(drop))
				for i := range n.rounds {
					n.rounds[i] = n.rounds[i][drop:]
				}
				if rnd.IntN(2) == 0 {
					var file bytes.Buffer
					before := slices.Clone(r.Obs())
					check(t, r.Save(&file))
					if !bytes.Equal(r.Obs(), before) {
						t.Fatal("Save has moved rows")
					}
					other := newRollout(t, horizon, envs)
					adopt, err := other.Load(&file, int64(file.Len()))
					check(t, err)
					adopt()
					r = other
				}
			}
		})
	}
	if holes < 100 || cuts < 100 || small < 100 {
		t.Errorf("%d holes, %d truncations, %d small probabilities: the test shows little", holes, cuts, small)
	}
}

func TestDropErrors(t *testing.T) {
	r := newRollout(t, 3, 1)
	for _, n := range []int{-1, 1} {
		if err := r.Drop(n); err == nil || err.Error() != fmt.Sprintf("rollout: %d rounds to drop, must be 0 to 0", n) {
			t.Error(err)
		}
	}
	if err := (VTrace{}).Target(r, 0, 1, values, nil, nil, nil, nil); err == nil || err.Error() != "rollout: 0 rounds are over, must be 3" {
		t.Error(err)
	}
}
