package gpu

import (
	"slices"
	"time"
	"unsafe"

	"github.com/paceline-rl/paceline/core/cuda"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/threads"
)

// gpu is the Device that computes with core/cuda. The parameters that it is given live in host
// memory and get a copy in the GPU's; Params says when the one follows the other. Everything
// that it makes has streams of its own, so that each thing is a matter of its own, and every
// call but those of a window has been computed when it returns.
type gpu struct {
	card   *card
	closed bool
}

// Open returns the device of the GPU with an index, as CUDA counts them.
func Open(index int) (nn.Device, error) {
	c, err := openCard(index)
	if err != nil {
		return nil, err
	}
	return &gpu{card: c.use()}, nil
}

func (d *gpu) Name() string { return d.card.name() }

func (d *gpu) Another(int, *threads.Budget) (nn.Device, error) { return &gpu{card: d.card.use()}, nil }

// Busy is nothing: no core works for a GPU.
func (d *gpu) Busy() time.Duration { return 0 }

func (d *gpu) Lost() error {
	if !d.card.Lost() {
		return nil
	}
	_, _, err := d.card.Free() // asks nobody any more
	return err
}

func (d *gpu) Close() {
	if !d.closed {
		d.closed = true
		d.card.release()
	}
}

func (d *gpu) Average(to, from *nn.Params, weight float64) {
	if len(to.Raw()) != len(from.Raw()) {
		panic("nn: Average between different layouts")
	}
	if err := d.average(to, from, weight); err != nil {
		return // the GPU is lost, as the next call that can say so will
	}
	to.DeviceCopy().(*gpuCopy).wrote(to)
	to.Updates = from.Updates
}

func (d *gpu) average(to, from *nn.Params, weight float64) error {
	x, err := d.card.address(to)
	if err != nil {
		return err
	}
	y, err := d.card.address(from)
	if err != nil {
		return err
	}
	f, err := d.card.Function("average")
	if err != nil {
		return err
	}
	n := len(to.Raw())
	g := cuda.Elements(n)
	args := cuda.ElementsArgs{N: int64(n), X: x, Y: y, To: x, Keep: float32(1 - weight), Factor: float32(weight)}
	if err := d.card.copying.Launch(f, cuda.Launch{Grid: g.Grid, Block: g.Block, Args: unsafe.Pointer(&args), Bytes: unsafe.Sizeof(args)}); err != nil {
		return err
	}
	return d.card.copying.Synchronize()
}

// Bytes is what the host's memory holds: parameter sets, an optimiser's arrays, and what is
// copied from and to the GPU.
func (d *gpu) Bytes(s nn.Spec, n nn.Needs) (int64, error) {
	layout, err := s.Layout()
	if err != nil {
		return 0, err
	}
	bytes := int64(n.Sets) * 4 * int64(layout.Size)
	for _, rows := range slices.Concat(n.NetworkRows, n.LearnerRows) {
		if err := nn.CheckRows(rows); err != nil {
			return 0, err
		}
		bytes += int64(rows) * int64(s.Obs.Bytes())
		for _, h := range s.Heads {
			bytes += 4 * int64(rows) * int64(h.Out)
		}
	}
	if c := n.Optimizer; c.Name != "" {
		names, err := c.Complete()
		if err != nil {
			return 0, err
		}
		bytes += 4 * int64(len(names)) * int64(layout.Size)
	}
	return bytes, nil
}

// block is memory of the host beside memory of the GPU of the same size: what is in the one
// comes into the other by a single copy. Its pieces begin at multiples of 16 bytes.
type block struct {
	size int
	host []byte
	at   uint64
}

// piece is a place in a block.
type piece struct {
	block *block
	from  int
	bytes int
}

func (b *block) add(bytes int) piece {
	p := piece{b, b.size, bytes}
	b.size += (bytes + 15) &^ 15
	return p
}

// allocate ends the adding of pieces.
func (b *block) allocate(c *card) (err error) {
	if b.host, err = c.pinned(int64(max(b.size, 16))); err != nil {
		return err
	}
	b.at, err = c.memory(int64(max(b.size, 16)))
	return err
}

func (b *block) upload(s *cuda.Stream) error   { return s.Upload(b.at, b.host) }
func (b *block) download(s *cuda.Stream) error { return s.Download(b.host, b.at) }

func (p piece) host() []byte { return p.block.host[p.from : p.from+p.bytes : p.from+p.bytes] }

// at is the piece's address in the GPU's memory.
func (p piece) at() uint64 { return p.block.at + uint64(p.from) }

// view returns the host's side of a piece as numbers.
func view[T any](p piece) []T {
	var one T
	h := p.host()
	if len(h) == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&h[0])), len(h)/int(unsafe.Sizeof(one)))
}

// programs are graphs of CUDA by what they depend on: addresses of parameters and the like.
type programs[K comparable] struct {
	card   *card
	stream *cuda.Stream
	made   map[K]*cuda.Graph
}

// mostPrograms is how many are kept; there are more only where rows or sets change all the time.
const mostPrograms = 128

func newPrograms[K comparable](c *card, s *cuda.Stream) programs[K] {
	p := programs[K]{c, s, map[K]*cuda.Graph{}}
	c.own(func() {
		for _, g := range p.made {
			g.Close()
		}
	})
	return p
}

// run enqueues what key stands for so many times, in one call. Where that is not known yet, record allocates
// and lists what it needs, and a graph is made of what enqueue enqueues. An eager card has no graphs.
func (p *programs[K]) run(key K, times int, record, enqueue func() error) error {
	if p.card.Eager() {
		err := record()
		for ; times > 0 && err == nil; times-- {
			err = enqueue()
		}
		return err
	}
	g := p.made[key]
	if g == nil {
		for k, old := range p.made {
			if len(p.made) >= mostPrograms {
				old.Close()
				delete(p.made, k)
			}
		}
		err := record()
		if err != nil {
			return err
		}
		if g, err = p.stream.Capture(enqueue); err != nil {
			return err
		}
		p.made[key] = g
	}
	return p.stream.Replay(g, times)
}
