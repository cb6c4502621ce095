package gpu

import (
	"fmt"
	"unsafe"

	"github.com/paceline-rl/paceline/core/cuda"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/graph"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// recorder walks the sorted ops of a graph once and lists their kernels with arguments and
// addresses. The list is launched many times.
type recorder struct {
	gpu       *gpu
	precision string                   // the end of the kernels' names
	graph     *graph.Graph             // the graph that is walked
	rows      int                      // rows to compute
	at        map[*tensor.Dense]uint64 // addresses of the tensors
	work      map[any]uint64           // addresses of further memory of ops
	masks     uint64                   // of the minibatch; 0: it has none
	branches  uint64                   // of the head "pi"; 0: actor_critic computes the loss
	loss      uint64                   // doubles: the loss and its parts
	errors    uint64                   // of the rows, of a loss that has them
	update    uint64                   // address of a cuda.Step that counts the places of errors; 0: there is one
	list      []launch
}

// launch is a kernel. Without a kernel it is a fork or a join of the side stream.
//
// A kernel of the side stream waits for the kernels before the latest fork and runs concurrently
// with the kernels after the fork, up to the next join.
type launch struct {
	kernel *cuda.Function
	cuda.Launch
	side bool // on the side stream
	fork bool // without a kernel: a fork; false: a join
}

func newRecorder(c *gpu, s *nn.Spec) (*recorder, error) {
	r := &recorder{gpu: c, precision: string(s.Precision), at: map[*tensor.Dense]uint64{}, work: map[any]uint64{}}
	if r.precision == "" {
		r.precision = string(nn.FP32)
	}
	info := c.Info()
	for i := range s.Heads {
		if h := &s.Heads[i]; h.Taus > 0 {
			return nil, fmt.Errorf("heads[%d].taus: %d, must be 0 on %s", i, h.Taus, c.name())
		} else if h.Atoms+h.Quantiles > 0 {
			return nil, fmt.Errorf("heads[%d].atoms: %d and quantiles: %d, must be 0 on %s", i, h.Atoms, h.Quantiles, c.name())
		} else if h.Dueling {
			return nil, fmt.Errorf("heads[%d].dueling: true, must be false on %s", i, c.name())
		}
	}
	for i, t := range s.Trunks {
		if t.Noisy > 0 {
			return nil, fmt.Errorf("trunks[%d].noisy: %v, must be 0 on %s", i, t.Noisy, c.name())
		}
	}
	switch {
	case s.ISA == "portable":
		return nil, fmt.Errorf("isa: portable, must be auto on %s", c.name())
	case !infoOf(info).Computes(nn.Precision(r.precision)):
		return nil, fmt.Errorf("precision: %s, must be fp32 on %s: its compute capability %d.%d is below 8.0", r.precision, c.name(), info.Major, info.Minor)
	}
	return r, nil
}

// walk appends the kernels of a graph to the list.
func (r *recorder) walk(o *graph.Order, g *graph.Graph, rows int) error {
	r.graph, r.rows = g, rows
	values := make([]G.Value, len(o.Nodes))
	for _, i := range o.Leaves {
		values[i] = o.Nodes[i].Value()
	}
	for _, s := range o.Steps {
		in := make([]G.Value, len(s.In))
		for k, j := range s.In {
			in[k] = values[j]
		}
		out, err := r.record(s.Op, in)
		if err != nil {
			return err
		}
		if out != nil {
			values[s.Out] = out
		}
	}
	return nil
}

// record appends the kernels of an op and returns its output; nil stands for the scalar of a loss.
func (r *recorder) record(op G.Op, in []G.Value) (*tensor.Dense, error) {
	switch o := op.(type) {
	case *graph.LayerOp:
		return o.Y, r.layer(o, in)
	case *graph.WeightGradOp:
		return o.DW, r.weightGrad(o, in)
	case *graph.NormOp:
		return o.Y, r.norm(o, in)
	case *graph.NormGradOp:
		return o.DScale, r.normGrad(o, in)
	case *graph.OutputOf:
		return o.Value, nil
	case *graph.SumOp:
		return o.Sum, r.sum(o, in)
	case *graph.ConvertOp:
		return o.Y, r.convert(o, in)
	case *graph.TDOp:
		return nil, r.td(o, in)
	case *graph.ActorCriticOp:
		return nil, r.actorCritic(o, in)
	case *graph.LossGradient:
		return o.Value, lossGradient(in)
	}
	return nil, fmt.Errorf("nn: %v: no kernel computes it", op)
}

// address returns the address of a float32 tensor. It allocates memory for a tensor that has none.
func (r *recorder) address(v G.Value) (uint64, error) {
	t := v.(*tensor.Dense)
	if at, ok := r.at[t]; ok {
		return at, nil
	}
	at, err := r.gpu.memory(int64(4 * t.Shape().TotalSize()))
	if err == nil {
		r.at[t] = at
	}
	return at, err
}

func (r *recorder) addresses(values ...G.Value) ([]uint64, error) {
	list := make([]uint64, len(values))
	for i, v := range values {
		var err error
		if list[i], err = r.address(v); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// memory returns the address of the memory of key, which the first call allocates.
func (r *recorder) memory(key any, bytes int) (uint64, error) {
	if at, ok := r.work[key]; ok {
		return at, nil
	}
	at, err := r.gpu.memory(int64(bytes))
	if err == nil {
		r.work[key] = at
	}
	return at, err
}

// join makes the kernels that follow wait for the side stream.
func (r *recorder) join() { r.list = append(r.list, launch{}) }

// enqueue lists a kernel.
func enqueue[A any](r *recorder, kernel string, g cuda.Geometry, args A) error {
	f, err := r.gpu.Function(kernel)
	if err == nil {
		r.list = append(r.list, launch{kernel: f, Launch: cuda.Launch{Grid: g.Grid, Block: g.Block, Args: unsafe.Pointer(&args), Bytes: unsafe.Sizeof(args)}})
	}
	return err
}

// fork makes the next kernels of onSide wait for all kernels listed so far.
func (r *recorder) fork() { r.list = append(r.list, launch{fork: true}) }

// forkSide is fork followed by onSide.
func (r *recorder) forkSide(do func() error) error {
	r.fork()
	return r.onSide(do)
}

// onSide puts the kernels that do lists on the side stream.
func (r *recorder) onSide(do func() error) error {
	first := len(r.list)
	err := do()
	for i := range r.list[first:] {
		r.list[first+i].side = true
	}
	return err
}

// lanes are the main stream and the side stream. The main stream has the higher priority: otherwise
// the side stream would fill the GPU with work that no kernel waits for yet.
type lanes struct {
	main, side     *cuda.Stream
	forked, joined *cuda.Event
}

func (c *gpu) lanes() (l lanes, err error) {
	if l.main, err = c.stream(cuda.Normal); err != nil {
		return l, err
	}
	if l.side, err = c.stream(cuda.Low); err != nil {
		return l, err
	}
	if l.forked, err = c.event(false); err != nil {
		return l, err
	}
	l.joined, err = c.event(false)
	return l, err
}

// play enqueues the kernels of a list.
func (l *lanes) play(list []launch) error {
	began := false // the side stream has work since the latest join
	join := func() error {
		if !began {
			return nil
		}
		began = false
		if err := l.side.Record(l.joined); err != nil {
			return err
		}
		return l.main.Wait(l.joined)
	}
	waits := false // the side stream has not waited for the latest fork
	for i := range list {
		k, on := &list[i], l.main
		switch {
		case k.fork:
			if err := l.main.Record(l.forked); err != nil {
				return err
			}
			waits = true
			continue
		case k.kernel == nil:
			if err := join(); err != nil {
				return err
			}
			continue
		case k.side:
			if on = l.side; waits {
				if err := l.side.Wait(l.forked); err != nil {
					return err
				}
			}
			began, waits = true, false
		}
		if err := on.Launch(k.kernel, k.Launch); err != nil {
			return err
		}
	}
	return join()
}

func flag(b bool) int32 {
	if b {
		return 1
	}
	return 0
}
