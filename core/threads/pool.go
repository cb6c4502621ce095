package threads

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paceline-rl/paceline/core/fault"
)

// Max is the largest number of threads of a Pool and of cores of a Budget.
const Max = 1024

// Pool is a set of threads that run loops together. The goroutine that calls Do is one of the
// threads. A Pool of one thread starts no goroutine, and its Do is a plain loop.
type Pool struct {
	threads int
	pin     int        // helper i is bound to core pin+i; negative: no helper is bound
	pauses  spinPauses // of NewStepping, else 0
	budget  *Budget    // helpers hold cores of budget; nil: helpers need no core
	waiting *Budget    // of NewWaiting: Do gives the caller's core back to it
	mu      sync.Mutex // held by the running Do, and by Close
	closed  bool
	workers []worker
	exited  sync.WaitGroup
	starter *starter // calls do for Start; nil before the first Start

	busy atomic.Int64 // nanoseconds that helpers have held cores of budget

	// The current job. These fields are written while the gate is shut and no helper is inside.
	// Only threads inside read them, except that addHelpers also reads n and next.
	f        func(worker, i int) error
	n        atomic.Int64
	divisor  int // a block is the number of indices left / divisor
	notifyAt int // the thread that takes index notifyAt-1 tells the starter; 0: none does
	next     atomic.Int64
	gate     gate

	// The failure with the lowest index so far.
	failure struct {
		sync.Mutex
		index int
		err   error
	}
}

// NewPool starts a pool of the given number of threads, 1 to Max. The owner must Close it. With a
// budget the caller of Do holds one of its cores, and Do uses a helper for each further core that
// is free, or becomes free while indices are left. Without a budget Do uses all helpers.
func NewPool(threads int, budget *Budget) (*Pool, error) {
	p, err := newPool(threads, budget, -1, spinPauses{})
	if err == nil && budget != nil && threads > 1 {
		budget.list(p, true)
	}
	return p, err
}

// NewStepping is NewPool for loops that follow one another within tens of microseconds, as in a
// program that mainly steps environments. If there is a core for each thread, threads spin longer
// before they sleep. If pin is not negative, helper i (1 and up) is bound to core pin + i.
func NewStepping(threads, pin int) (*Pool, error) {
	pauses := spinPauses{}
	if threads <= Cores {
		pauses = spinPauses{caller: callerPauses, helper: helperPauses}
	}
	return newPool(threads, nil, pin, pauses)
}

// NewWaiting is NewPool for loops whose calls mostly block: on a device, a clock, another program.
// All threads take part in every Do, and none of them holds a core of the budget. Do releases the
// caller's core and acquires a core before it returns. A call of f that also computes for long must
// acquire a core for that time. The threads may block in C; see Reserve. budget may be nil.
func NewWaiting(threads int, budget *Budget) (*Pool, error) {
	p, err := newPool(threads, nil, -1, spinPauses{})
	if err != nil {
		return nil, err
	}
	if p.waiting = budget; budget != nil {
		threads += budget.Cores()
	}
	Reserve(threads)
	return p, nil
}

// spinPauses are the numbers of pauses during which threads spin before they sleep.
type spinPauses struct{ caller, helper int }

func newPool(threads int, budget *Budget, pin int, pauses spinPauses) (*Pool, error) {
	if threads < 1 || threads > Max {
		return nil, fmt.Errorf("threads: %d, must be 1 to %d", threads, Max)
	}
	p := &Pool{threads: threads, budget: budget, pin: pin, pauses: pauses, workers: make([]worker, threads-1)}
	p.gate.empty = make(chan struct{}, 1)
	for i := range p.workers {
		p.workers[i].token = make(chan struct{}, 1)
		p.exited.Add(1)
		go p.work(i)
	}
	return p, nil
}

// Budget returns the budget of NewPool or NewWaiting, or nil.
func (p *Pool) Budget() *Budget {
	if p.waiting != nil {
		return p.waiting
	}
	return p.budget
}

// Busy returns for how long helpers have held cores of the budget, summed over the helpers. It may
// be called concurrently with any other method.
func (p *Pool) Busy() time.Duration { return time.Duration(p.busy.Load()) }

// Threads returns the number of threads, including the caller of Do.
func (p *Pool) Threads() int { return p.threads }

// Do runs f(worker, i) for every i in [0, n) and returns after all calls. worker, 0 to Threads()-1,
// is the number of the thread. Two calls with the same worker never overlap, so worker may index
// scratch memory. An error or a panic of f becomes the error of Do; the error of a panic names the
// index. If several indices fail, Do returns the error of the lowest one. All other indices run
// nevertheless, so that the caller's state is complete for them.
//
// Do allocates nothing. A closure that is written at the call allocates, so frequent callers should
// store f. f must not call runtime.Goexit, Do or Close. A Do during another Do of the pool or after
// Close panics. A Do concurrent with Close runs before it or panics.
func (p *Pool) Do(n int, f func(worker, i int) error) error {
	if p.waiting != nil {
		p.waiting.Release(1)
		defer p.waiting.Acquire() // do has released p.mu: no lock is held
	}
	return p.do(n, f, 0)
}

func (p *Pool) do(n int, f func(worker, i int) error, notifyAt int) error {
	if !p.mu.TryLock() {
		panic("threads: Do during another Do or Close of the same pool")
	}
	defer p.mu.Unlock()
	if p.closed {
		panic("threads: Do on a pool that is closed")
	}
	helpers := max(0, min(n, p.threads)-1)
	p.f, p.notifyAt = f, notifyAt
	p.n.Store(int64(n))
	p.next.Store(0)
	if helpers == 0 {
		p.divisor = 1
		p.runBlocks(0)
	} else {
		// Threads take the first indices in blocks, to reduce contention on the counter, and the
		// last ones one by one, because they may differ in cost.
		p.divisor = 8 * (helpers + 1)
		more, want := uint64(0), helpers
		if p.budget != nil {
			helpers, more = p.budget.TryAcquire(helpers), gateMore
		}
		p.gate.open(helpers, more)
		if helpers < want {
			p.addHelpers() // for cores that were released since TryAcquire
		}
		for i := range helpers {
			p.workers[i].wake()
		}
		p.runBlocks(0)
		unused := p.gate.shut()
		if p.budget != nil && unused > 0 {
			p.budget.Release(unused)
		}
		p.gate.await(p.pauses.caller)
	}
	p.f = nil
	err := p.failure.err
	p.failure.err = nil
	return err
}

// Close waits for a running Do, then stops the threads and waits for them. A second Close does
// nothing.
func (p *Pool) Close() {
	p.starter.end()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.closed = true
	if p.budget != nil {
		p.budget.list(p, false)
	}
	p.gate.close()
	for i := range p.workers {
		p.workers[i].wake()
	}
	p.exited.Wait()
}

// addHelpers adds helpers to the loop in progress, one for each free core.
func (p *Pool) addHelpers() {
	for p.next.Load() < p.n.Load() {
		if p.budget.TryAcquire(1) == 0 {
			return
		}
		if !p.gate.add(int(min(p.n.Load(), int64(p.threads))) - 1) {
			p.budget.release(1)
			return
		}
		for i := range p.workers {
			if p.workers[i].wake() {
				break
			}
		}
	}
}

// work runs jobs on helper i, which is thread i+1, until Close.
func (p *Pool) work(i int) {
	defer p.exited.Done()
	if p.pin >= 0 {
		defer Pin(p.pin + i + 1)()
	}
	var last uint64 // number of the last job that this thread took part in
	for {
		job, in := p.gate.enter(last)
		if in {
			if p.budget == nil {
				p.runBlocks(i + 1)
			} else {
				began := time.Now()
				p.runBlocks(i + 1)
				p.busy.Add(int64(time.Since(began)))
				p.budget.Release(1) // before leave: the caller may start the next loop at once
			}
			p.gate.leave()
			last = job
		} else if p.gate.closed() {
			return
		}
		p.workers[i].wait(&p.gate, last, p.pauses.helper)
	}
}

// runBlocks takes and runs blocks of indices until none is left.
func (p *Pool) runBlocks(worker int) {
	for {
		from, n := int(p.next.Load()), int(p.n.Load())
		if from >= n {
			return
		}
		end := from + max(1, min(64, (n-from)/p.divisor))
		if !p.next.CompareAndSwap(int64(from), int64(end)) {
			continue
		}
		if from < p.notifyAt && p.notifyAt <= end {
			p.starter.begun <- struct{}{}
		}
		for from < end {
			from = p.run(worker, from, end)
		}
	}
}

// run calls f for the indices from to end-1. If f panics, run records the panic and returns the
// index after the one that panicked.
func (p *Pool) run(worker, from, end int) (next int) {
	i := from
	defer func() {
		if r := recover(); r != nil {
			p.fail(i, fmt.Errorf("index %d: %w", i, fault.Caught(r)))
			next = i + 1
		}
	}()
	for ; i < end; i++ {
		if err := p.f(worker, i); err != nil {
			p.fail(i, err)
		}
	}
	return end
}

func (p *Pool) fail(i int, err error) {
	p.failure.Lock()
	defer p.failure.Unlock()
	if p.failure.err == nil || i < p.failure.index {
		p.failure.index, p.failure.err = i, err
	}
}
