package actor_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/paceline-rl/paceline/core/actor"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/cpu"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/threads"
	"github.com/paceline-rl/paceline/core/train/traintest"
	"github.com/paceline-rl/paceline/core/vec"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		check(t, err)
		return v
	}
}

// journal is a Sink that records its calls by environment.
type journal [][]string

func (j journal) Begin(i int, obs []byte) error {
	j[i] = append(j[i], fmt.Sprintf("begin %x", obs))
	return nil
}

func (j journal) Add(i int, s *experience.Step, next []byte) error {
	if s.End&env.Terminated != 0 {
		next = nil // may have any value
	}
	j[i] = append(j[i], fmt.Sprintf("step %d %v %v %d %d %v %x", s.Action, s.Continuous, s.Reward, s.End, s.Updates, s.Columns, next))
	return nil
}

func (j journal) Cut(i int) { j[i] = append(j[i], "cut") }

func (j journal) Open(i int) bool {
	last := len(j[i]) - 1
	return last >= 0 && j[i][last] != "cut"
}

// steps counts the steps of all environments.
func (j journal) steps() (n int64) {
	for _, lines := range j {
		for _, l := range lines {
			if strings.HasPrefix(l, "step") {
				n++
			}
		}
	}
	return n
}

// differ reports the first line in which two journals differ.
func differ(t *testing.T, name string, got, want journal) {
	t.Helper()
	for i := range want {
		for k := range max(len(got[i]), len(want[i])) {
			if k >= len(got[i]) || k >= len(want[i]) || got[i][k] != want[i][k] {
				t.Fatalf("%s: environment %d, line %d of %d and %d:\n%s\nwant\n%s", name, i, k, len(got[i]), len(want[i]),
					strings.Join(got[i][min(k, len(got[i])):min(k+1, len(got[i]))], ""), strings.Join(want[i][min(k, len(want[i])):min(k+1, len(want[i]))], ""))
			}
		}
	}
}

const seed = 11

// trial is a Group with its parts.
type trial struct {
	*actor.Group
	journal journal
	config  actor.Config
	walks   []*traintest.Walk
	net     nn.Spec
}

// newTrial makes a trial of w environments on `cores` threads. If pushed, the Group has no source.
func newTrial(t *testing.T, w, cores int, pushed bool) *trial {
	t.Helper()
	return makeTrial(t, w, cores, kind{pushed: pushed})
}

// kind describes the environments of a trial.
type kind struct {
	pushed bool // the test steps them
	waits  bool // their steps wait
	lives  bool // steps lose lives
	// batched counts the calls that step several environments; nil: there are none.
	batched *atomic.Int64
	halves  int // 0: one
	taus    int // of the network; 0: it has none
}

// makeTrial makes w environments on as many threads as cores.
func makeTrial(t *testing.T, w, cores int, k kind) *trial {
	t.Helper()
	budget := must(threads.NewBudget(cores))(t)
	budget.Acquire()
	pool := must(threads.NewPool(cores, budget))(t)
	t.Cleanup(pool.Close)
	x := &trial{journal: make(journal, w)}
	for i := range w {
		e := must(traintest.MakeWalk(seed)(i))(t)
		e.(*traintest.Walk).Waits, e.(*traintest.Walk).Lives = k.waits, k.lives
		x.walks = append(x.walks, e.(*traintest.Walk))
	}
	spec := x.walks[0].Spec()
	net := nn.Spec{Obs: spec.Obs, Trunks: []nn.Trunk{{Arch: "mlp", Hidden: []int{8, 8}}}, Heads: []nn.Head{{Name: "q", Out: 3, Cosines: 2 * k.taus, Taus: k.taus}}}
	x.net = net
	device := must(cpu.New(1, nil))(t)
	t.Cleanup(device.Close)
	x.config = actor.Config{
		Spec: spec, Envs: w, Seed: seed, Sink: x.journal, Cores: budget, Halves: k.halves, Joint: must(device.Network(net, w))(t),
		Acting: must(net.InitialParams(rng.New(seed, "weights", 0)))(t),
	}
	x.config.Acting.Updates = 42
	for range cores {
		x.config.Alone = append(x.config.Alone, must(device.Network(net, 1))(t))
	}
	if !k.pushed {
		make := func(i int) (env.Env, error) {
			if k.batched != nil {
				return batchedWalk{x.walks[i], k.batched}, nil
			}
			return x.walks[i], nil
		}
		source := must(vec.New(make, w, pool, vec.SameStep))(t)
		t.Cleanup(func() { check(t, source.Close()) })
		x.config.Source = source
	}
	x.Group = must(actor.New(x.config))(t)
	t.Cleanup(x.Group.Close)
	return x
}

// half returns a policy with epsilon 0.5.
func half() *policy.EpsilonGreedy {
	return &policy.EpsilonGreedy{Actions: 3, Epsilon: func(int64) float64 { return 0.5 }}
}

// twin returns the journal of n steps of environment i in a plain loop.
func twin(t *testing.T, x *trial, i, n int, episodes *[]actor.Episode) []string {
	t.Helper()
	j := make(journal, 1)
	e := must(traintest.MakeWalk(seed)(i))(t)
	e.(*traintest.Walk).Lives = x.config.Spec.LifeLoss
	device := must(cpu.New(1, nil))(t)
	defer device.Close()
	net := must(device.Network(x.net, 1))(t)
	drawn, draws := net.(nn.TauNetwork)
	stream := rng.New(seed, "explore", i)
	obs := make([]byte, 8)
	check(t, e.Reset(obs))
	j.Cut(0) // Reset cuts first
	check(t, j.Begin(0, obs))
	var sum float64
	var length int64
	for range n {
		s := experience.Step{Action: make([]int32, 1), Updates: 42, Columns: []float32{}}
		var key uint64
		if draws {
			key = stream.Uint64()
		}
		if stream.Float64() < 0.5 {
			s.Action[0] = int32(stream.Intn(3))
		} else if draws {
			outputs := must(drawn.ForwardAt(x.config.Acting, obs, 1, []uint64{key}))(t)
			s.Action[0] = nn.Argmax(outputs.Row(0, 0), nil)
		} else {
			outputs := must(net.Forward(x.config.Acting, obs, 1))(t)
			s.Action[0] = nn.Argmax(outputs.Row(0, 0), nil)
		}
		var err error
		s.Reward, s.End, err = e.Step(s.Action[0], obs)
		check(t, err)
		check(t, j.Add(0, &s, obs))
		sum, length = sum+float64(s.Reward), length+1
		if s.End.Over() { // not after a lost life
			*episodes = append(*episodes, actor.Episode{Return: sum, Length: length})
			sum, length = 0, 0
			check(t, e.Reset(obs))
			check(t, j.Begin(0, obs))
		}
	}
	return j[0]
}

// compare compares x's journal with plain loops of steps(i) steps.
func compare(t *testing.T, name string, x *trial, steps func(i int) int, got []actor.Episode) {
	t.Helper()
	want := make(journal, x.config.Envs)
	var episodes []actor.Episode
	for i := range want {
		want[i] = twin(t, x, i, steps(i), &episodes)
	}
	differ(t, name, x.journal, want)
	if len(got) != len(episodes) {
		t.Fatalf("%s: %d episodes, want %d", name, len(got), len(episodes))
	}
	sum := func(list []actor.Episode) (r float64, n int64) {
		for _, e := range list {
			r, n = r+e.Return, n+e.Length
		}
		return r, n
	}
	r, n := sum(got)
	if wr, wn := sum(episodes); math.Abs(r-wr) > 1e-6 || n != wn {
		t.Errorf("%s: returns add up to %v over %d steps, want %v over %d", name, r, n, wr, wn)
	}
}

// Every sink gets the calls of a plain loop over its environment, for any number of threads. This
// holds for joint rounds, rounds of single rows, and runs without lockstep.
func TestRoundsAndRunsEqualPlainLoops(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for k := range 48 {
		w, cores := 1+r.IntN(6), 1+r.IntN(3)
		halves := min(w, 1+k/2%2)
		of := kind{waits: k%3 == 1, halves: halves, taus: k % 5, lives: k/4%2 == 1}
		if k%3 == 2 {
			of.batched = new(atomic.Int64)
		}
		rounds := 0
		x := makeTrial(t, w, cores, of)
		check(t, x.Reset())
		var episodes []actor.Episode
		taken := int64(0)
		for taken < 60 || x.InRound() {
			if x.InRound() || r.IntN(2) == 0 {
				ran := must(x.Round(taken, half(), r.IntN(2) == 0))(t)
				if ran.Taken != int64(w) || ran.Asked != ran.Taken {
					t.Fatalf("%+v in a round of %d", ran, w)
				}
				taken += ran.Taken
				rounds++
			} else {
				n, begun := int64(1+r.IntN(4))*int64(w), int64(0)
				ran := must(x.Run(taken, 0, n, half(), nil, func(steps int64) { begun = max(begun, steps) }))(t)
				if ran.Asked != n || ran.Taken != n || begun != n {
					t.Fatalf("ran %+v with %d begun, want %d", ran, begun, n)
				}
				taken += n
			}
			x.TakeFinished(func(e actor.Episode) { episodes = append(episodes, e) })
		}
		if of.batched != nil && of.batched.Load() != int64(rounds*halves) {
			t.Errorf("trial %d: %d calls in %d rounds of %d halves", k, of.batched.Load(), rounds, halves)
		}
		compare(t, fmt.Sprintf("trial %d, %d environments, %d threads", k, w, cores), x, func(int) int { return int(taken) / w }, episodes)
	}
}

// A run that is ended early ends with the furthest round that has begun. All rows then have the
// same number of steps.
func TestRunEndsWithARound(t *testing.T) {
	for k := range 20 {
		x := makeTrial(t, 4, 3, kind{waits: k%2 == 1})
		check(t, x.Reset())
		asked, announced := 0, int64(0)
		var mu sync.Mutex
		over := func() bool { // called by one goroutine at a time
			asked++
			return asked > 5*k
		}
		ran := must(x.Run(0, 0, 1000, half(), over, func(steps int64) {
			mu.Lock()
			announced = steps
			mu.Unlock()
		}))(t)
		if ran.Asked%4 != 0 || ran.Asked == 0 || ran.Asked != ran.Taken || ran.Asked != announced || ran.Asked >= 1000 {
			t.Fatalf("%d asked: %+v, %d announced", asked, ran, announced)
		}
		var episodes []actor.Episode
		x.TakeFinished(func(e actor.Episode) { episodes = append(episodes, e) })
		compare(t, "run", x, func(int) int { return int(ran.Asked / 4) }, episodes)
	}
}

// A run may begin and end in the middle of a round.
func TestARunMayBeginAndEndInsideARound(t *testing.T) {
	x := newTrial(t, 3, 2, false)
	check(t, x.Reset())
	var episodes []actor.Episode
	phase := 0
	for taken, n := int64(0), int64(0); taken < 100; taken += n {
		n = 1 + taken%5
		must(x.Run(taken, phase, n, half(), nil, func(int64) {}))(t)
		phase = (phase + int(n)) % 3
		x.TakeFinished(func(e actor.Episode) { episodes = append(episodes, e) })
	}
	total := int(x.journal.steps())
	compare(t, "phases", x, func(i int) int { return (total + 2 - i) / 3 }, episodes)
}

// host steps the environments of a Group without a source, in NEXT_STEP or SAME_STEP mode.
type host struct {
	rows      *vec.Rows
	resetting []bool
}

func (h *host) step(t *testing.T, x *trial, nextStep bool) {
	t.Helper()
	for i, e := range x.walks {
		obs := h.rows.Obs[8*i : 8*i+8]
		h.rows.Ends[i], h.rows.Rewards[i] = 0, 0
		if h.resetting[i] {
			check(t, e.Reset(obs))
			h.resetting[i] = false
			continue
		}
		var err error
		h.rows.Rewards[i], h.rows.Ends[i], err = e.Step(x.Actions().Discrete[i], obs)
		check(t, err)
		if h.rows.Ends[i] == 0 {
			continue
		}
		if nextStep {
			h.resetting[i] = true
			continue
		}
		copy(h.rows.FinalObs[8*i:], obs)
		check(t, e.Reset(obs))
	}
}

// Pushed environments give the sinks the calls of a plain loop: a row that only resets is no step
// and draws no number.
func TestPushedRowsEqualPlainLoops(t *testing.T) {
	for k := range 4 {
		nextStep := k%2 == 1
		x := makeTrial(t, 3, 1, kind{pushed: true, taus: k / 2 * 3})
		x.config.NextStep = nextStep
		x.Group = must(actor.New(x.config))(t)
		t.Cleanup(x.Group.Close)
		h := &host{vec.NewRows(x.config.Spec.Obs, 3), make([]bool, 3)}
		check(t, x.Reset())
		for i, e := range x.walks {
			check(t, e.Reset(h.rows.Obs[8*i:8*i+8]))
		}
		var episodes []actor.Episode
		made := int64(0)
		for range 80 {
			check(t, x.Use(h.rows, made))
			steps := x.Steps()
			check(t, x.Choose(made, half(), k < 3))
			h.step(t, x, nextStep)
			n := must(x.Observe(h.rows, made, nil))(t)
			if n != int64(steps) {
				t.Fatalf("%d steps recorded, %d announced", n, steps)
			}
			made += n
			x.TakeFinished(func(e actor.Episode) { episodes = append(episodes, e) })
		}
		taken := func(i int) int { return int(journal{x.journal[i]}.steps()) }
		if nextStep == (taken(0) == 80) {
			t.Errorf("next_step %v: %d steps in 80 rounds", nextStep, taken(0))
		}
		if nextStep { // the resets after the last steps are still to come
			for i := range 3 {
				if h.resetting[i] {
					obs := make([]byte, 8)
					check(t, x.walks[i].Reset(obs))
					check(t, x.journal.Begin(i, obs))
				}
			}
		}
		compare(t, fmt.Sprintf("next_step %v", nextStep), x, taken, episodes)
	}
}

// Rows with invalid values are refused with the environment, the step and the value, and nothing is
// recorded.
func TestInvalidRowsAreRefused(t *testing.T) {
	x := newTrial(t, 2, 1, true)
	h := &host{vec.NewRows(x.config.Spec.Obs, 2), make([]bool, 2)}
	check(t, x.Reset())
	nan := []byte{0, 0, 0xc0, 0x7f}
	copy(h.rows.Obs[8:], nan)
	var failed *env.Error
	if err := x.Use(h.rows, 9); !errors.As(err, &failed) || failed.Index != 1 || !strings.Contains(err.Error(), "step 9") {
		t.Errorf("first observation: %v", err)
	}
	if x.journal.steps() != 0 || strings.Contains(fmt.Sprint(x.journal), "begin") {
		t.Errorf("a segment has started: %v", x.journal)
	}
	clear(h.rows.Obs)
	check(t, x.Use(h.rows, 9))
	for says, change := range map[string]func(){
		"ended: 4, must be 0 to 3": func() { h.rows.Ends[1] = 4 },
		"reward":                   func() { h.rows.Rewards[1] = float32(math.Inf(1)) },
		"observation":              func() { copy(h.rows.Obs[8:], nan) },
		"final observation":        func() { h.rows.Ends[1] = env.Truncated; copy(h.rows.FinalObs[12:], nan) },
	} {
		change()
		_, err := x.Observe(h.rows, 7, nil)
		if !errors.As(err, &failed) || failed.Index != 1 || !strings.Contains(err.Error(), "step 7: ") || !strings.Contains(err.Error(), strings.Fields(says)[0]) {
			t.Errorf("%s: %v", says, err)
		}
		*h.rows = *vec.NewRows(x.config.Spec.Obs, 2)
	}
	if x.journal.steps() != 0 {
		t.Errorf("refused, and recorded: %v", x.journal)
	}
	own := errors.New("not for me")
	h.rows.Ends[1] = env.Terminated
	copy(h.rows.FinalObs[8:], nan) // not read after a termination
	accept := func(i int, next []byte) error {
		if i != 0 || len(next) != 8 {
			t.Errorf("asked about environment %d, %x", i, next)
		}
		return own
	}
	if _, err := x.Observe(h.rows, 7, accept); !errors.Is(err, own) || x.journal.steps() != 0 {
		t.Errorf("%v; recorded %v", err, x.journal)
	}
	if made := must(x.Observe(h.rows, 7, nil))(t); made != 2 || x.journal.steps() != 2 {
		t.Errorf("%d made, recorded %v", made, x.journal)
	}
}

// A failing environment loses only its failed step. If the reset after an end fails, the end is
// recorded. Repair begins a new episode.
func TestAFailingEnvironmentLosesOnlyItsStep(t *testing.T) {
	for k, where := range []string{"step", "reset", "step", "reset"} {
		x := makeTrial(t, 3, 2, kind{waits: k >= 2})
		check(t, x.Reset())
		fail := false
		hook := func() error {
			if fail {
				return traintest.ErrSimulator
			}
			return nil
		}
		if where == "step" {
			x.walks[1].BeforeStep = hook
		} else {
			x.walks[1].BeforeReset = hook
		}
		rounds := 0
		for ; ; rounds++ {
			fail = rounds >= 10
			ran, err := x.Round(int64(3*rounds), half(), false)
			if err == nil {
				if rounds > 200 {
					t.Fatal("no failure in 200 rounds")
				}
				continue
			}
			want := int64(2)
			if where == "reset" {
				want = 3
			}
			if !errors.Is(err, traintest.ErrSimulator) || ran.Taken != want {
				t.Fatalf("%s: %v after %d steps, want %d", where, err, ran.Taken, want)
			}
			break
		}
		lines := x.journal[1]
		ended := !strings.HasPrefix(lines[len(lines)-1], "begin") && where == "reset"
		if n := (journal{lines}).steps(); where == "reset" && (!ended || n != int64(rounds+1)) || where == "step" && n != int64(rounds) {
			t.Fatalf("%s: %d steps of environment 1 in %d rounds, the last line %q", where, n, rounds, lines[len(lines)-1])
		}
		fail = false
		check(t, x.Repair())
		if tail := x.journal[1][len(x.journal[1])-2:]; tail[0] != "cut" || !strings.HasPrefix(tail[1], "begin") {
			t.Errorf("%s: after Repair %q", where, tail)
		}
		before := x.journal.steps()
		check(t, x.Repair()) // nothing to repair
		if ran := must(x.Round(0, half(), false))(t); ran.Taken != 3 || x.journal.steps() != before+3 {
			t.Errorf("%s: %d steps after Repair", where, ran.Taken)
		}
	}
}
