package gpu

import (
	"cmp"
	"fmt"

	"github.com/paceline-rl/paceline/core/cuda"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/graph"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// This file lists the kernels of each op; the runners of nn/cpu compute the same. On a GPU all
// images are planar, also the output of a convolution.

func (r *recorder) layer(o *graph.LayerOp, in []G.Value) error {
	at, err := r.addresses(in[0], in[1], in[2], o.Y)
	if err != nil {
		return err
	}
	l, rows := o.Layer, r.rows
	x, w, b, y, relu := at[0], at[1], at[2], at[3], flag(l.Activation == nn.ReLU)
	if l.Conv != nil {
		s, err := convShape(l.Conv, rows)
		if err != nil {
			return err
		}
		kind, scale := r.bytesKind(in[0])
		return enqueue(r, "conv_forward_"+kind+r.precision, s.Forward(), cuda.ConvForwardArgs{Shape: s, X: x, W: w, B: b, Y: y, Scale: scale, ReLU: relu})
	}
	if err := cuda.CheckDense(r.graph.Rows, l.In, l.Out); err != nil {
		return err
	}
	g, split := cuda.DenseForward(rows, l.In, l.Out)
	args := cuda.DenseForwardArgs{Rows: int32(rows), In: int32(l.In), Out: int32(l.Out), ReLU: relu, X: x, W: w, B: b, Y: y, Split: split}
	if split.Parts > 1 {
		if args.Parts, err = r.memory(o, 4*int(split.Parts)*r.graph.Rows*l.Out); err != nil {
			return err
		}
	}
	if err := enqueue(r, "dense_forward_"+r.precision, g, args); err != nil {
		return err
	}
	if split.Parts > 1 {
		sum := cuda.DenseForwardSumArgs{Rows: args.Rows, Out: args.Out, ReLU: args.ReLU, PartsCount: split.Parts, Width: cuda.NewDivisor(args.Out), Parts: args.Parts, B: b, Y: y}
		if err := enqueue(r, "dense_forward_sum", cuda.Elements(rows*l.Out), sum); err != nil {
			return err
		}
	}
	if l.Activation == nn.Tanh {
		err = enqueue(r, "tanh_forward", cuda.Elements(rows*l.Out), cuda.ElementsArgs{N: int64(rows * l.Out), X: y, To: y})
	}
	return err
}

// convShape returns the convolution of some images.
func convShape(c *nn.Conv, rows int) (cuda.ConvShape, error) {
	if c.Same {
		return cuda.ConvShape{}, fmt.Errorf("convolution %+v: same must be false on a GPU; the device cpu computes it", *c)
	}
	return cuda.NewConvShape(rows, c.InC, c.InH, c.InW, c.OutC, c.Kernel, c.Stride)
}

// bytesKind returns the part of a kernel's name that says whether x is bytes, and the scale of x.
func (r *recorder) bytesKind(x G.Value) (kind string, scale float32) {
	if x.(*tensor.Dense).Dtype() == tensor.Uint8 {
		return "bytes_", r.graph.Spec.ObsScale()
	}
	return "", 1
}

func (r *recorder) weightGrad(o *graph.WeightGradOp, in []G.Value) error {
	at, err := r.addresses(in[0], in[1], in[2], in[3], o.DW, o.DB)
	if err != nil {
		return err
	}
	l := o.Layer
	p := pass{r: r, op: o, rows: r.rows, x: at[0], w: at[1], dy: at[3], dw: at[4], db: at[5]}
	switch l.Activation {
	case nn.ReLU:
		p.y = at[2]
	case nn.Tanh:
		n := p.rows * l.Out
		if p.dy, err = r.memory(o, 4*n); err != nil {
			return err
		}
		if err := enqueue(r, "tanh_backward", cuda.Elements(n), cuda.ElementsArgs{N: int64(n), X: at[2], Y: at[3], To: p.dy}); err != nil {
			return err
		}
	}
	if o.DX != nil {
		if p.dx, err = r.address(o.DX); err != nil {
			return err
		}
	}
	if l.Conv != nil {
		p.kind, p.scale = r.bytesKind(in[0])
		return p.conv(l)
	}
	return p.dense(l)
}

// pass is the backward pass of a layer.
type pass struct {
	r        *recorder
	op       *graph.WeightGradOp
	rows     int
	x, w, dy uint64
	y        uint64 // 0: the layer has no rectifier
	dw, db   uint64
	dx       uint64 // 0: x is the observation
	kind     string // see bytesKind
	scale    float32
}

// partsOf is the key of the memory for partial sums of the gradients of the parameters.
type partsOf struct{ op G.Op }

// conv lists the kernels of a convolution. The layer below waits only for the gradient of the
// input. The gradients of the parameters run concurrently on the side stream, because only the
// optimiser's step waits for them.
func (p *pass) conv(l *nn.Layer) error {
	s, err := convShape(l.Conv, p.rows)
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
	return p.r.onSide(func() error {
		if err := enqueue(p.r, "conv_weight_gradient_"+p.kind+p.r.precision, g, args); err != nil {
			return err
		}
		return p.sum(split, args.Parts, s.PartLen()-l.Conv.OutC, l.Conv.OutC, p.scale)
	})
}

// dense lists the kernels of a dense layer, as conv does.
func (p *pass) dense(l *nn.Layer) (err error) {
	rows, in, out := p.rows, l.In, l.Out
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
	return p.r.onSide(func() error {
		if err := enqueue(p.r, "dense_weight_gradient_"+p.r.precision, g, args); err != nil {
			return err
		}
		return p.sum(split, args.Parts, out*in, out, 1)
	})
}

// partsFor returns the address of memory for the partial sums of a gradient; 0 if there is only
// one.
func (p *pass) partsFor(split cuda.SplitK, floats int) (uint64, error) {
	if split.Parts == 1 {
		return 0, nil
	}
	return p.r.memory(partsOf{p.op}, 4*int(split.Parts)*floats)
}

// sum adds up the partial sums of the gradients, if there are several.
func (p *pass) sum(split cuda.SplitK, parts uint64, weights, biases int, scale float32) error {
	if split.Parts == 1 {
		return nil
	}
	return enqueue(p.r, "weight_gradient_sum", cuda.Elements(weights+biases), cuda.WeightGradientSumArgs{
		Weights: int32(weights), Biases: int32(biases), PartsCount: split.Parts, Scale: scale, Parts: parts, DW: p.dw, DB: p.db})
}

func (r *recorder) sum(o *graph.SumOp, in []G.Value) error {
	at, err := r.addresses(in[0], in[1], o.Sum)
	if err != nil {
		return err
	}
	n := o.Sum.Shape().TotalSize()
	return enqueue(r, "add", cuda.Elements(n), cuda.ElementsArgs{N: int64(n), X: at[0], Y: at[1], To: at[2]})
}

func (r *recorder) convert(o *graph.ConvertOp, in []G.Value) error {
	at, err := r.addresses(in[0], o.Y)
	if err != nil {
		return err
	}
	n := r.rows * o.Width
	return enqueue(r, "convert_bytes", cuda.Elements(n), cuda.ElementsArgs{N: int64(n), X: at[0], To: at[1], Factor: o.Scale})
}

// normForm chooses the kernels of a normalisation. For layers of one position both forms are the
// same.
func normForm(n *nn.Norm, rows int) (f cuda.NormForm, kernels string) {
	f = cuda.NormForm{Rows: rows, Channels: n.Channels, Positions: n.Positions, ByRow: n.All || n.Positions == 1}
	if f.ByRow {
		return f, "norm_rows_"
	}
	return f, "norm_positions_"
}

// statisticsOf is the key of the memory of a normalisation's statistics.
type statisticsOf struct{ op *graph.NormOp }

// statistics returns the address of a normalisation's statistics: mean and scale, for each position
// of each row or, with All, for each row.
func (r *recorder) statistics(o *graph.NormOp, f cuda.NormForm) (uint64, error) {
	perRow := f.Positions
	if o.Layer.Norm.All {
		perRow = 1
	}
	return r.memory(statisticsOf{o}, 2*4*r.graph.Rows*perRow)
}

func (r *recorder) norm(o *graph.NormOp, in []G.Value) error {
	at, err := r.addresses(in[0], in[1], in[2], o.Y)
	if err != nil {
		return err
	}
	l, rows := o.Layer, r.rows
	f, kernels := normForm(l.Norm, rows)
	args := cuda.NormArgs{Rows: int32(rows), Channels: int32(f.Channels), Positions: int32(f.Positions), ReLU: flag(l.Activation == nn.ReLU), Eps: l.Norm.Eps,
		X: at[0], Scale: at[1], Bias: at[2], Y: at[3]}
	if r.graph.Learns {
		if args.Statistics, err = r.statistics(o, f); err != nil {
			return err
		}
	}
	if err := enqueue(r, kernels+"forward", f.Forward(), args); err != nil {
		return err
	}
	if l.Activation == nn.Tanh {
		n := rows * l.Out
		err = enqueue(r, "tanh_forward", cuda.Elements(n), cuda.ElementsArgs{N: int64(n), X: at[3], To: at[3]})
	}
	return err
}

func (r *recorder) normGrad(o *graph.NormGradOp, in []G.Value) error {
	at, err := r.addresses(in[0], in[1], in[2], in[3], o.DScale, o.DBias, o.DX)
	if err != nil {
		return err
	}
	l, rows := o.Forward.Layer, r.rows
	f, kernels := normForm(l.Norm, rows)
	args := cuda.NormArgs{Rows: int32(rows), Channels: int32(f.Channels), Positions: int32(f.Positions), ReLU: flag(l.Activation == nn.ReLU), Eps: l.Norm.Eps,
		X: at[0], Scale: at[1], Y: at[2], DY: at[3], DScale: at[4], DBias: at[5], DX: at[6]}
	if args.Statistics, err = r.statistics(o.Forward, f); err != nil {
		return err
	}
	if l.Activation == nn.Tanh {
		n := rows * l.Out
		if args.DY, err = r.memory(o, 4*n); err != nil {
			return err
		}
		if err := enqueue(r, "tanh_backward", cuda.Elements(n), cuda.ElementsArgs{N: int64(n), X: at[2], Y: at[3], To: args.DY}); err != nil {
			return err
		}
	}
	g, parts, partRows := f.ParameterGradient()
	args.PartRows = int32(partRows)
	r.fork()
	if err := enqueue(r, kernels+"input_gradient", f.Forward(), args); err != nil {
		return err
	}
	return r.onSide(func() error {
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

// blocksOf is the key of the memory of a loss's kernel: the sums of its blocks or, with last, the
// counter that finds the last block.
type blocksOf struct {
	op   G.Op
	last bool
}

// lossSum returns the arguments by which the last block of a loss over `rows` rows adds up the loss
// and its parts.
func (r *recorder) lossSum(op G.Op, rows, parts int, entropyCoef, valueCoef float64) (s cuda.LossSumArgs, err error) {
	s = cuda.LossSumArgs{Terms: int32(parts), EntropyCoef: entropyCoef, ValueCoef: valueCoef, Loss: r.loss}
	if s.Parts, err = r.memory(blocksOf{op, false}, 8*cuda.LossTerms*int(cuda.Loss(rows).Grid[0])); err == nil {
		s.Arrived, err = r.memory(blocksOf{op, true}, 4)
	}
	return s, err
}

// importances are the kernel's values of nn.TD.Importance.
var importances = map[string]int32{nn.ImportanceLoss: cuda.ImportanceLoss, nn.ImportanceGradient: cuda.ImportanceGradient, nn.ImportanceError: cuda.ImportanceError}

func (r *recorder) td(o *graph.TDOp, in []G.Value) error {
	r.join() // the targets may be computed on the side stream
	at, err := r.addresses(append(in, o.DQ)...)
	if err != nil {
		return err
	}
	rows := in[1].(*tensor.Dense).Shape().TotalSize()
	args := cuda.TDLossArgs{Rows: int32(rows), Width: int32(o.Width), Squared: flag(o.Loss.Kind == "squared"), Mean: flag(o.Loss.Reduction == "mean"),
		Importance: importances[o.Loss.Importance], Scale: float32(cmp.Or(o.Loss.Scale, 1)),
		Q: at[0], Actions: at[1], Targets: at[2], DQ: at[len(at)-1], Update: r.update, Errors: r.errors}
	if o.Loss.Weighted || o.Loss.Importance != "" {
		args.Weights = at[3]
	}
	if args.Sum, err = r.lossSum(o, rows, 1, 0, 0); err != nil {
		return err
	}
	return enqueue(r, "td_loss", cuda.Loss(rows), args)
}

// lossGradient lists no kernel, because the kernel of the loss writes the gradient.
func lossGradient(in []G.Value) error {
	if by := graph.Scalar(in[1]); by != 1 {
		return fmt.Errorf("loss: multiplied by %v, must be the last op of its graph on a GPU", by)
	}
	return nil
}

// logStdParts is the key of the partial sums of the gradient of log_std.
type logStdParts struct{ op G.Op }

func (r *recorder) actorCritic(o *graph.ActorCriticOp, in []G.Value) (err error) {
	// address is r.address of an input or output that the network may lack.
	address := func(v G.Value) (at uint64) {
		if t, ok := v.(*tensor.Dense); ok && t != nil && err == nil {
			at, err = r.address(t)
		}
		return at
	}
	rows, loss, of := r.graph.Rows, o.Loss, o.Inputs(in)
	args := cuda.ActorCriticArgs{Rows: int32(rows), Width: int32(o.Width), EntropyCoef: float32(loss.EntropyCoef), ValueCoef: float32(loss.ValueCoef),
		Logits: address(of.Logits), Values: address(of.Values), Actions: address(of.Actions), Masks: r.masks,
		Advantages: address(of.Columns[0]), Returns: address(of.Columns[1]), Weights: address(of.Columns[2]), DLogits: address(o.DLogits), DValues: address(o.DValues)}
	switch loss.Regulariser {
	case nn.RegulariserPlus:
		args.Regulariser, args.LogEps = cuda.RegulariserPlus, float32(loss.LogEps)
	case nn.RegulariserMax:
		args.Regulariser, args.LogEps = cuda.RegulariserMax, float32(loss.LogEps)
	}
	if o.Clipped != nil {
		args.LargestError = flag(o.Clipped.Largest)
		args.LogProbs, args.Clips, args.OldValues, args.ValueClips = address(of.Columns[3]), address(of.Columns[4]), address(of.Columns[5]), address(of.Columns[6])
	}
	if err != nil {
		return err
	}
	if args.Sum, err = r.lossSum(o, rows, cuda.LossTerms, loss.EntropyCoef, loss.ValueCoef); err != nil {
		return err
	}
	g := cuda.Loss(rows)
	if r.branches == 0 {
		return enqueue(r, "actor_critic", g, args)
	}
	product := cuda.ActorCriticProductArgs{Loss: args, BranchesCount: int32(len(o.Branches)), Size: int32(o.Size), Branches: r.branches,
		Means: address(of.Means), LogStd: address(of.LogStd), Continuous: address(of.Continuous), DMeans: address(o.DMeans), DLogStd: address(o.DLogStd)}
	if err == nil && o.Size > 0 {
		product.LogStdParts, err = r.memory(logStdParts{o}, 8*o.Size*int(g.Grid[0]))
	}
	if err != nil {
		return err
	}
	return enqueue(r, "actor_critic_product", g, product)
}
