package traintest

import (
	"iter"
	"math"
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/rng"
)

// Steps steps walks one after the other and keeps the rounds in lists, for naive implementations of
// on-policy methods.
type Steps struct {
	NextStep bool
	// ResetInUpdate says that an environment takes no step after an end until ResetEnded.
	ResetInUpdate bool

	Count, Episodes int64     // steps taken, episodes ended
	Rounds          [][]*Step // [round][environment]; nil: no step
	Envs            []*Walk
	Obs             [][]byte // the environments' current observations

	explore   []*rng.Stream
	resetting []bool
}

// Step is one step of an environment.
type Step struct {
	Obs, Mask, Next []byte
	Action          int32
	LogProb         float32
	Reward          float64
	End             env.End
	Value           float64 // V of Obs
	// Advantage and Return are set when the rollout is full.
	Advantage, Return float64
}

// Begin makes and resets the walks of a seed.
func (w *Steps) Begin(t *testing.T, seed, envs int, masked bool) {
	t.Helper()
	w.resetting = make([]bool, envs)
	for i := range envs {
		w.explore = append(w.explore, rng.New(uint64(seed), "explore", i))
		made, err := MakeWalk(seed)(i)
		check(t, err)
		walk := made.(*Walk)
		walk.Masked = masked
		w.Envs = append(w.Envs, walk)
		w.Obs = append(w.Obs, make([]byte, 8))
		check(t, walk.Reset(w.Obs[i]))
	}
}

// Take takes a step in every environment, for which choose sets Action.
func (w *Steps) Take(t *testing.T, choose func(s *Step, explore *rng.Stream)) {
	t.Helper()
	row := make([]*Step, len(w.Envs))
	for i, e := range w.Envs {
		if w.resetting[i] {
			if !w.ResetInUpdate {
				w.reset(t, i)
			}
			continue
		}
		s := &Step{Obs: slices.Clone(w.Obs[i]), Next: make([]byte, 8)}
		if e.Masked {
			s.Mask = make([]byte, e.Spec().Action.Logits())
			check(t, e.Mask(s.Mask))
		}
		choose(s, w.explore[i])
		reward, end, err := e.Step(s.Action, s.Next)
		check(t, err)
		s.Reward, s.End = float64(reward), end
		copy(w.Obs[i], s.Next)
		row[i] = s
		w.Count++
		if !end.Over() {
			continue
		}
		w.Episodes++
		if w.resetting[i] = true; !w.NextStep && !w.ResetInUpdate {
			w.reset(t, i)
		}
	}
	w.Rounds = append(w.Rounds, row)
}

func (w *Steps) reset(t *testing.T, i int) {
	check(t, w.Envs[i].Reset(w.Obs[i]))
	w.resetting[i] = false
}

// ResetEnded resets the environments whose episodes have ended, with ResetInUpdate.
func (w *Steps) ResetEnded(t *testing.T) {
	for i := range w.Envs {
		if w.ResetInUpdate && w.resetting[i] {
			w.reset(t, i)
		}
	}
}

// Follow returns environment i's next step in Rounds, and its round; nil: there is none.
func (w *Steps) Follow(round, i int) (*Step, int) {
	for next := round + 1; next < len(w.Rounds); next++ {
		if s := w.Rounds[next][i]; s != nil {
			return s, next
		}
	}
	return nil, 0
}

// Draw draws the action from the softmax of logits by the uniform number u, and sets LogProb.
func (s *Step) Draw(t *testing.T, logits []float32, u float64) {
	t.Helper()
	var allowed []int32
	var among []float32
	total := 0.0
	for a, v := range logits {
		if s.Mask == nil || s.Mask[a] != 0 {
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
	s.Action, s.LogProb = allowed[k], logs[k]
	if want := float64(among[k]) - math.Log(total); math.Abs(float64(s.LogProb)-want) > 1e-5 {
		t.Fatalf("log probability %g, want %g", s.LogProb, want)
	}
}

// Minibatches are the steps of a rollout in minibatches of a size, in the order that a seed gives
// to an epoch.
func Minibatches(rows []*Step, size, seed, epoch int) iter.Seq[[]*Step] {
	order := slices.DeleteFunc(slices.Clone(rows), func(s *Step) bool { return s == nil })
	r := rng.New(uint64(seed), "minibatches", epoch)
	for k := len(order) - 1; k > 0; k-- {
		other := r.Intn(k + 1)
		order[k], order[other] = order[other], order[k]
	}
	return slices.Chunk(order, size)
}
