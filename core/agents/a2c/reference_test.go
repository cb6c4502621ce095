package a2c

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/cpu"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

// newTwin is a naive implementation of Algorithm S3 with the choices of package doc.
func newTwin(t *testing.T, c Config, total int64, nextStep, masked bool) *traintest.Twin {
	t.Helper()
	must(c.Resolve())(t)
	walk := &traintest.Walk{Masked: masked}
	spec := must(c.Network(&c.Common, walk.Spec()))(t)
	device := must(cpu.New(1, nil))(t)
	t.Cleanup(device.Close)
	learner := must(device.Learner(spec, c.NSteps*c.NumEnvs, nn.ActorCritic{EntropyCoef: c.EntCoef, ValueCoef: c.VfCoef}))(t)
	w := &traintest.Twin{
		Steps: traintest.Steps{NextStep: nextStep, ResetInUpdate: !c.MidBatchReset},
		Gamma: c.Gamma, Lambda: c.GAELambda, Horizon: c.NSteps,
		Theta: must(spec.InitialParams(rng.New(uint64(c.Seed), "weights", 0)))(t), Net: must(device.Network(spec, 1))(t),
	}
	optimizer := must(device.Optimizer(c.Optimizer(), w.Theta.Layout.Size))(t)
	w.Update = func(rows []*traintest.Step) {
		var b nn.Batch
		var advantages, returns, weights []float32
		var kept []int
		for k, m := range rows {
			if m == nil {
				b.Obs, b.Actions = append(b.Obs, make([]byte, 8)...), append(b.Actions, 0)
				advantages, returns, weights = append(advantages, 0), append(returns, 0), append(weights, 0)
				if masked {
					b.Masks = append(b.Masks, 0, 0, 0)
				}
				continue
			}
			kept = append(kept, k)
			b.Obs, b.Actions, b.Masks = append(b.Obs, m.Obs...), append(b.Actions, m.Action), append(b.Masks, m.Mask...)
			advantages, returns, weights = append(advantages, float32(m.Advantage)), append(returns, float32(m.Return)), append(weights, 1)
		}
		if c.NormalizeAdvantage && len(kept) > 1 {
			mean, variance := 0.0, 0.0
			for _, k := range kept {
				mean += float64(advantages[k]) / float64(len(kept))
			}
			for _, k := range kept {
				variance += math.Pow(float64(advantages[k])-mean, 2) / float64(len(kept)-1)
			}
			for _, k := range kept {
				advantages[k] = float32((float64(advantages[k]) - mean) / (math.Sqrt(variance) + 1e-8))
			}
		}
		b.Columns = [][]float32{advantages, returns, weights}
		grad := make([]float32, w.Theta.Layout.Size)
		check(t, learner.Gradient(w.Theta, b, grad, &nn.Report{}))
		factor := float32(1)
		if c.MaxGradNorm > 0 {
			_, factor = device.ClipGradNorm(grad, c.MaxGradNorm)
		}
		rate := c.LearningRate
		if final := c.LearningRateFinal; !math.IsNaN(final) {
			rate += (final - rate) * min(1, float64(w.Count)/float64(total))
		}
		check(t, optimizer.Apply(w.Theta, grad, factor, rate))
		w.Updates++
	}
	w.Begin(t, c.Seed, c.NumEnvs, masked)
	return w
}

func randomConfig(r *rand.Rand) Config {
	c := *Settings.Defaults().Struct().(*Config)
	c.NetArchPi, c.NetArchVf, c.Seed = []int{8}, []int{4, 5}, r.IntN(1000)
	c.NumEnvs, c.NumThreads, c.NSteps = 1+r.IntN(5), 1+r.IntN(3), 1+r.IntN(7)
	c.ActivationFn = []string{"tanh", "relu"}[r.IntN(2)]
	if r.IntN(3) == 0 {
		c.Trunk, c.NetArchVf = "shared", c.NetArchPi
	}
	c.OrthoInit, c.NormalizeAdvantage = r.IntN(3) > 0, r.IntN(2) == 0 && c.NSteps*c.NumEnvs > 1
	c.LearningRate = 1e-2
	if r.IntN(2) == 0 {
		c.LearningRateFinal = 1e-3
	}
	c.Gamma, c.GAELambda = []float64{.9, .99, 1}[r.IntN(3)], []float64{1, 1, .95, 0}[r.IntN(4)]
	c.EntCoef, c.MaxGradNorm = []float64{0, .01, .1}[r.IntN(3)], []float64{0, .1, .5}[r.IntN(3)]
	c.UseRMSProp = r.IntN(3) > 0
	c.RMSPropEpsInside, c.RMSPropFirst = r.IntN(2) == 0, r.IntN(2)
	return c
}

// Every mode is Algorithm S3, with built-in and pushed environments, and wherever a run is cut into
// pieces, read, stopped or saved.
func TestEveryModeIsAlgorithmS3(t *testing.T) {
	for k := range traintest.Times(150, 45) {
		r := rand.New(rand.NewPCG(1, uint64(k)))
		c, total := randomConfig(r), int64(50+r.IntN(200))
		driver, masked := []string{"built in", "same step", "next step"}[k%3], k%5 == 0
		c.MidBatchReset = driver != "built in" || r.IntN(2) == 0
		name := fmt.Sprintf("%d %s W=%d n_steps=%d lambda=%g normalize=%v masked=%v mid_batch_reset=%v %s %s", k, driver, c.NumEnvs, c.NSteps, c.GAELambda, c.NormalizeAdvantage, masked, c.MidBatchReset, c.Trunk, c.ActivationFn)
		t.Run(name, func(t *testing.T) {
			w := newTwin(t, c, total, driver == "next step", masked)
			w.Run(t, r, configOf(t, c), total, driver == "built in")
		})
	}
}
