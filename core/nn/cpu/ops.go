package cpu

import (
	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/graph"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// layerRun computes a convolution or a dense layer.
type layerRun struct {
	*graph.LayerOp
	on     *state
	l      *layer
	packed packed
}

// packed is a layer's weights in the kernels' form.
type packed struct {
	data    []float32
	version nn.Version // of the parameters that data was made of
	isa     string     // path that made data
	made    bool       // for a dense layer: data is of version; false: version is that of the run before
}

func newLayerRun(op *graph.LayerOp, s *state) *layerRun {
	o := &layerRun{LayerOp: op, on: s, l: s.layers[op.Layer]}
	allocate(o.Y)
	if c := o.l.conv; c != nil {
		o.packed.data = make([]float32, c.PackLen())
	} else if o.l.packs() && !s.learns {
		o.packed.data = make([]float32, o.l.In*o.l.Out)
	}
	s.needScratch(o.l.workspace(o.l.Rows(s.most), s.team))
	s.needPadded(o.l, false)
	return o
}

func (o *layerRun) Do(in ...G.Value) (G.Value, error) {
	x, w, b, y := in[0].(*tensor.Dense), floats(in[1]), floats(in[2]), o.Y.Float32s()
	s, c := o.on, o.l.conv
	rows := o.l.Rows(s.rows)
	if c == nil {
		if o.packDense(w) {
			kernel.DenseForwardPacked(s.team, y, x.Float32s(), o.packed.data, b, rows, o.l.dense, s.scratch)
		} else {
			kernel.DenseForward(s.team, y, x.Float32s(), w, b, rows, o.l.dense, s.scratch)
		}
		if o.l.Activation == nn.Tanh {
			y = y[:rows*o.l.Out]
			kernel.Tanh(y, y)
		}
		return o.Y, nil
	}
	if x.Dtype() == tensor.Uint8 {
		o.pack(w, s.spec.ObsScale())
		kernel.ConvForwardU8(s.team, y, s.paddedBytes(o.l, x), o.packed.data, b, s.rows, c, s.scratch)
	} else {
		o.pack(w, 1)
		kernel.ConvForward(s.team, y, s.paddedFloats(o.l, x), o.packed.data, b, s.rows, c, s.scratch)
	}
	return o.Y, nil
}

// paddedBytes returns the images of a convolution with their zeros.
func (s *state) paddedBytes(l *layer, x *tensor.Dense) []byte {
	if l.pad == nil {
		return x.Uint8s()
	}
	return pad(l.pad, graph.BytesOf(s.padded), x.Uint8s(), s.rows)
}

// paddedFloats returns the images of a convolution with their zeros.
func (s *state) paddedFloats(l *layer, x *tensor.Dense) []float32 {
	if l.pad == nil {
		return x.Float32s()
	}
	return pad(l.pad, s.padded, x.Float32s(), s.rows)
}

// pack packs the weights of a convolution, unless packed holds them from an earlier run: acting
// uses the same weights many times.
func (o *layerRun) pack(w []float32, scale float32) {
	if isa := kernel.ISA(); o.packed.version != o.on.version || o.packed.isa != isa {
		kernel.ConvPack(o.on.team, o.packed.data, w, scale, o.l.conv, o.on.scratch)
		o.packed.version, o.packed.isa = o.on.version, isa
	}
}

// packDense reports whether packed holds the weights of a dense layer. It packs them in the second
// run with the same weights, because packing costs more than one run saves.
func (o *layerRun) packDense(w []float32) bool {
	if o.packed.data == nil {
		return false
	}
	if isa := kernel.ISA(); o.packed.version != o.on.version || o.packed.isa != isa {
		o.packed.version, o.packed.isa, o.packed.made = o.on.version, isa, false
		return false
	}
	if !o.packed.made {
		kernel.DensePack(o.on.team, o.packed.data, w, o.l.dense)
		o.packed.made = true
	}
	return true
}

// weightGradRun computes the gradients of a convolution or a dense layer.
type weightGradRun struct {
	*graph.WeightGradOp
	on     *state
	l      *layer
	dz     []float32 // gradient before a tanh; nil without a tanh
	packed []float32 // a convolution's weights
}

func newWeightGradRun(op *graph.WeightGradOp, s *state) *weightGradRun {
	o := &weightGradRun{WeightGradOp: op, on: s, l: s.layers[op.Layer]}
	if o.l.Activation == nn.Tanh {
		o.dz = make([]float32, o.l.Rows(s.most)*o.l.Out)
	}
	if o.DX != nil && o.l.conv != nil {
		o.packed = make([]float32, o.l.conv.PackBackLen())
	}
	s.needPadded(o.l, o.DX != nil)
	return o
}

func (o *weightGradRun) Do(in ...G.Value) (G.Value, error) {
	x, w, y, dy := in[0].(*tensor.Dense), floats(in[1]), floats(in[2]), floats(in[3])
	dw, db, s, c := o.DW.Float32s(), o.DB.Float32s(), o.on, o.l.conv
	var dx []float32
	if o.DX != nil {
		dx = o.DX.Float32s()
	}
	if o.dz != nil {
		n := o.l.Rows(s.rows) * o.l.Out
		kernel.TanhBackward(o.dz, y[:n], dy[:n])
		dy = o.dz
	}
	switch {
	case c == nil:
		kernel.DenseBackward(s.team, dw, db, dx, x.Float32s(), w, y, dy, o.l.Rows(s.rows), o.l.dense, s.scratch)
	case x.Dtype() == tensor.Uint8:
		kernel.ConvBackwardU8(s.team, dw, db, s.paddedBytes(o.l, x), s.spec.ObsScale(), y, dy, s.rows, c, s.scratch)
	default:
		into := dx
		if o.l.pad != nil {
			into = s.dPadded
		}
		kernel.ConvPackBack(s.team, o.packed, w, c, s.scratch)
		kernel.ConvBackward(s.team, dw, db, into, s.paddedFloats(o.l, x), o.packed, y, dy, s.rows, c, s.scratch)
		if o.l.pad != nil {
			o.l.pad.crop(dx, into, s.rows)
		}
	}
	return o.DW, nil
}

// outputRun returns what the op of its input has written.
type outputRun struct{ *graph.OutputOf }

func newOutputRun(op *graph.OutputOf) outputRun {
	if !op.Flat {
		allocate(op.Value)
	}
	return outputRun{op}
}

func (o outputRun) Do(...G.Value) (G.Value, error) { return o.Value, nil }

// sumRun adds two tensors.
type sumRun struct{ *graph.SumOp }

func newSumRun(op *graph.SumOp) sumRun {
	allocate(op.Sum)
	return sumRun{op}
}

func (o sumRun) Do(in ...G.Value) (G.Value, error) {
	sum := o.Sum.Float32s()
	copy(sum, floats(in[0]))
	kernel.Add(sum, floats(in[1]))
	return o.Sum, nil
}

// convertRun turns bytes into floats.
type convertRun struct {
	*graph.ConvertOp
	on *state
}

func newConvertRun(op *graph.ConvertOp, s *state) convertRun {
	allocate(op.Y)
	return convertRun{op, s}
}

func (o convertRun) Do(in ...G.Value) (G.Value, error) {
	n := o.on.rows * o.Width
	x, y := in[0].(*tensor.Dense).Uint8s()[:n], o.Y.Float32s()[:n]
	for i, v := range x {
		y[i] = float32(v) * o.Scale
	}
	return o.Y, nil
}
