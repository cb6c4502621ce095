package threads

import (
	"sync"
	"time"
)

// lead is a goroutine of a Pool that calls do for others.
type lead struct {
	n      int
	f      func(worker, i int) error
	begin  chan struct{} // of capacity 1
	begun  chan struct{} // of capacity 1
	done   chan error    // of capacity 1
	exited chan struct{}
	ending sync.Once
}

// Start is Do without waiting for it: a goroutine of the Pool's own is its caller. In a Pool
// with a budget it acquires a core for that. In one of NewWaiting it needs none, and Start
// returns when every thread has begun a call of f: where the caller computed at once, with all
// cores, the calls would begin their waits late, one by one. Wait must follow before the next
// Do or Start. Close waits for what was started.
func (p *Pool) Start(n int, f func(worker, i int) error) {
	if p.lead == nil {
		p.lead = &lead{begin: make(chan struct{}, 1), begun: make(chan struct{}, 1), done: make(chan error, 1), exited: make(chan struct{})}
		go p.follow(p.lead)
	}
	p.lead.n, p.lead.f = n, f
	p.lead.begin <- struct{}{}
	if p.waiting != nil && n > 0 {
		<-p.lead.begun
	}
}

// Wait waits for what Start began and returns what Do would have. In a Pool with a budget its
// caller holds a core, which others have meanwhile.
func (p *Pool) Wait() error {
	select {
	case err := <-p.lead.done:
		return err
	default:
	}
	budget := p.Budget()
	if budget == nil {
		return <-p.lead.done
	}
	budget.Release(1)
	defer budget.Acquire()
	return <-p.lead.done
}

// end waits for what was started and ends the goroutine.
func (l *lead) end() {
	if l != nil {
		l.ending.Do(func() { close(l.begin) })
		<-l.exited
	}
}

func (p *Pool) follow(l *lead) {
	defer close(l.exited)
	for range l.begin {
		if p.budget == nil {
			begun := 0
			if p.waiting != nil {
				begun = min(l.n, p.threads)
			}
			l.done <- p.do(l.n, l.f, begun)
			continue
		}
		p.budget.Acquire()
		began := time.Now()
		err := p.do(l.n, l.f, 0)
		p.busy.Add(int64(time.Since(began)))
		p.budget.Release(1)
		l.done <- err
	}
}
