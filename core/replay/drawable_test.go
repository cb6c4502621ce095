package replay

import (
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/rng"
)

// drawablesOf returns a drawable over one to three steps, with each Tails.
func drawablesOf(t *testing.T, m *Memory) (list []*drawable) {
	t.Helper()
	for tails := range TailNames {
		for n := 1; n <= min(3, m.cfg.Capacity/m.cfg.Envs); n++ {
			list = append(list, must(newDrawable(m, n, Tails(tails), nil)))
		}
	}
	return list
}

// compareDrawables takes in what has been flushed, and fails unless exactly those transitions can
// be drawn that a look at each allows.
func compareDrawables(t *testing.T, list []*drawable, r *reference) {
	t.Helper()
	for _, s := range list {
		s.flushed()
		i, count := 0, 0
		for _, visible := range r.visible {
			for k := range visible {
				last, _, steps := nSteps(visible, k, int(s.n))
				want := int64(steps) == s.n ||
					last.end&env.Terminated != 0 && s.tails != DropTails ||
					last.end == env.Truncated && s.tails == KeepTails
				leaf := s.leafOf(i)
				if s.has(leaf) != want {
					t.Fatalf("n %d, %s: transition %d over %d steps, end %d: can be drawn: %v", s.n, TailNames[s.tails], i, steps, last.end, !want)
				}
				if pick := s.pick(leaf); pick != i {
					t.Fatalf("transition %d has leaf %d, which has transition %d", i, leaf, pick)
				}
				if want {
					count++
				}
				i++
			}
		}
		set := 0
		for leaf := range s.memory.cfg.leaves() {
			if s.has(leaf) {
				set++
			}
		}
		if s.len != count || set != count {
			t.Fatalf("%d can be drawn, len %d, want %d", set, s.len, count)
		}
	}
}

// addEpisodes adds steps to the environments, whose episodes of length 1 to 9 terminate and are
// truncated in turns, and flushes.
func addEpisodes(t testing.TB, m *Memory, steps int) {
	t.Helper()
	for e := range m.parts {
		for i := range steps {
			if m.Room(e) == 0 {
				check(t, m.Grow(1))
			}
			if !m.Open(e) {
				check(t, m.Begin(e, make([]byte, m.obsBytes)))
			}
			end := env.End(0)
			if (i+e)%9 == 8 || (i+e)%17 == 4 {
				end = env.End(1 + (i+e)%2)
			}
			check(t, addStep(m, e, int32(i), float32(i%5), 0, end, make([]byte, m.obsBytes)))
		}
	}
	m.Flush()
}

// All transitions that can be drawn, and no other, are drawn equally often.
func TestUniformDrawsOverSeveralSteps(t *testing.T) {
	for tails := range TailNames {
		m := must(New(Config{Obs: stackSpec(1, 1), Envs: 3, Capacity: 100, Window: 300}))
		defer m.Close()
		u := must(NewUniform(m, 4, Tails(tails)))
		addEpisodes(t, m, 50)
		u.Flushed()
		const n = 100_000
		count, picks, r := make([]int, m.Len()), make([]int, 100), rng.New(1, "replay", 0)
		for range n / len(picks) {
			u.Draw(r, picks)
			for _, i := range picks {
				count[i]++
			}
		}
		shares := make([]float64, len(count))
		for i := range shares {
			if u.drawable.has(u.drawable.leafOf(i)) {
				shares[i] = 1 / float64(u.Len())
			} else if count[i] > 0 {
				t.Errorf("%s: transition %d was drawn", TailNames[tails], i)
			}
		}
		got, most := chi(count, shares, n)
		if least := 2*float64(u.Len()-1) - most; got > most || got < least || u.Len() == m.Len() {
			t.Errorf("%s: chi-square %.1f, must be %.1f to %.1f; %d of %d drawable", TailNames[tails], got, least, most, u.Len(), m.Len())
		}
	}
}

// Trap: a queue of n steps that is cleared at the end of an episode loses its last n-1 transitions,
// and a truncation is no termination. Tails at both ends with each setting, by hand, over three
// steps of gamma 1/2.
func TestTails(t *testing.T) {
	m := must(New(Config{Obs: stackSpec(1, 1), Envs: 1, Capacity: 100, Window: 10}))
	defer m.Close()
	for _, end := range []env.End{env.Terminated, env.Truncated, 0} {
		check(t, m.Begin(0, []byte{byte(end)}))
		for i := range 4 {
			e := env.End(0)
			if i == 3 {
				e = end
			}
			check(t, addStep(m, 0, 0, float32(int(1)<<(3*i)), 0, e, []byte{byte(i)}))
		}
	}
	m.Flush()
	b := m.Minibatch(12)
	all := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
	m.Gather(all, 3, gamma, b, nil)
	// Rewards are 1, 8, 64 and 512.
	returns := []float32{1 + 4 + 16, 8 + 32 + 128, 64 + 256, 512}
	discounts := []float32{.125, 0, 0, 0, .125, .125, .25, .5, .125, .125, .25, .5}
	for i := range all {
		if b.Rewards[i] != returns[i%4] || b.Discounts[i] != discounts[i] {
			t.Errorf("transition %d: return %v, want %v, discount %v, want %v", i, b.Rewards[i], returns[i%4], b.Discounts[i], discounts[i])
		}
	}
	for tails, want := range map[Tails]string{
		KeepTails:     "0 1 2 3 4 5 6 7 8 9 ",
		DropTruncated: "0 1 2 3 4 5 8 9 ",
		DropTails:     "0 1 4 5 8 9 ",
	} {
		s, got := must(newDrawable(m, 3, tails, nil)), ""
		for i := range all {
			if s.has(s.leafOf(i)) {
				got += string("0123456789ab"[i]) + " "
			}
		}
		if got != want {
			t.Errorf("%s: %s, want %s", TailNames[tails], got, want)
		}
	}
}

func TestStepsBeyondAnEnvironmentAreRefused(t *testing.T) {
	m := must(New(Config{Obs: stackSpec(1, 1), Envs: 3, Capacity: 11, Window: 10}))
	defer m.Close()
	for _, n := range []int{0, 4, -1} {
		if _, err := NewUniform(m, n, KeepTails); err == nil || !strings.HasPrefix(err.Error(), "n_steps: ") || !strings.Contains(err.Error(), "must be 1 to 3") {
			t.Errorf("%d steps: %v", n, err)
		}
	}
	u := must(NewUniform(m, 3, DropTails))
	panics(t, "replay: Draw where no transition can be drawn", func() { u.Draw(rng.New(1, "replay", 0), make([]int, 1)) })
	addEpisodes(t, m, 3)
	panics(t, "replay: a Sampler before Flushed", func() { u.Draw(rng.New(1, "replay", 0), make([]int, 1)) })
}
