// Package offpolicy is what methods share that learn Q-values from a replay memory: DQN. A method
// embeds a Run, which is train.Method except Advance, and train.Pushed except Act. Both are the
// method's, to be read beside its paper; they say when a window ends, when the target network is
// updated and which chooser acts.
//
// # Pieces
//
//	Clock       clock.go       every count and schedule: what is due at a step
//	Run         window.go      windows: when updates are released and waited for
//	            rounds.go      steps, and the room for them in the replay memory
//	Updates     updates.go     the thread that does updates
//	progress    progress.go    how many updates are released and done
//	updater     updater.go     an update: draws a minibatch, takes a step
//	gpu         gpu.go         many updates at once on a GPU that has the frames of the replay memory
//	prefetch    prefetch.go    minibatches of coming updates, drawn and uploaded
//	backup      backup.go      copies of what is lost with a GPU
//	noise       noise.go       the parameters that a noisy network acts with
//	            learner.go     a Run as one of several learners
//	            decoupled.go   a Run as a replay memory or a learner decoupled from the actors
//
// # What holds for a Run
//
//   - Inside a window the replay memory and ThetaMinus do not change, so the window's updates are
//     defined at its start and may run at any time inside it. The replay memory is flushed while no
//     window is open, with two exceptions. Without concurrent training it is also flushed before
//     the updates that the latest steps have made due. AddTransitions flushes it at any time, and
//     prefetched minibatches are then drawn again.
//   - The trainer thread writes Theta and the optimiser, and only while an update is in progress.
//     Every other reader and writer first waits until no update is in progress (Updates.wait).
//   - Which updates are due is a function of the counts (Config.updatesDue). A reader waits for
//     exactly these updates, so a result is a function of the seed and the step.
//   - A checkpoint's parts, and their order, are the same for every method.
//
// A Run belongs to its train.Trainer and is called by one goroutine at a time, except Wake.
package offpolicy

import (
	"errors"
	"fmt"
	"math"

	"github.com/paceline-rl/paceline/core/actor"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/limits"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/replay"
	"github.com/paceline-rl/paceline/core/train"
)

// Config is what a method brings.
type Config struct {
	Net        nn.Spec
	NetSetting string // the settings that decide its size, for errors: "policy: MlpPolicy, net_arch: [64]"

	Concurrent   bool   // updates run concurrently with the steps of a window
	Synchronized bool   // one forward pass serves all environments of a round
	Actor        string // whose parameters act: ActorOnline, ActorTarget or ActorSnapshot
	Periods      Periods

	BufferSize     int // transitions that can be drawn
	ReplayDevice   string
	LearningStarts int // steps with random actions before the first update
	BatchSize      int
	Gamma          float64
	NSteps         int          // rewards in a target
	Tails          replay.Tails // of segments that end before n steps
	// Priorities are those of minibatches; nil: minibatches are drawn uniformly. Their N and Tails are
	// NSteps and Tails. The loss fills in nn.Report.Rows with the errors that the formula takes, and
	// has importance weights.
	Priorities  *replay.Priorities
	Target      nn.Target
	Loss        nn.Loss
	Optimizer   nn.OptimizerConfig
	MaxGradNorm float64 // 0: gradients are not clipped
	// Outliers is the number of deviations by which the loss of a gradient may exceed the mean. A
	// gradient with a larger loss is dropped. 0: none is.
	Outliers float64
	// Epsilon and Rate are the schedules of a run that ends at a step. Epsilon counts steps after
	// the warm-up, Rate counts all steps. With Periods.ByUpdates both count updates.
	Epsilon, Rate func(end int64) train.Schedule
	// Beta is the exponent of importance weights, by all steps; nil without Priorities.
	Beta func(end int64) train.Schedule
}

// Actors: the parameters that choose actions.
const (
	ActorOnline   = "online"   // Theta
	ActorTarget   = "target"   // ThetaMinus
	ActorSnapshot = "snapshot" // Theta as it was at the window's start
)

// Values of ReplayDevice: where minibatches are gathered.
const (
	ReplayAuto = "auto"
	ReplayCPU  = "cpu"
	ReplayCUDA = "cuda"
)

// Run is the state of a run of such a method.
type Run struct {
	Monitor *train.Monitor
	// Device computes for the main thread; alone, where samplers act on threads of their own, for
	// these threads.
	Device nn.Device
	alone  nn.Device

	// The parameter sets. Snapshot is Theta at the window's start; nil: another set acts.
	Theta, ThetaMinus, Snapshot *nn.Params
	noise                       *noise // of the acting network; nil: it is not noisy

	Memory   *replay.Memory
	drawing  replay.Sampler // of Memory
	Samplers *actor.Group
	Updates  *Updates

	Clock    Clock
	Schedule Schedule

	cfg  Config
	spec env.Spec
	envs int
	// learners share the run. Each does its updates on the main thread. 0: the Run is alone.
	learners int
	learner  int   // the number of the Run among them
	hold     int64 // the latest update that may be due: see HoldUpdates
	room     room
	turn     int // the environment that steps next, where samplers step alone; 0 between rounds
	backup   backup

	// refillNotice says that Notify owes a sentence about random steps that fill the memory again.
	refillNotice bool
	// firstUpdate is the number of the run's first update, until it is done; then 0.
	firstUpdate int64

	order Order
	// Watch is called at the start and at the end of every window, for tests.
	Watch func(WindowEvent)
}

// replay describes the replay memory.
func (c *Config) replay(s *train.Setup) replay.Config {
	m := replay.Config{Obs: s.Spec.Obs, Envs: s.Common.NumEnvs, Capacity: c.BufferSize, Window: int(c.Periods.Window), Stack: replay.StackDeclared}
	if s.Spec.Masks {
		m.Actions, m.OwnMasks = s.Spec.Action.N, c.ownMasks()
	}
	switch {
	case s.Trusted:
		m.Stack = replay.StackTrusted
	case s.Source == nil && s.Spec.Obs.FrameStack == 0:
		m.Stack = replay.StackDetect
		if s.Spec.Obs.DType == env.Uint8 && len(s.Spec.Obs.Shape) == 3 {
			m.Obs.FrameStack = s.Spec.Obs.Shape[0]
		}
	}
	return m
}

// ownMasks reports whether targets need the masks of observations.
func (c *Config) ownMasks() bool {
	_, soft := c.Target.(nn.Munchausen)
	return soft
}

// drawing returns the Sampler of a replay memory.
func (c *Config) drawing(m *replay.Memory) (replay.Sampler, error) {
	if c.Priorities == nil {
		return replay.NewUniform(m, c.NSteps, c.Tails)
	}
	p := *c.Priorities
	p.N, p.Tails = c.NSteps, c.Tails
	return replay.NewPrioritised(m, p)
}

// Memory lists what Init will allocate.
func (c *Config) Memory(s *train.Setup) ([]limits.Part, error) {
	mem, envs := c.replay(s), s.Common.NumEnvs
	buffer, err := replay.BytesOf(mem)
	if err != nil {
		return nil, err
	}
	bytesOf := func(net nn.Spec, n nn.Needs) int64 {
		b, berr := s.Device.Bytes(net, n)
		err = errors.Join(err, berr)
		return b
	}
	bytes := func(n nn.Needs) int64 { return bytesOf(c.Net, n) }
	updates := bytesOf(nn.LearnerSpec(c.Net, c.Loss), nn.Needs{LearnerRows: []int{c.BatchSize}})
	for _, net := range nn.TargetSpecs(c.Net, c.Target) {
		updates += bytesOf(net, nn.Needs{NetworkRows: []int{c.BatchSize}})
	}
	// Where targets are distributions, columns are the numbers of a transition's target.
	columns := 0
	for _, column := range c.Loss.Columns(&c.Net) {
		if column.Width > 1 {
			columns += column.Width
		}
	}
	masks := mem.Actions
	if mem.OwnMasks {
		masks *= 2
	}
	list := []limits.Part{
		{Setting: fmt.Sprintf("buffer_size: %d", c.BufferSize), Bytes: buffer},
		{Setting: c.NetSetting, Bytes: bytes(nn.Needs{Sets: 4 + c.noisySets(), Optimizer: c.Optimizer})},
		{Setting: fmt.Sprintf("batch_size: %d", c.BatchSize), Bytes: updates +
			int64(c.BatchSize)*int64(2*s.Spec.Obs.Bytes()+masks+4*columns)},
		{Setting: fmt.Sprintf("num_envs: %d", envs), Bytes: bytes(nn.Needs{NetworkRows: []int{envs}}) + 2*int64(envs)*int64(s.Spec.Obs.Bytes())},
	}
	if c.Priorities != nil {
		list = append(list, limits.Part{Setting: fmt.Sprintf("prioritized: %s", c.Priorities.Formula), Bytes: replay.PrioritiesBytes(mem, *c.Priorities)})
	}
	return list, err
}

// Init makes everything of a run. After an error Close frees what was made.
func (r *Run) Init(s *train.Setup, c Config) (err error) {
	*r = Run{Monitor: s.Monitor, Device: s.Device, cfg: c, spec: s.Spec, envs: s.Common.NumEnvs, learners: s.Learners, learner: s.Learner(), hold: math.MaxInt64}
	if r.Theta, err = s.InitialParams(c.Net); err != nil {
		return err
	}
	r.ThetaMinus = r.Theta.Clone()
	acting := r.ThetaMinus
	switch c.Actor {
	case ActorOnline:
		acting = r.Theta
	case ActorSnapshot:
		r.Snapshot = r.Theta.Clone()
		acting = r.Snapshot
	}
	if r.noise, err = newNoise(c.Net, acting, uint64(s.Common.Seed), s.Learner()); err != nil {
		return err
	}
	if r.noise != nil {
		acting = r.noise.noisy
	}
	if r.Memory, err = replay.New(c.replay(s)); err != nil {
		return err
	}
	if r.drawing, err = c.drawing(r.Memory); err != nil {
		return err
	}
	r.room = room{memory: r.Memory, envs: r.envs}
	if err := r.makeSamplers(s, acting); err != nil {
		return err
	}
	r.Schedule = c.schedule(1, r.learners)
	if r.Updates, err = newUpdates(r, s); err != nil {
		return err
	}
	if err := r.backup.init(r); err != nil {
		return err
	}
	switch {
	case s.Learners > 0:
		r.order = UpdatesLast
	case c.Concurrent:
		r.Updates.start()
	}
	if s.Source == nil && !c.Synchronized {
		s.Monitor.Notify("synchronized: false, where the caller steps all environments in one call, changes only how Q-values are computed: one row at a time")
	}
	return nil
}

func (r *Run) makeSamplers(s *train.Setup, acting *nn.Params) (err error) {
	group := s.Group()
	group.Sink, group.Acting = r.Memory, acting
	if group.Joint, err = s.Device.Network(r.cfg.Net, r.envs); err != nil {
		return err
	}
	if s.Source != nil && !r.cfg.Synchronized {
		// Its networks are used by different threads at once.
		if r.alone, err = s.Device.Another(1, nil); err != nil {
			return err
		}
		for range s.Pool.Threads() {
			n, err := r.alone.Network(r.cfg.Net, 1)
			if err != nil {
				return err
			}
			group.Alone = append(group.Alone, n)
		}
	}
	r.Samplers, err = actor.New(group)
	return err
}

// Close ends the trainer thread and frees what Init made.
func (r *Run) Close() error {
	if r.Updates != nil {
		r.Updates.close()
	}
	if r.Samplers != nil {
		r.Samplers.Close()
	}
	if r.alone != nil {
		r.alone.Close()
	}
	if r.Memory != nil {
		r.Memory.Close()
	}
	return nil
}
