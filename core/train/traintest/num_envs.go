package traintest

import (
	"path/filepath"
	"strings"
	"testing"
)

// otherNumEnvs loads files into trainers with fewer and with more environments. A file without
// experience loads and the run continues. A file with experience is refused.
func otherNumEnvs(t *testing.T, s Subject) {
	dir := t.TempDir()
	without, with, next := filepath.Join(dir, "without"), filepath.Join(dir, "with"), filepath.Join(dir, "next")
	for _, steps := range []int64{0, 48, total/2 + 1} {
		from := s.newTrainer(t, s.config(t), nil)
		check(t, from.Begin(total, 0))
		if steps > 0 {
			check(t, from.Run(steps, 0))
		}
		check(t, from.Save(without, false))
		check(t, from.Save(with, true))
		stats := from.Stats()
		for _, envs := range []string{"2", "8"} {
			to := s.newTrainer(t, s.config(t, "num_envs", envs), nil)
			says := `num_envs: the checkpoint has "4", this trainer has "` + envs + `"`
			if err := to.Load(with); steps > 0 && (err == nil || !strings.Contains(err.Error(), says)) {
				t.Errorf("with experience: %v, must say %q", err, says)
			}
			check(t, to.Load(without))
			if now := to.Stats(); now.Steps != stats.Steps || now.Updates != stats.Updates || now.Total != stats.Total || now.Episodes != stats.Episodes {
				t.Errorf("%s environments: loaded %+v, saved %+v", envs, now, stats)
			}
			check(t, to.Run(4, 0))
			check(t, to.Save(next, true))
			if now := to.Stats(); now.Steps <= stats.Steps {
				t.Errorf("%s environments: %+v", envs, now)
			}
			check(t, to.Run(0, 0))
			other := s.newTrainer(t, s.config(t, "num_envs", envs), nil)
			check(t, other.Load(next))
			check(t, other.Run(0, 0))
			if want, got := s.digests(t, to), s.digests(t, other); got != want {
				t.Errorf("%s environments: saved again and loaded: %s, want %s", envs, got, want)
			}
		}
	}
}
