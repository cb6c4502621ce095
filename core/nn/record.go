package nn

import (
	"cmp"
	"fmt"

	"github.com/paceline-rl/paceline/core/cuda"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// The kernels of the ops of a network, whose Do says what they compute. On a GPU all images are
// planar, a convolution's output among them.

func (o *layerOp) record(r *recorder, in []G.Value) (*tensor.Dense, error) {
	at, err := r.addresses(in[0], in[1], in[2], o.y)
	if err != nil {
		return nil, err
	}
	x, w, b, y, rows := at[0], at[1], at[2], at[3], o.g.rows
	if c := o.l.conv; c != nil {
		s, err := o.l.convShape(rows)
		if err != nil {
			return nil, err
		}
		kind, scale := bytesKind(o.g, in[0])
		return o.y, enqueue(r, "conv_forward_"+kind+r.precision, s.Forward(), cuda.ConvForwardArgs{Shape: s, X: x, W: w, B: b, Y: y, Scale: scale, ReLU: flag(o.l.act == relu)})
	}
	if err := cuda.CheckDense(o.g.capacity, o.l.in, o.l.out); err != nil {
		return nil, err
	}
	g, split := cuda.DenseForward(rows, o.l.in, o.l.out)
	args := cuda.DenseForwardArgs{Rows: int32(rows), In: int32(o.l.in), Out: int32(o.l.out), ReLU: flag(o.l.act == relu), X: x, W: w, B: b, Y: y, Split: split}
	if split.Parts > 1 {
		if args.Parts, err = r.memory(o, 4*int(split.Parts)*o.g.capacity*o.l.out); err != nil {
			return nil, err
		}
	}
	if err := enqueue(r, "dense_forward_"+r.precision, g, args); err != nil {
		return nil, err
	}
	if split.Parts > 1 {
		sum := cuda.DenseForwardSumArgs{Rows: args.Rows, Out: args.Out, ReLU: args.ReLU, PartsCount: split.Parts, Width: cuda.NewDivisor(args.Out), Parts: args.Parts, B: b, Y: y}
		if err := enqueue(r, "dense_forward_sum", cuda.Elements(rows*o.l.out), sum); err != nil {
			return nil, err
		}
	}
	if o.l.act == tanh {
		err = enqueue(r, "tanh_forward", cuda.Elements(rows*o.l.out), cuda.ElementsArgs{N: int64(rows * o.l.out), X: y, To: y})
	}
	return o.y, err
}

// convShape is the convolution of so many images.
func (l *layer) convShape(rows int) (cuda.ConvShape, error) {
	c := l.conv
	return cuda.NewConvShape(rows, c.InC, c.InH, c.InW, c.OutC, c.Kernel, c.Stride)
}

// bytesKind returns how the kernels that read x, which may be bytes, are called, and their scale.

func bytesKind(g *graph, x G.Value) (kind string, scale float32) {
	if x.(*tensor.Dense).Dtype() == tensor.Uint8 {
		return "bytes_", g.spec.obsScale()
	}
	return "", 1
}

func (o *weightGradOp) record(r *recorder, in []G.Value) (*tensor.Dense, error) {
	at, err := r.addresses(in[0], in[1], in[2], in[3], o.dw, o.db)
	if err != nil {
		return nil, err
	}
	l := o.l
	p := pass{r: r, op: o, rows: o.g.rows, x: at[0], w: at[1], dy: at[3], dw: at[4], db: at[5]}
	switch l.act {
	case relu:
		p.y = at[2]
	case tanh:
		n := p.rows * l.out
		if p.dy, err = r.memory(o, 4*n); err != nil {
			return nil, err
		}
		if err := enqueue(r, "tanh_backward", cuda.Elements(n), cuda.ElementsArgs{N: int64(n), X: at[2], Y: at[3], To: p.dy}); err != nil {
			return nil, err
		}
	}
	if o.dx != nil {
		if p.dx, err = r.address(o.dx); err != nil {
			return nil, err
		}
	}
	if l.conv != nil {
		p.kind, p.scale = bytesKind(o.g, in[0])
		return o.dw, p.conv(l)
	}
	return o.dw, p.dense(l)
}

// pass is the backward pass of a layer: addresses, and what reads them.
type pass struct {
	r        *recorder
	op       *weightGradOp
	rows     int
	x, w, dy uint64
	y        uint64 // 0: no rectifier
	dw, db   uint64
	dx       uint64 // 0: not wanted
	kind     string // of the kernels
	scale    float32
}

// partsOf is the memory of the parts of the gradients for the parameters.
type partsOf struct{ op G.Op }

// conv lists a convolution's. The layer before waits for the gradient of the input, and only the step for
// those of the parameters: they come after it, and run beside.
func (p *pass) conv(l *layer) error {
	s, err := l.convShape(p.rows)
	if err != nil {
		return err
	}
	g, split := s.WeightGradient()
	args := cuda.ConvWeightGradientArgs{Shape: s, X: p.x, DY: p.dy, Y: p.y, DW: p.dw, DB: p.db, Split: split, Scale: p.scale}
	if args.Parts, err = p.partsFor(split, s.PartLen()); err != nil {
		return err
	}
	p.r.fork()
	if p.dx != 0 {
		input := cuda.ConvInputGradientArgs{Shape: s, W: p.w, DY: p.dy, Y: p.y, DX: p.dx}
		if err := enqueue(p.r, "conv_input_gradient_"+p.r.precision, s.InputGradient(), input); err != nil {
			return err
		}
	}
	return p.r.beside(func() error {
		if err := enqueue(p.r, "conv_weight_gradient_"+p.kind+p.r.precision, g, args); err != nil {
			return err
		}
		return p.sum(split, args.Parts, s.PartLen()-l.conv.OutC, l.conv.OutC, p.scale)
	})
}

// dense lists a dense layer's.
func (p *pass) dense(l *layer) (err error) {
	rows, in, out := p.rows, l.in, l.out
	g, split := cuda.DenseWeightGradient(rows, in, out)
	args := cuda.DenseWeightGradientArgs{Rows: int32(rows), In: int32(in), Out: int32(out), X: p.x, DY: p.dy, Y: p.y, DW: p.dw, DB: p.db, Split: split}
	if args.Parts, err = p.partsFor(split, out*(in+1)); err != nil {
		return err
	}
	p.r.fork()
	if p.dx != 0 {
		input := cuda.DenseInputGradientArgs{Rows: int32(rows), In: int32(in), Out: int32(out), W: p.w, DY: p.dy, Y: p.y, DX: p.dx}
		if err := enqueue(p.r, "dense_input_gradient_"+p.r.precision, cuda.DenseInputGradient(rows, in), input); err != nil {
			return err
		}
	}
	return p.r.beside(func() error {
		if err := enqueue(p.r, "dense_weight_gradient_"+p.r.precision, g, args); err != nil {
			return err
		}
		return p.sum(split, args.Parts, out*in, out, 1)
	})
}

// partsFor returns memory for the parts of a sum, 0 where there is one part.
func (p *pass) partsFor(split cuda.SplitK, floats int) (uint64, error) {
	if split.Parts == 1 {
		return 0, nil
	}
	return p.r.memory(partsOf{p.op}, 4*int(split.Parts)*floats)
}

// sum adds the parts up, where there are several.
func (p *pass) sum(split cuda.SplitK, parts uint64, weights, biases int, scale float32) error {
	if split.Parts == 1 {
		return nil
	}
	return enqueue(p.r, "weight_gradient_sum", cuda.Elements(weights+biases), cuda.WeightGradientSumArgs{
		Weights: int32(weights), Biases: int32(biases), PartsCount: split.Parts, Scale: scale, Parts: parts, DW: p.dw, DB: p.db})
}

func (o *outputOf) record(*recorder, []G.Value) (*tensor.Dense, error) { return o.value, nil }

func (o *sumOp) record(r *recorder, in []G.Value) (*tensor.Dense, error) {
	at, err := r.addresses(in[0], in[1], o.sum)
	if err != nil {
		return nil, err
	}
	n := o.sum.Shape().TotalSize()
	return o.sum, enqueue(r, "add", cuda.Elements(n), cuda.ElementsArgs{N: int64(n), X: at[0], Y: at[1], To: at[2]})
}

func (o *convertOp) record(r *recorder, in []G.Value) (*tensor.Dense, error) {
	at, err := r.addresses(in[0], o.y)
	if err != nil {
		return nil, err
	}
	n := o.g.rows * o.width
	return o.y, enqueue(r, "convert_bytes", cuda.Elements(n), cuda.ElementsArgs{N: int64(n), X: at[0], To: at[1], Factor: o.scale})
}

// normForm is which kernels normalise the layer: of one position both forms are the same.
func (l *layer) normForm(rows int) (f cuda.NormForm, kernels string) {
	n := l.norm
	f = cuda.NormForm{Rows: rows, Channels: n.Channels, Positions: n.Positions, ByRow: n.All || n.Positions == 1}
	if f.ByRow {
		return f, "norm_rows_"
	}
	return f, "norm_positions_"
}

// statisticsOf is the memory of a normalisation's statistics.
type statisticsOf struct{ op *normOp }

func (o *normOp) record(r *recorder, in []G.Value) (*tensor.Dense, error) {
	at, err := r.addresses(in[0], in[1], in[2], o.y)
	if err != nil {
		return nil, err
	}
	l, rows := o.l, o.g.rows
	f, kernels := l.normForm(rows)
	args := cuda.NormArgs{Rows: int32(rows), Channels: int32(f.Channels), Positions: int32(f.Positions), ReLU: flag(l.act == relu), Eps: l.norm.Eps,
		X: at[0], Scale: at[1], Bias: at[2], Y: at[3]}
	if o.g.learns {
		if args.Statistics, err = r.memory(statisticsOf{o}, 2*4*o.g.capacity*l.norm.Groups()); err != nil {
			return nil, err
		}
	}
	if err := enqueue(r, kernels+"forward", f.Forward(), args); err != nil {
		return nil, err
	}
	if l.act == tanh {
		n := rows * l.out
		err = enqueue(r, "tanh_forward", cuda.Elements(n), cuda.ElementsArgs{N: int64(n), X: at[3], To: at[3]})
	}
	return o.y, err
}

func (o *normGradOp) record(r *recorder, in []G.Value) (*tensor.Dense, error) {
	at, err := r.addresses(in[0], in[1], in[2], in[3], o.dscale, o.dbias, o.dx)
	if err != nil {
		return nil, err
	}
	l, rows := o.forward.l, o.forward.g.rows
	f, kernels := l.normForm(rows)
	args := cuda.NormArgs{Rows: int32(rows), Channels: int32(f.Channels), Positions: int32(f.Positions), ReLU: flag(l.act == relu), Eps: l.norm.Eps,
		X: at[0], Scale: at[1], Y: at[2], DY: at[3], DScale: at[4], DBias: at[5], DX: at[6]}
	if args.Statistics, err = r.memory(statisticsOf{o.forward}, 2*4*o.forward.g.capacity*l.norm.Groups()); err != nil {
		return nil, err
	}
	if l.act == tanh {
		n := rows * l.out
		if args.DY, err = r.memory(o, 4*n); err != nil {
			return nil, err
		}
		if err := enqueue(r, "tanh_backward", cuda.Elements(n), cuda.ElementsArgs{N: int64(n), X: at[2], Y: at[3], To: args.DY}); err != nil {
			return nil, err
		}
	}
	g, parts, partRows := f.ParameterGradient()
	args.PartRows = int32(partRows)
	r.fork()
	if err := enqueue(r, kernels+"input_gradient", f.Forward(), args); err != nil {
		return nil, err
	}
	return o.dscale, r.beside(func() error {
		p := pass{r: r, dw: args.DScale, db: args.DBias}
		of := args
		if parts > 1 {
			if of.Parts, err = r.memory(partsOf{o}, 4*parts*2*f.Params()); err != nil {
				return err
			}
		}
		if err := enqueue(r, kernels+"parameter_gradient", g, of); err != nil {
			return err
		}
		return p.sum(cuda.SplitK{Parts: int32(parts)}, of.Parts, f.Params(), f.Params(), 1)
	})
}

// blocksOf is the memory of what the blocks of a loss sum up, and of which of them is the last.
type blocksOf struct {
	op   G.Op
	last bool
}

// lossSum is how the last block of a loss, of so many rows, makes it and its parts.
func (r *recorder) lossSum(op G.Op, rows, parts int, entropyCoef, valueCoef float64) (s cuda.LossSumArgs, err error) {
	s = cuda.LossSumArgs{Terms: int32(parts), EntropyCoef: entropyCoef, ValueCoef: valueCoef, Loss: r.loss}
	if s.Parts, err = r.memory(blocksOf{op, false}, 8*cuda.LossTerms*int(cuda.Loss(rows).Grid[0])); err == nil {
		s.Arrived, err = r.memory(blocksOf{op, true}, 4)
	}
	return s, err
}

func (o *tdOp) record(r *recorder, in []G.Value) (*tensor.Dense, error) {
	r.end() // the targets may have been computed beside
	at, err := r.addresses(append(in, o.dq)...)
	if err != nil {
		return nil, err
	}
	rows := in[1].(*tensor.Dense).Shape().TotalSize()
	args := cuda.TDLossArgs{Rows: int32(rows), Width: int32(o.width), Squared: flag(o.loss.Kind == "squared"), Mean: flag(o.loss.Reduction == "mean"),
		Scale: float32(cmp.Or(o.loss.Scale, 1)), Q: at[0], Actions: at[1], Targets: at[2], DQ: at[len(at)-1]}
	if o.loss.Weighted {
		args.Weights = at[3]
	}
	if args.Sum, err = r.lossSum(o, rows, 1, 0, 0); err != nil {
		return nil, err
	}
	return nil, enqueue(r, "td_loss", cuda.Loss(rows), args)
}

// record does nothing where the loss's own op has written the gradient.
func (o *lossGradient) record(_ *recorder, in []G.Value) (*tensor.Dense, error) {
	if by := scalar(in[1]); by != 1 {
		return nil, fmt.Errorf("loss: multiplied by %v, must be the last op of its graph on a GPU", by)
	}
	return o.value, nil
}

func (o *actorCriticOp) record(r *recorder, in []G.Value) (*tensor.Dense, error) {
	at, err := r.addresses(append(in, o.dlogits, o.dvalues)...)
	if err != nil {
		return nil, err
	}
	rows := in[2].(*tensor.Dense).Shape().TotalSize()
	args := cuda.ActorCriticArgs{Rows: int32(rows), Width: int32(o.batch.Width), EntropyCoef: float32(o.entropyCoef), ValueCoef: float32(o.valueCoef),
		Logits: at[0], Values: at[1], Actions: at[2], Masks: r.masks, Advantages: at[3], Returns: at[4], Weights: at[5], DLogits: at[len(at)-2], DValues: at[len(at)-1]}
	if c := o.batch.Clip; c != nil {
		args.LargestError = flag(c.Largest)
		args.LogProbs, args.Clips, args.OldValues, args.ValueClips = at[6], at[7], at[8], at[9]
	}
	if args.Sum, err = r.lossSum(o, rows, cuda.LossTerms, o.entropyCoef, o.valueCoef); err != nil {
		return nil, err
	}
	return nil, enqueue(r, "actor_critic", cuda.Loss(rows), args)
}
