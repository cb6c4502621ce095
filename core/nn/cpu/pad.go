package cpu

import "github.com/paceline-rl/paceline/core/nn"

// This file puts zeros around the images of a convolution. The kernels compute convolutions without
// padding, so a padded layer copies its images into larger ones first.

// padding is where the numbers of an image are in a larger image of zeros. Planes are channels, or
// one plane for channels-last images, in which a column has a number for each channel.
type padding struct {
	planes, rows, cols int // of an image
	height, width      int // of a plane with its zeros
	top, left          int // zeros before the image
	padded             int // numbers of a larger image
}

// paddingOf returns the padding of a convolution, nil if it has none.
func paddingOf(c *nn.Conv, planar bool) *padding {
	height, width, top, left := c.Padded()
	if height == c.InH && width == c.InW {
		return nil
	}
	p := &padding{planes: c.InC, rows: c.InH, cols: c.InW, height: height, width: width, top: top, left: left}
	if !planar {
		p.planes, p.cols, p.width, p.left = 1, c.InC*c.InW, c.InC*width, c.InC*left
	}
	p.padded = c.InC * height * width
	return p
}

// pad writes n images with their zeros.
func pad[T byte | float32](p *padding, to, from []T, n int) []T {
	to = to[:n*p.padded]
	end := 0 // of what is written
	p.each(n, func(inside, outside int) {
		clear(to[end:outside])
		end = outside + copy(to[outside:outside+p.cols], from[inside:])
	})
	clear(to[end:])
	return to
}

// crop is the reverse of pad.
func (p *padding) crop(to, from []float32, n int) {
	p.each(n, func(inside, outside int) { copy(to[inside:inside+p.cols], from[outside:]) })
}

// each calls f for each row of n images, with its index in the images and in the larger ones.
func (p *padding) each(n int, f func(inside, outside int)) {
	for i := range n * p.planes {
		for r := range p.rows {
			f((i*p.rows+r)*p.cols, (i*p.height+p.top+r)*p.width+p.left)
		}
	}
}

// floats returns the floats of memory that some padded images take.
func (p *padding) floats(rows int, bytes bool) int {
	if bytes {
		return (rows*p.padded + 3) / 4
	}
	return rows * p.padded
}
