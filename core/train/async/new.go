package async

import (
	"errors"

	"github.com/paceline-rl/paceline/core/limits"
	"github.com/paceline-rl/paceline/core/normalize"
	"github.com/paceline-rl/paceline/core/param"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/order"
	"github.com/paceline-rl/paceline/core/vec"
)

// Init makes the learners and the store.
func (m *Method) Init(s *train.Setup, c Config) (err error) {
	*m = Method{cfg: c, monitor: s.Monitor, cores: s.Cores, envs: s.Common.NumEnvs}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
		}
	}()
	m.pushed = s.Source == nil
	m.actions = vec.Actions{Discrete: make([]int32, m.envs*s.Spec.Action.Ints()), Box: make([]float32, m.envs*s.Spec.Action.Floats())}
	if s.Source != nil {
		m.rows = vec.NewRows(s.Spec.Obs, m.envs)
		m.rows.AddInfos(s.Source.Infos())
		if s.Spec.Masks {
			m.rows.AddMasks(s.Spec.Action.Logits())
		}
	}
	for k := range c.Learners {
		l, err := newLearner(m, s, &c, k)
		if err != nil {
			return err
		}
		m.learners = append(m.learners, l)
	}
	m.center, m.set = m.learners[0].theta.Clone(), m.learners[0].Sets()[0].Name
	if m.store, err = param.New(s.Device, m.center, c.rule(), min(c.Shards, m.center.Layout.Size)); err != nil {
		return err
	}
	if m.turns, err = c.turns(s, m.store.Shards()); err != nil {
		return err
	}
	if c.Rule == param.RuleMean {
		mean, err := param.NewMean(m.store, c.MaxGradNorm)
		if err != nil {
			return err
		}
		m.joint = &joint{Mean: mean, learners: m.learners, shares: c.Shares(), summed: c.Summed}
	}
	if z := m.learners[0].Statistics(); z != nil {
		m.shared = normalize.NewShared(z)
	}
	for _, l := range m.learners {
		if m.shared != nil {
			l.link.share = normalize.NewShare(l.Statistics())
		}
		if r, ok := l.Learner.(rounded); ok && m.pushed && m.joint != nil {
			r.UpdateEmpty()
		}
		l.link.seen, l.link.period, l.link.joint = make([]uint64, m.store.Shards()), int64(c.SyncPeriod), m.joint
		if c.Rule == param.RuleMultiStepAdam {
			if l.link.local, err = m.store.NewLocal(); err != nil {
				return err
			}
		}
	}
	return nil
}

// rule is the store's.
func (c *Config) rule() param.Rule {
	return param.Rule{Name: c.Rule, Optimizer: c.Optimizer, LocalSteps: c.AdamTime == "local", MaxStaleness: int64(c.MaxStaleness)}
}

// Shares reports whether learners normalise advantages together.
func (c *Config) Shares() bool {
	return c.Rule == param.RuleMean && c.Learners > 1 && c.Values["normalize_advantage"] == "true"
}

// turns are the turns of the learners at the shards of a store.
func (c *Config) turns(s *train.Setup, shards int) (*order.Turns, error) {
	t := order.Config{
		Schedule: order.Schedule(c.Schedule), Learners: c.Learners, Shards: shards, Steps: s.Common.NumEnvs / c.Learners,
		Barrier: c.Rule == param.RuleMean, Together: s.Source == nil, Varies: s.Disabled, Seed: uint64(s.Common.Seed), Cores: s.Cores, Waits: s.Spec.Waits,
		Fingerprint: s.Fingerprint(),
	}
	switch t.Schedule {
	case order.Virtual:
		latency := c.Latency
		if err := latency.Open(); err != nil {
			return nil, err
		}
		t.Latency = &latency
	case order.Recorded:
		var err error
		if t.Order, err = order.ReadOrder(c.Order); err != nil {
			return nil, err
		}
	}
	return order.New(t)
}

// Memory lists what Init will allocate.
func (c *Config) Memory(s *train.Setup) ([]limits.Part, error) {
	d, err := s.Device.Another(1, s.Cores)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	setup, def, err := s.Replica(c.Worker, c.Values, 0, c.Learners, c.Shares(), d, s.Pool, nil)
	if err != nil {
		return nil, err
	}
	list, err := def.Memory(setup)
	for i := range list {
		list[i].Bytes *= int64(c.Learners)
	}
	return list, err
}
