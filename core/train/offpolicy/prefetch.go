package offpolicy

import (
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/replay"
	"github.com/paceline-rl/paceline/core/rng"
)

// prefetch holds minibatches of coming updates, drawn in the order of the updates and uploaded to a
// GPU. Minibatch k belongs to update first+k. It is valid while the replay memory is the one that
// it was drawn from, the stream stands where it was drawn, and the run, whose betas its weights
// have, goes on.
type prefetch struct {
	drawing replay.Sampler
	picks   [][]int // of each minibatch; uniform draws have one memory for all
	mirror  *replay.Mirror
	frames  nn.StackStepper
	memory  *replay.Memory
	nSteps  int
	gamma   float64
	beta    func(u int64) float64

	first   int64
	n       int          // minibatches drawn
	changes uint64       // memory.Changes() when they were drawn
	before  rng.Stream   // the stream before minibatch 0
	after   []rng.Stream // the stream after each; as many as there is memory for minibatches

	discarded bool // the minibatches are those of a run that is over
}

// stream is the stream when k minibatches are drawn.
func (f *prefetch) stream(k int) rng.Stream {
	if k == 0 {
		return f.before
	}
	return f.after[k-1]
}

// find returns the index of the prefetched minibatch for update u, whose minibatch is drawn from
// draws. It discards all of them if the replay memory, the order of updates or the stream has
// changed (a flush, a load, an error), if a run has begun, or if the memory for minibatches ends.
func (f *prefetch) find(u int64, draws *rng.Stream) (int, error) {
	k := u - f.first
	if f.discarded || f.changes != f.memory.Changes() || k < 0 || k > int64(f.n) || k == int64(len(f.after)) || *draws != f.stream(int(k)) {
		f.first, f.n, f.changes, f.before, k = u, 0, f.memory.Changes(), *draws, 0
		f.discarded = false
		return 0, f.frames.Uploaded() // the GPU may still read the memory that is written next
	}
	return int(k), nil
}

// discard discards all minibatches at the next find. The caller has waited for updates in progress.
func (f *prefetch) discard() { f.discarded = true }

// drawnAtOnce is how many minibatches are drawn between two uploads. An upload also enqueues
// updates. As many draws take about a millisecond, less than the updates that are enqueued already.
const drawnAtOnce = 256

// drawTo draws and uploads minibatches until there are n.
func (f *prefetch) drawTo(n int) error {
	n = min(n, len(f.after))
	for f.n < n {
		first := f.n
		draws := f.stream(first)
		for f.n < min(n, first+drawnAtOnce) {
			picks := f.picks[f.n]
			f.drawing.Draw(&draws, picks)
			if w := f.frames.Minibatches()[f.n].Weights; w != nil {
				f.drawing.Weights(f.beta(f.first+int64(f.n)), w)
			}
			f.mirror.Gather(picks, f.nSteps, f.gamma, &f.frames.Minibatches()[f.n], nil)
			f.after[f.n] = draws
			f.n++
		}
		if err := f.frames.Upload(first, f.n-first); err != nil {
			return err
		}
	}
	return nil
}
