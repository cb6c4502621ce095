package threads

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paceline-rl/paceline/core/fault"
)

// Max bounds the threads of a Pool and the cores of a Budget.
const Max = 1024

// Pool is a set of threads that share loops. The goroutine that calls Do is one
// of them, so a Pool of one thread starts no goroutine and Do is a plain loop.
type Pool struct {
	threads int
	pin     int        // core of the caller, if it were bound, too; negative: nobody is
	pauses  pauses     // in a pool of NewStepping
	budget  *Budget    // that helpers have their cores of; nil: every helper may come at any time
	waiting *Budget    // of a pool of NewWaiting: the caller's core goes back to it during Do
	mu      sync.Mutex // held by the running Do, and by Close
	closed  bool
	workers []worker
	exited  sync.WaitGroup
	lead    *lead // calls do for Start; nil until then

	busy atomic.Int64 // nanoseconds that helpers had cores of budget

	// The current job. Its fields are written while the gate is shut and
	// nobody is inside, and read only by threads that went in; letIn looks at n and next,
	// too.
	f      func(worker, i int) error
	n      atomic.Int64
	blocks int // a block is that part of what is left
	begun  int // whoever begins the index before that one reports it to the lead; 0: nobody does
	next   atomic.Int64
	gate   gate

	// The failure with the lowest index so far.
	failure struct {
		sync.Mutex
		index int
		err   error
	}
}

// NewPool starts a pool of the given number of threads, 1 to Max. Its owner
// must Close it. With a budget, whoever calls Do holds one of its cores, and Do
// uses helpers only as far as further ones are free, or become free before the last index
// is taken; with nil all of them.
func NewPool(threads int, budget *Budget) (*Pool, error) {
	p, err := newPool(threads, budget, -1, pauses{})
	if err == nil && budget != nil && threads > 1 {
		budget.list(p, true)
	}
	return p, err
}

// NewStepping is NewPool for loops that follow one another within tens of microseconds,
// as the steps of a program do that does little else: threads spin longer before they
// sleep, if there is a core for each. If pin is not negative helper i, 1 and up, is bound to core
// pin + i.
func NewStepping(threads, pin int) (*Pool, error) {
	l := pauses{}
	if threads <= Cores {
		l = pauses{caller: callerPauses, helper: helperPauses}
	}
	return newPool(threads, nil, pin, l)
}

// NewWaiting is NewPool for loops whose calls mostly wait: for a device, a clock, another
// program. All threads take part in every Do, and none of them holds a core of the budget:
// Do releases the one that its caller holds, and acquires it again before it returns. So
// f acquires one for what it computes beside its wait, if that is much, and releases it. The
// threads may be blocked in C; see Reserve. With budget nil there are no cores to release.
func NewWaiting(threads int, budget *Budget) (*Pool, error) {
	p, err := newPool(threads, nil, -1, pauses{})
	if err != nil {
		return nil, err
	}
	if p.waiting = budget; budget != nil {
		threads += budget.Cores()
	}
	Reserve(threads)
	return p, nil
}

// pauses are how many pauses threads spin with before they sleep.
type pauses struct{ caller, helper int }

func newPool(threads int, budget *Budget, pin int, l pauses) (*Pool, error) {
	if threads < 1 || threads > Max {
		return nil, fmt.Errorf("threads: %d, must be 1 to %d", threads, Max)
	}
	p := &Pool{threads: threads, budget: budget, pin: pin, pauses: l, workers: make([]worker, threads-1)}
	p.gate.empty = make(chan struct{}, 1)
	for i := range p.workers {
		p.workers[i].token = make(chan struct{}, 1)
		p.exited.Add(1)
		go p.work(i)
	}
	return p, nil
}

// Budget returns the budget of NewPool or NewWaiting, which may be nil.
func (p *Pool) Budget() *Budget {
	if p.waiting != nil {
		return p.waiting
	}
	return p.budget
}

// Busy returns how long helpers have had cores of the budget, added over them. It may be
// called at any time.
func (p *Pool) Busy() time.Duration { return time.Duration(p.busy.Load()) }

// Threads returns the number of threads, the caller of Do included.
func (p *Pool) Threads() int { return p.threads }

// Do runs f(worker, i) for every i in [0, n) and returns when all have
// returned. worker, 0 to Threads()-1, is the thread that runs it: two calls
// with the same worker never overlap, so it may index scratch memory. An error
// or a panic of f becomes the error of Do (a panic's text with its index);
// where several indices fail, the lowest one's is returned. The other indices
// run all the same, so the state they keep stays whole.
//
// A call allocates nothing, but a closure written at the call does; keep f
// where calls are many. f must not call runtime.Goexit, Do or Close. A Do inside
// or beside another Do of the pool, or after Close, panics; one beside Close runs
// before it or panics.
func (p *Pool) Do(n int, f func(worker, i int) error) error {
	if p.waiting != nil {
		p.waiting.Release(1)
		defer p.waiting.Acquire() // when no lock is held
	}
	return p.do(n, f, 0)
}

func (p *Pool) do(n int, f func(worker, i int) error, begun int) error {
	if !p.mu.TryLock() {
		panic("threads: Do beside another Do or Close of the same pool")
	}
	defer p.mu.Unlock()
	if p.closed {
		panic("threads: Do on a pool that is closed")
	}
	helpers := max(0, min(n, p.threads)-1)
	p.f, p.begun = f, begun
	p.n.Store(int64(n))
	p.next.Store(0)
	if helpers == 0 {
		p.blocks = 1
		p.share(0)
	} else {
		// Many indices are handed out in blocks, so that the counter is not what the
		// threads wait for; the last ones one by one, as they may differ in cost.
		p.blocks = 8 * (helpers + 1)
		more, want := uint64(0), helpers
		if p.budget != nil {
			helpers, more = p.budget.TryAcquire(helpers), gateMore
		}
		p.gate.open(helpers, more)
		if helpers < want {
			p.letIn() // what was released since
		}
		for i := range helpers {
			p.workers[i].wake()
		}
		p.share(0)
		late := p.gate.shut()
		if p.budget != nil && late > 0 {
			p.budget.Release(late)
		}
		p.gate.await(p.pauses.caller)
	}
	p.f = nil
	err := p.failure.err
	p.failure.err = nil
	return err
}

// Close stops the threads and waits for them, and for a running Do before
// that. Calling it again does nothing.
func (p *Pool) Close() {
	p.lead.end()
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

// letIn lets helpers into a loop that is under way, one for each core that is free.
func (p *Pool) letIn() {
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

// work is the life of helper i, which is thread i+1.
func (p *Pool) work(i int) {
	defer p.exited.Done()
	if p.pin >= 0 {
		defer Pin(p.pin + i + 1)()
	}
	var last uint64 // number of the job this thread has seen the end of
	for {
		job, in := p.gate.enter(last)
		if in {
			if p.budget == nil {
				p.share(i + 1)
			} else {
				began := time.Now()
				p.share(i + 1)
				p.busy.Add(int64(time.Since(began)))
				p.budget.Release(1) // before the loop ends: the caller may start another at once
			}
			p.gate.leave()
			last = job
		} else if p.gate.closed() {
			return
		}
		p.workers[i].wait(&p.gate, last, p.pauses.helper)
	}
}

// share takes blocks of indices until none is left.
func (p *Pool) share(worker int) {
	for {
		from, n := int(p.next.Load()), int(p.n.Load())
		if from >= n {
			return
		}
		end := from + max(1, min(64, (n-from)/p.blocks))
		if !p.next.CompareAndSwap(int64(from), int64(end)) {
			continue
		}
		if from < p.begun && p.begun <= end {
			p.lead.begun <- struct{}{}
		}
		for from < end {
			from = p.run(worker, from, end)
		}
	}
}

// run calls f for the indices from to end-1. If f panics it reports that and
// returns the index after the failed one.
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
