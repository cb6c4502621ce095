// Package screen converts the TIA's images to colours, greys and observations.
//
// An image is rows x [Width] bytes, one TIA colour byte a pixel, top row first. The colour byte
// holds the hue in bits 7 to 4 and the brightness in bits 3 to 1. Bit 0 is set in two cases only:
// it marks the loss of colour in a PAL frame with an odd number of lines, and an unfinished frame
// has bytes 0 to 7. A [Palette] therefore covers all 256 bytes.
//
// Every function returns exactly the bytes of its original: the palettes ALE's colours and greys,
// [Blend] ALE's colour averaging, [resizer] OpenCV's INTER_AREA, and [Observer] the frames of whole
// recipes. Sums are added in the order of OpenCV or Torch, and each product and sum is rounded to
// float32, never fused.
//
// The Go code defines each function. C code with AVX2 returns the same bytes. Calls do not
// allocate, except that the first [LumaArea] or [OpenCVArea] of a palette builds a table. All types
// are immutable, so any number of goroutines may share them. Slices of the wrong length are
// mistakes of the caller and panic.
package screen

import (
	"encoding/binary"
	"fmt"
	"sync"
)

// Width is the number of pixels in a line.
const Width = 160

// Palette holds the colour and grey of each TIA colour byte. Callers must not change it.
type Palette struct {
	// Grey is the brightness of each colour byte, 0 to 255. The brightness of an odd byte is
	// ALE's: the blue of the next colour, and 0 after the last colour.
	Grey [256]uint8
	// RGB is the red, green and blue of each colour byte. An odd byte has lost its colour:
	// all three are the grey of the even byte below it.
	RGB [256][3]uint8

	lumas pairTable[float32] // for [LumaArea]
	greys pairTable[uint8]   // for [OpenCVArea]
}

// pairTable holds a value for each pair of colours, built at the first use: entry [a][b] belongs to
// the maximum of each channel.
type pairTable[T any] struct {
	once  sync.Once
	table *[256][256]T
}

func (p *pairTable[T]) of(colours *[256][3]uint8, mix func(brighter [3]uint8) T) *[256][256]T {
	p.once.Do(func() {
		t := new([256][256]T)
		for a := range t {
			for b := range a + 1 {
				x, y := colours[a], colours[b]
				m := mix([3]uint8{max(x[0], y[0]), max(x[1], y[1]), max(x[2], y[2])})
				t[a][b], t[b][a] = m, m
			}
		}
		p.table = t
	})
	return p.table
}

// The palettes of the two television standards.
var (
	NTSC = newPalette(&ntscColours)
	PAL  = newPalette(&palColours)
)

func newPalette(colours *[128]uint32) *Palette {
	p := new(Palette)
	for i, c := range colours {
		r, g, b := c>>16, c>>8&0xff, c&0xff
		grey := uint8((2989*r + 5870*g + 1140*b + 5000) / 10000)
		p.Grey[2*i] = grey
		p.RGB[2*i] = [3]uint8{uint8(r), uint8(g), uint8(b)}
		p.RGB[2*i+1] = [3]uint8{grey, grey, grey}
	}
	for i, c := range colours[1:] {
		p.Grey[2*i+1] = uint8(c)
	}
	return p
}

// ToGrey writes the grey of every colour byte of src to dst. dst has src's length and may be src
// itself.
func ToGrey(dst, src []byte, p *Palette) {
	if len(dst) != len(src) {
		panic(fmt.Sprintf("screen: ToGrey: dst has %d bytes, src %d; they must be equal", len(dst), len(src)))
	}
	toGrey(dst, src, &p.Grey)
}

// toGreyGo looks up eight pixels at a time. Most of an image is flat, so the eight pixels usually
// equal the last eight.
func toGreyGo(dst, src []byte, grey *[256]uint8) {
	var seen uint64
	last := uint64(grey[0]) * 0x0101010101010101
	for len(src) >= 8 && len(dst) >= 8 {
		if v := binary.LittleEndian.Uint64(src); v != seen {
			seen = v
			last = uint64(grey[uint8(v)]) | uint64(grey[uint8(v>>8)])<<8 |
				uint64(grey[uint8(v>>16)])<<16 | uint64(grey[uint8(v>>24)])<<24 |
				uint64(grey[uint8(v>>32)])<<32 | uint64(grey[uint8(v>>40)])<<40 |
				uint64(grey[uint8(v>>48)])<<48 | uint64(grey[v>>56])<<56
		}
		binary.LittleEndian.PutUint64(dst, last)
		src, dst = src[8:], dst[8:]
	}
	for i, v := range src {
		dst[i] = grey[v]
	}
}

// ToRGB writes the red, green and blue of every colour byte of src to dst. dst has three times
// src's length.
func ToRGB(dst, src []byte, p *Palette) {
	if len(dst) != 3*len(src) {
		panic(fmt.Sprintf("screen: ToRGB: dst has %d bytes, src %d; dst must have three times as many", len(dst), len(src)))
	}
	rgb := &p.RGB
	for len(src) >= 4 && len(dst) >= 12 {
		a, b, c, d := &rgb[src[0]], &rgb[src[1]], &rgb[src[2]], &rgb[src[3]]
		binary.LittleEndian.PutUint32(dst, uint32(a[0])|uint32(a[1])<<8|uint32(a[2])<<16|uint32(b[0])<<24)
		binary.LittleEndian.PutUint32(dst[4:], uint32(b[1])|uint32(b[2])<<8|uint32(c[0])<<16|uint32(c[1])<<24)
		binary.LittleEndian.PutUint32(dst[8:], uint32(c[2])|uint32(d[0])<<8|uint32(d[1])<<16|uint32(d[2])<<24)
		src, dst = src[4:], dst[12:]
	}
	for i, v := range src {
		copy(dst[3*i:3*i+3], rgb[v][:])
	}
}
