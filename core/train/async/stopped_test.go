package async_test

import (
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

// A learner that was ahead when the run was stopped has episodes that come late in the order. They
// wait, also in a checkpoint, so that the mean of the latest episodes is that of a run never
// stopped.
func TestEpisodesOfAnInterruptedSliceKeepTheirOrder(t *testing.T) {
	const rounds, ahead = 62, 60
	run := func(stop, reload bool) (int64, float64) {
		var first atomic.Int64 // rounds of learner 0
		blocked := make(chan struct{})
		trainer := func(stop bool) *train.Trainer {
			cfg := must(train.NewConfig("a3c"))(t)
			for name, value := range map[string]string{"learners": "2", "num_envs": "2", "n_steps": "64", "num_threads": "2", "stats_window_size": "4", "latency_step": "0.001:0.5"} {
				check(t, cfg.Set(name, value))
			}
			return must(train.New(cfg, func(i int) (env.Env, error) {
				e, err := traintest.MakeWalk(1)(i)
				e.(*traintest.Walk).BeforeStep = func() error {
					if i == 0 {
						first.Add(1)
					} else if stop {
						<-blocked
					}
					return nil
				}
				return e, err
			}))(t)
		}
		tr := trainer(stop)
		check(t, tr.Begin(2*rounds, 0))
		if stop {
			go func() {
				for first.Load() < ahead {
					time.Sleep(time.Millisecond)
				}
				tr.Stop()
				close(blocked)
			}()
			check(t, tr.Run(0, 0))
			if steps := tr.Stats().Steps; steps >= 2*rounds {
				t.Fatalf("stopped after %d steps", steps)
			}
		}
		if reload {
			file := filepath.Join(t.TempDir(), "a")
			check(t, tr.Save(file, true))
			check(t, tr.Close())
			tr = trainer(false)
			check(t, tr.Load(file))
		}
		check(t, tr.Run(0, 0))
		now := tr.Stats()
		check(t, tr.Close())
		return now.Episodes, now.MeanReturn
	}
	episodes, mean := run(false, false)
	for _, reload := range []bool{false, true} {
		if n, got := run(true, reload); n != episodes || got != mean {
			t.Errorf("stopped, loaded %v: %d episodes, mean %v, want %d, %v", reload, n, got, episodes, mean)
		}
	}
}
