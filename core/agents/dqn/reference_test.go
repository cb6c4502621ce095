package dqn

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
	"github.com/paceline-rl/paceline/core/vec"
)

// makeWalks makes walks, with or without masks.
func makeWalks(seed int, masks bool) func(i int) (env.Env, error) {
	if masks {
		return traintest.MakeMaskedWalk(seed)
	}
	return traintest.MakeWalk(seed)
}

// makeWalks makes the environments of the run that n is compared with.
func (n *naive) makeWalks(seed int) func(i int) (env.Env, error) {
	return func(i int) (env.Env, error) {
		e, err := makeWalks(seed, n.c.ActionMasks)(i)
		e.(*traintest.Walk).Lives = n.lives
		return e, err
	}
}

// naive is Algorithm 1 with the choices of package doc, on one thread. Its replay memory consists
// of lists, and it finds everything that is due by counting. It shares only networks, optimiser and
// streams with the code under test.
type naive struct {
	c           Config // resolved
	pushed      bool   // the host steps: no update is done inside a round
	nextStep    bool
	lives       bool // the environments lose lives
	total       int64
	w           int
	warmup, t   int64
	due         int64 // t of the next boundary
	updates     int64
	copies      int64
	device      nn.Device
	net         nn.Network
	learner     nn.Learner
	optimizer   nn.Optimizer
	theta       *nn.Params
	minus       *nn.Params
	snapshot    *nn.Params
	draws       *rng.Stream
	streams     []*rng.Stream
	envs        []*traintest.Walk
	obs         [][]byte
	resetting   []bool
	d, staged   [][]transition
	rate        func(steps int64) float64
	epsilon     func(t int64) float64
	episodeEnds int64
}

type transition struct {
	obs, next  []byte
	mask       []byte // allowed actions of next
	action     int32
	reward     float32
	terminated bool
	end        env.End
	version    uint64
}

func newNaive(t *testing.T, c Config, total int64, pushed, nextStep, lives bool) *naive {
	t.Helper()
	if _, err := c.Resolve(); err != nil {
		t.Fatal(err)
	}
	c.Policy = train.PolicyMLP
	n := &naive{c: c, device: cpu(t), pushed: pushed, nextStep: nextStep, lives: lives, total: total, w: c.NumEnvs, copies: -1,
		resetting: make([]bool, c.NumEnvs), d: make([][]transition, c.NumEnvs), staged: make([][]transition, c.NumEnvs),
		draws: rng.New(uint64(c.Seed), "replay", 0)}
	e := must(n.makeWalks(c.Seed)(0))(t)
	spec := c.network(e.Spec())
	n.theta = must(spec.InitialParams(rng.New(uint64(c.Seed), "weights", 0)))(t)
	n.minus, n.snapshot = n.theta.Clone(), n.theta.Clone()
	n.net = must(n.device.Network(spec, 1))(t)
	n.learner = must(n.device.Learner(spec, c.BatchSize, nn.TD{Kind: c.Loss, Reduction: c.LossReduction}))(t)
	n.optimizer = must(n.device.Optimizer(nn.OptimizerConfig{Name: c.Optimizer}, n.theta.Layout.Size))(t)
	for i := range n.w {
		n.streams = append(n.streams, rng.New(uint64(c.Seed), "explore", i))
		e := must(n.makeWalks(c.Seed)(i))(t).(*traintest.Walk)
		n.envs = append(n.envs, e)
		n.obs = append(n.obs, make([]byte, 8))
		check(t, e.Reset(n.obs[i]))
	}
	n.epsilon = func(t int64) float64 {
		if t >= int64(c.ExplorationSteps) {
			return c.ExplorationFinal
		}
		return c.ExplorationInitial + (c.ExplorationFinal-c.ExplorationInitial)*float64(t)/float64(c.ExplorationSteps)
	}
	n.rate = func(steps int64) float64 {
		if bend := float64(total / 3); c.LearningRateCurve != nil { // the curve of TestEveryModeIsAlgorithm1
			if x := float64(steps); x < bend {
				return 1e-2 + (2e-2-1e-2)*x/bend
			} else if steps < total {
				return 2e-2 + (3e-3-2e-2)*(x-bend)/(float64(total)-bend)
			}
			return 3e-3
		}
		if steps >= total {
			return c.LearningRateFinal
		}
		return c.LearningRate + (c.LearningRateFinal-c.LearningRate)*float64(steps)/float64(total)
	}
	return n
}

func (n *naive) flush() {
	for i := range n.d {
		n.d[i] = append(n.d[i], n.staged[i]...)
		n.staged[i] = nil
		most := n.c.BufferSize / n.w
		if i < n.c.BufferSize%n.w {
			most++
		}
		n.d[i] = n.d[i][max(0, len(n.d[i])-most):]
	}
}

// isDue reports whether another update is due at t. gradient_steps updates are due at every
// multiple of train_freq. Concurrent training spreads them over the window.
func (n *naive) isDue() bool {
	bursts := func(t int64) (u int64) {
		for ; t >= int64(n.c.TrainFreq); t -= int64(n.c.TrainFreq) {
			u += int64(n.c.GradientSteps)
		}
		return u
	}
	if !n.c.concurrent() {
		return n.updates < bursts(n.t)
	}
	return n.updates < bursts(max(n.t, n.due)) && (n.updates+1)*int64(n.c.TrainFreq) <= n.t*int64(n.c.GradientSteps)
}

// update does the updates that are due at t.
func (n *naive) update(t *testing.T) {
	if !n.c.concurrent() && n.isDue() {
		n.flush() // every experience enters D before the next update
	}
	for n.isDue() {
		n.updates++
		at := int64(0) // the step of the update's burst
		for u := n.updates; u > 0; u -= int64(n.c.GradientSteps) {
			at += int64(n.c.TrainFreq)
		}
		var all []transition
		var discounts []float32
		for _, list := range n.d {
			for k := range list {
				if x, discount, ok := nSteps(list, k, n.c.NSteps, n.c.Gamma); ok {
					all, discounts = append(all, x), append(discounts, discount)
				}
			}
		}
		b := &minibatch{}
		for range n.c.BatchSize {
			drawn := n.draws.Intn(len(all))
			m, discount := all[drawn], discounts[drawn]
			b.obs, b.next, b.masks = append(b.obs, m.obs...), append(b.next, m.next...), append(b.masks, m.mask)
			b.actions, b.rewards, b.discounts = append(b.actions, m.action), append(b.rewards, m.reward), append(b.discounts, discount)
		}
		grad := make([]float32, n.theta.Layout.Size)
		b.gradient(t, n.net, n.learner, n.theta, n.minus, n.c.DoubleQ, grad)
		_, factor := n.device.ClipGradNorm(grad, n.c.MaxGradNorm)
		n.optimizer.Apply(n.theta, grad, factor, n.rate(n.warmup+at))
		n.theta.Updates = uint64(n.updates)
	}
}

func (n *naive) updateTarget(every int) {
	keep := 1.0 // the share of theta-minus that stays
	for passed := n.t / int64(every); n.copies < passed; {
		if n.copies++; n.copies == 0 {
			keep = 0
		}
		keep *= 1 - n.c.Tau
	}
	if keep < 1 {
		for k, v := range n.theta.Host() {
			n.minus.Host()[k] = float32(float32(keep)*n.minus.Host()[k]) + float32(float32(1-keep)*v)
		}
		n.minus.Updates = n.theta.Updates
		n.minus.Wrote()
	}
}

func (n *naive) steps() int64 { return n.warmup + n.t }

// round is one step of every environment.
func (n *naive) round(t *testing.T) {
	random := n.warmup < int64(n.c.LearningStarts)
	actor := map[string]*nn.Params{ActorOnline: n.theta, ActorTarget: n.minus, ActorSnapshot: n.snapshot}[n.c.Actor]
	var q [][]float32
	look := func(i int) []float32 { return slices.Clone(qValues(t, n.net, actor, n.obs[i])) }
	if !random {
		if !n.c.concurrent() {
			n.update(t)
			n.updateTarget(n.c.TargetUpdateInterval)
		}
		if n.t >= n.due {
			n.update(t) // the updates of the window that ends, with D as it was
			n.flush()
			if n.c.concurrent() {
				every := n.c.TargetUpdateInterval
				if n.c.Tau == 1 {
					every = max(every, n.c.Window)
				}
				n.updateTarget(every)
			}
			n.snapshot.CopyFrom(n.theta)
			for n.due <= n.t {
				n.due += int64(n.c.Window)
			}
		}
		for i := range n.w {
			q = append(q, look(i))
		}
	}
	for i, e := range n.envs {
		if n.resetting[i] {
			check(t, e.Reset(n.obs[i]))
			n.resetting[i] = false
			continue
		}
		if !random && !n.c.Synchronized && !n.c.concurrent() && !n.pushed {
			n.update(t)
			q[i] = look(i)
		}
		var allowed []int32
		for a, may := range allowedIn(t, e) {
			if may != 0 {
				allowed = append(allowed, int32(a))
			}
		}
		action := allowed[0]
		if random || n.streams[i].Float64() < n.epsilon(n.t) {
			action = allowed[n.streams[i].Intn(len(allowed))]
		} else {
			for _, a := range allowed {
				if q[i][a] > q[i][action] {
					action = a
				}
			}
		}
		x := transition{obs: slices.Clone(n.obs[i]), next: make([]byte, 8), action: action, version: actor.Updates}
		reward, end, err := e.Step(action, x.next)
		check(t, err)
		x.reward, x.end, x.terminated, x.mask = reward, end, end&(env.Terminated|env.Lost) != 0, allowedIn(t, e)
		copy(n.obs[i], x.next)
		if x.terminated {
			clear(x.next)
			x.mask = []byte{1, 1, 1}
		}
		n.staged[i] = append(n.staged[i], x)
		if end.Over() {
			n.episodeEnds++
			if n.nextStep {
				n.resetting[i] = true
			} else {
				check(t, e.Reset(n.obs[i]))
			}
		}
		if random {
			n.warmup++
		} else {
			n.t++
		}
	}
}

// allowedIn returns the mask of an environment's actions; without masks every action is allowed.
func allowedIn(t *testing.T, e *traintest.Walk) []byte {
	mask := []byte{1, 1, 1}
	if e.Masked {
		check(t, e.Mask(mask))
	}
	return mask
}

// settle is the beginning of a call that reads.
func (n *naive) settle(t *testing.T) {
	if n.warmup >= int64(n.c.LearningStarts) {
		n.update(t)
	}
}

// compare compares a DQN at the same step with n.
func (n *naive) compare(t *testing.T, d *trial) {
	t.Helper()
	n.settle(t)
	check(t, d.Settle())
	if s := d.Stats(); s.Steps != n.steps() || s.Updates != n.updates || s.Updates != s.UpdatesDue || s.Episodes != n.episodeEnds || d.m.Clock.Warmup != n.warmup {
		t.Fatalf("stats %+v, want %d steps (%d of them warm-up), %d updates, %d episodes", s, n.steps(), n.warmup, n.updates, n.episodeEnds)
	}
	h := hashesOf(t, d)
	if h.Weights != train.HashFloats(n.theta.Host()) || h.Target != train.HashFloats(n.minus.Host()) {
		t.Fatalf("step %d: theta %.8s, want %.8s; theta-minus %.8s, want %.8s", n.steps(), h.Weights, train.HashFloats(n.theta.Host()), h.Target, train.HashFloats(n.minus.Host()))
	}
	if n.warmup < int64(n.c.LearningStarts) || n.t == 0 {
		return // before the first window begins, the visible part is not specified
	}
	b := d.m.Memory.Minibatch(1)
	all := slices.Concat(n.d...)
	if d.m.Memory.Len() != len(all) {
		t.Fatalf("step %d: %d transitions, want %d", n.steps(), d.m.Memory.Len(), len(all))
	}
	for i, want := range all {
		d.m.Memory.Gather([]int{i}, 1, 1, b, nil)
		if !slices.Equal(b.Obs, want.obs) || !slices.Equal(b.NextObs, want.next) || b.Actions[0] != want.action ||
			b.Rewards[0] != want.reward || b.Terminated[0] != want.terminated || n.c.ActionMasks && !slices.Equal(b.NextMasks, want.mask) || b.Updates[0] != want.version {
			t.Fatalf("step %d: transition %d: %+v, want %+v", n.steps(), i, b, want)
		}
	}
}

func randomConfig(r *rand.Rand) Config {
	c := DefaultConfig()
	c.NetArch, c.Seed, c.Optimizer = []int{8}, r.IntN(1000), []string{"adam", "rmsprop_mnih"}[r.IntN(2)]
	c.NumEnvs, c.NumThreads = 1+r.IntN(5), 1+r.IntN(3)
	c.Concurrent, c.Synchronized = settings.SwitchOf(r.IntN(3) > 0), r.IntN(2) > 0
	c.Actor = []string{ActorTarget, ActorSnapshot, ActorOnline}[r.IntN(3)]
	if c.concurrent() && c.Actor == ActorOnline {
		c.Actor = ActorAuto
	}
	c.Window = c.NumEnvs + r.IntN(40)
	c.TargetUpdateInterval = 1 + r.IntN(70)
	c.TrainFreq, c.GradientSteps = 1+r.IntN(9), 1+r.IntN(3)
	c.BatchSize, c.LearningStarts, c.BufferSize = 4, 4+r.IntN(30), 20+r.IntN(150)
	c.LearningRate, c.LearningRateFinal = 1e-2, 1e-3
	c.ExplorationSteps, c.ExplorationFinal = 1+r.IntN(200), 0.1
	c.DoubleQ, c.ActionMasks = r.IntN(2) > 0, r.IntN(2) > 0
	c.ActivationFn = []string{"relu", "tanh"}[r.IntN(2)]
	c.Tau = []float64{1, 1, 0.3, 0.02}[r.IntN(4)]
	c.NSteps = []int{1, 1, 1, 2, 4}[r.IntN(5)]
	return c
}

// Every mode is Algorithm 1, with built-in and pushed environments. The periods do not divide each
// other. The run is cut into pieces, read, stopped and saved at any step.
func TestEveryModeIsAlgorithm1(t *testing.T) {
	for k := range traintest.Times(150, 60) {
		r := rand.New(rand.NewPCG(1, uint64(k)))
		c, total := randomConfig(r), int64(100+r.IntN(300))
		if k%5 == 0 {
			c.LearningRateCurve = train.Curve{{Share: 0, Value: 1e-2}, {Share: float64(total/3) / float64(total), Value: 2e-2}, {Share: 1, Value: 3e-3}}
		}
		driver := []string{"built in", "same step", "next step"}[k%3]
		name := fmt.Sprintf("%d %s W=%d concurrent=%v synchronized=%v %s window=%d C=%d F=%d/%d N=%d n=%d tau=%v double=%v masks=%v", k, driver, c.NumEnvs,
			c.concurrent(), c.Synchronized, c.Actor, c.Window, c.TargetUpdateInterval, c.TrainFreq, c.GradientSteps, c.LearningStarts, c.NSteps, c.Tau, c.DoubleQ, c.ActionMasks)
		t.Run(name, func(t *testing.T) {
			n := newNaive(t, c, total, driver != "built in", driver == "next step", driver == "built in" && k%2 == 0)
			if driver == "built in" {
				inPieces(t, r, c, n)
			} else {
				pushed(t, r, c, n)
			}
		})
	}
}

func inPieces(t *testing.T, r *rand.Rand, c Config, n *naive) {
	own := c
	own.ActionMasks = false // the environments' Spec decides
	d := must(newTrial(own, n.makeWalks(c.Seed)))(t)
	defer func() { check(t, d.Close()) }()
	check(t, d.Begin(n.total, 0))
	for n.steps() < n.total {
		piece := min(int64(1+r.IntN(60)), n.total-n.steps())
		for until := n.steps() + piece; n.steps() < until; {
			n.round(t)
		}
		check(t, d.Run(piece, 0))
		switch r.IntN(5) {
		case 0:
			n.compare(t, d)
		case 1:
			d.Stop()
			check(t, d.Run(0, 0))
		case 2:
			check(t, d.Run(0, time.Microsecond)) // ends anywhere
			for n.steps() < d.Stats().Steps {
				n.round(t)
			}
		}
		if r.IntN(3) == 0 {
			path := filepath.Join(t.TempDir(), "a")
			check(t, d.Save(path, true))
			next := must(newTrial(must(loadConfig(path))(t), n.makeWalks(0)))(t)
			check(t, next.Load(path))
			check(t, d.Close())
			d = next
		}
	}
	check(t, d.Run(0, 0))
	n.compare(t, d)
}

func pushed(t *testing.T, r *rand.Rand, c Config, n *naive) {
	mode := vec.SameStep
	if n.nextStep {
		mode = vec.NextStep
	}
	h := newHost(t, c, mode, makeWalks(c.Seed, c.ActionMasks))
	h.Begin(t, n.total)
	for n.steps() < n.total {
		n.round(t)
		check(t, h.Act())
		if r.IntN(20) == 0 { // reads inside a round
			if a, b := hashesOf(t, h.d), hashesOf(t, h.d); a != b {
				t.Fatal("two reads differ")
			}
		}
		check(t, h.Vec.Step(h.Actions, h.Rows))
		check(t, h.Observe())
		if r.IntN(20) == 0 {
			n.compare(t, h.d)
		}
	}
	n.compare(t, h.d)
}
