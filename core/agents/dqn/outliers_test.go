package dqn

import (
	"math"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/settings"
)

// listener tells the loss of every update, and whether it has changed theta.
type listener struct {
	nn.QStepper
	hear func(loss float64, moved bool)
}

func (l *listener) Update(theta, target *nn.Params, t *experience.Transitions, lr float64, r *nn.Report) error {
	before := slices.Clone(theta.Host())
	err := l.QStepper.Update(theta, target, t, lr, r)
	l.hear(r.Loss, !slices.Equal(before, theta.Host()))
	return err
}

// weighted is the mean and the deviation of losses whose latest has the weight 1/n, at least
// 1/1000.
func weighted(losses []float64) (mean, deviation float64) {
	weights, left := make([]float64, len(losses)), 1.0
	for i := len(losses) - 1; i >= 0; i-- {
		w := 1 / math.Min(float64(i+1), 1000)
		weights[i] = left * w
		left *= 1 - w
	}
	for i, x := range losses {
		mean += weights[i] * x
	}
	for i, x := range losses {
		deviation += weights[i] * (x - mean) * (x - mean)
	}
	return mean, math.Sqrt(deviation)
}

// A gradient is dropped if its loss is more than k deviations above the mean of the losses before
// it.
func TestOutliersAreDropped(t *testing.T) {
	const k = 1.5
	d := newDQN(t, cartpole(func(c *Config) {
		c.Outliers, c.Concurrent, c.NumEnvs, c.TrainFreq, c.Loss, c.Optimizer = k, settings.Off, 1, 1, "squared", "adagrad"
	}))
	var losses []float64
	dropped, unsure := 0, 0
	wrap(d, func(s nn.QStepper) nn.QStepper {
		return &listener{s, func(loss float64, moved bool) {
			mean, deviation := weighted(losses)
			limit := mean + k*deviation
			switch {
			case math.Abs(loss-limit) < 1e-9*limit:
				unsure++
			case moved != (len(losses) < 100 || loss <= limit):
				t.Errorf("update %d: loss %v, limit %v, moved %v", len(losses)+1, loss, limit, moved)
			}
			if !moved {
				dropped++
			}
			losses = append(losses, loss)
		}}
	})
	check(t, d.Begin(1500, 0))
	check(t, d.Run(0, 0))
	if dropped < 20 || dropped > 500 || unsure > 0 || len(losses) != 1400 {
		t.Errorf("%d of %d dropped, %d unsure", dropped, len(losses), unsure)
	}
	if got := metricOf(t, d.Trainer, "train/outliers"); got != dropped {
		t.Errorf("metric %d, dropped %d", got, dropped)
	}
	if got := int(d.m.Theta.Updates); got != len(losses)-dropped {
		t.Errorf("theta has %d updates, %d were applied", got, len(losses)-dropped)
	}
}

// Calls end while the trainer thread does updates. The metric counts the updates that are done.
func TestOutliersAreCountedConcurrently(t *testing.T) {
	c := cartpole(func(c *Config) { c.Outliers, c.TrainFreq, c.Loss = 0.5, 1, "squared" })
	d := newDQN(t, c)
	var done atomic.Int64
	wrap(d, func(s nn.QStepper) nn.QStepper {
		return &listener{s, func(_ float64, moved bool) {
			if !moved {
				time.Sleep(time.Millisecond) // the gradient is dropped, and the update goes on
				done.Add(1)
			}
		}}
	})
	check(t, d.Begin(1000, 0))
	for d.Stats().Steps < 1000 {
		check(t, d.Run(4, 0))
		if n := int64(metricOf(t, d.Trainer, "train/outliers")); n > done.Load() {
			t.Fatalf("%d gradients dropped by updates that are done, metric %d", done.Load(), n)
		}
	}
	check(t, d.Settle())
	dropped := metricOf(t, d.Trainer, "train/outliers")
	if got := int(d.Stats().Updates) - int(d.m.Theta.Updates); dropped < 20 || got != dropped {
		t.Errorf("metric %d, %d updates were not applied", dropped, got)
	}
	path := filepath.Join(t.TempDir(), "dqn")
	check(t, d.Save(path, true))
	next := newDQN(t, c)
	check(t, next.Load(path))
	if got := metricOf(t, next.Trainer, "train/outliers"); got != dropped {
		t.Errorf("metric %d after a load, %d before", got, dropped)
	}
}

func TestBadOutliersAreRefused(t *testing.T) {
	for _, c := range []struct {
		edit func(*Config)
		want string
	}{
		{func(c *Config) { c.Noisy.Noisy = true }, "noisy: true, must be false where outliers is 3: an update after a dropped gradient would have its noise"},
		{func(c *Config) { c.Learners, c.Rule = 2, "mean" }, "outliers: 3, must be 0 with rule mean, where a step has other gradients than that of a minibatch"},
	} {
		cfg := *Settings.Defaults().Struct().(*Config)
		cfg.NumEnvs, cfg.Outliers = 8, 3
		c.edit(&cfg)
		if _, err := cfg.Resolve(); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
