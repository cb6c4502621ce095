// Package fault has the errors that all layers share. A caller distinguishes them with errors.Is
// and errors.As without importing the layer that returned them. The package imports no other
// package of this library.
//
// # Misuse
//
// One rule holds in every package. A fault from outside the library is an error. Its cause may be
// the host's arguments and the order of its calls, the results of an environment, the content of a
// file, or missing memory. A fault that only a bug of this library can cause is a panic. Its text
// begins with the name of the package: "threads: Do on a pool that is closed". A function that
// cannot tell the two apart returns an error.
//
// Packages that are only called by packages which check (threads, kernel, replay's Draw and Gather)
// therefore panic on misuse. Packages that the host's calls reach directly (vec, train, policy)
// return errors. A panic never ends the host: the library catches the panic in the host's call.
//
// # Panics
//
// One rule holds for every object. A panic in a step, a reset or a mask of an environment is an
// error of that environment, which is reset before its next step; no object becomes unusable. Any
// other panic makes the object of the host's call unusable: its later calls return an error. Spoils
// tells the two apart.
package fault

import (
	"errors"
	"fmt"
	"runtime/debug"
)

var (
	// ErrBusy refuses a call because another call on the same object is in progress.
	ErrBusy = errors.New("another call is in progress")
	// ErrClosed refuses a call on an object that was closed.
	ErrClosed = errors.New("closed")
	// ErrStopped ends a call that waited when Stop was called. Nothing has changed. The same call
	// may be made again.
	ErrStopped = errors.New("stopped while waiting")
	// ErrTimedOut ends a call that has reached its time limit. Nothing has changed. The same call
	// may be made again.
	ErrTimedOut = errors.New("the time limit was over first")
	// ErrNotFinite refuses NaN and infinity in observations, rewards, losses and parameters.
	ErrNotFinite = errors.New("must be finite")
	// ErrDeviceLost is wrapped by an error after which a device that computes is of no use to this
	// process: a kernel went wrong, or the GPU did. The contents of the device's memory are gone.
	ErrDeviceLost = errors.New("the GPU is lost")
	// ErrNoneAllowed refuses an action mask that allows no action.
	ErrNoneAllowed = errors.New("must allow one")
)

// Panic is a caught panic: a bug in an environment or in the library.
type Panic struct {
	Value any
	Stack []byte
}

func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

// Caught returns the value of recover as an error, with the stack of the goroutine that panicked.
// The deferred function that recovers must call it.
func Caught(value any) *Panic { return &Panic{Value: value, Stack: debug.Stack()} }

// Recover must be deferred itself, because recover has no effect in a function that a deferred
// function calls. It turns a panic into *err.
func Recover(err *error) {
	if r := recover(); r != nil {
		*err = Caught(r)
	}
}

// OfEnvironment is an error of one environment.
type OfEnvironment interface{ OfEnvironment() }

// Spoils returns the first panic in err that no environment caused, after which an object is
// unusable, or nil.
func Spoils(err error) *Panic {
	switch e := err.(type) {
	case OfEnvironment:
	case *Panic:
		return e
	case interface{ Unwrap() error }:
		return Spoils(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			if p := Spoils(part); p != nil {
				return p
			}
		}
	}
	return nil
}

// Memory refuses an allocation that exceeds the free memory of the machine or the limit of the
// process.
type Memory struct{ Text string }

func (m *Memory) Error() string { return m.Text }
