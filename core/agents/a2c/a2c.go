package a2c

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"

	"github.com/paceline-rl/paceline/core/actor"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/rollout"
	"github.com/paceline-rl/paceline/core/train"
)

// A2C is train.Method by synchronous advantage actor-critic.
type A2C struct {
	cfg  Config // resolved
	spec env.Spec
	net  nn.Spec
	host *train.Host

	theta   *nn.Params // theta and theta_v
	actors  *actor.Group
	softmax *policy.Softmax
	rollout *rollout.Rollout

	network   nn.Network // acts, and values what returns are bootstrapped from
	learner   nn.Learner
	optimizer nn.Optimizer
	gradient  []float32
	batch     nn.Batch
	report    nn.Report // of the latest update
	gradNorm  float64   // before clipping

	clock clock
	err   error // ended training; no update is done after it
}

// clock is every count and schedule.
type clock struct {
	Steps   int64          `json:"steps"` // T: num_timesteps
	End     int64          `json:"end"`   // T_max
	Updates int64          `json:"updates"`
	Rate    train.Schedule `json:"learning_rate"`
}

// set is the name of theta.
const set = "policy"

// Columns of the loss, in the order of nn.ActorCritic's.
const (
	columnAdvantage = iota
	columnReturn
	columnWeight
	columns
)

func init() {
	train.Register(&train.Definition{
		Name:     "a2c",
		Doc:      "synchronous advantage actor-critic, with n-step returns or GAE(lambda)",
		Settings: Settings,
		Common:   func(c any) *train.Common { return &c.(*Config).Common },
		Check:    func(c any) ([]string, error) { return c.(*Config).resolve() },
		Shape:    []string{"env", "env_options", "policy", "cnn", "net_arch_pi", "net_arch_vf", "trunk", "activation_fn", "num_envs", "use_rms_prop"},
		Memory:   memoryOf,
		New:      func(s *train.Setup) (train.Method, error) { return newA2C(s) },
	})
}

// rolloutConfig is the rollout that the settings ask for.
func (c *Config) rolloutConfig(spec env.Spec, columns []string) rollout.Config {
	return rollout.Config{Obs: spec.Obs, Actions: spec.Action.N, Horizon: c.NSteps, Envs: c.NumEnvs, Columns: columns}
}

// memoryOf lists what newA2C will allocate.
func memoryOf(s *train.Setup) ([]train.Allocation, error) {
	cfg := s.Config.(*Config)
	net, err := cfg.fit(s.Spec)
	if err != nil {
		return nil, err
	}
	var list []train.Allocation
	add := func(setting string, own int64, n nn.Needs) {
		bytes, nerr := s.Device.Bytes(net, n)
		err = errors.Join(err, nerr)
		list = append(list, train.Allocation{Setting: setting, Bytes: own + bytes})
	}
	rows := cfg.rolloutConfig(s.Spec, (*policy.Softmax)(nil).Columns())
	add(fmt.Sprintf("n_steps: %d", cfg.NSteps), rows.Bytes(), nn.Needs{LearnerRows: []int{cfg.NSteps * cfg.NumEnvs}})
	add(fmt.Sprintf("num_envs: %d", cfg.NumEnvs), 2*int64(cfg.NumEnvs*s.Spec.Obs.Bytes()), nn.Needs{NetworkRows: []int{cfg.NumEnvs}})
	add("policy: "+cfg.Policy, 0, nn.Needs{Sets: 2, Optimizer: cfg.optimizer()}) // theta and the gradient
	return list, err
}

func newA2C(s *train.Setup) (*A2C, error) {
	cfg := s.Config.(*Config)
	net, err := cfg.fit(s.Spec)
	if err != nil {
		return nil, err
	}
	a := &A2C{cfg: *cfg, spec: s.Spec, net: net, host: s.Host, softmax: &policy.Softmax{Pi: headPi, V: headV},
		batch: nn.Batch{Columns: make([][]float32, columns)}, clock: clock{Rate: cfg.rate(1)}}
	if a.theta, err = s.InitialParams(net); err != nil {
		return nil, err
	}
	a.gradient = make([]float32, a.theta.Layout.Size)
	if a.rollout, err = rollout.New(cfg.rolloutConfig(s.Spec, a.softmax.Columns())); err != nil {
		return nil, err
	}
	if a.network, err = s.Device.Network(net, cfg.NumEnvs); err != nil {
		return nil, err
	}
	if a.learner, err = s.Device.Learner(net, cfg.NSteps*cfg.NumEnvs, nn.ActorCritic{EntropyCoef: cfg.EntCoef, ValueCoef: cfg.VfCoef}); err != nil {
		return nil, err
	}
	if a.optimizer, err = s.Device.Optimizer(cfg.optimizer(), a.theta.Layout.Size); err != nil {
		return nil, err
	}
	group := s.Group()
	group.Sink, group.Columns, group.Joint, group.Acting = a.rollout, len(a.softmax.Columns()), a.network, a.theta
	a.actors = actor.New(group)
	return a, nil
}

// Begin is train.Method's.
func (a *A2C) Begin(total int64, flags train.Flags) error {
	if flags&train.ResetTimesteps != 0 {
		a.forgive()
	}
	if flags&train.ResetEnvs != 0 {
		if err := a.actors.Reset(); err != nil {
			return err
		}
	}
	if flags&train.ResetTimesteps != 0 {
		a.clock.Steps, a.clock.Rate = 0, a.cfg.rate(total)
	}
	a.clock.End = a.clock.Steps + total
	a.host.Steps.Store(a.clock.Steps)
	return nil
}

// Settle leaves theta to the caller, after the update of a rollout that is full.
func (a *A2C) Settle(*train.Pause) error { return a.betweenRounds() }

// Halt and Wake have nothing to do: an update is done by the call that waits for it.
func (a *A2C) Halt() {}
func (a *A2C) Wake() {}

// Failed returns the error that ended training, if one did.
func (a *A2C) Failed() error { return a.err }

// forgive lets training that ended with a loss that is not finite go on, because the
// parameters, or the run, are others now. The rollout that gave it is not learnt from.
func (a *A2C) forgive() {
	if errors.Is(a.err, fault.ErrNotFinite) {
		if err := a.rollout.Next(); err == nil {
			a.err = nil
		}
	}
}

// Sets is theta.
func (a *A2C) Sets() []nn.Set { return []nn.Set{{Name: set, Params: a.theta, Writable: true}} }

// Wrote is train.Method's.
func (a *A2C) Wrote(string) { a.forgive() }

// Policy is theta, whose actions are drawn or the likeliest.
func (a *A2C) Policy() policy.Spec {
	return policy.Spec{Set: set, Env: a.spec, Net: a.net, Head: headPi, Kind: policy.Categorical}
}

// Digests are the rollout as a checkpoint holds it.
func (a *A2C) Digests() []train.Digest {
	return []train.Digest{{Name: "rollout", Sum: func() (sum [32]byte) {
		h := sha256.New()
		if err := a.rollout.Save(h); err != nil { // only in mid-round, where nobody looks
			return sum
		}
		return [32]byte(h.Sum(nil))
	}}}
}

// Metrics reports numbers of this moment and of the latest update.
func (a *A2C) Metrics(m *train.Metrics) {
	due := a.clock.Updates
	if a.rollout.Full() && a.rollout.Steps() > 0 {
		due++
	}
	m.Due(due)
	m.Add("train/learning_rate", "", "step size of the optimiser at this step", a.clock.Rate.At(a.clock.Steps))
	loss, policy, value, entropy, norm := math.NaN(), math.NaN(), math.NaN(), math.NaN(), math.NaN()
	if r := &a.report; len(r.Parts) > 0 { // nn.ActorCritic's
		loss, policy, value, entropy, norm = r.Loss, r.Parts[0], r.Parts[1], r.Parts[2], a.gradNorm
	}
	m.Add("train/loss", "", "of the latest update", loss)
	m.Add("train/policy_loss", "", "mean of -advantage log pi over the latest update's rows", policy)
	m.Add("train/value_loss", "", "mean of the value's squared error over the latest update's rows", value)
	m.Add("train/entropy", "nats", "mean of the policy's entropy over the latest update's rows", entropy)
	m.Add("train/grad_norm", "", "Euclidean norm of the latest update's gradient, before clipping", norm)
}

// Close has nothing to free: what A2C computes with is the Trainer's.
func (a *A2C) Close() error { return nil }
