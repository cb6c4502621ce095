//go:build gpu && cgo && linux

package cuda

/*
#cgo noescape paceline_cuda_event_elapsed
#cgo nocallback paceline_cuda_event_elapsed
#include "driver.h"
*/
import "C"

import (
	"time"

	"gorgonia.org/cu"
)

// Event marks how far a stream has come: the host and other streams can wait for it.
type Event struct {
	gate
	device *Device
	made   cu.Event
	at     C.CUevent
}

// Event makes an event. Until Record it counts as over. A thread that waits for a sleeping one
// leaves its core to others, and takes some microseconds longer to notice.
func (d *Device) Event(sleeping bool) (*Event, error) {
	if err := d.use(); err != nil {
		return nil, err
	}
	defer d.leave()
	e := &Event{gate: newGate(), device: d}
	flags := cu.DefaultEvent
	if sleeping {
		flags = cu.BlockingSyncEvent
	}
	if err := d.within("making an event", "", func() (err error) { e.made, err = cu.MakeEvent(flags); return }); err != nil {
		return nil, err
	}
	e.at = C.CUevent(pointer(e.made))
	return e, nil
}

// Close lets go of the event.
func (e *Event) Close() {
	if e.shut() && e.device.use() == nil {
		e.device.within("closing an event", "", func() error { return cu.DestroyEvent(&e.made) })
		e.device.leave()
	}
}

// use begins a call on the event; done ends it.
func (e *Event) use() error {
	if err := e.device.use(); err != nil {
		return err
	}
	if !e.enter() {
		e.device.leave()
		return closed("CUDA event")
	}
	return nil
}

func (e *Event) done() {
	e.leave()
	e.device.leave()
}

// Record enqueues that the event is over once the stream has come here.
func (s *Stream) Record(e *Event) error {
	if err := s.use(); err != nil {
		return err
	}
	defer s.done()
	if err := e.use(); err != nil {
		return err
	}
	defer e.done()
	return s.device.check(C.paceline_cuda_record(s.device.ctx(), s.at, e.at), "recording an event", "")
}

// Wait enqueues that the stream waits until the event, as it was recorded last, is over.
func (s *Stream) Wait(e *Event) error {
	if err := s.use(); err != nil {
		return err
	}
	defer s.done()
	if err := e.use(); err != nil {
		return err
	}
	defer e.done()
	return s.device.check(C.paceline_cuda_wait(s.device.ctx(), s.at, e.at), "letting a stream wait for an event", "")
}

// Done reports whether the event is over.
func (e *Event) Done() (bool, error) {
	if err := e.use(); err != nil {
		return false, err
	}
	defer e.done()
	r := C.paceline_cuda_event_query(e.device.ctx(), e.at)
	if r == C.CUDA_ERROR_NOT_READY {
		return false, nil
	}
	return r == C.CUDA_SUCCESS, e.device.check(r, "asking for an event", "")
}

// Wait waits until the event is over.
func (e *Event) Wait() error {
	if err := e.use(); err != nil {
		return err
	}
	defer e.done()
	return e.device.check(C.paceline_cuda_event_synchronize(e.device.ctx(), e.at), "waiting for an event", "")
}

// Since returns the time that the GPU took from an earlier event to this one, both of which are over.
func (e *Event) Since(earlier *Event) (time.Duration, error) {
	if err := e.use(); err != nil {
		return 0, err
	}
	defer e.done()
	if err := earlier.use(); err != nil {
		return 0, err
	}
	defer earlier.done()
	var ms C.float
	err := e.device.check(C.paceline_cuda_event_elapsed(e.device.ctx(), &ms, earlier.at, e.at), "measuring the time between two events", "")
	return time.Duration(float64(ms) * float64(time.Millisecond)), err
}
