package ppo

import (
	"math"
	"testing"

	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

// With the parameters that acted, all ratios are 1, and V-trace's advantages and returns with
// lambda 1 are those of generalised advantage estimation: also with minibatches that do not divide
// the rollout, truncated episodes, and holes where environments wait for their reset.
func TestVTraceOfTheParametersThatActed(t *testing.T) {
	for _, late := range []bool{false, true} {
		for _, batch := range []int{28, 28 - 1, 6} {
			var advantages, returns [2][]float32
			for i, vtrace := range []bool{false, true} {
				c := *Settings.Defaults().Struct().(*Config)
				c.NumEnvs, c.NSteps, c.BatchSize, c.NEpochs, c.GAELambda, c.VTrace = 4, 7, batch, 1, 1, vtrace
				c.MidBatchReset, c.NetArchPi, c.NetArchVf = !late, []int{8}, []int{8}
				tr := must(train.New(configOf(t, c), traintest.MakeWalk(7)))(t)
				defer tr.Close()
				check(t, tr.Begin(1000, 0))
				p := tr.Method().(*PPO)
				for range 7 {
					check(t, p.Round())
				}
				explained, err := p.advantages()
				check(t, err)
				if !(explained <= 1) {
					t.Errorf("explained variance %v", explained)
				}
				b := p.Rollout.Batch()
				advantages[i], returns[i] = b.Advantages, b.Returns
			}
			for k := range advantages[0] {
				if math.Abs(float64(advantages[0][k]-advantages[1][k])) > 1e-4 || math.Abs(float64(returns[0][k]-returns[1][k])) > 1e-4 {
					t.Fatalf("late resets: %v, batch_size %d, row %d: advantage %v, return %v, must be %v, %v", late, batch, k, advantages[1][k], returns[1][k], advantages[0][k], returns[0][k])
				}
			}
		}
	}
}
