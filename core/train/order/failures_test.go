package order

import (
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// After a failure the learners' states, the store and the error do not depend on the threads, and
// continuing gives the same bits as a run that did not fail, unless the failed round lacked steps.
func TestFailuresDoNotDependOnThreads(t *testing.T) {
	failures := 0
	for i := range times(300, 10) {
		s := randomSetup(t, i)
		r := rand.New(rand.NewPCG(uint64(i), 42))
		until := s.slices[len(s.slices)-1]
		lacks := r.IntN(2) * s.steps
		first, second := r.IntN(s.k), r.IntN(s.k)
		rounds := 1 + r.Int64N(10)
		var failed, final []string
		for cores := range 4 {
			w := s.world()
			w.learners[second].fails, w.learners[second].lacks = 1+rounds/2, lacks
			w.learners[first].fails, w.learners[first].lacks = rounds, lacks
			turns := newTurns(t, s.config(Virtual), w, cores)
			digests := ""
			for {
				err := w.run(turns, until, nil)
				if turns.Steps() != w.taken() {
					t.Fatalf("configuration %d (%v): T is %d, must be %d", i, s, turns.Steps(), w.taken())
				}
				if err == nil {
					break
				}
				if !errors.Is(err, errFails) {
					t.Fatal(err)
				}
				failures++
				digests += err.Error() + " " + w.digest() + "; "
				for k := range w.learners {
					if l := &w.learners[k]; l.fails > 0 && l.rounds >= l.fails {
						l.fails = 0
					}
				}
				if cores == 3 {
					turns = reload(t, turns, newTurns(t, s.config(Virtual), w, cores))
				}
			}
			failed, final = append(failed, digests), append(final, w.digest())
			if failed[cores] != failed[0] || final[cores] != final[0] {
				t.Fatalf("configuration %d (%v) with %d cores: %s, then %s; with one thread each: %s, then %s", i, s, cores, failed[cores], final[cores], failed[0], final[0])
			}
		}
		if lacks == 0 {
			w := s.world()
			newNaive(w, s.seed, s.latency, s.barrier).run(until)
			if final[0] != w.digest() {
				t.Fatalf("configuration %d (%v): %s, without failures %s", i, s, final[0], w.digest())
			}
		}
	}
	if failures < 20 {
		t.Errorf("%d failures", failures)
	}
}

// A failure in a race refuses what has not begun. The race continues, its checkpoint without the
// rollouts discards the visits that were left, and its order can be read.
func TestARaceWithFailures(t *testing.T) {
	forgotten := 0
	for i := range times(300, 40) {
		s := randomSetup(t, i)
		s.delays = 2
		w := s.world()
		turns := newTurns(t, s.config(Race), w, i%4)
		w.learners[i%s.k].fails = 3
		until := s.slices[len(s.slices)-1]
		err := w.run(turns, until, nil)
		if err != nil && !errors.Is(err, errFails) {
			t.Fatal(err)
		}
		turns = reload(t, turns, newTurns(t, s.config(Race), w, i%4))
		for k := range w.learners {
			l := &w.learners[k]
			if turns.Visited(k) > 0 {
				forgotten++
			}
			l.round, l.update, l.rolled, l.fails, l.pulled = 0, 0, nil, 0, false
		}
		turns.Forget()
		if err := w.run(turns, until, nil); err != nil {
			t.Fatalf("configuration %d (%v): %v", i, s, err)
		}
		order, err := ParseOrder(turns.Order())
		if err != nil || order.visits != turns.Stats().Visits {
			t.Fatalf("configuration %d (%v): %v", i, s, err)
		}
	}
	if forgotten == 0 {
		t.Error("no visits were forgotten")
	}
}

// A virtual run whose rollouts are lost continues, and the same for all threads.
func TestForget(t *testing.T) {
	for i := range times(300, 5) {
		s := randomSetup(t, i)
		if i%2 == 0 {
			s.barrier, s.pulls, s.skips = true, 0, false
		}
		middle, until := s.slices[0], s.slices[len(s.slices)-1]+100
		want := ""
		for cores := range 4 {
			w := s.world()
			turns := newTurns(t, s.config(Virtual), w, cores)
			if err := w.run(turns, middle, nil); err != nil {
				t.Fatal(err)
			}
			turns.Forget()
			for k := range w.learners {
				l := &w.learners[k]
				l.round, l.update, l.rolled, l.pulled = 0, 0, nil, false
			}
			turns.SetSteps(0)
			if turns.Steps() != 0 {
				t.Fatalf("T is %d, must be 0", turns.Steps())
			}
			if err := w.run(turns, until, nil); err != nil {
				t.Fatalf("configuration %d (%v): %v", i, s, err)
			}
			if got := w.digest(); cores == 0 {
				want = got
			} else if got != want {
				t.Fatalf("configuration %d (%v) with %d cores: %s, with a thread each %s", i, s, cores, got, want)
			}
		}
	}
}

// The rounds of all learners end together where the host takes them. Then come the visits, in the
// order of their times. A race is repeated.
func TestRoundsOfTheHost(t *testing.T) {
	for i := range times(300, 4) {
		s := randomSetup(t, i)
		s.varies, s.pulls, s.warmup, s.skips = false, 0, 0, false
		rounds := 40
		twin := s.world()
		n := newNaive(twin, s.seed, s.latency, s.barrier)
		for range rounds {
			n.meet()
		}
		var order *Order
		race := ""
		for cores := range 9 {
			w := s.world()
			config := s.config([]Schedule{Virtual, Virtual, Virtual, Race, Recorded, Recorded, Recorded, Virtual, Virtual}[cores])
			config.Together = true
			if config.Schedule == Recorded {
				config.Order = order
			}
			turns := newTurns(t, config, w, cores%4)
			for range rounds {
				for k := range w.learners {
					w.learners[k].take(&w.programme, w.steps, false)
				}
				if err := turns.Together(int64(w.k * w.steps)); err != nil {
					t.Fatal(err)
				}
				if cores >= 6 {
					interrupt := new(stopAfter)
					interrupt.left.Store(int64(i % 7))
					if err := w.run(turns, 0, interrupt); err != nil && !errors.Is(err, errInterrupted) {
						t.Fatal(err)
					}
					turns = reload(t, turns, newTurns(t, config, w, cores%4))
				}
				if err := w.run(turns, 0, nil); err != nil {
					t.Fatalf("configuration %d (%v), %s: %v", i, s, config.Schedule, err)
				}
			}
			got := w.digest()
			switch config.Schedule {
			case Virtual:
				if got != twin.digest() {
					t.Fatalf("configuration %d (%v): %s, must be %s", i, s, got, twin.digest())
				}
			case Race:
				race = got
				var err error
				if order, err = ParseOrder(turns.Order()); err != nil {
					t.Fatal(err)
				}
			default:
				if got != race {
					t.Fatalf("configuration %d (%v): %s, the race had %s", i, s, got, race)
				}
			}
		}
	}
}

// meet is a round of all learners, which end together, and the visits after it.
func (n *naive) meet() {
	latest := int64(0)
	for k := range n.learners {
		n.total += int64(n.learners[k].take(&n.programme, n.steps, false))
		latest = max(latest, n.clocks[k])
	}
	for k := range n.clocks {
		n.clocks[k] = latest
	}
	for {
		best, waits := -1, false
		for k := range n.legs {
			if len(n.legs[k]) == 0 {
				if rounds, _ := n.learners[k].next(&n.programme); rounds > 0 {
					continue
				}
				n.plan(k)
			}
			if n.pulls(k) && n.waits[k] {
				waits = true
			} else if best < 0 || n.legs[k][0].time < n.legs[best][0].time {
				best = k
			}
		}
		switch {
		case best >= 0:
			n.do(best)
		case waits:
			n.release()
		default:
			return
		}
	}
}

// A panic in a visit leaves the locks as they were. The learner fails, and the run continues.
func TestPanicsInVisits(t *testing.T) {
	s := randomSetup(t, 5)
	s.k, s.pulls, s.barrier = 4, 0, false
	for i := range 60 { // other learners make some of the visits
		schedule := []Schedule{Virtual, Race}[i%2]
		w := s.world()
		turns := newTurns(t, s.config(schedule), w, 1+i%3)
		var panics atomic.Int64
		w.work = func(what string) {
			if what == "visit" && panics.Add(1) == int64(10+i) {
				panic("a bug")
			}
		}
		// 1,000 steps of a race had 68 to 94 visits: with twice as many one of them is sure to panic.
		if err := w.run(turns, 2000, nil); err == nil || err.Error() != "panic: a bug" {
			t.Fatalf("%s: %v", schedule, err)
		}
		if err := w.run(turns, 2000, nil); err != nil || turns.Steps() < 2000 {
			t.Errorf("%s: %v, T is %d", schedule, err, turns.Steps())
		}
	}
}

// An Interrupt that is raised while all learners wait or compute ends a slice.
func TestInterruptsEndWaits(t *testing.T) {
	s := randomSetup(t, 5)
	s.k, s.delays, s.pulls = 8, 0, 0
	for _, schedule := range []Schedule{Virtual, Race} {
		w := s.world()
		turns := newTurns(t, s.config(schedule), w, 2)
		interrupt := &stopAfter{deadline: time.Now().Add(20 * time.Millisecond)}
		interrupt.left.Store(1 << 60)
		if err := w.run(turns, 1<<50, interrupt); err != errInterrupted {
			t.Errorf("%s: %v", schedule, err)
		}
		stop := new(stopAfter)
		stop.left.Store(1 << 60)
		time.AfterFunc(20*time.Millisecond, func() {
			stop.left.Store(0)
			turns.Wake()
		})
		if err := w.run(turns, 1<<50, stop); err != errInterrupted {
			t.Errorf("%s: %v", schedule, err)
		}
		if st := turns.Stats(); st.Visits == 0 || strings.Contains(w.digest(), " after 0 ") {
			t.Errorf("%s: %+v", schedule, st)
		}
	}
}
