package reinforce

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/env/envtest"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
	"github.com/paceline-rl/paceline/core/vec"
)

func TestSuite(t *testing.T) {
	traintest.Run(t, traintest.Subject{
		Method: "reinforce", Settings: map[string]string{"net_arch": "8", "n_steps": "10"}, Digests: []string{"rollout", "policy"}, Set: "policy",
		Large: []string{"n_steps", "1024", "net_arch", strings.Repeat("500,", 999) + "500", "num_envs", "64"},
		Hook: func(m train.Method, before func()) {
			r := m.(*Reinforce)
			r.Stepper = &traintest.HookedStepper{Stepper: r.Stepper, Before: before}
		},
	})
}

// watched calls seen before every update.
type watched struct {
	nn.Stepper
	seen func(b nn.Batch)
}

func (w watched) Update(p *nn.Params, b nn.Batch, lr float64, r *nn.Report) error {
	w.seen(b)
	return w.Stepper.Update(p, b, lr, r)
}

// The advantage of a step is the sum of discounted rewards up to its episode's end, minus the mean
// of these sums. Steps whose episode has not ended have weight 0.
func TestAdvantagesAreDiscountedReturns(t *testing.T) {
	c := config(t, map[string]string{"num_envs": "3", "n_steps": "20", "gamma": "0.9"})
	tr := traintest.NewTrainer(t, c, traintest.MakeWalk(1))
	r, batches := tr.Method().(*Reinforce), 0
	r.Stepper = watched{r.Stepper, func(b nn.Batch) {
		batches++
		rows := r.Rollout.Batch()
		returns, mean, n := map[int]float64{}, 0.0, 0.0
		for first := range rows.Ends {
			g, factor := 0.0, 1.0
			for k := first; k < len(rows.Ends); k += 3 {
				g, factor = g+factor*float64(rows.Rewards[k]), factor*0.9
				if rows.Ends[k].Over() {
					returns[first], mean, n = g, mean+g, n+1
					break
				}
			}
		}
		for k, weight := range b.Columns[2] {
			g, ended := returns[k]
			if want := g - mean/n; ended != (weight == 1) || ended && math.Abs(float64(b.Columns[0][k])-want) > 1e-5 {
				t.Fatalf("row %d: advantage %v, weight %v, want %v, ended %v", k, b.Columns[0][k], weight, want, ended)
			}
		}
		if int(n) == len(rows.Ends) {
			t.Error("every episode has ended: the test proves nothing")
		}
	}}
	if err := tr.Run(600, 0); err != nil || batches < 5 {
		t.Errorf("%d batches, %v", batches, err)
	}
}

func config(t *testing.T, edit map[string]string) *train.Config {
	t.Helper()
	c := traintest.Must(train.NewConfig("reinforce"))(t)
	for name, value := range edit {
		traintest.Check(t, c.Set(name, value))
	}
	return c
}

// The number of rows is limited, because a rollout is one minibatch.
func TestRowsAreBounded(t *testing.T) {
	_, err := train.New(config(t, map[string]string{"num_envs": "1000", "n_steps": "100"}), traintest.MakeWalk(1))
	if err == nil || err.Error() != "n_steps: 100, must be 1 to 65 with num_envs 1000" {
		t.Error(err)
	}
}

// meanReturn trains on the Corridor and returns the mean return of the latest 100 episodes.
func meanReturn(t *testing.T, seed int, rate string) float64 {
	t.Helper()
	c := config(t, map[string]string{"num_envs": "8", "seed": fmt.Sprint(seed), "learning_rate": rate})
	tr := traintest.NewTrainer(t, c, func(i int) (env.Env, error) {
		e := envtest.NewCorridor()
		e.Seed(vec.SeedFor(uint64(seed), i))
		return e, nil
	})
	if err := tr.Run(40_000, 0); err != nil {
		t.Fatal(err)
	}
	return tr.Stats().MeanReturn
}

// A policy that ignores the goal has a mean return of 0.
func TestReinforceLearnsTheCorridor(t *testing.T) {
	for seed := range 3 {
		untrained, trained := meanReturn(t, seed, "0"), meanReturn(t, seed, "0.01")
		if t.Logf("seed %d: %v untrained, %v trained", seed, untrained, trained); untrained > 0.5 || trained < 0.9 {
			t.Errorf("seed %d: %v untrained, must be at most 0.5; %v trained, must be at least 0.9", seed, untrained, trained)
		}
	}
}
