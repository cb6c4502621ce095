//go:build gpu && cgo && linux

package dqn

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/cuda/cudatest"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
	"github.com/paceline-rl/paceline/core/vec"
)

func init() { cudatest.Start() }

func onGPU(replay string) func(*Config) {
	return func(c *Config) { c.Device, c.ReplayDevice = "cuda", replay }
}

func TestTrainSuiteOnGPU(t *testing.T) {
	cudatest.Need(t)
	for name, edit := range map[string]map[string]string{
		"both":              {"replay_device": "cuda"},
		"replay on the CPU": {"replay_device": "cpu"},
		"standard":          {"concurrent": "false", "synchronized": "false", "replay_device": "cuda"},
	} {
		edit["device"] = "cuda"
		t.Run(name, func(t *testing.T) { traintest.Run(t, subject(edit)) })
	}
}

func TestPrioritisedOnGPU(t *testing.T) {
	cudatest.Need(t)
	for _, update := range []string{ByUpdate, ByWindow} {
		traintest.OnGPU(t, subject(map[string]string{"prioritized": "dqn_zoo", "priority_update": update, "n_steps": "2", "learning_rate": "0.003"}))
	}
}

// The place where minibatches are gathered, the number of minibatches drawn at a time and reads
// change no bit. Every run goes on with a second Begin inside a window.
func TestReplayOnGPUChangesNoBit(t *testing.T) {
	cudatest.Need(t)
	for _, envs := range []int{1, 4} {
		for name, c := range map[string]Config{
			"vectors": cartpole(), "double": cartpole(func(c *Config) { c.DoubleQ = true }),
			"stacks": cartpole(func(c *Config) {
				c.Env, c.Policy, c.NetArch, c.LearningStarts, c.BatchSize = "Catch-v0", "MlpPolicy", []int{2}, 60, 2
			}),
			"n steps":                            cartpole(func(c *Config) { c.NSteps = 3 }),
			"prioritised":                        cartpole(func(c *Config) { c.Prioritized = "dopamine" }),
			"deferred":                           cartpole(func(c *Config) { c.Prioritized, c.PriorityUpdate = "dopamine", ByWindow }),
			"deferred, with betas up to the end": cartpole(func(c *Config) { c.Prioritized, c.PriorityUpdate = "dqn_zoo", ByWindow }),
			"not concurrent": cartpole(func(c *Config) {
				c.Concurrent, c.Actor, c.Tau, c.TargetUpdateInterval = settings.Off, ActorOnline, .5, 10
			}),
		} {
			c.NumEnvs = envs
			var want Hashes
			for k, run := range []struct {
				replay string
				slice  int64
				drawn  int // the most minibatches drawn at a time; 0: no limit
				late   bool
			}{{replay: "cuda"}, {replay: "cuda", late: true}, {replay: "cpu"}, {replay: "cuda", slice: 28}, {replay: "cuda", drawn: 5}} {
				if run.late && os.Getenv(cudatest.Mode) == "software" { // enqueued work runs when something waits for it
					t.Setenv("PACELINE_SOFTWARE_LATE", "1")
				} else {
					t.Setenv("PACELINE_SOFTWARE_LATE", "")
				}
				cfg := c
				onGPU(run.replay)(&cfg)
				d := newDQN(t, cfg)
				if d.m.Updates.OnGPU() != (run.replay == "cuda") {
					t.Fatalf("replay_device %s: the frames are on the GPU: %v", run.replay, d.m.Updates.OnGPU())
				}
				if run.drawn > 0 {
					d.m.Updates.LimitPrefetch(run.drawn)
				}
				total := int64(420)
				if name == "stacks" { // of 84x84 pixels, which are slow on the software device
					total = 140
				}
				flags := train.ResetTimesteps | train.ResetEnvs
				for _, end := range []int64{total * 3 / 5, total} {
					check(t, d.Begin(end-d.Stats().Steps, flags))
					flags = 0
					for d.Stats().Steps < end {
						check(t, d.Run(run.slice, 0))
					}
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

// If the replay memory outgrows GPU memory inside a run, the CPU gathers the minibatches, and no
// bit changes.
func TestReplayThatOutgrowsGPUMemoryChangesNoBit(t *testing.T) {
	cudatest.Need(t)
	if os.Getenv(cudatest.Mode) != "software" {
		t.Skip("skipped: only the software device fails when asked to")
	}
	mk := makeFilm(func(i int, f *film) { f.liesAt = 100 + 7*i })
	for _, concurrent := range []settings.Switch{settings.On, settings.Off} {
		t.Setenv("PACELINE_SOFTWARE_FAIL", "") // the device reads the variable at every call
		edit := func(c *Config) { c.Concurrent = concurrent }
		auto := newHost(t, filmConfig(onGPU("auto"), edit), vec.SameStep, mk)
		cpu := newHost(t, filmConfig(onGPU("cpu"), edit), vec.SameStep, mk)
		cuda := newHost(t, filmConfig(onGPU("cuda"), edit), vec.SameStep, mk)
		hosts := []*host{auto, cpu, cuda}
		for _, h := range hosts {
			h.Begin(t, 10_000)
		}
		for k := range 200 {
			if k == 90 {
				if !auto.d.m.Updates.OnGPU() || auto.d.Stats().Updates == 0 {
					t.Errorf("%d updates, the frames are on the GPU: %v", auto.d.Stats().Updates, auto.d.m.Updates.OnGPU())
				}
				t.Setenv("PACELINE_SOFTWARE_FAIL", "cuMemAlloc_v2:0:2") // no memory is left
			}
			auto.Round(t)
			cpu.Round(t)
			if k < 90 {
				cuda.Round(t)
			}
			if k%50 == 49 {
				if a, b := hashesOf(t, auto.d), hashesOf(t, cpu.d); a != b {
					t.Fatalf("concurrent %v, round %d: %+v, gathered on the CPU %+v", concurrent, k, a, b)
				}
			}
		}
		said := ""
		for {
			text := must(auto.d.Notice())(t)
			if text == "" {
				break
			}
			said += text + "\n"
		}
		if auto.d.m.Updates.OnGPU() || strings.Count(said, "replay_device: auto, and the CPU gathers the minibatches from now on: cuda:0") != 1 {
			t.Errorf("the frames are on the GPU: %v; notices %q", auto.d.m.Updates.OnGPU(), said)
		}
		var err error
		for k := 0; k < 200 && err == nil; k++ {
			if err = cuda.Act(); err == nil {
				check(t, cuda.Vec.Step(cuda.Actions, cuda.Rows))
				err = cuda.Observe()
			}
		}
		var full *fault.Memory
		if !errors.As(err, &full) || !strings.HasPrefix(err.Error(), "replay_device: ") {
			t.Errorf("replay_device cuda: %v", err)
		}
	}
}

// uploads records the sizes of uploads, and 0 for a wait for their end.
type uploads struct {
	nn.StackStepper
	of []int
}

func (u *uploads) Uploaded() error {
	u.of = append(u.of, 0)
	return u.StackStepper.Uploaded()
}

func (u *uploads) Upload(first, n int) error {
	u.of = append(u.of, n)
	return u.StackStepper.Upload(first, n)
}

// A window's minibatches are drawn and uploaded when its first updates begin, however short the
// calls are.
func TestAWindowOnGPUIsDrawnAtItsStart(t *testing.T) {
	cudatest.Need(t)
	for _, slice := range []int64{0, 12} {
		cfg := cartpole(onGPU("cuda"), func(c *Config) { c.TrainFreq, c.Window, c.TargetUpdateInterval = 1, 100, 100 })
		d := newDQN(t, cfg)
		seen := &uploads{}
		d.m.Updates.Wrap(func(s nn.QStepper) nn.QStepper { return s }, func(s nn.StackStepper) nn.StackStepper {
			seen.StackStepper = s
			return seen
		})
		const windows = 3
		total := int64(cfg.LearningStarts + windows*100)
		check(t, d.Begin(total, train.ResetTimesteps|train.ResetEnvs))
		for d.Stats().Steps < total {
			check(t, d.Run(min(slice, total-d.Stats().Steps), 0))
		}
		check(t, d.Settle())
		sum, waits := 0, 0
		for i, n := range seen.of {
			if sum += n; n == 0 {
				waits++
			} else if i == 0 {
				t.Error("minibatches were drawn before the end of earlier uploads")
			}
		}
		if len(seen.of)-waits > 2*windows || waits < windows || sum != windows*100 || d.Stats().Updates != windows*100 {
			t.Errorf("%d steps at a time: uploads of %v minibatches for %d windows of 100 updates", slice, seen.of, windows)
		}
	}
}

// The driver has 8 connections. Streams of a run have one each, because streams that share a
// connection wait for each other.
func TestARunOnGPUHasAtMostEightStreams(t *testing.T) {
	cudatest.Need(t)
	calls := cudatest.Calls(t, func() { newDQN(t, cartpole(onGPU("cuda"))) })
	if n := calls["cuStreamCreateWithPriority"]; n < 4 || n > 8 {
		t.Errorf("%d streams, must be at most 8", n)
	}
}

func TestLostGPU(t *testing.T) { traintest.LostGPU(t, subject(nil), "TestLostGPU") }
