package a3c_test

import (
	"math"
	"testing"

	_ "github.com/paceline-rl/paceline/core/agents/appo"
	_ "github.com/paceline-rl/paceline/core/agents/ppo"
)

// parameters trains and returns the parameters.
func parameters(t *testing.T, method string, steps int64, edits ...string) []float32 {
	t.Helper()
	tr := trainer(t, method, edits...)
	if err := tr.Begin(steps, 0); err != nil {
		t.Fatal(err)
	}
	if err := tr.Run(steps, 0); err != nil {
		t.Fatal(err)
	}
	to := make([]float32, tr.ParameterSets()[0].Size)
	if _, err := tr.GetParameters("policy", to); err != nil {
		t.Fatal(err)
	}
	return to
}

// With rule mean, learners take the step of one learner with all of their environments.
func TestMeanIsOneLearner(t *testing.T) {
	a2c := []string{"env", "CartPole-v1", "num_envs", "16", "seed", "3", "ent_coef", "0.01"}
	ppo := append(a2c, "n_steps", "8", "batch_size", "128", "n_epochs", "1", "normalize_advantage", "true")
	for _, c := range []struct {
		one, several string
		steps        int64
		edits        []string
	}{
		{"a2c", "a3c", 80, a2c},
		{"a2c", "a3c", 80, append(a2c, "normalize_advantage", "true", "max_grad_norm", "0.05")},
		{"ppo", "appo", 128, ppo},
	} {
		want := parameters(t, c.one, c.steps, c.edits...)
		before := parameters(t, c.one, 16, c.edits...)
		for _, learners := range []string{"2", "4"} {
			edits := append(c.edits, "learners", learners, "rule", "mean")
			if c.several == "appo" {
				edits = append(edits, "pull_period", "0")
			}
			got := parameters(t, c.several, c.steps, edits...)
			largest, off, moved := 0.0, 0.0, 0.0
			for i := range want {
				largest = max(largest, math.Abs(float64(want[i])))
				off = max(off, math.Abs(float64(want[i]-got[i])))
				moved = max(moved, math.Abs(float64(want[i]-before[i])))
			}
			if off > 1e-6*largest || moved < 1e-4*largest {
				t.Errorf("%s, %s learners, %v: off by %g of %g, the step is %g", c.several, learners, c.edits, off, largest, moved)
			}
		}
	}
}
