package screen

import "bytes"

// luma computes with Torch's types: channels are float32 from 0 to 1, weights are float64, and the
// sum is added from left to right. The conversions forbid fusing.
func luma(rgb [3]uint8) float32 {
	var c [3]float64
	for i := range c {
		c[i] = float64(float32(rgb[i]) / 255)
	}
	return float32(float64(float64(0.299*c[0])+float64(0.587*c[1])) + float64(0.114*c[2]))
}

// boxes holds the weights of Torch's image.scale from one size to another.
type boxes struct {
	rows, w, h   int
	across, down []box
	native       *nativeBoxes // the weights for the C code; nil without C code
}

// box is the part of a line of inputs that one output covers. The output is the sum of weight times
// input, from first to last, divided by size.
type box struct {
	first   int
	weights []float32
	size    float32 // the sum of the weights, first to last
}

func newBoxes(rows, w, h int) (*boxes, error) {
	if err := checkSizes(rows, w, h); err != nil {
		return nil, err
	}
	b := &boxes{rows: rows, w: w, h: h, across: boxesOf(Width, w), down: boxesOf(rows, h)}
	b.native = newNativeBoxes(b)
	return b, nil
}

// boxesOf divides a line of `from` inputs into `to` boxes. The edges are float32, so the last edge
// may lie slightly before or after the end of the last input.
func boxesOf(from, to int) []box {
	scale := float32(from) / float32(to)
	out := make([]box, to)
	at, begin := 0, float32(0) // the edge: an input and a fraction of it
	for i := range out {
		edge := float32(float32(i+1) * scale) // the conversion forbids fusing
		last := int(edge)
		end := edge - float32(last)
		b := box{first: at, weights: []float32{1 - begin}}
		for range last - at - 1 {
			b.weights = append(b.weights, 1)
		}
		if last < from && end > 0 {
			b.weights = append(b.weights, end)
		}
		for _, w := range b.weights {
			b.size += w
		}
		out[i], at, begin = b, last, end
	}
	return out
}

func (b *boxes) resizeGo(dst, now, before []byte, lumas *[256][256]float32) {
	var narrow, sum [Width]float32 // one row, w wide
	have := -1                     // index of the row in narrow
	for y, box := range b.down {
		for k, weight := range box.weights {
			if at := box.first + k; at != have {
				n, o := line(now, at), line(before, at)
				// Most rows of an image equal the row above.
				if have < 0 || !bytes.Equal(n, line(now, have)) || !bytes.Equal(o, line(before, have)) {
					b.narrow(&narrow, n, o, lumas)
				}
				have = at
			}
			// The conversions forbid fusing the product with the sum.
			for x, v := range narrow[:b.w] {
				if k == 0 {
					sum[x] = float32(weight * v)
				} else {
					sum[x] += float32(weight * v)
				}
			}
		}
		row := dst[y*b.w : (y+1)*b.w]
		for x := range row {
			row[x] = uint8(sum[x] / box.size * 255)
		}
	}
}

// narrow scales one row of the brighter of both images.
func (b *boxes) narrow(dst *[Width]float32, now, before []byte, lumas *[256][256]float32) {
	var bright [Width]float32
	before = before[:Width]
	for x, v := range now[:Width] {
		bright[x] = lumas[v][before[x]]
	}
	for x := range b.across {
		box := &b.across[x]
		var sum float32
		for k, v := range bright[box.first : box.first+len(box.weights)] {
			sum += float32(box.weights[k] * v)
		}
		dst[x] = sum / box.size
	}
}
