package ga3c

import (
	"encoding/binary"
	"fmt"
	"time"
)

// race is the pace of the machine: a computation ends when it has been done. Its times are those of
// the wall.
type race struct {
	tasks  *tasks
	past   []event // that have ended, and come before those of tasks
	began  time.Time
	passed int64 // at began
	tuner  int64 // when its event comes; 0: none comes
}

func newRace(t *tasks) *race { return &race{tasks: t, began: time.Now()} }

func (r *race) prediction(_, _ int, from int64) int64 { return from }
func (r *race) step(_ int, from int64) int64          { return from }
func (r *race) update(_, _ int, from int64) int64     { return from }

func (r *race) begins(e event, due int64) {
	if e.kind == tuned {
		r.tuner = due
	}
}

func (r *race) restored(e event, due int64) {
	if r.begins(e, due); e.kind != tuned {
		r.past = append(r.past, e)
	}
}

// now returns the time.
func (r *race) now() int64 { return r.passed + int64(time.Since(r.began)) }

func (r *race) next(to []event) ([]event, int64, error) {
	if len(r.past) > 0 {
		to = append(to, r.past...)
		r.past = r.past[:0]
	} else {
		to = r.tasks.take(to)
	}
	now := r.now()
	if r.tuner > 0 && now >= r.tuner {
		r.tuner = 0
		to = append(to, event{kind: tuned})
	}
	return to, now, nil
}

func (r *race) unread(list []event, at int64) {
	for _, e := range list {
		if e.kind == tuned {
			r.tuner = max(1, at)
		} else {
			r.past = append(r.past, e)
		}
	}
}

func (r *race) forget() {
	r.past, r.tuner = r.past[:0], 0
	r.tasks.forget()
}

// recorded is the pace of a recorded order. Its times count bytes of entries.
type recorded struct {
	shape   orderShape
	entries []byte
	at      int
	halted  bool         // of the recorder
	starts  []int        // where the events of the latest next begin
	steps   func() int64 // T
	tuned   counts       // of the latest event of the tuner
}

func (r *recorded) prediction(_, _ int, from int64) int64 { return from }
func (r *recorded) step(_ int, from int64) int64          { return from }
func (r *recorded) update(_, _ int, from int64) int64     { return from }
func (r *recorded) begins(event, int64)                   {}
func (r *recorded) restored(event, int64)                 {}
func (r *recorded) forget()                               {}

func (r *recorded) next(to []event) ([]event, int64, error) {
	r.starts = r.starts[:0]
	for {
		if r.at == len(r.entries) {
			if len(r.starts) > 0 {
				return to, int64(r.at), nil
			}
			return to, 0, r.ended()
		}
		code, size := binary.Uvarint(r.entries[r.at:])
		e, _ := r.shape.event(code / 2) // which parse has checked
		to, r.starts = append(to, e), append(r.starts, r.at)
		r.at += size
		if e.kind == tuned {
			c, size, _ := r.shape.counts(r.entries[r.at:])
			r.tuned = c
			r.at += size
		}
		if code%2 == 1 {
			return to, int64(r.at), nil
		}
	}
}

// halts reports whether the race was interrupted after the events so far, before anything else
// began.
func (r *recorded) halts() bool { return r.halted && r.at == len(r.entries) }

// ended is the error of a run that goes on after the order.
func (r *recorded) ended() error {
	return fmt.Errorf("order: ends at step %d; the run has more events than were recorded", r.steps())
}

func (r *recorded) unread(list []event, _ int64) {
	if len(list) > 0 {
		r.at = r.starts[len(r.starts)-len(list)]
	}
}
