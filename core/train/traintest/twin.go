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
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/vec"
)

// Twin is a naive implementation of on-policy methods. It steps the walks one after the other,
// stores rollouts in lists, computes returns by recursion in float64, draws actions with math.Exp,
// and evaluates one observation at a time. It shares only networks, recorded log probabilities and
// random streams with the code under test. Update is the method's own.
type Twin struct {
	Steps
	Gamma, Lambda float64
	Horizon       int
	Theta         *nn.Params
	Net           nn.Network // of one row
	// Value returns V from the outputs of an observation; nil: the output of head v.
	Value func(outputs []float32) float64
	// Choose chooses the action of a step, which counted steps are before; nil: by the softmax of
	// head pi.
	Choose func(s *Step, outputs []float32, explore *rng.Stream, counted int64)
	// Update learns from a full rollout, in the order of its rows. A row without a step is nil.
	// There is at least one step.
	Update func(rows []*Step)

	Updates int64
}

// evaluate returns the outputs of the first head for an observation, and V.
func (w *Twin) evaluate(t *testing.T, obs []byte) (outputs []float32, value float64) {
	out, err := w.Net.Forward(w.Theta, obs, 1)
	check(t, err)
	if w.Value != nil {
		return slices.Clone(out.Values[0]), w.Value(out.Values[0])
	}
	return slices.Clone(out.Values[0]), float64(out.Values[1][0])
}

// nextValue returns V after environment i's step of a round.
func (w *Twin) nextValue(t *testing.T, round, i int) (v float64) {
	m := w.Rounds[round][i]
	following, _ := w.Follow(round, i)
	switch {
	case m.End&(env.Terminated|env.Lost) != 0:
	case m.End&env.Truncated != 0:
		_, v = w.evaluate(t, m.Next)
	case following != nil:
		v = following.Value
	default:
		_, v = w.evaluate(t, w.Obs[i])
	}
	return v
}

// advantage returns delta + gamma lambda advantage of the next step, up to the next end. (The
// return is advantage + V. If return - V is halfway between two float32, only the same order of
// additions gives the same bits.)
func (w *Twin) advantage(t *testing.T, round, i int) float64 {
	m := w.Rounds[round][i]
	delta := m.Reward + float64(w.Gamma*w.nextValue(t, round, i)) - m.Value
	if following, next := w.Follow(round, i); following != nil && m.End == 0 {
		return delta + float64(w.Gamma*w.Lambda*w.advantage(t, next, i))
	}
	return delta + 0
}

// ret returns the return by its definition, a mixture of the longer return and the one-step return.
func (w *Twin) ret(t *testing.T, round, i int) float64 {
	m := w.Rounds[round][i]
	if following, next := w.Follow(round, i); following != nil && m.End == 0 {
		return m.Reward + w.Gamma*(w.Lambda*w.ret(t, next, i)+(1-w.Lambda)*following.Value)
	}
	return m.Reward + w.Gamma*w.nextValue(t, round, i)
}

// Settle does the update, if it is due.
func (w *Twin) Settle(t *testing.T) {
	t.Helper()
	if len(w.Rounds) < w.Horizon {
		return
	}
	rows, steps := slices.Concat(w.Rounds...), 0
	for round, row := range w.Rounds {
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
	w.Rounds = nil
	if steps > 0 {
		w.Update(rows)
	}
	w.ResetEnded(t)
}

// Round is one step of every environment.
func (w *Twin) Round(t *testing.T) {
	t.Helper()
	w.Settle(t)
	w.Take(t, func(s *Step, explore *rng.Stream) {
		outputs, value := w.evaluate(t, s.Obs)
		s.Value = value
		if w.Choose != nil {
			w.Choose(s, outputs, explore, w.Count)
		} else {
			s.Draw(t, outputs, explore.Float64())
		}
	})
}

// Compare compares a Trainer at the same step with w.
func (w *Twin) Compare(t *testing.T, tr *train.Trainer) {
	t.Helper()
	w.Settle(t)
	check(t, tr.Settle(0))
	if s := tr.Stats(); s.Steps != w.Count || s.Updates != w.Updates || s.Updates != s.UpdatesDue || s.Episodes != w.Episodes {
		t.Fatalf("stats %+v, want %d steps, %d updates, %d episodes", s, w.Count, w.Updates, w.Episodes)
	}
	have := make([]float32, w.Theta.Layout.Size)
	u, err := tr.GetParameters("policy", have)
	check(t, err)
	if u != uint64(w.Updates) {
		t.Fatalf("step %d: %d updates seen, want %d", w.Count, u, w.Updates)
	}
	if want := w.Theta.Host(); !slices.Equal(have, want) {
		k := 0
		for have[k] == want[k] {
			k++
		}
		t.Fatalf("step %d, update %d: parameter %d is %g, want %g", w.Count, w.Updates, k, have[k], want[k])
	}
}

// Run compares a Trainer with w during a run of total steps. With builtIn the library steps the
// environments, and the run is cut, stopped, read and saved at random (r). Otherwise the
// environments are pushed.
func (w *Twin) Run(t *testing.T, r *rand.Rand, c *train.Config, total int64, builtIn bool) {
	t.Helper()
	s := Subject{Masked: w.Envs[0].Masked}
	if builtIn {
		check(t, c.Set("groups", strconv.Itoa(min(len(w.Envs), 1+r.IntN(2)))))
		s.waits, s.lives = r.IntN(3) == 0, r.IntN(3) == 0
		for _, e := range w.Envs {
			e.Lives = s.lives
		}
		w.inPieces(t, r, c, total, s)
		return
	}
	mode := vec.SameStep
	if w.NextStep {
		mode = vec.NextStep
	}
	c.Common().ActionMasks = s.Masked
	h := NewHost(t, c, mode, s.walks(c.Common().Seed))
	h.Begin(t, total)
	for w.Count < total {
		w.Round(t)
		h.Round(t)
		if r.IntN(20) == 0 {
			w.Compare(t, h.Trainer)
		}
	}
	w.Compare(t, h.Trainer)
}

func (w *Twin) inPieces(t *testing.T, r *rand.Rand, c *train.Config, total int64, s Subject) {
	tr, err := train.New(c, s.walks(c.Common().Seed))
	check(t, err)
	defer func() { check(t, tr.Close()) }()
	check(t, tr.Begin(total, 0))
	for w.Count < total {
		piece := min(int64(1+r.IntN(60)), total-w.Count)
		for until := w.Count + piece; w.Count < until; {
			w.Round(t)
		}
		// The time limit may end a call during an update.
		for tr.Stats().Steps < w.Count {
			check(t, tr.Run(w.Count-tr.Stats().Steps, time.Duration(1+r.IntN(200))*time.Microsecond))
		}
		switch r.IntN(5) {
		case 0:
			w.Compare(t, tr)
		case 1:
			tr.Stop()
			check(t, tr.Run(0, 0))
		case 2:
			check(t, tr.Run(0, time.Microsecond)) // ends anywhere
			for w.Count < tr.Stats().Steps {
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
