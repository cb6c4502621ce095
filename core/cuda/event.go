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

// Event marks a point in the work of a stream. The host and other streams can wait for it.
type Event struct {
	gate
	device *Device
	event  cu.Event
	handle C.CUevent
}

// Event makes an event. Before its first Record the event counts as done. A thread that waits for a
// sleeping event releases its core, and wakes some microseconds later than a thread that spins.
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
	if err := d.inContext("making an event", "", func() (err error) { e.event, err = cu.MakeEvent(flags); return }); err != nil {
		return nil, err
	}
	e.handle = C.CUevent(pointer(e.event))
	return e, nil
}

// Close destroys the event.
func (e *Event) Close() {
	if e.shut() && e.device.use() == nil {
		e.device.inContext("closing an event", "", func() error { return cu.DestroyEvent(&e.event) })
		e.device.leave()
	}
}

// use begins a call on the event, and release ends it.
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

func (e *Event) release() {
	e.leave()
	e.device.leave()
}

// Record enqueues the event: it is done when the stream's work before it is done.
func (s *Stream) Record(e *Event) error {
	if err := s.use(); err != nil {
		return err
	}
	defer s.release()
	if err := e.use(); err != nil {
		return err
	}
	defer e.release()
	return s.device.check(C.paceline_cuda_record(s.device.ctx(), s.handle, e.handle), "recording an event", "")
}

// Wait makes the stream's later work wait until the event's latest Record is done.
func (s *Stream) Wait(e *Event) error {
	if err := s.use(); err != nil {
		return err
	}
	defer s.release()
	if err := e.use(); err != nil {
		return err
	}
	defer e.release()
	return s.device.check(C.paceline_cuda_wait(s.device.ctx(), s.handle, e.handle), "making a stream wait for an event", "")
}

// Done reports whether the event is done.
func (e *Event) Done() (bool, error) {
	if err := e.use(); err != nil {
		return false, err
	}
	defer e.release()
	r := C.paceline_cuda_event_query(e.device.ctx(), e.handle)
	if r == C.CUDA_ERROR_NOT_READY {
		return false, nil
	}
	return r == C.CUDA_SUCCESS, e.device.check(r, "querying an event", "")
}

// Wait waits until the event is done.
func (e *Event) Wait() error {
	if err := e.use(); err != nil {
		return err
	}
	defer e.release()
	return e.device.check(C.paceline_cuda_event_synchronize(e.device.ctx(), e.handle), "waiting for an event", "")
}

// Since returns the GPU's time between an earlier event and this one. Both must be done.
func (e *Event) Since(earlier *Event) (time.Duration, error) {
	if err := e.use(); err != nil {
		return 0, err
	}
	defer e.release()
	if err := earlier.use(); err != nil {
		return 0, err
	}
	defer earlier.release()
	var ms C.float
	err := e.device.check(C.paceline_cuda_event_elapsed(e.device.ctx(), &ms, earlier.handle, e.handle), "measuring the time between two events", "")
	return time.Duration(float64(ms) * float64(time.Millisecond)), err
}
