package train

import (
	"strings"
	"testing"
	"time"
)

// dqnFigures are a DQN of 8 environments and 2 threads on 2 cores, measured for ten seconds with
// 1,000 steps and 250 updates. The shares of the main thread's time are those of stepping, acting
// and waiting. Its cores, the process and the trainer thread work as change says.
func dqnFigures(stepping, acting, waiting float64, change func(f *figures)) *figures {
	f := &figures{
		Knobs: Knobs{Synchronized: true, Alternates: true, Replay: true, Concurrent: true, Window: 1000, Longest: 10_000},
		envs:  8, groups: 1, cores: 2, available: 2, wall: 10 * time.Second,
		reading: reading{steps: 1000, updates: 250, known: true},
	}
	f.own[Stepping], f.own[Acting], f.own[Waiting] = f.part(stepping), f.part(acting), f.part(waiting)
	change(f)
	return f
}

// part is a share of the wall time.
func (f *figures) part(share float64) time.Duration { return time.Duration(share * float64(f.wall)) }

// hold sets the cores' times, in shares of the wall time, of which all compute.
func (f *figures) hold(stepping, acting, learning float64) {
	f.held[Stepping], f.held[Acting], f.held[Learning] = f.part(stepping), f.part(acting), f.part(learning)
	f.computed, f.updating, f.idle = f.part(stepping+acting+learning), f.part(learning), f.wall-f.part(learning)
}

func TestProposals(t *testing.T) {
	for name, c := range map[string]struct {
		f    *figures
		want string
	}{
		"before a second": {dqnFigures(0.9, 0.1, 0, func(f *figures) { f.wall = leastMeasured - 1 }),
			"not measured yet: a run is measured from its first update on; train for at least a second more, and ask again"},
		"well set": {dqnFigures(0.7, 0.25, 0.05, func(f *figures) { f.hold(1.2, 0.2, 0.5) }),
			"nothing to propose: cores are busy 95 % of the time"},
		"well set, and the machine is shared": {dqnFigures(0.7, 0.25, 0.05, func(f *figures) {
			f.hold(1.2, 0.2, 0.5)
			f.computed, f.queued = f.part(1), f.part(0.9)
		}), "nothing to propose: cores are busy 95 % of the time, and queue behind other programs 45 % of it"},
		"half of the machine": {dqnFigures(0.7, 0.25, 0.05, func(f *figures) { f.hold(1.2, 0.2, 0.5); f.available = 16 }),
			"cores are busy 95 % of the time, and 16 cores are available: num_threads=4 instead of 2"},
		"half of the machine, which is shared": {dqnFigures(0.7, 0.25, 0.05, func(f *figures) {
			f.hold(1.2, 0.2, 0.5)
			f.available, f.queued = 16, f.part(0.7)
		}), "nothing to propose: cores are busy 95 % of the time, and queue behind other programs 35 % of it"},
		"one environment, steps too short to share": {dqnFigures(0.9, 0.1, 0, func(f *figures) {
			f.cores, f.available, f.envs, f.Replay, f.Concurrent, f.steps, f.updates = 1, 2, 1, false, false, 1e7, 1e6
			f.hold(0.85, 0.1, 0.05)
		}), "nothing to propose: cores are busy 100 % of the time"},
		"more threads than cores": {dqnFigures(0.7, 0.2, 0.1, func(f *figures) { f.hold(3, 1, 3); f.cores = 8 }),
			"nothing to propose: cores are busy 100 % of the time"},
		"steps that sleep with a core": {dqnFigures(0.61, 0.09, 0.3, func(f *figures) { f.hold(1.2, 0.1, 0.4); f.computed = f.part(0.5) }),
			"waits 61 % of the time for environments: declare that their steps wait, waits=True instead of False among the environment's options " +
				"(a step takes 12 ms and holds a core meanwhile)"},
		"steps that sleep, by threads": {dqnFigures(0.9, 0.1, 0, func(f *figures) { f.hold(7, 0.1, 0.4); f.computed, f.cores = f.part(0.5), 8 }),
			"waits 90 % of the time for environments: declare that their steps wait, waits=True instead of False among the environment's options " +
				"(a step takes 70 ms and holds a core meanwhile)"},
		"one core's steps seem to sleep, and were queued": {dqnFigures(0.9, 0.05, 0.05, func(f *figures) {
			f.hold(1.8, 0.05, 0.1)
			f.computed, f.queued = f.part(0.5), f.part(1.4)
		}), "nothing to propose: cores are busy 95 % of the time, and queue behind other programs 70 % of it"},
		"threads that wait for one another": {dqnFigures(0.9, 0.05, 0.05, func(f *figures) { f.hold(1.8, 0.05, 0.1); f.computed = f.part(1.1) }),
			"nothing to propose: cores are busy 55 % of the time; 5 % of it acts, 90 % steps, 5 % trains or waits for training"},
		"the system tells no CPU time": {dqnFigures(0.7, 0.25, 0.05, func(f *figures) { f.hold(1.2, 0.2, 0.5); f.computed, f.known = 0, false }),
			"nothing to propose: cores are busy 95 % of the time"},
		"steps that wait": {dqnFigures(0.95, 0.05, 0, func(f *figures) { f.hold(0, 0.05, 0.2); f.waits = true }),
			"waits 95 % of the time for environments: num_envs=32 instead of 8 (a step takes 76 ms; changes the results)"},
		"steps that wait, and a trainer at work": {dqnFigures(0.95, 0.05, 0, func(f *figures) { f.hold(0, 0.05, 0.5); f.waits = true }),
			"waits 95 % of the time for environments: num_envs=16 instead of 8 (a step takes 76 ms; changes the results)"},
		"steps that wait, and windows as long as a round": {dqnFigures(0.95, 0.05, 0, func(f *figures) { f.hold(0, 0.05, 0.2); f.waits, f.Window = true, 8 }),
			"nothing to propose: cores are busy 12 % of the time; 5 % of it acts, 95 % steps, 0 % trains or waits for training"},
		"acting and steps that wait": {dqnFigures(0.6, 0.4, 0, func(f *figures) { f.hold(0, 0.4, 0.3); f.waits = true }),
			"waits 60 % of the time for environments and acts 40 %: groups=2 instead of 1"},
		"little acting and steps that wait": {dqnFigures(0.82, 0.18, 0, func(f *figures) { f.hold(0, 0.18, 0.3); f.waits, f.Window = true, 8 }),
			"nothing to propose: cores are busy 24 % of the time; 18 % of it acts, 82 % steps, 0 % trains or waits for training"},
		"the same in two groups": {dqnFigures(0.6, 0.4, 0, func(f *figures) { f.hold(0, 0.4, 0.3); f.waits, f.groups = true, 2 }),
			"waits 60 % of the time for environments: num_envs=32 instead of 8 (changes the results)"},
		"standard mode": {dqnFigures(0.4, 0.1, 0.5, func(f *figures) { f.hold(0, 0.1, 0.5); f.waits, f.Concurrent = true, false }),
			"acting and environments wait 50 % of the time for training, and training waits for them: concurrent=True instead of False (changes the results)"},
		"standard mode, which hardly trains": {dqnFigures(0.4, 0.55, 0.05, func(f *figures) {
			f.hold(0.8, 0.55, 0.05)
			f.Concurrent = false
		}), "nothing to propose: cores are busy 70 % of the time; 55 % of it acts, 40 % steps, 5 % trains or waits for training"},
		"standard mode on full cores": {dqnFigures(0.4, 0.1, 0.5, func(f *figures) { f.hold(0.8, 0.1, 0.9); f.Concurrent = false }),
			"nothing to propose: cores are busy 90 % of the time"},
		"single forward passes": {dqnFigures(0.2, 0.7, 0.1, func(f *figures) { f.hold(0.4, 1.2, 0.2); f.Synchronized, f.Alternates = false, false }),
			"forward passes of single environments take 60 % of the cores' time: synchronized=True instead of False"},
		"short windows": {dqnFigures(0.6, 0.09, 0.31, func(f *figures) { f.hold(0.6, 0.1, 0.6); f.Window = 8 }),
			"environments wait 31 % of the time for training at the ends of windows, and training waits 40 % of it inside them: window=128 instead of 8 (changes the results)"},
		"windows as long as C": {dqnFigures(0.6, 0.09, 0.31, func(f *figures) { f.hold(0.6, 0.1, 0.6); f.Window, f.Longest = 8, 8 }),
			"nothing to propose: cores are busy 65 % of the time; 9 % of it acts, 60 % steps, 31 % trains or waits for training"},
		"windows up to C": {dqnFigures(0.6, 0.09, 0.31, func(f *figures) { f.hold(0.6, 0.1, 0.6); f.Window, f.Longest = 8, 20 }),
			"environments wait 31 % of the time for training at the ends of windows, and training waits 40 % of it inside them: window=20 instead of 8 (changes the results)"},
		"bound by training": {dqnFigures(0.3, 0.1, 0.6, func(f *figures) { f.hold(0.3, 0.1, 0.97) }),
			"nothing to propose: updates are due 97 % of the time, and environments wait for them 60 % of it"},
		"bound by training, on half of the machine": {dqnFigures(0.3, 0.1, 0.6, func(f *figures) { f.hold(0.3, 0.1, 0.97); f.available = 4 }),
			"updates are due 97 % of the time, and environments wait for them 60 % of it, and 4 cores are available: num_threads=4 instead of 2"},
		"bound by training, samplers far ahead": {dqnFigures(0.9, 0.1, 0, func(f *figures) { f.hold(0, 0.1, 0.97); f.waits = true }),
			"nothing to propose: updates are due 97 % of the time, and environments wait for them 0 % of it"},
		"a trainer that waits for a core": {dqnFigures(0.9, 0.1, 0, func(f *figures) { f.hold(0.9, 0.1, 0.1); f.idle = 0 }),
			"nothing to propose: cores are busy 55 % of the time; 10 % of it acts, 90 % steps, 0 % trains or waits for training"},
		"the caller's environments": {dqnFigures(0, 0.1, 0.05, func(f *figures) { f.hold(0, 0.1, 0.3); f.hosted = true }),
			"nothing to propose: the caller, who steps the environments, has 85 % of the time"},
		"callbacks": {dqnFigures(0.1, 0.1, 0.05, func(f *figures) { f.hold(0.1, 0.1, 0.3) }),
			"nothing to propose: the caller has 75 % of the time, for callbacks, evaluations or records"},
		"fewer environments than cores": {dqnFigures(0.85, 0.1, 0.05, func(f *figures) { f.hold(0.8, 0.1, 0.2); f.cores, f.available, f.envs = 4, 4, 1 }),
			"environments step 85 % of the time, on 1 of 4 cores: num_envs=4 instead of 1 (changes the results)"},
		"on-policy, steps that wait": {dqnFigures(0.9, 0.05, 0, func(f *figures) {
			f.hold(0, 0.05, 0.05)
			f.own[Learning], f.waits, f.Knobs = f.part(0.05), true, Knobs{Synchronized: true}
		}), "waits 90 % of the time for environments: num_envs=32 instead of 8 (a step takes 72 ms; changes the results)"},
		"on-policy, one thread": {dqnFigures(0.5, 0.1, 0, func(f *figures) {
			f.cores, f.Knobs = 1, Knobs{Synchronized: true}
			f.hold(0.5, 0.1, 0.4)
			f.own[Learning] = f.part(0.4)
		}), "cores are busy 100 % of the time, and 2 cores are available: num_threads=2 instead of 1"},
	} {
		if got := c.f.proposal(); got != c.want {
			t.Errorf("%s:\n     %s\nwant %s", name, got, c.want)
		}
	}
}

// Every proposal is one line, and no figures make it panic or print a number that is none.
func TestProposalsOfOddFigures(t *testing.T) {
	shares := []float64{-0.1, 0, 0.3, 1, 7}
	for _, stepping := range shares {
		for _, learning := range shares {
			for k := range 1 << 7 {
				bit := func(n int) bool { return k>>n&1 != 0 }
				got := dqnFigures(stepping, 0.3, learning, func(f *figures) {
					f.hold(stepping, 0.3, learning)
					f.waits, f.batched, f.hosted, f.known, f.Concurrent, f.Synchronized, f.Replay = bit(0), bit(1), bit(2), bit(3), bit(4), bit(5), bit(6)
					f.steps, f.updates, f.envs, f.computed = int64(k%3), 0, 1+k%2, 0
				}).proposal()
				if got == "" || strings.Contains(got, "\n") || strings.Contains(got, "%!") || strings.Contains(got, "NaN") || strings.Contains(got, "Inf") {
					t.Fatalf("%q", got)
				}
			}
		}
	}
}
