// Package threads divides a loop among threads, and the cores of a machine among concurrent loops.
//
// A Pool runs loops: Do(n, f) calls f for n indices on the caller's goroutine and on helpers. A
// Budget limits how many of its goroutines and helpers compute at the same time.
//
// Invariants:
//
//   - Do calls f exactly once for every index, also if some of the calls fail, and returns after
//     all calls.
//   - If f(worker, i) depends on i alone, the results do not depend on the number of threads. Sums
//     over the indices must therefore be computed after Do, in the order of the indices. worker is
//     an index of scratch memory.
//   - A Pool runs one loop at a time. A Do during another Do of the same Pool panics (package fault
//     says when misuse panics).
//   - Start runs a Do on another goroutine, which acquires a core first (except in a Pool of
//     NewWaiting). The caller computes meanwhile and calls Wait for the result.
//   - Do never waits for a core before or during its loop: it uses the cores that are free or
//     become free, and the caller runs the other indices. So every loop ends. The Do of a Pool of
//     NewWaiting gives up its caller's core and waits for a core at its end.
//   - Only goroutines wait for a core, in Budget.Acquire. A goroutine that holds a core must call
//     Release before it waits for another goroutine that may need a core. In Acquire it must hold
//     no lock that the holder of a core may need. Then a budget of one core cannot deadlock.
//   - A thread without work spins for 1 to 3 microseconds, because loops often follow one another,
//     and then sleeps. The threads of NewStepping spin for 45 to 270 microseconds. A goroutine that
//     waits for a core sleeps at once.
//   - A Pool allocates nothing after the first call of Do or Start.
package threads
