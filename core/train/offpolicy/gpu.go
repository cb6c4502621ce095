package offpolicy

import (
	"cmp"
	"fmt"
	"time"

	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/limits"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/threads"
	"github.com/paceline-rl/paceline/core/train"
)

// gpu does updates on a GPU whose memory has the frames of the replay memory. The minibatches of a
// window are drawn at its start, and the GPU gathers them and does their updates one after the
// other, without the host in between. Updates are started in spans, because Stop and Close wait for
// a span. Draws and bits are those of one update at a time.
//
// Where updates change priorities at once, a minibatch is drawn when the errors of the one before
// are known: no draw is ahead of its update, and the GPU waits for each of them.
type gpu struct {
	*updater
	frames   nn.StackStepper // nil: no GPU has the frames
	full     error           // why a GPU has the frames no longer, until Run.Report says it
	prefetch prefetch
	cores    *threads.Budget
	rates    []float64
	losses   []float32
	each     time.Duration // the time of an update, as measured in the latest span; 0: unknown
}

// spareOnGPU is memory of a GPU that is left to others.
const spareOnGPU = 256 << 20

// Spans take about spanTime. firstSpan is the number of updates of the first one.
const (
	spanTime  = 20 * time.Millisecond
	firstSpan = 16
)

// init decides where minibatches are gathered.
func (g *gpu) init(upd *updater, device nn.Device, cores *threads.Budget) error {
	g.updater, g.cores = upd, cores
	c := upd.cfg
	frames, ok := upd.stepper.(nn.StackStepper)
	if !ok {
		if c.ReplayDevice == ReplayCUDA {
			return fmt.Errorf("replay_device: cuda, must be auto or cpu, as the device that computes is %s", device.Name())
		}
		return nil
	}
	upd.gatherInto(frames.OwnTransitions())
	if c.ReplayDevice == ReplayCPU {
		return nil
	}
	free, err := frames.FreeBytes()
	if err != nil {
		return err
	}
	if need := upd.memory.MirrorBytes(); need > free-spareOnGPU {
		if c.ReplayDevice == ReplayCUDA {
			return &fault.Memory{Text: fmt.Sprintf("replay_device: cuda, buffer_size: %d needs %s of the memory of %s, which has %s free", c.BufferSize, limits.Size(need), device.Name(), limits.Size(free))}
		}
		return nil
	}
	g.frames = frames
	g.prefetch = prefetch{
		drawing: upd.drawing, picks: make([][]int, len(frames.Minibatches())), mirror: upd.memory.NewMirror(), frames: frames, memory: upd.memory, nSteps: c.NSteps, gamma: c.Gamma,
		after: make([]rng.Stream, len(frames.Minibatches())), beta: upd.beta,
	}
	for k := range g.prefetch.picks {
		g.prefetch.picks[k] = upd.picks
		if c.Priorities != nil {
			g.prefetch.picks[k] = make([]int, c.BatchSize)
		}
	}
	return nil
}

// span is the number of updates from first on, up to last, that are started at once. 0: the next
// update is done alone, because no GPU has the frames or because Units checks its minibatch.
func (g *gpu) span(first, last int64) int {
	if g.frames == nil {
		return 0
	}
	n := int64(firstSpan)
	switch {
	case g.waits():
		n = 1
	case g.each > 0:
		n = max(1, int64(spanTime/g.each))
	}
	n = min(n, last-first+1)
	for k := range n {
		if g.units.Wants(g.stepOf(first + k)) {
			return int(k)
		}
	}
	return int(n)
}

// updates does n updates from number first on, or fewer where the memory for minibatches ends, and
// returns their losses. It draws the minibatches of all updates up to number last meanwhile.
func (g *gpu) updates(first int64, n int, last int64) (losses []float32, err error) {
	began := time.Now()
	reports, err := g.enqueue(first, n, last)
	g.each = time.Since(began) / time.Duration(max(1, len(reports)))
	g.losses = g.losses[:0]
	for k, r := range reports {
		u := first + int64(k)
		if err != nil && k == len(reports)-1 {
			return g.losses, train.AtUpdate(err, g.stepOf(u), u)
		}
		g.losses = append(g.losses, float32(r.Loss))
		g.theta.Updates = uint64(u)
	}
	return g.losses, err
}

// follow copies the frames of the latest flushes to GPU memory. Updates call it before they begin.
func (g *gpu) follow() (err error) {
	defer fault.Recover(&err)
	return g.prefetch.mirror.Follow(g.frames)
}

// enqueue starts n updates on the GPU, from number first on. While the GPU works, enqueue draws the
// minibatches of all updates up to number last, and then releases the core. So the GPU waits for
// draws only in a window's first span. A draw takes some 4.5 microseconds on a Zen 4, the draws of
// a window of 2,500 updates 11 milliseconds. The reports are those of nn.StackStepper.Finish.
func (g *gpu) enqueue(first int64, n int, last int64) (reports []nn.Report, err error) {
	defer fault.Recover(&err)
	if err := g.drawable(); err != nil {
		return nil, err
	}
	f := &g.prefetch
	at, err := f.find(first, g.draws)
	if err != nil {
		return nil, err
	}
	if g.waits() {
		last = first
	}
	if err := f.drawTo(at + n); err != nil {
		return nil, err
	}
	n = min(n, f.n-at)
	g.rates = g.rates[:0]
	for k := range n {
		g.rates = append(g.rates, g.rate(first+int64(k), int64(k)))
	}
	if err := g.frames.Start(g.theta, g.thetaMinus, at, g.rates, len(g.batch.NextMasks) > 0); err != nil {
		return nil, err
	}
	drawn := f.drawTo(at + int(last-first) + 1)
	reports, err = g.finish()
	*g.draws = f.stream(at + len(reports)) // what was not done was not drawn
	learnt := len(reports)
	if err != nil {
		learnt = max(0, learnt-1) // the last report is that of the failed update
	}
	for k, r := range reports[:learnt] {
		g.drawing.Update(f.picks[at+k], r.Rows) // which uniform draws have no use for
	}
	return reports, cmp.Or(err, drawn)
}

// waits reports whether each draw waits for the errors of the update before.
func (g *gpu) waits() bool { return g.cfg.Priorities != nil && !g.cfg.Priorities.Deferred }

// finish waits for the GPU without a core.
func (g *gpu) finish() ([]nn.Report, error) {
	g.cores.Release(1)
	defer g.cores.Acquire()
	return g.frames.Finish()
}
