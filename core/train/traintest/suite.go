// Package traintest is the test suite of all methods: it tests what a Trainer guarantees with any
// method. The tests of a method call Run.
package traintest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/paceline-rl/paceline/core/cpu"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/vec"
)

// Subject is a method under test. With Settings and three or four Walks, all events of a run
// (updates, ends, ...) happen within a few hundred steps.
type Subject struct {
	Method   string
	Settings map[string]string
	// Digests are the parts that Hash accepts. They must agree between equal runs.
	Digests []string
	// Set is the name of a writable parameter set that acts.
	Set string
	// Hook makes m call before on the update's goroutine before every later update.
	Hook func(m train.Method, before func())
	// Large are settings, alternately name and value, that need more memory than a machine has. The
	// error must name the first.
	Large []string
	// Masked runs the suite with walks that have action masks.
	Masked bool
	// Action is Walk.Action.
	Action env.ActionSpec

	// Alone says that learners go their own ways: they read T at pulls alone, and where the host steps
	// all environments together, the order is another one.
	Alone bool
	// ByUpdates says that the learning rate follows updates, not steps.
	ByUpdates bool

	waits bool // the walks have Spec.Waits
	lives bool // the walks lose lives
}

// walks makes the walks of a run with the given seed.
func (s *Subject) walks(seed int) func(i int) (env.Env, error) {
	mk := MakeWalk(seed)
	if s.Masked {
		mk = MakeMaskedWalk(seed)
	}
	return func(i int) (env.Env, error) {
		e, err := mk(i)
		if err == nil {
			w := e.(*Walk)
			w.Waits, w.Lives, w.Action = s.waits, s.lives, s.Action
		}
		return e, err
	}
}

// Few reports whether tests do fewer repetitions and cases: with -short, and with the kernels in
// Go, because the guarantees of core/train do not depend on the kernels.
func Few() bool {
	return testing.Short() || cpu.Chosen() == cpu.Go
}

// Short skips a variant of the suite with -short, unless it is one of those named.
func Short(t *testing.T, variant string, kept ...string) {
	t.Helper()
	if testing.Short() && !slices.Contains(kept, variant) {
		t.Skip("left out by -short")
	}
}

// Times returns a number of repetitions: all, or few where Few says so.
func Times(all, few int) int {
	if Few() {
		return few
	}
	return all
}

// Run runs the whole suite. With -short it skips the kernels in Go, which take minutes.
func Run(t *testing.T, s Subject) {
	if testing.Short() && cpu.Chosen() == cpu.Go {
		t.Skip("skipped by -short without the kernels in C")
	}
	for name, test := range map[string]func(*testing.T, Subject){
		"threads do not change the results":          threadsDoNotMatter,
		"steps that block":                           blockingSteps,
		"two groups":                                 twoGroups,
		"the latest rows":                            latestRows,
		"a resumed run continues with the same bits": resume,
		"an interrupted run continues":               interrupted,
		"a run in slices":                            inSlices,
		"a learning rate of 0 gives a notice":        zeroRate,
		"unused convolutions give a notice":          unusedConvolutions,
		"policy auto in a small game":                autoInSmallGame,
		"stop and continue":                          stopAndContinue,
		"pushed equals built in":                     pushedEqualsBuiltIn,
		"an environment fails":                       environmentFails,
		"a panic breaks one trainer":                 panicBreaksOneTrainer,
		"a loss that is not finite":                  notFinite,
		"a pushed loss that is not finite":           pushedNotFinite,
		"an action that is not finite":               actionNotFinite,
		"memory is refused before it is allocated":   memoryIsRefused,
		"parameters by name":                         parameters,
		"calls at the wrong time":                    callsAtTheWrongTime,
		"metrics":                                    metrics,
		"a policy acts as the trainer's network":     policyActs,
		"forged counts":                              forgedCounts,
		"another number of environments":             otherNumEnvs,
		"other bounds of a box":                      otherBounds,
	} {
		t.Run(name, func(t *testing.T) { test(t, s) })
	}
}

const total = 900 // steps of a full run

func (s *Subject) config(t testing.TB, edits ...string) *train.Config {
	t.Helper()
	c, err := train.NewConfig(s.Method)
	check(t, err)
	check(t, c.Set("num_envs", "4"))
	check(t, c.Set("seed", "7"))
	for name, value := range s.Settings {
		check(t, c.Set(name, value))
	}
	for i := 0; i+1 < len(edits); i += 2 {
		check(t, c.Set(edits[i], edits[i+1]))
	}
	return c
}

// savedConfig returns the configuration of a run's file with the Subject's device, which the file
// does not have.
func (s *Subject) savedConfig(t testing.TB, path string) *train.Config {
	t.Helper()
	c, err := train.LoadConfig(path)
	check(t, err)
	if device, ok := s.Settings["device"]; ok {
		check(t, c.Set("device", device))
	}
	return c
}

// newTrainer makes a trainer and closes it at the end of the test. mk nil: it steps walks.
func (s *Subject) newTrainer(t testing.TB, c *train.Config, mk func(i int) (env.Env, error)) *train.Trainer {
	t.Helper()
	if mk == nil {
		mk = s.walks(c.Common().Seed)
	}
	tr, err := train.New(c, mk)
	check(t, err)
	t.Cleanup(func() { check(t, tr.Close()) })
	return tr
}

// digests returns the hashes of all parts and the counts of a trainer as one text.
func (s *Subject) digests(t testing.TB, tr *train.Trainer) string {
	t.Helper()
	var all []string
	for _, part := range s.Digests {
		sum, err := tr.Hash(part)
		check(t, err)
		all = append(all, fmt.Sprintf("%s %.12s", part, sum))
	}
	st := tr.Stats()
	return fmt.Sprintf("%s; %d steps, %d updates, %d episodes of %v", strings.Join(all, ", "), st.Steps, st.Updates, st.Episodes, st.MeanReturn)
}

func (s *Subject) fullRun(t testing.TB, c *train.Config) string {
	t.Helper()
	tr := s.newTrainer(t, c, nil)
	check(t, tr.Begin(total, 0))
	check(t, tr.Run(0, 0))
	if st := tr.Stats(); st.Updates == 0 || st.Updates != st.UpdatesDue || st.Episodes == 0 {
		t.Fatalf("the test shows nothing with these settings: %+v", st)
	}
	return s.digests(t, tr)
}

func threadsDoNotMatter(t *testing.T, s Subject) {
	want := s.fullRun(t, s.config(t, "num_threads", "1"))
	for _, n := range []string{"2", "3", "8"} {
		if got := s.fullRun(t, s.config(t, "num_threads", n)); got != want {
			t.Errorf("%s threads: %s, one: %s", n, got, want)
		}
	}
	if other := s.fullRun(t, s.config(t, "seed", "8")); other == want {
		t.Error("another seed gives the same result: the test shows nothing")
	}
}

// resume saves at random moments and continues in a new trainer. Reading the policy on the way
// changes nothing.
func resume(t *testing.T, s Subject) {
	want := s.fullRun(t, s.config(t))
	for k := range Times(12, 3) {
		r := rand.New(rand.NewPCG(3, uint64(k)))
		tr := s.newTrainer(t, s.config(t), nil)
		check(t, tr.Begin(total, 0))
		for tr.Stats().Steps < total {
			check(t, tr.Run(min(1+r.Int64N(150), total-tr.Stats().Steps), 0))
			switch r.IntN(4) {
			case 0:
				tr.Stop()
				check(t, tr.Run(0, 0))
			case 1:
				_, err := tr.Policy()
				check(t, err)
			case 2:
				check(t, tr.Run(0, time.Microsecond)) // ends anywhere
			}
			path := filepath.Join(t.TempDir(), "a")
			check(t, tr.Save(path, true))
			next := s.newTrainer(t, s.savedConfig(t, path), s.walks(99)) // the states are in the file
			check(t, next.Load(path))
			check(t, tr.Close())
			tr = next
		}
		check(t, tr.Run(0, 0))
		if got := s.digests(t, tr); got != want {
			t.Fatalf("resumed: %s, in one run: %s", got, want)
		}
	}
	// Without experience in the file the run continues, too, but with other bits.
	tr := s.newTrainer(t, s.config(t), nil)
	check(t, tr.Begin(total, 0))
	check(t, tr.Run(total/2, 0))
	path := filepath.Join(t.TempDir(), "a")
	check(t, tr.Save(path, false))
	next := s.newTrainer(t, s.config(t), nil)
	check(t, next.Load(path))
	before := next.Stats()
	check(t, next.Run(0, 0))
	if after := next.Stats(); before.Steps != tr.Stats().Steps || after.Steps < total || after.Updates <= before.Updates {
		t.Errorf("loaded without experience: %+v, then %+v", before, after)
	}
}

func stopAndContinue(t *testing.T, s Subject) {
	want := s.fullRun(t, s.config(t))
	for _, slow := range []string{"update", "step"} {
		const pause = 20 * time.Millisecond
		var wait, begun atomic.Int64 // begun counts the slow updates or steps
		sleep := func() {
			if n := wait.Load(); n > 0 {
				begun.Add(1)
				time.Sleep(time.Duration(n))
			}
		}
		// With a thread for each environment a round lasts as long as one step.
		c := s.config(t)
		check(t, c.Set("num_threads", strconv.Itoa(c.Common().NumEnvs)))
		tr := s.newTrainer(t, c, func(i int) (env.Env, error) {
			e, err := s.walks(7)(i)
			if slow == "step" {
				e.(*Walk).BeforeStep = func() error { sleep(); return nil }
			}
			return e, err
		})
		if slow == "update" {
			s.Hook(tr.Method(), sleep)
		}
		check(t, tr.Begin(total, 0))
		check(t, tr.Run(total/2, 0))
		wait.Store(int64(pause))
		stopped := make(chan int64, 1)
		go func() {
			for begun.Load() < 3 {
				time.Sleep(pause / 4)
			}
			tr.Stop()
			stopped <- begun.Load()
		}()
		check(t, tr.Run(0, 0))
		// Only the update or the rounds that were about to begin may follow.
		if more := begun.Load() - <-stopped; more > 8 {
			t.Errorf("slow %s: %d more were begun after Stop", slow, more)
		}
		if st := tr.Stats(); st.Steps >= total {
			t.Errorf("slow %s: the run ended before Stop: the test shows nothing", slow)
		}
		at := tr.Stats().Updates
		s.digests(t, tr)
		if now := tr.Stats().Updates; now != at {
			t.Errorf("slow %s: reading digests after Stop ran %d updates", slow, now-at)
		}
		wait.Store(0)
		path := filepath.Join(t.TempDir(), "a")
		check(t, tr.Save(path, true))
		next := s.newTrainer(t, s.savedConfig(t, path), s.walks(99)) // the states are in the file
		check(t, next.Load(path))
		check(t, next.Run(0, 0))
		if got := s.digests(t, next); got != want {
			t.Errorf("slow %s: stopped, saved and continued: %s, in one run: %s", slow, got, want)
		}
		check(t, tr.Run(0, 0))
		if got := s.digests(t, tr); got != want {
			t.Errorf("slow %s: stopped and continued: %s, in one run: %s", slow, got, want)
		}
	}
}

func pushedEqualsBuiltIn(t *testing.T, s Subject) {
	tr, round, ok := s.pushed(t, s.config(t))
	if !ok {
		return
	}
	check(t, tr.Begin(total, 0))
	for tr.Stats().Steps < total {
		round()
	}
	if got, want := s.digests(t, tr), s.fullRun(t, s.config(t)); got != want && !s.Alone {
		t.Errorf("pushed: %s, built in: %s", got, want)
	}
}

func (s *Subject) size(t testing.TB, tr *train.Trainer) int {
	t.Helper()
	for _, set := range tr.ParameterSets() {
		if set.Name == s.Set {
			return set.Size
		}
	}
	t.Fatalf("no set %q", s.Set)
	return 0
}

func parameters(t *testing.T, s Subject) {
	tr := s.newTrainer(t, s.config(t), nil)
	check(t, tr.Begin(total, 0))
	check(t, tr.Run(total/2, 0))
	for _, set := range tr.ParameterSets() {
		end := 0
		for _, p := range set.Params {
			if p.Name == "" || p.Offset != end || p.Size < 1 {
				t.Errorf("%s: %+v, must begin at %d", set.Name, p, end)
			}
			end += p.Size
		}
		if end != set.Size {
			t.Errorf("%s: the arrays end at %d of %d", set.Name, end, set.Size)
		}
		values := make([]float32, set.Size)
		updates, err := tr.GetParameters(set.Name, values)
		check(t, err)
		if int64(updates) > tr.Stats().Updates {
			t.Errorf("%s has seen %d updates of %d", set.Name, updates, tr.Stats().Updates)
		}
		was, err := tr.Hash(set.Name)
		check(t, err)
		if was != train.HashFloats(values) {
			t.Errorf("%s: the hash is not that of the parameters", set.Name)
		}
		for i := range values {
			values[i] += 0.25
		}
		err = tr.SetParameters(set.Name, values)
		if set.Writable != (err == nil) {
			t.Errorf("%s: writable %v, %v", set.Name, set.Writable, err)
		}
		if now, err := tr.Hash(set.Name); err != nil || set.Writable != (now == train.HashFloats(values)) {
			t.Errorf("%s: %s after it was set, %v", set.Name, now, err)
		}
		if err := tr.SetParameters(set.Name, values[1:]); err == nil {
			t.Errorf("%s: SetParameters accepted one number too few", set.Name)
		}
	}
	if _, err := tr.GetParameters("no such set", nil); err == nil || !strings.Contains(err.Error(), s.Set) {
		t.Errorf("%v, must list %s", err, s.Set)
	}
	check(t, tr.Run(0, 0))
}

func callsAtTheWrongTime(t *testing.T, s Subject) {
	tr := s.newTrainer(t, s.config(t), nil)
	for want, err := range map[string]error{
		"total_timesteps: 0, must be 1 to":  tr.Begin(0, 0),
		"max_steps: -1, must be at least 0": tr.Run(-1, 0),
		"max_steps: 0, must be at least 1":  tr.Run(0, 0),
		"use run":                           tr.Act(nil, vec.Actions{}, 0),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	check(t, tr.Run(20, 0)) // begins a run of that length
	check(t, tr.Close())
	check(t, tr.Close())
	for what, err := range map[string]error{
		"run": tr.Run(1, 0), "begin": tr.Begin(1, 0), "settle": tr.Settle(0), "save": tr.Save("a", true), "load": tr.Load("a"),
	} {
		if !errors.Is(err, fault.ErrClosed) {
			t.Errorf("%s after Close: %v", what, err)
		}
	}
	tr.Stop()
	tr.Stats()
}

func metrics(t *testing.T, s Subject) {
	tr := s.newTrainer(t, s.config(t), nil)
	list := func() map[string]float64 {
		all := map[string]float64{}
		for i := 0; ; i++ {
			m, ok := tr.Metric(i)
			if !ok {
				return all
			}
			if _, twice := all[m.Name]; twice || m.Name == "" || m.Doc == "" {
				t.Errorf("metric %d: %+v", i, m)
			}
			all[m.Name] = m.Value
		}
	}
	before := len(list())
	check(t, tr.Begin(total, 0))
	check(t, tr.Run(0, 0))
	after := list()
	if before == 0 || len(after) != before {
		t.Errorf("%d metrics before the run, %d after it", before, len(after))
	}
	if loss, ok := after["train/loss"]; !ok || loss-loss != 0 {
		t.Errorf("train/loss: %v, %v", loss, ok)
	}
	if rate, ok := after["train/learning_rate"]; !ok || !(rate >= 0) {
		t.Errorf("train/learning_rate: %v, %v", rate, ok)
	}
}

// walkObs returns n observations of walks.
func walkObs(n int) []byte {
	obs := make([]byte, 8*n)
	for i := range n {
		(&Walk{state: [2]float32{float32(i%9) / 9, -float32(i%7) / 7}}).write(obs[8*i:])
	}
	return obs
}

func policyActs(t *testing.T, s Subject) {
	tr := s.newTrainer(t, s.config(t), nil)
	check(t, tr.Begin(total, 0))
	check(t, tr.Run(total/2, 0))
	p, err := tr.Policy()
	check(t, err)
	dir := t.TempDir()
	check(t, p.Save(filepath.Join(dir, "policy")))
	check(t, tr.Save(filepath.Join(dir, "run"), false))
	const n = 70
	obs := walkObs(n)
	want := newActions(p.Spec().Action, n)
	check(t, p.Act(n, obs, nil, want, nil))
	check(t, tr.Run(0, 0)) // later updates do not change the policy
	for _, name := range []string{"", "policy", "run"} {
		if name != "" {
			p, err = policy.Load(filepath.Join(dir, name))
			check(t, err)
		}
		got := newActions(p.Spec().Action, n)
		check(t, p.Act(n, obs, nil, got, nil))
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: actions %v, want %v", name, got, want)
		}
	}
}

// HookedStepper calls Before before every step of the optimiser.
type HookedStepper struct {
	nn.Stepper
	Before func()
}

func (o *HookedStepper) Step(p *nn.Params, lr float64, r *nn.Report) error {
	o.Before()
	return o.Stepper.Step(p, lr, r)
}

func (o *HookedStepper) Update(p *nn.Params, b nn.Batch, lr float64, r *nn.Report) error {
	if err := o.Learn(p, b, r); err != nil {
		return err
	}
	return o.Step(p, lr, r)
}
