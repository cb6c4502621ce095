package actor_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/actor"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/normalize"
	"github.com/paceline-rl/paceline/core/threads"
	"github.com/paceline-rl/paceline/core/train/traintest"
	"github.com/paceline-rl/paceline/core/vec"
)

// naive is VecNormalize written from its formulas: two passes over the batch of a round, then the
// parallel update of Chan et al.
type naive struct {
	mean, variance []float64
	count          float64
}

func newNaive(n int) *naive {
	v := &naive{make([]float64, n), make([]float64, n), 1e-4}
	for k := range v.variance {
		v.variance[k] = 1
	}
	return v
}

func (v *naive) update(batch [][]float64) {
	n := float64(len(batch))
	if n == 0 {
		return
	}
	for k := range v.mean {
		mean, variance := 0.0, 0.0
		for _, x := range batch {
			mean += x[k] / n
		}
		for _, x := range batch {
			variance += (x[k] - mean) * (x[k] - mean) / n
		}
		delta, total := mean-v.mean[k], v.count+n
		m2 := v.variance[k]*v.count + variance*n + delta*delta*v.count*n/total
		v.mean[k], v.variance[k] = v.mean[k]+delta*n/total, m2/total
	}
	v.count += n
}

func (v *naive) scale(x []float64) []float64 {
	to := make([]float64, len(x))
	for k := range x {
		to[k] = min(10, max(-10, (x[k]-v.mean[k])/math.Sqrt(v.variance[k]+1e-8)))
	}
	return to
}

func (v *naive) scaleReward(r float64) float64 {
	return min(10, max(-10, r/math.Sqrt(v.variance[0]+1e-8)))
}

// numbers returns row i of rows of observations of two float32.
func numbers(rows []byte, i int) []float64 {
	one := make([]float64, 2)
	for k := range one {
		one[k] = float64(math.Float32frombits(binary.NativeEndian.Uint32(rows[8*i+4*k:])))
	}
	return one
}

func near(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return math.Abs(x-y) <= 1e-6*max(1, math.Abs(y)) })
}

// roundLog is a Sink that keeps the latest round.
type roundLog struct {
	begun, next [][]float64 // nil: no Begin, no Add
	rewards     []float64
}

func newRoundLog(w int) *roundLog {
	return &roundLog{make([][]float64, w), make([][]float64, w), make([]float64, w)}
}

func (l *roundLog) clear() { clear(l.begun); clear(l.next) }

func (l *roundLog) Begin(i int, obs []byte) error {
	l.begun[i] = numbers(obs, 0)
	return nil
}

func (l *roundLog) Add(i int, s *experience.Step, next []byte) error {
	l.next[i], l.rewards[i] = numbers(next, 0), float64(s.Reward)
	return nil
}
func (l *roundLog) Open(int) bool { return true }
func (l *roundLog) Cut(int)       {}

// spy is a network that keeps its input.
type spy struct {
	nn.Network
	seen []byte
}

func (s *spy) Forward(p *nn.Params, obs []byte, rows int) (nn.Outputs, error) {
	s.seen = slices.Clone(obs)
	return s.Network.Forward(p, obs, rows)
}

// normalizing is a group under test and the naive twin of its Normalizer.
type normalizing struct {
	*actor.Group
	log     *roundLog
	network *spy
	source  *vec.Vec
	config  actor.Config

	obs, returns *naive
	running      []float64   // discounted returns
	current      [][]float64 // what the network must see
}

const gammaOfTest = 0.9

func newNormalizingGroup(t *testing.T, w, cores int, mode vec.Autoreset, pushed bool, fails func() bool, waits bool) *normalizing {
	t.Helper()
	x := makeTrial(t, w, 1, kind{pushed: true})
	budget := must(threads.NewBudget(cores))(t)
	budget.Acquire()
	pool := must(threads.NewPool(cores, budget))(t)
	t.Cleanup(pool.Close)
	z := &normalizing{log: newRoundLog(w), network: &spy{Network: x.config.Joint}, config: x.config}
	z.source = must(vec.New(func(i int) (env.Env, error) {
		e, err := traintest.MakeWalk(seed)(i)
		walk := e.(*traintest.Walk)
		walk.Scale, walk.Waits = float32(1+40*i), waits
		fail := func() error {
			if fails != nil && fails() {
				return traintest.ErrSimulator
			}
			return nil
		}
		walk.BeforeStep, walk.BeforeReset = fail, fail
		return e, err
	}, w, pool, mode))(t)
	t.Cleanup(func() { check(t, z.source.Close()) })
	z.config.Joint, z.config.Sink, z.config.Cores = z.network, z.log, budget
	z.config.Disabled, z.config.NextStep = mode == vec.Disabled, mode == vec.NextStep
	z.config.Normalizer = normalize.New(2, true, true, gammaOfTest)
	if !pushed {
		z.config.Source = z.source
		for range cores {
			z.config.Alone = append(z.config.Alone, z.network)
		}
	}
	z.Group = must(actor.New(z.config))(t)
	t.Cleanup(z.Group.Close)
	z.obs, z.returns = newNaive(2), newNaive(1)
	z.running, z.current = make([]float64, w), make([][]float64, w)
	return z
}

// compare updates the twin with the rows of a round, or of resets, and compares what the sink got.
// stepped and shown are the rows that took a step and that show an observation of an episode that
// goes on or begins.
func (z *normalizing) compare(t *testing.T, name string, rows *vec.Rows, stepped, shown []int) {
	t.Helper()
	var batch, returns [][]float64
	for _, i := range shown {
		batch = append(batch, numbers(rows.Obs, i))
	}
	z.obs.update(batch)
	for _, i := range stepped {
		z.running[i] = z.running[i]*gammaOfTest + float64(rows.Rewards[i])
		returns = append(returns, []float64{z.running[i]})
	}
	z.returns.update(returns)
	for _, i := range shown {
		z.current[i] = z.obs.scale(numbers(rows.Obs, i))
	}
	for _, i := range stepped {
		if want := z.returns.scaleReward(float64(rows.Rewards[i])); !near([]float64{z.log.rewards[i]}, []float64{want}) {
			t.Fatalf("%s: row %d: reward %v, want %v", name, i, z.log.rewards[i], want)
		}
		next := z.current[i]
		if rows.Ends[i] != 0 {
			z.running[i] = 0
			last := rows.FinalObs
			if z.config.NextStep {
				last = rows.Obs
			}
			next = z.obs.scale(numbers(last, i))
		}
		if !near(z.log.next[i], next) {
			t.Fatalf("%s: row %d: next observation %v, want %v", name, i, z.log.next[i], next)
		}
	}
	for i, begun := range z.log.begun {
		if begun != nil && !near(begun, z.current[i]) {
			t.Fatalf("%s: row %d: first observation %v, want %v", name, i, begun, z.current[i])
		}
	}
	if n := z.config.Normalizer; !near(n.Obs.Mean, z.obs.mean) || !near(n.Obs.Var, z.obs.variance) || !near(n.Returns.Var, z.returns.variance) ||
		!near([]float64{n.Obs.Count, n.Returns.Count}, []float64{z.obs.count, z.returns.count}) {
		t.Fatalf("%s: %+v and %+v, want %+v and %+v", name, n.Obs, n.Returns, z.obs, z.returns)
	}
	z.log.clear()
}

// saw compares the network's input in the rows of a list.
func (z *normalizing) saw(t *testing.T, name string, list []int) {
	t.Helper()
	for _, i := range list {
		if got := numbers(z.network.seen, i); !near(got, z.current[i]) {
			t.Fatalf("%s: row %d: the network saw %v, want %v", name, i, got, z.current[i])
		}
	}
}

func all(w int) (list []int) {
	for i := range w {
		list = append(list, i)
	}
	return list
}

// A group that normalises gives the network and the sink what a naive VecNormalize makes of the
// environments' rows, which stay as they are. Environments fail, or are reset late.
func TestNormalizesAsVecNormalize(t *testing.T) {
	const w = 4
	for name, c := range map[string]struct {
		mode         vec.Autoreset
		fails, waits bool
	}{
		"same step": {mode: vec.SameStep}, "disabled": {mode: vec.Disabled}, "failures": {mode: vec.SameStep, fails: true},
		"steps wait": {mode: vec.SameStep, waits: true},
	} {
		r, on := rand.New(rand.NewPCG(3, 3)), false
		fails := func() bool { return on && r.IntN(30) == 0 }
		cores := 3
		if c.fails {
			cores = 1 // r belongs to one thread
		} else {
			fails = nil
		}
		z := newNormalizingGroup(t, w, cores, c.mode, false, fails, c.waits)
		check(t, z.Reset())
		rows, _ := z.Latest()
		z.compare(t, name, rows, nil, all(w))
		on = true
		ended, failed := 0, 0
		idle := make([]bool, w)
		for k := range 300 {
			ran, err := z.Round(int64(w*k), half(), false)
			var takes, stepped, shown []int
			for i := range w {
				if !idle[i] {
					takes = append(takes, i)
				}
				if z.log.next[i] == nil {
					continue
				}
				stepped = append(stepped, i)
				if rows.Ends[i] != 0 {
					ended++
				}
				if rows.Ends[i] == 0 || z.log.begun[i] != nil {
					shown = append(shown, i)
				}
				idle[i] = c.mode == vec.Disabled && rows.Ends[i] != 0
			}
			if int(ran.Taken) != len(stepped) {
				t.Fatalf("%s: %d steps, %d recorded", name, ran.Taken, len(stepped))
			}
			z.saw(t, name, takes)
			z.compare(t, name, rows, stepped, shown)
			if err != nil {
				if !c.fails || !errors.Is(err, traintest.ErrSimulator) {
					t.Fatal(name, err)
				}
				failed++
				z.repair(t, name, rows, &on)
			}
			if k%5 == 4 && c.mode == vec.Disabled {
				z.resetLate(t, name, rows, idle)
			}
		}
		if ended < 50 || c.fails && failed < 10 {
			t.Errorf("%s: %d episodes, %d failures: the test shows nothing", name, ended, failed)
		}
	}
}

// repair resets the environments that failed.
func (z *normalizing) repair(t *testing.T, name string, rows *vec.Rows, on *bool) {
	t.Helper()
	*on = false
	check(t, z.Repair())
	*on = true
	var shown []int
	for i, begun := range z.log.begun {
		if begun != nil {
			z.running[i] = 0
			shown = append(shown, i)
		}
	}
	z.compare(t, name, rows, nil, shown)
}

// resetLate resets the environments whose episodes have ended.
func (z *normalizing) resetLate(t *testing.T, name string, rows *vec.Rows, idle []bool) {
	t.Helper()
	if any := must(z.StartResets())(t); !any {
		return
	}
	check(t, z.FinishResets())
	var shown []int
	for i := range idle {
		if idle[i] {
			shown = append(shown, i)
		}
	}
	clear(idle)
	z.compare(t, name, rows, nil, shown)
}

// Where the host steps the environments, the same holds, in both modes.
func TestNormalizesTheHostsRows(t *testing.T) {
	const w = 3
	for _, mode := range []vec.Autoreset{vec.SameStep, vec.NextStep} {
		name := fmt.Sprint("mode ", mode)
		z := newNormalizingGroup(t, w, 1, mode, true, nil, false)
		rows := vec.NewRows(z.source.Spec().Obs, w)
		check(t, z.source.Reset(rows, nil))
		check(t, z.Reset())
		check(t, z.Use(rows, 0))
		z.compare(t, name, rows, nil, all(w))
		resetting := make([]bool, w)
		ended := 0
		for k := range 200 {
			check(t, z.Use(rows, int64(w*k)))
			check(t, z.Choose(int64(w*k), half(), true))
			z.saw(t, name, slices.DeleteFunc(all(w), func(i int) bool { return resetting[i] }))
			check(t, z.source.Step(z.Actions(), rows))
			raw := slices.Clone(rows.Obs)
			must(z.Observe(rows, int64(w*k), nil))(t)
			if !slices.Equal(rows.Obs, raw) {
				t.Fatal("the host's rows were changed")
			}
			var stepped, shown []int
			for i := range w {
				if resetting[i] {
					resetting[i] = false
					shown = append(shown, i)
					continue
				}
				stepped = append(stepped, i)
				if rows.Ends[i] == 0 || mode == vec.SameStep {
					shown = append(shown, i)
				}
				if rows.Ends[i] != 0 {
					ended++
					resetting[i] = mode == vec.NextStep
				}
			}
			z.compare(t, name, rows, stepped, shown)
		}
		if ended < 30 {
			t.Errorf("%s: %d episodes: the test shows nothing", name, ended)
		}
	}
}
