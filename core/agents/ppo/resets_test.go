package ppo

import (
	"encoding/binary"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

// blind is a walk whose next reset writes NaN if nan is set.
type blind struct {
	*traintest.Walk
	nan *atomic.Bool
}

func (b *blind) Reset(obs []byte) error {
	err := b.Walk.Reset(obs)
	if b.nan.CompareAndSwap(true, false) {
		binary.NativeEndian.PutUint32(obs, 0x7fc00000)
	}
	return err
}

// If a reset during an update fails or writes NaN, the call that resets returns the error, also if
// the update is unfinished. The run continues.
func TestFailedResetsDuringAnUpdateAreReturned(t *testing.T) {
	for what, call := range map[string]func(tr *train.Trainer) error{
		"run":    func(tr *train.Trainer) error { return tr.Run(0, 10*time.Millisecond) },
		"settle": func(tr *train.Trainer) error { return tr.Settle(10 * time.Millisecond) },
		"save":   func(tr *train.Trainer) error { return tr.Save(filepath.Join(t.TempDir(), "a"), true) },
		"begin":  func(tr *train.Trainer) error { return tr.Begin(100, train.ResetTimesteps) },
	} {
		for _, how := range []string{"error", "NaN"} {
			c := *Settings.Defaults().Struct().(*Config)
			c.NetArchPi, c.NetArchVf, c.NSteps, c.BatchSize, c.NEpochs, c.NumEnvs, c.Seed = []int{8}, []int{8}, 7, 6, 3, 8, 7
			c.MidBatchReset = false
			var fails, nan atomic.Bool
			tr := must(train.New(configOf(t, c), func(i int) (env.Env, error) {
				e, err := traintest.MakeWalk(7)(i)
				w := e.(*traintest.Walk)
				w.BeforeReset = func() error {
					if fails.CompareAndSwap(true, false) {
						return traintest.ErrSimulator
					}
					return nil
				}
				return &blind{w, &nan}, err
			}))(t)
			t.Cleanup(func() { check(t, tr.Close()) })
			check(t, tr.Begin(1000, 0))
			for at := tr.Stats(); at.Updates == at.UpdatesDue; at = tr.Stats() {
				check(t, tr.Run(1, 0))
			}
			p := tr.Method().(*PPO)
			hooked := &traintest.HookedStepper{Stepper: p.Stepper, Before: func() { time.Sleep(20 * time.Millisecond) }}
			p.Stepper = hooked
			fails.Store(how == "error")
			nan.Store(how == "NaN")
			var failed *env.Error
			if err := call(tr); !errors.As(err, &failed) {
				t.Errorf("%s, %s: %v, must be the environment's error", what, how, err)
			}
			if fails.Load() || nan.Load() {
				t.Errorf("%s, %s: no reset took place", what, how)
			}
			hooked.Before = func() {}
			check(t, tr.Begin(1000, 0))
			check(t, tr.Run(40, 0))
		}
	}
}
