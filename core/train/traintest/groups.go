package traintest

import (
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/train"
)

// refusesGroups reports whether the settings refuse two groups: environments do not step in
// lockstep, or statistics need the steps of all environments.
func (s *Subject) refusesGroups() bool {
	return s.Settings["synchronized"] == "false" || s.Settings["normalize_obs"] == "true" || s.Settings["normalize_reward"] == "true"
}

// twoGroups steps the environments in two alternating groups. The results are those of one group,
// with blocking and other steps, for any number of threads, and if the run is stopped or saved and
// loaded anywhere.
func twoGroups(t *testing.T, s Subject) {
	if s.refusesGroups() {
		_, err := train.New(s.config(t, "groups", "2"), s.walks(7))
		if err == nil {
			t.Errorf("two groups were accepted with %v", s.Settings)
		}
		return
	}
	want := s.fullRun(t, s.config(t))
	for k := range Times(6, 4) {
		r := rand.New(rand.NewPCG(4, uint64(k)))
		s.waits = k%2 == 1
		walks := func(seed int) func(i int) (env.Env, error) {
			return func(i int) (env.Env, error) {
				return s.slowWalk(seed, i)
			}
		}
		c := s.config(t, "groups", "2", "num_threads", []string{"1", "2", "3"}[k%3])
		tr := s.newTrainer(t, c, walks(c.Common().Seed))
		check(t, tr.Begin(total, 0))
		for k >= 2 && tr.Stats().Steps < total {
			check(t, tr.Run(min(1+r.Int64N(150), total-tr.Stats().Steps), time.Duration(r.IntN(3000))*time.Microsecond))
			if r.IntN(2) == 0 {
				tr.Stop()
			}
			check(t, tr.Run(0, time.Microsecond)) // ends anywhere
			path := filepath.Join(t.TempDir(), "a")
			check(t, tr.Save(path, true))
			next := s.newTrainer(t, s.savedConfig(t, path), walks(99)) // the states are in the file
			check(t, next.Load(path))
			check(t, tr.Close())
			tr = next
		}
		check(t, tr.Run(0, 0))
		if got := s.digests(t, tr); got != want {
			t.Fatalf("run %d: %s, one group: %s", k, got, want)
		}
	}
	s.Settings["groups"] = "2"
	defer delete(s.Settings, "groups")
	for _, s.waits = range []bool{true, false}[:Times(2, 1)] {
		stopAndContinue(t, s)
		environmentFails(t, s)
		panicBreaksOneTrainer(t, s)
	}
}
