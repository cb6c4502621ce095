package traintest

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/limits"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/vec"
)

// environmentFails makes environments fail in Step and in Reset. The run continues, and it counts
// every step that an environment took.
func environmentFails(t *testing.T, s Subject) {
	for _, where := range []string{"step", "reset"} {
		for _, how := range []string{"error", "panic"} {
			r := rand.New(rand.NewPCG(5, 5))
			var mu sync.Mutex // steps that block run concurrently
			var walks []*Walk
			var on atomic.Bool
			tr := s.newTrainer(t, s.config(t, "num_threads", "1"), func(i int) (env.Env, error) {
				e, err := s.walks(7)(i)
				w := e.(*Walk)
				fail := func() error {
					mu.Lock()
					succeeds := !on.Load() || r.IntN(40) > 0
					mu.Unlock()
					if succeeds {
						return nil
					}
					if how == "panic" {
						panic("division by zero")
					}
					return ErrSimulator
				}
				if where == "step" {
					w.BeforeStep = fail
				} else {
					w.BeforeReset = fail
				}
				walks = append(walks, w)
				return w, err
			})
			check(t, tr.Begin(total, 0))
			check(t, tr.Run(1, 0))
			on.Store(true)
			failures := 0
			for tr.Stats().Steps < total {
				err := tr.Run(0, 0)
				var e *env.Error
				switch {
				case errors.As(err, &e):
					if failures++; e.Index < 0 || e.Index >= len(walks) {
						t.Errorf("%s, %s: environment %d", where, how, e.Index)
					}
				case err != nil:
					t.Fatalf("%s, %s: %v", where, how, err)
				}
			}
			on.Store(false)
			check(t, tr.Run(8, 0))
			taken := int64(0)
			for _, w := range walks {
				taken += w.Taken.Load()
			}
			if st := tr.Stats(); failures < 3 || st.Steps != taken {
				t.Errorf("%s, %s: %d failures; %d steps counted, the environments took %d", where, how, failures, st.Steps, taken)
			}
		}
	}
}

// panicBreaksOneTrainer panics in an update. Every later call of the trainer returns the same
// error, the trainer can be closed, and another trainer is not affected.
func panicBreaksOneTrainer(t *testing.T, s Subject) {
	before := runtime.NumGoroutine()
	other := s.newTrainer(t, s.config(t), nil)
	check(t, other.Begin(total, 0))
	tr, err := train.New(s.config(t), s.walks(7))
	check(t, err)
	check(t, tr.Begin(total, 0))
	check(t, tr.Run(total/3, 0))
	s.Hook(tr.Method(), func() { panic("the optimiser has a bug") })
	err = tr.Run(0, 0)
	var p *fault.Panic
	if !errors.As(err, &p) || len(p.Stack) == 0 {
		t.Fatalf("%v", err)
	}
	for what, call := range map[string]func() error{
		"run":   func() error { return tr.Run(1, 0) },
		"begin": func() error { return tr.Begin(1, train.ResetTimesteps) },
		"save":  func() error { return tr.Save(filepath.Join(t.TempDir(), "a"), false) },
		"hash":  func() error { _, err := tr.Hash(s.Set); return err },
	} {
		if again := call(); again != err {
			t.Errorf("%s afterwards: %v", what, again)
		}
	}
	tr.Stop()
	tr.Stats()
	check(t, tr.Close())
	check(t, other.Run(0, 0))
	check(t, other.Close())
	for range 3000 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d goroutines, before %d", runtime.NumGoroutine(), before)
}

// notFinite makes rewards with an infinite return. The run fails, the parameters remain finite, and
// the run can continue with new parameters or after Begin.
func notFinite(t *testing.T, s Subject) {
	if s.Settings["normalize_reward"] == "true" {
		t.Skip("normalised rewards have finite returns")
	}
	if s.Settings["distribution"] == "categorical" {
		t.Skip("returns beyond the atoms count as the largest one")
	}
	for _, repair := range []string{"set parameters", "begin"} {
		var walks []*Walk
		tr := s.newTrainer(t, s.config(t), func(i int) (env.Env, error) {
			e, err := s.walks(7)(i)
			walks = append(walks, e.(*Walk))
			return e, err
		})
		check(t, tr.Begin(10*total, 0))
		check(t, tr.Run(total/3, 0))
		good := make([]float32, s.size(t, tr))
		_, err := tr.GetParameters(s.Set, good)
		check(t, err)
		for _, w := range walks {
			w.Scale = 1e38 // a reward is finite, the sum of several is not
		}
		err = tr.Run(0, 0)
		if !errors.Is(err, fault.ErrNotFinite) || !strings.Contains(err.Error(), "step ") {
			t.Fatalf("%s: %v, must name the step", repair, err)
		}
		if again := tr.Run(8, 0); !errors.Is(again, fault.ErrNotFinite) {
			t.Errorf("%s: a second run: %v", repair, again)
		}
		check(t, tr.Save(filepath.Join(t.TempDir(), "a"), false)) // a save is possible
		s.rolloutIsUsedOnce(t, tr)
		bad := make([]float32, len(good))
		_, err = tr.GetParameters(s.Set, bad)
		check(t, err)
		for i, v := range bad {
			if v-v != 0 {
				t.Fatalf("%s: parameter %d is %v: a gradient that is not finite was applied", repair, i, v)
			}
		}
		for _, w := range walks {
			w.Scale = 0
		}
		at := tr.Stats()
		if repair == "begin" {
			check(t, tr.Begin(total, train.ResetTimesteps|train.ResetEnvs))
			check(t, tr.Run(8, 0))
		} else {
			check(t, tr.SetParameters(s.Set, good))
		}
		// Updates may still draw the large rewards from the replay memory, but the run continues.
		for range total {
			if err := tr.Run(8, 0); err != nil && !errors.Is(err, fault.ErrNotFinite) {
				t.Fatalf("%s: %v", repair, err)
			}
			check(t, tr.SetParameters(s.Set, good))
			if now := tr.Stats(); now.Updates > at.Updates+20 {
				break
			}
		}
		if now := tr.Stats(); now.Updates <= at.Updates || now.Steps == 0 {
			t.Errorf("%s: no updates: %+v, before %+v", repair, now, at)
		}
	}
}

// pushedNotFinite is notFinite where the host steps the environments: with new parameters or after
// Begin with ResetTimesteps its rounds continue, after Begin also in another trainer that loaded
// the file.
func pushedNotFinite(t *testing.T, s Subject) {
	if s.Settings["normalize_reward"] == "true" || s.Settings["distribution"] == "categorical" || s.Settings["mid_batch_reset"] == "false" {
		t.Skip("see notFinite; the host resets its environments itself")
	}
	for _, repair := range []string{"set parameters", "begin"} {
		var walks []*Walk
		c := s.config(t)
		c.Common().ActionMasks = s.Masked
		h := NewHost(t, c, vec.SameStep, func(i int) (env.Env, error) {
			e, err := s.walks(7)(i)
			walks = append(walks, e.(*Walk))
			return e, err
		})
		h.Begin(t, 10*total)
		for h.Trainer.Stats().Steps < total/3 {
			h.Round(t)
		}
		good := make([]float32, s.size(t, h.Trainer))
		_, err := h.Trainer.GetParameters(s.Set, good)
		check(t, err)
		for _, w := range walks {
			w.Scale = 1e38
		}
		for round := 0; err == nil && round < total; round++ {
			err = h.tryRound(t)
		}
		if !errors.Is(err, fault.ErrNotFinite) {
			t.Fatalf("%s: %v", repair, err)
		}
		for _, w := range walks {
			w.Scale = 0
		}
		if repair == "begin" {
			s.pushedBeginsAgain(t, h)
			continue
		}
		// Updates may still draw the large rewards from the replay memory, but the run continues.
		at := h.Trainer.Stats().Updates
		for round := 0; round < 2*total && h.Trainer.Stats().Updates <= at+20; round++ {
			check(t, h.Trainer.SetParameters(s.Set, good))
			if err := h.tryRound(t); err != nil && !errors.Is(err, fault.ErrNotFinite) {
				t.Fatalf("%s: %v", repair, err)
			}
		}
		if h.Trainer.Stats().Updates <= at {
			t.Errorf("%s: no updates: %+v", repair, h.Trainer.Stats())
		}
	}
}

// pushedBeginsAgain begins a run in h, whose loss was not finite, and in another trainer that loads
// the file of h.
func (s *Subject) pushedBeginsAgain(t *testing.T, h *Host) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a")
	check(t, h.Trainer.Save(path, true))
	saved := s.savedConfig(t, path)
	saved.Common().ActionMasks = s.Masked
	next := NewHost(t, saved, vec.SameStep, s.walks(99))
	check(t, next.Trainer.Load(path))
	for _, each := range []*Host{h, next} {
		check(t, each.Vec.Reset(each.Rows, nil))
		check(t, each.Trainer.Begin(total, train.ResetTimesteps|train.ResetEnvs))
		each.Round(t)
		each.Round(t)
	}
}

// actionNotFinite gives the policy Gaussians with an infinite deviation. The run fails before an
// environment takes such an action, the parameters can be read and saved, and the run continues
// with other ones.
func actionNotFinite(t *testing.T, s Subject) {
	if s.Action.Floats() == 0 {
		s.Action, s.Masked = env.ActionSpec{Low: []float32{-1}, High: []float32{1}}, false
	}
	var walks []*Walk
	mk := func(i int) (env.Env, error) {
		e, err := s.walks(7)(i)
		walks = append(walks, e.(*Walk))
		return e, err
	}
	if tr, err := train.New(s.config(t), mk); err == nil {
		check(t, tr.Close())
	} else {
		t.Skip(err) // the method has no boxes
	}
	walks = nil
	tr := s.newTrainer(t, s.config(t), mk)
	check(t, tr.Begin(10*total, 0))
	s.refusesActions(t, tr, walks, func() error { return tr.Run(total/3, 0) })

	if s.Settings["mid_batch_reset"] == "false" {
		return // the host resets its environments itself
	}
	walks = nil
	c := s.config(t)
	c.Common().ActionMasks = s.Masked
	h := NewHost(t, c, vec.SameStep, mk)
	h.Begin(t, 10*total)
	s.refusesActions(t, h.Trainer, walks, func() error {
		for range total / 12 {
			if err := h.tryRound(t); err != nil {
				return err
			}
		}
		return nil
	})
}

// refusesActions is actionNotFinite for a trainer and its environments; run takes some steps.
func (s *Subject) refusesActions(t *testing.T, tr *train.Trainer, walks []*Walk, run func() error) {
	t.Helper()
	taken := func() (n int64) {
		for _, w := range walks {
			n += w.Taken.Load()
		}
		return n
	}
	check(t, run())
	good := make([]float32, s.size(t, tr))
	_, err := tr.GetParameters(s.Set, good)
	check(t, err)
	bad := slices.Clone(good)
	for _, set := range tr.ParameterSets() {
		for _, p := range set.Params {
			if set.Name == s.Set && p.Name == "log_std" {
				copy(bad[p.Offset:], slices.Repeat([]float32{100}, p.Size))
			}
		}
	}
	check(t, tr.SetParameters(s.Set, bad))
	before := taken()
	for range 2 {
		if err := run(); !errors.Is(err, fault.ErrNotFinite) || !strings.Contains(err.Error(), ": action[") {
			t.Fatalf("an action that is not finite: %v", err)
		}
	}
	if n := taken() - before; n != 0 {
		t.Errorf("%d steps with an action that is not finite", n)
	}
	_, err = tr.GetParameters(s.Set, bad)
	check(t, err)
	check(t, tr.Save(filepath.Join(t.TempDir(), "a"), true))
	check(t, tr.SetParameters(s.Set, good))
	check(t, run())
	if st := tr.Stats(); st.Steps != taken() {
		t.Errorf("%d steps counted, the environments took %d", st.Steps, taken())
	}
}

// rolloutIsUsedOnce saves tr, whose rollout gave a loss that is not finite, with experience and
// loads the file into another trainer. That trainer must not use the rollout again.
func (s *Subject) rolloutIsUsedOnce(t *testing.T, tr *train.Trainer) {
	t.Helper()
	if !slices.Contains(s.Digests, "rollout") {
		return // a replay memory may be used again
	}
	path := filepath.Join(t.TempDir(), "a")
	check(t, tr.Save(path, true))
	next := s.newTrainer(t, s.savedConfig(t, path), s.walks(99))
	check(t, next.Load(path))
	// Of learners that go their own ways, others may have an update that is due.
	if err := next.Settle(0); err != nil || next.Stats().Updates != tr.Stats().Updates && !s.Alone {
		t.Errorf("the rollout was used again: %v, %d updates after %d", err, next.Stats().Updates, tr.Stats().Updates)
	}
	check(t, next.Run(100, 0))
	if next.Stats().Updates == tr.Stats().Updates {
		t.Error("no updates after the load")
	}
}

// memoryIsRefused asks for too much memory. The error names the setting and comes before a large
// allocation.
func memoryIsRefused(t *testing.T, s Subject) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	tr, err := train.New(s.config(t, s.Large...), s.walks(7))
	if err == nil {
		tr.Close()
		if available, _ := limits.Available(); available > 64<<30 {
			t.Skipf("left out: this machine has %d GB for %v", available>>30, s.Large)
		}
	}
	var m *fault.Memory
	if !errors.As(err, &m) || !strings.Contains(err.Error(), s.Large[0]) || !strings.Contains(err.Error(), "available") {
		t.Errorf("%v, must name %s and the available memory", err, s.Large[0])
	}
	runtime.ReadMemStats(&after)
	if grown := int64(after.TotalAlloc - before.TotalAlloc); grown > 64<<20 {
		t.Errorf("%d bytes were allocated before the refusal", grown)
	}
}
