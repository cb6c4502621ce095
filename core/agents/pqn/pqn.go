package pqn

import (
	"fmt"
	"math"

	"github.com/paceline-rl/paceline/core/limits"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/onpolicy"
)

// PQN is train.Method by the parallelised Q-network.
type PQN struct {
	onpolicy.Run
	cfg         Config // resolved
	minibatches *onpolicy.Minibatches
	perEpoch    int       // minibatches of an epoch
	largest     []float32 // Q of each row of a forward pass
	latest      means
}

// Columns of the loss, in the order of nn.TD's.
const (
	columnTarget = iota
	columnWeight
	columns
)

// head is the network's head of Q, epsilon the name of the schedule.
const (
	head    = 0
	epsilon = "epsilon"
)

func init() {
	train.Register(&train.Definition{
		Name:     "pqn",
		Doc:      "parallelised Q-network: Q(lambda) with layer normalisation, without replay memory and target network",
		Settings: Settings,
		Shape:    []string{"env", "env_options", "policy", "normalize_images", "cnn", "net_arch", "activation_fn", "layer_norm", "num_envs", "mid_batch_reset"},
		Memory:   memoryOf,
		New:      newPQN,
	})
}

// memoryOf lists what newPQN will allocate.
func memoryOf(s *train.Setup) ([]limits.Part, error) {
	c := s.Config.(*Config)
	run, err := c.run(s, &PQN{})
	if err != nil {
		return nil, err
	}
	list, err := run.Memory(s)
	own := onpolicy.MinibatchesBytes(s.Spec, c.BatchSize, columns, c.NSteps*c.NumEnvs)
	return append(list, limits.Part{Setting: fmt.Sprintf("batch_size: %d", c.BatchSize), Bytes: own}), err
}

func newPQN(s *train.Setup) (train.Method, error) {
	cfg := s.Config.(*Config)
	p := &PQN{}
	run, err := cfg.run(s, p)
	if err != nil {
		return nil, err
	}
	p.cfg, p.perEpoch, p.largest = *cfg, run.Minibatches/cfg.NEpochs, make([]float32, cfg.NumEnvs)
	if err := p.Init(s, run, p); err != nil {
		return nil, err
	}
	p.minibatches = onpolicy.NewMinibatches(&p.Run, s.Spec, cfg.BatchSize, columns, columnWeight)
	return p, nil
}

// run is the run that the settings ask for, of p.
func (c *Config) run(s *train.Setup, p *PQN) (onpolicy.Config, error) {
	net, err := c.network(s.Spec)
	return onpolicy.Config{
		Net: net, NetSetting: "policy: " + c.Policy, Policy: policy.Spec{Head: head, Kind: policy.Greedy},
		Chooser: &policy.EpsilonGreedy{Actions: s.Spec.Action.N, Head: head, Epsilon: func(t int64) float64 { return p.Clock.Schedules[epsilon].At(t) }, Value: true},
		Value:   p.values,
		Horizon: c.NSteps, Batch: c.BatchSize, Minibatches: c.NEpochs * onpolicy.PerEpoch(c.NSteps*c.NumEnvs, c.BatchSize),
		Loss:      nn.TD{Kind: "squared", Reduction: "mean", Weighted: true, Scale: c.LossCoef},
		Optimizer: nn.OptimizerConfig{Name: "radam", Eps: c.RAdamEps}, MaxGradNorm: c.MaxGradNorm,
		Rate: func(end int64) train.Schedule {
			return c.LearningRateCurve.Rate(c.LearningRate, c.LearningRateFinal, end)
		},
		Schedules: []onpolicy.Schedule{{Name: epsilon, Most: 1, Of: func(end int64) train.Schedule {
			return train.Line(c.ExplorationInitial, c.ExplorationFinal, int64(math.Round(c.ExplorationFraction*float64(end))))
		}}},
	}, err
}

// values are the largest Q of each row.
func (p *PQN) values(out nn.Outputs) []float32 {
	for i := range out.Rows {
		q := out.Row(head, i)
		p.largest[i] = q[nn.Argmax(q, nil)]
	}
	return p.largest[:out.Rows]
}

// meanValue is the mean of the recorded values over the rollout's steps.
func (p *PQN) meanValue() float64 {
	b, sum := p.Rollout.Batch(), 0.0
	for k, v := range b.Columns[0] {
		sum += float64(float64(b.Weights[k]) * float64(v))
	}
	return sum / float64(p.Rollout.Steps())
}

// means are means over the minibatches of an update that are done. After a load inside an update,
// they are over the minibatches since the load.
type means struct {
	n                 int
	loss, norm, value float64 // sums of the first two
}

func (m *means) add(loss, norm float64) {
	m.n++
	m.loss += loss
	m.norm += norm
}

// Metrics reports the current numbers and those of the latest update.
func (p *PQN) Metrics(m *train.Metrics) {
	p.Run.Metrics(m)
	loss, norm, value := math.NaN(), math.NaN(), math.NaN()
	if l := &p.latest; l.n > 0 {
		loss, norm, value = l.loss/float64(l.n), l.norm/float64(l.n), l.value
	}
	m.Add("train/td_loss", "", "mean of the loss over the latest update's minibatches", loss)
	m.Add("train/grad_norm", "", "Euclidean norm of the gradient before clipping, mean over the latest update's minibatches", norm)
	m.Add("train/q_value", "", "mean of the largest Q-value over the latest update's rollout, as it was recorded", value)
	m.Add("rollout/exploration_rate", "", "probability of a random action", p.Clock.Schedules[epsilon].At(p.Clock.Steps))
}
