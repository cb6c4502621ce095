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

// Row gives a network's outputs for one observation, and computes them no
// earlier than they are asked for.
type Row interface {
	// Head returns the outputs of head number k of the network's spec, valid
	// until the row's next step.
	Head(k int) ([]float32, error)
}

// Chooser chooses actions. It holds no state that changes, so one serves all
// environments on all goroutines; what is random comes from the environment's own
// stream, and a call draws the same numbers whatever the outputs are.
type Chooser interface {
	// Columns names what Choose records beside the action.
	Columns() []string
	// NeedsOutputs reports whether Choose may ask for outputs at step t.
	NeedsOutputs(t int64) bool
	// Choose sets to.Action, which mask allows (a byte for each action; nil allows all,
	// others at least one), and to.Columns as Columns says, for the step that t counts.
	Choose(t int64, row Row, mask []byte, r *rng.Stream, to *experience.Step) error
}

// Uniform chooses every one of Actions actions that is allowed with the same
// probability: one draw.
type Uniform struct{ Actions int }

func (Uniform) Columns() []string       { return nil }
func (Uniform) NeedsOutputs(int64) bool { return false }
func (u Uniform) Choose(_ int64, _ Row, mask []byte, r *rng.Stream, to *experience.Step) error {
	to.Action = env.RandomAction(u.Actions, mask, r)
	return nil
}

// EpsilonGreedy chooses a random action with probability Epsilon(t), and
// otherwise the first action of the largest output of head Head, of those that are
// allowed. It draws one
// number, whatever epsilon is, and a second one where the action is random.
type EpsilonGreedy struct {
	Actions int
	Head    int
	Epsilon func(t int64) float64
	// Value says that the largest output of all is recorded, as the state's value; outputs
	// are needed at every step then.
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
		to.Action = env.RandomAction(c.Actions, mask, r)
		return nil
	}
	q, err := row.Head(c.Head)
	if err == nil {
		to.Action = nn.Argmax(q, mask)
	}
	return err
}

// Softmax chooses an allowed action a with probability proportional to exp of output a
// of head Pi, by one draw, and records the logarithm of that probability and the
// output of head V.
type Softmax struct{ Pi, V int }

func (*Softmax) Columns() []string       { return []string{"log_prob", "value"} }
func (*Softmax) NeedsOutputs(int64) bool { return true }

func (c *Softmax) Choose(_ int64, row Row, mask []byte, r *rng.Stream, to *experience.Step) error {
	logits, err := row.Head(c.Pi)
	if err != nil {
		return err
	}
	value, err := row.Head(c.V)
	if err != nil {
		return err
	}
	var logProb float32
	to.Action, logProb = sampleSoftmax(logits, mask, r.Float64())
	to.Columns[0], to.Columns[1] = logProb, value[0]
	return nil
}

// LogProb returns the logarithm of an allowed action's probability, as sampleSoftmax does.
func LogProb(logits []float32, mask []byte, action int32) float32 {
	s := scratch.Get().(*rowScratch)
	defer scratch.Put(s)
	logs := s.logSoftmax(logits, mask)
	if mask == nil {
		return logs[action]
	}
	at := 0 // among the allowed
	for _, m := range mask[:action] {
		if m != 0 {
			at++
		}
	}
	return logs[at]
}

// rowScratch holds what is computed of one row.
type rowScratch struct{ allowed, logs, probs []float32 }

var scratch = sync.Pool{New: func() any { return new(rowScratch) }}

// logSoftmax returns the logarithms of the probabilities of the actions that mask allows, in
// their order.
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

// sampleSoftmax returns the allowed action whose part of [0, 1) holds u, where action a's
// part is as long as its probability, proportional to exp(logits[a]), and the parts
// lie in the order of the actions; and the logarithm of its probability. Actions that
// mask does not allow have no part. The sum runs in float64, in the order of the actions.
func sampleSoftmax(logits []float32, mask []byte, u float64) (action int32, logProb float32) {
	s := scratch.Get().(*rowScratch)
	defer scratch.Put(s)
	logs := s.logSoftmax(logits, mask)
	s.probs = slices.Grow(s.probs[:0], len(logs))[:len(logs)]
	probs := s.probs
	kernel.Exp(probs, logs)
	for a, p := range probs {
		if p > 0 { // rounding may leave something behind the last action that has a part
			action = int32(a)
		}
		if u < float64(p) {
			break
		}
		u -= float64(p)
	}
	return env.NthAllowed(mask, int(action)), logs[action]
}
