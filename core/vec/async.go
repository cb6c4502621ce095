package vec

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/limits"
	"github.com/paceline-rl/paceline/core/threads"
)

// Async steps the environments of a Vec asynchronously. Send hands out actions, threads take the
// steps, and Recv returns a batch of rows as soon as that many steps are done.
//
// Invariants:
//
//   - Offer gives an Async the rows to write before they are needed. An environment gets its row
//     when its step is done, so each observation is written once. Rows are filled in the order of
//     the Offers. Each environment that is sent needs a free row.
//   - If the batch size is Len(), row i is environment i's. Otherwise rows are in the order in
//     which the steps finished, and Rows.IDs has the environments.
//   - An environment is under way from its Send to the Recv that returns its row. It accepts no
//     other action until then.
//   - An environment that fails gets no row and must be reset. The next Recv returns a *Failure,
//     the Recv after it the rows of the others. If the step counts (FailedRow.Stepped), the
//     environment has a row, which one of the following Recvs returns.
//   - Recv returns an error if it would wait for ever, because too few environments are under way.
//
// Sends, Offer and Recv may be called by different goroutines, Recv by one at a time.
// No other method of the Vec may be called while environments are under way.
type Async struct {
	vec         *Vec
	batch       int
	jobs        chan int // environments to step or to reset
	workers     sync.WaitGroup
	quit        chan struct{}
	failed      chan failedJob
	scratchRows []byte // [envs] observations of environments that have no row yet

	// Arguments of the jobs, by environment.
	actions Actions
	kinds   []kind
	hasSeed []bool // the reset begins with a seed
	seeds   []uint64

	mu         sync.Mutex
	blocks     []*block   // offered, the oldest first
	blockOf    []*block   // [envs]: the block of the job's row; nil before claim
	underWay   []bool     // [envs]
	sent       int        // number of environments under way
	unfinished int        // number of jobs that are not done
	idle       *sync.Cond // signals that unfinished is 0
	closed     bool
}

// kind is what a job does.
type kind uint8

const (
	aStep    kind = iota
	aReset        // as a Reset by mask does
	aNewGame      // as a Reset without a mask does
)

// failedJob is the error of a job. hasRow says that the environment has a row nevertheless: its
// step ended an episode and the autoreset failed, or the observation of a Delayer was not valid.
type failedJob struct {
	i      int
	err    *Failure
	hasRow bool
}

// block is a batch of rows that is being filled.
type block struct {
	rows      *Rows
	claimed   int // number of rows that an environment has claimed
	unwritten int // number of rows that are not complete
	full      chan struct{}
}

// Async returns the Vec's Async and makes it at the first call. batch is 1 to Len() rows, the same
// at every call. If pin is not negative, thread k is bound to core pin + k. If steps wait, there
// is a thread for each environment, up to threads.Max, and numThreads is ignored.
func (v *Vec) Async(batch, numThreads, pin int) (*Async, error) {
	n := len(v.envs)
	switch {
	case v.closed:
		return nil, errClosed
	case v.async != nil && v.async.batch == batch:
		return v.async, nil
	case v.async != nil || batch < 1 || batch > n:
		return nil, fmt.Errorf("batch_size: %d, must be 1 to %d, and always the same", batch, n)
	case numThreads < 1:
		return nil, fmt.Errorf("num_threads: %d, must be at least 1", numThreads)
	}
	if err := limits.Admit(limits.Part{Setting: fmt.Sprintf("num_envs: %d", n), Bytes: int64(n) * int64(v.bytes)}); err != nil {
		return nil, err
	}
	a := &Async{
		vec: v, batch: batch, jobs: make(chan int, n), quit: make(chan struct{}), failed: make(chan failedJob, n),
		scratchRows: make([]byte, n*v.bytes), kinds: make([]kind, n), hasSeed: make([]bool, n), seeds: make([]uint64, n), underWay: make([]bool, n), blockOf: make([]*block, n),
	}
	a.idle = sync.NewCond(&a.mu)
	a.actions = Actions{make([]int32, n*v.width.ints), make([]float32, n*v.width.floats)}
	v.async = a
	if v.waiting != nil {
		numThreads = threads.Max
	}
	threads.Reserve(min(numThreads, n))
	for worker := range min(numThreads, n) {
		a.workers.Go(func() {
			if pin >= 0 {
				defer threads.Pin(pin + worker)()
			}
			for i := range a.jobs {
				a.work(i)
			}
		})
	}
	return a, nil
}

// Offer adds the rows of one batch. The Async owns them until a Recv returns them.
func (a *Async) Offer(rows *Rows) error {
	if err := a.vec.checkRows(rows, a.batch); err != nil {
		return err
	}
	if len(rows.IDs) != a.batch {
		return fmt.Errorf("rows.IDs: %d entries, must be %d", len(rows.IDs), a.batch)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.blocks = append(a.blocks, &block{rows: rows, unwritten: a.batch, full: make(chan struct{}, 1)})
	return nil
}

// Send sends one action to each of the environments ids. If one of the actions is not valid, no
// environment moves.
func (a *Async) Send(ids []int32, actions Actions) error {
	v := a.vec
	if err := v.spec.Action.CheckSize(actions.Discrete, actions.Box, len(ids)); err != nil {
		return err
	}
	return a.send(ids, func(k, i int) error {
		return v.checkStep(i, actions.of(k, v.width))
	}, func(k, i int) {
		a.kinds[i] = aStep
		to, from := a.actions.of(i, v.width), actions.of(k, v.width)
		copy(to.Discrete, from.Discrete)
		copy(to.Box, from.Box)
	})
}

// SendReset starts episodes in the environments ids, as a Reset by mask does. seeds is empty or has
// a seed for each of ids. The threads also call Seed, because Seed may take long or panic.
func (a *Async) SendReset(ids []int32, seeds []uint64) error {
	if len(seeds) != 0 && len(seeds) != len(ids) {
		return fmt.Errorf("seeds: %d, must be %d, one for each environment", len(seeds), len(ids))
	}
	return a.send(ids, func(int, int) error { return nil }, func(k, i int) {
		if a.kinds[i], a.hasSeed[i] = aReset, len(seeds) > 0; a.hasSeed[i] {
			a.seeds[i] = seeds[k]
		}
	})
}

// SendNewGame starts episodes in the environments ids, as a Reset without a mask does: each begins
// a new game.
func (a *Async) SendNewGame(ids []int32) error {
	return a.send(ids, func(int, int) error { return nil }, func(_, i int) {
		a.kinds[i], a.hasSeed[i] = aNewGame, false
	})
}

// send checks the jobs of ids, stores their arguments and sends them to the workers. check and
// store are called for each k with i = ids[k].
func (a *Async) send(ids []int32, check func(k, i int) error, store func(k, i int)) (err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return errClosed
	}
	checked := 0
	defer func() { // undo: the loop below finds a duplicate id after it has marked the first one
		if err != nil {
			for _, i := range ids[:checked] {
				a.underWay[i] = false
			}
		}
	}()
	for k, id := range ids {
		i := int(id)
		switch {
		case i < 0 || i >= len(a.underWay):
			return fmt.Errorf("env_id: %d, must be 0 to %d", i, len(a.underWay)-1)
		case a.underWay[i]:
			return fmt.Errorf("env_id: %d, is under way already, must be received first", i)
		}
		if err := check(k, i); err != nil {
			return err
		}
		a.underWay[i] = true
		checked++
	}
	if freeRows := len(a.blocks)*a.batch - a.sent; len(ids) > freeRows {
		return fmt.Errorf("rows: %d are sent and %d are free, must offer more first", len(ids), freeRows)
	}
	for k, id := range ids {
		store(k, int(id))
	}
	a.sent += len(ids)
	a.unfinished += len(ids)
	for _, id := range ids {
		a.jobs <- int(id) // has capacity for all
	}
	return nil
}

// work does the job of environment i.
func (a *Async) work(i int) {
	var stepped bool
	var err error
	if kind := a.kinds[i]; kind == aStep {
		stepped, err = a.vec.step(i, a.actions.of(i, a.vec.width), slot{})
	} else if err = a.seed(i); err == nil {
		err = a.vec.reset(i, slot{}, kind == aNewGame || !a.vec.replacesAutoreset(i))
	}
	if a.done(i, stepped, err) {
		runtime.Gosched() // lets the receiver run before the next job
	}
}

// seed seeds environment i if its job has a seed.
func (a *Async) seed(i int) (err error) {
	defer a.vec.failed(i, &err)
	if a.hasSeed[i] {
		a.vec.seedOne(i, a.seeds[i])
	}
	return nil
}

// done records the end of a job and reports whether a Recv can return now.
func (a *Async) done(i int, stepped bool, err error) (ready bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.blockOf[i]
	a.blockOf[i] = nil
	if err != nil {
		a.failed <- failedJob{i, failureOf(err, stepped), b != nil} // has capacity for all
	}
	if b != nil {
		if b.unwritten--; b.unwritten == 0 {
			b.full <- struct{}{}
			ready = true
		}
	}
	if a.unfinished--; a.unfinished == 0 {
		a.idle.Broadcast()
	}
	return ready || err != nil
}

// claim returns the row that environment i writes.
func (a *Async) claim(i int) slot {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, b := range a.blocks {
		if b.claimed < a.batch {
			at := b.claimed
			if a.batch == len(a.underWay) {
				at = i
			}
			b.claimed++
			b.rows.IDs[at] = int32(i)
			a.blockOf[i] = b
			return slot{b.rows, at}
		}
	}
	panic("vec: no free row") // send has checked that there is one
}

// errTimedOut is the error of a Recv that has reached its limit.
var errTimedOut = fmt.Errorf("recv: no batch was ready: %w", fault.ErrTimedOut)

// Recv waits until the oldest batch is full and returns its rows. If an environment has failed, it
// returns that error first. A limit that is not negative bounds the wait.
func (a *Async) Recv(limit time.Duration) (*Rows, error) {
	b, err := a.oldestBlock()
	if err != nil {
		return nil, err
	}
	select { // errors come before rows
	case f := <-a.failed:
		return nil, a.report(f)
	default:
	}
	var expired <-chan time.Time
	if limit >= 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case <-b.full:
		return a.receive(b)
	case f := <-a.failed:
		return nil, a.report(f)
	case <-expired:
		select { // select picks at random if the block is full, too
		case <-b.full:
			return a.receive(b)
		default:
			return nil, errTimedOut
		}
	case <-a.quit:
		return nil, errClosed
	}
}

// receive returns the rows of a full block, unless a failure is to be reported first: done reports
// the failure of a row no later than the row's block.
func (a *Async) receive(b *block) (*Rows, error) {
	select {
	case f := <-a.failed:
		b.full <- struct{}{}
		return nil, a.report(f)
	default:
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.blocks = a.blocks[1:]
	a.sent -= a.batch
	for _, i := range b.rows.IDs {
		a.underWay[i] = false
	}
	return b.rows, nil
}

// oldestBlock returns the block to wait for. It fails if the block cannot become full and no
// failure is to be reported.
func (a *Async) oldestBlock() (*block, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.closed:
		return nil, errClosed
	case len(a.failed) == 0 && a.sent < a.batch:
		return nil, fmt.Errorf("recv: %d environments are under way, batch_size is %d: must send more first", a.sent, a.batch)
	case len(a.blocks) == 0:
		return &block{}, nil // Recv reports the failure
	}
	return a.blocks[0], nil
}

// report returns the error of a failed job. Without a row the environment is no longer under way.
func (a *Async) report(f failedJob) error {
	if !f.hasRow {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.underWay[f.i] = false
		a.sent--
	}
	return f.err
}

// Drain waits until no environment is under way and discards the results and the errors. The rows
// remain offered.
func (a *Async) Drain() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.unfinished > 0 {
		a.idle.Wait()
	}
	for len(a.failed) > 0 {
		<-a.failed
	}
	for _, b := range a.blocks {
		b.claimed, b.unwritten, b.full = 0, a.batch, make(chan struct{}, 1)
	}
	a.sent = 0
	clear(a.underWay)
}

// UnderWay returns the number of environments under way.
func (a *Async) UnderWay() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sent
}

// scratch is the observation of environment i while the environment has no row.
func (a *Async) scratch(i int) []byte { return row(a.scratchRows, i, a.vec.bytes) }

// close waits for the jobs in progress and discards the others. A Recv that waits returns
// errClosed.
func (a *Async) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	close(a.quit)
	for more := true; more; {
		select {
		case <-a.jobs:
		default:
			more = false
		}
	}
	close(a.jobs)
	a.workers.Wait()
	a.unfinished = 0 // a later Drain must not wait for the discarded jobs
}
