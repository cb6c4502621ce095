package pqn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/threads"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
	"github.com/paceline-rl/paceline/core/vec"
)

// naive is Algorithm 1 as package doc closes it: environments one after the other, lists for
// a rollout, returns by their recursive definition in float64, observations evaluated one at
// a time, minibatches as slices of a list. Networks, optimiser and streams are shared with the
// code under test.
type naive struct {
	c         Config
	total     int64
	steps     int64
	updates   int64
	epochs    int
	device    nn.Device
	spec      nn.Spec
	net       nn.Network
	optimizer nn.Optimizer
	theta     *nn.Params
	explore   []*rng.Stream
	envs      []*traintest.Walk
	obs       [][]byte
	resetting []bool
	nextStep  bool
	rounds    [][]*moment // [round][environment]; nil: the row only reset
	targets   [][]float64 // of the rows of each rollout with steps, round by round; NaN: no step
	ends      map[string]int
}

// moment is one step.
type moment struct {
	obs, next []byte
	action    int32
	reward    float64
	end       env.End
	value     float64 // max Q when it was taken
	target    float64
}

func newNaive(t *testing.T, c Config, total int64, nextStep bool) *naive {
	t.Helper()
	must(c.Resolve())(t)
	n := &naive{c: c, total: total, ends: map[string]int{}, nextStep: nextStep, resetting: make([]bool, c.NumEnvs)}
	n.spec = must(n.c.network((&traintest.Walk{}).Spec()))(t)
	n.theta = must(n.spec.InitialParams(rng.New(uint64(c.Seed), "weights", 0)))(t)
	n.device = must(nn.NewCPU(1, nil))(t)
	t.Cleanup(n.device.Close)
	n.net = must(n.device.Network(n.spec, 1))(t)
	n.optimizer = must(n.device.Optimizer(nn.OptimizerConfig{Name: "radam", Eps: c.RAdamEps}, n.theta.Layout.Size))(t)
	for i := range c.NumEnvs {
		n.explore = append(n.explore, rng.New(uint64(c.Seed), "explore", i))
		n.envs = append(n.envs, must(traintest.MakeWalk(c.Seed)(i))(t).(*traintest.Walk))
		n.obs = append(n.obs, make([]byte, 8))
		check(t, n.envs[i].Reset(n.obs[i]))
	}
	return n
}

func (n *naive) q(t *testing.T, obs []byte) []float32 {
	return slices.Clone(must(n.net.Forward(n.theta, obs, 1))(t).Values[0])
}

// target is r + gamma (lambda R' + (1-lambda) max Q'), where an end and the rollout's last
// round leave out R'.
func (n *naive) target(t *testing.T, round, i int) float64 {
	m := n.rounds[round][i]
	var next *moment
	at := round + 1
	for ; at < len(n.rounds) && next == nil; at++ {
		next = n.rounds[at][i]
	}
	largest := func(obs []byte) float64 { return float64(slices.Max(n.q(t, obs))) }
	switch {
	case m.end&env.Terminated != 0:
		return m.reward
	case m.end&env.Truncated != 0:
		return m.reward + n.c.Gamma*largest(m.next)
	case next == nil:
		return m.reward + n.c.Gamma*largest(n.obs[i])
	}
	return m.reward + n.c.Gamma*(n.c.QLambda*n.target(t, at-1, i)+(1-n.c.QLambda)*next.value)
}

func (n *naive) update(t *testing.T) {
	t.Helper()
	if len(n.rounds) < n.c.NSteps {
		return
	}
	var steps []*moment
	var targets []float64
	for round, row := range n.rounds {
		for i, m := range row {
			targets = append(targets, math.NaN())
			if m == nil {
				continue
			}
			m.target = n.target(t, round, i)
			targets[len(targets)-1] = m.target
			steps = append(steps, m)
			place := "middle"
			if round == 0 {
				place = "first"
			} else if round == len(n.rounds)-1 {
				place = "last"
			}
			n.ends[fmt.Sprint(m.end, place)]++
		}
	}
	if len(steps) > 0 {
		n.targets = append(n.targets, targets)
	}
	n.rounds = nil
	for i, e := range n.envs {
		if n.late() && n.resetting[i] {
			check(t, e.Reset(n.obs[i]))
			n.resetting[i] = false
		}
	}
	rate := n.c.LearningRate
	if final := n.c.LearningRateFinal; !math.IsNaN(final) {
		rate += (final - rate) * min(1, float64(n.steps)/float64(n.total))
	}
	for range n.c.NEpochs {
		n.epochs++
		order, r := slices.Clone(steps), rng.New(uint64(n.c.Seed), "minibatches", n.epochs)
		for k := len(order) - 1; k > 0; k-- {
			other := r.Intn(k + 1)
			order[k], order[other] = order[other], order[k]
		}
		for len(order) > 0 {
			part := order[:min(n.c.BatchSize, len(order))]
			order = order[len(part):]
			b := nn.Batch{Columns: make([][]float32, 1)}
			for _, m := range part {
				b.Obs, b.Actions, b.Columns[0] = append(b.Obs, m.obs...), append(b.Actions, m.action), append(b.Columns[0], float32(m.target))
			}
			learner := must(n.device.Learner(n.spec, len(part), nn.TD{Kind: "squared", Reduction: "mean", Scale: n.c.LossCoef}))(t)
			grad := make([]float32, n.theta.Layout.Size)
			check(t, learner.Gradient(n.theta, b, grad, &nn.Report{}))
			factor := float32(1)
			if n.c.MaxGradNorm > 0 {
				_, factor = n.optimizer.ClipGradNorm(grad, n.c.MaxGradNorm)
			}
			check(t, n.optimizer.Apply(n.theta, grad, factor, rate))
			n.updates++
		}
	}
}

// late reports whether an environment whose episode has ended rests until the rollout is full.
func (n *naive) late() bool { return !n.c.MidBatchReset }

// round is one step of every environment.
func (n *naive) round(t *testing.T) {
	t.Helper()
	n.update(t)
	row := make([]*moment, len(n.envs))
	at := n.steps
	for i, e := range n.envs {
		if n.resetting[i] {
			if !n.late() {
				check(t, e.Reset(n.obs[i]))
				n.resetting[i] = false
			}
			continue
		}
		q := n.q(t, n.obs[i])
		m := &moment{obs: slices.Clone(n.obs[i]), next: make([]byte, 8), value: float64(slices.Max(q))}
		epsilon := n.c.ExplorationFinal
		if over := n.c.ExplorationFraction * float64(n.total); float64(at) < math.Round(over) {
			epsilon = n.c.ExplorationInitial + (n.c.ExplorationFinal-n.c.ExplorationInitial)*float64(at)/math.Round(over)
		}
		at++
		if n.explore[i].Float64() < epsilon {
			m.action = int32(n.explore[i].Intn(len(q)))
		} else {
			m.action = int32(slices.Index(q, slices.Max(q)))
		}
		reward, end, err := e.Step(m.action, m.next)
		check(t, err)
		m.reward, m.end = float64(reward), end
		copy(n.obs[i], m.next)
		row[i] = m
		n.steps++
		if end == 0 {
			continue
		}
		if n.nextStep || n.late() {
			n.resetting[i] = true
		} else {
			check(t, e.Reset(n.obs[i]))
		}
	}
	n.rounds = append(n.rounds, row)
}

func (n *naive) compare(t *testing.T, tr *train.Trainer) {
	t.Helper()
	n.update(t)
	check(t, tr.Settle(0))
	if s := tr.Stats(); s.Steps != n.steps || s.Updates != n.updates || s.UpdatesDue != n.updates {
		t.Fatalf("%+v, want %d steps, %d updates", s, n.steps, n.updates)
	}
	have := make([]float32, n.theta.Layout.Size)
	must(tr.GetParameters("policy", have))(t)
	// The order of the additions in a return differs by an ulp of float64 here and there.
	for k, want := range n.theta.Host() {
		if math.Abs(float64(have[k]-want)) > 1e-5*max(1, math.Abs(float64(want))) {
			t.Fatalf("step %d, update %d: parameter %d is %g, want %g", n.steps, n.updates, k, have[k], want)
		}
	}
}

// looking is a Stepper that copies the returns of each rollout before it is learnt from.
type looking struct {
	nn.Stepper
	of      *PQN
	seen    int64
	returns [][]float64 // as naive.targets
}

func look(tr *train.Trainer) *looking {
	p := tr.Method().(*PQN)
	s := &looking{Stepper: p.Stepper, of: p}
	p.Stepper = s
	return s
}

func (s *looking) Update(p *nn.Params, b nn.Batch, lr float64, r *nn.Report) error {
	if at := s.of.Clock.Rollouts; at != s.seen {
		s.seen = at
		rows := s.of.Rollout.Batch()
		var returns []float64
		for k, weight := range rows.Weights {
			returns = append(returns, float64(rows.Returns[k]))
			if weight == 0 {
				returns[k] = math.NaN()
			}
		}
		s.returns = append(s.returns, returns)
	}
	return s.Stepper.Update(p, b, lr, r)
}

// compare holds the returns against n's recursion. Behind many updates the parameters of the
// two, and with them what is bootstrapped from, differ in their last bits.
func (s *looking) compare(t *testing.T, n *naive) {
	t.Helper()
	if len(s.returns) != len(n.targets) {
		t.Fatalf("%d rollouts, want %d", len(s.returns), len(n.targets))
	}
	for u, want := range n.targets {
		for k, x := range want {
			if got := s.returns[u][k]; math.IsNaN(got) != math.IsNaN(x) || math.Abs(got-x) > 1e-5*max(1, math.Abs(x)) {
				t.Fatalf("rollout %d, row %d: return %g, want %g", u, k, got, x)
			}
		}
	}
}

// Whatever the settings and whoever steps the environments: Algorithm 1.
func TestEveryModeIsAlgorithm1(t *testing.T) {
	ends := map[string]int{}
	for k := range 60 {
		r := rand.New(rand.NewPCG(1, uint64(k)))
		c := *Settings.Defaults().Struct().(*Config)
		c.NetArch, c.Seed, c.NumEnvs, c.NSteps = []int{8}, r.IntN(1000), 1+r.IntN(5), 1+r.IntN(7)
		c.BatchSize, c.NEpochs = 1+r.IntN(20), 1+r.IntN(3)
		c.LayerNorm, c.Init = []string{"channels", "all", "none"}[r.IntN(3)], []string{"he_normal", "orthogonal", "uniform"}[r.IntN(3)]
		c.QLambda, c.Gamma = []float64{0, .65, 1}[r.IntN(3)], []float64{.9, 1}[r.IntN(2)]
		c.LossCoef, c.LearningRate, c.MaxGradNorm = []float64{.5, 1}[r.IntN(2)], 1e-3, []float64{0, .1, 10}[r.IntN(3)]
		c.ExplorationFraction, c.ExplorationFinal = .5, .05
		if r.IntN(2) == 0 {
			c.LearningRateFinal = 0
		}
		total, driver := int64(50+r.IntN(150)), []string{"built in", "same step", "next step"}[k%3]
		if driver == "built in" {
			c.MidBatchReset, c.Groups = r.IntN(2) == 0, min(c.NumEnvs, 1+r.IntN(2))
		}
		t.Run(fmt.Sprintf("%d %s W=%d n_steps=%d batch_size=%d lambda=%g mid_batch_reset=%v groups=%d %s", k, driver, c.NumEnvs, c.NSteps, c.BatchSize, c.QLambda, c.MidBatchReset, c.Groups, c.LayerNorm), func(t *testing.T) {
			n := newNaive(t, c, total, driver == "next step")
			defer func() {
				for of, count := range n.ends {
					ends[of] += count
				}
			}()
			if driver == "built in" {
				tr := must(train.New(configOf(t, c), traintest.MakeWalk(c.Seed)))(t)
				defer func() { check(t, tr.Close()) }()
				s := look(tr)
				check(t, tr.Begin(total, 0))
				check(t, tr.Run(0, 0))
				for n.steps < total {
					n.round(t)
				}
				n.compare(t, tr)
				s.compare(t, n)
				return
			}
			pushed(t, c, n)
		})
	}
	for _, end := range []env.End{env.Terminated, env.Truncated} {
		for _, place := range []string{"first", "middle", "last"} {
			if ends[fmt.Sprint(end, place)] == 0 {
				t.Errorf("no episode ended with %v at a %s step: %v", end, place, ends)
			}
		}
	}
}

func pushed(t *testing.T, c Config, n *naive) {
	mode := vec.SameStep
	if n.nextStep {
		c.Autoreset, mode = "next_step", vec.NextStep
	}
	pool := must(threads.NewPool(1, nil))(t)
	defer pool.Close()
	v := must(vec.New(traintest.MakeWalk(c.Seed), c.NumEnvs, pool, mode))(t)
	defer v.Close()
	tr := must(train.NewPushed(configOf(t, c), *v.Spec()))(t)
	defer func() { check(t, tr.Close()) }()
	rows, actions := vec.NewRows(v.Spec().Obs, v.Len()), vec.Actions{Discrete: make([]int32, v.Len())}
	s := look(tr)
	check(t, v.Reset(rows, nil))
	check(t, tr.Begin(n.total, 0))
	for n.steps < n.total {
		n.round(t)
		check(t, tr.Act(rows, actions, 0))
		check(t, v.Step(actions, rows))
		check(t, tr.Observe(rows, 0))
	}
	n.compare(t, tr)
	s.compare(t, n)
}
