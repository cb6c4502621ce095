package a2c

import (
	"fmt"
	"math"
	"slices"

	"github.com/paceline-rl/paceline/core/limits"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/onpolicy"
)

// A2C is train.Method by synchronous advantage actor-critic. Theta is theta and theta_v.
type A2C struct {
	onpolicy.Run
	cfg    Config // resolved
	batch  nn.Batch
	vtrace *onpolicy.VTrace // nil: without V-trace
	// explained is the rollout.ExplainedVariance of the latest update.
	explained float64
}

// Columns of the loss, in the order of nn.ActorCritic's.
const (
	columnAdvantage = iota
	columnReturn
	columnWeight
	columns
)

func init() {
	train.Register(&train.Definition{
		Name:      "a2c",
		Doc:       "synchronous advantage actor-critic, with n-step returns or GAE(lambda)",
		Settings:  Settings,
		Shape:     slices.Concat(onpolicy.Shape, train.OutsideShape),
		Masks:     true,
		AnyAction: true,
		Memory:    memoryOf,
		New:       newA2C,
	})
}

// memoryOf lists what newA2C will allocate.
func memoryOf(s *train.Setup) ([]limits.Part, error) {
	c := s.Config.(*Config)
	run, err := c.run(s)
	if err != nil {
		return nil, err
	}
	list, err := run.Memory(s)
	if c.VTrace {
		own := onpolicy.VTraceBytes(s.Spec, run.Batch, columns)
		list = append(list, limits.Part{Setting: fmt.Sprintf("vtrace_groups: %d", c.VTraceGroups), Bytes: own})
	}
	return list, err
}

func newA2C(s *train.Setup) (train.Method, error) {
	cfg := s.Config.(*Config)
	run, err := cfg.run(s)
	if err != nil {
		return nil, err
	}
	a := &A2C{cfg: *cfg, batch: nn.Batch{Columns: make([][]float32, columns)}}
	if err := a.Init(s, run, a); err != nil {
		return nil, err
	}
	if cfg.VTrace {
		a.vtrace = onpolicy.NewVTrace(&a.Worker, s.Spec, &cfg.VTraceSettings, cfg.Gamma, cfg.GAELambda, cfg.NumEnvs/cfg.VTraceGroups, columns)
	}
	return a, nil
}

// Metrics reports the current numbers and those of the latest update.
func (a *A2C) Metrics(m *train.Metrics) {
	a.Run.Metrics(m)
	surrogate, value, entropy, norm, explained := math.NaN(), math.NaN(), math.NaN(), math.NaN(), math.NaN()
	if r := &a.Report; len(r.Parts) > 0 { // nn.ActorCritic's
		surrogate, value, entropy, norm, explained = r.Parts[0], r.Parts[1], r.Parts[2], r.Norm, a.explained
	}
	m.Add("train/policy_loss", "", "mean of -advantage log pi over the latest update's rows", surrogate)
	m.Add("train/value_loss", "", "mean of the value's squared error over the latest update's rows", value)
	m.Add("train/entropy_loss", "nats", "minus the mean of the policy's entropy over the latest update's rows", -entropy)
	m.Add("train/explained_variance", "", "part of the returns' variance that the values explain, of the latest update's rows", explained)
	m.Add("train/grad_norm", "", "Euclidean norm of the latest update's gradient, before clipping", norm)
}
