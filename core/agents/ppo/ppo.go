package ppo

import (
	"fmt"
	"math"
	"slices"

	"github.com/paceline-rl/paceline/core/limits"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/onpolicy"
)

// PPO is train.Method by proximal policy optimization.
type PPO struct {
	onpolicy.Run
	cfg         Config // resolved
	minibatches *onpolicy.Minibatches
	perEpoch    int              // minibatches of an epoch
	vtrace      *onpolicy.VTrace // nil: without V-trace
	latest      means
}

// Columns of the loss, in the order of nn.PPO's.
const (
	columnAdvantage = iota
	columnReturn
	columnWeight
	columnLogProb
	columnClip
	columnOldValue
	columnClipVf
	columns
)

// vtraceColumns are the columns of V-trace's rows: advantage, return, weight.
const vtraceColumns = columnWeight + 1

func init() {
	train.Register(&train.Definition{
		Name:      "ppo",
		Doc:       "proximal policy optimization, with the clipped objective",
		Settings:  Settings,
		Shape:     slices.Concat(onpolicy.Shape, train.OutsideShape),
		Masks:     true,
		AnyAction: true,
		Memory:    memoryOf,
		New:       newPPO,
	})
}

// memoryOf lists what newPPO will allocate.
func memoryOf(s *train.Setup) ([]limits.Part, error) {
	c := s.Config.(*Config)
	run, err := c.run(s)
	if err != nil {
		return nil, err
	}
	list, err := run.Memory(s)
	own := onpolicy.MinibatchesBytes(s.Spec, c.BatchSize, columns, c.NSteps*c.NumEnvs)
	list = append(list, limits.Part{Setting: fmt.Sprintf("batch_size: %d", c.BatchSize), Bytes: own})
	if c.VTrace {
		list = append(list, limits.Part{Setting: "vtrace: true", Bytes: onpolicy.VTraceBytes(s.Spec, c.NSteps*c.NumEnvs, vtraceColumns)})
	}
	return list, err
}

func newPPO(s *train.Setup) (train.Method, error) {
	cfg := s.Config.(*Config)
	run, err := cfg.run(s)
	if err != nil {
		return nil, err
	}
	p := &PPO{cfg: *cfg, perEpoch: run.Minibatches / cfg.NEpochs}
	if err := p.Init(s, run, p); err != nil {
		return nil, err
	}
	p.minibatches = onpolicy.NewMinibatches(&p.Run, s.Spec, cfg.BatchSize, columns, columnWeight)
	if cfg.VTrace {
		p.vtrace = onpolicy.NewVTrace(&p.Worker, s.Spec, &cfg.VTraceSettings, cfg.Gamma, cfg.GAELambda, cfg.NumEnvs, vtraceColumns)
	}
	return p, nil
}

// at returns the current value of a schedule, or +Inf if there is none: clip_range_vf is optional.
func (p *PPO) at(name string) float64 {
	if s, ok := p.Clock.Schedules[name]; ok {
		return s.At(p.Clock.Now())
	}
	return math.Inf(1)
}

// means are means over the minibatches of an update that are done. After a load inside an update,
// they are over the minibatches since the load.
type means struct {
	n          int
	parts      []float64 // sums, in the order of nn.PPO's
	epoch      epochMean // of the divergence
	norm       float64   // of the latest minibatch
	divergence float64   // of the latest minibatch
	explained  float64
}

// epochMean is a mean over the minibatches of an epoch that are done.
type epochMean struct {
	number int64 // Clock.Epochs
	n      int
	sum    float64
}

func (m *means) begin(explained float64) {
	*m = means{parts: m.parts[:0], explained: explained}
}

// Divergence is compared with target_kl at an epoch's end, whose last minibatches may have no step.
func (p *PPO) Divergence() float64 { return p.latest.divergence }

// Resume continues an update that was loaded. How much the rollout's values explain is unknown
// then.
func (p *PPO) Resume(divergence float64) {
	p.latest.begin(math.NaN())
	p.latest.divergence = divergence
}

// add adds the parts of a minibatch of an epoch, whose number is Clock.Epochs.
func (m *means) add(parts []float64, epoch int64) {
	if m.n == 0 {
		m.parts = append(m.parts[:0], parts...)
	} else {
		for i, v := range parts {
			m.parts[i] += v
		}
	}
	m.n++
	m.divergence = parts[partDivergence]
	if m.epoch.number != epoch {
		m.epoch = epochMean{number: epoch}
	}
	m.epoch.n++
	m.epoch.sum += m.divergence
}

// of returns the mean of a part; NaN before the first update.
func (m *means) of(part int) float64 {
	if m.n == 0 {
		return math.NaN()
	}
	return m.parts[part] / float64(m.n)
}

// Parts of the loss, in the order of nn.PPO's.
const (
	partPolicy = iota
	partValue
	partEntropy
	partDivergence
	partOutside
)

// Metrics reports the current numbers and those of the latest update.
func (p *PPO) Metrics(m *train.Metrics) {
	p.Run.Metrics(m)
	m.Add("epochs", "", "passes over a rollout that have begun", float64(p.Clock.Epochs))
	l := &p.latest
	norm, explained, divergence := math.NaN(), math.NaN(), math.NaN()
	if l.n > 0 {
		norm, explained, divergence = l.norm, l.explained, l.epoch.sum/float64(l.epoch.n)
	}
	m.Add("train/policy_gradient_loss", "", "mean of the clipped policy loss over the latest update's minibatches", l.of(partPolicy))
	m.Add("train/value_loss", "", "mean of the value's squared error over the latest update's minibatches", l.of(partValue))
	m.Add("train/entropy_loss", "nats", "minus the mean of the policy's entropy over the latest update's minibatches", -l.of(partEntropy))
	m.Add("train/approx_kl", "nats", "estimated Kullback-Leibler divergence of the policy that acted from the new one, mean over the minibatches of the latest update's last epoch", divergence)
	m.Add("train/clip_fraction", "", "share of steps whose ratio is out of its range, mean over the latest update's minibatches", l.of(partOutside))
	m.Add("train/clip_range", "", "how far from 1 the ratio counts, at this step", p.at(onpolicy.ClipRange))
	if within := p.at(onpolicy.ClipRangeVf); !math.IsInf(within, 1) {
		m.Add("train/clip_range_vf", "", "how far from what it was the value counts, at this step", within)
	}
	m.Add("train/explained_variance", "", "part of the returns' variance that the values explain, of the latest update's rollout", explained)
	m.Add("train/grad_norm", "", "Euclidean norm of the latest minibatch's gradient, before clipping", norm)
}
