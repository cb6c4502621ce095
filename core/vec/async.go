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

// Async steps the environments of a Vec asynchronously: Send hands out actions,
// threads take the steps, and Recv gives back a batch of rows as soon as that many
// environments are done, whoever they are. What holds for it:
//
//   - Where rows go is said beforehand, by Offer: a step's observation is written once,
//     into the row that the environment gets when its step is done. Rows are filled in the
//     order in which they were offered; there must be a free row for all that is sent.
//   - If the batch is all environments, row i is environment i's. Else rows lie in the
//     order in which environments got done; IDs says whose they are.
//   - An environment is under way from its Send to the Recv that has its row, and takes
//     no further action meanwhile.
//   - One that fails takes no row: the next Recv returns a *Failure, and the rows of the
//     others come with the Recv after that. It must be reset. If its step counts all the
//     same (FailedRow.Stepped), that is in the row it has in one of these.
//   - A Recv that could wait for ever, as too few are under way, is refused.
//
// Send, SendReset, Offer and Recv may be called from different goroutines, but only one of
// them may Recv; nothing else of the Vec may be used while environments are under way.
type Async struct {
	vec         *Vec
	batch       int
	jobs        chan int
	workers     sync.WaitGroup
	quit        chan struct{}
	failed      chan failure
	scratchRows []byte // a row for each environment that cannot wait for its own

	actions Actions  // of the jobs
	reset   []bool   // the job is a reset
	seeded  []bool   // that begins with a seed, of seeds
	seeds   []uint64 // of the jobs

	mu       sync.Mutex
	blocks   []*block   // offered, the oldest first
	rowOf    []*block   // the block of the job's row, nil before it has one
	underWay []bool     // from Send to Recv
	sent     int        // environments under way
	working  int        // jobs that are not done
	idle     *sync.Cond // working is 0
	closed   bool
}

// failure is what went wrong with an environment. If hasRow it has a row all the same: it
// was the end of an episode after which no other one could be started, or what a Delayer
// showed was refused.
type failure struct {
	i      int
	err    *Failure
	hasRow bool
}

// block is a batch of rows that is being filled.
type block struct {
	rows  *Rows
	taken int // rows given out
	left  int // rows not written yet
	full  chan struct{}
}

// Async returns the Vec's Async, and makes it at the first call: batches of 1 to Len()
// rows, and so many threads, each bound to core (pin + its number) if pin is not negative.
// Where steps wait there is a thread for each environment, up to threads.Max.
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
		vec: v, batch: batch, jobs: make(chan int, n), quit: make(chan struct{}), failed: make(chan failure, n),
		scratchRows: make([]byte, n*v.bytes), reset: make([]bool, n), seeded: make([]bool, n), seeds: make([]uint64, n), underWay: make([]bool, n), rowOf: make([]*block, n),
	}
	a.idle = sync.NewCond(&a.mu)
	if size := len(v.spec.Action.Low); v.spec.Action.N == 0 {
		a.actions.Box = make([]float32, n*size)
	} else {
		a.actions.Discrete = make([]int32, n)
	}
	v.async = a
	if v.own != nil {
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

// Offer adds rows for a batch to be filled. They must stay until a Recv has returned them.
func (a *Async) Offer(rows *Rows) error {
	if err := a.vec.checkRows(rows, a.batch); err != nil {
		return err
	}
	if len(rows.IDs) != a.batch {
		return fmt.Errorf("rows.IDs: %d entries, must be %d", len(rows.IDs), a.batch)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.blocks = append(a.blocks, &block{rows: rows, left: a.batch, full: make(chan struct{}, 1)})
	return nil
}

// Send hands out one action for each of ids. It is checked first, as Step does; nothing
// moves unless all is good.
func (a *Async) Send(ids []int32, actions Actions) error {
	v := a.vec
	if err := v.checkActions(actions, len(ids)); err != nil {
		return err
	}
	size := len(v.spec.Action.Low)
	return a.send(ids, func(k, i int) error {
		return v.checkStep(i, actions.of(k, size))
	}, func(k, i int) {
		if a.reset[i] = false; actions.Box != nil {
			copy(a.actions.Box[i*size:(i+1)*size], actions.Box[k*size:])
		} else {
			a.actions.Discrete[i] = actions.Discrete[k]
		}
	})
}

// SendReset starts episodes in the environments of ids, as a Reset by mask does. seeds has none,
// or one for each. The threads seed as they reset: an environment may take long for it, and fail.
func (a *Async) SendReset(ids []int32, seeds []uint64) error {
	if len(seeds) != 0 && len(seeds) != len(ids) {
		return fmt.Errorf("seeds: %d, must be %d, one for each environment", len(seeds), len(ids))
	}
	return a.send(ids, func(int, int) error { return nil }, func(k, i int) {
		if a.reset[i], a.seeded[i] = true, len(seeds) > 0; a.seeded[i] {
			a.seeds[i] = seeds[k]
		}
	})
}

func (a *Async) send(ids []int32, check func(k, i int) error, take func(k, i int)) (err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return errClosed
	}
	if free := len(a.blocks)*a.batch - a.sent; len(ids) > free {
		return fmt.Errorf("rows: %d are sent and %d are free, must offer more first", len(ids), free)
	}
	done := 0
	defer func() { // an id that comes twice is found on the way
		if err != nil {
			for _, i := range ids[:done] {
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
		done++
	}
	for k, id := range ids {
		take(k, int(id))
	}
	a.sent += len(ids)
	a.working += len(ids)
	for _, id := range ids {
		a.jobs <- int(id) // has capacity for all
	}
	return nil
}

// work does a job.
func (a *Async) work(i int) {
	var stepped bool
	var err error
	if a.reset[i] {
		if err = a.seed(i); err == nil {
			err = a.vec.reset(i, slot{}, !a.vec.owed(i))
		}
	} else {
		stepped, err = a.vec.step(i, a.actions.of(i, len(a.vec.spec.Action.Low)), slot{})
	}
	if a.done(i, stepped, err) {
		// Whoever waits comes now, and not after the next job.
		runtime.Gosched()
	}
}

// seed seeds environment i if the job begins with that.
func (a *Async) seed(i int) (err error) {
	defer a.vec.failed(i, &err)
	if a.seeded[i] {
		a.vec.seedOne(i, a.seeds[i])
	}
	return nil
}

// done takes note of a job, and reports whether there is something to receive.
func (a *Async) done(i int, stepped bool, err error) (news bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.rowOf[i]
	a.rowOf[i] = nil
	if err != nil {
		a.failed <- failure{i, failureOf(err, stepped), b != nil} // has capacity for all
	}
	if b != nil {
		if b.left--; b.left == 0 {
			b.full <- struct{}{}
			news = true
		}
	}
	if a.working--; a.working == 0 {
		a.idle.Broadcast()
	}
	return news || err != nil
}

// claim gives environment i its row.
func (a *Async) claim(i int) slot {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, b := range a.blocks {
		if b.taken < a.batch {
			at := b.taken
			if a.batch == len(a.underWay) {
				at = i
			}
			b.taken++
			b.rows.IDs[at] = int32(i)
			a.rowOf[i] = b
			return slot{b.rows, at}
		}
	}
	panic("vec: no free row") // send counts them
}

// errTimedOut is what Recv returns when its time is over.
var errTimedOut = fmt.Errorf("recv: no batch was ready: %w", fault.ErrTimedOut)

// Recv waits until the rows that were offered first are full, and returns them; or until an
// environment has failed, whose error it returns; or, with limit not negative, for so long.
func (a *Async) Recv(limit time.Duration) (*Rows, error) {
	b, err := a.first()
	if err != nil {
		return nil, err
	}
	select { // errors go before rows
	case f := <-a.failed:
		return nil, a.report(f)
	default:
	}
	var over <-chan time.Time
	if limit >= 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-b.full:
		return a.take(b)
	case f := <-a.failed:
		return nil, a.report(f)
	case <-over:
		select { // both may be there by now
		case <-b.full:
			return a.take(b)
		default:
			return nil, errTimedOut
		}
	case <-a.quit:
		return nil, errClosed
	}
}

// take receives the rows of a block that is full, unless there is an error to report by now:
// that of a row has come with its block.
func (a *Async) take(b *block) (*Rows, error) {
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

// first is the block to wait for, if it will ever be full or there is an error to report.
func (a *Async) first() (*block, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.closed:
		return nil, errClosed
	case len(a.failed) == 0 && a.sent < a.batch:
		return nil, fmt.Errorf("recv: %d environments are under way, batch_size is %d: must send more first", a.sent, a.batch)
	case len(a.blocks) == 0:
		return &block{}, nil // for the error
	}
	return a.blocks[0], nil
}

func (a *Async) report(f failure) error {
	if !f.hasRow {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.underWay[f.i] = false
		a.sent--
	}
	return f.err
}

// Drain waits for all that is under way and forgets it, errors too. Offered rows stay.
func (a *Async) Drain() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.working > 0 {
		a.idle.Wait()
	}
	for len(a.failed) > 0 {
		<-a.failed
	}
	for _, b := range a.blocks {
		b.taken, b.left, b.full = 0, a.batch, make(chan struct{}, 1)
	}
	a.sent = 0
	clear(a.underWay)
}

// busy reports whether environments are under way.
func (a *Async) busy() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sent > 0
}

// scratch is where environment i writes what has no slot yet.
func (a *Async) scratch(i int) []byte { return row(a.scratchRows, i, a.vec.bytes) }

// close lets jobs that run end and forgets the others; a Recv that waits returns.
func (a *Async) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	close(a.quit)
	for forgot := true; forgot; {
		select {
		case <-a.jobs:
		default:
			forgot = false
		}
	}
	close(a.jobs)
	a.workers.Wait()
	a.working = 0 // for a Drain that comes too late
}
