//go:build gpu && cgo && linux

package dqn

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/cuda/cudatest"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

var mode = cudatest.Start()

func needGPU(t *testing.T) {
	if why, missing := strings.CutPrefix(mode, "missing: "); missing {
		t.Skip("left out: " + why)
	}
}

func onGPU(replay string) func(*Config) {
	return func(c *Config) { c.Device, c.ReplayDevice = "cuda", replay }
}

func TestTrainSuiteOnGPU(t *testing.T) {
	needGPU(t)
	for name, edit := range map[string]map[string]string{
		"both":              {"replay_device": "cuda"},
		"replay on the CPU": {"replay_device": "cpu"},
		"standard":          {"concurrent": "false", "synchronized": "false", "replay_device": "cuda"},
	} {
		edit["device"] = "cuda"
		t.Run(name, func(t *testing.T) { traintest.Run(t, subject(edit)) })
	}
}

// Where minibatches are gathered, how many are done at a time and who looks change no bit.
func TestReplayOnGPU(t *testing.T) {
	needGPU(t)
	for _, envs := range []int{1, 4} {
		for name, c := range map[string]Config{
			"vectors": cartpole(), "double": cartpole(func(c *Config) { c.DoubleQ = true }),
			"stacks": cartpole(func(c *Config) {
				c.Env, c.Policy, c.NetArch, c.LearningStarts, c.BatchSize = "Catch-v0", "MlpPolicy", []int{2}, 60, 2
			}),
			"not concurrent": cartpole(func(c *Config) { c.Concurrent, c.Actor, c.Tau, c.TargetUpdateInterval = false, ActorOnline, .5, 10 }),
		} {
			c.NumEnvs = envs
			var want Hashes
			for k, run := range []struct {
				replay string
				slice  int64
			}{{"cuda", 0}, {"cuda", 0}, {"cpu", 0}, {"cuda", 28}} {
				cfg := c
				onGPU(run.replay)(&cfg)
				d := newDQN(t, cfg)
				if (d.m.updates.stacks != nil) != (run.replay == "cuda") {
					t.Fatalf("replay_device %s: the frames are on the GPU: %v", run.replay, d.m.updates.stacks != nil)
				}
				total := int64(420)
				if name == "stacks" { // of 84x84, which take a while on the software device
					total = 140
				}
				check(t, d.Begin(total, train.ResetTimesteps|train.ResetEnvs))
				for d.Stats().Steps < total {
					check(t, d.Run(run.slice, 0))
				}
				check(t, d.Settle())
				h := must(d.Hashes())(t)
				if k == 0 {
					want = h
				} else if h != want {
					t.Errorf("%s, %d environments, %+v: %v, must be %v", name, envs, run, h, want)
				}
			}
		}
	}
}

// A GPU that is lost in the middle ends training with a sentence. What was copied from it at the
// latest boundary of a window can be read and saved, and learning goes on from there. The
// software device is lost for a whole process: each way to lose it has one.
func TestLostGPU(t *testing.T) {
	needGPU(t)
	if mode != "software" {
		t.Skip("left out: the driver is not the software device, which can be lost")
	}
	if function := os.Getenv("PACELINE_TEST_LOSE"); function != "" {
		loseGPU(t, function)
		return
	}
	for _, function := range []string{"cuGraphLaunch", "cuMemcpyHtoDAsync_v2", "cuStreamSynchronize", "cuMemcpyDtoHAsync_v2"} {
		c := cudatest.Command(must(os.Executable())(t), "-test.run=TestLostGPU$", "-test.v")
		c.Env = append(os.Environ(), "PACELINE_TEST_LOSE="+function)
		if out, err := c.CombinedOutput(); err != nil || strings.Contains(string(out), "SKIP") {
			t.Errorf("%s: %v\n%s", function, err, out)
		}
	}
}

func loseGPU(t *testing.T, function string) {
	cfg := cartpole(onGPU("cuda"), func(c *Config) { c.Actor = ActorTarget })
	d := must(newTrial(cfg, nil))(t)
	check(t, d.Begin(4000, train.ResetTimesteps|train.ResetEnvs))
	check(t, d.Run(300, 0)) // 100 of warm-up and six windows of 32, in the seventh
	path := filepath.Join(t.TempDir(), "run.zip")
	check(t, os.Setenv("PACELINE_SOFTWARE_FAIL", function+":0:700")) // the C library's, too
	err := d.Run(100, 0)
	if function == "cuMemcpyDtoHAsync_v2" {
		err = d.Save(path, true) // it may be found to be lost there
		if err == nil {
			err = d.Run(100, 0)
		}
	}
	if !errors.Is(err, nn.ErrLost) || !strings.Contains(err.Error(), "is lost, and what lay in its memory") {
		t.Fatalf("error %v", err)
	}
	check(t, d.Save(path, true))
	saved := make([]float32, d.ParameterSets()[0].Size)
	updates := must(d.GetParameters("q_net", saved))(t)
	s := d.Stats()
	if err := d.Run(100, 0); !errors.Is(err, nn.ErrLost) {
		t.Errorf("going on: error %v", err)
	}
	check(t, d.Close())
	// The same run without the loss, up to where the copy was made.
	cfg.Device, cfg.ReplayDevice = "cpu", replayAuto
	same := newDQN(t, cfg)
	check(t, same.Begin(4000, train.ResetTimesteps|train.ResetEnvs))
	check(t, same.Run(s.Steps, 0))
	want := make([]float32, len(saved))
	if n := must(same.GetParameters("q_net", want))(t); n != updates || s.Steps < 132 || (s.Steps-100)%32 != 0 {
		t.Errorf("%d updates at step %d, must be %d", updates, s.Steps, n)
	}
	for k, v := range want {
		if math.Abs(float64(v-saved[k])) > 1e-4 {
			t.Fatalf("parameter %d is %v, must be %v", k, saved[k], v)
		}
	}
	cfg = must(loadConfig(path))(t)
	cfg.Device = "cpu"
	on := newDQN(t, cfg)
	check(t, on.Load(path))
	if said := must(on.Notice())(t); !strings.Contains(said, "is lost") {
		t.Errorf("the file does not say so: %q", said)
	}
	if have := on.Stats(); have.Steps != s.Steps || have.ReplaySize != 0 {
		t.Errorf("%+v after the load, must be at step %d without experience", have, s.Steps)
	}
	check(t, on.Begin(600, train.ResetEnvs))
	check(t, on.Run(0, 0))
	if n := must(on.GetParameters("q_net", want))(t); n <= updates {
		t.Errorf("%d updates after going on, were %d", n, updates)
	}
}
