package dqn

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/vec"
)

// trained returns a DQN in the middle of a window and of its course.
func trained(t *testing.T, edit ...func(*Config)) *DQN {
	t.Helper()
	d := newDQN(t, cartpole(edit...))
	check(t, d.Begin(2000, 0))
	check(t, d.Run(1012, 0)) // not a multiple of the window
	return d
}

func TestRunSaveLoadRunEqualsRun(t *testing.T) {
	for name, edit := range map[string]func(*Config){
		"both":           func(*Config) {},
		"standard":       func(c *Config) { c.NumEnvs, c.Concurrent, c.Synchronized = 1, false, false },
		"target actor":   func(c *Config) { c.Actor = ActorTarget },
		"mnih optimiser": func(c *Config) { c.Optimizer, c.LossReduction = "rmsprop_mnih", "sum" },
	} {
		whole := learn(t, cartpole(edit), 2000, notEmulated)
		d := trained(t, edit)
		path := filepath.Join(t.TempDir(), "a.paceline")
		check(t, d.Save(path, true))
		stats := d.Stats()
		check(t, d.Run(0, 0)) // the saved one goes on too, undisturbed
		next := newDQN(t, must(LoadConfig(path))(t))
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

func TestSaveBeforeTheFirstStepAndInTheWarmUp(t *testing.T) {
	whole := learn(t, cartpole(), 800, notEmulated)
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
	// And the one that was refused all this time goes on as if nothing was.
	check(t, d.Run(0, 0))
	if got := hashesOf(t, d); got != learn(t, cartpole(), 2000, notEmulated) {
		t.Error("refused loads changed the run")
	}
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
		t.Errorf("left behind: %v", entries)
	}
}

func TestParameters(t *testing.T) {
	d := trained(t)
	list := d.Parameters()
	last := list[len(list)-1]
	n := last.Offset + last.Size
	if list[0].Name != "q_net.q_net.0.weight" || last.Name != "q_net_target.q_net.2.bias" {
		t.Errorf("%s ... %s", list[0].Name, last.Name)
	}
	p := make([]float32, n)
	check(t, d.GetParameters(p))
	for i := range p {
		p[i] += 0.5
	}
	check(t, d.SetParameters(p))
	q := make([]float32, n)
	check(t, d.GetParameters(q))
	for i := range p {
		if p[i] != q[i] {
			t.Fatalf("number %d: %v, set to %v", i, q[i], p[i])
		}
	}
	if err := d.SetParameters(p[1:]); err == nil || !strings.Contains(err.Error(), "numbers, must be") {
		t.Error(err)
	}
	p[3] -= p[3] / 0 * 0
	zero := float32(0)
	p[3] = zero / zero
	if err := d.SetParameters(p); !errors.Is(err, fault.ErrNotFinite) {
		t.Error(err)
	}
}

func TestPolicyActsAsTheTrainerDoes(t *testing.T) {
	d := trained(t)
	p := must(d.Policy())(t)
	path := filepath.Join(t.TempDir(), "p.paceline")
	check(t, p.Save(path))
	full := filepath.Join(t.TempDir(), "full.paceline")
	check(t, d.Save(full, false))
	obs := d.samplers.rows.Obs
	want := make([]int32, 4)
	q := make([]float32, 8)
	check(t, p.Act(4, obs, want, q))
	net := must(nn.NewNetwork(d.network(), 4, nil))(t)
	expect := must(net.Forward(d.theta, obs, 4))(t)
	for i := range q {
		if q[i] != expect[i] {
			t.Fatalf("Q-value %d: %v, the network says %v", i, q[i], expect[i])
		}
	}
	for _, file := range []string{path, full} {
		l := must(LoadPolicy(file))(t)
		got := make([]int32, 4)
		check(t, l.Act(4, obs, got, nil))
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%s, row %d: action %d, want %d", file, i, got[i], want[i])
			}
		}
	}
	// Frozen: what the trainer does later does not reach it; and many rows are
	// the same as few.
	check(t, d.Run(0, 0))
	many := make([]byte, 0, 100*len(obs))
	for range 100 {
		many = append(many, obs...)
	}
	got := make([]int32, 400)
	done := make(chan error)
	for range 4 {
		go func() { done <- p.Act(4, obs, make([]int32, 4), nil) }()
	}
	check(t, p.Act(400, many, got, nil))
	for range 4 {
		check(t, <-done)
	}
	for i := range got {
		if got[i] != want[i%4] {
			t.Fatalf("row %d: action %d, want %d", i, got[i], want[i%4])
		}
	}
	if err := p.Act(2, obs, want, nil); err == nil || !strings.Contains(err.Error(), "obs: 64 bytes, must be 32") {
		t.Error(err)
	}
	a := must(p.Evaluate("CartPole-v1", nil, 40, 0.1, 5))(t)
	b := must(p.Evaluate("CartPole-v1", nil, 40, 0.1, 5))(t)
	c := must(p.Evaluate("CartPole-v1", nil, 40, 0.1, 6))(t)
	if a != b || a == c || a.Episodes != 40 || a.MeanReturn != a.MeanLen {
		t.Errorf("%+v, %+v, %+v", a, b, c)
	}
	if _, err := p.Evaluate("Catch-v0", nil, 4, 0, 0); err == nil || !strings.Contains(err.Error(), "as the policy's") {
		t.Error(err)
	}
}

func TestBeginAgain(t *testing.T) {
	d := trained(t)
	check(t, d.Run(0, 0))
	s := d.Stats()
	check(t, d.Begin(500, 0)) // goes on
	check(t, d.Run(0, 0))
	if now := d.Stats(); now.Steps != s.Steps+500 || now.Updates != now.UpdatesDue {
		t.Errorf("%+v after %+v", now, s)
	}
	check(t, d.Begin(500, ResetTimesteps)) // from step 0, with a warm-up
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

func TestPushProtocol(t *testing.T) {
	mk := func(i int) (env.Env, error) { return newCounter(i), nil }
	h := newHost(t, cartpole(func(c *Config) { c.NumEnvs = 2 }), vec.SameStep, mk)
	says := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	says(h.d.Act(), "call begin first")
	says(h.d.Run(10, 0), "use act and observe")
	h.begin(t, 100)
	says(h.d.Observe(), "must follow act")
	check(t, h.d.Act())
	says(h.d.Act(), "called twice")
	check(t, h.vec.Step(vec.Actions{Discrete: h.actions}, h.rows))
	zero := float32(0)
	reward := h.rows.Rewards[1]
	h.rows.Rewards[1] = zero / zero
	says(h.d.Observe(), "environment 1, step 0: reward: NaN, must be finite")
	h.rows.Rewards[1] = reward
	keep := h.rows.Obs[12+8]
	h.rows.Obs[12+11], h.rows.Obs[12+10] = 0x7f, 0xc0
	says(h.d.Observe(), "environment 1, step 0: observation: component 2 is NaN, must be finite")
	h.rows.Obs[12+11], h.rows.Obs[12+10], h.rows.Obs[12+8] = 0x3f, 0x80, keep
	h.rows.Ends[0] = 9
	says(h.d.Observe(), "environment 0, step 0: ended: 9, must be 0 to 3")
	h.rows.Ends[0] = 0
	check(t, h.d.Observe()) // nothing was lost
	h.round(t)
	if s := h.d.Stats(); s.Steps != 4 {
		t.Errorf("%+v", s)
	}
	// A checkpoint knows no environments of the host's.
	path := filepath.Join(t.TempDir(), "a")
	check(t, h.d.Save(path, true))
	check(t, h.d.Load(path))
	says(h.d.Act(), "since the environments were made or loaded")
	says(h.d.Begin(10, 0), "environments must be reset")
	check(t, h.vec.Reset(h.rows, nil))
	check(t, h.d.Begin(10, ResetEnvs))
	h.round(t)
}
