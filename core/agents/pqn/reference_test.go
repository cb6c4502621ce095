package pqn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/cpu"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

// newTwin is a naive implementation of Algorithm 1 with the choices of package doc. The map ends
// counts the ends at the first, at a middle and at the last step of a rollout.
func newTwin(t *testing.T, c Config, total int64, nextStep bool, ends map[string]int) *traintest.Twin {
	t.Helper()
	must(c.Resolve())(t)
	spec := must(c.network((&traintest.Walk{}).Spec()))(t)
	device := must(cpu.New(1, nil))(t)
	t.Cleanup(device.Close)
	w := &traintest.Twin{
		Steps: traintest.Steps{NextStep: nextStep, ResetInUpdate: !c.MidBatchReset},
		Gamma: c.Gamma, Lambda: c.QLambda, Horizon: c.NSteps,
		Theta: must(spec.InitialParams(rng.New(uint64(c.Seed), "weights", 0)))(t), Net: must(device.Network(spec, 1))(t),
		Value: func(q []float32) float64 { return float64(slices.Max(q)) },
		Choose: func(s *traintest.Step, q []float32, explore *rng.Stream, counted int64) {
			epsilon := c.ExplorationFinal
			if over := math.Round(c.ExplorationFraction * float64(total)); float64(counted) < over {
				epsilon = c.ExplorationInitial + (c.ExplorationFinal-c.ExplorationInitial)*float64(counted)/over
			}
			if explore.Float64() < epsilon {
				s.Action = int32(explore.Intn(len(q)))
			} else {
				s.Action = int32(slices.Index(q, slices.Max(q)))
			}
		},
	}
	optimizer := must(device.Optimizer(nn.OptimizerConfig{Name: "radam", Eps: c.RAdamEps}, w.Theta.Layout.Size))(t)
	epochs := 0
	w.Update = func(rows []*traintest.Step) {
		for k, s := range rows {
			if s == nil {
				continue
			}
			place := "middle"
			if k < c.NumEnvs {
				place = "first"
			} else if k >= len(rows)-c.NumEnvs {
				place = "last"
			}
			ends[fmt.Sprint(s.End, place)]++
		}
		rate := c.LearningRate
		if final := c.LearningRateFinal; !math.IsNaN(final) {
			rate += (final - rate) * min(1, float64(w.Count)/float64(total))
		}
		for range c.NEpochs {
			epochs++
			for part := range traintest.Minibatches(rows, c.BatchSize, c.Seed, epochs) {
				b := nn.Batch{Columns: make([][]float32, 2)}
				for _, s := range part {
					b.Obs, b.Actions = append(b.Obs, s.Obs...), append(b.Actions, s.Action)
					b.Columns[0], b.Columns[1] = append(b.Columns[0], float32(s.Return)), append(b.Columns[1], 1)
				}
				learner := must(device.Learner(spec, len(part), nn.TD{Kind: "squared", Reduction: "mean", Weighted: true, Scale: c.LossCoef}))(t)
				grad := make([]float32, w.Theta.Layout.Size)
				check(t, learner.Gradient(w.Theta, b, grad, &nn.Report{}))
				factor := float32(1)
				if c.MaxGradNorm > 0 {
					_, factor = device.ClipGradNorm(grad, c.MaxGradNorm)
				}
				check(t, optimizer.Apply(w.Theta, grad, factor, rate))
				w.Updates++
			}
		}
	}
	w.Begin(t, c.Seed, c.NumEnvs, false)
	return w
}

// Every mode is Algorithm 1, wherever a run is cut into pieces, read, stopped or saved.
func TestEveryModeIsAlgorithm1(t *testing.T) {
	ends := map[string]int{}
	for k := range 60 {
		r := rand.New(rand.NewPCG(1, uint64(k)))
		c := *Settings.Defaults().Struct().(*Config)
		c.NetArch, c.Seed, c.NumEnvs, c.NSteps = []int{8}, r.IntN(1000), 1+r.IntN(5), 1+r.IntN(7)
		c.BatchSize, c.NEpochs = 1+r.IntN(20), 1+r.IntN(3)
		c.LayerNorm, c.Init = []string{"channels", "all", "none"}[r.IntN(3)], []string{"he_normal", "orthogonal", "uniform"}[r.IntN(3)]
		c.QLambda, c.Gamma = []float64{0, .65, 1}[r.IntN(3)], []float64{.9, 1}[r.IntN(2)]
		c.LossCoef, c.LearningRate, c.MaxGradNorm = []float64{.5, 1}[r.IntN(2)], 1e-3, []float64{0, .1, 10}[r.IntN(3)]
		c.ExplorationFraction, c.ExplorationFinal = .5, .05
		if r.IntN(2) == 0 {
			c.LearningRateFinal = 0
		}
		total, driver := int64(50+r.IntN(150)), []string{"built in", "same step", "next step"}[k%3]
		if driver == "built in" {
			c.MidBatchReset = r.IntN(2) == 0
		}
		name := fmt.Sprintf("%d %s W=%d n_steps=%d batch_size=%d lambda=%g mid_batch_reset=%v %s", k, driver, c.NumEnvs, c.NSteps, c.BatchSize, c.QLambda, c.MidBatchReset, c.LayerNorm)
		t.Run(name, func(t *testing.T) {
			w := newTwin(t, c, total, driver == "next step", ends)
			w.Run(t, r, configOf(t, c), total, driver == "built in")
		})
	}
	for _, end := range []env.End{env.Terminated, env.Truncated} {
		for _, place := range []string{"first", "middle", "last"} {
			if ends[fmt.Sprint(end, place)] == 0 {
				t.Errorf("no episode ended with %v at a %s step: %v", end, place, ends)
			}
		}
	}
}
