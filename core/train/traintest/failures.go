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
	"github.com/paceline-rl/paceline/core/train"
)

// environmentFails makes environments fail in step and in reset. Every step that
// an environment took is counted, and the run goes on.
func environmentFails(t *testing.T, s Subject) {
	for _, where := range []string{"step", "reset"} {
		for _, how := range []string{"error", "panic"} {
			r := rand.New(rand.NewPCG(5, 5))
			var mu sync.Mutex // steps that wait are taken at the same time
			var walks []*Walk
			var on atomic.Bool
			tr := s.start(t, s.config(t, "num_threads", "1"), func(i int) (env.Env, error) {
				e, err := s.walks(7)(i)
				w := e.(*Walk)
				fail := func() error {
					mu.Lock()
					spared := !on.Load() || r.IntN(40) > 0
					mu.Unlock()
					if spared {
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

func panicSpoilsOne(t *testing.T, s Subject) {
	before := runtime.NumGoroutine()
	other := s.start(t, s.config(t), nil)
	check(t, other.Begin(total, 0))
	tr, err := train.New(s.config(t), s.walks(7))
	check(t, err)
	check(t, tr.Begin(total, 0))
	check(t, tr.Run(total/3, 0))
	s.Hook(tr.Method(), func() { panic("the optimiser is ill") })
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
	for range 200 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d goroutines, before %d", runtime.NumGoroutine(), before)
}

func notFinite(t *testing.T, s Subject) {
	for _, heal := range []string{"set parameters", "begin"} {
		var walks []*Walk
		tr := s.start(t, s.config(t), func(i int) (env.Env, error) {
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
			w.Scale = 1e38 // a reward is finite, the sum of a few is not
		}
		err = tr.Run(0, 0)
		if !errors.Is(err, fault.ErrNotFinite) || !strings.Contains(err.Error(), "step ") {
			t.Fatalf("%s: %v, must name the step", heal, err)
		}
		if again := tr.Run(8, 0); !errors.Is(again, fault.ErrNotFinite) {
			t.Errorf("%s: a second run: %v", heal, again)
		}
		check(t, tr.Save(filepath.Join(t.TempDir(), "a"), false)) // what there is can be looked at
		s.rolloutIsNotLearntAgain(t, tr)
		bad := make([]float32, len(good))
		_, err = tr.GetParameters(s.Set, bad)
		check(t, err)
		for i, v := range bad {
			if v-v != 0 {
				t.Fatalf("%s: parameter %d is %v: a gradient that is not finite was applied", heal, i, v)
			}
		}
		for _, w := range walks {
			w.Scale = 0
		}
		at := tr.Stats()
		if heal == "begin" {
			check(t, tr.Begin(total, train.ResetTimesteps|train.ResetEnvs))
			check(t, tr.Run(8, 0))
		} else {
			check(t, tr.SetParameters(s.Set, good))
		}
		// What was seen may still be drawn; but steps and updates go on.
		for range total {
			if err := tr.Run(8, 0); err != nil && !errors.Is(err, fault.ErrNotFinite) {
				t.Fatalf("%s: %v", heal, err)
			}
			check(t, tr.SetParameters(s.Set, good))
			if now := tr.Stats(); now.Updates > at.Updates+20 {
				break
			}
		}
		if now := tr.Stats(); now.Updates <= at.Updates || now.Steps == 0 {
			t.Errorf("%s: nothing was learnt: %+v, before %+v", heal, now, at)
		}
	}
}

// rolloutIsNotLearntAgain goes on, in another trainer, from a checkpoint with experience of one whose
// rollout gave a loss that is not finite.
func (s *Subject) rolloutIsNotLearntAgain(t *testing.T, tr *train.Trainer) {
	t.Helper()
	if !slices.Contains(s.Digests, "rollout") {
		return // replayed experience is drawn from again
	}
	path := filepath.Join(t.TempDir(), "a")
	check(t, tr.Save(path, true))
	next := s.start(t, s.saved(t, path), s.walks(99))
	check(t, next.Load(path))
	if err := next.Settle(0); err != nil || next.Stats().Updates != tr.Stats().Updates {
		t.Errorf("the rollout was learnt from again: %v, %d updates after %d", err, next.Stats().Updates, tr.Stats().Updates)
	}
	check(t, next.Run(100, 0))
	if next.Stats().Updates == tr.Stats().Updates {
		t.Error("nothing is learnt after the load")
	}
}

func memoryIsRefused(t *testing.T, s Subject) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	tr, err := train.New(s.config(t, s.Large...), s.walks(7))
	if err == nil {
		tr.Close()
	}
	var m *fault.Memory
	if !errors.As(err, &m) || !strings.Contains(err.Error(), s.Large[0]) || !strings.Contains(err.Error(), "available") {
		t.Errorf("%v, must name %s and both numbers", err, s.Large[0])
	}
	runtime.ReadMemStats(&after)
	if grown := int64(after.TotalAlloc - before.TotalAlloc); grown > 64<<20 {
		t.Errorf("%d bytes were allocated before the refusal", grown)
	}
}
