// Package threads shares a loop among threads, and the cores of a machine among
// the loops that run at once.
//
// A Pool runs loops: Do(n, f) calls f for n indices on the caller's goroutine
// and on helpers. A Budget says how many of the goroutines and helpers that use
// it may compute at a time. What holds for both:
//
//   - Every index runs exactly once, whatever the others return, and Do comes
//     back after all of them.
//   - The number of threads, and how many of them a loop got, changes the time
//     taken and nothing else, as far as f(worker, i) depends on i alone. Sums
//     over indices are therefore to be taken in the order of the indices, after
//     Do; worker is for scratch memory.
//   - A Pool runs one loop at a time: a Do inside or beside another Do panics
//     (package fault says when a misuse panics).
//   - Start begins a Do on a goroutine that acquires a core for it (in a Pool of NewWaiting
//     none is needed), so that its caller computes meanwhile; Wait returns when it is over.
//   - A Do never waits for a core. It acquires what is free, be it nothing, and what
//     becomes free while it has indices left, and its caller does the rest: a loop that
//     has started always ends. (A Do of NewWaiting,
//     whose threads hold no cores, waits at its end for the one that its caller had.)
//   - Only a goroutine waits for a core, in Budget.Acquire. Whoever holds one must
//     Release it before it waits for anybody who may need one, and must hold no
//     lock in Acquire that a holder of a core may want: so nothing deadlocks, even
//     with a budget of one.
//   - A thread without work spins for 1 to 3 microseconds (in a Pool of NewStepping for
//     45 to 270 and more), as loops often follow one another, and then sleeps. One that
//     waits for a core sleeps at once.
//   - Nothing is allocated after the start.
package threads
