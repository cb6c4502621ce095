package dqn

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/offpolicy"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

func counters(edit func(c *counter)) func(i int) (env.Env, error) {
	return func(i int) (env.Env, error) {
		c := newCounter(i)
		edit(c)
		return c, nil
	}
}

// Each flag of Begin begins some things anew and leaves others.
func TestBeginFlagsSelectWhatRestarts(t *testing.T) {
	for _, flags := range []train.Flags{0, train.ResetTimesteps, train.ResetEnvs, train.ResetTimesteps | train.ResetEnvs} {
		d := must(newTrial(cartpole(func(c *Config) { c.NumEnvs, c.LearningRateFinal = 2, 0 }), counters(func(c *counter) { c.lengths = []int{1000} })))(t)
		check(t, d.Begin(300, 0))
		check(t, d.Run(0, 0))
		was := d.Stats()
		check(t, d.Begin(600, flags))
		end := d.Stats().Total
		if want := (offpolicy.Schedule{Epsilon: d.m.cfg.epsilon(end), Rate: d.m.cfg.rate(end)}); fmt.Sprint(d.m.Schedule) != fmt.Sprint(want) {
			t.Errorf("flags %d: schedule %+v, want %+v", flags, d.m.Schedule, want)
		}
		check(t, d.Run(50, 0))
		check(t, d.Settle())
		now := d.Stats()
		if flags&train.ResetTimesteps != 0 {
			// A new warm-up, without updates.
			if now.Steps != 50 || now.Total != 600 || now.Epsilon != 1 || now.Updates != was.Updates {
				t.Errorf("flags %d: %+v", flags, now)
			}
		} else if now.Steps != 350 || now.Total != 900 || now.Updates != 250/2 {
			t.Errorf("flags %d: %+v", flags, now)
		}
		check(t, d.Run(0, 0))
		if now = d.Stats(); now.Updates != now.UpdatesDue || now.Steps != now.Total || now.Updates <= was.Updates {
			t.Errorf("flags %d: %+v", flags, now)
		}
		d.m.Memory.Flush()
		episodes := map[float32]int{}
		for _, tu := range contents(d.m.Memory) {
			if tu.obs[0] == 1 {
				episodes[tu.obs[1]]++
			}
			// The return of the episode that was cut includes the value of its last observation.
			if tu.terminated || tu.next != [3]float32{tu.obs[0], tu.obs[1], tu.obs[2] + 1} {
				t.Fatalf("flags %d: %+v", flags, tu)
			}
		}
		want := map[float32]int{0: 450}
		if flags&train.ResetEnvs != 0 {
			want = map[float32]int{0: 150, 1: 300}
		}
		if fmt.Sprint(episodes) != fmt.Sprint(want) {
			t.Errorf("flags %d: transitions by episode %v, want %v", flags, episodes, want)
		}
		check(t, d.Close())
	}
}

// With constant schedules two successive runs give the result of one.
func TestTwoRunsEqualOne(t *testing.T) {
	for name, edit := range fourModes {
		c := cartpole(edit, func(c *Config) { c.NumEnvs, c.TrainFreq, c.GradientSteps = 3, 2, 1 })
		want := learn(t, c, 1500, offpolicy.Concurrently)
		d := newDQN(t, c)
		check(t, d.Begin(700, 0))
		check(t, d.Run(0, 0))
		check(t, d.Begin(1500-d.Stats().Steps, 0))
		check(t, d.Run(0, 0))
		if got := hashesOf(t, d); got != want {
			t.Errorf("%s: %+v, in one run %+v", name, got, want)
		}
	}
}

// Cutting episodes again and again uses room in the rings that no step counts.
func TestManyBeginsFitTheRings(t *testing.T) {
	d := must(newTrial(filmConfig(func(c *Config) { c.LearningStarts, c.BatchSize = 20, 4; c.BufferSize = 40; c.Window = 6 }),
		makeFilm(func(i int, f *film) { f.declared = 3 })))(t)
	defer d.Close()
	for k := range 300 {
		check(t, d.Begin(100, train.ResetEnvs))
		check(t, d.Run(int64(1+k%4), 0))
	}
	check(t, d.Settle())
	if s := d.Stats(); s.Updates != s.UpdatesDue || s.Updates == 0 {
		t.Errorf("%+v", s)
	}
}

// After a load without experience no update draws from an empty memory. This also holds if Stop has
// left updates undone and a window is longer than the warm-up.
func TestLoadWithoutReplayAfterAStop(t *testing.T) {
	for name, edit := range fourModes {
		c := slowWindows(edit, func(c *Config) { c.GradientSteps = 1 })
		d := newDQN(t, c)
		o := slow(d, pause/20)
		check(t, d.Begin(2000, 0))
		check(t, d.Run(500, 0))
		d.Stop()
		check(t, d.Run(0, 0))
		path := filepath.Join(t.TempDir(), "a")
		check(t, d.Save(path, false))
		o.pause.Store(0)
		s := d.Stats()
		next := newDQN(t, c)
		check(t, next.Load(path))
		check(t, next.Run(0, 0))
		if now := next.Stats(); now.Updates <= s.Updates || now.Updates != now.UpdatesDue || now.ReplaySize < 100 {
			t.Errorf("%s: %+v, saved %+v", name, now, s)
		}
	}
}

// After a load with other periods everything goes on from the same counts.
func TestALoadUnderOtherPeriodsKeepsTheCounts(t *testing.T) {
	for name, edit := range fourModes {
		c := cartpole(edit, func(c *Config) { c.TrainFreq, c.GradientSteps = 2, 1 })
		d := newDQN(t, c)
		check(t, d.Begin(5000, 0))
		check(t, d.Run(2500, 0))
		path := filepath.Join(t.TempDir(), "a")
		check(t, d.Save(path, true))
		was := d.Stats()
		if was.Updates != 1200 {
			t.Fatalf("%s: %+v", name, was)
		}
		for _, other := range []func(c *Config){
			func(c *Config) { c.TrainFreq, c.TargetUpdateInterval, c.Window = 20, 500, 100 },
			func(c *Config) { c.TrainFreq, c.GradientSteps, c.TargetUpdateInterval, c.Window = 1, 2, 8, 8 },
		} {
			c := must(loadConfig(path))(t)
			other(&c)
			next := newDQN(t, c)
			check(t, next.Load(path))
			if s := next.Stats(); s.Updates != was.Updates || s.UpdatesDue != was.UpdatesDue {
				t.Errorf("%s: after load %+v, saved %+v", name, s, was)
			}
			target := hashesOf(t, next).Target
			copies := 0
			for next.Stats().Steps < 4500 {
				check(t, next.Run(4, 0))
				if now := hashesOf(t, next).Target; now != target {
					target = now
					copies++
				}
			}
			now := next.Stats()
			if want := was.Updates + 2000*int64(c.GradientSteps)/int64(c.TrainFreq); now.Updates != want || now.UpdatesDue != want {
				t.Errorf("%s: %d updates, want %d; %+v", name, now.Updates, want, now)
			}
			if want := 2000 / c.TargetUpdateInterval; copies < want-1 || copies > want+1 {
				t.Errorf("%s: theta-minus changed %d times in 2000 steps, C = %d", name, copies, c.TargetUpdateInterval)
			}
		}
	}
}

// The means of losses and episodes are correct.
func TestStatsAreCorrectAfterALoad(t *testing.T) {
	d := trained(t)
	path := filepath.Join(t.TempDir(), "a")
	check(t, d.Save(path, true))
	next := newDQN(t, cartpole())
	check(t, next.Begin(1000, 0))
	check(t, next.Run(0, 0)) // it has its own losses
	check(t, next.Load(path))
	if s := next.Stats(); !math.IsNaN(s.Loss) || s.Updates == 0 {
		t.Errorf("loss %v of %d updates that another process did", s.Loss, s.Updates)
	}
	check(t, next.Run(8, 0))
	check(t, next.Settle())
	if s := next.Stats(); !(s.Loss > 0) {
		t.Errorf("loss %v", s.Loss)
	}
}

// The latest episodes do not depend on the length of calls.
func TestEpisodesAreInOrder(t *testing.T) {
	var want []train.Episode
	for _, threads := range []int{1, 3} {
		for _, piece := range []int64{1, 3, 40} {
			d := must(newTrial(cartpole(func(c *Config) {
				c.Synchronized, c.NumEnvs, c.NumThreads, c.Window, c.TargetUpdateInterval = false, 5, threads, 700, 700
			}), traintest.MakeWalk(4)))(t)
			check(t, d.Begin(1500, 0))
			for d.Stats().Steps < 1500 {
				check(t, d.Run(min(piece, 1500-d.Stats().Steps), 0))
			}
			got := d.Episodes()
			if want == nil {
				want = got
			}
			if !slices.Equal(got, want) {
				t.Errorf("%d threads, pieces of %d steps: %v, want %v", threads, piece, got, want)
			}
			check(t, d.Close())
		}
	}
}

// A Config that was not filled in by Set is checked, too.
func TestFieldsOutOfRangeAreRefused(t *testing.T) {
	for want, edit := range map[string]func(*Config){
		"train_freq: 0, must be 1 to":                func(c *Config) { c.TrainFreq = 0 },
		"batch_size: -3, must be 1 to 65536":         func(c *Config) { c.BatchSize = -3 },
		"num_envs: 0, must be 1 to":                  func(c *Config) { c.NumEnvs = 0 },
		"tau: 0, must be 1e-06 to 1":                 func(c *Config) { c.Tau = 0 },
		"gamma: \"NaN\", must be a finite number":    func(c *Config) { c.Gamma = math.NaN() },
		"target_update_interval: 0, must be 1 to":    func(c *Config) { c.TargetUpdateInterval = 0 },
		"autoreset: \"\", must be same_step":         func(c *Config) { c.Autoreset = "" },
		"net_arch: \"8,0\", must be widths of 1 to":  func(c *Config) { c.NetArch = []int{8, 0} },
		"exploration_final_eps: 1.5, must be 0 to 1": func(c *Config) { c.ExplorationFinal = 1.5 },
		"optimizer: \"sgd\", must be adam, adagrad":  func(c *Config) { c.Optimizer = "sgd" },
		"frame_stack: 3, must be 0 or divide":        func(c *Config) { c.FrameStack = 3 },
		"obs.dtype: float32, must be uint8":          func(c *Config) { c.Policy = train.PolicyCNN },
	} {
		c := cartpole(edit)
		if d, err := newTrial(c, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New: %v, want %q", err, want)
			if err == nil {
				d.Close()
			}
		}
	}
	d := newDQN(t, cartpole())
	for want, err := range map[string]error{
		"total_timesteps: 0, must be 1 to":     d.Begin(0, 0),
		"total_timesteps: 9223372036854775807": d.Begin(math.MaxInt64, 0),
		"max_steps: -1, must be at least 0":    d.Run(-1, 0),
		"max_steps: 0, must be at least 1":     d.Run(0, 0),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	check(t, d.Begin(200, 0))
	check(t, d.Run(200, 0))
	check(t, d.Run(math.MaxInt64, 1)) // more steps than can be counted, for a nanosecond
}

// A dead layer is reported once.
func TestDeadUnitsAreReported(t *testing.T) {
	d := newDQN(t, cartpole(func(c *Config) { c.NetArch, c.Window, c.TargetUpdateInterval = []int{8, 6}, 500, 500 }))
	check(t, d.Begin(20_500, 0))
	theta := make([]float32, d.m.Theta.Layout.Size)
	must(d.GetParameters("q_net", theta))(t)
	for _, p := range d.m.Theta.Layout.Params {
		if p.Name == "q_net.2.bias" {
			for i := range p.Size {
				theta[p.Offset+i] = -1e6
			}
		}
	}
	check(t, d.SetParameters("q_net", theta))
	shares := func() (list []float64) {
		for i := 0; ; i++ {
			m, ok := d.Metric(i)
			if !ok {
				return list
			}
			if strings.HasPrefix(m.Name, "train/dead_units/q_net.") {
				list = append(list, m.Value)
			}
		}
	}
	check(t, d.Run(9_000, 0))
	if s := shares(); len(s) != 2 || !math.IsNaN(s[0]) || !math.IsNaN(s[1]) {
		t.Errorf("%v before 10,000 steps", s)
	}
	check(t, d.Run(0, 0))
	if s := shares(); len(s) != 2 || !(s[0] < 1) || s[1] != 1 {
		t.Errorf("dead: %v, want less than 1 and 1", s)
	}
	for _, want := range []string{"dead units: every unit of q_net.2 is 0", "outputs: the same for every observation", ""} {
		if said, err := d.Notice(); err != nil || !strings.HasPrefix(said, want) || want == "" && said != "" {
			t.Errorf("%q, %v, want %q", said, err, want)
		}
	}
}
