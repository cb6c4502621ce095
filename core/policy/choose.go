package policy

import (
	"slices"
	"sync"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rng"
)

// Row gives a network's outputs for one observation. It computes them on the first call of Head.
type Row interface {
	// Head returns the outputs of head k of the network's spec, valid until the row's next step.
	Head(k int) ([]float32, error)
	// LogStd returns the network's parameter log_std; nil for a network without a head "mu".
	LogStd() []float32
}

// Chooser chooses actions. It has no mutable state, so one Chooser serves all environments on all
// goroutines. Randomness comes from the stream of the environment, and the numbers that a call
// draws do not depend on the outputs.
type Chooser interface {
	// Columns names the values that Choose records with the action.
	Columns() []string
	// NeedsOutputs reports whether Choose may call Head at step t.
	NeedsOutputs(t int64) bool
	// Choose writes an allowed action to to.Action and to.Continuous and the values of Columns to
	// to.Columns, at step t. Their lengths are right. mask has a byte for each action of each branch
	// and allows at least one of each branch; nil allows all.
	Choose(t int64, row Row, mask []byte, r *rng.Stream, to *experience.Step) error
}

// Boxer is a Chooser whose actions may have a box.
type Boxer interface {
	Chooser
	// ToBox writes the action that the environment takes for the Continuous of a step.
	ToBox(to, continuous []float32)
}

// Uniform chooses an allowed action with uniform probability, by one draw.
type Uniform struct{ Actions int }

func (Uniform) Columns() []string       { return nil }
func (Uniform) NeedsOutputs(int64) bool { return false }
func (u Uniform) Choose(_ int64, _ Row, mask []byte, r *rng.Stream, to *experience.Step) error {
	to.Action[0] = env.RandomAction(u.Actions, mask, r)
	return nil
}

// EpsilonGreedy chooses a random allowed action with probability Epsilon(t), otherwise the first
// allowed action with the largest output of head Head. It draws one number for every epsilon, and a
// second number for a random action.
type EpsilonGreedy struct {
	Actions int
	Head    int
	Epsilon func(t int64) float64
	// Value records the largest output of all actions as the state's value, which needs outputs at
	// every step.
	Value bool
}

func (c *EpsilonGreedy) Columns() []string {
	if c.Value {
		return []string{"value"}
	}
	return nil
}

func (c *EpsilonGreedy) NeedsOutputs(t int64) bool { return c.Value || c.Epsilon(t) < 1 }

func (c *EpsilonGreedy) Choose(t int64, row Row, mask []byte, r *rng.Stream, to *experience.Step) error {
	if c.Value {
		q, err := row.Head(c.Head)
		if err != nil {
			return err
		}
		to.Columns[0] = q[nn.Argmax(q, nil)]
	}
	if r.Float64() < c.Epsilon(t) {
		to.Action[0] = env.RandomAction(c.Actions, mask, r)
		return nil
	}
	q, err := row.Head(c.Head)
	if err == nil {
		to.Action[0] = nn.Argmax(q, mask)
	}
	return err
}

// Sampler draws actions from a distribution and records the log-probability of the action and the
// output of head V.
type Sampler struct {
	*Distribution
	V int
}

// NewSampler returns the Sampler of a network with the heads of NewDistribution and a head "v".
func NewSampler(action env.ActionSpec, net *nn.Spec, bounds Bounds) *Sampler {
	return &Sampler{NewDistribution(action, net, bounds), net.Head("v")}
}

func (*Sampler) Columns() []string       { return []string{"log_prob", "value"} }
func (*Sampler) NeedsOutputs(int64) bool { return true }

func (c *Sampler) Choose(_ int64, row Row, mask []byte, r *rng.Stream, to *experience.Step) error {
	value, err := row.Head(c.V)
	if err != nil {
		return err
	}
	logProb, err := c.Sample(row, mask, r, to)
	to.Columns[0], to.Columns[1] = logProb, value[0]
	return err
}

// LogProb returns the log-probability of an allowed action, bit-identical to that of
// sampleSoftmax.
func LogProb(logits []float32, mask []byte, action int32) float32 {
	s := scratch.Get().(*rowScratch)
	defer scratch.Put(s)
	logs := s.logSoftmax(logits, mask)
	if mask == nil {
		return logs[action]
	}
	at := 0 // index among the allowed actions
	for _, m := range mask[:action] {
		if m != 0 {
			at++
		}
	}
	return logs[at]
}

// rowScratch holds the intermediate results of one row.
type rowScratch struct {
	allowed, logs, probs []float32
	sum                  [1]float32
}

var scratch = sync.Pool{New: func() any { return new(rowScratch) }}

// logSoftmax returns the log-probabilities of the allowed actions, in order.
func (s *rowScratch) logSoftmax(logits []float32, mask []byte) []float32 {
	if mask != nil {
		s.allowed = s.allowed[:0]
		for a, v := range logits {
			if mask[a] != 0 {
				s.allowed = append(s.allowed, v)
			}
		}
		logits = s.allowed
	}
	s.logs = slices.Grow(s.logs[:0], len(logits))[:len(logits)]
	kernel.LogSoftmax(s.logs, logits, len(logits))
	return s.logs
}

// sampleSoftmax draws an allowed action with probability proportional to exp(logits[a]), and
// returns it with its log-probability. [0, 1) is divided into intervals in the order of the
// actions, each as long as the probability of its action; the action whose interval contains u is
// drawn. The sum of the lengths runs in float64.
func sampleSoftmax(logits []float32, mask []byte, u float64) (action int32, logProb float32) {
	s := scratch.Get().(*rowScratch)
	defer scratch.Put(s)
	logs := s.logSoftmax(logits, mask)
	s.probs = slices.Grow(s.probs[:0], len(logs))[:len(logs)]
	probs := s.probs
	kernel.Exp(probs, logs)
	for a, p := range probs {
		if p > 0 { // if rounding leaves u after the last interval, its action is drawn
			action = int32(a)
		}
		if u < float64(p) {
			break
		}
		u -= float64(p)
	}
	return env.NthAllowed(mask, int(action)), logs[action]
}
