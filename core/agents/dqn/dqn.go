package dqn

import (
	"errors"
	"fmt"
	"math"

	"github.com/paceline-rl/paceline/core/actor"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/limits"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/replay"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/vec"
)

// DQN is train.Method by Algorithm 1.
type DQN struct {
	cfg  Config // resolved
	spec env.Spec
	host *train.Host
	// device computes for the main thread; alone, where they act for themselves, for the
	// samplers' threads.
	device, alone nn.Device

	// Parameter sets by their names in the paper; the snapshot is theta at the
	// start of the window.
	theta, thetaMinus, snapshot *nn.Params

	memory   *replay.Memory // D
	samplers *actor.Group
	updates  *updates
	uniform  policy.Uniform
	explore  *policy.EpsilonGreedy

	backup *nn.Backup // nil: nothing gets lost
	kept   [2]keptCounts

	clock    clock
	schedule schedule
	phase    int   // the row whose turn it is; 0 between rounds
	announce bool  // a notice is due when random steps fill a memory that a file did not have
	first    int64 // the first update of the run, until it is done or a run is loaded; then 0
	unseen   bool  // the call in progress reaches the window's end, and nobody can look before that
	free     int64 // further rounds that fit into the replay's rings for sure; 0: ask again

	emulate emulation
	watch   func(windowEvent) // tests look at windows through it
}

func init() {
	train.Register(&train.Definition{
		Name:      "dqn",
		Doc:       "Deep Q-learning with Concurrent Training and Synchronized Execution",
		Settings:  Settings,
		Common:    func(c any) *train.Common { return &c.(*Config).Common },
		Check:     func(c any) ([]string, error) { return c.(*Config).resolve() },
		Shape:     []string{"env", "env_options", "policy", "normalize_images", "net_arch", "activation_fn", "num_envs", "optimizer", "actor", "action_masks"},
		Placement: []string{"replay_device"},
		Masks:     true,
		Memory:    memoryOf,
		New:       func(s *train.Setup) (train.Method, error) { return newMethod(s) },
	})
}

// network is the network that resolved settings stand for.
func (c *Config) network(spec env.Spec) nn.Spec {
	trunk := nn.Trunk{Arch: "nature_cnn"}
	if c.Policy == train.PolicyMLP {
		trunk = nn.Trunk{Arch: "mlp", Hidden: c.NetArch, Activation: c.ActivationFn}
	}
	return nn.Spec{Obs: spec.Obs, Trunks: []nn.Trunk{trunk}, Heads: []nn.Head{{Name: "q", Out: spec.Action.N}}, Precision: nn.Precision(c.Precision), ISA: c.ISA, RawImages: !c.NormalizeImages}
}

// fit makes what the environments decide about: the policy where that is "auto",
// and whether the replay memory stores one frame a step.
func fit(s *train.Setup) (cfg *Config, net nn.Spec, mem replay.Config, err error) {
	cfg = s.Config.(*Config)
	cfg.FitPolicy(s.Spec.Obs)
	mem = replay.Config{Obs: s.Spec.Obs, Envs: cfg.NumEnvs, Capacity: cfg.BufferSize, Window: cfg.Window, Stack: replay.StackDeclared}
	if s.Spec.Masks {
		mem.Actions = s.Spec.Action.N
	}
	switch {
	case s.Trusted:
		mem.Stack = replay.StackTrusted // ours stack frames as they say
	case s.Source == nil && s.Spec.Obs.FrameStack == 0:
		mem.Stack = replay.StackDetect
		if s.Spec.Obs.DType == env.Uint8 && len(s.Spec.Obs.Shape) == 3 {
			mem.Obs.FrameStack = s.Spec.Obs.Shape[0]
		}
	}
	net = cfg.network(s.Spec)
	if _, err := net.Layout(); err != nil {
		return cfg, net, mem, fmt.Errorf("policy: %s does not fit the environment (MlpPolicy takes any): %w", cfg.Policy, err)
	}
	return cfg, net, mem, nil
}

// memoryOf lists what newMethod will allocate.
func memoryOf(s *train.Setup) ([]limits.Part, error) {
	cfg, net, mem, err := fit(s)
	if err != nil {
		return nil, err
	}
	buffer, err := replay.BytesOf(mem)
	if err != nil {
		return nil, err
	}
	bytes := func(n nn.Needs) int64 {
		b, berr := s.Device.Bytes(net, n)
		err = errors.Join(err, berr)
		return b
	}
	rows := []int{cfg.BatchSize} // of networks that compute targets
	if cfg.DoubleQ {
		rows = append(rows, cfg.BatchSize)
	}
	list := []limits.Part{
		{Setting: fmt.Sprintf("buffer_size: %d", cfg.BufferSize), Bytes: buffer},
		{Setting: fmt.Sprintf("policy: %s, net_arch: %v", cfg.Policy, cfg.NetArch), Bytes: bytes(nn.Needs{Sets: 4, Optimizer: cfg.optimizer()})},
		{Setting: fmt.Sprintf("batch_size: %d", cfg.BatchSize), Bytes: bytes(nn.Needs{LearnerRows: []int{cfg.BatchSize}, NetworkRows: rows}) +
			int64(cfg.BatchSize)*int64(2*s.Spec.Obs.Bytes()+mem.Actions)},
		{Setting: fmt.Sprintf("num_envs: %d", cfg.NumEnvs), Bytes: bytes(nn.Needs{NetworkRows: []int{cfg.NumEnvs}}) + 2*int64(cfg.NumEnvs)*int64(s.Spec.Obs.Bytes())},
	}
	return list, err
}

// optimizer is the optimiser that the settings stand for.
func (c *Config) optimizer() nn.OptimizerConfig {
	o := nn.OptimizerConfig{Name: c.Optimizer}
	if !math.IsNaN(c.OptimizerEps) {
		o.Eps = c.OptimizerEps
	}
	return o
}

func newMethod(s *train.Setup) (d *DQN, err error) {
	cfg, net, mem, err := fit(s)
	if err != nil {
		return nil, err
	}
	d = &DQN{cfg: *cfg, spec: s.Spec, host: s.Host, device: s.Device}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	if d.theta, err = s.InitialParams(net); err != nil {
		return d, err
	}
	d.thetaMinus = d.theta.Clone()
	acting := d.thetaMinus
	switch cfg.Actor {
	case ActorOnline:
		acting = d.theta
	case ActorSnapshot:
		d.snapshot = d.theta.Clone()
		acting = d.snapshot
	}
	if d.memory, err = replay.New(mem); err != nil {
		return d, err
	}
	group := s.Group()
	group.Sink, group.Acting = d.memory, acting
	if group.Joint, err = s.Device.Network(net, cfg.NumEnvs); err != nil {
		return d, err
	}
	if s.Source != nil && !cfg.Synchronized {
		if d.alone, err = s.Device.Another(1, nil); err != nil { // its networks are used by different threads at once
			return d, err
		}
		for range s.Pool.Threads() {
			n, err := d.alone.Network(net, 1)
			if err != nil {
				return d, err
			}
			group.Alone = append(group.Alone, n)
		}
	}
	if d.samplers, err = actor.New(group); err != nil {
		return d, err
	}
	d.uniform = policy.Uniform{Actions: s.Spec.Action.N}
	d.explore = &policy.EpsilonGreedy{Actions: s.Spec.Action.N, Epsilon: func(t int64) float64 { return d.schedule.Epsilon.At(t) }}
	d.schedule = newSchedule(cfg, 1)
	if d.updates, err = newUpdates(d, net, s.Cores); err != nil {
		return d, err
	}
	if d.backup, err = s.Device.Backup(d.backedUp(), d.updates.stepper.Optimizer()); err != nil {
		return d, err
	}
	if cfg.Concurrent {
		d.updates.start()
	}
	if s.Source == nil && !cfg.Synchronized {
		s.Host.Notify("synchronized: false, where the caller steps all environments in one call, changes only how Q-values are computed: one row at a time")
	}
	return d, nil
}

// Begin is train.Method's.
func (d *DQN) Begin(total int64, flags train.Flags) error {
	if flags&train.ResetTimesteps != 0 {
		d.updates.forgive()
	}
	d.free = 0
	if flags&train.ResetEnvs != 0 {
		if err := d.samplers.Reset(); err != nil {
			return err
		}
	}
	if flags&train.ResetTimesteps != 0 {
		// What has not entered D yet does so now, while no window is open.
		d.memory.Flush()
		d.clock = clock{Windows: d.clock.Windows, Begun: d.updates.position(), WarmAt: int64(d.cfg.LearningStarts), Copies: -1}
	}
	d.clock.End = d.clock.steps() + total
	d.schedule = newSchedule(&d.cfg, d.clock.End)
	d.first = d.updates.position() + 1
	d.host.Steps.Store(d.clock.steps())
	return nil
}

// Settle leaves D, theta and theta-minus to the caller. Between Act and Observe the
// updates of the round at hand are done, too: they have begun.
func (d *DQN) Settle(p *train.Pause) error {
	defer d.lookAtRate()
	switch {
	case !d.clock.Warm:
		return d.updates.failed()
	case d.cfg.Concurrent && d.emulate != updatesFirst:
		return d.await(d.due(d.clock.T), p)
	}
	return d.catchUp(p)
}

// lookAtRate reports the first update of a run when it is done. A call in progress calls it.
func (d *DQN) lookAtRate() {
	if d.first > 0 && d.host.Updates.Load() >= d.first {
		d.host.FirstUpdate("learning_rate", d.schedule.Rate, d.updates.stepOf(d.first))
		d.first = 0
	}
}

func (d *DQN) Halt()         { d.updates.halt() }
func (d *DQN) Wake()         { d.updates.wake() }
func (d *DQN) Failed() error { return d.updates.failed() }

// Sets are theta and theta-minus.
func (d *DQN) Sets() []nn.Set {
	return []nn.Set{{Name: "q_net", Params: d.theta, Writable: true}, {Name: "q_net_target", Params: d.thetaMinus, Writable: true}}
}

// Wrote makes the snapshot follow theta.
func (d *DQN) Wrote(set string) {
	d.updates.forgive()
	if set == "q_net" && d.snapshot != nil {
		d.snapshot.CopyFrom(d.theta)
	}
}

// Policy is theta, greedily.
func (d *DQN) Policy() policy.Spec {
	return policy.Spec{Set: "q_net", Env: d.spec, Net: d.cfg.network(d.spec), Kind: policy.Greedy}
}

func (d *DQN) Digests() []train.Digest {
	return []train.Digest{{Name: "replay", Sum: d.memory.Hash}}
}

func (d *DQN) Latest() (*vec.Rows, []int32) { return d.samplers.Latest() }

func (d *DQN) Metrics(m *train.Metrics) {
	c := &d.clock
	scheduled := d.schedule.Epsilon.At(c.T)
	epsilon, outside := 1.0, 0.0
	if c.Warm {
		epsilon = scheduled
	}
	if c.End > 0 { // a run was begun
		outside = scheduled
	}
	m.Due(d.due(c.T))
	m.Add("rollout/exploration_rate", "", "probability of a random action", epsilon)
	m.Add("train/learning_rate", "", "step size of the optimiser at this step", d.schedule.Rate.At(c.steps()))
	m.Add("train/loss", "", "mean of the latest 100 updates", d.updates.meanLoss())
	d.updates.units.Metrics(m, d.host)
	m.Add("windows", "", "flushes into the replay memory after the warm-up", float64(c.Windows))
	m.Add("replay_size", "transitions", "transitions that can be sampled", float64(d.memory.Len()))
	m.Add("replay_pending", "transitions", "transitions that can be sampled from the next window on", float64(d.memory.Pending()))
	m.Add("replay_bytes", "bytes", "memory of the replay, every slot counted", float64(d.memory.Bytes()))
	m.Add("predict/exploration_rate", "", "the schedule's probability of a random action, also while the memory is filled at random; 0 before the first run", outside)
}

// Close ends the trainer thread and frees what New made.
func (d *DQN) Close() error {
	if d.updates != nil {
		d.updates.close()
	}
	if d.samplers != nil {
		d.samplers.Close()
	}
	if d.alone != nil {
		d.alone.Close()
	}
	if d.memory != nil {
		d.memory.Close()
	}
	return nil
}

func isNotFinite(err error) bool { return errors.Is(err, fault.ErrNotFinite) }
