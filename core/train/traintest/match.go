package traintest

import (
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/paceline-rl/paceline/core/cpu"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/env/envtest"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/train"
)

// matches are registered tasks whose best policy scores envtest.MatchSteps.
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

// Matches trains a method on tasks of branches, of a box and of both for steps, with three seeds.
// Each policy must score 95 % of the optimum, which is 20. Uniformly random actions score 6.7 to
// 7.8. With -short it trains one seed on the task of both; with the kernels in Go, none.
func Matches(t *testing.T, method string, steps int64, settings map[string]string) {
	ids, seeds := slices.Sorted(maps.Keys(matches)), 3
	switch {
	case cpu.Chosen() == cpu.Go:
		t.Skip("left out, because the C kernels are not built")
	case testing.Short():
		ids, seeds = []string{"MatchHybrid-v0"}, 1
	}
	for _, id := range ids {
		for seed := 1; seed <= seeds; seed++ {
			c := Must(train.NewConfig(method))(t)
			for name, value := range With(settings, map[string]string{"env": id, "seed": strconv.Itoa(seed), "num_threads": "1"}) {
				check(t, c.Set(name, value))
			}
			tr := NewTrainer(t, c, nil)
			check(t, tr.Begin(steps, 0))
			check(t, tr.Run(0, 0))
			p := Must(tr.Policy())(t)
			got := Must(p.Evaluate(id, nil, policy.EvalOptions{Episodes: 100, Seed: 1}))(t).MeanReturn
			t.Logf("%s, seed %d: %.2f of %d", id, seed, got, envtest.MatchSteps)
			if least := 0.95 * envtest.MatchSteps; got < least {
				t.Errorf("%s, seed %d: mean return %.2f, must be at least %.1f", id, seed, got, least)
			}
		}
	}
}
