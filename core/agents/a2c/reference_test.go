package a2c

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

// naive is Algorithm S3 as package doc closes it, with W actors one after the other
// and lists for a rollout. Returns are recursive and in float64, actions are drawn by
// math.Exp, rows are evaluated one at a time: nothing in it is shared with the code
// under test but networks, optimiser and streams.
type naive struct {
	c              Config // resolved
	nextStep       bool
	total          int64
	steps, updates int64
	episodes       int64
	net            nn.Network
	learner        nn.Learner
	optimizer      nn.Optimizer
	theta          *nn.Params
	explore        []*rng.Stream
	envs           []*traintest.Walk
	obs            [][]byte
	resetting      []bool
	rounds         [][]*moment // [round][environment]; nil: the row only reset
}

// moment is one step.
type moment struct {
	obs, next []byte
	action    int32
	reward    float64
	end       env.End
	value     float64
}

func newNaive(t *testing.T, c Config, total int64, nextStep bool) *naive {
	t.Helper()
	must(c.resolve())(t)
	n := &naive{c: c, nextStep: nextStep, total: total, resetting: make([]bool, c.NumEnvs)}
	spec := must(n.c.fit((&traintest.Walk{}).Spec()))(t)
	n.theta = must(spec.InitialParams(rng.New(uint64(c.Seed), "weights", 0)))(t)
	device := must(nn.NewCPU(1, nil))(t)
	t.Cleanup(device.Close)
	n.net = must(device.Network(spec, 1))(t)
	n.learner = must(device.Learner(spec, c.NSteps*c.NumEnvs, nn.ActorCritic{EntropyCoef: c.EntCoef, ValueCoef: c.VfCoef}))(t)
	n.optimizer = must(device.Optimizer(c.optimizer(), n.theta.Layout.Size))(t)
	for i := range c.NumEnvs {
		n.explore = append(n.explore, rng.New(uint64(c.Seed), "explore", i))
		w := must(traintest.MakeWalk(c.Seed)(i))(t).(*traintest.Walk)
		n.envs = append(n.envs, w)
		n.obs = append(n.obs, make([]byte, 8))
		check(t, w.Reset(n.obs[i]))
	}
	return n
}

func (n *naive) look(t *testing.T, obs []byte) (logits []float32, value float64) {
	out := must(n.net.Forward(n.theta, obs, 1))(t)
	return slices.Clone(out.Values[0]), float64(out.Values[1][0])
}

// follow returns environment i's next step in this rollout, and its round.
func (n *naive) follow(round, i int) (*moment, int) {
	for next := round + 1; next < len(n.rounds); next++ {
		if m := n.rounds[next][i]; m != nil {
			return m, next
		}
	}
	return nil, 0
}

// beyond is V of what environment i's step of a round led to.
func (n *naive) beyond(t *testing.T, round, i int) (v float64) {
	m := n.rounds[round][i]
	following, _ := n.follow(round, i)
	switch {
	case m.end&env.Terminated != 0: // R = 0 for terminal s_t
	case m.end&env.Truncated != 0:
		_, v = n.look(t, m.next)
	case following != nil:
		v = following.value
	default: // bootstrap from last state
		_, v = n.look(t, n.obs[i])
	}
	return v
}

// advantage is delta + gamma lambda advantage of the next step, as far as the trace
// goes. (Its sum with V is R; where R - V lies halfway between two float32, only the
// same order of additions gives the same bits.)
func (n *naive) advantage(t *testing.T, round, i int) float64 {
	m := n.rounds[round][i]
	delta := m.reward + float64(n.c.Gamma*n.beyond(t, round, i)) - m.value
	if following, next := n.follow(round, i); following != nil && m.end == 0 {
		return delta + float64(n.c.Gamma*n.c.GAELambda*n.advantage(t, next, i))
	}
	return delta + 0
}

// ret is R by its definition: a mixture of the longer return and the one-step one.
func (n *naive) ret(t *testing.T, round, i int) float64 {
	m := n.rounds[round][i]
	if following, next := n.follow(round, i); following != nil && m.end == 0 {
		return m.reward + n.c.Gamma*(n.c.GAELambda*n.ret(t, next, i)+(1-n.c.GAELambda)*following.value)
	}
	return m.reward + n.c.Gamma*n.beyond(t, round, i)
}

// update learns from a full rollout.
func (n *naive) update(t *testing.T) {
	if len(n.rounds) < n.c.NSteps {
		return
	}
	var b nn.Batch
	var advantages, returns, weights []float32
	var kept []int
	for round, row := range n.rounds {
		for i, m := range row {
			if m == nil {
				b.Obs, b.Actions = append(b.Obs, make([]byte, 8)...), append(b.Actions, 0)
				advantages, returns, weights = append(advantages, 0), append(returns, 0), append(weights, 0)
				continue
			}
			a := n.advantage(t, round, i)
			r := a + m.value
			if want := n.ret(t, round, i); math.Abs(r-want) > 1e-12 {
				t.Fatalf("R is %g, want %g", r, want)
			}
			kept = append(kept, len(weights))
			b.Obs, b.Actions = append(b.Obs, m.obs...), append(b.Actions, m.action)
			advantages, returns, weights = append(advantages, float32(a)), append(returns, float32(r)), append(weights, 1)
		}
	}
	n.rounds = nil
	if len(kept) == 0 {
		return
	}
	if n.c.NormalizeAdvantage && len(kept) > 1 {
		mean, variance := 0.0, 0.0
		for _, k := range kept {
			mean += float64(advantages[k]) / float64(len(kept))
		}
		for _, k := range kept {
			variance += math.Pow(float64(advantages[k])-mean, 2) / float64(len(kept)-1)
		}
		for _, k := range kept {
			advantages[k] = float32((float64(advantages[k]) - mean) / (math.Sqrt(variance) + 1e-8))
		}
	}
	b.Columns = [][]float32{advantages, returns, weights}
	grad := make([]float32, n.theta.Layout.Size)
	var report nn.Report
	check(t, n.learner.Gradient(n.theta, b, grad, &report))
	if n.c.MaxGradNorm > 0 {
		n.optimizer.ClipGradNorm(grad, n.c.MaxGradNorm)
	}
	rate := n.c.LearningRate
	if final := n.c.LearningRateFinal; !math.IsNaN(final) {
		rate += (final - rate) * min(1, float64(n.steps)/float64(n.total))
	}
	check(t, n.optimizer.Apply(n.theta, grad, rate))
	n.updates++
}

// round is one step of every environment.
func (n *naive) round(t *testing.T) {
	n.update(t)
	row := make([]*moment, len(n.envs))
	for i, e := range n.envs {
		if n.resetting[i] {
			check(t, e.Reset(n.obs[i]))
			n.resetting[i] = false
			continue
		}
		logits, value := n.look(t, n.obs[i])
		m := &moment{obs: slices.Clone(n.obs[i]), next: make([]byte, 8), value: value}
		u, total := n.explore[i].Float64(), 0.0
		for _, v := range logits {
			total += math.Exp(float64(v))
		}
		for sum := 0.0; ; m.action++ {
			if sum += math.Exp(float64(logits[m.action])) / total; u < sum || int(m.action) == len(logits)-1 {
				break
			}
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
		n.episodes++
		if n.nextStep {
			n.resetting[i] = true
		} else {
			check(t, e.Reset(n.obs[i]))
		}
	}
	n.rounds = append(n.rounds, row)
}

// compare holds a Trainer that stands at the same step against n.
func (n *naive) compare(t *testing.T, tr *train.Trainer) {
	t.Helper()
	n.update(t)
	check(t, tr.Settle(0))
	if s := tr.Stats(); s.Steps != n.steps || s.Updates != n.updates || s.Updates != s.UpdatesDue || s.Episodes != n.episodes {
		t.Fatalf("stats %+v, want %d steps, %d updates, %d episodes", s, n.steps, n.updates, n.episodes)
	}
	have := make([]float32, n.theta.Layout.Size)
	if u := must(tr.GetParameters("policy", have))(t); u != uint64(n.updates) {
		t.Fatalf("step %d: %d updates seen, want %d", n.steps, u, n.updates)
	}
	if want := n.theta.Host; !slices.Equal(have, want) {
		k := 0
		for have[k] == want[k] {
			k++
		}
		t.Fatalf("step %d, update %d: parameter %d is %g, want %g", n.steps, n.updates, k, have[k], want[k])
	}
}

func randomConfig(r *rand.Rand) Config {
	c := *Settings.Defaults().Struct().(*Config)
	c.NetArchPi, c.NetArchVf, c.Seed = []int{8}, []int{4, 5}, r.IntN(1000)
	c.NumEnvs, c.NumThreads, c.NSteps = 1+r.IntN(5), 1+r.IntN(3), 1+r.IntN(7)
	c.ActivationFn = []string{"tanh", "relu"}[r.IntN(2)]
	if r.IntN(3) == 0 {
		c.Trunk, c.NetArchVf = "shared", c.NetArchPi
	}
	c.OrthoInit, c.NormalizeAdvantage = r.IntN(3) > 0, r.IntN(2) == 0
	c.LearningRate = 1e-2
	if r.IntN(2) == 0 {
		c.LearningRateFinal = 1e-3
	}
	c.Gamma, c.GAELambda = []float64{.9, .99, 1}[r.IntN(3)], []float64{1, 1, .95, 0}[r.IntN(4)]
	c.EntCoef, c.MaxGradNorm = []float64{0, .01, .1}[r.IntN(3)], []float64{0, .1, .5}[r.IntN(3)]
	c.UseRMSProp = r.IntN(3) > 0
	c.RMSPropEpsInside, c.RMSPropFirst = r.IntN(2) == 0, r.IntN(2)
	return c
}

// Whatever the settings, whoever steps the environments, and wherever a run is cut
// into pieces, looked at, stopped or saved: Algorithm S3.
func TestEveryModeIsAlgorithmS3(t *testing.T) {
	for k := range 150 {
		r := rand.New(rand.NewPCG(1, uint64(k)))
		c, total := randomConfig(r), int64(50+r.IntN(200))
		driver := []string{"built in", "same step", "next step"}[k%3]
		name := fmt.Sprintf("%d %s W=%d n_steps=%d lambda=%g normalize=%v %s %s", k, driver, c.NumEnvs, c.NSteps, c.GAELambda, c.NormalizeAdvantage, c.Trunk, c.ActivationFn)
		t.Run(name, func(t *testing.T) {
			n := newNaive(t, c, total, driver == "next step")
			if driver == "built in" {
				inPieces(t, r, c, n)
			} else {
				pushed(t, r, c, n)
			}
		})
	}
}

func inPieces(t *testing.T, r *rand.Rand, c Config, n *naive) {
	cfg := configOf(t, c)
	tr := must(train.New(cfg, traintest.MakeWalk(c.Seed)))(t)
	defer func() { check(t, tr.Close()) }()
	check(t, tr.Begin(n.total, 0))
	for n.steps < n.total {
		piece := min(int64(1+r.IntN(60)), n.total-n.steps)
		for until := n.steps + piece; n.steps < until; {
			n.round(t)
		}
		check(t, tr.Run(piece, 0))
		switch r.IntN(5) {
		case 0:
			n.compare(t, tr)
		case 1:
			tr.Stop()
			check(t, tr.Run(0, 0))
		case 2:
			check(t, tr.Run(0, time.Microsecond)) // ends who knows where
			for n.steps < tr.Stats().Steps {
				n.round(t)
			}
		}
		if r.IntN(3) == 0 {
			path := filepath.Join(t.TempDir(), "a")
			check(t, tr.Save(path, true))
			next := must(train.New(must(train.LoadConfig(path))(t), traintest.MakeWalk(0)))(t)
			check(t, next.Load(path))
			check(t, tr.Close())
			tr = next
		}
	}
	check(t, tr.Run(0, 0))
	n.compare(t, tr)
}

func pushed(t *testing.T, r *rand.Rand, c Config, n *naive) {
	h := newHost(t, c, n.nextStep, traintest.MakeWalk(c.Seed))
	h.begin(t, n.total)
	for n.steps < n.total {
		n.round(t)
		h.round(t)
		if r.IntN(20) == 0 {
			n.compare(t, h.tr)
		}
	}
	n.compare(t, h.tr)
}
