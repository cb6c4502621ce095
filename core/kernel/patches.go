package kernel

// A convolution whose kernel is not two or three strides wide is a dense layer whose rows are the
// patches, [channel, row, column]. Blocks of convBlock images are computed one after the other;
// each block has sums of its own, as in the other convolutions. Threads share the work of the dense
// layer, whose parts are outputs forward and inputs backward.

// patched reports whether the convolution is a dense layer of its patches.
func (c *Conv) patched() bool { return c.Kernel != 2*c.Stride && c.Kernel != 3*c.Stride }

// dense is the layer of the patches.
func (c *Conv) dense() Dense {
	return Dense{In: c.patch(), Out: c.OutC, ReLU: !c.Linear, Precision: c.Precision, Portable: c.Portable}
}

// patches cuts a workspace.
type patches struct {
	x, dx  []float32 // patches of a block
	y, dy  []float32 // outputs of a block, channels last
	dw, db []float32 // sums of a block
	ws     []float32 // of the dense layer
}

// block returns the images and the rows of the largest block of n images.
func (c *Conv) block(n int) (images, rows int) {
	images = min(n, convBlock)
	return images, images * c.OutH() * c.OutW()
}

func (c *Conv) patchWorkspace(n int, t *Team) int {
	_, rows := c.block(n)
	d := c.dense()
	return 2*rows*(d.In+d.Out) + c.WeightLen() + c.OutC + d.Workspace(rows, t)
}

func (c *Conv) cut(ws []float32, n int, t *Team) (p patches) {
	_, rows := c.block(n)
	d := c.dense()
	take := func(length int) (s []float32) {
		s, ws = ws[:length:length], ws[length:]
		return s
	}
	p.x, p.dx, p.y, p.dy = take(rows*d.In), take(rows*d.In), take(rows*d.Out), take(rows*d.Out)
	p.dw, p.db, p.ws = take(c.WeightLen()), take(c.OutC), take(d.Workspace(rows, t))
	return p
}

// eachLine calls f for each line of the patches of n images, with the index of its first number in
// the images and in the patches.
func (c *Conv) eachLine(n int, f func(image, patch int)) {
	outH, outW, in, patch := c.OutH(), c.OutW(), c.inStrides(), 0
	for i := range n {
		for oy := range outH {
			for ox := range outW {
				first := i*c.InLen() + oy*c.Stride*in.h + ox*c.Stride*in.w
				for ch := range c.InC {
					for ky := range c.Kernel {
						f(first+ch*in.c+ky*in.h, patch)
						patch += c.Kernel
					}
				}
			}
		}
	}
}

// gather writes the patches of n images.
func gather[T uint8 | float32](to []float32, images []T, n int, c *Conv) {
	step := c.inStrides().w
	c.eachLine(n, func(image, patch int) {
		for k := range to[patch : patch+c.Kernel] {
			to[patch+k] = float32(images[image+k*step])
		}
	})
}

// scatter adds up the numbers of the patches where they were in the images.
func (c *Conv) scatter(images, from []float32, n int) {
	clear(images[:n*c.InLen()])
	step := c.inStrides().w
	c.eachLine(n, func(image, patch int) {
		for k, v := range from[patch : patch+c.Kernel] {
			images[image+k*step] += v
		}
	})
}

// channelsLast returns n images of outputs with the channels last: in to, if they are planar.
func (c *Conv) channelsLast(to, images []float32, n int) []float32 {
	if !c.PlanarOut {
		return images
	}
	c.eachOutput(n, func(planar, last int) { to[last] = images[planar] })
	return to
}

// eachOutput calls f for each number of n images of outputs, with its index in both layouts.
func (c *Conv) eachOutput(n int, f func(planar, last int)) {
	positions := c.OutH() * c.OutW()
	for i := range n {
		for o := range c.OutC {
			for at := range positions {
				f((i*c.OutC+o)*positions+at, (i*positions+at)*c.OutC+o)
			}
		}
	}
}

func (l *layers) patchForward(t *Team, y, x []float32, x8 []uint8, w, b []float32, n int, c *Conv, ws []float32) {
	p, d := c.cut(ws, n, t), c.dense()
	for first := 0; first < n; first += convBlock {
		images, rows := c.block(n - first)
		if x8 != nil {
			gather(p.x, x8[first*c.InLen():], images, c)
		} else {
			gather(p.x, x[first*c.InLen():], images, c)
		}
		own := y[first*c.OutLen():]
		if !c.PlanarOut {
			l.denseForward(t, own, p.x, w, false, b, rows, d, p.ws)
			continue
		}
		l.denseForward(t, p.y, p.x, w, false, b, rows, d, p.ws)
		c.eachOutput(images, func(planar, last int) { own[planar] = p.y[last] })
	}
}

func (l *layers) patchBackward(t *Team, dw, db, dx, x []float32, x8 []uint8, scale float32, w, y, dy []float32, n int, c *Conv, ws []float32) {
	p, d := c.cut(ws, n, t), c.dense()
	dw, db = dw[:c.WeightLen()], db[:c.OutC]
	for first := 0; first < n; first += convBlock {
		images, rows := c.block(n - first)
		if x8 != nil {
			gather(p.x, x8[first*c.InLen():], images, c)
		} else {
			gather(p.x, x[first*c.InLen():], images, c)
		}
		var own, down []float32
		if !c.Linear {
			own = c.channelsLast(p.y, y[first*c.OutLen():], images)
		}
		if dx != nil {
			down = p.dx
		}
		toW, toB := dw, db
		if first > 0 {
			toW, toB = p.dw, p.db
		}
		l.denseBackward(t, toW, toB, down, p.x, w, own, c.channelsLast(p.dy, dy[first*c.OutLen():], images), rows, d, p.ws)
		for k := range toW {
			toW[k] *= scale
		}
		if first > 0 {
			addTo(dw, toW)
			addTo(db, toB)
		}
		if dx != nil {
			c.scatter(dx[first*c.InLen():], down, images)
		}
	}
}

func addTo(sums, terms []float32) {
	for k, v := range terms {
		sums[k] += v
	}
}
