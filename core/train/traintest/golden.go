package traintest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/train"
)

// Golden loads the checkpoints of the method's testdata folder, which an earlier
// version wrote: a run with its experience, a run without it and a policy. What they
// hold is compared: the digests of the runs and what the policy does. With
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
	}
	got := map[string]string{}
	for _, kind := range []string{"run", "weights"} {
		c, err := train.LoadConfig(paths[kind])
		check(t, err)
		tr := s.start(t, c, MakeWalk(99))
		check(t, tr.Load(paths[kind]))
		got[kind] = s.digests(t, tr)
		check(t, tr.Run(0, 0))
		if st := tr.Stats(); st.Steps < total || st.Updates != st.UpdatesDue {
			t.Errorf("%s: %+v at its end", paths[kind], st)
		}
	}
	p, err := policy.Load(paths["policy"])
	check(t, err)
	// Outputs differ in their last bits from processor to processor, and are rounded.
	const n = 20
	actions, outputs := make([]int32, n), make([][]float32, len(p.Outputs()))
	for i, o := range p.Outputs() {
		outputs[i] = make([]float32, n*o.Len)
	}
	check(t, p.Act(n, walkObs(n), nil, actions, outputs))
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
