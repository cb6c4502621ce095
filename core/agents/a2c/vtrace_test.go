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
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/threads"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
	"github.com/paceline-rl/paceline/core/vec"
)

// windowTwin is V-trace with groups, done naively: the window is a list of rounds.
type windowTwin struct {
	t              *testing.T
	c              Config
	total          int64
	steps, updates int64
	trained        map[*moment]int
	net            nn.Network
	learner        nn.Learner
	optimizer      nn.Optimizer
	theta          *nn.Params
	explore        []*rng.Stream
	envs           []*traintest.Walk
	obs            [][]byte
	resetting      []bool
	nextStep       bool
	rounds         [][]*moment // [round][environment]; nil: the row only reset
	all            [][]*moment // rounds of the whole run
	since          int         // rounds since the latest update
	group          int
	over           int // rounds
}

// moment is one step.
type moment struct {
	obs, next       []byte
	action          int32
	reward, logProb float64
	end             env.End
	round, group    int
}

func (w *windowTwin) look(obs []byte, action int32) (logits []float32, logPi, value float64) {
	out := must(w.net.Forward(w.theta, obs, 1))(w.t)
	total := 0.0
	for _, x := range out.Values[0] {
		total += math.Exp(float64(x))
	}
	return slices.Clone(out.Values[0]), float64(out.Values[0][action]) - math.Log(total), float64(out.Values[1][0])
}

// target is the row's value target and its policy advantage, recursively.
func (w *windowTwin) target(round, i int) (target, advantage float64) {
	m := w.rounds[round][i]
	_, logPi, own := w.look(m.obs, m.action)
	ratio := math.Exp(logPi - max(m.logProb, math.Log(1e-5)))
	rho, trace := min(w.c.VTraceRho, ratio), min(w.c.VTraceC, ratio)
	next, after := 0.0, 0.0 // V and target of what follows
	following := round + 1
	for following < len(w.rounds) && w.rounds[following][i] == nil {
		following++
	}
	switch {
	case m.end&env.Terminated != 0:
	case m.end&env.Truncated != 0:
		_, _, next = w.look(m.next, 0)
		after = next
	case following == len(w.rounds):
		_, _, next = w.look(w.obs[i], 0)
		after = next
	default:
		_, _, next = w.look(w.rounds[following][i].obs, 0)
		after, _ = w.target(following, i)
	}
	target = own + rho*(m.reward+w.c.Gamma*next-own) + w.c.Gamma*w.c.GAELambda*trace*(after-next)
	return target, rho * (m.reward + w.c.Gamma*after - own)
}

func (w *windowTwin) update() {
	if len(w.rounds) < w.c.NSteps || w.since > 0 && w.since < w.c.VTraceSteps {
		return
	}
	for i, e := range w.envs {
		if w.late() && w.resetting[i] {
			check(w.t, e.Reset(w.obs[i]))
			w.resetting[i] = false
		}
	}
	envs := w.c.NumEnvs / w.c.VTraceGroups
	var b nn.Batch
	b.Columns = make([][]float32, 3)
	steps := 0
	for round := range w.rounds {
		for i := w.group * envs; i < (w.group+1)*envs; i++ {
			m := w.rounds[round][i]
			if m == nil {
				m = &moment{obs: make([]byte, 8)}
				b.Columns[0], b.Columns[1], b.Columns[2] = append(b.Columns[0], 0), append(b.Columns[1], 0), append(b.Columns[2], 0)
			} else {
				steps++
				w.trained[m]++
				target, advantage := w.target(round, i)
				b.Columns[0], b.Columns[1], b.Columns[2] = append(b.Columns[0], float32(advantage)), append(b.Columns[1], float32(target)), append(b.Columns[2], 1)
			}
			b.Obs, b.Actions = append(b.Obs, m.obs...), append(b.Actions, m.action)
		}
	}
	w.group, w.since = (w.group+1)%w.c.VTraceGroups, 0
	w.rounds = w.rounds[w.c.VTraceSteps:]
	if steps == 0 {
		return
	}
	grad := make([]float32, w.theta.Layout.Size)
	check(w.t, w.learner.Gradient(w.theta, b, grad, &nn.Report{}))
	_, factor := w.optimizer.ClipGradNorm(grad, w.c.MaxGradNorm)
	check(w.t, w.optimizer.Apply(w.theta, grad, factor, w.c.LearningRate))
	w.updates++
}

// late reports whether an environment whose episode has ended rests until the next update.
func (w *windowTwin) late() bool { return !w.c.MidBatchReset }

func (w *windowTwin) round() {
	w.update()
	row := make([]*moment, len(w.envs))
	for i, e := range w.envs {
		if w.resetting[i] {
			if !w.late() {
				check(w.t, e.Reset(w.obs[i]))
				w.resetting[i] = false
			}
			continue
		}
		logits, _, _ := w.look(w.obs[i], 0)
		m := &moment{obs: slices.Clone(w.obs[i]), next: make([]byte, 8), round: w.over, group: i / (w.c.NumEnvs / w.c.VTraceGroups)}
		u, total := w.explore[i].Float64(), 0.0
		for _, x := range logits {
			total += math.Exp(float64(x))
		}
		for sum := 0.0; ; m.action++ {
			if sum += math.Exp(float64(logits[m.action])) / total; u < sum || int(m.action) == len(logits)-1 {
				break
			}
		}
		m.logProb = float64(logits[m.action]) - math.Log(total)
		reward, end, err := e.Step(m.action, m.next)
		check(w.t, err)
		m.reward, m.end = float64(reward), end
		copy(w.obs[i], m.next)
		row[i] = m
		w.steps++
		if end == 0 {
			continue
		}
		if w.nextStep || w.late() {
			w.resetting[i] = true
		} else {
			check(w.t, e.Reset(w.obs[i]))
		}
	}
	w.rounds, w.all = append(w.rounds, row), append(w.all, row)
	w.since++
	w.over++
}

func newWindowTwin(t *testing.T, c Config, nextStep bool) *windowTwin {
	must(c.Resolve())(t)
	spec := must(c.Network(&c.Common, (&traintest.Walk{}).Spec()))(t)
	device := must(nn.NewCPU(1, nil))(t)
	t.Cleanup(device.Close)
	w := &windowTwin{
		t: t, c: c, nextStep: nextStep, trained: map[*moment]int{}, resetting: make([]bool, c.NumEnvs),
		net: must(device.Network(spec, 1))(t), theta: must(spec.InitialParams(rng.New(uint64(c.Seed), "weights", 0)))(t),
		learner: must(device.Learner(spec, c.NSteps*c.NumEnvs/c.VTraceGroups, nn.ActorCritic{EntropyCoef: c.EntCoef, ValueCoef: c.VfCoef}))(t),
	}
	w.optimizer = must(device.Optimizer(c.Optimizer(), w.theta.Layout.Size))(t)
	for i := range c.NumEnvs {
		w.explore = append(w.explore, rng.New(uint64(c.Seed), "explore", i))
		w.envs = append(w.envs, must(traintest.MakeWalk(c.Seed)(i))(t).(*traintest.Walk))
		w.obs = append(w.obs, make([]byte, 8))
		check(t, w.envs[i].Reset(w.obs[i]))
	}
	return w
}

// compare holds a Trainer that stands at the same step against w.
func (w *windowTwin) compare(tr *train.Trainer) {
	w.t.Helper()
	w.update()
	check(w.t, tr.Settle(0))
	if s := tr.Stats(); s.Steps != w.steps || s.Updates != w.updates {
		w.t.Fatalf("%+v, want %d steps, %d updates", s, w.steps, w.updates)
	}
	have := make([]float32, w.theta.Layout.Size)
	must(tr.GetParameters("policy", have))(w.t)
	for k, want := range w.theta.Host() {
		if math.Abs(float64(have[k]-want)) > 2e-4 {
			w.t.Fatalf("step %d, update %d: parameter %d is %g, want %g", w.steps, w.updates, k, have[k], want)
		}
	}
}

// counting is a Stepper that writes down which rows of the window the library's updates learn
// from.
type counting struct {
	nn.Stepper
	of     *A2C
	learnt []learntRow
}

type learntRow struct {
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
	// Rows are places in a ring of rounds, the newest of which is the last one of this update.
	c, all := &s.of.cfg, s.of.Rollout.Obs()
	newest, _ := s.of.Rollout.Newest(1)
	rounds := c.NSteps + int(s.of.Clock.Rollouts-1)*c.VTraceSteps
	ring := len(all) / (walkBytes * c.NumEnvs)
	for k, row := range b.Rows {
		if b.Columns[columnWeight][k] != 0 {
			age := (newest/c.NumEnvs - int(row)/c.NumEnvs + ring) % ring
			s.learnt = append(s.learnt, learntRow{rounds - 1 - age, int(row) % c.NumEnvs, slices.Clone(all[int(row)*walkBytes:][:walkBytes])})
		}
	}
	return s.Stepper.Update(p, b, lr, r)
}

// check holds the steps that s has seen against those that the twin took: each as often, and
// in the windows of its group n_steps / (groups * steps) times, exactly.
func (s *counting) check(w *windowTwin) {
	w.t.Helper()
	times, have := w.c.NSteps/(w.c.VTraceGroups*w.c.VTraceSteps), map[*moment]int{}
	for _, row := range s.learnt {
		m := w.all[row.round][row.env]
		if m == nil || !bytes.Equal(m.obs, row.obs) {
			w.t.Fatalf("round %d of environment %d: observation %v was learnt from, the step is %+v", row.round, row.env, row.obs, m)
		}
		have[m]++
	}
	inside := 0
	for _, row := range w.all {
		for i, m := range row {
			if m == nil {
				continue
			}
			// Group g's windows end with rounds n_steps + (g + j groups) steps, j = 0, 1, ...
			first := w.c.NSteps + (m.group-w.c.VTraceGroups)*w.c.VTraceSteps
			exactly := m.round >= first && m.round+w.c.NSteps <= len(w.all)
			if n := have[m]; n > times || exactly && n != times || n != w.trained[m] {
				w.t.Fatalf("round %d of environment %d was learnt from %d times, by the twin %d, want %d", m.round, i, n, w.trained[m], times)
			}
			if exactly {
				inside++
			}
		}
	}
	if inside == 0 {
		w.t.Error("no step was in all its windows: the test shows nothing")
	}
}

// Whoever steps the environments: V-trace by its definition, and each step of the first full
// window's groups and later ones is learnt from exactly n_steps / (groups * steps) times.
func TestVTrace(t *testing.T) {
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
				// Environments that rest take no steps: as many steps as the twin takes in those
				// rounds.
				for range rounds {
					w.round()
				}
				check(t, tr.Begin(w.steps, 0))
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
	if w.nextStep {
		c.Autoreset, mode = "next_step", vec.NextStep
	}
	pool := must(threads.NewPool(1, nil))(t)
	defer pool.Close()
	v := must(vec.New(traintest.MakeWalk(c.Seed), c.NumEnvs, pool, mode))(t)
	defer v.Close()
	tr := must(train.NewPushed(configOf(t, c), *v.Spec()))(t)
	defer func() { check(t, tr.Close()) }()
	rows, actions := vec.NewRows(v.Spec().Obs, v.Len()), vec.Actions{Discrete: make([]int32, v.Len())}
	check(t, v.Reset(rows, nil))
	s := count(tr)
	check(t, tr.Begin(rounds*int64(c.NumEnvs), 0))
	for range rounds {
		w.round()
		check(t, tr.Act(rows, actions, 0))
		check(t, v.Step(actions, rows))
		check(t, tr.Observe(rows, 0))
	}
	w.compare(tr)
	s.check(w)
}

// mirror is a Stepper that has of the rows what Keep and Refresh bring to it, as a GPU has.
type mirror struct {
	nn.Stepper
	t           *testing.T
	of          *A2C
	kept, there []byte
	keeps, rows int // calls of Keep, and rows of Refresh
	spoilt      bool
}

const walkBytes = 8 // of a traintest.Walk's observation

func (m *mirror) Keep(obs []byte) error {
	m.kept, m.there = obs, slices.Clone(obs)
	m.keeps++
	return m.Stepper.Keep(obs)
}

func (m *mirror) Refresh(first, rows int) error {
	for k := range rows {
		at := (first + k) * walkBytes % len(m.kept)
		copy(m.there[at:at+walkBytes], m.kept[at:])
	}
	m.rows += rows
	return m.Stepper.Refresh(first, rows)
}

func (m *mirror) check(b nn.Batch) {
	if &m.kept[0] != &m.of.Rollout.Obs()[0] {
		m.t.Fatal("what was kept is not the rollout's any more")
	}
	for i, row := range b.Rows {
		at := int(row) * walkBytes
		if !bytes.Equal(m.there[at:at+walkBytes], m.kept[at:at+walkBytes]) {
			m.t.Fatalf("step %d: row %d has changed and was not brought", m.of.Clock.Steps, i)
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

// Whatever happens to a run, the rows of an update are where they are computed, and each was
// brought there once: all of a window at first, after a load, and after a window was given up for a
// loss that is not finite; else those of the rounds since the update before.
func TestAWindowsRowsAreBroughtOnce(t *testing.T) {
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
				t.Fatalf("%d rows were brought and %d windows, want %d rows", got, m.keeps-keepsBefore, want)
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
		t.Errorf("%d loads, %d spoilt updates, whole windows were brought %d times, must be 20 to %d times", loads, spoilt, keeps, most)
	}
}

func TestVTraceRefusals(t *testing.T) {
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
