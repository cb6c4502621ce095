package screen

import (
	"bytes"
	"fmt"
	"math"
)

// MaxRows is the largest number of rows of an [Observer].
const MaxRows = 256

// resizer computes an observation from two images: the maximum of the two, then the mean over the
// area of each output pixel. It holds the weights for one pair of sizes.
type resizer struct {
	rows, w, h int

	// Output column x is the sum over k of across[k][x] times pixel start[x]+k.
	start  [Width]uint8
	across [][Width]float32
	// Output row y is the sum of weight times row over down[y].
	down [][]tap
	// The byte is the sum times scale plus bias, rounded to even. If both factors are whole
	// numbers, all weights are 1 and scale is the reciprocal of the area; otherwise scale is 1.
	scale, bias float32

	native *native // the weights for the C code; nil without C code
}

type tap struct {
	at     int
	weight float32
}

// newResizer returns the weights from rows x [Width] to h x w. rows is 1 to [MaxRows], w 1 to
// Width, h 1 to rows.
func newResizer(rows, w, h int) (*resizer, error) {
	if err := checkSizes(rows, w, h); err != nil {
		return nil, err
	}
	whole := rows%h == 0 && Width%w == 0
	r := &resizer{rows: rows, w: w, h: h, down: area(rows, h, whole), scale: 1}
	if whole {
		r.scale = float32(1 / float64(rows/h*(Width/w)))
		if rows == 2*h && Width == 2*w {
			r.bias = 0.125 // OpenCV halves in integers and rounds a half up
		}
	}
	for x, taps := range area(Width, w, whole) {
		r.start[x] = uint8(taps[0].at)
		for k, t := range taps {
			if k == len(r.across) {
				r.across = append(r.across, [Width]float32{})
			}
			r.across[k][x] = t.weight
		}
	}
	r.native = newNative(r)
	return r, nil
}

func checkSizes(rows, w, h int) error {
	switch {
	case rows < 1 || rows > MaxRows:
		return fmt.Errorf("rows: %d, must be 1 to %d", rows, MaxRows)
	case w < 1 || w > Width:
		return fmt.Errorf("width: %d, must be 1 to %d, the width of the screen", w, Width)
	case h < 1 || h > rows:
		return fmt.Errorf("height: %d, must be 1 to %d, the rows of the screen", h, rows)
	}
	return nil
}

// area returns, for each of `to` outputs, the inputs that the output covers and their weights,
// which are 1 if the factor is a whole number. Otherwise the weights are OpenCV's: computed in
// float64, rounded to float32, and left out if they are less than a thousandth of an input.
func area(from, to int, whole bool) [][]tap {
	scale := float64(from) / float64(to)
	out := make([][]tap, to)
	for i := range out {
		if whole {
			for k := range from / to {
				out[i] = append(out[i], tap{i*(from/to) + k, 1})
			}
			continue
		}
		begin := float64(float64(i) * scale)
		end := begin + scale
		size := min(scale, float64(from)-begin)
		last := min(int(math.Floor(end)), from-1)
		first := min(int(math.Ceil(begin)), last)
		if part := float64(first) - begin; part > 1e-3 {
			out[i] = append(out[i], tap{first - 1, float32(part / size)})
		}
		for at := first; at < last; at++ {
			out[i] = append(out[i], tap{at, float32(1 / size)})
		}
		if part := end - float64(last); part > 1e-3 {
			out[i] = append(out[i], tap{last, float32(min(part, 1, size) / size)})
		}
	}
	return out
}

// length returns the size of an observation in bytes, w*h.
func (r *resizer) length() int { return r.w * r.h }

// maxGreyResizeGo is the Go code of maxGreyResize. It writes the observation of the images a and b
// to dst: the greater grey of the two, resized. dst has h x w bytes, a and b have rows x [Width]
// colour bytes each. a and b may be the same image.
func (r *resizer) maxGreyResizeGo(dst, a, b []byte, grey *[256]uint8) {
	var narrow, sum [Width]float32 // one row, w wide
	have := -1                     // index of the row in narrow
	w := r.w
	for y, taps := range r.down {
		for k, t := range taps {
			if t.at != have {
				ra, rb := line(a, t.at), line(b, t.at)
				// Most rows of an image equal the row above.
				if have < 0 || !bytes.Equal(ra, line(a, have)) || !bytes.Equal(rb, line(b, have)) {
					r.narrow(&narrow, ra, rb, grey)
				}
				have = t.at
			}
			// The conversions forbid fusing the product with the sum.
			if k == 0 {
				for x, v := range narrow[:w] {
					sum[x] = float32(t.weight * v)
				}
			} else {
				for x, v := range narrow[:w] {
					sum[x] += float32(t.weight * v)
				}
			}
		}
		row := dst[y*w : y*w+w]
		for x := range row {
			v := float32(float32(sum[x]*r.scale) + r.bias)
			// From 2^23 on float32 has only whole numbers, so the sum rounds to even.
			row[x] = uint8(math.Float32bits(v + 1<<23))
		}
	}
}

func line(p []byte, row int) []byte { return p[row*Width : row*Width+Width] }

// narrow resizes one row of the maximum of both images to width w.
func (r *resizer) narrow(dst *[Width]float32, a, b []byte, grey *[256]uint8) {
	// Columns at the right edge read after the end of the row, with weight 0.
	var bright [2 * Width]float32
	if bytes.Equal(a, b) {
		for x, v := range a[:Width] {
			bright[x] = float32(grey[v])
		}
	} else {
		b = b[:Width]
		for x, v := range a[:Width] {
			g, h := int(grey[v]), int(grey[b[x]])
			if h > g {
				g = h
			}
			bright[x] = float32(g)
		}
	}
	start := r.start[:r.w]
	if len(r.across) == 3 { // w from 80 to 159
		w0, w1, w2 := &r.across[0], &r.across[1], &r.across[2]
		for x, s := range start {
			at := int(s)
			two := float32(w0[x]*bright[at]) + float32(w1[x]*bright[at+1])
			dst[x] = two + float32(w2[x]*bright[at+2])
		}
		return
	}
	for x, s := range start {
		var v float32
		for k := range r.across {
			v += float32(r.across[k][x] * bright[int(s)+k])
		}
		dst[x] = v
	}
}
