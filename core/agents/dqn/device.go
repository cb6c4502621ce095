package dqn

import (
	"fmt"
	"time"

	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/limits"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/train"
)

// This file is about updates on a GPU whose memory has the frames of D. As D stands still inside
// a window, the window's minibatches are drawn at its start and named to the GPU, which gathers
// them and does the updates one behind the other, with nothing of ours in between. What is
// released is done in spans, so that Stop and Close need not wait for more. The bits are those
// of one update at a time, and so is what is drawn.

// placeReplay says where minibatches are gathered, where there is a choice.
func (up *updates) placeReplay() error {
	stacks, ok := up.stepper.(nn.StackStepper)
	if !ok {
		if up.cfg.ReplayDevice == replayCUDA {
			return fmt.Errorf("replay_device: cuda, must be auto or cpu, as the device that computes is %s", up.device.Name())
		}
		return nil
	}
	// The minibatches that are gathered here go to where the GPU fetches them.
	own := stacks.OwnTransitions()
	if len(up.batch.NextMasks) == 0 {
		own.NextMasks = nil
	}
	up.batch = *own
	if up.cfg.ReplayDevice == replayCPU {
		return nil
	}
	free, err := stacks.Free()
	if err != nil {
		return err
	}
	if need := up.memory.MirrorBytes(); need > free-spareOnGPU {
		if up.cfg.ReplayDevice == replayCUDA {
			return &fault.Memory{Text: fmt.Sprintf("replay_device: cuda, buffer_size: %d needs %s of the memory of %s, which has %s free", up.cfg.BufferSize, limits.Size(need), up.device.Name(), limits.Size(free))}
		}
		return nil
	}
	up.stacks, up.mirror = stacks, up.memory.NewMirror()
	up.ahead.after = make([]rng.Stream, len(stacks.Minibatches()))
	return nil
}

// windowUpdates is the most updates that a window has, or that are due at once without windows.
func (c *Config) windowUpdates() int {
	steps := c.NumEnvs
	if c.Concurrent {
		steps += c.Window
	}
	return (steps/c.TrainFreq + 1) * c.GradientSteps
}

// ahead are minibatches that were drawn before their updates: the first of them for update
// number first.
type ahead struct {
	first   int64
	n       int
	changes uint64       // of D, when they were drawn
	before  rng.Stream   // the stream when they were drawn
	after   []rng.Stream // and when it has drawn each of them
}

// stream is the stream as it is when k of them are drawn.
func (a *ahead) stream(k int) rng.Stream {
	if k == 0 {
		return a.before
	}
	return a.after[k-1]
}

// place returns which of them is for update number u. None are left of what was drawn otherwise:
// from another D, for other updates (a run that was loaded, one after an error), or where their
// memory ends.
func (up *updates) place(u int64) (int, error) {
	a, k := &up.ahead, u-up.ahead.first
	if a.changes != up.memory.Changes() || k < 0 || k > int64(a.n) || k == int64(len(a.after)) || *up.draws != a.stream(int(k)) {
		a.first, a.n, a.changes, a.before, k = u, 0, up.memory.Changes(), *up.draws, 0
		return 0, up.stacks.Uploaded() // the GPU may still read what is drawn anew
	}
	return int(k), nil
}

// drawnAtOnce is how many minibatches are drawn between two uploads. An upload also enqueues updates: so
// many draws take about a millisecond, less than the updates that are enqueued already.
const drawnAtOnce = 256

// drawTo draws minibatches until there are n, and has them uploaded.
func (up *updates) drawTo(n int) error {
	a := &up.ahead
	n = min(n, len(a.after))
	for a.n < n {
		first := a.n
		draws := a.stream(first)
		for a.n < min(n, first+drawnAtOnce) {
			up.sampler.Draw(&draws, up.picks)
			up.mirror.Gather(up.picks, float32(up.cfg.Gamma), &up.stacks.Minibatches()[a.n], nil)
			a.after[a.n] = draws
			a.n++
		}
		if err := up.stacks.Upload(first, a.n-first); err != nil {
			return err
		}
	}
	return nil
}

// spareOnGPU is memory that is left to others.
const spareOnGPU = 256 << 20

// spanTime is how long a span is meant to take: Stop and Close wait for one. firstSpan are the
// updates of the first, before it is known how long one takes.
const (
	spanTime  = 20 * time.Millisecond
	firstSpan = 16
)

// next does what is released next: one update, or a span of them. Called with mu held; it is
// unlocked meanwhile.
func (up *updates) next() {
	if n := up.span(); n > 0 {
		up.many(n)
	} else {
		up.one()
	}
}

// span is how many updates may be done at once, 0 where the next one is done by itself: where
// frames are not on a GPU, and where its hidden units are looked at.
func (up *updates) span() int {
	if up.stacks == nil {
		return 0
	}
	n := int64(firstSpan)
	if up.each > 0 {
		n = max(1, int64(spanTime/up.each))
	}
	n = min(n, up.released-up.done)
	for k := range n {
		if up.units.Wants(up.stepOf(up.done + 1 + k)) {
			return int(k)
		}
	}
	return int(n)
}

// many does the next n updates, or as many of them as there is memory to draw for. Called with mu
// held; it is unlocked meanwhile.
func (up *updates) many(n int) {
	first := up.done + 1
	last := up.released
	if up.cfg.Concurrent { // D stands still up to the window's end
		last = max(last, up.clock.Begun+up.cfg.updatesDue(up.clock.Due, up.clock.Due))
	}
	up.running = true
	up.mu.Unlock()
	began := time.Now()
	reports, err := up.enqueue(first, n, last)
	took := time.Since(began)
	up.host.Learned(took, 0)
	up.mu.Lock()
	up.running = false
	up.each = took / time.Duration(max(1, len(reports)))
	for k, r := range reports {
		if err != nil && k == len(reports)-1 {
			err = train.AtUpdate(err, up.stepOf(first+int64(k)), first+int64(k))
			break
		}
		up.count(float32(r.Loss))
		up.theta.Updates = uint64(up.done)
	}
	if err != nil {
		up.err = err
	}
	up.changed.Broadcast()
}

// enqueue has the GPU do n updates from number first on. While it does, the minibatches of all
// updates up to number last are drawn, and then the core is released. So the GPU waits for the
// draws of a window's first span only: they take some 4.5 microseconds an update on a Zen 4, 11
// milliseconds for a window of 2,500. The reports are those of nn.StackStepper.Finish.
func (up *updates) enqueue(first int64, n int, last int64) (reports []nn.Report, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fault.Caught(r)
		}
	}()
	if err := up.mirror.Follow(up.stacks); err != nil {
		return nil, err
	}
	at, err := up.place(first)
	if err != nil {
		return nil, err
	}
	if err := up.drawTo(at + n); err != nil {
		return nil, err
	}
	n = min(n, up.ahead.n-at)
	up.rates = up.rates[:0]
	for k := range n {
		up.rates = append(up.rates, up.schedule.Rate.At(up.stepOf(first+int64(k))))
	}
	if err := up.stacks.Start(up.theta, up.thetaMinus, at, up.rates, len(up.batch.NextMasks) > 0); err != nil {
		return nil, err
	}
	ahead := up.drawTo(at + int(last-first) + 1)
	if reports, err = up.finish(); err == nil {
		err = ahead
	}
	*up.draws = up.ahead.stream(at + len(reports)) // what was not done was not drawn
	return reports, err
}

// finish waits for the GPU without a core.
func (up *updates) finish() ([]nn.Report, error) {
	up.cores.Release(1)
	defer up.cores.Acquire()
	return up.stacks.Finish()
}

// keptCounts are what a checkpoint holds beside parameters, optimiser and experience.
type keptCounts struct {
	clock    clock
	schedule schedule
	draws    rng.Stream
	updates  int64
}

// backedUp are the sets that a GPU changes.
func (d *DQN) backedUp() []*nn.Params {
	sets := []*nn.Params{d.theta, d.thetaMinus}
	if d.snapshot != nil {
		sets = append(sets, d.snapshot)
	}
	return sets
}

// keep begins a copy of what is lost with the GPU. No update is in progress.
func (d *DQN) keep() error {
	if d.backup == nil {
		return nil
	}
	d.kept[1] = d.kept[0]
	d.kept[0] = keptCounts{d.clock, d.schedule, *d.updates.draws, d.updates.position()}
	return d.backup.Make()
}

// Recover goes back to the latest copy, after the GPU was lost, and reports whether there is one.
// Nothing can be learnt any more; what there was can be saved.
func (d *DQN) Recover() bool {
	ok, last := d.backup.Restore()
	if !ok {
		return false
	}
	c := &d.kept[0]
	if !last {
		c = &d.kept[1]
	}
	d.clock, d.schedule, *d.updates.draws = c.clock, c.schedule, c.draws
	d.phase, d.free = 0, 0
	d.updates.setPosition(c.updates)
	d.updates.fail(d.device.Lost())
	d.host.Steps.Store(d.clock.steps())
	return true
}
