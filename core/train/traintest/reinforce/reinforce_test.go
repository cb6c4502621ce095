package reinforce

import (
	"fmt"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/env/envtest"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
	"github.com/paceline-rl/paceline/core/vec"
)

// hooked calls before ahead of every update.
type hooked struct {
	nn.Stepper
	before func()
}

func (h hooked) Update(p *nn.Params, n int, next func(int, *nn.Batch) (float64, error), r *nn.Report) error {
	h.before()
	return h.Stepper.Update(p, n, next, r)
}

func TestSuite(t *testing.T) {
	traintest.Run(t, traintest.Subject{
		Method: "reinforce", Settings: map[string]string{"net_arch": "8", "n_steps": "10"}, Digests: []string{"policy"}, Set: "policy",
		Large: []string{"n_steps", "1024", "net_arch", strings.Repeat("100,", 9999) + "100", "num_envs", "64"},
		Hook: func(m train.Method, before func()) {
			r := m.(*Reinforce)
			r.stepper = hooked{r.stepper, before}
		},
	})
}

// meanReturn trains on the Corridor and returns the mean of the latest 100 episodes.
func meanReturn(t *testing.T, seed int, rate string) float64 {
	t.Helper()
	c, err := train.NewConfig("reinforce")
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"num_envs": "8", "seed": fmt.Sprint(seed), "learning_rate": rate} {
		if err := c.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	tr, err := train.New(c, func(i int) (env.Env, error) {
		e := envtest.NewCorridor()
		e.Seed(vec.SeedFor(uint64(seed), i))
		return e, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	if err := tr.Run(40_000, 0); err != nil {
		t.Fatal(err)
	}
	return tr.Stats().MeanReturn
}

// A policy that does not look at the goal scores 0 on average.
func TestLearns(t *testing.T) {
	for seed := range 3 {
		untrained, trained := meanReturn(t, seed, "0"), meanReturn(t, seed, "0.01")
		if t.Logf("seed %d: %v untrained, %v trained", seed, untrained, trained); untrained > 0.5 || trained < 0.9 {
			t.Errorf("seed %d: %v untrained, must be at most 0.5; %v trained, must be at least 0.9", seed, untrained, trained)
		}
	}
}
