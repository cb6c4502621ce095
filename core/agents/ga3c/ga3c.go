package ga3c

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/paceline-rl/paceline/core/actor"
	"github.com/paceline-rl/paceline/core/limits"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/queue"
	"github.com/paceline-rl/paceline/core/rollout"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/order"
)

// set is the name of theta.
const set = "policy"

// valueRows is the most rows of a forward pass for values.
const valueRows = 64

// GA3C is train.Method by hybrid asynchronous advantage actor-critic. One goroutine at a time, the
// caller's, touches everything besides what tasks compute.
type GA3C struct {
	cfg       Config // resolved
	monitor   *train.Monitor
	device    nn.Device
	group     *actor.Group
	chooser   policy.Chooser
	policy    policy.Spec
	headV     int
	vtrace    rollout.VTrace
	optimizer nn.Optimizer
	units     *train.Units
	tasks     *tasks
	waits     bool // the environments' steps wait
	pushed    bool // the host steps the environments

	versions   versions
	segments   *queue.Segments
	requests   *queue.Requests
	waiting    []int // agents that are blocked, in the order of their segments
	agents     []agent
	predictors []*predictor
	trainers   []*trainer

	clock    clock
	now      int64 // time of the latest event
	pace     pace
	recorder *recorder // nil: nothing is recorded
	orders   orderOf
	active   counts
	tuner    *tuner  // nil: the counts stay
	instants []event // scratch
	moves    int     // agents that move, and whose event comes
	launches []launch
	launched int64

	updated bool // the run's first update is done, or the run was loaded
	report  report
	sums    sums
	before  func()                                          // of the tests
	times   func(what string, rows int, took time.Duration) // of benchmarks; nil: nothing is measured
	err     error                                           // what ended training
}

// clock holds every count and schedule. A checkpoint holds it.
type clock struct {
	Steps   int64          `json:"steps"` // T
	End     int64          `json:"end"`
	Updates int64          `json:"updates"`
	Rate    train.Schedule `json:"learning_rate"`
}

// report is of the latest update.
type report struct {
	loss, norm float64
	parts      []float64 // nn.ActorCritic's; empty: there is no update yet
	explained  float64
}

// predictor chooses the actions of a batch of agents at a time.
type predictor struct {
	m       *GA3C
	k       int
	device  nn.Device
	network nn.Network
	obs     []byte // as many observations as batch has room for
	row     policy.BatchRow

	busy    bool
	due     int64 // when it is free
	batch   []int
	first   int64 // T before the first step of the batch
	version *version
	task    *task
}

// trainer computes the gradient of a batch of segments at a time. The learner's rows beyond those
// of the batch have weight 0.
type trainer struct {
	m                           *GA3C
	k                           int
	device                      nn.Device
	network                     nn.Network
	learners                    []learner // for batches of whole segments, and for the largest
	learner                     learner   // of the latest batch
	batch                       *queue.Batch
	values, advantages, returns []float32
	ratios                      []float32 // with vtrace
	distribution                *policy.Distribution
	weights                     []float32
	last                        []float32 // values of batch.Last
	grad                        []float32
	explained                   float64 // rollout.ExplainedVariance of the batch

	busy    bool
	due     int64
	rows    int
	updates []uint64 // of the parameters that chose each row
	envs    []int    // agents of the segments
	report  nn.Report
	version *version
	task    *task
}

// learner has the number of rows that it was made for.
type learner struct {
	nn.Learner
	rows int
}

func init() {
	train.Register(&train.Definition{
		Name:      "ga3c",
		Doc:       "hybrid asynchronous advantage actor-critic: agents, predictors and trainers around one network",
		Settings:  Settings,
		Shape:     shape,
		Masks:     true,
		AnyAction: true,
		OnlyCPU:   true,
		Memory:    memoryOf,
		New:       newGA3C,
	})
}

// queue describes the training queue.
func (c *Config) queue(s *train.Setup, columns []string) queue.Config {
	return queue.Config{Obs: s.Spec.Obs, Action: s.Spec.Action, Envs: c.NumEnvs, Steps: c.NSteps, Bound: c.TrainingQueue, Masks: s.Spec.Masks, Columns: columns}
}

// learnerRows returns the rows of a trainer's learners. Most batches are of whole segments.
func (c *Config) learnerRows(q *queue.Config) []int {
	whole := (c.MinTrainingBatch + c.NSteps - 1) / c.NSteps * c.NSteps
	return slices.Compact([]int{whole, q.MostRows(c.MinTrainingBatch)})
}

// memoryOf lists what newGA3C will allocate.
func memoryOf(s *train.Setup) ([]limits.Part, error) {
	c := s.Config.(*Config)
	run, err := c.ActorCritic.Run(&c.Common, s)
	if err != nil {
		return nil, err
	}
	var list []limits.Part
	add := func(setting string, times int, own int64, n nn.Needs) {
		bytes, nerr := s.Device.Bytes(run.Net, n)
		err = errors.Join(err, nerr)
		list = append(list, limits.Part{Setting: setting, Bytes: int64(times) * (own + bytes)})
	}
	q := c.queue(s, run.Chooser.Columns())
	size := int64(s.Spec.Obs.Bytes())
	add(fmt.Sprintf("n_steps: %d", c.NSteps), c.Trainers, q.BatchBytes(c.MinTrainingBatch), nn.Needs{Sets: 2, LearnerRows: c.learnerRows(&q), NetworkRows: []int{valueRows}})
	add(fmt.Sprintf("training_queue: %d", c.TrainingQueue), 1, q.Bytes(), nn.Needs{})
	add(fmt.Sprintf("prediction_batch_max: %d", c.PredictionBatchMax), c.Predictors, int64(c.predictionRows())*size, nn.Needs{Sets: 1, NetworkRows: []int{c.predictionRows()}})
	add(fmt.Sprintf("num_envs: %d", c.NumEnvs), 1, 2*int64(c.NumEnvs)*size, nn.Needs{})
	if c.Tuner != tunerNone {
		add("tuner: "+c.Tuner, 1, traceMost*int64(proposalBytes), nn.Needs{})
	}
	add(run.NetSetting, 1, 0, nn.Needs{Sets: 1, Optimizer: run.Optimizer})
	return list, err
}

func newGA3C(s *train.Setup) (train.Method, error) {
	m := &GA3C{cfg: *s.Config.(*Config)}
	if err := m.init(s); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

func (m *GA3C) init(s *train.Setup) error {
	c := &m.cfg
	if s.Device.Name() != "cpu" {
		return fmt.Errorf("device: %s, must be cpu for ga3c", s.Device.Name())
	}
	run, err := c.ActorCritic.Run(&c.Common, s)
	if err != nil {
		return err
	}
	theta, err := s.InitialParams(run.Net)
	if err != nil {
		return err
	}
	m.monitor, m.device, m.chooser, m.pushed = s.Monitor, s.Device, run.Chooser, s.Source == nil
	m.headV, m.versions, m.units = run.Net.Head("v"), newVersions(theta), train.NewUnits(run.Net)
	m.policy = run.Policy
	m.policy.Set, m.policy.Env, m.policy.Net = set, s.Spec, run.Net
	m.vtrace = rollout.VTrace{Gamma: c.Gamma, Lambda: c.GAELambda, Rho: c.VTraceRho, C: c.VTraceC}
	m.waits = s.Source != nil && s.Source.Spec().Waits
	m.setEnd(0)
	if m.optimizer, err = s.Device.Optimizer(run.Optimizer, theta.Layout.Size); err != nil {
		return err
	}
	q := c.queue(s, run.Chooser.Columns())
	if m.segments, err = queue.New(q); err != nil {
		return err
	}
	m.requests = queue.NewRequests(c.requests())
	for k := range c.Predictors {
		p := &predictor{m: m, k: k, batch: make([]int, 0, c.predictionRows()), obs: make([]byte, c.predictionRows()*s.Spec.Obs.Bytes())}
		m.predictors = append(m.predictors, p)
		if p.device, p.network, err = another(s, run.Net, c.predictionRows()); err != nil {
			return err
		}
	}
	rows := q.MostRows(c.MinTrainingBatch)
	for k := range c.Trainers {
		floats := func(n int) []float32 { return make([]float32, n) }
		t := &trainer{m: m, k: k, batch: m.segments.NewBatch(c.MinTrainingBatch), grad: floats(theta.Layout.Size),
			values: floats(rows), advantages: floats(rows), returns: floats(rows), weights: floats(rows), last: floats(c.MinTrainingBatch)}
		if c.VTrace {
			t.ratios, t.distribution = floats(rows), run.Chooser.(*policy.Sampler).Distribution
		}
		m.trainers = append(m.trainers, t)
		if t.device, t.network, err = another(s, run.Net, valueRows); err != nil {
			return err
		}
		for _, rows := range c.learnerRows(&q) {
			l, err := t.device.Learner(run.Net, rows, c.loss())
			if err != nil {
				return err
			}
			t.learners = append(t.learners, learner{l, rows})
		}
	}
	m.agents = make([]agent, c.NumEnvs)
	m.tasks = newTasks(s.Cores, c.Schedule == string(order.Race))
	m.orders = m.orderOf(s)
	if err := m.setPace(); err != nil {
		return err
	}
	m.active = counts{c.Predictors, c.Trainers, c.NumEnvs}
	switch {
	case c.Tuner == tunerNone:
	case m.pushed:
		s.Monitor.Notify("tuner: %s, where the caller steps all environments in one call, changes nothing", c.Tuner)
	default:
		m.tuner = newTuner(c)
		m.active = m.tuner.Kept
	}
	if c.Groups > 1 && !m.pushed { // of pushed ones the Trainer says so
		s.Monitor.Notify("groups: %d, where each agent steps by itself, changes nothing", c.Groups)
	}
	group := s.Group()
	group.Sink, group.Columns, group.Agents, group.Halves = m.segments, len(run.Chooser.Columns()), true, 1
	m.group, err = actor.New(group)
	return err
}

// another returns a device of one thread, and a network of it.
func another(s *train.Setup, net nn.Spec, rows int) (nn.Device, nn.Network, error) {
	d, err := s.Device.Another(1, s.Cores)
	if err != nil {
		return nil, nil, err
	}
	n, err := d.Network(net, rows)
	return d, n, err
}

// Close closes what predictors and trainers compute with.
func (m *GA3C) Close() error {
	if m.group != nil {
		m.group.Close()
	}
	for _, p := range m.predictors {
		if p.device != nil {
			p.device.Close()
		}
	}
	for _, t := range m.trainers {
		if t.device != nil {
			t.device.Close()
		}
	}
	return nil
}

// setEnd makes the schedules of a run that ends at a step.
func (m *GA3C) setEnd(end int64) {
	c := &m.cfg
	m.clock.End = end
	m.clock.Rate = c.LearningRateCurve.Rate(c.LearningRate, c.LearningRateFinal, max(1, end))
}

// HookGradients makes every trainer call before before it computes a gradient, for the tests of
// methods.
func (m *GA3C) HookGradients(before func()) { m.before = before }

// Measure makes the run report to f, for benchmarks, how long every "step", "predict" and "update"
// took, and its rows, when it ends.
func (m *GA3C) Measure(f func(what string, rows int, took time.Duration)) { m.times = f }

// measured reports a task that is done, and what the caller has spent on it.
func (m *GA3C) measured(what string, rows int, t *task, own time.Duration) {
	if m.times != nil && t != nil {
		m.times(what, rows, t.took+own)
	}
}

var (
	_ train.Method   = (*GA3C)(nil)
	_ train.Pushed   = (*GA3C)(nil)
	_ train.Stepped  = (*GA3C)(nil)
	_ train.Digested = (*GA3C)(nil)
	_ train.Ordered  = (*GA3C)(nil)
	_ train.Traced   = (*GA3C)(nil)
)
