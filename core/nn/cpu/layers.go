package cpu

import (
	"errors"

	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/nn"
)

// layer is an nn.Layer with the kernels' description of it.
type layer struct {
	*nn.Layer
	conv  *kernel.Conv  // of padded images; nil: another kind
	pad   *padding      // of a convolution; nil: none
	norm  *kernel.Norm  // nil: another kind
	dense *kernel.Dense // nil: another kind
}

// layersOf returns the kernels' form of a network's layers.
func layersOf(s *nn.Spec, list []nn.Layer) ([]layer, error) {
	precision, portable := kernel.FP32, s.ISA == "portable"
	if s.Precision == nn.BF16 {
		precision = kernel.BF16
	}
	if portable && !kernel.HasPortable() {
		return nil, errors.New("isa: portable, must be auto: this build has no portable kernels, as it was made without a C compiler")
	}
	layers := make([]layer, len(list))
	for i := range list {
		l := &list[i]
		layers[i].Layer = l
		relu := l.Activation == nn.ReLU
		switch c, n := l.Conv, l.Norm; {
		case c != nil:
			height, width, _, _ := c.Padded()
			layers[i].conv = &kernel.Conv{InC: c.InC, InH: height, InW: width, OutC: c.OutC, Kernel: c.Kernel, Stride: c.Stride,
				// Observations are planar. So is the input of the dense layer after the last
				// convolution, because its weights are in that order.
				PlanarIn: l.From < 0, PlanarOut: true, Precision: precision, Portable: portable, Linear: !relu}
			if from := below(list, i); from >= 0 {
				layers[from].conv.PlanarOut = false
			}
		case n != nil:
			layers[i].norm = &kernel.Norm{Channels: n.Channels, Positions: n.Positions, All: n.All, Eps: n.Eps, ReLU: relu}
		default:
			// Layers with taus have many rows, also when one environment acts.
			tiled := l.Taus > 0 && l.Out >= 32
			layers[i].dense = &kernel.Dense{In: l.In, Out: l.Out, ReLU: relu, Precision: precision, Portable: portable, Tiled: tiled}
		}
	}
	for i := range layers {
		if c := layers[i].conv; c != nil {
			layers[i].pad = paddingOf(layers[i].Conv, c.PlanarIn)
		}
		if n := layers[i].norm; n != nil {
			c := layers[layers[i].From].conv
			n.Planar = c != nil && c.PlanarOut
		}
	}
	return layers, nil
}

// below returns the convolution whose output convolution i reads, with or without a normalisation
// in between; -1: it reads the observation.
func below(list []nn.Layer, i int) int {
	from := list[i].From
	if from >= 0 && list[from].Norm != nil {
		from = list[from].From
	}
	return from
}

// planar reports whether the layer's output has the layout [unit, position].
func (l *layer) planar() bool {
	return l.conv != nil && l.conv.PlanarOut || l.norm != nil && l.norm.Planar
}

// workspace returns the floats of scratch for a pass over some rows.
func (l *layer) workspace(rows int, team *kernel.Team) int {
	switch {
	case l.conv != nil:
		return l.conv.Workspace(rows, team)
	case l.norm != nil:
		return l.norm.Workspace(rows, team)
	}
	return l.dense.Workspace(rows, team)
}

// packs reports whether a dense layer has packed weights. Packed bf16 weights have half the size
// and are rounded once for many passes.
func (l *layer) packs() bool { return l.dense != nil && l.dense.Precision == kernel.BF16 }

// checkLayers returns the layers of a spec in the kernels' form.
func checkLayers(s *nn.Spec) ([]layer, error) {
	list, err := s.Layers()
	if err != nil {
		return nil, err
	}
	return layersOf(s, list)
}

// ForwardFlop returns the floating-point operations of a forward pass: by the textbook, and as the
// kernels do them, which is fewer in convolutions. Normalisations are not counted. Layout must
// accept s.
func ForwardFlop(s nn.Spec, rows int) (textbook, done float64) { return flop(&s, rows, 1, 1) }

// GradientFlop returns the floating-point operations of a gradient: a forward pass, and backward
// two products for every layer, or one for a layer that reads the observation.
func GradientFlop(s nn.Spec, rows int) (textbook, done float64) { return flop(&s, rows, 2, 3) }

func flop(s *nn.Spec, rows, passesFirst, passes int) (textbook, done float64) {
	layers, _ := checkLayers(s)
	for i := range layers {
		l := &layers[i]
		if l.norm != nil {
			continue
		}
		t := 2 * float64(l.In*l.Out)
		d := t
		if l.conv != nil {
			t, d = l.conv.Flop()
		}
		n := passes
		if l.From < 0 {
			n = passesFirst
		}
		textbook += float64(rows*n) * t
		done += float64(rows*n) * d
	}
	return textbook, done
}
