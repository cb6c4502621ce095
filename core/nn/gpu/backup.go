package gpu

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/cuda"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/graph"
)

// backup is an nn.Backup. A copy is downloaded concurrently with the work that follows Make.
type backup struct {
	card  *card
	sets  []*nn.Params
	state *gpuOptimizer

	on      *cuda.Stream
	there   uint64 // the copy in the GPU's memory, from which the host's is made
	size    int64
	kept    [2]keptCopy // by turns
	current int         // the one that was begun last
}

// keptCopy is one copy in host memory.
type keptCopy struct {
	data     []byte
	step     int64 // of the optimiser
	updates  []uint64
	finished *cuda.Event
	begun    bool
	whole    bool // it is known to be there
}

func (d *gpu) Backup(sets []*nn.Params, o nn.Optimizer) (nn.Backup, error) {
	b := &backup{card: d.card, sets: sets, state: o.(*gpuOptimizer)}
	for _, p := range sets {
		b.size += int64(4 * len(p.Raw()))
	}
	b.size += int64(4 * b.state.size * len(b.state.state))
	var err error
	if b.there, err = d.card.memory(b.size); err != nil {
		return nil, fmt.Errorf("copies for the case that the GPU is lost: %w", err)
	}
	for k := range b.kept {
		kept := &b.kept[k]
		kept.updates = make([]uint64, len(sets))
		if kept.data, err = d.card.pinned(b.size); err != nil {
			return nil, err
		}
		if kept.finished, err = d.card.event(true); err != nil {
			return nil, err
		}
	}
	b.on, err = d.card.stream(cuda.Low)
	return b, err
}

// Make begins a copy of the sets and the optimiser as they are, which may change once it
// returns.
func (b *backup) Make() error {
	// The copy before must be out of the GPU's memory. It is kept until this one is whole.
	before := &b.kept[b.current]
	if before.begun {
		if err := before.finished.Wait(); err != nil {
			return err
		}
		before.whole = true
		b.current = 1 - b.current
	}
	kept := &b.kept[b.current]
	kept.begun, kept.whole, kept.step = false, false, b.state.step
	at := b.there
	add := func(from uint64, floats int) error {
		err := b.on.Copy(at, from, int64(4*floats))
		at += uint64(4 * floats)
		return err
	}
	for i, p := range b.sets {
		kept.updates[i] = p.Updates
		from, err := b.card.address(p)
		if err == nil {
			err = add(from, len(p.Raw()))
		}
		if err != nil {
			return err
		}
	}
	if err := b.state.bring(); err != nil {
		return err
	}
	for _, from := range b.state.there {
		if err := add(from, b.state.size); err != nil {
			return err
		}
	}
	if err := b.on.Synchronize(); err != nil {
		return err
	}
	if err := b.on.Download(kept.data, b.there); err != nil {
		return err
	}
	kept.begun = true
	return b.on.Record(kept.finished)
}

// Poll notices that the copy which Make began last is whole: from a GPU that is lost nobody learns
// that any more. It does nothing where that is known.
func (b *backup) Poll() {
	if kept := &b.kept[b.current]; kept.begun && !kept.whole {
		kept.whole, _ = kept.finished.Done()
	}
}

// Restore gives sets and optimiser the newest copy that is whole, in host memory, and reports
// whether there is one, and whether it is the one that Make began last. It is for when the GPU is lost.
func (b *backup) Restore() (ok, last bool) {
	kept := &b.kept[b.current]
	if last = kept.whole; !last {
		kept = &b.kept[1-b.current]
	}
	if !kept.whole {
		return false, false
	}
	data := kept.data
	take := func(to []float32) {
		data = data[copy(graph.BytesOf(to), data):]
	}
	for i, p := range b.sets {
		take(p.Raw())
		p.SetDeviceCopy(nil)
		p.Updates = kept.updates[i]
		p.Wrote()
	}
	for _, t := range b.state.state {
		take(t.Data)
	}
	b.state.ahead, b.state.behind, b.state.step = false, true, kept.step
	return true, last
}
