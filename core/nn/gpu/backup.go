package gpu

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/cuda"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/graph"
)

// backup is an nn.Backup. A copy is downloaded concurrently with the work that follows Make.
type backup struct {
	gpu   *gpu
	sets  []*nn.Params
	state *optimizer

	stream  *cuda.Stream
	onGPU   uint64 // the copy in GPU memory that is downloaded
	size    int64
	copies  [2]hostCopy
	current int // index of the copy that Make began last
}

// hostCopy is one copy in host memory.
type hostCopy struct {
	data     []byte
	step     int64 // of the optimiser
	updates  []uint64
	finished *cuda.Event
	begun    bool
	complete bool // finished was seen done
}

func (d *device) Backup(sets []*nn.Params, o nn.Optimizer) (nn.Backup, error) {
	b := &backup{gpu: d.gpu, sets: sets, state: o.(*optimizer)}
	for _, p := range sets {
		b.size += int64(4 * len(p.Raw()))
	}
	b.size += int64(4 * b.state.size * len(b.state.state))
	var err error
	if b.onGPU, err = d.gpu.memory(b.size); err != nil {
		return nil, fmt.Errorf("copies for the case that the GPU is lost: %w", err)
	}
	for k := range b.copies {
		c := &b.copies[k]
		c.updates = make([]uint64, len(sets))
		if c.data, err = d.gpu.pinned(b.size); err != nil {
			return nil, err
		}
		if c.finished, err = d.gpu.event(true); err != nil {
			return nil, err
		}
	}
	b.stream, err = d.gpu.stream(cuda.Low)
	return b, err
}

func (b *backup) Make() (int, error) {
	// onGPU is overwritten only after the previous copy is downloaded. The previous host copy
	// stays valid until this one is complete.
	before := &b.copies[b.current]
	if before.begun {
		if err := before.finished.Wait(); err != nil {
			return 0, err
		}
		before.complete = true
		b.current = 1 - b.current
	}
	return b.current, b.begin(&b.copies[b.current])
}

// begin begins copy c.
func (b *backup) begin(c *hostCopy) error {
	c.begun, c.complete, c.step = false, false, b.state.step
	at := b.onGPU
	add := func(from uint64, floats int) error {
		err := b.stream.Copy(at, from, int64(4*floats))
		at += uint64(4 * floats)
		return err
	}
	for i, p := range b.sets {
		c.updates[i] = p.Updates
		from, err := b.gpu.address(p)
		if err == nil {
			err = add(from, len(p.Raw()))
		}
		if err != nil {
			return err
		}
	}
	if err := b.state.uploadState(); err != nil {
		return err
	}
	for _, from := range b.state.onGPU {
		if err := add(from, b.state.size); err != nil {
			return err
		}
	}
	if err := b.stream.Synchronize(); err != nil {
		return err
	}
	if err := b.stream.Download(c.data, b.onGPU); err != nil {
		return err
	}
	if err := b.stream.Record(c.finished); err != nil {
		return err
	}
	c.begun = true
	return nil
}

// Poll runs before a loss, because a lost GPU no longer tells whether the copy is complete.
func (b *backup) Poll() {
	if c := &b.copies[b.current]; c.begun && !c.complete {
		c.complete, _ = c.finished.Done()
	}
}

func (b *backup) Restore() (k int, ok bool) {
	k = b.current
	if !b.copies[k].complete {
		k = 1 - k
	}
	c := &b.copies[k]
	if !c.complete {
		return 0, false
	}
	data := c.data
	take := func(to []float32) {
		data = data[copy(graph.BytesOf(to), data):]
	}
	for i, p := range b.sets {
		take(p.Raw())
		p.SetDeviceCopy(nil)
		p.Updates = c.updates[i]
		p.Wrote()
	}
	for _, t := range b.state.state {
		take(t.Data)
	}
	b.state.hostStale, b.state.gpuStale, b.state.step = false, true, c.step
	return k, true
}
