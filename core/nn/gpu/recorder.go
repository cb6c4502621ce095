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

// recorder lists the kernels that compute a graph on a GPU: it walks the sorted ops, as a
// machine does, and each op (recorded) names its kernels, their arguments and addresses. The
// same list is launched again and again.
type recorder struct {
	card      *card
	precision string                   // as the kernels' names end
	graph     *graph.Graph             // whose ops are listed
	rows      int                      // that it computes
	at        map[*tensor.Dense]uint64 // where the tensors lie
	work      map[any]uint64           // memory of ops beside their outputs
	masks     uint64                   // of the minibatch; 0: it has none
	loss      uint64                   // two doubles and more: the loss and its parts
	list      []launch
}

// launch is a kernel to be launched after those before it; or, without a kernel, a place in the list.
type launch struct {
	kernel *cuda.Function
	cuda.Launch
	beside bool // a kernel that waits for what lies before the latest fork, and may run concurrently with what follows
	fork   bool // no kernel: what is beside may begin here. Else, without a kernel: what is beside ends here
}

func newRecorder(c *card, s *nn.Spec) (*recorder, error) {
	r := &recorder{card: c, precision: string(s.Precision), at: map[*tensor.Dense]uint64{}, work: map[any]uint64{}}
	if r.precision == "" {
		r.precision = string(nn.FP32)
	}
	info := c.Info()
	switch {
	case s.ISA == "portable":
		return nil, fmt.Errorf("isa: portable, must be auto on %s", c.name())
	case r.precision != string(nn.FP32) && info.Major < 8:
		return nil, fmt.Errorf("precision: %s, must be fp32 on %s: its compute capability %d.%d is below 8.0", r.precision, c.name(), info.Major, info.Minor)
	}
	return r, nil
}

// walk lists the kernels of a graph behind those that are listed already.
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

// record adds the kernels of an op, for inputs whose addresses are known, and returns its output;
// nil is the scalar of a loss.
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

// address returns where a tensor of float32 lies: where it was put, or in memory of its own.
func (r *recorder) address(v G.Value) (uint64, error) {
	t := v.(*tensor.Dense)
	if at, ok := r.at[t]; ok {
		return at, nil
	}
	at, err := r.card.memory(int64(4 * t.Shape().TotalSize()))
	if err == nil {
		r.at[t] = at
	}
	return at, err
}

// addresses are those of several tensors.
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

// memory returns so many bytes that belong to key, the same ones every time.
func (r *recorder) memory(key any, bytes int) (uint64, error) {
	if at, ok := r.work[key]; ok {
		return at, nil
	}
	at, err := r.card.memory(int64(bytes))
	if err == nil {
		r.work[key] = at
	}
	return at, err
}

// end makes what follows wait for what is beside.
func (r *recorder) end() { r.list = append(r.list, launch{}) }

// enqueue lists a kernel.
func enqueue[A any](r *recorder, kernel string, g cuda.Geometry, args A) error {
	f, err := r.card.Function(kernel)
	if err == nil {
		r.list = append(r.list, launch{kernel: f, Launch: cuda.Launch{Grid: g.Grid, Block: g.Block, Args: unsafe.Pointer(&args), Bytes: unsafe.Sizeof(args)}})
	}
	return err
}

// fork makes what beside lists next wait for what is listed so far, and for nothing that is listed between.
func (r *recorder) fork() { r.list = append(r.list, launch{fork: true}) }

// aside is fork and beside at once.
func (r *recorder) aside(do func() error) error {
	r.fork()
	return r.beside(do)
}

// beside runs what do lists concurrently with what comes after the latest fork.
func (r *recorder) beside(do func() error) error {
	first := len(r.list)
	err := do()
	for i := range r.list[first:] {
		r.list[first+i].beside = true
	}
	return err
}

// lanes are two streams: what must run in order, and what may run beside that. The former goes first,
// as the latter would otherwise fill the GPU with what nothing waits for yet.
type lanes struct {
	main, side     *cuda.Stream
	forked, joined *cuda.Event
}

func (c *card) lanes() (l lanes, err error) {
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
	began := false // there is work beside
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
	waits := false // side has not waited for the latest fork
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
		case k.beside:
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
