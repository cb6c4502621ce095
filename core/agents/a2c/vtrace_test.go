package a2c

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/cpu"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
	"github.com/paceline-rl/paceline/core/vec"
)

// windowTwin is a naive V-trace with groups: the window is a list of rounds.
type windowTwin struct {
	traintest.Steps
	t         *testing.T
	c         Config
	updates   int64
	trained   map[*traintest.Step]int
	net       nn.Network
	device    nn.Device
	learner   nn.Learner
	optimizer nn.Optimizer
	theta     *nn.Params
	all       [][]*traintest.Step // rounds of the whole run
	since     int                 // rounds since the latest update
	group     int                 // the group that learns next
}

func (w *windowTwin) look(obs []byte, action int32) (logits []float32, logPi, value float64) {
	out := must(w.net.Forward(w.theta, obs, 1))(w.t)
	total := 0.0
	for _, x := range out.Values[0] {
		total += math.Exp(float64(x))
	}
	return slices.Clone(out.Values[0]), float64(out.Values[0][action]) - math.Log(total), float64(out.Values[1][0])
}

// target returns the row's value target and its policy advantage, recursively.
func (w *windowTwin) target(round, i int) (target, advantage float64) {
	m := w.Rounds[round][i]
	_, logPi, own := w.look(m.Obs, m.Action)
	ratio := math.Exp(logPi - max(float64(m.LogProb), math.Log(1e-5)))
	rho, trace := min(w.c.VTraceRho, ratio), min(w.c.VTraceC, ratio)
	next, after := 0.0, 0.0 // V and target after the step
	following, at := w.Follow(round, i)
	switch {
	case m.End&env.Terminated != 0:
	case m.End&env.Truncated != 0:
		_, _, next = w.look(m.Next, 0)
		after = next
	case following == nil:
		_, _, next = w.look(w.Obs[i], 0)
		after = next
	default:
		_, _, next = w.look(following.Obs, 0)
		after, _ = w.target(at, i)
	}
	target = own + rho*(m.Reward+w.c.Gamma*next-own) + w.c.Gamma*w.c.GAELambda*trace*(after-next)
	return target, rho * (m.Reward + w.c.Gamma*after - own)
}

func (w *windowTwin) update() {
	if len(w.Rounds) < w.c.NSteps || w.since > 0 && w.since < w.c.VTraceSteps {
		return
	}
	w.ResetEnded(w.t)
	envs := w.c.NumEnvs / w.c.VTraceGroups
	var b nn.Batch
	b.Columns = make([][]float32, 3)
	steps := 0
	for round := range w.Rounds {
		for i := w.group * envs; i < (w.group+1)*envs; i++ {
			m := w.Rounds[round][i]
			row := []float32{0, 0, 0}
			if m == nil {
				m = &traintest.Step{Obs: make([]byte, walkBytes)}
			} else {
				steps++
				w.trained[m]++
				target, advantage := w.target(round, i)
				row = []float32{float32(advantage), float32(target), 1}
			}
			b.Obs, b.Actions = append(b.Obs, m.Obs...), append(b.Actions, m.Action)
			for c, v := range row {
				b.Columns[c] = append(b.Columns[c], v)
			}
		}
	}
	w.group, w.since = (w.group+1)%w.c.VTraceGroups, 0
	w.Rounds = w.Rounds[w.c.VTraceSteps:]
	if steps == 0 {
		return
	}
	grad := make([]float32, w.theta.Layout.Size)
	check(w.t, w.learner.Gradient(w.theta, b, grad, &nn.Report{}))
	_, factor := w.device.ClipGradNorm(grad, w.c.MaxGradNorm)
	check(w.t, w.optimizer.Apply(w.theta, grad, factor, w.c.LearningRate))
	w.updates++
}

func (w *windowTwin) round() {
	w.update()
	w.Take(w.t, func(s *traintest.Step, explore *rng.Stream) {
		logits, _, _ := w.look(s.Obs, 0)
		s.Draw(w.t, logits, explore.Float64())
	})
	w.all = append(w.all, w.Rounds[len(w.Rounds)-1])
	w.since++
}

func newWindowTwin(t *testing.T, c Config, nextStep bool) *windowTwin {
	must(c.Resolve())(t)
	spec := must(c.Network(&c.Common, (&traintest.Walk{}).Spec()))(t)
	device := must(cpu.New(1, nil))(t)
	t.Cleanup(device.Close)
	w := &windowTwin{
		Steps: traintest.Steps{NextStep: nextStep, ResetInUpdate: !c.MidBatchReset},
		t:     t, c: c, device: device, trained: map[*traintest.Step]int{},
		net: must(device.Network(spec, 1))(t), theta: must(spec.InitialParams(rng.New(uint64(c.Seed), "weights", 0)))(t),
		learner: must(device.Learner(spec, c.NSteps*c.NumEnvs/c.VTraceGroups, nn.ActorCritic{EntropyCoef: c.EntCoef, ValueCoef: c.VfCoef}))(t),
	}
	w.optimizer = must(device.Optimizer(c.Optimizer(), w.theta.Layout.Size))(t)
	w.Begin(t, c.Seed, c.NumEnvs, false)
	return w
}

// compare compares a Trainer at the same step with w.
func (w *windowTwin) compare(tr *train.Trainer) {
	w.t.Helper()
	w.update()
	check(w.t, tr.Settle(0))
	if s := tr.Stats(); s.Steps != w.Count || s.Updates != w.updates {
		w.t.Fatalf("%+v, want %d steps, %d updates", s, w.Count, w.updates)
	}
	have := make([]float32, w.theta.Layout.Size)
	must(tr.GetParameters("policy", have))(w.t)
	for k, want := range w.theta.Host() {
		if math.Abs(float64(have[k]-want)) > 2e-4 {
			w.t.Fatalf("step %d, update %d: parameter %d is %g, want %g", w.Count, w.updates, k, have[k], want)
		}
	}
}

// counting is a Stepper that records which rows of the window the updates learn from.
type counting struct {
	nn.Stepper
	of      *A2C
	learned []learnedRow
}

type learnedRow struct {
	round, env int
	obs        []byte
}

func count(tr *train.Trainer) *counting {
	a := tr.Method().(*A2C)
	s := &counting{Stepper: a.Stepper, of: a}
	a.Stepper = s
	return s
}

func (s *counting) Update(p *nn.Params, b nn.Batch, lr float64, r *nn.Report) error {
	// Rows are indices into a ring of rounds, whose newest round is the last one of this update.
	c, all := &s.of.cfg, s.of.Rollout.Obs()
	newest, _ := s.of.Rollout.Newest(1)
	rounds := c.NSteps + int(s.of.Clock.Rollouts-1)*c.VTraceSteps
	ring := len(all) / (walkBytes * c.NumEnvs)
	for k, row := range b.Rows {
		if b.Columns[columnWeight][k] != 0 {
			age := (newest/c.NumEnvs - int(row)/c.NumEnvs + ring) % ring
			s.learned = append(s.learned, learnedRow{rounds - 1 - age, int(row) % c.NumEnvs, slices.Clone(all[int(row)*walkBytes:][:walkBytes])})
		}
	}
	return s.Stepper.Update(p, b, lr, r)
}

// check compares the steps that the library has learned from with those of the twin. Both learn
// from each step equally often. They learn from a step that was in all windows of its group n_steps
// / (groups * steps) times.
func (s *counting) check(w *windowTwin) {
	w.t.Helper()
	times, have := w.c.NSteps/(w.c.VTraceGroups*w.c.VTraceSteps), map[*traintest.Step]int{}
	for _, row := range s.learned {
		m := w.all[row.round][row.env]
		if m == nil || !bytes.Equal(m.Obs, row.obs) {
			w.t.Fatalf("round %d of environment %d: the library learned from observation %v, the step is %+v", row.round, row.env, row.obs, m)
		}
		have[m]++
	}
	inside := 0
	for round, row := range w.all {
		for i, m := range row {
			if m == nil {
				continue
			}
			// Group g's windows end with rounds n_steps + (g + j groups) steps, j = 0, 1, ...
			group := i / (w.c.NumEnvs / w.c.VTraceGroups)
			first := w.c.NSteps + (group-w.c.VTraceGroups)*w.c.VTraceSteps
			exactly := round >= first && round+w.c.NSteps <= len(w.all)
			if n := have[m]; n > times || exactly && n != times || n != w.trained[m] {
				w.t.Fatalf("the library learned from round %d of environment %d %d times, the twin %d times, want %d", round, i, n, w.trained[m], times)
			}
			if exactly {
				inside++
			}
		}
	}
	if inside == 0 {
		w.t.Error("no step was in all windows of its group: the test shows nothing")
	}
}

// Updates follow the definition of V-trace, with built-in and pushed environments. Each step of a
// full window is learned from exactly n_steps / (groups * steps) times.
func TestVTraceFollowsItsDefinition(t *testing.T) {
	for k := range 45 {
		r := rand.New(rand.NewPCG(2, uint64(k)))
		c := *Settings.Defaults().Struct().(*Config)
		c.NetArchPi, c.NetArchVf, c.Seed, c.LearningRate, c.UseRMSProp, c.AdamEps = []int{8}, []int{8}, k, 1e-3, false, 1e-3
		c.VTrace, c.VTraceGroups, c.VTraceSteps = true, []int{1, 2, 3}[r.IntN(3)], 1+r.IntN(3)
		times := 1 + r.IntN(3)
		c.NSteps, c.NumEnvs = times*c.VTraceGroups*c.VTraceSteps, c.VTraceGroups*(1+r.IntN(2))
		c.GAELambda, c.EntCoef = []float64{1, .9}[r.IntN(2)], .01
		c.VTraceRho, c.VTraceC = []float64{1, 1.5, .9}[r.IntN(3)], []float64{1, .8}[r.IntN(2)]
		driver, rounds := []string{"built in", "same step", "next step"}[k%3], int64(60)
		c.MidBatchReset = driver != "built in" || k%2 == 0
		t.Run(fmt.Sprintf("%d %s W=%d n_steps=%d groups=%d steps=%d mid_batch_reset=%v", k, driver, c.NumEnvs, c.NSteps, c.VTraceGroups, c.VTraceSteps, c.MidBatchReset), func(t *testing.T) {
			w := newWindowTwin(t, c, driver == "next step")
			if driver == "built in" {
				tr := must(train.New(configOf(t, c), traintest.MakeWalk(c.Seed)))(t)
				defer func() { check(t, tr.Close()) }()
				s := count(tr)
				// Environments that wait for their reset take no steps, so the run has as many
				// steps as the twin takes in these rounds.
				for range rounds {
					w.round()
				}
				check(t, tr.Begin(w.Count, 0))
				check(t, tr.Run(0, 0))
				w.compare(tr)
				s.check(w)
			} else {
				w.pushed(c, rounds)
			}
		})
	}
}

func (w *windowTwin) pushed(c Config, rounds int64) {
	t, mode := w.t, vec.SameStep
	if w.NextStep {
		mode = vec.NextStep
	}
	h := traintest.NewHost(t, configOf(t, c), mode, traintest.MakeWalk(c.Seed))
	s := count(h.Trainer)
	h.Begin(t, rounds*int64(c.NumEnvs))
	for range rounds {
		w.round()
		h.Round(t)
	}
	w.compare(h.Trainer)
	s.check(w)
}

// mirror is a Stepper with a copy of the rows that Keep and Refresh upload, as a GPU has.
type mirror struct {
	nn.Stepper
	t                *testing.T
	of               *A2C
	source, uploaded []byte
	keeps, rows      int // calls of Keep, and rows of Refresh
	spoilt           bool
}

const walkBytes = 8 // of a traintest.Walk's observation

func (m *mirror) SetObs(obs []byte) error {
	m.source, m.uploaded = obs, slices.Clone(obs)
	m.keeps++
	return m.Stepper.SetObs(obs)
}

func (m *mirror) Refresh(first, rows int) error {
	for k := range rows {
		at := (first + k) * walkBytes % len(m.source)
		copy(m.uploaded[at:at+walkBytes], m.source[at:])
	}
	m.rows += rows
	return m.Stepper.Refresh(first, rows)
}

func (m *mirror) check(b nn.Batch) {
	if &m.source[0] != &m.of.Rollout.Obs()[0] {
		m.t.Fatal("Keep was called with another rollout")
	}
	for i, row := range b.Rows {
		at := int(row) * walkBytes
		if !bytes.Equal(m.uploaded[at:at+walkBytes], m.source[at:at+walkBytes]) {
			m.t.Fatalf("step %d: row %d has changed and was not uploaded", m.of.Clock.Steps, i)
		}
	}
}

func (m *mirror) Outputs(p *nn.Params, b nn.Batch) (nn.Outputs, error) {
	m.check(b)
	return m.Stepper.Outputs(p, b)
}

func (m *mirror) Update(p *nn.Params, b nn.Batch, lr float64, r *nn.Report) error {
	m.check(b)
	if m.spoilt {
		return &nn.NotFinite{What: "loss", Value: math.NaN()}
	}
	return m.Stepper.Update(p, b, lr, r)
}

// Every row of an update is uploaded once before it. The whole window is uploaded at first, after a
// load, and after a loss that is not finite; otherwise only the rounds since the previous update.
func TestAWindowsRowsAreUploadedOnce(t *testing.T) {
	const envs, steps, nSteps, rounds = 4, 2, 8, 40
	keeps, loads, spoilt := 0, 0, 0
	for k := range 12 {
		r := rand.New(rand.NewPCG(5, uint64(k)))
		c := small(func(c *Config) {
			c.NumEnvs, c.NSteps, c.VTrace, c.VTraceGroups, c.VTraceSteps, c.MidBatchReset = envs, nSteps, true, 2, steps, k%2 == 0
		})
		tr := newTrainer(t, c, traintest.MakeWalk(k))
		a := tr.Method().(*A2C)
		m := &mirror{Stepper: a.Stepper, t: t, of: a}
		a.Stepper = m
		check(t, tr.Begin(1_000_000, 0))
		path, weights := filepath.Join(t.TempDir(), "run"), make([]float32, a.Theta.Layout.Size)
		for range rounds {
			check(t, tr.Run(envs, 0))
			keepsBefore, rows, due := m.keeps, m.rows, a.Rollout.Full()
			check(t, tr.Settle(0))
			want := 0
			if due && m.keeps == keepsBefore {
				want = steps * envs
			}
			if got := m.rows - rows; got != want || m.keeps > keepsBefore && !due {
				t.Fatalf("%d rows and %d windows were uploaded, want %d rows", got, m.keeps-keepsBefore, want)
			}
			switch r.IntN(20) {
			case 0:
				check(t, tr.Save(path, true))
				loads++
				check(t, tr.Load(path))
			case 1:
				must(tr.Hash("rollout"))(t)
			case 2:
				m.spoilt = true
				for a.Failed() == nil {
					if err := tr.Run(envs, 0); err != nil && !errors.Is(err, fault.ErrNotFinite) {
						t.Fatal(err)
					}
				}
				m.spoilt = false
				spoilt++
				must(tr.GetParameters("policy", weights))(t)
				check(t, tr.SetParameters("policy", weights))
			}
		}
		keeps += m.keeps
	}
	if most := 12 + loads + spoilt; loads < 5 || spoilt < 5 || keeps < 20 || keeps > most {
		t.Errorf("%d loads, %d spoilt updates, whole windows were uploaded %d times, must be 20 to %d", loads, spoilt, keeps, most)
	}
}

func TestBadVTraceSettingsAreRefused(t *testing.T) {
	for _, c := range []struct {
		groups, steps int
		want          string
	}{
		{5, 1, "vtrace_groups: 5, must divide num_envs (12)"},
		{3, 3, "vtrace_groups: 3, must times vtrace_steps (3) divide n_steps (6)"},
		{1, 7, "vtrace_groups: 1, must times vtrace_steps (7) divide n_steps (6)"},
	} {
		cfg := small(func(x *Config) {
			x.NumEnvs, x.NSteps, x.VTrace, x.VTraceGroups, x.VTraceSteps = 12, 6, true, c.groups, c.steps
		})
		if _, err := cfg.Resolve(); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
