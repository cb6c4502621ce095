package ga3c

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"

	"github.com/paceline-rl/paceline/core/rng"
)

// event is the end of a computation.
type event struct {
	kind kind
	k    int // number of the trainer, the agent or the predictor
}

// kind is what has ended. Events of the same time are in the order of their kinds and numbers.
type kind int

const (
	updated   kind = 1 + iota // a trainer's gradient: its update is applied
	stepped                   // an agent's step
	predicted                 // a predictor's batch: the predictor is free
	tuned                     // the numbers of active predictors, trainers and agents may change
)

// pace decides which computations end next. Everything else follows from that (events.go).
type pace interface {
	// prediction, step and update return when a computation ends that can begin at a time.
	prediction(p, rows int, from int64) int64
	step(i int, from int64) int64
	update(k, rows int, from int64) int64
	// begins says that a computation ends at a time.
	begins(e event, due int64)
	// restored is begins of a computation that has been done already.
	restored(e event, due int64)
	// next appends the events that come next to `to`, those of one instant, and returns their time.
	// It returns none if nothing is in progress.
	next(to []event) ([]event, int64, error)
	// unread takes back events of the latest next, the last ones.
	unread(list []event, at int64)
	// forget forgets all computations in progress.
	forget()
}

// virtual is the pace of a model of latencies: a discrete-event simulation in virtual time,
// nanoseconds. Its draws depend on the order of events alone.
type virtual struct {
	latency                     Latency
	steps, predictions, updates []*rng.Stream // of each agent, predictor, trainer
	device, cores               slots
	heap                        dueHeap
}

func newVirtual(c *Config, latency Latency) *virtual {
	v := &virtual{latency: latency, device: make(slots, max(0, latency.Device)), cores: make(slots, latency.Cores)}
	streams := func(name string, n int) (list []*rng.Stream) {
		for i := range n {
			list = append(list, rng.New(uint64(c.Seed), name, i))
		}
		return list
	}
	v.steps, v.predictions, v.updates = streams("latency.step", c.NumEnvs), streams("latency.prediction", c.Predictors), streams("latency.update", c.Trainers)
	return v
}

// streams returns all streams, in an order that never changes.
func (v *virtual) streams() []*rng.Stream { return slices.Concat(v.steps, v.predictions, v.updates) }

func (v *virtual) step(i int, from int64) int64 {
	return v.cores.end(from, v.latency.Step.Draw(v.steps[i]))
}

func (v *virtual) prediction(p, rows int, from int64) int64 {
	l, r := &v.latency, v.predictions[p]
	return v.computes().end(from, l.Predict.Draw(r)+l.PredictRow.Draw(r)*int64(rows))
}

func (v *virtual) update(k, rows int, from int64) int64 {
	l, r := &v.latency, v.updates[k]
	return v.computes().end(from, l.Update.Draw(r)+l.UpdateRow.Draw(r)*int64(rows))
}

// computes returns the slots of predictions and updates.
func (v *virtual) computes() slots {
	if v.latency.Device == onCores {
		return v.cores
	}
	return v.device
}

// slots are what computations of one kind share, each with the time from which it is free. No
// slots: computations do not wait for one another.
type slots []int64

// end takes the slot that is free first, for a computation that can begin at a time, and returns
// when the computation ends. Computations come in the order in which they ask.
func (s slots) end(from, takes int64) int64 {
	if len(s) == 0 {
		return from + takes
	}
	first := 0
	for k, free := range s {
		if free < s[first] {
			first = k
		}
	}
	s[first] = max(from, s[first]) + takes
	return s[first]
}

func (v *virtual) begins(e event, due int64) { heap.Push(&v.heap, dueEvent{e, due}) }

func (v *virtual) restored(e event, due int64) { v.begins(e, due) }

func (v *virtual) next(to []event) ([]event, int64, error) {
	if len(v.heap) == 0 {
		return to, 0, nil
	}
	at := v.heap[0].due
	for len(v.heap) > 0 && v.heap[0].due == at {
		to = append(to, heap.Pop(&v.heap).(dueEvent).event)
	}
	return to, at, nil
}

func (v *virtual) unread(list []event, at int64) {
	for _, e := range list {
		v.begins(e, at)
	}
}

func (v *virtual) forget() { v.heap = v.heap[:0] }

// dueEvent is an event with its time.
type dueEvent struct {
	event
	due int64
}

// dueHeap is a heap of events, the next one first.
type dueHeap []dueEvent

func (h dueHeap) Len() int      { return len(h) }
func (h dueHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h dueHeap) Less(i, j int) bool {
	a, b := h[i], h[j]
	return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.kind, b.kind), cmp.Compare(a.k, b.k)) < 0
}
func (h *dueHeap) Push(x any) { *h = append(*h, x.(dueEvent)) }
func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}

// load replaces the streams by saved ones.
func (v *virtual) load(saved [][]byte) (adopt func(), err error) {
	own := v.streams()
	if len(saved) != len(own) {
		return nil, fmt.Errorf("%d streams of latencies, must be %d", len(saved), len(own))
	}
	list := make([]rng.Stream, len(own))
	for i, b := range saved {
		if err := list[i].UnmarshalBinary(b); err != nil {
			return nil, fmt.Errorf("stream of latencies %d: %v", i, err)
		}
	}
	return func() {
		for i := range own {
			*own[i] = list[i]
		}
	}, nil
}
