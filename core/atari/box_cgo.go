//go:build cgo

package atari

/*
// -O3 unrolls what the machine does for each of a few objects: 4 to 13 % faster than -O2.
#cgo CFLAGS: -O3 -std=c11 -I${SRCDIR}/machine
#cgo noescape paceline_atari_reset
#cgo nocallback paceline_atari_reset
#cgo noescape paceline_atari_frame_or_not
#cgo nocallback paceline_atari_frame_or_not
#cgo noescape paceline_atari_accept
#cgo nocallback paceline_atari_accept
#cgo noescape paceline_atari_settle
#cgo nocallback paceline_atari_settle
#include <stdlib.h>
#include "box.h"
*/
import "C"

import (
	"runtime"
	"unsafe"

	_ "github.com/paceline-rl/paceline/core/atari/machine" // so that a changed header is seen
)

// available says why there are no machines, if so.
func available() error { return nil }

// image is a cartridge's bytes, and their words of code, where C may keep them. All its
// machines share them.
type image struct {
	rom    C.struct_atari_rom
	memory unsafe.Pointer
}

func newImage(data []byte, scheme int) *image {
	if len(data) == 2048 {
		data = append(data[:2048:2048], data...)
	}
	const word = 4
	i := &image{memory: C.calloc(C.size_t(len(data)), 1+word)}
	code := (*C.uint32_t)(i.memory)
	bytes := (*C.uint8_t)(unsafe.Add(i.memory, word*len(data)))
	copy(unsafe.Slice((*byte)(bytes), len(data)), data)
	i.rom = C.paceline_atari_rom(bytes, C.uint32_t(len(data)), C.uint32_t(scheme), code)
	runtime.AddCleanup(i, func(memory unsafe.Pointer) { C.free(memory) }, i.memory)
	return i
}

// box is the machine. It is plain data: copying it, once settled, saves it.
type box struct {
	m       C.struct_atari
	waiting C.struct_atari_waiting // pictures that nobody has asked for yet
}

func (b *box) reset(i *image, timer byte) {
	b.waiting.waits = [2]C.uint8_t{} // both pictures are cleared
	C.paceline_atari_reset(&b.m, i.rom, C.uint8_t(timer))
	runtime.KeepAlive(i)
}

// frame runs to the end of a frame. draw says whether its picture is expected to be
// looked at: if it is after all, after settle, nobody sees the difference.
func (b *box) frame(i *image, draw bool) {
	wanted := C.int(0)
	if draw {
		wanted = 1
	}
	C.paceline_atari_frame_or_not(&b.m, i.rom, &b.waiting, wanted)
	runtime.KeepAlive(i)
}

// accepts reports whether the machine is in a state that one with this cartridge and
// this picture could be in, with nothing waiting to be drawn.
func (b *box) accepts(i *image, like *box) bool {
	m, l := &b.m, &like.m
	ok := m.first_line == l.first_line && m.rows == l.rows && m.pal == l.pal && m.comb_exists == l.comb_exists &&
		b.waiting.waits == [2]C.uint8_t{} && C.paceline_atari_accept(m, i.rom) != 0
	runtime.KeepAlive(i)
	return ok
}

// settle draws the pictures that were not drawn. It comes before looking at them.
func (b *box) settle(i *image) {
	if b.waiting.waits[0]|b.waiting.waits[1] != 0 {
		C.paceline_atari_settle(&b.m, i.rom, &b.waiting)
		runtime.KeepAlive(i)
	}
}

func (b *box) ram() *[128]byte          { return (*[128]byte)(unsafe.Pointer(&b.m.ram)) }
func (b *box) cartridgeRAM() *[128]byte { return (*[128]byte)(unsafe.Pointer(&b.m.cart.ram)) }

// lines returns the scanlines of the last whole frame.
func (b *box) lines() int { return int(b.m.tia.lines) }

// setPicture says which lines make the picture.
func (b *box) setPicture(first, rows int, comb bool) {
	b.m.first_line, b.m.rows, b.m.draw = C.int16_t(first), C.int16_t(rows), 1
	if comb {
		b.m.comb_exists = 1
	}
}

func (b *box) setPAL(pal bool) {
	b.m.pal = 0
	if pal {
		b.m.pal = 1
	}
}

// picture returns the colour bytes of the frame last run, rows of 160. They are
// the machine's own.
func (b *box) picture() []byte {
	p := &b.m.picture[b.m.tia.buffer]
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), int(b.m.rows)*Width)
}

// previous returns the picture of the frame before.
func (b *box) previous() []byte {
	p := &b.m.picture[b.m.tia.buffer^1]
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), int(b.m.rows)*Width)
}

func (b *box) setSwitches(v byte)      { b.m.swchb = C.uint8_t(v) }
func (b *box) setSticks(v byte)        { b.m.swcha = C.uint8_t(v) }
func (b *box) setButton(i int, v byte) { b.m.button[i] = C.uint8_t(v) }

// setPaddle sets what a paddle's input does: reads 0, reads 1, or 1 once its
// capacitor has been charged for more than so many cycles.
func (b *box) setPaddle(i int, mode paddleMode, charge uint32) {
	b.m.paddle[i], b.m.charge[i] = C.uint8_t(mode), C.uint32_t(charge)
}

// bytes returns the machine's memory.
func (b *box) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&b.m)), unsafe.Sizeof(b.m))
}
