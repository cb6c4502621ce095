package dqn

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/devices"
	"github.com/paceline-rl/paceline/core/replay"
	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
	"github.com/paceline-rl/paceline/core/vec"
)

var check = traintest.Check

func must[T any](v T, err error) func(testing.TB) T { return traintest.Must(v, err) }

// cartpole is a configuration in which everything happens within a few thousand steps.
func cartpole(edit ...func(*Config)) Config {
	c := DefaultConfig()
	c.Env, c.NetArch = "CartPole-v1", []int{32}
	c.NumEnvs, c.Seed, c.Concurrent = 4, 7, settings.On
	c.LearningStarts, c.BatchSize, c.BufferSize = 100, 16, 2000
	c.TargetUpdateInterval, c.Window, c.TrainFreq = 96, 32, 2
	c.LearningRate, c.ExplorationSteps = 1e-3, 1000
	for _, e := range edit {
		e(&c)
	}
	return c
}

// trial is a Trainer and its DQN.
type trial struct {
	*train.Trainer
	m *DQN
}

// stats are a Trainer's Stats and metrics.
type stats struct {
	train.Stats
	Epsilon, Predict, Loss  float64
	ReplaySize, ReplayBytes int64
}

func (d *trial) Stats() stats {
	s := stats{Stats: d.Trainer.Stats()}
	for i := 0; ; i++ {
		m, ok := d.Metric(i)
		switch {
		case !ok:
			return s
		case m.Name == "rollout/exploration_rate":
			s.Epsilon = m.Value
		case m.Name == "predict/exploration_rate":
			s.Predict = m.Value
		case m.Name == "train/loss":
			s.Loss = m.Value
		case m.Name == "replay_size":
			s.ReplaySize = int64(m.Value)
		case m.Name == "replay_bytes":
			s.ReplayBytes = int64(m.Value)
		}
	}
}

// wrap wraps the stepper of single updates.
func wrap(d *trial, stepper func(nn.QStepper) nn.QStepper) { d.m.Updates.Wrap(stepper, nil) }

func (d *trial) Settle() error { return d.Trainer.Settle(0) }

// DefaultConfig returns the default settings.
func DefaultConfig() Config { return *Settings.Defaults().Struct().(*Config) }

// Hashes are digests of the experience and the parameters.
type Hashes struct{ Replay, Weights, Target string }

func (d *trial) Hashes() (h Hashes, err error) {
	for _, x := range []struct {
		part string
		to   *string
	}{{"replay", &h.Replay}, {"q_net", &h.Weights}, {"q_net_target", &h.Target}} {
		if *x.to, err = d.Hash(x.part); err != nil {
			return h, err
		}
	}
	return h, nil
}

// look returns Hashes inside a call.
func (d *trial) look() Hashes {
	sum := d.m.Memory.Hash()
	return Hashes{hex.EncodeToString(sum[:]), train.HashFloats(d.m.Theta.Host()), train.HashFloats(d.m.ThetaMinus.Host())}
}

func trainConfig(c Config) *train.Config {
	t, err := train.NewConfig("dqn")
	if err != nil {
		panic(err)
	}
	*t.Struct().(*Config) = c
	return t
}

func newTrial(c Config, mk func(i int) (env.Env, error)) (*trial, error) {
	t, err := train.New(trainConfig(c), mk)
	if err != nil {
		return nil, err
	}
	return &trial{t, t.Method().(*DQN)}, nil
}

func loadConfig(path string) (Config, error) {
	c, err := train.LoadConfig(path)
	if err != nil {
		return Config{}, err
	}
	return *c.Struct().(*Config), nil
}

func newDQN(t testing.TB, c Config) *trial {
	t.Helper()
	d, err := newTrial(c, nil)
	check(t, err)
	t.Cleanup(func() { check(t, d.Close()); allCores(t, d) })
	return d
}

// counter is an environment with the observation [environment, episode, step]. Episode k of
// environment i has lengths[k % n] steps and ends with ends[k % n].
type counter struct {
	index, episode, step int
	lengths              []int
	ends                 []env.End
	nanAt                int // at this step of episode 0 the reward is NaN
	failAt               int
	hugeFrom             int // from this step on rewards are 1e30
	closed               *int
}

func newCounter(index int) *counter {
	return &counter{index: index, episode: -1, lengths: []int{3, 1, 4}, ends: []env.End{env.Terminated, env.Truncated, env.Terminated | env.Truncated}}
}

func (c *counter) Spec() env.Spec {
	return env.Spec{ID: "counter", Obs: env.ObsSpec{DType: env.Float32, Shape: []int{3}, Low: []float32{-1e9}, High: []float32{1e9}}, Action: env.ActionSpec{N: 2}}
}
func (c *counter) Seed(uint64) {}
func (c *counter) write(obs []byte) {
	for k, v := range []int{c.index, c.episode, c.step} {
		binary.NativeEndian.PutUint32(obs[4*k:], math.Float32bits(float32(v)))
	}
}
func (c *counter) Reset(obs []byte) error {
	c.episode, c.step = c.episode+1, 0
	c.write(obs)
	return nil
}
func (c *counter) Step(action int32, obs []byte) (float32, env.End, error) {
	c.step++
	c.write(obs)
	reward := float32(100*c.episode + c.step)
	if c.hugeFrom > 0 && c.step >= c.hugeFrom {
		reward = 1e30
	}
	if c.episode == 0 && c.step == c.nanAt {
		reward = float32(math.NaN())
	}
	if c.failAt > 0 && c.step == c.failAt && c.episode == 0 {
		return 0, 0, errors.New("the simulator caught fire")
	}
	k := c.episode % len(c.lengths)
	if c.step == c.lengths[k] {
		return reward, c.ends[k], nil
	}
	return reward, 0, nil
}
func (c *counter) Close() error {
	if c.closed != nil {
		*c.closed++
	}
	return nil
}

// contents lists the visible transitions of a counter.
type tuple struct {
	obs, next  [3]float32
	action     int32
	reward     float32
	terminated bool
}

func contents(m *replay.Memory) []tuple {
	b := m.Minibatch(1)
	var list []tuple
	for i := range m.Len() {
		m.Gather([]int{i}, 1, 1, b, nil)
		tu := tuple{action: b.Actions[0], reward: b.Rewards[0], terminated: b.Terminated[0]}
		for k := range 3 {
			tu.obs[k] = math.Float32frombits(binary.NativeEndian.Uint32(b.Obs[4*k:]))
			tu.next[k] = math.Float32frombits(binary.NativeEndian.Uint32(b.NextObs[4*k:]))
		}
		list = append(list, tu)
	}
	return list
}

// host steps environments and pushes them into a DQN.
type host struct {
	*traintest.Host
	d *trial
}

func newHost(t testing.TB, c Config, mode vec.Autoreset, mk func(i int) (env.Env, error)) *host {
	t.Helper()
	h := traintest.NewHost(t, trainConfig(c), mode, mk)
	return &host{h, &trial{h.Trainer, h.Trainer.Method().(*DQN)}}
}

// cpu is a device of one thread.
func cpu(t testing.TB) nn.Device {
	t.Helper()
	d := must(devices.Open("cpu", 1, nil))(t)
	t.Cleanup(d.Close)
	return d
}

// qValues returns the Q-values of one observation, valid until the network's next use.
func qValues(t testing.TB, net nn.Network, p *nn.Params, obs []byte) []float32 {
	t.Helper()
	return must(net.Forward(p, obs, 1))(t).Values[0]
}

// minibatch is a minibatch without targets.
type minibatch struct {
	obs, next          []byte
	masks              [][]byte // allowed actions of next; nil: all
	actions            []int32
	rewards, discounts []float32
}

// gradient computes the targets row by row, as in textbooks, and the gradient. With double, theta
// chooses the action and theta-minus gives its value. Forbidden actions have value -Inf.
func (b *minibatch) gradient(t testing.TB, net nn.Network, learner nn.Learner, theta, minus *nn.Params, double bool, grad []float32) {
	t.Helper()
	n := len(b.actions)
	targets := make([]float32, n)
	for i := range targets {
		next := b.next[i*len(b.next)/n : (i+1)*len(b.next)/n]
		values := slices.Clone(qValues(t, net, minus, next))
		choosing := values
		if double {
			choosing = slices.Clone(qValues(t, net, theta, next))
		}
		for a := range choosing {
			if b.masks != nil && b.masks[i][a] == 0 {
				choosing[a] = float32(math.Inf(-1))
			}
		}
		best := values[slices.Index(choosing, slices.Max(choosing))]
		targets[i] = b.rewards[i] + float32(b.discounts[i]*best)
	}
	check(t, learner.Gradient(theta, nn.Batch{Obs: b.obs, Actions: b.actions, Columns: [][]float32{targets}}, grad, &nn.Report{}))
}

// trains skips a test that trains until a return is reached: with -short, and with the kernels in
// Go, which take minutes.
func trains(t *testing.T) {
	t.Helper()
	if testing.Short() || kernel.ISA() == "go" {
		t.Skip("trains for seconds, with the kernels in Go for minutes")
	}
}
