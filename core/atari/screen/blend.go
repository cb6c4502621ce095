package screen

import "fmt"

// Blend is ALE's colour averaging. It shows two successive images as one, as a slow television tube
// does, so that objects which a game draws only in every second frame do not flicker.
//
// Each channel becomes the darker of the two values plus 77 percent of the difference, rounded down
// to an integer and then to a multiple of 4. The result is the colour with the smallest sum of
// channel differences from that mixture, the lowest byte if several are equal. The result is 0 if
// one of the two bytes is odd.
type Blend struct {
	table [128 * 128]uint8 // [a>>1][b>>1]
}

// NewBlend builds the table of a palette, which takes a few milliseconds.
func NewBlend(p *Palette) *Blend {
	b := new(Blend)
	for i := range 128 {
		for j := range i + 1 {
			c := nearest(p, mix(p.RGB[2*i], p.RGB[2*j]))
			b.table[i<<7|j], b.table[j<<7|i] = c, c
		}
	}
	return b
}

func mix(a, b [3]uint8) [3]uint8 {
	for i := range a {
		lo, hi := min(int(a[i]), int(b[i])), max(int(a[i]), int(b[i]))
		a[i] = uint8(lo+(hi-lo)*77/100) &^ 3
	}
	return a
}

func nearest(p *Palette, rgb [3]uint8) uint8 {
	best, colour := 3*256, 0
	for c := 0; c < 256; c += 2 {
		d := 0
		for i, v := range p.RGB[c] {
			d += max(int(v), int(rgb[i])) - min(int(v), int(rgb[i]))
		}
		if d < best {
			best, colour = d, c
		}
	}
	return uint8(colour)
}

// Average writes the average of two images of colour bytes to dst, as colour bytes. All three
// slices have the same length; dst may be a or b.
func (t *Blend) Average(dst, a, b []byte) {
	if len(a) != len(dst) || len(b) != len(dst) {
		panic(fmt.Sprintf("screen: Average: dst has %d bytes, the images %d and %d; they must be equal", len(dst), len(a), len(b)))
	}
	a, b = a[:len(dst)], b[:len(dst)]
	for i, x := range a {
		y := b[i]
		even := (x|y)&1 - 1
		dst[i] = t.table[int(x>>1)<<7|int(y>>1)] & even
	}
}
