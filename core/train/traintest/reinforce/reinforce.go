// Package reinforce is REINFORCE (Williams 1992): the smallest method, an example for whoever
// writes one. No program of the library imports it.
//
// A batch is n_steps rounds. Every step whose episode has ended in them has its whole discounted
// return G; the others have weight 0. The gradient is that of mean(-log pi(a|s) (G - b)), where b
// is the mean of G. A truncated episode counts as a whole one.
package reinforce

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/paceline-rl/paceline/core/actor"
	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/rollout"
	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/vec"
)

// Config holds every setting of a run.
type Config struct {
	train.Common
	NetArch             []int
	LearningRate, Gamma float64
	NSteps              int
}

var table = settings.New[Config]("reinforce", append(train.CommonSettings(func(c *Config) *train.Common { return &c.Common }), []settings.Setting{
	settings.Ints("net_arch", "64", 1, 65536, "widths", "widths of the hidden layers", func(c *Config) *[]int { return &c.NetArch }),
	settings.Float("learning_rate", 0.01, 0, 1e3, "step size of Adam", func(c *Config) *float64 { return &c.LearningRate }),
	settings.Float("gamma", 0.99, 0, 1, "discount factor", func(c *Config) *float64 { return &c.Gamma }),
	settings.Int("n_steps", 64, 1, 1024, "rounds of a batch: several episodes", func(c *Config) *int { return &c.NSteps }),
}...), nil)

func init() {
	train.Register(&train.Definition{
		Name: "reinforce", Doc: "Monte-Carlo policy gradient", Settings: table, Memory: memoryOf, New: newReinforce,
		Common: func(c any) *train.Common { return &c.(*Config).Common },
		Check:  func(c any) ([]string, error) { return nil, table.Over(c).Check() },
		Shape:  []string{"env", "env_options", "net_arch", "num_envs"},
	})
}

// Reinforce is train.Method by REINFORCE.
type Reinforce struct {
	cfg       *Config
	host      *train.Host
	policy    policy.Spec
	theta     *nn.Params
	softmax   policy.Softmax
	actors    *actor.Group
	rollout   *rollout.Rollout
	optimizer nn.Optimizer
	stepper   nn.Stepper
	report    nn.Report // of the latest update
	err       error     // ended training
}

// network has the value that rollout and loss ask for; it is neither used nor trained.
func (c *Config) network(spec env.Spec) nn.Spec {
	heads := []nn.Head{{Name: "pi", Out: spec.Action.N, Gain: 0.01}, {Name: "v", Out: 1}}
	return nn.Spec{Obs: spec.Obs, Trunks: []nn.Trunk{{Arch: "mlp", Hidden: c.NetArch, Activation: "tanh"}}, Heads: heads, Init: "orthogonal", Precision: nn.Precision(c.Precision)}
}

func memoryOf(s *train.Setup) ([]train.Allocation, error) {
	c := s.Config.(*Config)
	rows := c.NSteps * c.NumEnvs
	bytes, err := s.Device.Bytes(c.network(s.Spec), nn.Needs{Sets: 2, NetworkRows: []int{c.NumEnvs}, LearnerRows: []int{rows}, Optimizer: nn.OptimizerConfig{Name: "adam"}})
	return []train.Allocation{{Setting: fmt.Sprint("n_steps: ", c.NSteps), Bytes: bytes + int64(2*rows*s.Spec.Obs.Bytes())}}, err
}

func newReinforce(s *train.Setup) (_ train.Method, err error) {
	c := s.Config.(*Config)
	net, group := c.network(s.Spec), s.Group()
	r := &Reinforce{cfg: c, host: s.Host, policy: policy.Spec{Set: "policy", Env: s.Spec, Net: net, Kind: policy.Categorical}, softmax: policy.Softmax{Pi: 0, V: 1}}
	columns := r.softmax.Columns()
	if r.theta, err = s.InitialParams(net); err != nil {
		return nil, err
	}
	if r.rollout, err = rollout.New(rollout.Config{Obs: s.Spec.Obs, Actions: s.Spec.Action.N, Horizon: c.NSteps, Envs: c.NumEnvs, Columns: columns}); err != nil {
		return nil, err
	}
	if group.Joint, err = s.Device.Network(net, c.NumEnvs); err != nil {
		return nil, err
	}
	learner, err := s.Device.Learner(net, c.NSteps*c.NumEnvs, nn.ActorCritic{})
	if err != nil {
		return nil, err
	}
	if r.optimizer, err = s.Device.Optimizer(nn.OptimizerConfig{Name: "adam"}, r.theta.Layout.Size); err != nil {
		return nil, err
	}
	group.Sink, group.Columns, group.Acting = r.rollout, len(columns), r.theta
	r.actors = actor.New(group)
	r.stepper, err = s.Device.Stepper(learner, r.optimizer, 0.5)
	return r, err
}

// Advance is train.Method's.
func (r *Reinforce) Advance(until int64, p *train.Pause) error {
	if err := r.actors.Repair(); err != nil {
		return err
	}
	for r.host.Steps.Load() < until && !p.Over(r.host.Mark()) {
		if err := r.choose(); err != nil {
			return err
		}
		n, err := r.actors.Round()
		r.host.Lap(&r.host.Env)
		if err := errors.Join(err, r.endRound(n)); err != nil {
			return err
		}
	}
	return nil
}

// Act is train.Pushed's.
func (r *Reinforce) Act(rows *vec.Rows, _ *train.Pause) ([]int32, error) {
	if err := r.actors.Use(rows, r.host.Steps.Load()); err != nil {
		return nil, err
	}
	return r.actors.Actions(), r.choose()
}

// Observe is train.Pushed's.
func (r *Reinforce) Observe(rows *vec.Rows, _ *train.Pause) error {
	n, err := r.actors.Observe(rows, r.host.Steps.Load(), nil)
	if err != nil {
		return err
	}
	return r.endRound(n)
}

func (r *Reinforce) choose() error {
	if err := r.Settle(nil); err != nil {
		return err
	}
	defer r.host.Lap(&r.host.Act)
	return r.actors.Choose(r.host.Steps.Load(), &r.softmax, true)
}

// endRound counts n steps. In a full rollout it takes the steps whose episode goes on out of
// the loss: their return is not known.
func (r *Reinforce) endRound(n int64) error {
	r.host.Count(r.host.Steps.Load()+n, r.actors)
	err := r.rollout.EndRound()
	b, envs := r.rollout.Batch(), r.cfg.NumEnvs
	for i := 0; i < envs && r.rollout.Full(); i++ {
		for k := len(b.Ends) - envs + i; k >= 0 && b.Ends[k] == 0; k -= envs {
			b.Weights[k] = 0
		}
	}
	return err
}

// due reports whether there is something to learn from.
func (r *Reinforce) due() bool { return r.rollout.Full() && r.rollout.Steps() > 0 }

// Settle does the update that is due when the rollout is full.
func (r *Reinforce) Settle(*train.Pause) error {
	if r.err != nil || !r.rollout.Full() {
		return r.err
	}
	began := time.Now()
	if r.due() {
		if r.err = r.update(); r.err != nil {
			return r.err
		}
	}
	r.host.Train.Add(int64(time.Since(began)))
	r.host.Lap(new(time.Duration))
	return r.rollout.Next()
}

func (r *Reinforce) update() error {
	zeros := func(_ []byte, rows int) ([]float32, error) { return make([]float32, rows), nil }
	if err := r.rollout.Finish(r.cfg.Gamma, 1, zeros); err != nil {
		return err
	}
	b := r.rollout.Batch()
	sum := 0.0
	for k, w := range b.Weights {
		sum += float64(w) * float64(b.Returns[k])
	}
	for k, g := range b.Returns {
		b.Advantages[k] = g - float32(sum/float64(r.rollout.Steps()))
	}
	err := r.stepper.Update(r.theta, 1, func(_ int, batch *nn.Batch) (float64, error) {
		*batch = nn.Batch{Obs: b.Obs, Actions: b.Actions, Columns: [][]float32{b.Advantages, b.Returns, b.Weights}}
		return r.cfg.LearningRate, nil
	}, &r.report)
	if err != nil {
		return fmt.Errorf("step %d: %w", r.host.Steps.Load(), err)
	}
	r.host.Updates.Add(1)
	return nil
}

// Parts lists a checkpoint's parts.
func (r *Reinforce) Parts(saving bool) []checkpoint.Part {
	save := func() (clock, error) { return clock{r.host.Steps.Load(), r.host.Updates.Load()}, nil }
	load := func(c clock) (func(), error) {
		if c.Steps < 0 || c.Updates < 0 || c.Updates > c.Steps {
			return nil, fmt.Errorf("clock: %d updates after %d steps", c.Updates, c.Steps)
		}
		return func() {
			r.host.Steps.Store(c.Steps)
			r.host.Updates.Store(c.Updates)
			r.theta.Updates, r.err = uint64(c.Updates), nil
			_ = r.optimizer.SetState(c.Updates, r.optimizer.State())
		}, nil
	}
	return []checkpoint.Part{
		policy.SetPart("policy", r.theta), nn.OptimizerPart("optimizer.safetensors", r.optimizer),
		checkpoint.JSON("clock.json", 1<<20, save, load), r.actors.Exploration(),
		{Name: "rollout.bin", Version: 1, Optional: true, Write: r.rollout.Save, Read: r.rollout.Load}, r.actors.Environments(saving),
	}
}

type clock struct{ Steps, Updates int64 }

// Begin is train.Method's.
func (r *Reinforce) Begin(_ int64, flags train.Flags) error {
	if flags&train.ResetTimesteps != 0 {
		r.Wrote("")
		r.host.Steps.Store(0)
	}
	if flags&train.ResetEnvs != 0 {
		return r.actors.Reset()
	}
	return nil
}

// Wrote lets training that ended with a loss that is not finite go on.
func (r *Reinforce) Wrote(string) {
	if errors.Is(r.err, fault.ErrNotFinite) {
		r.err = r.rollout.Next()
	}
}

// The rest of train.Method.
func (r *Reinforce) Halt()         {}
func (r *Reinforce) Wake()         {}
func (r *Reinforce) Close() error  { return nil }
func (r *Reinforce) Failed() error { return r.err }
func (r *Reinforce) Sets() []nn.Set {
	return []nn.Set{{Name: "policy", Params: r.theta, Writable: true}}
}
func (r *Reinforce) Policy() policy.Spec     { return r.policy }
func (r *Reinforce) Digests() []train.Digest { return nil }

// Metrics is train.Method's.
func (r *Reinforce) Metrics(m *train.Metrics) {
	due, loss := r.host.Updates.Load(), math.NaN()
	if r.due() {
		due++
	}
	if due > 0 {
		loss = r.report.Loss
	}
	m.Due(due)
	m.Add("train/learning_rate", "", "step size of Adam", r.cfg.LearningRate)
	m.Add("train/loss", "", "of the latest update", loss)
}
