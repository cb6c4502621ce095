//go:build cgo

package atari

/*
// -O3 unrolls what the machine does for each of a few objects: 4 to 13 % faster than -O2.
#cgo CFLAGS: -O3 -g1 -std=c11 -I${SRCDIR}/machine
#cgo noescape paceline_atari_reset
#cgo nocallback paceline_atari_reset
#cgo noescape paceline_atari_frame_lazy
#cgo nocallback paceline_atari_frame_lazy
#cgo noescape paceline_atari_accept
#cgo nocallback paceline_atari_accept
#cgo noescape paceline_atari_draw_pending
#cgo nocallback paceline_atari_draw_pending
#include <stdlib.h>
#include "native.h"
*/
import "C"

import (
	"runtime"
	"unsafe"

	_ "github.com/paceline-rl/paceline/core/atari/machine" // so that a changed header is seen
	"github.com/paceline-rl/paceline/core/cpu"
)

func init() { useUnits(cpu.AtLeast) }

// useUnits has frames run on the best vector units that are allowed. No frame may be
// running: it is called at the start of the program, and by tests.
func useUnits(allowed func(path string) bool) {
	switch {
	case allowed(cpu.AVX512):
		C.paceline_atari_use(C.PACELINE_ATARI_AVX512)
	case allowed(cpu.AVX2):
		C.paceline_atari_use(C.PACELINE_ATARI_AVX2)
	default:
		C.paceline_atari_use(C.PACELINE_ATARI_GENERIC)
	}
}

// available says why there are no machines, if so.
func available() error { return nil }

// cartridge is the bytes of a ROM, and their words of code, where C may keep them. All its
// machines share them.
type cartridge struct {
	rom    C.struct_atari_rom
	memory unsafe.Pointer
}

func newCartridge(data []byte, scheme int) *cartridge {
	if len(data) == 2048 {
		data = append(data[:2048:2048], data...)
	}
	const word = 4
	c := &cartridge{memory: C.calloc(C.size_t(len(data)), 1+word)}
	code := (*C.uint32_t)(c.memory)
	bytes := (*C.uint8_t)(unsafe.Add(c.memory, word*len(data)))
	copy(unsafe.Slice((*byte)(bytes), len(data)), data)
	c.rom = C.paceline_atari_rom(bytes, C.uint32_t(len(data)), C.uint32_t(scheme), code)
	runtime.AddCleanup(c, func(memory unsafe.Pointer) { C.free(memory) }, c.memory)
	return c
}

// box is the machine. It is plain data: copying it, once settled, saves it.
type box struct {
	m       C.struct_atari
	waiting C.struct_atari_waiting // images that nobody has asked for yet
}

func (b *box) reset(c *cartridge, timer byte) {
	b.waiting.waits = [2]C.uint8_t{} // both images are cleared
	C.paceline_atari_reset(&b.m, c.rom, C.uint8_t(timer))
	runtime.KeepAlive(c)
}

// frame runs to the end of a frame. draw says whether its image is expected to be
// looked at: if it is after all, after settle, nobody sees the difference.
func (b *box) frame(c *cartridge, draw bool) {
	wanted := C.int(0)
	if draw {
		wanted = 1
	}
	C.paceline_atari_frame_lazy(&b.m, c.rom, &b.waiting, wanted)
	runtime.KeepAlive(c)
}

// accepts reports whether the machine is in a state that one with this cartridge and
// this image could be in, with nothing waiting to be drawn.
func (b *box) accepts(c *cartridge, like *box) bool {
	m, l := &b.m, &like.m
	ok := m.first_line == l.first_line && m.rows == l.rows && m.pal == l.pal && m.comb_exists == l.comb_exists &&
		b.waiting.waits == [2]C.uint8_t{} && C.paceline_atari_accept(m, c.rom) != 0
	runtime.KeepAlive(c)
	return ok
}

// settle draws the images that were not drawn. It comes before looking at them.
func (b *box) settle(c *cartridge) {
	if b.waiting.waits[0]|b.waiting.waits[1] != 0 {
		C.paceline_atari_draw_pending(&b.m, c.rom, &b.waiting)
		runtime.KeepAlive(c)
	}
}

func (b *box) ram() *[128]byte          { return (*[128]byte)(unsafe.Pointer(&b.m.ram)) }
func (b *box) cartridgeRAM() *[128]byte { return (*[128]byte)(unsafe.Pointer(&b.m.cart.ram)) }

// lines returns the scanlines of the last whole frame.
func (b *box) lines() int { return int(b.m.tia.lines) }

// setImage says which lines make the image.
func (b *box) setImage(first, rows int, comb bool) {
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

// image returns the colour bytes of the frame last run, rows of 160. They are
// the machine's own.
func (b *box) image() []byte {
	p := &b.m.image[b.m.tia.buffer]
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), int(b.m.rows)*Width)
}

// previous returns the image of the frame before.
func (b *box) previous() []byte {
	p := &b.m.image[b.m.tia.buffer^1]
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
