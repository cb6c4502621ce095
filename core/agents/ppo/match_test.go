package ppo

import (
	"strconv"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/env/envtest"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

// matches are tasks whose best policy scores envtest.MatchSteps.
var matches = map[string]env.ActionSpec{
	"MatchBranches-v0": {Branches: []int32{3, 2, 4}},
	"MatchBox-v0":      {Low: []float32{-1, -1}, High: []float32{1, 1}},
	"MatchHybrid-v0":   {Branches: []int32{3, 2}, Low: []float32{-1}, High: []float32{1}},
}

func init() {
	for id, action := range matches {
		env.RegisterPlain(id, func() env.Env { return envtest.NewMatch(action) })
	}
}

// PPO finds the optimum of every kind of actions, with three seeds. The expected score
// of uniformly random actions is 6.7 to 7.8 of 20.
func TestEveryKindOfActionIsLearned(t *testing.T) {
	for id := range matches {
		for seed := range traintest.Times(3, 1) {
			cfg := must(train.NewConfig("ppo"))(t)
			for name, value := range map[string]string{
				"env": id, "seed": strconv.Itoa(seed + 1), "num_envs": "8", "num_threads": "1", "n_steps": "64", "batch_size": "64", "n_epochs": "10",
				"gamma": "0.5", "learning_rate": "0.001", "learning_rate_final": "0", "log_std_init": "-1",
			} {
				check(t, cfg.Set(name, value))
			}
			tr := must(train.New(cfg, nil))(t)
			defer tr.Close()
			check(t, tr.Begin(60_000, 0))
			check(t, tr.Run(0, 0))
			p := must(tr.Policy())(t)
			got := must(p.Evaluate(id, nil, policy.EvalOptions{Episodes: 100, Seed: 1}))(t)
			t.Logf("%s, seed %d: %.2f of %d", id, seed+1, got.MeanReturn, envtest.MatchSteps)
			if got.MeanReturn < 0.95*envtest.MatchSteps {
				t.Errorf("%s, seed %d: mean return %.2f, must be at least %.1f", id, seed+1, got.MeanReturn, 0.95*envtest.MatchSteps)
			}
		}
	}
}
