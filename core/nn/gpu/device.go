package gpu

import (
	"math"
	"slices"
	"time"
	"unsafe"

	"github.com/paceline-rl/paceline/core/cuda"
	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/threads"
)

// device is an nn.Device that computes with core/cuda. Each object that it makes has its own
// streams. Every call is synchronous except those of nn.StackStepper.
type device struct {
	gpu    *gpu
	closed bool
}

// Open returns the device of the GPU with an index, as CUDA counts them.
func Open(index int) (nn.Device, error) {
	c, err := openGPU(index)
	if err != nil {
		return nil, err
	}
	return &device{gpu: c.use()}, nil
}

func (d *device) Name() string { return d.gpu.name() }

func (d *device) Another(int, *threads.Budget) (nn.Device, error) {
	return &device{gpu: d.gpu.use()}, nil
}

// Busy is 0, because a GPU has no helpers on cores.
func (d *device) Busy() time.Duration { return 0 }

func (d *device) Lost() error {
	if !d.gpu.Lost() {
		return nil
	}
	_, _, err := d.gpu.MemInfo() // returns the error of the loss, without a call of the driver
	return err
}

func (d *device) Close() {
	if !d.closed {
		d.closed = true
		d.gpu.release()
	}
}

func (d *device) ClipGradNorm(grad []float32, max float64) (norm float64, factor float32) {
	norm = math.Sqrt(kernel.SumSquares(nil, grad))
	return norm, nn.ClipFactor(norm, max)
}

func (d *device) Average(to, from *nn.Params, weight float64) {
	if len(to.Raw()) != len(from.Raw()) {
		panic("nn: Average between different layouts")
	}
	if err := d.average(to, from, weight); err != nil {
		return // the GPU is lost; the next call that can fail returns the error
	}
	to.DeviceCopy().(*paramsCopy).wrote(to)
	to.Updates = from.Updates
}

func (d *device) average(to, from *nn.Params, weight float64) error {
	x, err := d.gpu.address(to)
	if err != nil {
		return err
	}
	y, err := d.gpu.address(from)
	if err != nil {
		return err
	}
	f, err := d.gpu.Function("average")
	if err != nil {
		return err
	}
	n := len(to.Raw())
	g := cuda.Elements(n)
	args := cuda.ElementsArgs{N: int64(n), X: x, Y: y, To: x, Decay: float32(1 - weight), Factor: float32(weight)}
	if err := d.gpu.copying.Launch(f, cuda.Launch{Grid: g.Grid, Block: g.Block, Args: unsafe.Pointer(&args), Bytes: unsafe.Sizeof(args)}); err != nil {
		return err
	}
	return d.gpu.copying.Synchronize()
}

// Bytes counts host memory: parameter sets, the optimiser's arrays, and buffers for uploads and
// downloads.
func (d *device) Bytes(s nn.Spec, n nn.Needs) (int64, error) {
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

// block is host memory and GPU memory of the same size, so that one copy transfers all of its
// pieces. Each piece is aligned to 16 bytes.
type block struct {
	size int
	host []byte
	at   uint64
}

// piece is a range of a block.
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

// allocate allocates the block. All pieces have been added before.
func (b *block) allocate(c *gpu) (err error) {
	if b.host, err = c.pinned(int64(max(b.size, 16))); err != nil {
		return err
	}
	b.at, err = c.memory(int64(max(b.size, 16)))
	return err
}

func (b *block) upload(s *cuda.Stream) error   { return s.Upload(b.at, b.host) }
func (b *block) download(s *cuda.Stream) error { return s.Download(b.host, b.at) }

func (p piece) host() []byte { return p.block.host[p.from : p.from+p.bytes : p.from+p.bytes] }

// at is the address of the piece in GPU memory.
func (p piece) at() uint64 { return p.block.at + uint64(p.from) }

// view returns the host memory of a piece as numbers.
func view[T any](p piece) []T {
	var one T
	h := p.host()
	if len(h) == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&h[0])), len(h)/int(unsafe.Sizeof(one)))
}

// programs are CUDA graphs, by what they depend on: addresses of parameters, rows, masks.
type programs[K comparable] struct {
	gpu    *gpu
	stream *cuda.Stream
	made   map[K]*cuda.Graph
}

// mostPrograms bounds the cached graphs. A caller needs more only if rows or sets change all the
// time.
const mostPrograms = 128

func newPrograms[K comparable](c *gpu, s *cuda.Stream) programs[K] {
	p := programs[K]{c, s, map[K]*cuda.Graph{}}
	c.own(func() {
		for _, g := range p.made {
			g.Close()
		}
	})
	return p
}

// run enqueues the graph of key a number of times. If the graph is not cached, record lists the
// kernels and allocates their memory, and run captures the calls of enqueue into a graph. An eager
// GPU has no graphs: each run calls record and enqueue.
func (p *programs[K]) run(key K, times int, record, enqueue func() error) error {
	if p.gpu.Eager() {
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
