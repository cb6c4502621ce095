package order

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/threads"
)

// mix is a hash of two numbers, in which the order of the arguments counts.
func mix(a, b uint64) uint64 {
	x := a*0x9e3779b97f4a7c15 ^ b
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	return x ^ x>>29
}

// programme is what every simulated learner does.
type programme struct {
	rounds  int  // of a rollout
	updates int  // from a rollout
	pulls   int  // rounds between two pulls while sampling; 0: none
	warmup  int  // rounds before the first rollout
	delays  int  // one round or gradient in so many takes a while; 0: none
	skips   bool // one rollout in four has nothing to learn from
}

// simulated is a learner whose parameters, environments and gradients are hashes. Its state is a
// function of its events and of what it has pulled.
type simulated struct {
	theta  []uint64 // of each shard
	state  uint64   // of the environments
	steps  int64    // T as it was pulled
	taken  int64    // steps of its own
	warm   int
	round  int  // in the rollout
	pulled bool // at this round
	update int
	rolled []uint64 // the rollout
	skips  bool     // the latest round has ended a rollout that has nothing to learn from
	rounds int64
	fails  int64 // the number of the round that fails, once; 0: none
	lacks  int   // steps of that round
}

// next says what follows: the rounds before the next visits and their kind.
func (l *simulated) next(p *programme) (rounds int, s Visits) {
	switch {
	case l.warm < p.warmup:
		return p.warmup - l.warm, NoVisit
	case l.round == p.rounds:
		return 0, PushAndPull
	case p.pulls > 0 && l.round > 0 && l.round%p.pulls == 0 && !l.pulled:
		return 0, PullAll
	}
	left := p.rounds - l.round
	if p.pulls > 0 {
		if toPull := p.pulls - l.round%p.pulls; toPull < left {
			return toPull, PullAll
		}
	}
	return left, PushAndPull
}

// take takes a round of up to n steps.
func (l *simulated) take(p *programme, n int, varies bool) (steps int) {
	for s := range l.theta {
		l.state = mix(l.state, l.theta[s])
	}
	l.state = mix(l.state, uint64(l.steps))
	steps = n
	if varies {
		steps = int(l.state>>40) % (n + 1)
	}
	l.taken += int64(steps)
	l.rounds++
	if l.warm < p.warmup {
		l.warm++
		return steps
	}
	l.rolled = append(l.rolled, l.state)
	l.round++
	l.pulled, l.skips = false, false
	if p.skips && l.round == p.rounds && l.state>>20%4 == 0 {
		l.skips, l.round, l.rolled = true, 0, l.rolled[:0]
	}
	return steps
}

// gradient is a function of the rollout and of the parameters.
func (l *simulated) gradient() uint64 {
	g := uint64(l.update)
	for _, x := range l.rolled {
		g = mix(g, x)
	}
	for _, x := range l.theta {
		g = mix(g, x)
	}
	return g
}

// visited ends a sequence of visits.
func (l *simulated) visited(p *programme) {
	if l.round < p.rounds {
		l.pulled = true
		return
	}
	if l.update++; l.update == p.updates {
		l.update, l.round, l.rolled = 0, 0, l.rolled[:0]
	}
}

// world is the learners and their store.
type world struct {
	programme
	k, shards, steps int
	varies           bool
	learners         []simulated
	store            []uint64
	versions         []int64
	inside           []atomic.Int32 // visits in progress, of each shard
	work             func(what string)
}

func newWorld(p programme, k, shards, steps int, varies bool) *world {
	w := &world{programme: p, k: k, shards: shards, steps: steps, varies: varies, learners: make([]simulated, k),
		store: make([]uint64, shards), versions: make([]int64, shards), inside: make([]atomic.Int32, shards), work: func(string) {}}
	for i := range w.learners {
		w.learners[i] = simulated{theta: make([]uint64, shards), state: uint64(i) + 1}
	}
	return w
}

// visit is the work of a visit.
func (w *world) visit(k int, v Visit, gradient uint64) {
	l := &w.learners[k]
	if v.Push {
		w.store[v.Shard] = mix(w.store[v.Shard], gradient+uint64(v.Shard))
		w.versions[v.Shard]++
		return
	}
	l.theta[v.Shard] = w.store[v.Shard]
	if v.Shard == 0 {
		l.steps = v.Steps
	}
}

// taken is the number of steps that the learners took.
func (w *world) taken() (steps int64) {
	for i := range w.learners {
		steps += w.learners[i].taken
	}
	return steps
}

// digest is the state of all learners and of the store.
func (w *world) digest() string {
	sum := uint64(0)
	for i := range w.learners {
		l := &w.learners[i]
		for _, x := range slices.Concat(l.theta, l.rolled, []uint64{l.state, uint64(l.steps), uint64(l.round), uint64(l.update), uint64(l.warm)}) {
			sum = mix(sum, x)
		}
	}
	for s := range w.store {
		sum = mix(sum, w.store[s])
	}
	return fmt.Sprintf("%016x after %d steps, versions %v", sum, w.taken(), w.versions)
}

// stopAfter is an Interrupt that is raised after a number of questions.
type stopAfter struct {
	left     atomic.Int64
	deadline time.Time
}

var errInterrupted = errors.New("interrupted")

func (s *stopAfter) Err(now time.Time) error {
	if s.left.Add(-1) < 0 || !s.deadline.IsZero() && !now.Before(s.deadline) {
		return errInterrupted
	}
	return nil
}

func (s *stopAfter) Deadline() time.Time { return s.deadline }

var errFails = errors.New("a step failed")

// run runs one slice with all learners.
func (w *world) run(t *Turns, until int64, interrupt Interrupt) error {
	t.Begin(until, interrupt)
	var group sync.WaitGroup
	for k := range w.learners {
		group.Go(func() {
			t.Enter(k)
			defer t.Leave(k, false)
			defer func() {
				if v := recover(); v != nil {
					t.Fail(k, fault.Caught(v))
				}
			}()
			if err := w.learn(t, k); err != nil && !errors.Is(err, errInterrupted) {
				t.Fail(k, err)
			}
		})
	}
	group.Wait()
	return t.End()
}

// learn is a learner's part of a slice.
func (w *world) learn(t *Turns, k int) error {
	l := &w.learners[k]
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), uint64(k)))
	delay := func() {
		if w.delays > 0 && r.IntN(w.delays) == 0 {
			if r.IntN(3) > 0 {
				runtime.Gosched()
			} else {
				time.Sleep(time.Duration(r.IntN(50)) * time.Microsecond)
			}
		}
	}
	for {
		rounds, s := l.next(&w.programme)
		if rounds > 0 && t.cfg.Together {
			return nil
		}
		if err := t.Replan(k, rounds, s); err != nil {
			return err
		}
		if rounds == 0 {
			gradient := uint64(0)
			if s == PushAndPull && t.Visited(k) < w.shards {
				gradient = l.gradient()
				w.work("gradient")
				delay()
			}
			ok, err := t.Visits(k, func(v Visit) error {
				if w.inside[v.Shard].Add(1) != 1 {
					return fmt.Errorf("two visits to shard %d at the same time", v.Shard)
				}
				defer w.inside[v.Shard].Add(-1)
				w.work("visit")
				w.visit(k, v, gradient)
				return nil
			})
			if !ok {
				return err
			}
			l.visited(&w.programme)
			continue
		}
		if ok, err := t.Round(k); !ok {
			return err
		}
		w.work("round")
		delay()
		steps := l.take(&w.programme, w.steps, w.varies)
		if l.fails > 0 && l.rounds == l.fails {
			lacks := min(l.lacks, steps)
			l.taken -= int64(lacks)
			t.Took(k, steps-lacks)
			return fmt.Errorf("learner %d: %w", k, errFails)
		}
		t.Took(k, steps)
	}
}

// newTurns returns Turns for a world with a number of cores; 0: no budget.
func newTurns(t testing.TB, c Config, w *world, cores int) *Turns {
	t.Helper()
	c.Learners, c.Shards, c.Steps, c.Varies = w.k, w.shards, w.steps, w.varies
	if cores > 0 {
		budget, err := threads.NewBudget(cores)
		if err != nil {
			t.Fatal(err)
		}
		c.Cores = budget
	}
	turns, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return turns
}

func mustDuration(t testing.TB, text string) Duration {
	t.Helper()
	d, err := ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
