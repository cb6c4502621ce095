package traintest

import (
	"path/filepath"
	"strings"
	"testing"
)

// otherNumber goes on from a file without experience in fewer and in more environments, and refuses
// one that has it.
func otherNumber(t *testing.T, s Subject) {
	dir := t.TempDir()
	alone, whole, again := filepath.Join(dir, "alone"), filepath.Join(dir, "whole"), filepath.Join(dir, "again")
	for _, steps := range []int64{0, 48, total/2 + 1} {
		from := s.start(t, s.config(t), nil)
		check(t, from.Begin(total, 0))
		if steps > 0 {
			check(t, from.Run(steps, 0))
		}
		check(t, from.Save(alone, false))
		check(t, from.Save(whole, true))
		stats := from.Stats()
		for _, envs := range []string{"2", "8"} {
			to := s.start(t, s.config(t, "num_envs", envs), nil)
			says := `num_envs: the checkpoint has "4", this trainer has "` + envs + `"`
			if err := to.Load(whole); steps > 0 && (err == nil || !strings.Contains(err.Error(), says)) {
				t.Errorf("with experience: %v, must say %q", err, says)
			}
			check(t, to.Load(alone))
			if now := to.Stats(); now.Steps != stats.Steps || now.Updates != stats.Updates || now.Total != stats.Total || now.Episodes != stats.Episodes {
				t.Errorf("%s environments: loaded %+v, saved %+v", envs, now, stats)
			}
			check(t, to.Run(4, 0))
			check(t, to.Save(again, true))
			if now := to.Stats(); now.Steps <= stats.Steps {
				t.Errorf("%s environments: %+v", envs, now)
			}
			check(t, to.Run(0, 0))
			other := s.start(t, s.config(t, "num_envs", envs), nil)
			check(t, other.Load(again))
			check(t, other.Run(0, 0))
			if want, got := s.digests(t, to), s.digests(t, other); got != want {
				t.Errorf("%s environments: going on from a file of theirs gives %s, not %s", envs, got, want)
			}
		}
	}
}
