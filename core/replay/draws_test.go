package replay

import (
	"math"
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/rng"
)

// chi returns the chi-square statistic of counts, and 6 standard deviations beyond its mean.
func chi(counts []int, shares []float64, drawn int) (chi, most float64) {
	free := -1.0
	for i, share := range shares {
		if share == 0 {
			if counts[i] > 0 {
				return math.Inf(1), 0
			}
			continue
		}
		free++
		d := float64(counts[i]) - share*float64(drawn)
		chi += d * d / (share * float64(drawn))
	}
	return chi, free + 6*math.Sqrt(2*free)
}

// Transitions are drawn as often as their probabilities say. Stratified draws vary less.
func TestDrawsFollowThePriorities(t *testing.T) {
	everyFormula(t, func(t *testing.T, c Priorities) {
		m := must(New(Config{Obs: stackSpec(1, 1), Envs: 3, Capacity: 60, Window: 300}))
		defer m.Close()
		c.Alpha = 0.7
		p := must(NewPrioritised(m, c))
		addEpisodes(t, m, 30)
		p.Flushed()
		masses, total := make([]float64, m.Len()), 0.0
		for i := range masses {
			p.Update([]int{i}, []float32{float32(i%7) / 7})
		}
		for i := range masses {
			masses[i] = p.masses.mass(p.drawable.leafOf(i))
			total += masses[i]
		}
		shares := make([]float64, len(masses))
		for i := range shares {
			shares[i] = (1-rules[c.Formula].mix)*masses[i]/total + rules[c.Formula].mix/float64(len(masses))
		}
		const n = 200_000
		counts, r, picks := make([]int, m.Len()), rng.New(5, "replay", 0), make([]int, 8)
		if rules[c.Formula].distinct { // the rows of one minibatch are not independent
			picks = picks[:1]
		}
		for range n / len(picks) {
			p.Draw(r, picks)
			for _, i := range picks {
				counts[i]++
			}
		}
		if got, most := chi(counts, shares, n); got > most {
			t.Errorf("chi-square %.1f, must be at most %.1f", got, most)
		}
	})
}

// Trap: accel_rl and rlpyt sort the draws of a minibatch and discard the last ones. Environments
// and slots are drawn equally often here, and no transition twice.
func TestMinibatchesOfDistinctTransitionsAreFair(t *testing.T) {
	const envs, slots, rows, batches = 8, 50, 200, 500
	m := must(New(Config{Obs: stackSpec(1, 1), Envs: envs, Capacity: envs * slots, Window: envs}))
	defer m.Close()
	p := must(NewPrioritised(m, Priorities{Formula: StookeAbbeel, Alpha: 0.5, N: 1}))
	addEpisodes(t, m, slots)
	p.Flushed()
	r, picks, ofEnv, ofSlot := rng.New(2, "replay", 0), make([]int, rows), make([]int, envs), make([]int, slots)
	for range batches {
		p.Draw(r, picks)
		for _, i := range picks {
			ofEnv[i/slots]++
			ofSlot[i%slots]++
		}
		slices.Sort(picks)
		if len(slices.Compact(picks)) != rows {
			t.Fatal("a transition was drawn twice")
		}
	}
	for _, counts := range [][]int{ofEnv, ofSlot} {
		got, most := chi(counts, slices.Repeat([]float64{1 / float64(len(counts))}, len(counts)), rows*batches)
		if got > most {
			t.Errorf("chi-square %.1f, must be at most %.1f: %v", got, most, counts)
		}
	}
	// There are fewer transitions than rows.
	p.Draw(r, make([]int, envs*slots+1))
}

// Trap: environments that were flushed together are drawn equally often, also by rank, where
// transitions that were never drawn are all equal.
func TestFreshTransitionsAreFair(t *testing.T) {
	everyFormula(t, func(t *testing.T, c Priorities) {
		const envs, rows, batches = 8, 32, 2000
		m := must(New(Config{Obs: stackSpec(1, 1), Envs: envs, Capacity: 50 * envs, Window: envs}))
		defer m.Close()
		p := must(NewPrioritised(m, c))
		addEpisodes(t, m, 50)
		p.Flushed()
		r, picks, counts := rng.New(2, "replay", 0), make([]int, rows), make([]int, envs)
		for range batches {
			p.Draw(r, picks)
			for _, i := range picks {
				counts[i/50]++
			}
		}
		if c.Formula == CuLE { // ranks 1 to 8 have different masses
			low, high := slices.Min(counts), slices.Max(counts)
			if float64(high) > 1.2*float64(low) {
				t.Errorf("%v", counts)
			}
			return
		}
		if got, most := chi(counts, slices.Repeat([]float64{1.0 / envs}, envs), rows*batches); got > most {
			t.Errorf("chi-square %.1f, must be at most %.1f: %v", got, most, counts)
		}
	})
}

// Stratified draws have one transition of each of as many equal parts as there are rows.
func TestStratifiedDraws(t *testing.T) {
	for _, f := range []Formula{Dopamine, Kaixhin, CuLE} {
		m := must(New(Config{Obs: stackSpec(1, 1), Envs: 2, Capacity: 40, Window: 10}))
		defer m.Close()
		p := must(NewPrioritised(m, Priorities{Formula: f, Alpha: 0.5, N: 1}))
		addEpisodes(t, m, 20)
		p.Flushed()
		picks, r := make([]int, 40), rng.New(1, "replay", 0)
		for range 20 {
			p.Draw(r, picks)
			if f == CuLE {
				for row := range picks[1:] {
					if p.latest[row+1].mass > p.latest[row].mass {
						t.Fatalf("%s: row %d has the mass %v, the one before %v", f, row+1, p.latest[row+1].mass, p.latest[row].mass)
					}
				}
				continue
			}
			slices.Sort(picks)
			for i, pick := range picks {
				if pick != i {
					t.Fatalf("%s: %v", f, picks)
				}
			}
		}
	}
}

// Trap: what a transition that was never drawn gets, and which error is taken, differ.
func TestFormulasDiffer(t *testing.T) {
	for _, c := range []struct {
		formula       Formula
		fresh         float64 // after an error of 4 with alpha 1/2
		td, dist      Error
		low, high     float64 // of priorities of distributions' errors, 1e-8 and 1e8
		zero, tooMuch float64 // of TD errors 0 and 4
	}{
		{StookeAbbeel, 1, AbsoluteTD, Divergence, 1e-3, 1e3, 0, 1},
		{DQNZoo, 2, AbsoluteTD, RowLoss, 1e-4, 10, 0, 2},
		{Dopamine, math.Sqrt(3.5 + 1e-10), RowLoss, RowLoss, math.Sqrt(1e-8 + 1e-10), 1e4, 1e-5, math.Sqrt(3.5 + 1e-10)}, // of Huber losses
		{Kaixhin, 2, AbsoluteTD, RowLoss, 1e-4, 1e4, 0, 2},
		{CuLE, math.MaxFloat32, AbsoluteTD, RowLoss, 1e-8, 1e8, 0, 4},
	} {
		m := must(New(Config{Obs: stackSpec(1, 1), Envs: 1, Capacity: 10, Window: 10}))
		defer m.Close()
		cfg := Priorities{Formula: c.formula, Alpha: 0.5, N: 1}
		p := must(NewPrioritised(m, cfg))
		addEpisodes(t, m, 4)
		p.Flushed()
		p.Update([]int{0}, []float32{4})
		addEpisodes(t, m, 1)
		p.Flushed()
		near := func(what string, got, want float64) {
			t.Helper()
			if math.Abs(got-want) > 1e-7*want {
				t.Errorf("%s: %s: %v, must be %v", c.formula, what, got, want)
			}
		}
		near("never drawn", p.masses.get(p.drawable.leafOf(4)), c.fresh)
		near("zero", cfg.priority(0), c.zero)
		near("4", cfg.priority(-4), c.tooMuch)
		cfg.Distributions = true
		near("1e-8", cfg.priority(1e-8), c.low)
		near("1e8", cfg.priority(1e8), c.high)
		// A divergence with clipped logarithms may be below 0.
		if got, want := cfg.priority(-4), cfg.priority(0); got != want {
			t.Errorf("%s: -4: %v, must be %v", c.formula, got, want)
		}
		if c.formula.Error(false) != c.td || c.formula.Error(true) != c.dist {
			t.Errorf("%s: errors %d, %d", c.formula, c.formula.Error(false), c.formula.Error(true))
		}
		if f, err := ParseFormula(c.formula.String()); f != c.formula || err != nil {
			t.Errorf("%s: %v, %v", c.formula, f, err)
		}
	}
	if _, err := ParseFormula("per"); err == nil || err.Error() != `prioritized: "per", must be one of stooke_abbeel, dqn_zoo, dopamine, kaixhin, cule` {
		t.Error(err)
	}
}

// If all priorities are 0, all transitions are equally probable and the weights are 1.
func TestAllPrioritiesZero(t *testing.T) {
	for _, f := range []Formula{StookeAbbeel, DQNZoo, Kaixhin, CuLE} {
		m := must(New(Config{Obs: stackSpec(1, 1), Envs: 2, Capacity: 10, Window: 10}))
		defer m.Close()
		p := must(NewPrioritised(m, Priorities{Formula: f, Alpha: 0, N: 1}))
		addEpisodes(t, m, 5)
		p.Flushed()
		for i := range 10 {
			p.Update([]int{i}, []float32{0})
		}
		picks, weights, counts, r := make([]int, 4), make([]float32, 4), make([]int, 10), rng.New(1, "replay", 0)
		for range 1000 {
			p.Draw(r, picks)
			p.Weights(1, weights)
			for row, i := range picks {
				counts[i]++
				if weights[row] != 1 {
					t.Fatalf("%s: weights %v", f, weights)
				}
			}
		}
		if low := slices.Min(counts); low < 300 {
			t.Errorf("%s: %v", f, counts)
		}
	}
}

// BenchmarkPrioritised measures draws of a million transitions, with their weights, and updates.
func BenchmarkPrioritised(b *testing.B) {
	const capacity, rows = 1_000_000, 32
	for formula, name := range FormulaNames {
		m := must(New(Config{Obs: stackSpec(1, 1), Envs: 8, Capacity: capacity, Window: 1}))
		p := must(NewPrioritised(m, Priorities{Formula: Formula(formula), Alpha: 0.6, N: 1}))
		for range capacity / 8 / 1000 {
			addEpisodes(b, m, 1000)
			p.Flushed()
		}
		picks, errors, weights, r := make([]int, rows), make([]float32, rows), make([]float32, rows), rng.New(1, "replay", 0)
		for first := range m.Len() / rows {
			for row := range picks {
				picks[row], errors[row] = rows*first+row, float32(r.Float64())
			}
			p.Update(picks, errors)
		}
		b.Run(name+"/draw", func(b *testing.B) {
			for i := 0; i < b.N; i += rows {
				p.Draw(r, picks)
				p.Weights(0.4, weights)
			}
		})
		b.Run(name+"/update", func(b *testing.B) {
			for i := 0; i < b.N; i += rows {
				for row := range picks {
					picks[row] = r.Intn(m.Len())
				}
				p.Update(picks, errors)
			}
		})
		m.Close()
	}
}

// A memory of CuLE's priorities may have more transitions than an int32 counts. Here one block of
// leaves stands for all blocks.
func TestRanksBeyondAnInt32(t *testing.T) {
	const groups = 1<<31/(blockSize*groupSize) + 1
	k := &ranks{leaves: make([]uint32, blockSize), sizes: []int32{blockSize}, order: make([]int32, groups*groupSize), groups: make([]int32, groups)}
	for i := range k.leaves {
		k.leaves[i] = uint32(i)
	}
	for g := range k.groups {
		k.groups[g] = blockSize * groupSize
	}
	for _, i := range []int{5, 1<<31 - 1, 1 << 31, 1<<31 + blockSize + 7} {
		if got := k.at(i); got != i%blockSize {
			t.Errorf("place %d: leaf %d, must be %d", i, got, i%blockSize)
		}
	}
}
