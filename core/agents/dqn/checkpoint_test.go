package dqn

import (
	"bytes"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/offpolicy"
	"github.com/paceline-rl/paceline/core/vec"
)

// trained returns a DQN in the middle of a window and of its run.
func trained(t *testing.T, edit ...func(*Config)) *trial {
	t.Helper()
	d := newDQN(t, cartpole(edit...))
	check(t, d.Begin(2000, 0))
	check(t, d.Run(1012, 0)) // not a multiple of the window
	return d
}

func TestRunSaveLoadRunEqualsRun(t *testing.T) {
	for name, edit := range map[string]func(*Config){
		"both":           func(*Config) {},
		"standard":       func(c *Config) { c.NumEnvs, c.Concurrent, c.Synchronized = 1, settings.Off, false },
		"target actor":   func(c *Config) { c.Actor = ActorTarget },
		"mnih optimiser": func(c *Config) { c.Optimizer, c.LossReduction = "rmsprop_mnih", "sum" },
	} {
		whole := learn(t, cartpole(edit), 2000, offpolicy.Concurrently)
		d := trained(t, edit)
		path := filepath.Join(t.TempDir(), "a.paceline")
		check(t, d.Save(path, true))
		stats := d.Stats()
		check(t, d.Run(0, 0)) // the saved DQN goes on, too
		next := newDQN(t, must(loadConfig(path))(t))
		check(t, next.Load(path))
		if s := next.Stats(); s.Steps != stats.Steps || s.Episodes != stats.Episodes || s.MeanReturn != stats.MeanReturn || s.Updates != stats.Updates {
			t.Errorf("%s: after load %+v, saved %+v", name, s, stats)
		}
		check(t, next.Run(0, 0))
		if got := hashesOf(t, next); got != whole {
			t.Errorf("%s: continued %+v, in one go %+v", name, got, whole)
		}
		if got := hashesOf(t, d); got != whole {
			t.Errorf("%s: saving changed the run", name)
		}
	}
}

func TestASaveBeforeOrInTheWarmUpContinuesTheSame(t *testing.T) {
	whole := learn(t, cartpole(), 800, offpolicy.Concurrently)
	for _, before := range []int64{-1, 0, 40} {
		d := newDQN(t, cartpole())
		if before >= 0 {
			check(t, d.Begin(800, 0))
		}
		if before > 0 {
			check(t, d.Run(before, 0))
		}
		path := filepath.Join(t.TempDir(), "a.paceline")
		check(t, d.Save(path, true))
		next := newDQN(t, cartpole())
		check(t, next.Load(path))
		if before < 0 {
			check(t, next.Begin(800, 0))
		}
		check(t, next.Run(0, 0))
		if got := hashesOf(t, next); got != whole {
			t.Errorf("saved at %d: %+v, want %+v", before, got, whole)
		}
	}
}

func TestASaveBeforeAnythingCanBeDrawnContinuesTheSame(t *testing.T) {
	for _, concurrent := range []settings.Switch{settings.On, settings.Off} {
		c := cartpole(func(c *Config) {
			c.NumEnvs, c.Concurrent, c.TrainFreq, c.GradientSteps, c.NSteps, c.NStepTails = 1, concurrent, 400, 4, 40, "drop"
		})
		whole := learn(t, c, 800, offpolicy.Concurrently)
		d, path := newDQN(t, c), filepath.Join(t.TempDir(), "a.paceline")
		check(t, d.Begin(800, 0))
		check(t, d.Run(120, 0))
		check(t, d.Save(path, true))
		next := newDQN(t, c)
		check(t, next.Load(path))
		check(t, next.Run(0, 0))
		if got := hashesOf(t, next); got != whole {
			t.Errorf("concurrent %v: %+v, want %+v", concurrent, got, whole)
		}
	}
}

func TestLoadWithoutReplayFillsTheMemoryAgain(t *testing.T) {
	d := trained(t)
	path := filepath.Join(t.TempDir(), "a.paceline")
	check(t, d.Save(path, false))
	small, err := os.Stat(path)
	check(t, err)
	next := newDQN(t, cartpole())
	check(t, next.Load(path))
	if got, want := hashesOf(t, next), hashesOf(t, d); got.Weights != want.Weights || got.Target != want.Target || got.Replay == want.Replay {
		t.Errorf("%+v, saved %+v", got, want)
	}
	s := next.Stats()
	check(t, next.Run(100, 0)) // N random steps, no update
	if now := next.Stats(); now.Updates != s.Updates || now.Epsilon != 1 {
		t.Errorf("updates on an empty memory: %+v", now)
	}
	check(t, next.Run(0, 0))
	if now := next.Stats(); now.Steps < 2000 || now.Updates <= s.Updates || now.Updates != now.UpdatesDue {
		t.Errorf("%+v", now)
	}
	check(t, d.Save(path, true))
	if full, err := os.Stat(path); err != nil || full.Size() <= small.Size() {
		t.Errorf("with replay %d bytes, without %d", full.Size(), small.Size())
	}
}

// A run that loads a file without experience, saved during the warm-up or right after it, takes its
// random steps before updates go on.
func TestALoadWithoutReplayInTheWarmUpTakesRandomSteps(t *testing.T) {
	for _, concurrent := range []bool{false, true} {
		for _, steps := range []int64{2, 98, 100, 102} {
			c := cartpole()
			c.Concurrent, c.NumEnvs, c.LearningStarts = settings.SwitchOf(concurrent), 2, 100
			d := newDQN(t, c)
			check(t, d.Begin(2000, 0))
			check(t, d.Run(steps, 0))
			path := filepath.Join(t.TempDir(), "a.paceline")
			check(t, d.Save(path, false))
			next := newDQN(t, c)
			check(t, next.Load(path))
			before := next.Stats().Updates
			check(t, next.Run(100, 0))
			if now := next.Stats(); now.Updates != before || now.Epsilon != 1 {
				t.Errorf("concurrent %v, saved after %d steps: updates on an empty memory: %+v", concurrent, steps, now)
			}
			check(t, next.Run(0, 0))
			if now := next.Stats(); now.Steps < 2000 || now.Updates == 0 || now.Updates != now.UpdatesDue {
				t.Errorf("concurrent %v, saved after %d steps: %+v", concurrent, steps, now)
			}
		}
	}
}

// A file may hold counts that only a round of more environments can reach.
func TestAFileOfMoreEnvironmentsIsLoaded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.paceline")
	odd := func(c *Config) { c.LearningStarts, c.Window, c.TrainFreq = 101, 31, 3 }
	d := newDQN(t, cartpole(odd))
	check(t, d.Begin(600, 0))
	for range 50 {
		check(t, d.Run(4, 0))
		check(t, d.Save(path, false))
		one := newDQN(t, cartpole(odd, func(c *Config) { c.NumEnvs = 1 }))
		check(t, one.Load(path))
		check(t, one.Save(path, true))
		check(t, newDQN(t, cartpole(odd, func(c *Config) { c.NumEnvs = 1 })).Load(path))
	}
}

func TestBadCheckpointsChangeNothing(t *testing.T) {
	d := trained(t)
	dir := t.TempDir()
	good := filepath.Join(dir, "good")
	check(t, d.Save(good, true))
	policy := filepath.Join(dir, "policy")
	check(t, must(d.Policy())(t).Save(policy))
	want := hashesOf(t, d)
	whole, err := os.ReadFile(good)
	check(t, err)
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		check(t, os.WriteFile(path, data, 0o600))
		return path
	}
	damaged := append([]byte(nil), whole...)
	damaged[len(damaged)/2] ^= 0x40
	for name, x := range map[string]struct {
		path string
		is   error
		says string
	}{
		"missing":  {filepath.Join(dir, "none"), fs.ErrNotExist, "none"},
		"cut off":  {write("cut", whole[:len(whole)/2]), checkpoint.ErrFormat, "cut"},
		"empty":    {write("empty", nil), checkpoint.ErrFormat, ""},
		"foreign":  {write("foreign", []byte("PK\x03\x04 but not really")), checkpoint.ErrFormat, ""},
		"damaged":  {write("damaged", damaged), nil, ""},
		"a policy": {policy, nil, "a policy can act but not go on learning"},
		"a folder": {dir, nil, ""},
	} {
		err := d.Load(x.path)
		if err == nil || x.is != nil && !errors.Is(err, x.is) || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%s: %v", name, err)
		}
		if got := hashesOf(t, d); got != want {
			t.Fatalf("%s: the trainer changed", name)
		}
	}
	for says, edit := range map[string]func(*Config){
		`num_envs: the checkpoint has "4", this trainer has "2"`:                   func(c *Config) { c.NumEnvs = 2 },
		`net_arch: the checkpoint has "32", this trainer has "16"`:                 func(c *Config) { c.NetArch = []int{16} },
		`env: the checkpoint has "CartPole-v1", this trainer has "MountainCar-v0"`: func(c *Config) { c.Env = "MountainCar-v0" },
		`optimizer: the checkpoint has "adam", this trainer has "rmsprop"`:         func(c *Config) { c.Optimizer = "rmsprop" },
	} {
		if err := newDQN(t, cartpole(edit)).Load(good); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	// The trainer that refused the files goes on as before.
	check(t, d.Run(0, 0))
	if got := hashesOf(t, d); got != learn(t, cartpole(), 2000, offpolicy.Concurrently) {
		t.Error("refused loads changed the run")
	}
}

// A wrong bit in the file's directory loses no part of a run: the file is refused, or loads as the
// saved run.
func TestEveryBitOfTheDirectoryIsChecked(t *testing.T) {
	d := trained(t)
	path := filepath.Join(t.TempDir(), "a.paceline")
	check(t, d.Save(path, true))
	want := hashesOf(t, d)
	whole, err := os.ReadFile(path)
	check(t, err)
	directory := bytes.Index(whole, []byte("PK\x01\x02"))
	next := newDQN(t, cartpole())
	loaded := 0
	for bit := 8 * directory; bit < 8*len(whole); bit += 11 { // the tests of package checkpoint try all bits
		damaged := bytes.Clone(whole)
		damaged[bit/8] ^= 1 << (bit % 8)
		check(t, os.WriteFile(path, damaged, 0o600))
		err := next.Load(path)
		if err != nil && !errors.Is(err, checkpoint.ErrFormat) {
			t.Fatalf("bit %d of byte %d: %v", bit%8, bit/8, err)
		}
		if err != nil {
			continue
		}
		loaded++
		if got := hashesOf(t, next); got != want || next.Stats().Episodes != d.Stats().Episodes {
			t.Fatalf("bit %d of byte %d: another run was loaded", bit%8, bit/8)
		}
		if loaded == 1 { // from here on a refused file leaves this run
			check(t, os.WriteFile(path, whole, 0o600))
			check(t, next.Load(path))
		}
	}
	if loaded == 0 {
		t.Error("no bit of it is a time stamp")
	}
	check(t, next.Run(0, 0))
	if got := hashesOf(t, next); got != learn(t, cartpole(), 2000, offpolicy.Concurrently) {
		t.Error("the run does not go on as one that was not saved")
	}
}

// A small file with a huge network is refused before memory is allocated.
func TestHugePolicyInASmallFile(t *testing.T) {
	d := trained(t)
	spec := d.m.Policy()
	spec.Net.Trunks[0].Hidden = []int{16000, 16000}
	path := filepath.Join(t.TempDir(), "p")
	check(t, policy.New(spec, d.m.Theta).Save(path))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := policy.Load(path)
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), `tensor "q_net.0.weight": shape [32 4], must be [16000 4]`) {
		t.Error(err)
	}
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 10<<20 {
		t.Errorf("%d bytes were taken", taken)
	}
}

// Settings of parts that the file does not hold need not agree.
func TestWithoutReplayTheBufferMayDiffer(t *testing.T) {
	d := trained(t)
	path := filepath.Join(t.TempDir(), "a.paceline")
	next := newDQN(t, cartpole(func(c *Config) { c.BufferSize /= 2 }))
	check(t, d.Save(path, true))
	if err := next.Load(path); err == nil || errors.Is(err, checkpoint.ErrFormat) || !strings.Contains(err.Error(), "buffer_size: ") {
		t.Error(err)
	}
	check(t, d.Save(path, false))
	check(t, next.Load(path))
	check(t, next.Run(0, 0))
}

func TestFullDiskLeavesTheOldCheckpoint(t *testing.T) {
	d := trained(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "a.paceline")
	check(t, os.Mkdir(filepath.Join(dir, "x"), 0o700))
	if err := d.Save(filepath.Join(dir, "no", "such", "folder"), false); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if err := d.Save(filepath.Join(dir, "x"), false); err == nil || !strings.Contains(err.Error(), "directory") {
		t.Errorf("%v", err)
	}
	check(t, d.Save(path, false))
	if entries, _ := os.ReadDir(dir); len(entries) != 2 {
		t.Errorf("files left: %v", entries)
	}
}

func TestParametersAreReadAndSet(t *testing.T) {
	d := trained(t)
	sets := d.ParameterSets()
	if len(sets) != 2 || sets[0].Name != "q_net" || sets[1].Name != "q_net_target" {
		t.Fatalf("%+v", sets)
	}
	for _, set := range sets {
		if first, last := set.Params[0].Name, set.Params[len(set.Params)-1].Name; first != "q_net.0.weight" || last != "q_net.2.bias" {
			t.Errorf("%s ... %s", first, last)
		}
		p := make([]float32, set.Size)
		if updates := must(d.GetParameters(set.Name, p))(t); updates == 0 || set.Name == "q_net" && int64(updates) != d.Stats().Updates {
			t.Errorf("%s has seen %d updates of %d", set.Name, updates, d.Stats().Updates)
		}
		for i := range p {
			p[i] += 0.5
		}
		check(t, d.SetParameters(set.Name, p))
		q := make([]float32, set.Size)
		must(d.GetParameters(set.Name, q))(t)
		if !slices.Equal(p, q) {
			t.Fatalf("%s: %v, set to %v", set.Name, q, p)
		}
		if set.Name == "q_net" && !slices.Equal(d.m.Snapshot.Host(), p) {
			t.Error("the snapshot did not change")
		}
		if err := d.SetParameters(set.Name, p[1:]); err == nil || !strings.Contains(err.Error(), "numbers, must be") {
			t.Error(err)
		}
		p[3] = float32(math.NaN())
		if err := d.SetParameters(set.Name, p); !errors.Is(err, fault.ErrNotFinite) {
			t.Error(err)
		}
	}
	if _, err := d.GetParameters("q", nil); err == nil || !strings.Contains(err.Error(), `parameter set: "q", must be q_net, q_net_target`) {
		t.Error(err)
	}
}

func TestAPolicyActsAsTheTrainer(t *testing.T) {
	d := trained(t)
	p := must(d.Policy())(t)
	path := filepath.Join(t.TempDir(), "p.paceline")
	check(t, p.Save(path))
	full := filepath.Join(t.TempDir(), "full.paceline")
	check(t, d.Save(full, false))
	obs := d.m.Samplers.Obs()
	want := make([]int32, 4)
	q := make([]float32, 8)
	check(t, p.Act(4, obs, nil, vec.Actions{Discrete: want}, [][]float32{q}))
	net := must(cpu(t).Network(d.m.cfg.network(*d.Spec()), 4))(t)
	expect := must(net.Forward(d.m.Theta, obs, 4))(t).Values[0]
	for i := range q {
		if q[i] != expect[i] {
			t.Fatalf("Q-value %d: %v, the network says %v", i, q[i], expect[i])
		}
	}
	for _, file := range []string{path, full} {
		l := must(policy.Load(file))(t)
		got := make([]int32, 4)
		check(t, l.Act(4, obs, nil, vec.Actions{Discrete: got}, nil))
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%s, row %d: action %d, want %d", file, i, got[i], want[i])
			}
		}
	}
	// A policy is frozen: later training does not change it. The number of rows changes no output.
	check(t, d.Run(0, 0))
	many := make([]byte, 0, 100*len(obs))
	for range 100 {
		many = append(many, obs...)
	}
	got := make([]int32, 400)
	done := make(chan error)
	for range 4 {
		go func() { done <- p.Act(4, obs, nil, vec.Actions{Discrete: make([]int32, 4)}, nil) }()
	}
	check(t, p.Act(400, many, nil, vec.Actions{Discrete: got}, nil))
	for range 4 {
		check(t, <-done)
	}
	for i := range got {
		if got[i] != want[i%4] {
			t.Fatalf("row %d: action %d, want %d", i, got[i], want[i%4])
		}
	}
	if err := p.Act(2, obs, nil, vec.Actions{Discrete: want}, nil); err == nil || !strings.Contains(err.Error(), "obs: 64 bytes, must be 32") {
		t.Error(err)
	}
	a := must(p.Evaluate("CartPole-v1", nil, policy.EvalOptions{Episodes: 40, Epsilon: 0.1, Seed: 5}))(t)
	b := must(p.Evaluate("CartPole-v1", nil, policy.EvalOptions{Episodes: 40, Epsilon: 0.1, Seed: 5}))(t)
	c := must(p.Evaluate("CartPole-v1", nil, policy.EvalOptions{Episodes: 40, Epsilon: 0.1, Seed: 6}))(t)
	if !reflect.DeepEqual(a, b) || reflect.DeepEqual(a, c) || a.Episodes != 40 || a.MeanReturn != a.MeanLen {
		t.Errorf("%+v, %+v, %+v", a, b, c)
	}
	if _, err := p.Evaluate("Catch-v0", nil, policy.EvalOptions{Episodes: 4, Epsilon: 0, Seed: 0}); err == nil || !strings.Contains(err.Error(), "as the policy's") {
		t.Error(err)
	}
}

func TestBeginContinuesOrRestarts(t *testing.T) {
	d := trained(t)
	check(t, d.Run(0, 0))
	s := d.Stats()
	check(t, d.Begin(500, 0)) // the run goes on
	check(t, d.Run(0, 0))
	if now := d.Stats(); now.Steps != s.Steps+500 || now.Updates != now.UpdatesDue {
		t.Errorf("%+v after %+v", now, s)
	}
	check(t, d.Begin(500, train.ResetTimesteps)) // from step 0, with a warm-up
	check(t, d.Run(100, 0))
	before := d.Stats()
	check(t, d.Run(0, 0))
	now := d.Stats()
	if now.Steps != 500 || before.Epsilon != 1 || now.Updates != before.Updates+200 || now.Updates != now.UpdatesDue {
		t.Errorf("%+v, at its start %+v", now, before)
	}
	if err := d.Begin(0, 0); err == nil || !strings.Contains(err.Error(), "total_timesteps: 0") {
		t.Error(err)
	}
}

func TestPushCallsOutOfOrderAreRefused(t *testing.T) {
	mk := func(i int) (env.Env, error) { return newCounter(i), nil }
	h := newHost(t, cartpole(func(c *Config) { c.NumEnvs = 2 }), vec.SameStep, mk)
	says := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	says(h.Act(), "call begin first")
	says(h.d.Run(10, 0), "use act and observe")
	h.Begin(t, 100)
	says(h.Observe(), "must follow act")
	check(t, h.Act())
	says(h.Act(), "called twice")
	check(t, h.Vec.Step(h.Actions, h.Rows))
	zero := float32(0)
	reward := h.Rows.Rewards[1]
	h.Rows.Rewards[1] = zero / zero
	says(h.Observe(), "environment 1: step 0: reward: NaN, must be finite")
	h.Rows.Rewards[1] = reward
	keep := h.Rows.Obs[12+8]
	h.Rows.Obs[12+11], h.Rows.Obs[12+10] = 0x7f, 0xc0
	says(h.Observe(), "environment 1: step 0: observation: component 2 is NaN, must be finite")
	h.Rows.Obs[12+11], h.Rows.Obs[12+10], h.Rows.Obs[12+8] = 0x3f, 0x80, keep
	h.Rows.Ends[0] = 9
	says(h.Observe(), "environment 0: step 0: ended: 9, must be 0 to 3")
	h.Rows.Ends[0] = 0
	check(t, h.Observe()) // nothing is lost
	h.Round(t)
	if s := h.d.Stats(); s.Steps != 4 {
		t.Errorf("%+v", s)
	}
	// A checkpoint does not hold the host's environments.
	path := filepath.Join(t.TempDir(), "a")
	check(t, h.d.Save(path, true))
	check(t, h.d.Load(path))
	says(h.Act(), "since the environments were made or loaded")
	says(h.d.Begin(10, 0), "environments must be reset")
	check(t, h.Vec.Reset(h.Rows, nil))
	check(t, h.d.Begin(10, train.ResetEnvs))
	h.Round(t)
}
