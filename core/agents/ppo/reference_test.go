package ppo

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/cpu"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

// newTwin is a naive implementation of Algorithm 1 with the choices of package doc. Minibatches are
// slices of a list, and each has a learner of its size.
func newTwin(t *testing.T, c Config, total int64, nextStep, masked bool) *traintest.Twin {
	t.Helper()
	must(c.Resolve())(t)
	walk := &traintest.Walk{Masked: masked}
	spec := must(c.Network(&c.Common, walk.Spec()))(t)
	device := must(cpu.New(1, nil))(t)
	t.Cleanup(device.Close)
	w := &traintest.Twin{
		Steps: traintest.Steps{NextStep: nextStep, ResetInUpdate: !c.MidBatchReset},
		Gamma: c.Gamma, Lambda: c.GAELambda, Horizon: c.NSteps,
		Theta: must(spec.InitialParams(rng.New(uint64(c.Seed), "weights", 0)))(t), Net: must(device.Network(spec, 1))(t),
	}
	optimizer := must(device.Optimizer(c.Optimizer(), w.Theta.Layout.Size))(t)
	along := func(from, to float64, curve train.Curve) float64 {
		share := min(1, float64(w.Count)/float64(total))
		switch {
		case curve != nil: // of two points
			return curve[0].Value + (curve[1].Value-curve[0].Value)*share
		case math.IsNaN(to):
			return from
		}
		return from + (to-from)*share
	}
	epochs := 0
	w.Update = func(rows []*traintest.Step) {
		for range c.NEpochs {
			epochs++
			divergence := 0.0
			for part := range traintest.Minibatches(rows, c.BatchSize, c.Seed, epochs) {
				n := len(part)
				b := nn.Batch{Columns: make([][]float32, 7)}
				mean, variance := 0.0, 0.0
				for _, m := range part {
					mean += float64(float32(m.Advantage)) / float64(n)
				}
				for _, m := range part {
					variance += math.Pow(float64(float32(m.Advantage))-mean, 2) / float64(n-1)
				}
				for _, m := range part {
					advantage := float32(m.Advantage)
					if c.NormalizeAdvantage && n > 1 {
						advantage = float32((float64(advantage) - mean) / (math.Sqrt(variance) + 1e-8))
					}
					valueRange := math.Inf(1)
					if !math.IsNaN(c.ClipRangeVf) {
						valueRange = along(c.ClipRangeVf, math.NaN(), c.ClipRangeVfCurve)
					}
					b.Obs, b.Actions, b.Masks = append(b.Obs, m.Obs...), append(b.Actions, m.Action), append(b.Masks, m.Mask...)
					for k, v := range []float32{advantage, float32(m.Return), 1, m.LogProb, float32(along(c.ClipRange, math.NaN(), c.ClipRangeCurve)), float32(m.Value), float32(valueRange)} {
						b.Columns[k] = append(b.Columns[k], v)
					}
				}
				learner := must(device.Learner(spec, n, nn.PPO{EntropyCoef: c.EntCoef, ValueCoef: c.VfCoef, Largest: c.ClipRangeVfLargest}))(t)
				grad, report := make([]float32, w.Theta.Layout.Size), nn.Report{}
				check(t, learner.Gradient(w.Theta, b, grad, &report))
				if divergence = report.Parts[3]; c.TargetKLCheck == "minibatch" && divergence > 1.5*c.TargetKL {
					return
				}
				factor := float32(1)
				if c.MaxGradNorm > 0 {
					_, factor = device.ClipGradNorm(grad, c.MaxGradNorm)
				}
				check(t, optimizer.Apply(w.Theta, grad, factor, along(c.LearningRate, c.LearningRateFinal, nil)))
				w.Updates++
			}
			if c.TargetKLCheck == "epoch" && divergence > c.TargetKL {
				return
			}
		}
	}
	w.Begin(t, c.Seed, c.NumEnvs, masked)
	return w
}

func randomConfig(r *rand.Rand) Config {
	c := *Settings.Defaults().Struct().(*Config)
	c.NetArchPi, c.NetArchVf, c.Seed = []int{8}, []int{4, 5}, r.IntN(1000)
	c.NumEnvs, c.NumThreads, c.NSteps = 1+r.IntN(5), 1+r.IntN(3), 2+r.IntN(7)
	c.BatchSize, c.NEpochs = 1+r.IntN(40), 1+r.IntN(4)
	c.ActivationFn = []string{"tanh", "relu"}[r.IntN(2)]
	if r.IntN(3) == 0 {
		c.Trunk, c.NetArchVf = "shared", c.NetArchPi
	}
	c.NormalizeAdvantage, c.LearningRate = r.IntN(2) == 0 && c.BatchSize > 1, 1e-2
	if r.IntN(2) == 0 {
		c.LearningRateFinal = 1e-3
	}
	c.ClipRange = []float64{.01, .2, .3}[r.IntN(3)]
	if r.IntN(2) == 0 {
		c.ClipRangeCurve = train.Curve{{Share: 0, Value: .3}, {Share: 1, Value: 0}}
	}
	if r.IntN(2) == 0 {
		c.ClipRangeVf, c.ClipRangeVfLargest = .1, r.IntN(2) == 0
	}
	if r.IntN(2) == 0 {
		c.TargetKL, c.TargetKLCheck = []float64{1e-4, 1e-3, 1e-2}[r.IntN(3)], []string{"minibatch", "epoch"}[r.IntN(2)]
	}
	c.Gamma, c.GAELambda = []float64{.9, .99, 1}[r.IntN(3)], []float64{1, .95, 0}[r.IntN(3)]
	c.EntCoef, c.MaxGradNorm = []float64{0, .01, .1}[r.IntN(3)], []float64{0, .1, .5}[r.IntN(3)]
	c.UseRMSProp = r.IntN(4) == 0
	return c
}

// Every mode is Algorithm 1, with built-in and pushed environments, and wherever a run is cut into
// pieces, read, stopped or saved.
func TestEveryModeIsAlgorithm1(t *testing.T) {
	for k := range traintest.Times(150, 45) {
		r := rand.New(rand.NewPCG(1, uint64(k)))
		c, total := randomConfig(r), int64(50+r.IntN(200))
		driver, masked := []string{"built in", "same step", "next step"}[k%3], k%5 == 0
		c.MidBatchReset = driver != "built in" || r.IntN(2) == 0
		name := fmt.Sprintf("%d %s W=%d n_steps=%d batch_size=%d n_epochs=%d normalize=%v masked=%v mid_batch_reset=%v target_kl=%g", k, driver, c.NumEnvs, c.NSteps, c.BatchSize, c.NEpochs, c.NormalizeAdvantage, masked, c.MidBatchReset, c.TargetKL)
		t.Run(name, func(t *testing.T) {
			w := newTwin(t, c, total, driver == "next step", masked)
			w.Run(t, r, configOf(t, c), total, driver == "built in")
		})
	}
}
