package ga3c

import (
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/queue"
	"github.com/paceline-rl/paceline/core/train/order"
)

const most = int64(1) << 51 // of counts and times

// Parts lists a checkpoint's parts: theta, the optimiser and the counts, and as experience the
// segments, what every agent, predictor and trainer is in the middle of, the gradients that have
// not been applied, and the environments. After a loss that is not finite no experience is saved.
func (m *GA3C) Parts(saving bool) []checkpoint.Part {
	staged := new(savedEvents)
	parts := []checkpoint.Part{
		policy.SetPart(set, m.versions.now.Params),
		nn.TensorsPart("optimizer.safetensors", m.optimizer.State()),
		m.clockPart(),
		m.group.Exploration(),
		{Name: "segments.bin", Version: 1, Optional: true, Write: m.segments.Save, Read: m.segments.Load},
		m.eventsPart(staged),
		m.gradientsPart(saving, staged),
	}
	parts = append(parts, m.orderParts(saving, staged)...)
	parts = append(parts, m.group.Environments(saving))
	for i := range parts {
		if p := &parts[i]; saving && p.Optional && errors.Is(m.err, fault.ErrNotFinite) {
			p.Write = nil
		}
	}
	return parts
}

// savedClock is part "clock".
type savedClock struct {
	Clock         clock `json:"clock"`
	OptimizerStep int64 `json:"optimizer_step"`
}

func (m *GA3C) clockPart() checkpoint.Part {
	save := func() (savedClock, error) { return savedClock{m.clock, m.optimizer.Step()}, nil }
	return checkpoint.JSON("clock.json", 1<<20, save, func(s savedClock) (func(), error) {
		c := &s.Clock
		if min(c.Steps, c.End, c.Updates) < 0 || max(c.Steps, c.End, c.Updates) > most || s.OptimizerStep != c.Updates {
			return nil, fmt.Errorf("clock: counts that no run has: %+v, %d steps of the optimiser", *c, s.OptimizerStep)
		}
		return func() {
			m.clock, m.err, m.updated = s.Clock, nil, true
			m.optimizer.SetStep(s.OptimizerStep)
			m.versions.now.Updates = uint64(c.Updates)
			m.monitor.Steps.Store(c.Steps)
			m.monitor.Updates.Store(c.Updates)
		}, c.Rate.Check("learning_rate", 1e3)
	})
}

// savedEvents is part "events": what is in progress, between two slices. All computations are done.
type savedEvents struct {
	Now        int64        `json:"now"`
	Agents     []savedAgent `json:"agents"`
	Requests   []int        `json:"requests"`
	Waiting    []int        `json:"waiting"`
	Predictors []savedBusy  `json:"predictors"`
	Trainers   []savedBusy  `json:"trainers"`
	// Streams are those of a virtual order. Position is how much of a recorded order was repeated.
	// Device and Cores are when the slots of a virtual order are free.
	Streams  [][]byte    `json:"streams,omitempty"`
	Device   []int64     `json:"device,omitempty"`
	Cores    []int64     `json:"cores,omitempty"`
	Position int64       `json:"position,omitempty"`
	Active   counts      `json:"active"`
	Tuner    *tunerState `json:"tuner,omitempty"`
}

type savedAgent struct {
	Phase phase `json:"phase"`
	Due   int64 `json:"due"`
}

// savedBusy is a predictor or a trainer. What follows Due is of a trainer. Numbers are written as
// their bits, because a loss may be none.
type savedBusy struct {
	Busy      bool     `json:"busy"`
	Due       int64    `json:"due"`
	Updates   []uint64 `json:"updates,omitempty"`
	Envs      []int    `json:"envs,omitempty"`
	Loss      uint64   `json:"loss,omitempty"`
	Norm      uint64   `json:"norm,omitempty"`
	Parts     []uint64 `json:"parts,omitempty"`
	Explained uint64   `json:"explained,omitempty"`
}

func (m *GA3C) saveEvents() (s savedEvents, err error) {
	s = savedEvents{Now: m.now, Requests: m.requests.List(), Waiting: append([]int{}, m.waiting...)}
	for i := range m.agents {
		a := savedAgent{Phase: m.agents[i].phase}
		if a.Phase == moving {
			a.Due = m.agents[i].due
		}
		s.Agents = append(s.Agents, a)
	}
	for _, p := range m.predictors {
		b := savedBusy{Busy: p.busy}
		if p.busy {
			b.Due = p.due
		}
		s.Predictors = append(s.Predictors, b)
	}
	for _, t := range m.trainers {
		b := savedBusy{Busy: t.busy}
		if t.busy {
			b = savedBusy{true, t.due, t.updates, t.envs, math.Float64bits(t.report.Loss), math.Float64bits(t.report.Norm), nil, math.Float64bits(t.explained)}
			for _, part := range t.report.Parts {
				b.Parts = append(b.Parts, math.Float64bits(part))
			}
		}
		s.Trainers = append(s.Trainers, b)
	}
	if v, ok := m.pace.(*virtual); ok {
		for _, stream := range v.streams() {
			text, err := stream.MarshalBinary()
			if err != nil {
				return s, err
			}
			s.Streams = append(s.Streams, text)
		}
		s.Device, s.Cores = append(s.Device, v.device...), append(s.Cores, v.cores...)
	}
	s.Active = m.active
	if m.tuner != nil {
		if s.Tuner, err = m.tuner.save(); err != nil {
			return s, err
		}
	}
	s.Position = m.position()
	return s, nil
}

func (m *GA3C) eventsPart(staged *savedEvents) checkpoint.Part {
	p := checkpoint.JSON("events.json", 4<<30, m.saveEvents, func(s savedEvents) (func(), error) {
		if err := m.checkEvents(&s); err != nil {
			return nil, err
		}
		streams := func() {}
		if v, ok := m.pace.(*virtual); ok && s.Streams != nil { // another schedule draws nothing
			var err error
			if streams, err = v.load(s.Streams); err != nil {
				return nil, err
			}
		}
		tuner := func() {}
		if m.tuner != nil && s.Tuner != nil {
			var err error
			if tuner, err = m.tuner.load(s.Tuner); err != nil {
				return nil, err
			}
		}
		*staged = s
		return func() { streams(); tuner(); m.adopt(&s) }, nil
	})
	p.Optional = true
	read := p.Read
	p.Read = func(r io.Reader, n int64) (func(), error) {
		if r != nil {
			return read(r, n)
		}
		return func() {
			none := savedEvents{Now: m.now, Agents: make([]savedAgent, len(m.agents)), Predictors: make([]savedBusy, len(m.predictors)), Trainers: make([]savedBusy, len(m.trainers))}
			none.Position, none.Active = m.position(), m.active
			m.adopt(&none)
		}, nil
	}
	return p
}

// checkEvents refuses what no run is in the middle of.
func (m *GA3C) checkEvents(s *savedEvents) error {
	for _, v := range []struct {
		name      string
		own, want int
	}{{"num_envs", len(s.Agents), len(m.agents)}, {"predictors", len(s.Predictors), len(m.predictors)}, {"trainers", len(s.Trainers), len(m.trainers)}} {
		if v.own != v.want {
			return fmt.Errorf("%s: the checkpoint has %d, must be %d where experience is loaded", v.name, v.own, v.want)
		}
	}
	damaged := fmt.Errorf("events: agents, predictors and trainers contradict each other")
	possible := func(t int64) bool { return t >= 0 && t <= 1<<61 }
	if !possible(s.Now) || s.Position < 0 || s.Position > most {
		return damaged
	}
	for _, list := range []struct {
		agents []int
		phase  phase
	}{{s.Requests, queued}, {s.Waiting, blocked}} {
		if err := queue.CheckList(list.agents, len(m.agents)); err != nil {
			return err
		}
		for _, i := range list.agents {
			if s.Agents[i].Phase != list.phase {
				return damaged
			}
		}
		n := 0
		for _, a := range s.Agents {
			if a.Phase == list.phase {
				n++
			}
			if a.Phase < absent || a.Phase > parked || !possible(a.Due) {
				return damaged
			}
		}
		if n != len(list.agents) {
			return damaged
		}
	}
	for _, t := range append(s.Device[:len(s.Device):len(s.Device)], s.Cores...) {
		if !possible(t) {
			return damaged
		}
	}
	if !s.Active.within(counts{len(m.predictors), len(m.trainers), len(m.agents)}) {
		return damaged
	}
	for _, b := range append(s.Predictors[:len(s.Predictors):len(s.Predictors)], s.Trainers...) {
		if !possible(b.Due) {
			return damaged
		}
	}
	for k, b := range s.Trainers {
		t := m.trainers[k]
		if b.Busy && (len(b.Updates) < 1 || len(b.Updates) > len(t.weights) || len(b.Envs) < 1 || len(b.Envs) > len(b.Updates) || len(b.Parts) != 3) {
			return damaged
		}
		for _, i := range b.Envs {
			if i < 0 || i >= len(m.agents) {
				return damaged
			}
		}
	}
	return nil
}

// adopt continues with what was saved.
func (m *GA3C) adopt(s *savedEvents) {
	m.now, m.moves, m.waiting = s.Now, 0, append([]int{}, s.Waiting...)
	m.launches = m.launches[:0]
	m.requests.Set(s.Requests)
	for i, a := range s.Agents {
		m.agents[i] = agent{phase: a.Phase, due: a.Due, launched: -1}
		if a.Phase == moving {
			m.moves++
		}
	}
	for k, b := range s.Predictors {
		p := m.predictors[k]
		p.busy, p.due, p.task = b.Busy, b.Due, nil
	}
	for k, b := range s.Trainers {
		t := m.trainers[k]
		t.busy, t.due, t.task, t.rows = b.Busy, b.Due, nil, len(b.Updates)
		t.updates, t.envs = append(t.updates[:0], b.Updates...), append(t.envs[:0], b.Envs...)
		t.report.Loss, t.report.Norm, t.explained = math.Float64frombits(b.Loss), math.Float64frombits(b.Norm), math.Float64frombits(b.Explained)
		t.report.Parts = t.report.Parts[:0]
		for _, part := range b.Parts {
			t.report.Parts = append(t.report.Parts, math.Float64frombits(part))
		}
	}
	switch p := m.pace.(type) {
	case *virtual: // other numbers of slots are free
		copy(p.device, s.Device)
		copy(p.cores, s.Cores)
	case *race:
		p.began, p.passed = time.Now(), s.Now
	}
	if m.active = s.Active; m.tuner == nil && m.cfg.Schedule != string(order.Recorded) {
		m.active = counts{len(m.predictors), len(m.trainers), len(m.agents)}
	}
	m.seek(s.Position)
	m.replan()
	m.sums = newSums(m.now)
	for i := range m.agents[:m.active.Agents] { // a trainer without the file's tuner
		if m.agents[i].phase == parked {
			m.request(i)
		}
	}
}

// gradientsPart has the gradients that have not been applied.
func (m *GA3C) gradientsPart(saving bool, staged *savedEvents) checkpoint.Part {
	var list []nn.Tensor
	busy := false
	for _, t := range m.trainers {
		data := t.grad
		if saving && !t.busy {
			data = make([]float32, len(t.grad))
		}
		busy = busy || t.busy
		list = append(list, nn.Tensor{Name: fmt.Sprintf("gradient.%d", t.k), Shape: []int{len(t.grad)}, Data: data})
	}
	p := nn.TensorsPart("gradients.safetensors", list)
	p.Optional = true
	if saving && !busy {
		p.Write = nil
	}
	read := p.Read
	p.Read = func(r io.Reader, n int64) (func(), error) {
		if r != nil {
			return read(r, n)
		}
		for _, b := range staged.Trainers {
			if b.Busy {
				return nil, fmt.Errorf("%w: a trainer without its gradient", checkpoint.ErrFormat)
			}
		}
		return nil, nil
	}
	return p
}
