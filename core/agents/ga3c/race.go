package ga3c

import (
	"encoding/binary"
	"fmt"
	"time"
)

// race is the pace of the machine: a computation ends when it has been done. Its times are those of the
// wall.
type race struct {
	tasks  *tasks
	past   []event // that have ended, and come before those of tasks
	began  time.Time
	passed int64 // at began
}

func newRace(t *tasks) *race { return &race{tasks: t, began: time.Now()} }

func (r *race) prediction(int, int) int64 { return 0 }
func (r *race) step(int) int64            { return 0 }
func (r *race) update(int, int) int64     { return 0 }
func (r *race) begins(event, int64)       {}
func (r *race) restored(e event, _ int64) { r.past = append(r.past, e) }

func (r *race) next(to []event) ([]event, int64, error) {
	if len(r.past) > 0 {
		to = append(to, r.past...)
		r.past = r.past[:0]
	} else {
		to = r.tasks.take(to)
	}
	return to, int64(time.Since(r.began)), nil
}

func (r *race) unread(list []event, _ int64) { r.past = append(r.past, list...) }

func (r *race) forget() {
	r.past = r.past[:0]
	r.tasks.forget()
}

// recorded is the pace of a recorded order. Its times count bytes of entries.
type recorded struct {
	shape   orderShape
	entries []byte
	at      int
	starts  []int        // where the events of the latest next begin
	steps   func() int64 // T
}

func (r *recorded) prediction(int, int) int64 { return 0 }
func (r *recorded) step(int) int64            { return 0 }
func (r *recorded) update(int, int) int64     { return 0 }
func (r *recorded) begins(event, int64)       {}
func (r *recorded) restored(event, int64)     {}
func (r *recorded) forget()                   {}

func (r *recorded) next(to []event) ([]event, int64, error) {
	r.starts = r.starts[:0]
	for {
		if r.at == len(r.entries) {
			if len(r.starts) > 0 {
				return to, int64(r.at), nil
			}
			return to, 0, fmt.Errorf("order: ends at step %d; the run has more events than were recorded", r.steps())
		}
		code, size := binary.Uvarint(r.entries[r.at:])
		e, _ := r.shape.event(code / 2) // which parse has checked
		to, r.starts = append(to, e), append(r.starts, r.at)
		if r.at += size; code%2 == 1 {
			return to, int64(r.at), nil
		}
	}
}

func (r *recorded) unread(list []event, _ int64) {
	if len(list) > 0 {
		r.at = r.starts[len(r.starts)-len(list)]
	}
}
