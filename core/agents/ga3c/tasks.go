package ga3c

import (
	"slices"
	"sync"
	"time"

	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/threads"
)

// tasks runs computations on the cores of a budget, in the order in which they can begin. The
// caller of its methods holds a core. A thread holds a core while it computes.
type tasks struct {
	cores *threads.Budget
	most  int           // threads besides the caller's
	race  bool          // events are the ends of tasks
	slots chan struct{} // of threads that wait inside a task

	mu       sync.Mutex
	changed  sync.Cond
	ready    []*task
	threads  int
	open     int                      // tasks that are not done
	finished []event                  // in the order in which their tasks ended
	took     [tuned + 1]time.Duration // by the kind of their events
}

// task is one computation.
type task struct {
	run   func() error
	waits bool    // run also waits, without a core: it has a thread of its own
	next  []*task // begin when this task is done
	event event   // what the end of the task is

	done bool
	err  error
	took time.Duration
}

func newTasks(cores *threads.Budget, race bool) *tasks {
	s := &tasks{cores: cores, most: cores.Cores() - 1, race: race, slots: make(chan struct{}, threads.Max)}
	if race { // the caller waits without a core
		s.most++
	}
	s.changed.L = &s.mu
	return s
}

// add begins a task.
func (s *tasks) add(t *task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open += 1 + len(t.next)
	s.enqueue(t)
}

func (s *tasks) enqueue(t *task) {
	if t.waits {
		go func() {
			s.slots <- struct{}{}
			s.cores.Acquire()
			t.do()
			s.cores.Release(1)
			<-s.slots
			s.mu.Lock()
			s.end(t)
			s.mu.Unlock()
		}()
		return
	}
	s.ready = append(s.ready, t)
	if s.threads < s.most {
		s.threads++
		go s.help()
	}
}

// help runs tasks until none is ready.
func (s *tasks) help() {
	s.cores.Acquire()
	s.mu.Lock()
	for len(s.ready) > 0 {
		s.runReady(0)
	}
	s.threads--
	s.mu.Unlock()
	s.cores.Release(1)
}

// runReady runs the task ready[n]. mu is locked before and afterwards.
func (s *tasks) runReady(n int) {
	t := s.ready[n]
	s.ready = slices.Delete(s.ready, n, n+1)
	s.mu.Unlock()
	t.do()
	s.mu.Lock()
	s.end(t)
}

func (s *tasks) end(t *task) {
	t.done = true
	s.open--
	for _, next := range t.next {
		s.enqueue(next)
	}
	s.took[t.event.kind] += t.took
	if s.race {
		s.finished = append(s.finished, t.event)
	}
	s.changed.Broadcast()
}

// do runs the task. A panic becomes an error.
func (t *task) do() {
	began := time.Now()
	defer func() { t.took = time.Since(began) }()
	defer fault.Recover(&t.err)
	t.err = t.run()
}

// forCaller returns the ready task that the caller runs while it waits, or -1. In a race others
// wait for the caller's decisions, so it takes no gradient, and nothing that an idle core can take.
func (s *tasks) forCaller() int {
	switch {
	case !s.race && len(s.ready) > 0:
		return 0
	case !s.race || s.threads < s.most-1:
		return -1
	}
	return slices.IndexFunc(s.ready, func(t *task) bool { return t.event.kind != updated })
}

// until waits until ok, which is called with mu locked, returns true.
func (s *tasks) until(ok func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !ok() {
		if n := s.forCaller(); n >= 0 {
			s.runReady(n)
			continue
		}
		s.cores.Release(1)
		s.changed.Wait()
		s.mu.Unlock()
		s.cores.Acquire() // which must hold no lock that a thread with a core needs
		s.mu.Lock()
	}
}

// wait waits for a task and returns its error. nil is a task of an earlier run, which is done.
func (s *tasks) wait(t *task) error {
	if t == nil {
		return nil
	}
	s.until(func() bool { return t.done })
	return t.err
}

// measured returns how long tasks took since the latest call: predictions, steps and gradients.
func (s *tasks) measured() (acting, stepping, learning time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	acting, stepping, learning = s.took[predicted], s.took[stepped], s.took[updated]
	clear(s.took[:])
	return acting, stepping, learning
}

// drain waits for all tasks.
func (s *tasks) drain() { s.until(func() bool { return s.open == 0 }) }

// take appends the events of tasks that are done to `to`, after waiting for at least one.
func (s *tasks) take(to []event) []event {
	s.until(func() bool { return len(s.finished) > 0 || s.open == 0 })
	s.mu.Lock()
	defer s.mu.Unlock()
	to = append(to, s.finished...)
	s.finished = s.finished[:0]
	return to
}

// forget forgets the events of tasks that are done.
func (s *tasks) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finished = s.finished[:0]
}
