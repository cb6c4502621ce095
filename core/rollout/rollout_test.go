package rollout

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// observation returns the observation of the tests with the given number. v returns its value,
// which is different for each number.
func observation(id int) []byte {
	return binary.NativeEndian.AppendUint32(nil, math.Float32bits(float32(id)))
}

func idOf(obs []byte) int { return int(math.Float32frombits(binary.NativeEndian.Uint32(obs))) }

func v(id int) float32 { return float32(math.Sin(float64(id))) }

func values(obs []byte, rows int) ([]float32, error) {
	to := make([]float32, rows)
	for k := range to {
		to[k] = v(idOf(obs[4*k : 4*k+4]))
	}
	return to, nil
}

func newRollout(t testing.TB, horizon, envs int) *Rollout {
	t.Helper()
	r, err := New(Config{Obs: env.ObsSpec{DType: env.Float32, Shape: []int{1}, Low: []float32{0}, High: []float32{1e9}},
		Action: env.ActionSpec{N: 5}, Horizon: horizon, Envs: envs, Columns: []string{"log_prob", "value"}})
	check(t, err)
	return r
}

// step is one step of an environment in the naive rollout.
type step struct {
	obs, next int // numbers of observations; next has the value after the step
	action    int32
	reward    float32
	end       env.End
	updates   uint64
}

// naive is a rollout of lists. It computes returns by the definition, in float64.
type naive struct {
	rounds [][]*step // [environment][round]; nil for a hole
	at     []int     // number of the pending observation; -1: none
}

// follow returns environment i's next step after round t in this rollout.
func (n *naive) follow(i, t int) (*step, int) {
	for u := t + 1; u < len(n.rounds[i]); u++ {
		if s := n.rounds[i][u]; s != nil {
			return s, u
		}
	}
	return nil, 0
}

// advantage returns delta(t) + gamma lambda advantage(t+1), by recursion.
func (n *naive) advantage(i, t int, gamma, lambda float64) float64 {
	s := n.rounds[i][t]
	next, after := 0.0, 0.0 // V(t+1), advantage(t+1)
	switch following, u := n.follow(i, t); {
	case s.end&(env.Terminated|env.Lost) != 0:
	case s.end&env.Truncated != 0, following == nil:
		next = float64(v(s.next))
	default:
		next, after = float64(v(following.obs)), n.advantage(i, u, gamma, lambda)
	}
	return float64(s.reward) + gamma*next - float64(v(s.obs)) + gamma*lambda*after
}

// play fills r and n with the same random rollout: every kind of end in any round, both autoresets,
// environments that fail and environments that are cut.
func play(t *testing.T, rnd *rand.Rand, r *Rollout, n *naive, nextStep bool, ids *int) {
	fresh := func() int { *ids++; return *ids }
	begin := func(i int) {
		n.at[i] = fresh()
		check(t, r.Begin(i, observation(n.at[i])))
	}
	cut := func(i int) {
		r.Cut(i)
		for u := len(n.rounds[i]) - 1; u >= 0 && n.at[i] >= 0; u-- {
			if s := n.rounds[i][u]; s != nil {
				if s.end == 0 {
					s.end = env.Truncated
				}
				break
			}
		}
		n.at[i] = -1
	}
	for !r.Full() {
		for _, i := range rnd.Perm(len(n.at)) {
			var s *step
			switch {
			case n.at[i] < 0: // no segment in progress
				begin(i)
				if !nextStep || rnd.IntN(2) == 0 {
					break // takes a step in this round
				}
				n.rounds[i] = append(n.rounds[i], nil)
				continue
			case rnd.IntN(15) == 0: // fails
				if rnd.IntN(2) == 0 {
					cut(i)
				}
				n.rounds[i] = append(n.rounds[i], nil)
				continue
			}
			s = &step{obs: n.at[i], next: fresh(), action: int32(rnd.IntN(5)), reward: float32(rnd.NormFloat64()), updates: rnd.Uint64()}
			if rnd.IntN(4) == 0 {
				s.end = env.End(1 + rnd.IntN(7))
			}
			x := experience.Step{Action: []int32{s.action}, Reward: s.reward, End: s.end, Updates: s.updates, Columns: []float32{-1, v(s.obs)}}
			next := observation(s.next)
			if s.end&env.Terminated != 0 {
				next = nil
			}
			check(t, r.Add(i, &x, next))
			n.rounds[i] = append(n.rounds[i], s)
			n.at[i] = s.next
			if s.end.Over() {
				n.at[i] = -1
				if !nextStep {
					begin(i)
				}
			}
			if rnd.IntN(20) == 0 {
				cut(i)
			}
		}
		check(t, r.EndRound())
	}
}

func compare(t *testing.T, r *Rollout, n *naive, gamma, lambda float64) {
	t.Helper()
	b, steps := r.Batch(), 0
	for i := range n.at {
		for u, s := range n.rounds[i] {
			k := u*len(n.at) + i
			if s == nil {
				if b.Weights[k] != 0 || b.Actions[k] != 0 || b.Rewards[k] != 0 || b.Ends[k] != 0 || b.Updates[k] != 0 ||
					b.Columns[0][k] != 0 || b.Columns[1][k] != 0 || b.Advantages[k] != 0 || b.Returns[k] != 0 || idOf(b.Obs[4*k:]) != 0 {
					t.Fatalf("environment %d, round %d: not a clean hole", i, u)
				}
				continue
			}
			steps++
			if b.Weights[k] != 1 || idOf(b.Obs[4*k:]) != s.obs || b.Actions[k] != s.action || b.Rewards[k] != s.reward ||
				b.Ends[k] != s.end || b.Updates[k] != s.updates || b.Columns[0][k] != -1 || b.Columns[1][k] != v(s.obs) {
				t.Fatalf("environment %d, round %d: differs from %+v", i, u, s)
			}
			a := n.advantage(i, u, gamma, lambda)
			for _, x := range []struct {
				name       string
				have, want float64
			}{{"advantage", float64(b.Advantages[k]), a}, {"return", float64(b.Returns[k]), a + float64(v(s.obs))}} {
				// The tolerance of a single rounding to float32.
				if math.Abs(x.have-x.want) > 0x1p-24*math.Abs(x.want)+1e-13 {
					t.Fatalf("environment %d, round %d: %s %g, want %g", i, u, x.name, x.have, x.want)
				}
			}
		}
	}
	if r.Steps() != steps {
		t.Fatalf("%d steps, want %d", r.Steps(), steps)
	}
}

func TestRolloutEqualsLists(t *testing.T) {
	ids, ends, holes := 0, map[env.End]int{}, 0
	endKinds := map[string]int{}
	for seed := range 400 {
		rnd := rand.New(rand.NewPCG(7, uint64(seed)))
		horizon, envs, nextStep := 1+rnd.IntN(17), 1+rnd.IntN(9), rnd.IntN(2) == 0
		gamma, lambda := []float64{0, .99, 1}[rnd.IntN(3)], []float64{0, .95, 1}[rnd.IntN(3)]
		name := fmt.Sprintf("seed %d horizon %d envs %d nextStep %v gamma %g lambda %g", seed, horizon, envs, nextStep, gamma, lambda)
		t.Run(name, func(t *testing.T) {
			r, n := newRollout(t, horizon, envs), &naive{at: make([]int, envs)}
			for i := range n.at {
				n.at[i] = -1
			}
			for range 4 {
				n.rounds = make([][]*step, envs)
				play(t, rnd, r, n, nextStep, &ids)
				check(t, r.Finish(gamma, lambda, values))
				compare(t, r, n, gamma, lambda)
				check(t, r.Finish(gamma, lambda, values)) // a second Finish changes nothing
				compare(t, r, n, gamma, lambda)
				for _, list := range n.rounds {
					for round, s := range list {
						if s == nil {
							holes++
						} else {
							ends[s.end]++
							endKinds[endKind(s.end, round, horizon)]++
						}
					}
				}
				check(t, r.Next())
			}
		})
	}
	if len(ends) != 8 || holes == 0 {
		t.Fatalf("ends %v, %d holes: the test does not cover all cases", ends, holes)
	}
	wantAllEnds(t, endKinds)
}

// If the last row of a rollout is a hole, the next rollout begins with the pending observation.
func TestHoleAtTheHorizon(t *testing.T) {
	r := newRollout(t, 2, 1)
	x := experience.Step{Action: []int32{0}, Reward: 1, End: env.Truncated, Columns: []float32{0, 3}}
	check(t, r.Begin(0, observation(3)))
	check(t, r.Add(0, &x, observation(4)))
	check(t, r.EndRound())
	check(t, r.Begin(0, observation(5)))
	check(t, r.EndRound())
	check(t, r.Finish(1, 1, values))
	if b := r.Batch(); b.Returns[0] != 1+v(4) || b.Returns[1] != 0 || b.Weights[1] != 0 || r.Steps() != 1 {
		t.Fatalf("returns %v, weights %v", b.Returns, b.Weights)
	}
	check(t, r.Next())
	x.End = env.Terminated
	check(t, r.Add(0, &x, nil))
	if got := idOf(r.Batch().Obs); got != 5 {
		t.Fatalf("observation %d, want 5", got)
	}
}

func TestExplainedVariance(t *testing.T) {
	b := &Batch{Returns: []float32{1, 2, 3, 99}, Advantages: []float32{0.5, -0.5, 0, 7}, Weights: []float32{1, 1, 1, 0}}
	if v := ExplainedVariance(b); math.Abs(v-0.75) > 1e-12 { // 1 - (0.5 / 2)
		t.Error(v)
	}
	b.Returns = []float32{2, 2, 2, 0}
	if v := ExplainedVariance(b); v == v {
		t.Error(v)
	}
}

func TestRefusals(t *testing.T) {
	obs := env.ObsSpec{DType: env.Uint8, Shape: []int{4}}
	good := Config{Obs: obs, Action: env.ActionSpec{N: 2}, Horizon: 3, Envs: 2, Columns: []string{"value"}}
	for _, c := range []struct {
		edit func(*Config)
		want string
	}{
		{func(c *Config) { c.Horizon = 0 }, "n_steps: 0, must be 1 to 1048576"},
		{func(c *Config) { c.Envs = 0 }, "num_envs: 0, must be 1 to 1048576"},
		{func(c *Config) { c.Envs, c.Horizon = 1<<20, 17 }, "n_steps: 17, must be at most 16 with num_envs 1048576"},
		{func(c *Config) { c.Action.N = 0 }, "actions: 0, must be at least 1"},
		{func(c *Config) { c.Obs.Shape = []int{0} }, "observation: 0 bytes, must be 1 to 268435456"},
		{func(c *Config) { c.Columns = []string{"log_prob"} }, `columns: ["log_prob"], must hold "value"`},
		{func(c *Config) { c.Columns = []string{"value", "value"} }, `columns: ["value" "value"], must be different from one another`},
	} {
		cfg := good
		c.edit(&cfg)
		if _, err := New(cfg); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	r, err := New(good)
	check(t, err)
	x := experience.Step{Action: []int32{0}, Columns: []float32{0}}
	saved := func() string {
		var b bytes.Buffer
		if err := r.Save(&b); err != nil {
			return err.Error()
		}
		return b.String()
	}
	refused := func(err error, want string) {
		t.Helper()
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %q", err, want)
		}
	}
	before := saved()
	refused(r.Add(1, &x, make([]byte, 4)), "environment 1: a step without a first observation")
	refused(r.Begin(1, make([]byte, 5)), "environment 1: observation of 5 bytes, must be 4")
	refused(r.Finish(1, 1, values), "rollout: 0 rounds are over, must be 3")
	check(t, r.Begin(0, make([]byte, 4)))
	refused(r.Add(0, &x, make([]byte, 3)), "environment 0: observation of 3 bytes, must be 4")
	refused(r.Add(0, &experience.Step{Action: []int32{0}}, make([]byte, 4)), `environment 0: 0 columns, must be 1: ["value"]`)
	r.Cut(0)
	if saved() != before {
		t.Error("a refused call changed something")
	}
	check(t, r.Begin(0, make([]byte, 4)))
	check(t, r.Add(0, &x, make([]byte, 4)))
	refused(r.Add(0, &x, make([]byte, 4)), "environment 0: a second step in one round")
	refused(r.Save(nil), "rollout: save in mid-round, must follow EndRound")
	refused(r.Next(), "rollout: next in mid-round, must follow EndRound")
	for range 3 {
		check(t, r.EndRound())
	}
	refused(r.EndRound(), "rollout: a round beyond the horizon of 3")
	refused(r.Add(0, &x, make([]byte, 4)), "environment 0: a step beyond the horizon of 3 rounds")
	refused(r.Finish(1.5, 1, values), "gamma: 1.5, must be 0 to 1")
	refused(r.Finish(1, math.NaN(), values), "gae_lambda: NaN, must be 0 to 1")
	boom := fmt.Errorf("boom")
	refused(r.Finish(1, 1, func([]byte, int) ([]float32, error) { return nil, boom }), "boom")
	refused(r.Finish(1, 1, func([]byte, int) ([]float32, error) { return nil, nil }), "rollout: 0 values of 2 observations")
}

// Goroutines of different environments do not change the result. Meant for -race, too.
func TestGoroutines(t *testing.T) {
	const envs, horizon = 8, 20
	a, b := newRollout(t, horizon, envs), newRollout(t, horizon, envs)
	one := func(r *Rollout, i, round int) {
		x := experience.Step{Action: []int32{0}, Reward: float32(i), Columns: []float32{0, v(i)}}
		if round == 0 {
			check(t, r.Begin(i, observation(i)))
		}
		if (round+i)%5 == 0 {
			x.End = env.Truncated
		}
		if err := r.Add(i, &x, observation(100*round+i)); err != nil {
			t.Error(err)
		}
		if x.End != 0 {
			check(t, r.Begin(i, observation(i)))
		}
	}
	for round := range horizon {
		var wait sync.WaitGroup
		for i := range envs {
			wait.Go(func() { one(a, i, round) })
			one(b, i, round)
		}
		wait.Wait()
		check(t, a.EndRound())
		check(t, b.EndRound())
	}
	check(t, a.Finish(.9, .9, values))
	check(t, b.Finish(.9, .9, values))
	if x, y := a.Batch(), b.Batch(); !slices.Equal(x.Returns, y.Returns) || !bytes.Equal(x.Obs, y.Obs) {
		t.Fatal("goroutines change the result")
	}
}

// A round allocates nothing, and neither does Finish after the first truncation.
func TestNoAllocations(t *testing.T) {
	const envs = 40
	r := newRollout(t, 5, envs)
	x := experience.Step{Action: []int32{0}, Columns: []float32{0, 1}}
	obs, zeros := observation(1), make([]float32, envs)
	for i := range envs {
		check(t, r.Begin(i, obs))
	}
	value := func(_ []byte, rows int) ([]float32, error) { return zeros[:rows], nil }
	run := func() {
		for !r.Full() {
			for i := range envs {
				x.End = 0
				if r.round == i%5 {
					x.End = env.Truncated
				}
				check(t, r.Add(i, &x, obs))
				if x.End != 0 {
					check(t, r.Begin(i, obs))
				}
			}
			check(t, r.EndRound())
		}
		check(t, r.Finish(.9, .9, value))
		check(t, r.Next())
	}
	run()
	if n := testing.AllocsPerRun(20, run); n > 0 {
		t.Errorf("%g allocations a rollout, want none", n)
	}
}

func TestBytes(t *testing.T) {
	r := newRollout(t, 7, 3)
	have := int64(len(r.data.Obs))
	for _, c := range append(slices.Clone(r.data.Columns), r.data.Rewards, r.data.Weights, r.data.Advantages, r.data.Returns) {
		have += 4 * int64(len(c))
	}
	have += int64(4*len(r.data.Actions) + len(r.data.Ends) + 8*len(r.data.Updates))
	if r.cfg.Bytes() != have {
		t.Errorf("Bytes %d, arrays have %d", r.cfg.Bytes(), have)
	}
	if !strings.Contains(r.names(), ColumnValue) {
		t.Error(r.names())
	}
}
