package async

import (
	"errors"
	"fmt"
	"io"

	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/nn"
)

// Parts lists a checkpoint's parts: the store's, the order's, and those of every learner, whose
// names begin with its number. The environments of all learners come last.
func (m *Method) Parts(saving bool) []checkpoint.Part {
	parts := append(m.store.Parts(m.set), m.episodes.part(len(m.learners)))
	if m.shared != nil {
		parts = append(parts, m.shared.Part())
	}
	var last []checkpoint.Part
	for _, l := range m.learners {
		own := l.Learner.Parts(saving)
		n := len(own) - 1
		last = append(last, l.named(own[n]))
		for _, p := range append(own[:n:n], l.parts(saving)...) {
			parts = append(parts, l.named(p))
		}
	}
	for _, p := range m.turns.Parts() {
		parts = append(parts, m.experience(p))
	}
	parts = append(parts, last...)
	if saving && m.joint != nil && errors.Is(m.err, fault.ErrNotFinite) {
		for i := range parts { // see forgive
			if parts[i].Optional {
				parts[i].Write = nil
			}
		}
	}
	return parts
}

// experience makes a part of the order Optional: in a file without experience the learners have no
// visits that are due, and a new order begins with their steps.
func (m *Method) experience(p checkpoint.Part) checkpoint.Part {
	read := p.Read
	p.Optional = true
	p.Read = func(r io.Reader, n int64) (func(), error) {
		if r != nil {
			adopt, err := read(r, n)
			return func() {
				adopt()
				m.cut = false // a file has a settled run
				m.publish()
			}, err
		}
		return func() {
			m.cut = false
			m.forget() // gradients were left out, too
			m.episodes.early()
			sum := int64(0)
			for _, l := range m.learners {
				sum += l.steps
			}
			m.turns.SetSteps(sum)
			m.publish()
		}, nil
	}
	return p
}

// named gives a part of the learner's method its name in the checkpoint of all learners.
func (l *learner) named(p checkpoint.Part) checkpoint.Part {
	p.Name = fmt.Sprintf("learner-%d.%s", l.k, p.Name)
	return p
}

// savedLearner is part "learner".
type savedLearner struct {
	Steps  int64    `json:"steps"`
	Others int64    `json:"others"`
	Taken  int64    `json:"taken"`
	Seen   []uint64 `json:"seen"`
	Theta  uint64   `json:"theta"` // updates of its parameters
	Flight flight   `json:"flight"`
}

// parts are the learner's own: what it knows of the store, and the gradient that is to be pushed.
func (l *learner) parts(saving bool) []checkpoint.Part {
	k := l.link
	shards := len(k.seen)
	counts := checkpoint.JSON("learner.json", int64(1024+32*shards), func() (savedLearner, error) {
		return savedLearner{l.steps, l.others, l.taken, k.seen, l.theta.Updates, k.flight}, nil
	}, func(s savedLearner) (func(), error) {
		f := &s.Flight
		const most = int64(1) << 51
		if s.Steps < 0 || s.Steps > most || s.Others < -most || s.Others > most || s.Taken < 0 || s.Taken > most || len(s.Seen) != shards || f.Step < 0 || f.Step > most || f.Steps < 0 || f.Steps > most || f.Rounds < 0 || f.Rounds > most || !f.valid(k.joint) {
			return nil, fmt.Errorf("learner: counts that no learner has: %+v", s)
		}
		return func() {
			l.steps, l.others, l.taken, k.flight = s.Steps, s.Others, s.Taken, s.Flight
			copy(k.seen, s.Seen)
			l.theta.Updates = s.Theta
		}, nil
	})
	parts := []checkpoint.Part{counts}
	if k.share != nil {
		parts = append(parts, k.share.Part())
	}
	if k.local != nil {
		parts = append(parts, k.local.Parts("local")...)
	}
	return append(parts, k.gradient(saving))
}

// gradient is the part of a gradient that is to be pushed.
func (k *link) gradient(saving bool) checkpoint.Part {
	tensor := func(data []float32) []nn.Tensor {
		return []nn.Tensor{{Name: "gradient", Shape: []int{k.l.theta.Layout.Size}, Data: data}}
	}
	p := nn.TensorsPart("gradient.safetensors", tensor(k.grad))
	p.Optional = true
	f := &k.flight
	if saving && (!f.Due || f.Alone || k.local != nil || f.Round == moments || f.Absent) {
		p.Write = nil
	}
	p.Read = func(r io.Reader, n int64) (func(), error) {
		if r == nil {
			return nil, nil
		}
		grad := make([]float32, k.l.theta.Layout.Size)
		adopt, err := nn.TensorsPart(p.Name, tensor(grad)).Read(r, n)
		return func() {
			adopt()
			k.grad = grad
		}, err
	}
	return p
}
