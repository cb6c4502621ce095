package param

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/nntest"
)

// twin is a store that is written for the reader: an optimiser of its own for each shard, and lists
// of numbers for the learners. It has no locks.
type twin struct {
	t      *testing.T
	rule   Rule
	shards []twinShard
	copies [][]float32 // of the learners
	stale  int
}

type twinShard struct {
	first, size int
	p           *nn.Params
	o           nn.Optimizer
	version     uint64
}

func newTwin(t *testing.T, s *Store, n int) *twin {
	w := &twin{t: t, rule: s.rule}
	for i := range s.Shards() {
		first, size := s.Range(i)
		p := nntest.Flat(size)
		copy(p.Host(), s.theta[first:])
		w.shards = append(w.shards, twinShard{first: first, size: size, p: p, o: nntest.Must(device(t).Optimizer(s.rule.Optimizer, size))(t)})
	}
	for range n {
		w.copies = append(w.copies, slices.Clone(s.theta))
	}
	return w
}

func (w *twin) stepped(*learner, Push) {}

func (w *twin) pushed(l *learner, shard int, p Push, err error) {
	at := &w.shards[shard]
	lag := at.version - p.Seen
	refused := w.rule.MaxStaleness > 0 && lag > uint64(w.rule.MaxStaleness)
	if refused != errors.Is(err, ErrStale) {
		w.t.Fatalf("lag %d: error %v", lag, err)
	}
	if refused {
		w.stale++
	} else {
		if w.rule.LocalSteps {
			at.o.SetStep(l.pushes - 1)
		}
		nntest.Check(w.t, at.o.Apply(at.p, p.Grad[at.first:at.first+at.size], p.Factor, p.Rate))
		at.version++
	}
	if w.rule.Name == RuleOverwrite {
		w.pulled(l, shard)
	}
}

func (w *twin) pulled(l *learner, shard int) {
	at := &w.shards[shard]
	copy(w.copies[l.number][at.first:], at.p.Host())
}

// Random visits of several learners are bit-identical to the twin, whatever the number of shards.
func TestPushesAgainstTwin(t *testing.T) {
	nntest.OnEveryISA(t, func(t *testing.T) {
		for _, rule := range rulesOf() {
			if rule.Name == RuleMultiStepAdam {
				continue
			}
			for _, shards := range []int{1, 3, 6} {
				s := newStore(t, 131, rule, shards)
				g, w := newLearners(t, s, 4), newTwin(t, s, 4)
				for range 300 {
					g.visit(w)
				}
				updates := uint64(0)
				for i, at := range w.shards {
					sameBits(t, rule.String(), s.theta[at.first:at.first+at.size], at.p.Host())
					for k, state := range at.o.State() {
						sameBits(t, rule.String()+" "+state.Name, s.state[k].Data[at.first:at.first+at.size], state.Data)
					}
					versions := make([]uint64, shards)
					if s.Versions(versions); versions[i] != at.version {
						t.Fatalf("%v: shard %d has version %d, must be %d", rule, i, versions[i], at.version)
					}
					updates = at.version
				}
				for k, l := range g.all {
					sameBits(t, rule.String()+" copy", l.theta.Host(), w.copies[k])
				}
				if c := s.Counts(); c.Refused != uint64(w.stale) || c.Updates != updates || s.params.Updates != updates || c.Pulls == 0 {
					t.Fatalf("%v: %+v and %d updates, must be %d refused and %d updates", rule, c, s.params.Updates, w.stale, updates)
				}
				if rule.MaxStaleness > 0 && w.stale == 0 {
					t.Fatalf("%v: no push was refused, which shows nothing", rule)
				}
			}
		}
	})
}

// adamTwin is multi_step_adam in float64, from the formulas of appendix A.
type adamTwin struct {
	t                    *testing.T
	s                    *Store
	theta, m, v          []float64
	versions             []uint64
	steps                []float64 // by shard
	copies               []*adamCopy
	refused, longestPush int
}

type adamCopy struct {
	theta, m, v, sumG, sumG2, sumS []float64
	t                              []float64 // by element
	n                              int
}

func newAdamTwin(t *testing.T, s *Store, learners int) *adamTwin {
	n := len(s.theta)
	zeros := func() []float64 { return make([]float64, n) }
	w := &adamTwin{t: t, s: s, theta: doubles(s.theta), m: zeros(), v: zeros(), versions: make([]uint64, s.Shards()), steps: make([]float64, s.Shards())}
	for range learners {
		w.copies = append(w.copies, &adamCopy{theta: doubles(s.theta), m: zeros(), v: zeros(), sumG: zeros(), sumG2: zeros(), sumS: zeros(), t: zeros()})
	}
	return w
}

func (w *adamTwin) stepped(l *learner, p Push) {
	c, cfg := w.copies[l.number], w.s.rule.Optimizer
	c.n++
	for i := range c.theta {
		g := float64(p.Factor) * float64(p.Grad[i])
		c.t[i]++
		root := math.Sqrt(1 - math.Pow(cfg.Beta2, c.t[i]))
		a := p.Rate * root / (1 - math.Pow(cfg.Beta1, c.t[i]))
		eps := cfg.Eps
		if w.s.rule.EpsCorrected {
			eps *= root
		}
		c.m[i] = cfg.Beta1*c.m[i] + (1-cfg.Beta1)*g
		c.v[i] = cfg.Beta2*c.v[i] + (1-cfg.Beta2)*g*g
		step := a * c.m[i] / (math.Sqrt(c.v[i]) + eps)
		c.theta[i] -= step
		c.sumG[i] = cfg.Beta1*c.sumG[i] + g
		c.sumG2[i] = cfg.Beta2*c.sumG2[i] + g*g
		c.sumS[i] += step
	}
}

func (w *adamTwin) pushed(l *learner, shard int, p Push, err error) {
	c, rule := w.copies[l.number], w.s.rule
	first, size := w.s.Range(shard)
	refused := rule.MaxStaleness > 0 && w.versions[shard]-p.Seen > uint64(rule.MaxStaleness)
	if refused != errors.Is(err, ErrStale) {
		w.t.Fatalf("version %d, seen %d: error %v", w.versions[shard], p.Seen, err)
	}
	if refused {
		w.refused++
	} else {
		w.versions[shard]++
		w.steps[shard] += float64(c.n)
	}
	for i := first; i < first+size; i++ {
		if !refused {
			w.theta[i] -= c.sumS[i]
			w.m[i] = math.Pow(rule.Optimizer.Beta1, float64(c.n))*w.m[i] + (1-rule.Optimizer.Beta1)*c.sumG[i]
			w.v[i] = math.Pow(rule.Optimizer.Beta2, float64(c.n))*w.v[i] + (1-rule.Optimizer.Beta2)*c.sumG2[i]
		}
		c.theta[i], c.m[i], c.v[i] = w.theta[i], w.m[i], w.v[i]
		c.sumG[i], c.sumG2[i], c.sumS[i] = 0, 0, 0
		if !rule.LocalSteps {
			c.t[i] = w.steps[shard]
		}
	}
	if shard == w.s.Shards()-1 {
		w.longestPush, c.n = max(w.longestPush, c.n), 0
	}
}

func (w *adamTwin) pulled(l *learner, shard int) {
	first, size := w.s.Range(shard)
	copy(w.copies[l.number].theta[first:first+size], w.theta[first:])
}

// Random visits under multi_step_adam have the numbers of the twin, up to the rounding of several
// hundred steps in float32.
func TestMultiStepAdamAgainstTwin(t *testing.T) {
	for _, rule := range rulesOf() {
		if rule.Name != RuleMultiStepAdam {
			continue
		}
		for _, shards := range []int{1, 4} {
			s := newStore(t, 131, rule, shards)
			g, w := newLearners(t, s, 3), newAdamTwin(t, s, 3)
			for range 400 {
				g.visit(w)
			}
			near(t, rule.String(), s.theta, w.theta, 5e-6)
			near(t, rule.String()+" m", s.state[0].Data, w.m, 1e-5)
			near(t, rule.String()+" v", s.state[1].Data, w.v, 1e-5)
			for k, l := range g.all {
				near(t, rule.String()+" copy", l.theta.Host(), w.copies[k].theta, 5e-6)
				near(t, rule.String()+" local m", l.local.m, w.copies[k].m, 1e-5)
				if l.local.Pending() != int64(w.copies[k].n) {
					t.Errorf("%v: %d steps are not pushed, must be %d", rule, l.local.Pending(), w.copies[k].n)
				}
			}
			if refused := s.Counts().Refused; refused != uint64(w.refused) || rule.MaxStaleness > 0 && refused == 0 || w.longestPush != 4 {
				t.Errorf("%v: %d refused, must be %d; the longest push had %d steps", rule, refused, w.refused, w.longestPush)
			}
		}
	}
}
