package traintest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/vec"
)

// Golden loads the files in the method's testdata folder, which an earlier version wrote: a run
// with experience, a run without experience and a policy. It compares the digests of the runs and
// the actions and outputs of the policy. With PACELINE_WRITE_GOLDEN set it writes missing files. It
// never overwrites a file, so that later versions can load the files of earlier ones.
func Golden(t *testing.T, s Subject) {
	paths := map[string]string{}
	for _, kind := range []string{"run", "weights", "policy", "digests"} {
		paths[kind] = filepath.Join("testdata", "golden-"+kind+map[bool]string{true: ".txt", false: ".paceline"}[kind == "digests"])
	}
	if _, err := os.Stat(paths["run"]); err != nil && os.Getenv("PACELINE_WRITE_GOLDEN") != "" {
		tr := s.newTrainer(t, s.config(t), nil)
		check(t, tr.Begin(total, 0))
		check(t, tr.Run(total/2+1, 0)) // ends in the middle of a rollout and of episodes
		check(t, os.MkdirAll("testdata", 0o755))
		check(t, tr.Save(paths["run"], true))
		check(t, tr.Save(paths["weights"], false))
		p, err := tr.Policy()
		check(t, err)
		check(t, p.Save(paths["policy"]))
	}
	got := map[string]string{}
	for _, kind := range []string{"run", "weights"} {
		c, err := train.LoadConfig(paths[kind])
		check(t, err)
		tr := s.newTrainer(t, c, MakeWalk(99))
		check(t, tr.Load(paths[kind]))
		got[kind] = s.digests(t, tr)
		check(t, tr.Run(0, 0))
		if st := tr.Stats(); st.Steps < total || st.Updates != st.UpdatesDue {
			t.Errorf("%s: %+v at its end", paths[kind], st)
		}
	}
	p, err := policy.Load(paths["policy"])
	check(t, err)
	// Outputs are rounded, because their last bits differ between processors.
	const n = 20
	actions, outputs := make([]int32, n), make([][]float32, len(p.Outputs()))
	for i, o := range p.Outputs() {
		outputs[i] = make([]float32, n*o.Len)
	}
	check(t, p.Act(n, walkObs(n), nil, vec.Actions{Discrete: actions}, outputs))
	now := fmt.Sprintf("%s\nweights: %s\npolicy: actions %v, outputs", got["run"], got["weights"], actions)
	for i, o := range p.Outputs() {
		now += fmt.Sprintf(" %s %.3f", o.Name, outputs[i][:2*o.Len])
	}
	now += "\n"
	if _, err := os.Stat(paths["digests"]); err != nil && os.Getenv("PACELINE_WRITE_GOLDEN") != "" {
		check(t, os.WriteFile(paths["digests"], []byte(now), 0o644))
	}
	want, err := os.ReadFile(paths["digests"])
	check(t, err)
	if now != string(want) {
		t.Errorf("%s:\n%smust be\n%s", filepath.Dir(paths["run"]), now, want)
	}
}
