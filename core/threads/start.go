package threads

import (
	"sync"
	"time"
)

// starter is the goroutine of a Pool that calls do for Start.
type starter struct {
	n      int
	f      func(worker, i int) error
	begin  chan struct{} // of capacity 1: do is to run
	begun  chan struct{} // of capacity 1: index notifyAt-1 was taken
	done   chan error    // of capacity 1: the error of do
	exited chan struct{}
	ending sync.Once
}

// Start runs a Do on another goroutine of the Pool and returns. Wait must be called before the next
// Do or Start. Close waits for the started Do.
//
// In a Pool with a budget the goroutine acquires a core. In a Pool of NewWaiting it needs none, and
// Start returns when every thread has begun a call of f. If it returned earlier, a caller that then
// computes on all cores would delay these calls.
func (p *Pool) Start(n int, f func(worker, i int) error) {
	if p.starter == nil {
		p.starter = &starter{begin: make(chan struct{}, 1), begun: make(chan struct{}, 1), done: make(chan error, 1), exited: make(chan struct{})}
		go p.runStarted(p.starter)
	}
	p.starter.n, p.starter.f = n, f
	p.starter.begin <- struct{}{}
	if p.waiting != nil && n > 0 {
		<-p.starter.begun
	}
}

// Wait waits for the Do of Start and returns its error. In a Pool with a budget the caller holds a
// core, which Wait releases while it waits.
func (p *Pool) Wait() error {
	select {
	case err := <-p.starter.done:
		return err
	default:
	}
	budget := p.Budget()
	if budget == nil {
		return <-p.starter.done
	}
	budget.Release(1)
	defer budget.Acquire()
	return <-p.starter.done
}

// end waits for the started Do and ends the goroutine.
func (s *starter) end() {
	if s != nil {
		s.ending.Do(func() { close(s.begin) })
		<-s.exited
	}
}

func (p *Pool) runStarted(s *starter) {
	defer close(s.exited)
	for range s.begin {
		if p.budget == nil {
			notifyAt := 0
			if p.waiting != nil {
				notifyAt = min(s.n, p.threads)
			}
			s.done <- p.do(s.n, s.f, notifyAt)
			continue
		}
		p.budget.Acquire()
		began := time.Now()
		err := p.do(s.n, s.f, 0)
		p.busy.Add(int64(time.Since(began)))
		p.budget.Release(1)
		s.done <- err
	}
}
