//go:build cgo && amd64

package screen

/*
#cgo CFLAGS: -O2 -std=c11
#cgo noescape paceline_screen_max_grey_resize
#cgo nocallback paceline_screen_max_grey_resize
#cgo noescape paceline_screen_luma_resize
#cgo nocallback paceline_screen_luma_resize
#cgo noescape paceline_screen_to_grey
#cgo nocallback paceline_screen_to_grey
#include "native_amd64.h"
*/
import "C"

import (
	"unsafe"

	"github.com/paceline-rl/paceline/core/cpu"
)

// useNative selects the C code, which needs AVX2. Only tests change it.
var useNative = cpu.AtLeast(cpu.AVX2)

type native struct {
	weights C.struct_paceline_screen_resizer
}

// newNative arranges the weights for vectors. It returns nil for narrow widths, where the pixels of
// four columns do not fit into 16 bytes.
func newNative(r *resizer) *native {
	n := new(native)
	c := &n.weights
	if len(r.across) > len(c.across) {
		return nil
	}
	c.rows, c.w, c.h, c.taps = C.int32_t(r.rows), C.int32_t(r.w), C.int32_t(r.h), C.int32_t(len(r.across))
	c.scale, c.bias = C.float(r.scale), C.float(r.bias)
	for k := range c.pick {
		for i := range c.pick[k] {
			c.pick[k][i] = 0x80 // selects a zero
		}
	}
	for x, s := range r.start[:r.w] {
		base := r.start[x&^3]
		c.base[x/4] = C.uint8_t(base)
		for k := range r.across {
			at := int(s-base) + k
			if r.across[k][x] == 0 {
				continue // pick selects a zero
			}
			if at >= 16 {
				return nil
			}
			c.pick[k][4*x] = C.uint8_t(at)
			c.across[k][x] = C.float(r.across[k][x])
		}
	}
	next := 0
	for y, taps := range r.down {
		c.shares[y] = C.uint16_t(len(taps))
		for _, t := range taps {
			c.row[next], c.down[next] = C.uint16_t(t.at), C.float(t.weight)
			next++
		}
	}
	return n
}

func (r *resizer) maxGreyResize(dst, a, b []byte, grey *[256]uint8) {
	if !useNative || r.native == nil {
		r.maxGreyResizeGo(dst, a, b, grey)
		return
	}
	C.paceline_screen_max_grey_resize(&r.native.weights, (*C.uint8_t)(unsafe.SliceData(dst)),
		(*C.uint8_t)(unsafe.SliceData(a)), (*C.uint8_t)(unsafe.SliceData(b)), (*C.uint8_t)(&grey[0]))
}

type nativeBoxes struct {
	weights C.struct_paceline_screen_boxes
}

func newNativeBoxes(b *boxes) *nativeBoxes {
	n := new(nativeBoxes)
	c := &n.weights
	c.rows, c.w, c.h = C.int32_t(b.rows), C.int32_t(b.w), C.int32_t(b.h)
	for x := range c.width {
		c.width[x] = 1
	}
	next := 0
	for x, box := range b.across {
		c.first[x], c.taps[x], c.width[x] = C.uint8_t(box.first), C.uint8_t(len(box.weights)), C.float(box.size)
		for _, weight := range box.weights {
			c.across[next] = C.float(weight)
			next++
		}
	}
	next = 0
	for y, box := range b.down {
		c.row[y], c.shares[y], c.height[y] = C.uint16_t(box.first), C.uint16_t(len(box.weights)), C.float(box.size)
		for _, weight := range box.weights {
			c.down[next] = C.float(weight)
			next++
		}
	}
	return n
}

func (b *boxes) resize(dst, now, before []byte, lumas *[256][256]float32) {
	if !useNative {
		b.resizeGo(dst, now, before, lumas)
		return
	}
	C.paceline_screen_luma_resize(&b.native.weights, (*C.uint8_t)(unsafe.SliceData(dst)),
		(*C.uint8_t)(unsafe.SliceData(now)), (*C.uint8_t)(unsafe.SliceData(before)), (*C.float)(&lumas[0][0]))
}

func toGrey(dst, src []byte, grey *[256]uint8) {
	if !useNative {
		toGreyGo(dst, src, grey)
		return
	}
	C.paceline_screen_to_grey((*C.uint8_t)(unsafe.SliceData(dst)), (*C.uint8_t)(unsafe.SliceData(src)),
		C.ptrdiff_t(len(src)), (*C.uint8_t)(&grey[0]))
}
