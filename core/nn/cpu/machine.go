package cpu

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/graph"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// machine runs the ops of a graph one after the other on the calling goroutine.
//
// Gorgonia's own tape machine is not used. It runs ops on another goroutine, where a panic ends the
// process, it frees its buffers between runs, and it spends tens of microseconds and allocations on
// a few ops. Here a run is a loop over the sorted ops. It stores the output of an op for the
// ops after it. A leaf keeps its value, whose memory the caller sets before a run. Each op is pure
// or owns its output. Statements (G.Read, G.Set) have no Do and fail.
type machine struct {
	*state
	steps  []step
	nodes  []*G.Node
	values []G.Value // of nodes[i]
}

// step is one op.
type step struct {
	op     runner
	in     []int     // indices in nodes of the inputs
	out    int       // index in nodes of the output
	inputs []G.Value // the arguments of Do
}

// runner computes an op.
type runner interface {
	Do(in ...G.Value) (G.Value, error)
	String() string
}

// state is what the runners of a graph share.
type state struct {
	spec    *nn.Spec
	learns  bool                 // the parameters change from run to run
	rows    int                  // rows that a run computes
	most    int                  // rows that the graph is built for
	team    *kernel.Team         // nil: the calling goroutine alone
	layers  map[*nn.Layer]*layer // in the kernels' form
	scratch []float32            // for the kernel call of the op that runs
	padded  []float32            // input of the convolution that runs, with its zeros
	dPadded []float32            // gradient of padded
	version nn.Version           // of the parameters of a run
	masks   []byte               // of the batch
	parts   []float64            // of the loss, written by a run
	perRow  []float32            // Report.Rows, written by a run

	statistics map[*graph.NormOp][]float32 // written forward, read backward
}

// needScratch makes scratch at least n floats long. Pages that are never written take no memory.
func (s *state) needScratch(n int) {
	if n > len(s.scratch) {
		s.scratch = make([]float32, n)
	}
}

// needPadded makes padded and, if a gradient flows into the input of a convolution, dPadded long
// enough.
func (s *state) needPadded(l *layer, gradient bool) {
	if l.pad == nil {
		return
	}
	if n := l.pad.floats(s.most, l.From < 0 && s.spec.Obs.DType == env.Uint8); n > len(s.padded) {
		s.padded = make([]float32, n)
	}
	if n := l.pad.floats(s.most, false); gradient && n > len(s.dPadded) {
		s.dPadded = make([]float32, n)
	}
}

// newMachine returns the machine of a graph, and allocates the outputs and buffers of its ops.
func newMachine(g *graph.Graph, team *kernel.Team) (*machine, error) {
	layers, err := layersOf(&g.Spec, g.Layers)
	if err != nil {
		return nil, err
	}
	s := &state{spec: &g.Spec, learns: g.Learns, rows: g.Rows, most: g.Rows, team: team, layers: map[*nn.Layer]*layer{}, statistics: map[*graph.NormOp][]float32{}}
	for i := range layers {
		s.layers[layers[i].Layer] = &layers[i]
	}
	return s.machine(g.Order), nil
}

// machine returns a machine whose ops share s.
func (s *state) machine(o *graph.Order) *machine {
	m := &machine{state: s, nodes: o.Nodes, values: make([]G.Value, len(o.Nodes))}
	for _, i := range o.Leaves {
		m.values[i] = o.Nodes[i].Value()
	}
	for _, of := range o.Steps {
		m.steps = append(m.steps, step{op: s.runner(of.Op), in: of.In, out: of.Out, inputs: make([]G.Value, len(of.In))})
	}
	return m
}

// runner returns the runner of an op, with its memory.
func (s *state) runner(op G.Op) runner {
	switch o := op.(type) {
	case *graph.LayerOp:
		return newLayerRun(o, s)
	case *graph.WeightGradOp:
		return newWeightGradRun(o, s)
	case *graph.NormOp:
		return newNormRun(o, s)
	case *graph.NormGradOp:
		return newNormGradRun(o, s)
	case *graph.OutputOf:
		return newOutputRun(o)
	case *graph.SumOp:
		return newSumRun(o)
	case *graph.ConvertOp:
		return newConvertRun(o, s)
	case *graph.TDOp:
		return &tdRun{TDOp: o, on: s, out: G.NewF32(0)}
	case *graph.DuelOp:
		return newDuelRun(o, s)
	case *graph.DuelGradOp:
		return newDuelGradRun(o, s)
	case *graph.SameOp:
		return sameRun{o}
	case *graph.RescaledOp:
		return newRescaledRun(o, s)
	case *graph.CosinesOp:
		return newCosinesRun(o, s)
	case *graph.ModulateOp:
		return newModulateRun(o, s)
	case *graph.ModulateGradOp:
		return newModulateGradRun(o, s)
	case *graph.MeansOp:
		return newMeansRun(o, s)
	case *graph.DistributionOp:
		return &distributionRun{DistributionOp: o, on: s, out: G.NewF32(0)}
	case *graph.ActorCriticOp:
		return newActorCriticRun(o, s)
	case *graph.LossGradient:
		return newLossGradientRun(o)
	}
	return op // Gorgonia's own
}

// part returns a machine with the steps of m that are in an order. It shares m's values.
func (m *machine) part(of *graph.Order) *machine { return m.choose(of, true) }

// without returns a machine with the steps of m that are not in an order. It shares m's values.
func (m *machine) without(of *graph.Order) *machine { return m.choose(of, false) }

func (m *machine) choose(of *graph.Order, in bool) *machine {
	outs := map[int]bool{}
	for _, s := range of.Steps {
		outs[s.Out] = true
	}
	p := *m
	p.steps = nil
	for _, s := range m.steps {
		if outs[s.out] == in {
			p.steps = append(p.steps, s)
		}
	}
	return &p
}

// RunAll computes every node. If an op fails or panics, RunAll returns an error; a later run is
// possible.
func (m *machine) RunAll() (err error) {
	var running runner
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("nn: %v: %w", running, fault.Caught(r))
		}
	}()
	for i := range m.steps {
		s := &m.steps[i]
		running = s.op
		for k, j := range s.in {
			s.inputs[k] = m.values[j]
		}
		if m.values[s.out], err = s.op.Do(s.inputs...); err != nil {
			return err
		}
	}
	return nil
}

// allocate gives a tensor memory of its own.
func allocate(t *tensor.Dense) { t.Raw = graph.BytesOf(make([]float32, t.Shape().TotalSize())) }

// floats returns the elements of an op's input or output.
func floats(v G.Value) []float32 { return v.(*tensor.Dense).Float32s() }
