package rollout

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
)

// logMu and logPi are the logarithms of the probabilities under the policy that acted and the
// policy that learns, by observation. Some of the former are below log 1e-5.
func logMu(id int) float64 { return -0.1 - 14*math.Abs(math.Sin(float64(3*id))) }
func logPi(id int) float64 { return -0.1 - 3*math.Abs(math.Cos(float64(id))) }

func (c VTrace) ratio(id int) float64 {
	return math.Exp(float64(float32(logPi(id))) - max(float64(float32(logMu(id))), math.Log(1e-5)))
}

// vtrace returns the target by its definition, V plus the sum of all later temporal differences,
// each times the product of the traces before it, and the policy's advantage.
func (n *naive) vtrace(c VTrace, i, t int) (target, advantage float64) {
	s := n.rounds[i][t]
	after := func(i, t int) (value float64, goesOn bool) { // V after step t
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
		next, goesOn := after(i, u)
		target += weight * min(c.Rho, c.ratio(x.obs)) * (float64(x.reward) + c.Gamma*next - float64(v(x.obs)))
		weight *= c.Gamma * c.Lambda * min(c.C, c.ratio(x.obs))
		if on = goesOn; on {
			_, u = n.follow(i, u)
		}
	}
	next, goesOn := after(i, t)
	if goesOn {
		_, u := n.follow(i, t)
		next, _ = n.vtrace(c, i, u)
	}
	return target, min(c.Rho, c.ratio(s.obs)) * (float64(s.reward) + c.Gamma*next - float64(v(s.obs)))
}

// The targets of some of the environments equal the definition, in a moving window that is saved
// and loaded in between.
func TestVTraceEqualsDefinition(t *testing.T) {
	holes, small := 0, 0
	ends := map[string]int{} // by endKind
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
				count := 1 + rnd.IntN(envs-first)
				rows := horizon * count
				indices, actions, weights := make([]int32, rows), make([]int32, rows), make([]float32, rows)
				r.Gather(first, count, indices, actions, nil, nil, weights)
				pi, rowValues, advantages, returns := make([]float32, rows), make([]float32, rows), make([]float32, rows), make([]float32, rows)
				for at := range rows {
					s := n.rounds[first+at%count][at/count]
					id := idOf(r.Obs()[4*indices[at]:])
					if (s == nil) != (weights[at] == 0) || s != nil && (id != s.obs || actions[at] != s.action) {
						t.Fatalf("row %d: weight %g, observation %d, action %d, want %+v", at, weights[at], id, actions[at], s)
					}
					if s != nil {
						pi[at], rowValues[at] = float32(logPi(s.obs)), v(s.obs)
					}
				}
				check(t, c.Target(r, first, count, values, pi, rowValues, advantages, returns))
				for at := range rows {
					i, round := first+at%count, at/count
					s := n.rounds[i][round]
					if s == nil {
						holes++
						if advantages[at] != 0 || returns[at] != 0 {
							t.Fatalf("a hole has %g, %g", advantages[at], returns[at])
						}
						continue
					}
					ends[endKind(s.end, round, horizon)]++
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
	if holes < 100 || small < 100 {
		t.Errorf("%d holes, %d small probabilities: the test shows little", holes, small)
	}
	wantAllEnds(t, ends)
}

// Computed by hand with gamma = 1/2, lambda = 1 and rewards 1, 3, 4. V is 1, 2, 3 before the steps,
// 9 after the last one, and 10 after a truncation. The ratios are 2, 1/2, 1/4. With Rho = 1 and C =
// 1/2 they give rho = 1, 1/2, 1/4 and gamma c = 1/4, 1/4, 1/8.
func TestVTraceByHand(t *testing.T) {
	const none, term, trunc = env.End(0), env.Terminated, env.Truncated
	c := VTrace{Gamma: .5, Lambda: 1, Rho: 1, C: .5}
	for _, x := range []struct {
		ends                [3]env.End
		returns, advantages [3]float64
	}{
		// Row 2: delta = (4 + 9/2 - 3)/4 = 1.375; row 1: (3 + 3/2 - 2)/2 = 1.25;
		// row 0: 1 + 2/2 - 1 = 1.
		{[3]env.End{none, none, none}, [3]float64{2 + 1.59375/4, 2 + 1.25 + 1.375/4, 4.375}, [3]float64{3.59375 / 2, (3 + 4.375/2 - 2) / 2, 1.375}},
		{[3]env.End{term, none, none}, [3]float64{1, 3.59375, 4.375}, [3]float64{0, 1.59375, 1.375}},
		{[3]env.End{none, term, none}, [3]float64{2 + .5/4, 2.5, 4.375}, [3]float64{2.5 / 2, .5, 1.375}},
		{[3]env.End{none, none, term}, [3]float64{2 + 1.3125/4, 2 + 1.25 + .25/4, 3.25}, [3]float64{3.3125 / 2, (3 + 3.25/2 - 2) / 2, .25}},
		{[3]env.End{trunc, none, none}, [3]float64{6, 3.59375, 4.375}, [3]float64{5, 1.59375, 1.375}},
		{[3]env.End{none, trunc, none}, [3]float64{2 + 3./4, 5, 4.375}, [3]float64{5. / 2, 3, 1.375}},
		{[3]env.End{none, none, trunc}, [3]float64{2 + 1.625/4, 2 + 1.25 + 1.5/4, 4.5}, [3]float64{3.625 / 2, (3 + 4.5/2 - 2) / 2, 1.5}},
	} {
		r := newRollout(t, 3, 1)
		check(t, r.Begin(0, observation(1)))
		for k, end := range x.ends {
			next := []int{2, 3, 9}[k]
			step := experience.Step{Action: []int32{0}, Reward: []float32{1, 3, 4}[k], End: end, Columns: []float32{-2, 0}}
			if end == trunc {
				check(t, r.Add(0, &step, observation(10)))
			} else {
				check(t, r.Add(0, &step, observation(next)))
			}
			if end.Over() {
				check(t, r.Begin(0, observation(next)))
			}
			check(t, r.EndRound())
		}
		var pi, returns, advantages [3]float32
		for k, ratio := range []float64{2, .5, .25} {
			pi[k] = float32(math.Log(ratio) - 2)
		}
		check(t, c.Target(r, 0, 1, func(obs []byte, rows int) ([]float32, error) { return []float32{float32(idOf(obs))}, nil }, pi[:], []float32{1, 2, 3}, advantages[:], returns[:]))
		for k := range 3 {
			if math.Abs(float64(returns[k])-x.returns[k]) > 1e-6 || math.Abs(float64(advantages[k])-x.advantages[k]) > 1e-6 {
				t.Errorf("ends %v: returns %v, advantages %v, want %v, %v", x.ends, returns, advantages, x.returns, x.advantages)
				break
			}
		}
	}
}

func TestDropAndTargetRefuse(t *testing.T) {
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
