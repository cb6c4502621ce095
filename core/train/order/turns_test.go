package order

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/cpu"
)

func TestConfigs(t *testing.T) {
	second := mustDuration(t, "1")
	latency := &Latency{second, second, second, second, second, ""}
	for says, c := range map[string]Config{
		`schedule: "", must be "virtual", "race" or "recorded"`: {},
		"learners: 0, must be 1 to 1024":                        {Schedule: Race},
		"learners: 1025, must be 1 to 1024":                     {Schedule: Race, Learners: 1025},
		"shards: 4097, must be 1 to 4096":                       {Schedule: Race, Learners: 1, Shards: 4097},
		"steps of a round: 0, must be 1 to 1048576":             {Schedule: Race, Learners: 1, Shards: 1},
		"latency: a duration is missing":                        {Schedule: Virtual, Learners: 1, Shards: 1, Steps: 1, Latency: &Latency{Step: second}},
		`order: must be given with schedule "recorded"`:         {Schedule: Recorded, Learners: 1, Shards: 1, Steps: 1},
		`order: must be given with schedule "recorded", `:       {Schedule: Virtual, Learners: 1, Shards: 1, Steps: 1, Latency: latency, Order: &Order{}},
	} {
		if _, err := New(c); err == nil || !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%v, must say %q", err, says)
		}
	}
}

// A learner's plan must be what is left of its leg, or follow it.
func TestPlans(t *testing.T) {
	second := mustDuration(t, "1")
	latency := &Latency{second, second, second, second, second, ""}
	for _, schedule := range []Schedule{Virtual, Race} {
		turns, err := New(Config{Schedule: schedule, Learners: 1, Shards: 2, Steps: 4, Latency: latency, Barrier: true})
		if err != nil {
			t.Fatal(err)
		}
		turns.Begin(100, nil)
		turns.Enter(0)
		plan := func(n int, s Visits, says string) {
			t.Helper()
			if err := turns.Plan(0, n, s); says == "" && err != nil || says != "" && (err == nil || !strings.HasPrefix(err.Error(), says)) {
				t.Errorf("%s: %v, must say %q", schedule, err, says)
			}
		}
		plan(0, NoVisit, "")
		plan(1, NoVisit, "")
		plan(3, PullAll, "order: learner 0 plans pulls alone")
		plan(2, PushAndPull, "")
		plan(2, PushAndPull, "")
		plan(3, PushAndPull, "order: learner 0 plans 3 rounds and 4 visits, must first end its leg, which has 2 rounds and 4 visits left")
		plan(2, NoVisit, "order: learner 0 plans 2 rounds and 0 visits, must first")
		if ok, err := turns.Round(0); !ok || err != nil {
			t.Error(ok, err)
		}
		turns.Took(0, 4)
		plan(2, PushAndPull, "order: learner 0 plans 2 rounds and 4 visits, must first end its leg, which has 1 rounds and 4 visits left")
		plan(1, PushAndPull, "")
		turns.Leave(0, false)
		if err := turns.End(); err != nil || turns.Steps() != 4 {
			t.Errorf("%v, T is %d", err, turns.Steps())
		}
	}
}

// Rounds are trimmed as early as possible, so that the tests see it.
func init() { trimmed = 1 }

// A core goes to the learner that waits with the earliest event, in a race to the one that waits
// longest. At most as many learners as there are cores have one.
func TestWhoGetsACore(t *testing.T) {
	second := mustDuration(t, "1")
	latency := &Latency{second, second, second, second, second, ""}
	for schedule, want := range map[Schedule][]int{Virtual: {0, 3, 2, 1}, Race: {0, 1, 2, 3}} {
		w := newWorld(programme{}, 4, 1, 1, false)
		turns := newTurns(t, Config{Schedule: schedule, Latency: latency}, w, 1)
		for k, end := range []int64{0, 30, 20, 10} {
			turns.learners[k].end = end
		}
		turns.Begin(1, nil)
		turns.Enter(0)
		for k := 1; k < 4; k++ {
			if turns.race != nil {
				turns.race.arrive(k)
			}
			turns.give(k)
		}
		order := []int{0}
		for len(order) < 4 {
			turns.takeBack()
			for k := range turns.learners {
				if len(turns.learners[k].wake) > 0 {
					<-turns.learners[k].wake
					order = append(order, k)
				}
			}
		}
		if turns.takeBack(); !slices.Equal(order, want) || turns.cores.free != 1 {
			t.Errorf("%s: learners get the core in the order %v, must be %v; %d are free", schedule, order, want, turns.cores.free)
		}
	}
}

// setup is a random configuration.
type setup struct {
	programme
	seed             uint64
	k, shards, steps int
	varies, barrier  bool
	latency          *Latency
	slices           []int64 // the ends of slices
}

func (s *setup) String() string {
	return fmt.Sprintf("%+v, seed %d, %d learners, %d shards, %d steps, varies %v, barrier %v, %v %v %v %v %v, slices %v", s.programme, s.seed, s.k, s.shards, s.steps, s.varies, s.barrier,
		s.latency.Step, s.latency.Forward, s.latency.Gradient, s.latency.Pull, s.latency.Push, s.slices)
}

func randomSetup(t testing.TB, i int) *setup {
	r := rand.New(rand.NewPCG(uint64(i), 40))
	s := &setup{seed: r.Uint64(), k: 1 + r.IntN(8), shards: 1 + r.IntN(5), steps: 1 + r.IntN(16), varies: r.IntN(4) == 0, barrier: r.IntN(5) == 0}
	if r.IntN(20) == 0 {
		s.k = 64
	}
	s.programme = programme{rounds: 1 + r.IntN(8), updates: 1 + r.IntN(3), delays: []int{0, 2, 10, 100}[r.IntN(4)]}
	if r.IntN(3) == 0 && !s.barrier {
		s.pulls = 1 + r.IntN(4)
	}
	if r.IntN(4) == 0 {
		s.warmup = r.IntN(10)
	}
	s.skips = r.IntN(4) == 0 && !s.barrier
	duration := func() Duration {
		median := []string{"1e-9", "3e-9", "1e-7", "1e-5", "0.001", "0.1"}[r.IntN(6)]
		if s.k < 64 && r.IntN(2) == 0 {
			median = "0.001"
		}
		switch r.IntN(4) {
		case 0:
			return mustDuration(t, median)
		case 1:
			d, err := Measured([]float64{1e-6, 1e-5, 3e-5, 1e-4, 1e-3})
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		return mustDuration(t, median+":"+[]string{"0.1", "0.5", "1", "2"}[r.IntN(4)])
	}
	s.latency = &Latency{Step: duration(), Forward: duration(), Gradient: duration(), Pull: duration(), Push: duration()}
	total := int64(s.k*s.steps) * int64(5+r.IntN(40))
	if s.k == 64 {
		total /= 3
	}
	for at := int64(0); at < total; {
		at += 1 + r.Int64N(total)
		s.slices = append(s.slices, min(at, total))
		if r.IntN(3) == 0 && len(s.slices) < 20 { // a slice of a round or two
			s.slices = append(s.slices, min(at, total)+1+r.Int64N(int64(s.steps)))
			at += int64(s.steps)
		}
	}
	slices.Sort(s.slices)
	return s
}

func (s *setup) world() *world { return newWorld(s.programme, s.k, s.shards, s.steps, s.varies) }

func (s *setup) config(schedule Schedule) Config {
	return Config{Schedule: schedule, Seed: s.seed, Latency: s.latency, Barrier: s.barrier}
}

// naive returns the digest of the naive twin after each slice.
func (s *setup) naive() []string {
	var list []string
	w := s.world()
	n := newNaive(w, s.seed, s.latency, s.barrier)
	for _, until := range s.slices {
		n.run(until)
		list = append(list, w.digest())
	}
	return list
}

// times is few with -short, and where the kernels are in Go: the package has no kernels, and all
// its tests run with those in C, too.
func times(all, few int) int {
	if testing.Short() || cpu.Chosen() == "go" {
		return few
	}
	return all
}

// A virtual order is that of the naive twin, for any number of cores, any speed of the threads, any
// slices, and with saves, loads and interrupts.
func TestVirtualOrderIsThatOfTheTwin(t *testing.T) {
	for i := range times(1000, 20) {
		s := randomSetup(t, i)
		want := s.naive()
		for cores := range 5 {
			got := s.virtual(t, cores, uint64(i))
			if cores == 4 { // one slice
				w := s.world()
				turns := newTurns(t, s.config(Virtual), w, 2)
				if err := w.run(turns, s.slices[len(s.slices)-1], nil); err != nil {
					t.Fatal(err)
				}
				got = append(got[:len(got)-1], w.digest())
			}
			for j := range want {
				if got[j] != want[j] {
					t.Fatalf("configuration %d (%v) with %d cores, slice %d: %s, must be %s", i, s, cores, j, got[j], want[j])
				}
			}
		}
	}
}

// virtual returns the digests after each slice. With an odd number of cores there are interrupts,
// and saves and loads in between.
func (s *setup) virtual(t *testing.T, cores int, seed uint64) (list []string) {
	r := rand.New(rand.NewPCG(seed, uint64(cores)))
	w := s.world()
	turns := newTurns(t, s.config(Virtual), w, cores)
	for _, until := range s.slices {
		for cores%2 == 1 && r.IntN(2) == 0 {
			interrupt := new(stopAfter)
			interrupt.left.Store(r.Int64N(100))
			if r.IntN(4) == 0 {
				interrupt.left.Store(1e9)
				interrupt.deadline = time.Now().Add(time.Duration(r.IntN(300)) * time.Microsecond)
			}
			if err := w.run(turns, until, interrupt); err != nil && err != errInterrupted {
				t.Fatal(err)
			}
			other := newTurns(t, s.config(Virtual), w, cores)
			if r.IntN(2) == 0 { // which has a state of its own
				if err := s.world().run(other, r.Int64N(100), nil); err != nil {
					t.Fatal(err)
				}
			}
			turns = reload(t, turns, other)
		}
		if err := w.run(turns, until, nil); err != nil {
			t.Fatal(err)
		}
		list = append(list, w.digest())
		if taken := w.taken(); turns.Steps() != taken {
			t.Fatalf("T is %d, must be %d", turns.Steps(), taken)
		}
	}
	return list
}

// reload saves the parts of one Turns and loads them into another, which it returns.
func reload(t testing.TB, from, to *Turns) *Turns {
	t.Helper()
	file, err := checkpoint.SaveBytes("run", nil, from.Parts())
	if err != nil {
		t.Fatal(err)
	}
	in, err := checkpoint.OpenBytes(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	adopt, err := in.Load(to.Parts())
	if err != nil {
		t.Fatal(err)
	}
	adopt()
	if to.Steps() != from.Steps() {
		t.Fatalf("T is %d after a load, was %d", to.Steps(), from.Steps())
	}
	return to
}

// A recorded race has the same result when its order is repeated, for any number of cores, in the
// recorded slices and in others. The race is interrupted, saved and continued.
func TestARaceRepeated(t *testing.T) {
	compared := 0
	for i := range times(1000, 20) {
		s := randomSetup(t, i)
		r := rand.New(rand.NewPCG(uint64(i), 41))
		w := s.world()
		turns := newTurns(t, s.config(Race), w, i%5)
		var ends []int64
		var want []string
		for _, until := range s.slices {
			if r.IntN(3) == 0 {
				interrupt := new(stopAfter)
				interrupt.left.Store(r.Int64N(60))
				if err := w.run(turns, until, interrupt); err != nil && !errors.Is(err, errInterrupted) {
					t.Fatal(err)
				}
			}
			if r.IntN(3) == 0 {
				turns = reload(t, turns, newTurns(t, s.config(Race), w, i%4))
			}
			if err := w.run(turns, until, nil); err != nil {
				t.Fatal(err)
			}
			if turns.Steps() < until || !s.varies && turns.Steps() >= until+int64(s.steps) && (len(ends) == 0 || turns.Steps() > ends[len(ends)-1]) {
				t.Fatalf("configuration %d (%v): T is %d at the end of a slice to %d", i, s, turns.Steps(), until)
			}
			ends, want = append(ends, turns.Steps()), append(want, w.digest())
		}
		order, err := ParseOrder(turns.Order())
		if err != nil {
			t.Fatal(err)
		}
		if st := turns.Stats(); st.Visits != order.visits {
			t.Fatalf("%d visits, the order has %d", st.Visits, order.visits)
		}
		for cores := range 4 {
			w := s.world()
			config := s.config(Recorded)
			config.Order = order
			turns := newTurns(t, config, w, cores)
			for j, until := range s.slices {
				if cores == 3 && j < len(s.slices)-1 {
					until = r.Int64N(until + 1) // other slices
				}
				if cores%2 == 1 && r.IntN(2) == 0 {
					interrupt := new(stopAfter)
					interrupt.left.Store(r.Int64N(60))
					if err := w.run(turns, until, interrupt); err != nil && err != errInterrupted {
						t.Fatal(err)
					}
					turns = reload(t, turns, newTurns(t, config, w, cores))
				}
				if err := w.run(turns, until, nil); err != nil {
					t.Fatalf("configuration %d (%v): %v", i, s, err)
				}
				recorded := slices.ContainsFunc(order.stops, func(e stop) bool { return e.steps == ends[j] && e.until <= e.steps })
				if recorded && cores < 3 {
					compared++
				}
				if got := w.digest(); got != want[j] && recorded && (cores < 3 || j == len(s.slices)-1) {
					t.Fatalf("configuration %d (%v) with %d cores, slice %d: %s, the race had %s", i, s, cores, j, got, want[j])
				}
			}
		}
	}
	t.Logf("%d ends of slices were compared", compared)
}

// A race whose T is set back between its runs is repeated run by run, also where runs are of equal
// length and visits that are due come at the end of each.
func TestARaceWithResetsRepeated(t *testing.T) {
	for i := range times(300, 30) {
		s := randomSetup(t, i)
		r := rand.New(rand.NewPCG(uint64(i), 44))
		ends := []int64{s.slices[0], s.slices[0], s.slices[0], 1 + r.Int64N(s.slices[0])}
		r.Shuffle(len(ends), func(i, j int) { ends[i], ends[j] = ends[j], ends[i] })
		run := func(config Config, cores int, digest func(turns *Turns, w *world)) {
			w := s.world()
			turns := newTurns(t, config, w, cores)
			for _, until := range ends {
				turns.SetSteps(0)
				for _, until := range []int64{until, until} {
					if err := w.run(turns, until, nil); err != nil {
						t.Fatalf("configuration %d (%v), %s, runs %v: %v", i, s, config.Schedule, ends, err)
					}
					if cores == 3 {
						turns = reload(t, turns, newTurns(t, config, w, cores))
					}
				}
				if err := w.run(turns, turns.Steps(), nil); err != nil {
					t.Fatal(err)
				}
				digest(turns, w)
			}
		}
		var want []string
		var order *Order
		run(s.config(Race), 2, func(turns *Turns, w *world) {
			var err error
			if order, err = ParseOrder(turns.Order()); err != nil {
				t.Fatal(err)
			}
			want = append(want, fmt.Sprint(w.digest(), turns.Steps()))
		})
		config := s.config(Recorded)
		config.Order = order
		for cores := 1; cores < 4; cores++ {
			n := 0
			run(config, cores, func(turns *Turns, w *world) {
				if got := fmt.Sprint(w.digest(), turns.Steps()); got != want[n] {
					t.Fatalf("configuration %d (%v), runs %v, run %d: %s, the race had %s", i, s, ends, n, got, want[n])
				}
				n++
			})
		}
	}
}
