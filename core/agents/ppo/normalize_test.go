package ppo

import (
	"encoding/binary"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	_ "github.com/paceline-rl/paceline/core/env/builtin"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/onpolicy"
	"github.com/paceline-rl/paceline/core/train/traintest"
	"github.com/paceline-rl/paceline/core/vec"
)

func normalized(edit ...func(*Config)) Config {
	c := *Settings.Defaults().Struct().(*Config)
	c.Env, c.NumEnvs, c.NSteps, c.BatchSize, c.NormalizeObs, c.NormalizeReward = "CartPole-v1", 8, 32, 64, true, true
	for _, e := range edit {
		e(&c)
	}
	return c
}

// A policy of a run, of its checkpoint or of a policy's file computes from the environments' own
// observations what the run computes from normalised ones.
func TestPolicyActsOnRawObservationsAsTheRun(t *testing.T) {
	tr := newTrainer(t, normalized())
	check(t, tr.Begin(10_000, 0))
	check(t, tr.Run(600, 0)) // inside a rollout
	rows := vec.NewRows(tr.Spec().Obs, 8)
	check(t, tr.Latest(rows, vec.Actions{}))
	dir := t.TempDir()
	p := must(tr.Policy())(t)
	check(t, p.Save(filepath.Join(dir, "policy")))
	check(t, tr.Save(filepath.Join(dir, "run"), true))
	check(t, tr.Run(8, 0)) // changes the statistics, and records the values of rows.Obs
	run := tr.Method().(*PPO)
	recorded := run.Rollout.Batch().Columns[onpolicy.ColumnValue]
	want := recorded[600%256 : 600%256+8]
	if first := 256 - run.Rollout.Left()*8 - 8; first != 600%256 {
		t.Fatalf("row %d was recorded last", first)
	}
	for name, p := range map[string]*policy.Policy{
		"policy": p, "its file": must(policy.Load(filepath.Join(dir, "policy")))(t), "run's file": must(policy.Load(filepath.Join(dir, "run")))(t),
	} {
		values := make([]float32, 8)
		check(t, p.Act(8, rows.Obs, nil, vec.Actions{Discrete: make([]int32, 8)}, [][]float32{nil, values}))
		if !slices.Equal(values, want) {
			t.Errorf("%s: values %v, want %v", name, values, want)
		}
	}
}

func newTrainer(t *testing.T, c Config) *train.Trainer {
	t.Helper()
	return traintest.NewTrainer(t, configOf(t, c), nil)
}

// far is a bandit with observations and rewards that are large and far from 0.
type far struct {
	right, step int
}

func (f *far) Spec() env.Spec {
	return env.Spec{ID: "far", Obs: env.ObsSpec{DType: env.Float32, Shape: []int{1}, Low: []float32{0}, High: []float32{1e4}}, Action: env.ActionSpec{N: 2}}
}
func (f *far) Seed(uint64)            { f.right = 0 }
func (f *far) Close() error           { return nil }
func (f *far) Reset(obs []byte) error { f.step = 0; f.write(obs); return nil }
func (f *far) write(obs []byte) {
	binary.NativeEndian.PutUint32(obs, math.Float32bits(5000+float32(f.right)))
}
func (f *far) Step(action int32, obs []byte) (reward float32, end env.End, err error) {
	if int(action) == f.right {
		reward = 1e4
	}
	f.right = (5*f.right + f.step*f.step + 1) % 2
	if f.step++; f.step == 8 {
		end = env.Terminated
	}
	f.write(obs)
	return reward, end, nil
}

// PPO learns from observations and rewards of any scale if both are normalised, and not without.
// Episode returns are those of the environments.
func TestLearnsFarFromZero(t *testing.T) {
	returns := map[bool]float64{}
	for _, on := range []bool{true, false} {
		c := normalized(func(c *Config) {
			c.NormalizeObs, c.NormalizeReward, c.LearningRate = on, on, 1e-3
			c.NetArchPi, c.NetArchVf = []int{16}, []int{16}
		})
		tr := traintest.NewTrainer(t, configOf(t, c), func(int) (env.Env, error) { return &far{}, nil })
		check(t, tr.Begin(8000, 0))
		check(t, tr.Run(0, 0))
		returns[on] = tr.Stats().MeanReturn
	}
	if returns[true] < 7.5e4 || returns[false] > 6e4 {
		t.Errorf("mean returns of at most 80000: %v normalised, %v not", returns[true], returns[false])
	}
}

// PPO learns CartPole with normalised observations and rewards.
func TestLearnsCartPoleNormalized(t *testing.T) {
	if testing.Short() {
		t.Skip("trains for 40,000 steps")
	}
	tr := newTrainer(t, normalized(func(c *Config) {
		c.BatchSize, c.NEpochs, c.LearningRate, c.Gamma, c.GAELambda = 256, 20, 1e-3, 0.98, 0.8
		c.NetArchPi, c.NetArchVf = []int{32}, []int{32}
	}))
	check(t, tr.Begin(40_000, 0))
	check(t, tr.Run(0, 0))
	if s := tr.Stats(); s.MeanReturn < 150 {
		t.Errorf("mean return %v", s.MeanReturn)
	}
	p := must(tr.Policy())(t)
	if e := must(p.Evaluate("CartPole-v1", nil, policy.EvalOptions{Episodes: 10, Seed: 1}))(t); e.MeanReturn < 400 || e.MeanReturn != e.MeanLen {
		t.Errorf("evaluation: mean return %v of %v steps", e.MeanReturn, e.MeanLen)
	}
}

// Settings with which statistics cannot be kept are refused, as are checkpoints without them.
func TestNormalizationRefuses(t *testing.T) {
	for want, edit := range map[string]func(c *Config){
		"normalize_obs: true, must be false where observations are uint8": func(c *Config) { c.Env = "Catch-v0" },
		"groups: 2, must be 1 with normalize_obs or normalize_reward":     func(c *Config) { c.Groups = 2 },
	} {
		if _, err := train.New(configOf(t, normalized(edit)), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	images := newTrainer(t, normalized(func(c *Config) { c.Env, c.NormalizeObs = "Catch-v0", false })) // rewards can be normalised
	check(t, images.Run(16, 0))
	path := filepath.Join(t.TempDir(), "a")
	check(t, newTrainer(t, normalized()).Save(path, false))
	other := newTrainer(t, normalized(func(c *Config) { c.NormalizeReward = false }))
	if err := other.Load(path); err == nil || !strings.Contains(err.Error(), `normalize_reward: the checkpoint has "true", this trainer has "false"`) {
		t.Error(err)
	}
}
