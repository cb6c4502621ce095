package traintest

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/threads"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/vec"
)

// Twin is a naive implementation of on-policy methods. It steps the walks one after the other,
// stores rollouts in lists, computes returns by recursion in float64, draws actions with math.Exp,
// and evaluates one observation at a time. It shares only networks, recorded log probabilities and
// random streams with the code under test. Update is the method's own.
type Twin struct {
	Gamma, Lambda float64
	Horizon       int
	NextStep      bool
	// ResetInUpdate says that an environment takes no step after an end until the update.
	ResetInUpdate bool
	Theta         *nn.Params
	Net           nn.Network // of one row, with the heads pi and v
	// Update learns from a full rollout, in the order of its rows. A row without a step is nil.
	// There is at least one step.
	Update func(rows []*Step)

	Steps, Updates, Episodes int64

	explore   []*rng.Stream
	envs      []*Walk
	obs       [][]byte
	resetting []bool
	rounds    [][]*Step // [round][environment]
}

// Step is one step of an environment.
type Step struct {
	Obs, Mask []byte
	Action    int32
	LogProb   float32
	Value     float64 // V of Obs
	// Advantage and Return are set when the rollout is full.
	Advantage, Return float64

	next   []byte
	reward float64
	end    env.End
}

// Begin makes and resets the walks of a seed.
func (w *Twin) Begin(t *testing.T, seed, envs int, masked bool) {
	t.Helper()
	w.resetting = make([]bool, envs)
	for i := range envs {
		w.explore = append(w.explore, rng.New(uint64(seed), "explore", i))
		made, err := MakeWalk(seed)(i)
		check(t, err)
		walk := made.(*Walk)
		walk.Masked = masked
		w.envs = append(w.envs, walk)
		w.obs = append(w.obs, make([]byte, 8))
		check(t, walk.Reset(w.obs[i]))
	}
}

func (w *Twin) evaluate(t *testing.T, obs []byte) (logits []float32, value float64) {
	out, err := w.Net.Forward(w.Theta, obs, 1)
	check(t, err)
	return slices.Clone(out.Values[0]), float64(out.Values[1][0])
}

// follow returns environment i's next step in this rollout, and its round.
func (w *Twin) follow(round, i int) (*Step, int) {
	for next := round + 1; next < len(w.rounds); next++ {
		if m := w.rounds[next][i]; m != nil {
			return m, next
		}
	}
	return nil, 0
}

// nextValue returns V after environment i's step of a round.
func (w *Twin) nextValue(t *testing.T, round, i int) (v float64) {
	m := w.rounds[round][i]
	following, _ := w.follow(round, i)
	switch {
	case m.end&env.Terminated != 0:
	case m.end&env.Truncated != 0:
		_, v = w.evaluate(t, m.next)
	case following != nil:
		v = following.Value
	default:
		_, v = w.evaluate(t, w.obs[i])
	}
	return v
}

// advantage returns delta + gamma lambda advantage of the next step, up to the next end. (The
// return is advantage + V. If return - V is halfway between two float32, only the same order of
// additions gives the same bits.)
func (w *Twin) advantage(t *testing.T, round, i int) float64 {
	m := w.rounds[round][i]
	delta := m.reward + float64(w.Gamma*w.nextValue(t, round, i)) - m.Value
	if following, next := w.follow(round, i); following != nil && m.end == 0 {
		return delta + float64(w.Gamma*w.Lambda*w.advantage(t, next, i))
	}
	return delta + 0
}

// ret returns the return by its definition, a mixture of the longer return and the one-step return.
func (w *Twin) ret(t *testing.T, round, i int) float64 {
	m := w.rounds[round][i]
	if following, next := w.follow(round, i); following != nil && m.end == 0 {
		return m.reward + w.Gamma*(w.Lambda*w.ret(t, next, i)+(1-w.Lambda)*following.Value)
	}
	return m.reward + w.Gamma*w.nextValue(t, round, i)
}

// Settle does the update, if it is due.
func (w *Twin) Settle(t *testing.T) {
	t.Helper()
	if len(w.rounds) < w.Horizon {
		return
	}
	rows, steps := slices.Concat(w.rounds...), 0
	for round, row := range w.rounds {
		for i, m := range row {
			if m == nil {
				continue
			}
			steps++
			m.Advantage = w.advantage(t, round, i)
			m.Return = m.Advantage + m.Value
			if want := w.ret(t, round, i); math.Abs(m.Return-want) > 1e-12 {
				t.Fatalf("the return is %g, want %g", m.Return, want)
			}
		}
	}
	w.rounds = nil
	if steps > 0 {
		w.Update(rows)
	}
	for i, e := range w.envs {
		if w.ResetInUpdate && w.resetting[i] {
			check(t, e.Reset(w.obs[i]))
			w.resetting[i] = false
		}
	}
}

// choose draws the action of m by the uniform number u and sets LogProb.
func (m *Step) choose(t *testing.T, logits []float32, u float64) {
	t.Helper()
	var allowed []int32
	var among []float32
	total := 0.0
	for a, v := range logits {
		if m.Mask == nil || m.Mask[a] != 0 {
			allowed, among = append(allowed, int32(a)), append(among, v)
			total += math.Exp(float64(v))
		}
	}
	k := 0
	for sum := 0.0; ; k++ {
		if sum += math.Exp(float64(among[k])) / total; u < sum || k == len(among)-1 {
			break
		}
	}
	logs := make([]float32, len(among))
	kernel.LogSoftmax(logs, among, len(among))
	m.Action, m.LogProb = allowed[k], logs[k]
	if want := float64(among[k]) - math.Log(total); math.Abs(float64(m.LogProb)-want) > 1e-5 {
		t.Fatalf("log probability %g, want %g", m.LogProb, want)
	}
}

// Round is one step of every environment.
func (w *Twin) Round(t *testing.T) {
	t.Helper()
	w.Settle(t)
	row := make([]*Step, len(w.envs))
	for i, e := range w.envs {
		if w.resetting[i] {
			if !w.ResetInUpdate {
				check(t, e.Reset(w.obs[i]))
				w.resetting[i] = false
			}
			continue
		}
		logits, value := w.evaluate(t, w.obs[i])
		m := &Step{Obs: slices.Clone(w.obs[i]), next: make([]byte, 8), Value: value}
		if e.Masked {
			m.Mask = make([]byte, len(logits))
			check(t, e.Mask(m.Mask))
		}
		m.choose(t, logits, w.explore[i].Float64())
		reward, end, err := e.Step(m.Action, m.next)
		check(t, err)
		m.reward, m.end = float64(reward), end
		copy(w.obs[i], m.next)
		row[i] = m
		w.Steps++
		if end == 0 {
			continue
		}
		w.Episodes++
		if w.NextStep || w.ResetInUpdate {
			w.resetting[i] = true
		} else {
			check(t, e.Reset(w.obs[i]))
		}
	}
	w.rounds = append(w.rounds, row)
}

// Compare compares a Trainer at the same step with w.
func (w *Twin) Compare(t *testing.T, tr *train.Trainer) {
	t.Helper()
	w.Settle(t)
	check(t, tr.Settle(0))
	if s := tr.Stats(); s.Steps != w.Steps || s.Updates != w.Updates || s.Updates != s.UpdatesDue || s.Episodes != w.Episodes {
		t.Fatalf("stats %+v, want %d steps, %d updates, %d episodes", s, w.Steps, w.Updates, w.Episodes)
	}
	have := make([]float32, w.Theta.Layout.Size)
	u, err := tr.GetParameters("policy", have)
	check(t, err)
	if u != uint64(w.Updates) {
		t.Fatalf("step %d: %d updates seen, want %d", w.Steps, u, w.Updates)
	}
	if want := w.Theta.Host(); !slices.Equal(have, want) {
		k := 0
		for have[k] == want[k] {
			k++
		}
		t.Fatalf("step %d, update %d: parameter %d is %g, want %g", w.Steps, w.Updates, k, have[k], want[k])
	}
}

// Follow compares a Trainer with w during a run of total steps. With builtIn the library steps the
// environments, and the run is cut, stopped, read and saved at random (r). Otherwise the
// environments are pushed.
func (w *Twin) Follow(t *testing.T, r *rand.Rand, c *train.Config, total int64, builtIn bool) {
	t.Helper()
	s := Subject{Masked: w.envs[0].Masked}
	if builtIn {
		check(t, c.Set("groups", strconv.Itoa(min(len(w.envs), 1+r.IntN(2)))))
		s.waits = r.IntN(3) == 0
		w.inPieces(t, r, c, total, s)
		return
	}
	mode := vec.SameStep
	check(t, c.Set("autoreset", "same_step"))
	if w.NextStep {
		mode = vec.NextStep
		check(t, c.Set("autoreset", "next_step"))
	}
	pool, err := threads.NewPool(1, nil)
	check(t, err)
	defer pool.Close()
	v, err := vec.New(s.walks(c.Common().Seed), len(w.envs), pool, mode)
	check(t, err)
	defer v.Close()
	rows, actions := vec.NewRows(v.Spec().Obs, v.Len()), vec.Actions{Discrete: make([]int32, v.Len())}
	if s.Masked {
		rows.AddMasks(v.Spec().Action.N)
		check(t, c.Set("action_masks", "true"))
	}
	tr, err := train.NewPushed(c, *v.Spec())
	check(t, err)
	defer func() { check(t, tr.Close()) }()
	check(t, v.Reset(rows, nil))
	check(t, tr.Begin(total, 0))
	for w.Steps < total {
		w.Round(t)
		check(t, tr.Act(rows, actions, 0))
		check(t, v.Step(actions, rows))
		check(t, tr.Observe(rows, 0))
		if r.IntN(20) == 0 {
			w.Compare(t, tr)
		}
	}
	w.Compare(t, tr)
}

func (w *Twin) inPieces(t *testing.T, r *rand.Rand, c *train.Config, total int64, s Subject) {
	tr, err := train.New(c, s.walks(c.Common().Seed))
	check(t, err)
	defer func() { check(t, tr.Close()) }()
	check(t, tr.Begin(total, 0))
	for w.Steps < total {
		piece := min(int64(1+r.IntN(60)), total-w.Steps)
		for until := w.Steps + piece; w.Steps < until; {
			w.Round(t)
		}
		// The time limit may end a call during an update.
		for tr.Stats().Steps < w.Steps {
			check(t, tr.Run(w.Steps-tr.Stats().Steps, time.Duration(1+r.IntN(200))*time.Microsecond))
		}
		switch r.IntN(5) {
		case 0:
			w.Compare(t, tr)
		case 1:
			tr.Stop()
			check(t, tr.Run(0, 0))
		case 2:
			check(t, tr.Run(0, time.Microsecond)) // ends anywhere
			for w.Steps < tr.Stats().Steps {
				w.Round(t)
			}
		}
		if r.IntN(3) == 0 {
			path := filepath.Join(t.TempDir(), "a")
			check(t, tr.Save(path, true))
			saved, err := train.LoadConfig(path)
			check(t, err)
			next, err := train.New(saved, s.walks(0)) // the states are in the file
			check(t, err)
			check(t, next.Load(path))
			check(t, tr.Close())
			tr = next
		}
	}
	check(t, tr.Run(0, 0))
	w.Compare(t, tr)
}
