// Package fault holds the errors that every layer shares, so that a caller can
// distinguish them with errors.Is and errors.As without importing the layer that
// they come from. It imports nothing of this library.
//
// # Misuse
//
// One rule holds in every package. What somebody outside the library can cause is an
// error: a host by its arguments or by the order and the number of its calls, an
// environment by what it returns, a file by what is in it, the machine by what it
// has not got. What only a bug of this library can cause panics, with a text that
// begins with the name of the package: "threads: Do on a pool that is closed". A
// function that cannot know which of the two it was returns an error.
//
// So a package behind one that checks (threads, kernel, replay's Sample and At)
// panics where it is called out of turn, and one that a host's call reaches directly
// (vec, train, policy) returns an error. A panic never ends the host: it is caught
// where the host's call came in, and spoils that one object.
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
	// ErrStopped ends a call that waited when Stop was called. Nothing has
	// changed; the same call can be made again.
	ErrStopped = errors.New("stopped while waiting")
	// ErrTimedOut ends a call whose time limit is over before there is a result.
	// Nothing has changed; the same call can be made again.
	ErrTimedOut = errors.New("the time limit was over first")
	// ErrNotFinite refuses NaN and infinity, in observations and rewards, in a
	// loss, in parameters.
	ErrNotFinite = errors.New("must be finite")
	// ErrNoneAllowed refuses an action mask that allows no action.
	ErrNoneAllowed = errors.New("must allow one")
)

// Panic is a panic that was caught: a bug in an environment or in the library.
type Panic struct {
	Value any
	Stack []byte
}

func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

// Caught returns what recover returned as an error, with the stack of the
// goroutine that panicked. It is called by the deferred function that recovers.
func Caught(value any) *Panic { return &Panic{Value: value, Stack: debug.Stack()} }

// Memory refuses an allocation for which the machine, or the limit that is set
// for this process, has not enough left.
type Memory struct{ Text string }

func (m *Memory) Error() string { return m.Text }
