package traintest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/train"
)

// Golden loads the checkpoints of the method's testdata folder, which an earlier
// version wrote: a run with its experience, a run without it and a policy. With
// PACELINE_WRITE_GOLDEN set it writes those that are not there; a file is never
// written again, so that what was saved once can always be loaded.
func Golden(t *testing.T, s Subject) {
	paths := map[string]string{}
	for _, kind := range []string{"run", "weights", "policy", "digests"} {
		paths[kind] = filepath.Join("testdata", "golden-"+kind+map[bool]string{true: ".txt", false: ".paceline"}[kind == "digests"])
	}
	if _, err := os.Stat(paths["run"]); err != nil && os.Getenv("PACELINE_WRITE_GOLDEN") != "" {
		tr := s.start(t, s.config(t), nil)
		check(t, tr.Begin(total, 0))
		check(t, tr.Run(total/2+1, 0)) // in the middle of things
		check(t, os.MkdirAll("testdata", 0o755))
		check(t, tr.Save(paths["run"], true))
		check(t, tr.Save(paths["weights"], false))
		p, err := tr.Policy()
		check(t, err)
		check(t, p.Save(paths["policy"]))
		check(t, os.WriteFile(paths["digests"], []byte(s.digests(t, tr)+"\n"), 0o644))
	}
	want, err := os.ReadFile(paths["digests"])
	check(t, err)
	for _, kind := range []string{"run", "weights"} {
		c, err := train.LoadConfig(paths[kind])
		check(t, err)
		tr := s.start(t, c, MakeWalk(99))
		check(t, tr.Load(paths[kind]))
		if got := s.digests(t, tr) + "\n"; kind == "run" && got != string(want) {
			t.Errorf("%s: %s, must be %s", paths[kind], got, want)
		}
		check(t, tr.Run(0, 0))
		if st := tr.Stats(); st.Steps < total || st.Updates != st.UpdatesDue {
			t.Errorf("%s: %+v at its end", paths[kind], st)
		}
	}
	p, err := policy.Load(paths["policy"])
	check(t, err)
	check(t, p.Act(1, make([]byte, p.Spec().Obs.Bytes()), nil, make([]int32, 1), nil))
}
