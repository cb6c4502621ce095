package offpolicy

import (
	"errors"
	"time"

	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/threads"
	"github.com/paceline-rl/paceline/core/train"
)

// Updates does the updates: the paper's trainer thread. While an update is in progress it writes
// Theta and reads the replay memory and ThetaMinus.
//
// Without concurrent training, for one of several learners, and under Emulate, there is no trainer
// thread, and wait does the updates on the main thread.
//
// The trainer thread holds a core during an update and acquires one again for the next update. The
// main thread has no core while it waits for updates. So it gets one between two updates.
type Updates struct {
	progress
	updater updater
	gpu     gpu

	Cores  *threads.Budget
	Pool   *threads.Pool // shares the copying of a minibatch
	device nn.Device     // shares the rest of an update

	threaded bool         // there is a trainer thread
	before   func() error // comes before every update of a learner; nil: nothing does
	exited   chan struct{}
}

func newUpdates(r *Run, s *train.Setup) (up *Updates, err error) {
	up = &Updates{Cores: s.Cores}
	up.progress.init(r.Monitor)
	defer func() {
		if err != nil {
			up.close()
		}
	}()
	n := s.Pool.Threads()
	if up.Pool, err = threads.NewPool(n, s.Cores); err != nil {
		return up, err
	}
	if up.device, err = r.Device.Another(n, s.Cores); err != nil {
		return up, err
	}
	if err := up.updater.init(r, rng.New(uint64(s.Common.Seed), "replay", s.Learner()), up.device, up.Pool); err != nil {
		return up, err
	}
	return up, up.gpu.init(&up.updater, up.device, s.Cores)
}

// OnGPU reports whether a GPU has the frames of the replay memory.
func (up *Updates) OnGPU() bool {
	up.mu.Lock()
	defer up.mu.Unlock()
	return up.gpu.frames != nil
}

// outgrown returns, once, why GPU memory has the frames no longer. nil: it has them, or never had.
func (up *Updates) outgrown() error {
	up.mu.Lock()
	defer up.mu.Unlock()
	err := up.gpu.full
	up.gpu.full = nil
	return err
}

// start gives updates a thread of their own.
func (up *Updates) start() {
	up.threaded = true
	up.exited = make(chan struct{})
	go up.work()
}

func (up *Updates) work() {
	defer close(up.exited)
	up.mu.Lock()
	defer up.mu.Unlock()
	for {
		if !up.closing && up.lockedIdle() {
			up.monitor.Idle(true)
			for !up.closing && up.lockedIdle() {
				up.changed.Wait()
			}
			up.monitor.Idle(false)
		}
		if up.closing {
			return
		}
		up.lockedAcquire()
		if !up.closing && !up.lockedIdle() { // Halt may have taken the updates back
			up.lockedNext()
		}
		up.Cores.Release(1)
	}
}

// lockedNext does the next update, or as many as a GPU does at once.
func (up *Updates) lockedNext() {
	if n := up.gpu.span(up.done+1, up.released); n > 0 {
		last := up.updater.lastInWindow(up.released)
		up.lockedRun(func(first int64) ([]float32, error) { return up.many(first, n, last) })
		return
	}
	up.lockedRun(up.one)
}

// lockedRun runs f, which does updates from number first on, with mu unlocked. f returns the losses
// of the updates that it did, and the error that ended the updates after these.
func (up *Updates) lockedRun(f func(first int64) ([]float32, error)) {
	first := up.done + 1
	up.running = true
	up.mu.Unlock()
	done, err := f(first)
	up.mu.Lock()
	up.running = false
	for _, loss := range done {
		up.losses.add(loss)
	}
	up.done += int64(len(done))
	up.monitor.Updates.Store(up.done)
	up.dropped = up.updater.outliers.Dropped
	if err != nil {
		up.err = err
	}
	up.changed.Broadcast()
}

// one does update u on the CPU, or a GPU that gathers nothing.
func (up *Updates) one(u int64) (losses []float32, err error) {
	began, helped := time.Now(), up.device.Busy()+up.Pool.Busy()
	losses, err = up.updater.update(u)
	up.monitor.Learned(time.Since(began), up.device.Busy()+up.Pool.Busy()-helped)
	return losses, err
}

// many does n updates from number first on. It does one, and leaves all later ones to the CPU, if
// the replay memory has outgrown GPU memory.
func (up *Updates) many(first int64, n int, last int64) (losses []float32, err error) {
	began := time.Now()
	if err := up.gpu.follow(); err != nil {
		var full *fault.Memory
		if up.updater.cfg.ReplayDevice != ReplayAuto || !errors.As(err, &full) {
			return nil, err
		}
		up.mu.Lock()
		up.gpu.frames, up.gpu.full = nil, full
		up.mu.Unlock()
		return up.one(first)
	}
	losses, err = up.gpu.updates(first, n, last)
	up.monitor.Learned(time.Since(began), 0)
	return losses, err
}

// lockedAcquire waits for a core, with mu unlocked, as the threads that have the cores need mu.
func (up *Updates) lockedAcquire() {
	up.mu.Unlock()
	up.Cores.Acquire()
	up.mu.Lock()
}

// lockedWait lets the main thread wait for a condition, without its core and with mu unlocked.
func (up *Updates) lockedWait(over func() bool) {
	if over() {
		return
	}
	up.Cores.Release(1)
	for !over() {
		up.changed.Wait()
	}
	up.lockedAcquire()
}

// wait returns when u updates and all that were released before are done. The replay memory, Theta
// and ThetaMinus are then the caller's until the next release. It returns the error that ended the
// updates, or train.ErrInterrupted.
func (up *Updates) wait(u int64, interrupt *train.Interrupt) error {
	up.mu.Lock()
	defer up.mu.Unlock()
	up.lockedRelease(u)
	if deadline := interrupt.Deadline(); up.threaded && !deadline.IsZero() && up.done < up.released {
		alarm := time.AfterFunc(time.Until(deadline), up.wake)
		defer alarm.Stop()
	}
	over := func() bool { return up.lockedIdle() || interrupt.Raised(time.Now()) }
	if up.threaded {
		up.lockedWait(over)
	} else {
		for !over() {
			if err := up.lockedBefore(); err != nil {
				return err
			}
			up.lockedNext()
		}
	}
	if !up.lockedIdle() {
		return interrupt.Err(time.Now())
	}
	return up.err
}

// lockedBefore calls before with mu unlocked.
func (up *Updates) lockedBefore() error {
	if up.before == nil {
		return nil
	}
	up.mu.Unlock()
	defer up.mu.Lock()
	return up.before()
}

// Halt takes back the updates that have not begun, and returns when none is in progress.
func (up *Updates) Halt() {
	up.mu.Lock()
	defer up.mu.Unlock()
	up.released = up.done
	up.lockedWait(func() bool { return !up.running })
	up.released = up.done // with the update that was in progress
}

// end ends the trainer thread, after the update in progress.
func (up *Updates) end() {
	up.quit()
	if up.threaded {
		<-up.exited
	}
}

func (up *Updates) close() {
	up.end()
	if up.Pool != nil {
		up.Pool.Close()
	}
	if up.device != nil {
		up.device.Close()
	}
}
