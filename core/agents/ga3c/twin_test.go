package ga3c_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/paceline-rl/paceline/core/agents/ga3c"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/cpu"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

// twin is GA3C on one thread, without the library's queues, threads and copies on write: every
// computation is done when it begins, and its result is used when it ends.
type twin struct {
	t       *testing.T
	c       *ga3c.Config
	device  nn.Device
	net     nn.Network
	learner nn.Learner
	chooser *policy.Sampler
	theta   *nn.Params
	rule    nn.Optimizer
	rows    int // of the learner

	now          int64
	steps        int
	updates      int
	ends         []twinEnd
	agents       []*twinAgent
	requests     []int
	queue        []*twinSegment
	predictors   []bool // busy
	trainers     []*twinGradient
	rate         func(steps int) float64
	lags, lagged int
}

type twinEnd struct {
	due     int64
	kind, k int // in order: 0 update, 1 step, 2 prediction
}

type twinAgent struct {
	env       env.Env
	obs       []byte
	explore   *rng.Stream
	latency   *rng.Stream
	segment   *twinSegment // in progress
	ended     *twinSegment // by the step in progress
	waits     *twinSegment // it waits for this one
	episodes  int
	predicted int
}

type twinSegment struct {
	agent     int
	steps     []twinRow
	last      []byte // nil: the value after the segment is 0
	queuedFor bool
}

type twinRow struct {
	obs     []byte
	step    experience.Step
	updates int
}

type twinGradient struct {
	grad     []float32
	rows     int
	segments []*twinSegment
}

// take begins one computation.
func (w *twin) take() bool {
	inside := w.queue[:min(len(w.queue), w.c.TrainingQueue)]
	rows := 0
	for _, s := range inside {
		rows += len(s.steps)
	}
	moving := false
	for _, e := range w.ends {
		moving = moving || e.kind < 2
	}
	if rows >= w.c.MinTrainingBatch || rows > 0 && !moving && len(w.requests) == 0 {
		for k, g := range w.trainers {
			if g == nil {
				w.train(k)
				return true
			}
		}
	}
	bound := w.c.PredictionQueue
	if bound == 0 {
		bound = w.c.NumEnvs
	}
	for p, busy := range w.predictors {
		if n := min(len(w.requests), bound, w.c.PredictionBatchMax); !busy && n > 0 {
			w.predict(p, n)
			return true
		}
	}
	return false
}

func (w *twin) predict(p, n int) {
	stream := w.latencies(1, p)
	due := w.now + w.c.Predict.Draw(stream) + w.c.PredictRow.Draw(stream)*int64(n)
	for _, i := range w.requests[:n] {
		a := w.agents[i]
		out, err := w.net.Forward(w.theta, a.obs, 1)
		traintest.Check(w.t, err)
		s := experience.Step{Action: make([]int32, 1), Columns: make([]float32, 2)}
		traintest.Check(w.t, w.chooser.Choose(0, &policy.BatchRow{Outputs: out}, nil, a.explore, &s))
		next := make([]byte, len(a.obs))
		s.Reward, s.End, err = a.env.Step(s.Action[0], next)
		traintest.Check(w.t, err)
		if a.segment == nil {
			a.segment = &twinSegment{agent: i}
		}
		a.segment.steps = append(a.segment.steps, twinRow{a.obs, s, w.updates})
		if s.End != 0 || len(a.segment.steps) == w.c.NSteps {
			a.ended, a.segment = a.segment, nil
			if s.End&env.Terminated == 0 {
				a.ended.last = next
			}
		}
		if a.obs = next; s.End != 0 {
			a.episodes++
			a.obs = make([]byte, len(next))
			traintest.Check(w.t, a.env.Reset(a.obs))
		}
		w.ends = append(w.ends, twinEnd{due + w.c.Step.Draw(a.latency), 1, i})
		w.steps++
	}
	w.requests = w.requests[n:]
	w.predictors[p] = true
	w.ends = append(w.ends, twinEnd{due, 2, p})
}

var latencies map[string]*rng.Stream

func (w *twin) latencies(kind, k int) *rng.Stream {
	name := []string{"latency.update", "latency.prediction"}[kind]
	key := fmt.Sprint(name, k)
	if latencies[key] == nil {
		latencies[key] = rng.New(uint64(w.c.Seed), name, k)
	}
	return latencies[key]
}

func (w *twin) value(obs []byte) float64 {
	out, err := w.net.Forward(w.theta, obs, 1)
	traintest.Check(w.t, err)
	return float64(out.Values[1][0])
}

// vtrace is the definition of V-trace, recursively.
func (w *twin) vtrace(s *twinSegment, j int) (advantage, target float64) {
	row := s.steps[j]
	out, err := w.net.Forward(w.theta, row.obs, 1)
	traintest.Check(w.t, err)
	sum := 0.0
	for _, x := range out.Values[0] {
		sum += math.Exp(float64(x))
	}
	ratio := math.Exp(float64(out.Values[0][row.step.Action[0]]) - math.Log(sum) - float64(row.step.Columns[0]))
	v, next, after := float64(out.Values[1][0]), 0.0, 0.0
	switch {
	case j+1 < len(s.steps):
		next = w.value(s.steps[j+1].obs)
		_, after = w.vtrace(s, j+1)
	case s.last != nil:
		next = w.value(s.last)
		after = next
	}
	rho, c, reward := min(w.c.VTraceRho, ratio), min(w.c.VTraceC, ratio), float64(row.step.Reward)
	return rho * (reward + w.c.Gamma*after - v), v + rho*(reward+w.c.Gamma*next-v) + w.c.Gamma*w.c.GAELambda*c*(after-next)
}

func (w *twin) train(k int) {
	g := &twinGradient{grad: make([]float32, w.theta.Layout.Size)}
	b := nn.Batch{Obs: make([]byte, 0, w.rows*8), Actions: make([]int32, w.rows), Columns: [][]float32{make([]float32, w.rows), make([]float32, w.rows), make([]float32, w.rows)}}
	for len(w.queue) > 0 && len(g.segments) < w.c.TrainingQueue && g.rows < w.c.MinTrainingBatch {
		s := w.queue[0]
		w.queue, g.segments = w.queue[1:], append(g.segments, s)
		for j, row := range s.steps {
			// The definition: R - V, or its weighted mean over the horizons.
			adv, weight := 0.0, 1.0
			for h := j; h < len(s.steps); h++ {
				v, next := w.value(s.steps[h].obs), 0.0
				if h+1 < len(s.steps) {
					next = w.value(s.steps[h+1].obs)
				} else if s.last != nil {
					next = w.value(s.last)
				}
				adv += weight * (float64(s.steps[h].step.Reward) + w.c.Gamma*next - v)
				weight *= w.c.Gamma * w.c.GAELambda
			}
			ret := adv + w.value(row.obs)
			if w.c.VTrace {
				adv, ret = w.vtrace(s, j)
			}
			b.Obs = append(b.Obs, row.obs...)
			b.Actions[g.rows] = row.step.Action[0]
			b.Columns[0][g.rows], b.Columns[1][g.rows], b.Columns[2][g.rows] = float32(adv), float32(ret), 1
			g.rows++
		}
	}
	b.Obs = b.Obs[:w.rows*8]
	var r nn.Report
	traintest.Check(w.t, w.learner.Gradient(w.theta, b, g.grad, &r))
	w.trainers[k] = g
	stream := w.latencies(0, k)
	due := w.now + w.c.Update.Draw(stream) + w.c.UpdateRow.Draw(stream)*int64(g.rows)
	w.ends = append(w.ends, twinEnd{due, 0, k})
	w.admit()
}

// admit lets agents go on whose segments are inside the queue, the oldest segment first.
func (w *twin) admit() {
	if w.c.WaitForUpdate {
		return
	}
	var list []int
	for i, a := range w.agents {
		if k := slices.Index(w.queue, a.waits); a.waits != nil && k < w.c.TrainingQueue {
			list = append(list, i)
		}
	}
	// Before this take the segments were outside: those inside by now are in the order of the queue.
	sort.Slice(list, func(a, b int) bool {
		return slices.Index(w.queue, w.agents[list[a]].waits) < slices.Index(w.queue, w.agents[list[b]].waits)
	})
	for _, i := range list {
		w.agents[i].waits = nil
		w.requests = append(w.requests, i)
	}
}

func (w *twin) instant() {
	sort.Slice(w.ends, func(i, j int) bool {
		a, b := w.ends[i], w.ends[j]
		return a.due < b.due || a.due == b.due && (a.kind < b.kind || a.kind == b.kind && a.k < b.k)
	})
	w.now = w.ends[0].due
	for len(w.ends) > 0 && w.ends[0].due == w.now {
		e := w.ends[0]
		w.ends = w.ends[1:]
		switch e.kind {
		case 0:
			w.update(e.k)
		case 1:
			a := w.agents[e.k]
			if s := a.ended; s != nil {
				a.ended = nil
				w.queue = append(w.queue, s)
				if len(w.queue) > w.c.TrainingQueue || w.c.WaitForUpdate {
					a.waits = s
					continue
				}
			}
			w.requests = append(w.requests, e.k)
		case 2:
			w.predictors[e.k] = false
		}
	}
}

func (w *twin) update(k int) {
	g := w.trainers[k]
	w.trainers[k] = nil
	most := w.c.MaxGradNorm
	norm := 0.0
	for _, x := range g.grad {
		norm += float64(x) * float64(x)
	}
	norm = math.Sqrt(norm)
	scale := 1.0
	if w.c.LossReduction == "sum" {
		scale = float64(g.rows)
	}
	factor := float32(scale)
	if most > 0 && norm*scale+1e-6 > most {
		factor = float32(most/(norm*scale+1e-6)) * float32(scale)
	}
	traintest.Check(w.t, w.rule.Apply(w.theta, g.grad, factor, w.rate(w.steps)))
	for _, s := range g.segments {
		for _, row := range s.steps {
			w.lags += w.updates - row.updates
			w.lagged++
		}
	}
	w.updates++
	if !w.c.WaitForUpdate {
		return
	}
	for _, s := range g.segments {
		if a := w.agents[s.agent]; a.waits == s {
			a.waits = nil
			w.requests = append(w.requests, s.agent)
		}
	}
}

// randomSettings are settings of a small run.
func randomSettings(r *rand.Rand) []string {
	n := func(name string, low, high int) []string { return []string{name, fmt.Sprint(low + r.IntN(high-low+1))} }
	of := func(name string, values ...string) []string { return []string{name, values[r.IntN(len(values))]} }
	least := 1 + r.IntN(8)
	return slices.Concat(
		n("num_envs", 1, 6), n("predictors", 1, 3), n("trainers", 1, 3), n("n_steps", 1, 6), n("prediction_batch_max", 1, 6), n("prediction_queue", 0, 4),
		[]string{"min_training_batch", fmt.Sprint(least)}, n("training_queue", least, least+4), n("seed", 0, 1000),
		of("wait_for_update", "true", "false", "false"), of("loss_reduction", "sum", "mean"), of("regulariser", "paper", "authors", "exact"), of("log_eps", "1e-6", "0.1"),
		of("gae_lambda", "1", "0.9"), of("max_grad_norm", "0", "0.05"), of("rms_prop_eps", "0.1", "0.01"), of("learning_rate_final", "", "0"),
		of("latency_step", "0.001", "0.001:1", "0.0002"), of("latency_predict", "0.001", "0.0001:1", "0.003:0.5"), of("latency_predict_row", "1e-9", "0.001"),
		of("vtrace", "false", "true"), of("vtrace_rho", "1", "0.9", "2"), of("vtrace_c", "1", "0.9"),
		of("latency_update", "0.001", "0.001:1", "0.02:0.2"), of("latency_update_row", "1e-9", "0.001:0.3"),
		[]string{"net_arch_pi", "4", "net_arch_vf", "4", "learning_rate", "0.01", "ent_coef", "0.05", "num_threads", fmt.Sprint(1 + r.IntN(3))},
	)
}

// Random small runs have the parameters of the twin, bit for bit up to the norms of clipped
// gradients.
func TestTwin(t *testing.T) {
	const steps = 300
	updates, lags := 0, 0
	for seed := range traintest.Times(150, 30) {
		r := rand.New(rand.NewPCG(5, uint64(seed)))
		edits := randomSettings(r)
		cfg := traintest.Must(train.NewConfig("ga3c"))(t)
		for i := 0; i < len(edits); i += 2 {
			traintest.Check(t, cfg.Set(edits[i], edits[i+1]))
		}
		mk := traintest.MakeWalk(cfg.Common().Seed)
		tr := traintest.NewTrainer(t, cfg, mk)
		traintest.Check(t, tr.Begin(steps, 0))
		traintest.Check(t, tr.Run(0, 0))

		w := newTwin(t, tr, cfg, mk, steps)
		for {
			for w.steps < steps && w.take() {
			}
			if w.steps >= steps {
				break
			}
			w.instant()
		}
		got := make([]float32, w.theta.Layout.Size)
		_, err := tr.GetParameters("policy", got)
		traintest.Check(t, err)
		st, episodes := tr.Stats(), 0
		for _, a := range w.agents {
			episodes += a.episodes
		}
		if st.Updates != int64(w.updates) || st.Steps != int64(w.steps) || st.Episodes != int64(episodes) {
			t.Fatalf("%d, %v: %d updates, %d steps, %d episodes, want %d, %d, %d", seed, edits, st.Updates, st.Steps, st.Episodes, w.updates, w.steps, episodes)
		}
		within := 0.0
		if w.c.MaxGradNorm > 0 || w.c.VTrace { // whose ratios are in float32
			within = 1e-6
		}
		for k, x := range w.theta.Host() {
			if math.Abs(float64(x-got[k])) > within {
				t.Fatalf("%d, %v: parameter %d is %v, want %v", seed, edits, k, got[k], x)
			}
		}
		if w.lagged > 0 {
			if lag, want := traintest.Metric(t, tr, "ga3c/lag_mean"), float64(w.lags)/float64(w.lagged); math.Abs(lag-want) > 1e-9 {
				t.Fatalf("%d, %v: lag %v, want %v", seed, edits, lag, want)
			}
		}
		updates += w.updates
		lags += w.lags
	}
	if updates < 1000 || lags < 1000 {
		t.Errorf("%d updates, %d lags: the test shows nothing", updates, lags)
	}
}

func newTwin(t *testing.T, tr *train.Trainer, cfg *train.Config, mk func(int) (env.Env, error), steps int64) *twin {
	c := *cfg.Struct().(*ga3c.Config)
	spec := tr.Method().Policy()
	w := &twin{t: t, c: &c, device: traintest.Must(cpu.New(1, nil))(t), predictors: make([]bool, c.Predictors), trainers: make([]*twinGradient, c.Trainers)}
	t.Cleanup(w.device.Close)
	latencies = map[string]*rng.Stream{}
	w.rows = c.MinTrainingBatch - 1 + c.NSteps
	loss := nn.ActorCritic{EntropyCoef: c.EntCoef, ValueCoef: c.VfCoef, LogEps: c.LogEps, Regulariser: map[string]string{"paper": "plus", "authors": "max"}[c.Regulariser]}
	w.net = traintest.Must(w.device.Network(spec.Net, 1))(t)
	w.learner = traintest.Must(w.device.Learner(spec.Net, w.rows, loss))(t)
	w.theta = traintest.Must(spec.Net.InitialParams(rng.New(uint64(c.Seed), "weights", 0)))(t)
	w.rule = traintest.Must(w.device.Optimizer(nn.OptimizerConfig{Name: "rmsprop", Decay: c.RMSPropAlpha, Eps: c.RMSPropEps, EpsInside: true, FirstAverage: 1}, w.theta.Layout.Size))(t)
	w.chooser = policy.NewSampler(spec.Env.Action, &spec.Net, policy.Bounds{})
	w.rate = func(at int) float64 {
		if math.IsNaN(c.LearningRateFinal) || at <= 0 {
			return c.LearningRate
		}
		return c.LearningRate + (c.LearningRateFinal-c.LearningRate)*float64(at)/float64(steps)
	}
	for i := range c.NumEnvs {
		e := traintest.Must(mk(i))(t)
		a := &twinAgent{env: e, obs: make([]byte, 8), explore: rng.New(uint64(c.Seed), "explore", i), latency: rng.New(uint64(c.Seed), "latency.step", i)}
		traintest.Check(t, e.Reset(a.obs))
		w.agents, w.requests = append(w.agents, a), append(w.requests, i)
	}
	return w
}
