package ppo

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

// recorder records the learning rate, in thousandths, and the clip range of every minibatch.
type recorder struct {
	nn.Stepper
	list *[]string
}

func (r recorder) Update(p *nn.Params, b nn.Batch, rate float64, report *nn.Report) error {
	*r.list = append(*r.list, fmt.Sprintf("%.4g %.4g", 1000*rate, b.Columns[columnClip][0]))
	return r.Stepper.Update(p, b, rate, report)
}

// Learning rate and clip range of an update at step t are those of the remaining progress 1 -
// t/end, where end is that of the latest Begin. In a run of one rollout both are 0, as in
// Stable-Baselines3, and both are reported.
func TestRatesFollowTheRemainingProgress(t *testing.T) {
	c := *Settings.Defaults().Struct().(*Config)
	c.NetArchPi, c.NetArchVf, c.NSteps, c.BatchSize, c.NEpochs, c.NumEnvs = []int{8}, []int{8}, 8, 16, 1, 4
	cfg := configOf(t, c)
	check(t, cfg.Set("learning_rate", "0.01"))
	check(t, cfg.Set("learning_rate_final", "0"))
	check(t, cfg.Set("clip_range_schedule", "0:0.2,1:0"))
	tr := must(train.New(cfg, traintest.MakeWalk(1)))(t)
	defer tr.Close()
	var got, want []string
	p := tr.Method().(*PPO)
	p.Stepper = recorder{p.Stepper, &got}
	steps := int64(0)
	for _, run := range []struct {
		length int64
		flags  train.Flags
	}{{128, 0}, {96, 0}, {96, 0}, {64, train.ResetTimesteps}, {32, 0}} {
		if run.flags != 0 {
			steps = 0
		}
		if said, err := tr.Notice(); err != nil || said != "" {
			t.Errorf("%q, %v", said, err)
		}
		check(t, tr.Begin(run.length, run.flags))
		check(t, tr.Run(0, 0))
		for end := steps + run.length; steps < end; {
			steps += 32
			left := 1 - float64(steps)/float64(end)
			minibatch := fmt.Sprintf("%.4g %.4g", 10*left, float32(0.2*left))
			want = append(want, minibatch, minibatch)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for _, name := range []string{"learning_rate", "clip_range"} {
		want := name + ": 0 from the first update of this run (step 96) to its last, so the run learns next to nothing; " +
			"schedules end where the run ends, at num_timesteps + total_timesteps"
		if said, err := tr.Notice(); err != nil || said != want {
			t.Errorf("%q, %v, want %q", said, err, want)
		}
	}
}

// A checkpoint loads whether or not it has a schedule that the trainer has: clip_range_vf is
// optional. The schedules that both have are the checkpoint's, until the next run.
func TestCheckpointsLoadWithOtherSchedules(t *testing.T) {
	open := func(values ...string) *train.Trainer {
		c := *Settings.Defaults().Struct().(*Config)
		c.NetArchPi, c.NetArchVf, c.NSteps, c.BatchSize, c.NEpochs, c.NumEnvs = []int{8}, []int{8}, 8, 16, 1, 4
		cfg := configOf(t, c)
		for i := 0; i < len(values); i += 2 {
			check(t, cfg.Set(values[i], values[i+1]))
		}
		tr := must(train.New(cfg, traintest.MakeWalk(1)))(t)
		t.Cleanup(func() { tr.Close() })
		return tr
	}
	for _, c := range []struct {
		saved, loaded []string
		within        float64 // clip_range_vf after the load
	}{
		{nil, []string{"clip_range_vf", "0.5"}, 0.5},
		{[]string{"clip_range_vf", "0.5"}, nil, math.Inf(1)},
		{[]string{"clip_range_vf", "0.5"}, []string{"clip_range_vf", "0.25"}, 0.5},
	} {
		tr := open(append(c.saved, "clip_range", "0.3")...)
		check(t, tr.Begin(64, 0))
		check(t, tr.Run(0, 0))
		path := filepath.Join(t.TempDir(), "run")
		check(t, tr.Save(path, true))
		next := open(c.loaded...)
		check(t, next.Load(path))
		p := next.Method().(*PPO)
		if clip, within := p.at("clip_range"), p.at("clip_range_vf"); clip != 0.3 || within != c.within {
			t.Errorf("%v to %v: clip_range %g, clip_range_vf %g, want 0.3 and %g", c.saved, c.loaded, clip, within, c.within)
		}
		check(t, next.Begin(64, 0))
		check(t, next.Run(0, 0))
	}
}
