package kernel

import (
	"fmt"
	"time"
)

// Conv is one convolution layer followed by a ReLU, unless it is Linear. Every number is at least
// 1; Kernel is at most InH and InW. It is fast where Kernel is two or three times Stride.
type Conv struct {
	InC, InH, InW, OutC, Kernel, Stride int
	// Images are [channel, height, width] where planar, [height, width, channel] otherwise.
	PlanarIn, PlanarOut bool
	Precision           Precision
	Portable            bool // the same bits on every processor; see HasPortable
	Linear              bool // no ReLU
}

// OutH returns the height of the output. Input rows that do not fill a kernel are ignored.
func (c *Conv) OutH() int { return (c.InH-c.Kernel)/c.Stride + 1 }

// OutW returns the width of the output.
func (c *Conv) OutW() int { return (c.InW-c.Kernel)/c.Stride + 1 }

// InLen returns the number of elements of one input image.
func (c *Conv) InLen() int { return c.InC * c.InH * c.InW }

// OutLen returns the number of elements of one output image.
func (c *Conv) OutLen() int { return c.OutC * c.OutH() * c.OutW() }

// WeightLen returns the number of weights, without the biases.
func (c *Conv) WeightLen() int { return c.OutC * c.patch() }

// patch returns the number of inputs of one output element.
func (c *Conv) patch() int { return c.InC * c.Kernel * c.Kernel }

// Check returns an error if the kernels do not support the shape.
func (c *Conv) Check() error {
	switch {
	case c.InC < 1 || c.OutC < 1 || c.Kernel < 1 || c.Stride < 1:
		return fmt.Errorf("convolution %+v: every number must be at least 1", *c)
	case c.InH < c.Kernel || c.InW < c.Kernel:
		return fmt.Errorf("convolution %+v: the kernel must fit the image", *c)
	}
	return nil
}

// ConvPack writes w [OutC, InC, Kernel, Kernel], times scale, in the form that ConvForward reads:
// c.PackLen() floats. scale is the factor of byte images, 1 otherwise. ws is c.Workspace(1, t)
// floats of scratch.
func ConvPack(t *Team, packed, w []float32, scale float32, c *Conv, ws []float32) {
	c.check(t, 1, ws)
	atLeast("packed", len(packed), c.PackLen())
	atLeast("w", len(w), c.WeightLen())
	if c.patched() {
		refConvPack(t, packed, w, scale, c, ws)
		return
	}
	layersOf(c.Precision, c.Portable).convPack(t, packed, w, scale, c, ws)
}

// ConvPackBack is ConvPack for ConvBackward, without scale: it writes c.PackBackLen() floats.
func ConvPackBack(t *Team, packed, w []float32, c *Conv, ws []float32) {
	c.check(t, 1, ws)
	atLeast("packed", len(packed), c.PackBackLen())
	atLeast("w", len(w), c.WeightLen())
	if c.patched() {
		refConvPackBack(t, packed, w, c, ws)
		return
	}
	layersOf(c.Precision, c.Portable).convPackBack(t, packed, w, c, ws)
}

// ConvForward computes y = relu(conv(x, w) + b) on n images; if c.Linear is set, without the ReLU.
// x is [n, InLen], y [n, OutLen], b [OutC]; ConvPack made packed from w; ws is c.Workspace(n, t)
// floats of scratch.
func ConvForward(t *Team, y, x, packed, b []float32, n int, c *Conv, ws []float32) {
	c.checkForward(t, y, packed, b, n, ws)
	atLeast("x", len(x), n*c.InLen())
	c.forward(t, y, x, nil, packed, b, n, ws)
}

// ConvForwardU8 is ConvForward on byte images.
func ConvForwardU8(t *Team, y []float32, x []uint8, packed, b []float32, n int, c *Conv, ws []float32) {
	c.checkForward(t, y, packed, b, n, ws)
	atLeast("x", len(x), n*c.InLen())
	c.forward(t, y, nil, x, packed, b, n, ws)
}

// ConvBackward overwrites dw [OutC, InC, Kernel, Kernel] and db [OutC] with the gradients summed
// over n images, and dx [n, InLen] with the gradient of the input. x is the input and y [n, OutLen]
// the output of the forward pass; y is not read if c.Linear is set. dy is the gradient of y.
// ConvPackBack made packed. ws is c.Workspace(n, t) floats of scratch. Each block of 8 images has
// its own sums, which are added in order.
func ConvBackward(t *Team, dw, db, dx, x, packed, y, dy []float32, n int, c *Conv, ws []float32) {
	c.checkBackward(t, dw, db, y, dy, n, ws)
	atLeast("x", len(x), n*c.InLen())
	atLeast("dx", len(dx), n*c.InLen())
	atLeast("packed", len(packed), c.PackBackLen())
	c.backward(t, dw, db, dx, x, nil, 1, packed, y, dy, n, ws)
}

// ConvBackwardU8 is ConvBackward on byte images, without the gradient of the input. The input is
// x * scale.
func ConvBackwardU8(t *Team, dw, db []float32, x []uint8, scale float32, y, dy []float32, n int, c *Conv, ws []float32) {
	c.checkBackward(t, dw, db, y, dy, n, ws)
	atLeast("x", len(x), n*c.InLen())
	c.backward(t, dw, db, nil, nil, x, scale, nil, y, dy, n, ws)
}

func (c *Conv) forward(t *Team, y, x []float32, x8 []uint8, packed, b []float32, n int, ws []float32) {
	l := layersOf(c.Precision, c.Portable)
	if c.patched() {
		l.patchForward(t, y, x, x8, packed, b, n, c, ws)
		return
	}
	l.convForward(t, y, x, x8, packed, b, n, c, ws)
}

func (c *Conv) backward(t *Team, dw, db, dx, x []float32, x8 []uint8, scale float32, packed, y, dy []float32, n int, ws []float32) {
	l := layersOf(c.Precision, c.Portable)
	if c.patched() {
		l.patchBackward(t, dw, db, dx, x, x8, scale, packed, y, dy, n, c, ws)
		return
	}
	l.convBackward(t, dw, db, dx, x, x8, scale, packed, y, dy, n, c, ws)
}

// Flop returns the floating-point operations of one pass (forward, or one of the two gradients) on
// an image. direct are those of the direct convolution. done are those of the products on the path
// in use, without Winograd's sums before and after the products.
func (c *Conv) Flop() (direct, done float64) {
	s := c.cells()
	if c.patched() || layersOf(c.Precision, c.Portable).direct {
		direct = 2 * float64(c.OutH()*c.OutW()*c.WeightLen())
		return direct, direct
	}
	return 2 * float64(c.OutH()*c.OutW()*c.WeightLen()), 2 * float64(points*s.tiles*s.deep*c.OutC)
}

// Dense is one fully connected layer. In and Out are at least 1.
type Dense struct {
	In, Out   int
	ReLU      bool
	Precision Precision
	Portable  bool // the same bits on every processor; see HasPortable
	// Tiled is for layers whose calls have some 32 rows or more. DenseForward in FP32 is then a
	// product by tiles, whose sums have another order: a row has the same bits in all calls with
	// Tiled.
	Tiled bool
}

// DenseForward computes y = x·wᵀ + b, then max(0, y) if d.ReLU is set. x is [n, In], w [Out, In],
// b [Out], y [n, Out], ws d.Workspace(n, t) floats of scratch.
func DenseForward(t *Team, y, x, w, b []float32, n int, d *Dense, ws []float32) {
	d.forward(t, y, x, w, false, b, n, ws)
}

// DensePack rounds w [Out, In] once for many calls of DenseForwardPacked. packed has as many floats
// as w. In FP32 DensePack copies.
func DensePack(t *Team, packed, w []float32, d *Dense) {
	d.checkShape(1)
	atLeast("packed", len(packed), d.Out*d.In)
	atLeast("w", len(w), d.Out*d.In)
	layersOf(d.Precision, d.Portable).densePack(t, packed, w, *d)
}

// DenseForwardPacked gives the same bits as DenseForward, from weights that DensePack packed on the
// same path.
func DenseForwardPacked(t *Team, y, x, packed, b []float32, n int, d *Dense, ws []float32) {
	d.forward(t, y, x, packed, true, b, n, ws)
}

func (d *Dense) forward(t *Team, y, x, w []float32, packed bool, b []float32, n int, ws []float32) {
	d.check(t, n, ws)
	atLeast("y", len(y), n*d.Out)
	atLeast("x", len(x), n*d.In)
	atLeast("w", len(w), d.Out*d.In)
	atLeast("b", len(b), d.Out)
	layersOf(d.Precision, d.Portable).denseForward(t, y, x, w, packed, b, n, *d, ws)
}

// DenseBackward overwrites dw [Out, In] and db [Out] with the gradients summed over n rows, and
// dx [n, In], which may be nil, with the gradient of the input. x and y are the input and the
// output of the forward pass; y is read only if d.ReLU is set. dy is the gradient of y, ws
// d.Workspace(n, t) floats of scratch.
func DenseBackward(t *Team, dw, db, dx, x, w, y, dy []float32, n int, d *Dense, ws []float32) {
	d.check(t, n, ws)
	atLeast("dw", len(dw), d.Out*d.In)
	atLeast("db", len(db), d.Out)
	if dx != nil {
		atLeast("dx", len(dx), n*d.In)
	}
	atLeast("x", len(x), n*d.In)
	atLeast("w", len(w), d.Out*d.In)
	if d.ReLU {
		atLeast("y", len(y), n*d.Out)
	}
	atLeast("dy", len(dy), n*d.Out)
	layersOf(d.Precision, d.Portable).denseBackward(t, dw, db, dx, x, w, y, dy, n, *d, ws)
}

func (c *Conv) check(t *Team, n int, ws []float32) {
	if err := c.Check(); err != nil || n < 1 {
		panic(fmt.Sprintf("kernel: %d images: %v", n, err))
	}
	atLeast("ws", len(ws), c.Workspace(n, t))
}

func (c *Conv) checkForward(t *Team, y, packed, b []float32, n int, ws []float32) {
	c.check(t, n, ws)
	atLeast("y", len(y), n*c.OutLen())
	atLeast("packed", len(packed), c.PackLen())
	atLeast("b", len(b), c.OutC)
}

func (c *Conv) checkBackward(t *Team, dw, db, y, dy []float32, n int, ws []float32) {
	c.check(t, n, ws)
	atLeast("dw", len(dw), c.WeightLen())
	atLeast("db", len(db), c.OutC)
	if !c.Linear {
		atLeast("y", len(y), n*c.OutLen())
	}
	atLeast("dy", len(dy), n*c.OutLen())
}

func (d *Dense) checkShape(n int) {
	if n < 1 || d.In < 1 || d.Out < 1 {
		panic(fmt.Sprintf("kernel: dense layer %+v on %d rows: every number must be at least 1", *d, n))
	}
}

func (d *Dense) check(t *Team, n int, ws []float32) {
	d.checkShape(n)
	atLeast("ws", len(ws), d.Workspace(n, t))
}

// Peak measures, for about d, the rate of multiply-adds on registers that this path reaches on the
// calling thread, in GFLOP/s: the upper limit for the products of a layer.
func Peak(p Precision, d time.Duration) float64 {
	run := layersOf(p, false).peak
	flop, began := 0.0, time.Now()
	for {
		flop += run(1000)
		if took := time.Since(began); took >= d {
			return flop / float64(took.Nanoseconds())
		}
	}
}
