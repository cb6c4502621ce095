package replay

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/rng"
)

// everyFormula runs a test with each formula, with priorities that change at once and with ones
// that are Deferred. Alpha is that of Dopamine.
func everyFormula(t *testing.T, f func(t *testing.T, c Priorities)) {
	for formula, name := range FormulaNames {
		c := Priorities{Formula: Formula(formula), Alpha: 0.5, N: 1}
		t.Run(name, func(t *testing.T) { f(t, c) })
		c.Deferred = true
		t.Run(name+"_deferred", func(t *testing.T) { f(t, c) })
	}
}

// addRandom adds random steps to a memory and to its reference, and flushes both.
func addRandom(t testing.TB, m *Memory, ref *reference, r *rand.Rand, steps int) {
	t.Helper()
	for range steps {
		e := r.IntN(len(m.parts))
		if m.Room(e) == 0 {
			check(t, m.Grow(1))
		}
		obs := []byte{byte(r.Uint32())}
		if !m.Open(e) {
			check(t, m.Begin(e, obs))
			ref.begin(e, obs)
		}
		end := env.End(0)
		if r.IntN(6) == 0 {
			end = env.End(1 + r.IntN(2))
		}
		check(t, addStep(m, e, 0, 1, 0, end, obs))
		ref.add(e, 0, 1, 0, end, obs, nil)
	}
	m.Flush()
	ref.flush()
}

// twin is a naive Prioritised: a map from the numbers of an environment's transitions to
// priorities.
type twin struct {
	p       *Prioritised
	ref     *reference
	of      []map[int]float64
	largest float64
	waiting [][2]float64 // with Deferred: picks and errors
}

func newTwin(p *Prioritised, ref *reference) *twin {
	return &twin{p, ref, make([]map[int]float64, len(ref.all)), 1, nil}
}

// changes comes before every flush of ref.
func (w *twin) changes() {
	last := map[float64]float64{}
	for _, pair := range w.waiting {
		last[pair[0]] = pair[1]
	}
	for pick, err := range last {
		w.set(int(pick), err)
	}
	w.waiting = nil
}

func (w *twin) flushed() {
	c := &w.p.cfg
	for e, visible := range w.ref.visible {
		now, first := map[int]float64{}, len(w.ref.all[e])-len(visible)
		for k := range visible {
			s, _, m := nSteps(visible, k, c.N)
			if m < c.N && (s.end == 0 || c.Tails == DropTails || c.Tails == DropTruncated && s.end&env.Terminated == 0) {
				continue
			}
			old, ok := w.of[e][first+k]
			if !ok {
				old = map[Formula]float64{StookeAbbeel: 1, DQNZoo: w.largest, Dopamine: w.largest, Kaixhin: w.largest, CuLE: math.MaxFloat32}[c.Formula]
			}
			now[first+k] = old
		}
		w.of[e] = now
	}
}

// list returns the priorities in the order of picks; -1: it cannot be drawn.
func (w *twin) list() (list []float64) {
	for e, visible := range w.ref.visible {
		for k := range visible {
			priority, ok := w.of[e][len(w.ref.all[e])-len(visible)+k]
			if !ok {
				priority = -1
			}
			list = append(list, priority)
		}
	}
	return list
}

func (w *twin) update(pick int, err float64) {
	if w.p.cfg.Deferred {
		w.waiting = append(w.waiting, [2]float64{float64(pick), err})
		return
	}
	w.set(pick, err)
}

func (w *twin) set(pick int, err float64) {
	c := &w.p.cfg
	p := err
	switch c.Formula {
	case StookeAbbeel:
		p = math.Pow(min(err, 1), c.Alpha)
	case DQNZoo, Kaixhin:
		p = math.Pow(err, c.Alpha)
	case Dopamine:
		loss := err - 0.5
		if err < 1 {
			loss = err * err / 2
		}
		p = math.Pow(loss+1e-10, c.Alpha)
	}
	w.largest = max(w.largest, p)
	for e, visible := range w.ref.visible {
		if pick < len(visible) {
			w.of[e][len(w.ref.all[e])-len(visible)+pick] = p
			return
		}
		pick -= len(visible)
	}
}

// masses returns the masses in the order of picks, 0 where a transition cannot be drawn, and how
// many can be.
func (w *twin) masses() (masses []float64, n int) {
	list := w.list()
	masses = make([]float64, len(list))
	var order []int
	for i, p := range list {
		if p >= 0 {
			masses[i] = p
			n++
			order = append(order, i)
		}
	}
	if w.p.cfg.Formula == CuLE {
		slices.SortFunc(order, func(a, b int) int {
			switch {
			case list[a] > list[b]:
				return -1
			case list[a] < list[b]:
				return 1
			}
			return w.p.drawable.leafOf(a) - w.p.drawable.leafOf(b)
		})
		for rank, i := range order {
			masses[i] = math.Pow(float64(rank+1), -w.p.cfg.Alpha)
		}
	}
	return masses, n
}

// weights returns importance weights from the definition.
func (w *twin) weights(picks []int, beta float64) []float64 {
	masses, n := w.masses()
	total := 0.0
	for _, mass := range masses {
		total += mass
	}
	weights := make([]float64, len(picks))
	for row, i := range picks {
		switch w.p.cfg.Formula {
		case Dopamine:
			weights[row] = 1 / math.Pow(masses[i]+1e-10, beta)
		case DQNZoo:
			weights[row] = math.Pow(1/float64(n)/(0.999*masses[i]/total+0.001/float64(n)), beta)
		default:
			weights[row] = math.Pow(float64(n)*masses[i]/total, -beta)
		}
	}
	most := slices.Max(weights)
	for row := range weights {
		weights[row] /= most
	}
	return weights
}

// Trap: weights are by the transitions of all environments that can be drawn, not by those of one
// environment. Priorities, masses and weights are those of a naive twin over flushes, evictions,
// draws and updates.
func TestPrioritisedEqualsItsTwin(t *testing.T) {
	everyFormula(t, func(t *testing.T, c Priorities) {
		for n := 1; n <= 3; n += 2 {
			c.N, c.Alpha = n, 0.6
			for tails := range TailNames {
				c.Tails = Tails(tails)
				m, ref := must(New(Config{Obs: stackSpec(1, 1), Envs: 3, Capacity: 100, Window: 300})), newReference(3, 100)
				p := must(NewPrioritised(m, c))
				w := newTwin(p, ref)
				r, draws := rand.New(rand.NewPCG(3, uint64(n))), rng.New(1, "replay", 0)
				picks, errors, weights := make([]int, 16), make([]float32, 16), make([]float32, 16)
				for range 12 {
					w.changes()
					addRandom(t, m, ref, r, 8+r.IntN(50))
					p.Flushed()
					w.flushed()
					for range 5 {
						masses, count := w.masses()
						for i, want := range masses {
							leaf := p.drawable.leafOf(i)
							if !p.drawable.has(leaf) {
								if want != 0 {
									t.Fatalf("transition %d cannot be drawn", i)
								}
							} else if got := p.masses.mass(leaf); math.Abs(got-want) > 1e-12*want {
								t.Fatalf("transition %d has the mass %v, must be %v", i, got, want)
							}
						}
						p.Draw(draws, picks)
						for row, d := range p.latest {
							if d.leaf != p.drawable.leafOf(picks[row]) || d.mass != p.masses.mass(d.leaf) || !p.drawable.has(d.leaf) {
								t.Fatalf("row %d: pick %d, %+v", row, picks[row], d)
							}
						}
						p.Weights(0.4, weights)
						for row, want := range w.weights(picks, 0.4) {
							exact := math.Pow(slices.Min(bases(p))/p.base(row), 0.4)
							if math.Abs(exact-want) > 1e-12 || weights[row] != float32(exact) && math.Abs(float64(weights[row])-want) > 1e-7 {
								t.Fatalf("row %d: weight %v (%v), must be %v", row, weights[row], exact, want)
							}
						}
						if p.Len() != count {
							t.Fatalf("Len %d, must be %d", p.Len(), count)
						}
						for row := range errors {
							errors[row] = float32(r.ExpFloat64())
							w.update(picks[row], float64(errors[row]))
						}
						p.Update(picks, errors)
					}
				}
				m.Close()
			}
		}
	})
}

func bases(p *Prioritised) (list []float64) {
	for i := range p.latest {
		list = append(list, p.base(i))
	}
	return list
}

func TestPrioritisedRefusesAndPanics(t *testing.T) {
	m := must(New(Config{Obs: stackSpec(1, 1), Envs: 2, Capacity: 10, Window: 10}))
	defer m.Close()
	for want, c := range map[string]Priorities{
		"prioritized: 9, must be 0 to 4":  {Formula: 9, N: 1},
		"priority_alpha: -1, must be":     {Alpha: -1, N: 1},
		"priority_alpha: NaN, must be":    {Alpha: math.NaN(), N: 1},
		"n_steps: 6, must be 1 to 5":      {N: 6},
		"n_step_tails: 3, must be 0 to 2": {N: 1, Tails: 3},
	} {
		if _, err := NewPrioritised(m, c); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, must be %s", err, want)
		}
	}
	p := must(NewPrioritised(m, Priorities{Alpha: 1, N: 2}))
	draws, picks := rng.New(1, "replay", 0), make([]int, 2)
	panics(t, "replay: Draw where no transition can be drawn", func() { p.Draw(draws, picks) })
	addEpisodes(t, m, 2)
	panics(t, "replay: a Sampler before Flushed", func() { p.Draw(draws, picks) })
	panics(t, "replay: a Sampler before Flushed", func() { p.Update(picks, []float32{1, 1}) })
	p.Flushed()
	p.Draw(draws, picks)
	panics(t, "replay: Weights of 3 rows after Draw of 2", func() { p.Weights(1, make([]float32, 3)) })
	panics(t, "replay: Update of 2 transitions with 1 errors", func() { p.Update(picks, []float32{1}) })
	panics(t, "replay: Update of transition 1, which cannot be drawn", func() { p.Update([]int{1}, []float32{1}) })
	deferred := must(NewPrioritised(m, Priorities{Alpha: 1, N: 2, Deferred: true}))
	for _, e := range []float64{math.NaN(), math.Inf(1)} {
		for _, p := range []*Prioritised{p, deferred} {
			panics(t, "replay: Update with an error of ", func() { p.Update([]int{0}, []float32{float32(e)}) })
		}
	}
	m.cfg.MemoryLimit = func() (int64, string) { return 5, "test" }
	if _, err := NewPrioritised(m, Priorities{N: 1}); err == nil || !strings.Contains(err.Error(), "of memory for priorities, 5 bytes are available (test)") {
		t.Error(err)
	}
}

// Draws, weights, updates and gathering run while samplers write, and do not depend on how they
// interleave.
func TestPrioritisedDrawsWhileSamplersWrite(t *testing.T) {
	const envs, windows = 4, 12
	everyFormula(t, func(t *testing.T, c Priorities) {
		c.N = 3
		var want string
		for round := range 2 {
			m := must(New(Config{Obs: stackSpec(1, 1), Envs: envs, Capacity: 200, Window: 400}))
			p := must(NewPrioritised(m, c))
			var got bytes.Buffer
			for range windows {
				for m.Room(0) < 200 || m.Room(3) < 200 {
					check(t, m.Grow(2))
					if m.Room(0) >= 2 {
						break
					}
				}
				var all sync.WaitGroup
				for e := range envs {
					all.Go(func() {
						for i := range 25 {
							if !m.Open(e) {
								if err := m.Begin(e, []byte{byte(i)}); err != nil {
									t.Error(err)
								}
							}
							if err := addStep(m, e, 0, float32(i), 0, env.End(max(0, i%9-6)), []byte{byte(i)}); err != nil {
								t.Error(err)
							}
						}
					})
				}
				if p.Len() > 0 {
					all.Go(func() {
						draws, b := rng.New(1, "replay", 0), m.Minibatch(16)
						picks, errors := make([]int, 16), make([]float32, 16)
						for range 20 {
							p.Draw(draws, picks)
							p.Weights(0.5, errors)
							m.Gather(picks, 3, gamma, b, nil)
							for row := range errors {
								errors[row] += b.Rewards[row]
							}
							p.Update(picks, errors)
							fmt.Fprintln(&got, picks, errors)
						}
					})
				}
				all.Wait()
				m.Flush()
				p.Flushed()
			}
			m.Close()
			if round == 0 {
				want = got.String()
			} else if got.String() != want {
				t.Error("draws depend on the interleaving")
			}
		}
	})
}

func TestPrioritisedDoesNotAllocate(t *testing.T) {
	everyFormula(t, func(t *testing.T, c Priorities) {
		m := must(New(Config{Obs: stackSpec(1, 1), Envs: 2, Capacity: 600, Window: 30}))
		defer m.Close()
		p := must(NewPrioritised(m, c))
		draws, picks, errors := rng.New(1, "replay", 0), make([]int, 16), make([]float32, 16)
		addEpisodes(t, m, 400)
		p.Flushed()
		p.Draw(draws, picks)
		if n := testing.AllocsPerRun(100, func() {
			p.Draw(draws, picks)
			p.Weights(0.5, errors)
			p.Update(picks, errors)
		}); n != 0 {
			t.Errorf("%g allocations", n)
		}
		if n := testing.AllocsPerRun(10, func() {
			check(t, m.Begin(0, []byte{1}))
			check(t, m.Add(0, &oneStep, []byte{1}))
			m.Flush()
			p.Flushed()
		}); n != 0 {
			t.Errorf("Flushed: %g allocations", n)
		}
	})
}

// A transition has at most 24 bytes more.
func TestPrioritiesAreSmall(t *testing.T) {
	everyFormula(t, func(t *testing.T, p Priorities) {
		for _, envs := range []int{1, 64} {
			c := Config{Envs: envs, Capacity: 1_000_000}
			if n := PrioritiesBytes(c, p); n > 24*1_000_000 {
				t.Errorf("%.1f bytes a transition", float64(n)/1e6)
			}
		}
	})
}
