package actor_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/paceline-rl/paceline/core/actor"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/threads"
	"github.com/paceline-rl/paceline/core/vec"
)

var hybrid = env.ActionSpec{Branches: []int32{3, 2}, Low: []float32{-1, 2}, High: []float32{1, 3}}

// machine takes hybrid actions and writes down what it gets. Its episodes have 5 steps.
type machine struct {
	spec  env.Spec
	steps int
	got   []string
}

func (m *machine) Spec() env.Spec { return m.spec }
func (m *machine) Seed(uint64)    {}
func (m *machine) Close() error   { return nil }

func (m *machine) Reset(obs []byte) error {
	m.steps = 0
	clear(obs)
	return nil
}

func (m *machine) Step(int32, []byte) (float32, env.End, error) { return 0, 0, errors.New("discrete") }

func (m *machine) StepAction(branches []int32, box []float32, obs []byte) (float32, env.End, error) {
	m.got = append(m.got, fmt.Sprint(branches, box))
	m.steps++
	clear(obs)
	obs[0] = byte(m.steps)
	if m.steps == 5 {
		return 1, env.Truncated, nil
	}
	return 1, 0, nil
}

func (m *machine) Mask(mask []byte) error {
	copy(mask, []byte{1, 1, 1, 1, 1})
	mask[m.steps%3] = 0
	return nil
}

// dice draws actions of any kind; boxes lie outside their bounds, too.
type dice struct{ spec *env.ActionSpec }

func (dice) Columns() []string       { return nil }
func (dice) NeedsOutputs(int64) bool { return false }

func (d dice) Choose(_ int64, _ policy.Row, mask []byte, r *rng.Stream, to *experience.Step) error {
	d.spec.Random(mask, r, to.Action, to.Continuous)
	for k := range to.Continuous {
		to.Continuous[k] = float32(r.Uniform(-5, 5))
	}
	return nil
}

// actionLog is a Sink that keeps the actions of steps, and their masks.
type actionLog struct {
	mu      sync.Mutex
	sampled [][]string // as given to the sink
	clipped [][]string
	masks   [][]string
	outside int
}

func (l *actionLog) Begin(int, []byte) error { return nil }
func (l *actionLog) Open(int) bool           { return true }
func (l *actionLog) Cut(int)                 {}

func (l *actionLog) Add(i int, s *experience.Step, _ []byte) error {
	clipped := make([]float32, len(s.Continuous))
	hybrid.Clip(clipped, s.Continuous)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(clipped, s.Continuous) {
		l.outside++
	}
	l.sampled[i] = append(l.sampled[i], fmt.Sprint(s.Action, s.Continuous))
	l.clipped[i] = append(l.clipped[i], fmt.Sprint(s.Action, clipped))
	l.masks[i] = append(l.masks[i], fmt.Sprint(s.Mask, s.NextMask))
	return nil
}

// machines makes w machines and a group that acts in them; without a source if pushed.
func machines(t *testing.T, w, cores, halves int, pushed bool) (*actor.Group, []*machine, *actionLog) {
	t.Helper()
	budget := must(threads.NewBudget(cores))(t)
	budget.Acquire()
	pool := must(threads.NewPool(cores, budget))(t)
	t.Cleanup(pool.Close)
	var ms []*machine
	spec := env.Spec{ID: "machine", Obs: env.ObsSpec{Shape: []int{4}, Low: []float32{0}, High: []float32{9}}, Action: hybrid, Masks: true}
	for range w {
		ms = append(ms, &machine{spec: spec})
	}
	log := &actionLog{sampled: make([][]string, w), clipped: make([][]string, w), masks: make([][]string, w)}
	c := actor.Config{Spec: spec, Envs: w, Seed: seed, Sink: log, Cores: budget, Halves: halves, Alone: make([]nn.Network, cores), Acting: &nn.Params{}}
	if !pushed {
		source := must(vec.New(func(i int) (env.Env, error) { return ms[i], nil }, w, pool, vec.SameStep))(t)
		t.Cleanup(func() { check(t, source.Close()) })
		c.Source = source
	}
	g := must(actor.New(c))(t)
	t.Cleanup(g.Close)
	return g, ms, log
}

// checkActions compares what the environments got with what was recorded.
func checkActions(t *testing.T, name string, ms []*machine, log *actionLog, steps int) {
	t.Helper()
	for i, m := range ms {
		if len(m.got) != steps || !slices.Equal(m.got, log.clipped[i]) {
			t.Fatalf("%s, environment %d: %d steps by\n%v\nrecorded\n%v", name, i, len(m.got), m.got, log.clipped[i])
		}
		for k, mask := range log.masks[i] {
			now, next := []byte{1, 1, 1, 1, 1}, []byte{1, 1, 1, 1, 1}
			now[k%5%3], next[(k%5+1)%3] = 0, 0
			if want := fmt.Sprint(now, next); mask != want {
				t.Fatalf("%s, environment %d, step %d: masks %s, want %s", name, i, k, mask, want)
			}
		}
	}
	if log.outside == 0 {
		t.Errorf("%s: no sampled box was outside its bounds", name)
	}
}

// The sink gets the box as it was sampled, the environment gets it clipped to its bounds. Rounds,
// with one half or two, and runs without lockstep take the same actions.
func TestBoxesAreClippedForTheEnvironmentOnly(t *testing.T) {
	d := dice{&hybrid}
	var want [][]string
	for _, halves := range []int{1, 2} {
		g, ms, log := machines(t, 5, 2, halves, false)
		check(t, g.Reset())
		for k := range 23 {
			must(g.Round(int64(5*k), d, k < 22))(t)
		}
		checkActions(t, fmt.Sprintf("%d halves", halves), ms, log, 23)
		rows, actions := g.Latest()
		if len(actions.Discrete) != 10 || len(actions.Box) != 10 || rows == nil {
			t.Fatalf("latest actions: %v", actions)
		}
		for i := range 5 {
			if got := fmt.Sprint(actions.Discrete[2*i:2*i+2], actions.Box[2*i:2*i+2]); got != ms[i].got[22] {
				t.Errorf("latest action %d: %s, took %s", i, got, ms[i].got[22])
			}
		}
		if want == nil {
			want = log.sampled
		}
		for i := range want {
			if !slices.Equal(log.sampled[i], want[i]) {
				t.Errorf("%d halves: environment %d took other actions", halves, i)
			}
		}
	}
	g, ms, log := machines(t, 5, 2, 1, false)
	check(t, g.Reset())
	must(g.Run(0, 0, 5*23, d, nil, func(int64) {}))(t)
	checkActions(t, "without lockstep", ms, log, 23)
	for i := range want {
		if !slices.Equal(log.sampled[i], want[i]) {
			t.Errorf("without lockstep: environment %d took other actions", i)
		}
	}
}

// A host gets clipped boxes, too, within their bounds also in rows that only reset.
func TestHostGetsClippedBoxes(t *testing.T) {
	g, ms, log := machines(t, 3, 1, 1, true)
	rows := vec.NewRows(ms[0].spec.Obs, 3)
	rows.AddMasks(5)
	for i, m := range ms {
		check(t, errors.Join(m.Reset(rows.Obs[4*i:4*i+4]), m.Mask(rows.Masks[5*i:5*i+5])))
	}
	check(t, g.Reset())
	d := dice{&hybrid}
	for range 12 {
		check(t, errors.Join(g.Use(rows, 0), g.Choose(0, d, false)))
		actions := g.Actions()
		for i, m := range ms {
			obs := rows.Obs[4*i : 4*i+4]
			branches, box := actions.Discrete[2*i:2*i+2], actions.Box[2*i:2*i+2]
			check(t, hybrid.CheckAction(branches, box))
			var err error
			rows.Rewards[i], rows.Ends[i], err = m.StepAction(branches, box, obs)
			check(t, err)
			if rows.Ends[i] != 0 {
				copy(rows.FinalObs[4*i:], obs)
				check(t, errors.Join(m.Mask(rows.FinalMasks[5*i:5*i+5]), m.Reset(obs)))
			}
			check(t, m.Mask(rows.Masks[5*i:5*i+5]))
		}
		must(g.Observe(rows, 0, nil))(t)
	}
	checkActions(t, "host", ms, log, 12)

	rows.Masks[3], rows.Masks[4] = 0, 0
	if err := g.Use(rows, 7); err == nil || err.Error() != "environment 0: step 7: action mask: branch 1 allows none of 2 actions, must allow one" {
		t.Error(err)
	}
}

// A row that only resets gets an action within the bounds, which its environment ignores.
func TestRowsThatResetHaveActionsInRange(t *testing.T) {
	_, ms, _ := machines(t, 1, 1, 1, true)
	budget := must(threads.NewBudget(1))(t)
	log := &actionLog{sampled: make([][]string, 1), clipped: make([][]string, 1), masks: make([][]string, 1)}
	next := must(actor.New(actor.Config{Spec: ms[0].spec, Envs: 1, Seed: seed, Sink: log, Cores: budget, NextStep: true, Acting: &nn.Params{}}))(t)
	t.Cleanup(next.Close)
	rows := vec.NewRows(ms[0].spec.Obs, 1)
	rows.AddMasks(5)
	copy(rows.Masks, []byte{1, 1, 1, 1, 1})
	check(t, next.Reset())
	d := dice{&hybrid}
	check(t, errors.Join(next.Use(rows, 0), next.Choose(0, d, false)))
	rows.Ends[0] = env.Truncated
	must(next.Observe(rows, 0, nil))(t)
	check(t, errors.Join(next.Use(rows, 0), next.Choose(0, d, false)))
	if a := next.Actions(); !slices.Equal(a.Discrete, []int32{0, 0}) || !slices.Equal(a.Box, []float32{0, 2}) {
		t.Errorf("the action of a row that resets: %v", a)
	}
}
