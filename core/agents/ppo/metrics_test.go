package ppo

import (
	"math"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

// metric returns the value of a metric, and whether there is one.
func metric(tr *train.Trainer, name string) (float64, bool) {
	for i := 0; ; i++ {
		if m, ok := tr.Metric(i); !ok || m.Name == name {
			return m.Value, ok
		}
	}
}

// partsRecorder records the parts of the loss of every minibatch.
type partsRecorder struct {
	nn.Stepper
	list [][]float64
}

func (r *partsRecorder) Update(p *nn.Params, b nn.Batch, rate float64, report *nn.Report) error {
	err := r.Stepper.Update(p, b, rate, report)
	r.list = append(r.list, append([]float64(nil), report.Parts...))
	return err
}

func (r *partsRecorder) Learn(p *nn.Params, b nn.Batch, report *nn.Report) error {
	err := r.Stepper.Learn(p, b, report)
	r.list = append(r.list, append([]float64(nil), report.Parts...))
	return err
}

// The metrics are means over an update's minibatches, and approx_kl over those of its last epoch,
// which target_kl may have ended, as in Stable-Baselines3.
func TestMetricsAreMeansOfTheLatestUpdate(t *testing.T) {
	for _, c := range []struct {
		limit string
		check string
	}{{"", "minibatch"}, {"0.02", "minibatch"}, {"0.02", "epoch"}} {
		config := *Settings.Defaults().Struct().(*Config)
		config.NetArchPi, config.NetArchVf, config.NSteps, config.BatchSize, config.NEpochs, config.NumEnvs = []int{8}, []int{8}, 16, 16, 8, 4
		config.LearningRate, config.TargetKLCheck = 0.02, c.check
		cfg := configOf(t, config)
		check(t, cfg.Set("target_kl", c.limit))
		tr := must(train.New(cfg, traintest.MakeWalk(1)))(t)
		defer tr.Close()
		p := tr.Method().(*PPO)
		r := &partsRecorder{Stepper: p.Stepper}
		p.Stepper = r
		check(t, tr.Begin(128, 0))
		check(t, tr.Run(64, 0))
		check(t, tr.Settle(0))
		n := len(r.list)
		if ended := n < 4*8; ended != (c.limit != "") {
			t.Fatalf("target_kl %q: %d minibatches", c.limit, n)
		}
		mean := func(part int, rows [][]float64) (mean float64) {
			for _, parts := range rows {
				mean += parts[part] / float64(len(rows))
			}
			return mean
		}
		for name, want := range map[string]float64{
			"train/approx_kl": mean(partDivergence, r.list[(n-1)/4*4:]), "train/clip_fraction": mean(partOutside, r.list),
			"train/policy_gradient_loss": mean(partPolicy, r.list), "train/value_loss": mean(partValue, r.list),
		} {
			if got, _ := metric(tr, name); math.Abs(got-want) > 1e-9 {
				t.Errorf("target_kl %q at %s: %s is %g, must be %g", c.limit, c.check, name, got, want)
			}
		}
	}
}

// The standard deviation is a metric where actions have a box.
func TestStandardDeviationIsAMetric(t *testing.T) {
	for want, action := range map[float64]env.ActionSpec{math.Exp(0.5): {Low: []float32{-1, -1}, High: []float32{1, 2}}, 0: {N: 3}} {
		c := *Settings.Defaults().Struct().(*Config)
		c.NetArchPi, c.NetArchVf, c.LogStdInit = []int{8}, []int{8}, 0.5
		tr := must(train.New(configOf(t, c), func(i int) (env.Env, error) {
			e, err := traintest.MakeWalk(1)(i)
			e.(*traintest.Walk).Action = action
			return e, err
		}))(t)
		defer tr.Close()
		if got, ok := metric(tr, "train/std"); ok != (want > 0) || math.Abs(got-want) > 1e-6 {
			t.Errorf("%v: %g, %v, must be %g", action, got, ok, want)
		}
	}
}
