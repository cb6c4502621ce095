//go:build cgo

package atari

/*
// -O3 unrolls the loops over the TIA's objects, which Go's default -O2 does not.
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

	_ "github.com/paceline-rl/paceline/core/atari/machine" // rebuilds this package when a header changes
	"github.com/paceline-rl/paceline/core/cpu"
)

func init() { useUnits(cpu.AtLeast) }

// useUnits selects the best allowed vector units for frames. No frame may be running. It is called
// at the start of the program, and by tests.
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

// available returns an error if this build has no machine.
func available() error { return nil }

// cartridge is a ROM's bytes and decoded words in C's memory. All machines with the cartridge share
// them.
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

// machine is the hardware. It is plain data: copying it after drawPending saves it.
type machine struct {
	state   C.struct_atari
	pending C.struct_atari_pending // images that are not drawn yet
}

func (m *machine) reset(c *cartridge, timer byte) {
	m.pending.pending = [2]C.uint8_t{} // a reset clears both images
	C.paceline_atari_reset(&m.state, c.rom, C.uint8_t(timer))
	runtime.KeepAlive(c)
}

// frame runs to the end of a frame. With draw false, drawPending draws the image when it is read.
// draw changes the speed and no result.
func (m *machine) frame(c *cartridge, draw bool) {
	now := C.int(0)
	if draw {
		now = 1
	}
	C.paceline_atari_frame_lazy(&m.state, c.rom, &m.pending, now)
	runtime.KeepAlive(c)
}

// accepts reports whether m can be the state of a machine with this cartridge and like's image,
// without pending images.
func (m *machine) accepts(c *cartridge, like *machine) bool {
	s, l := &m.state, &like.state
	ok := s.first_line == l.first_line && s.rows == l.rows && s.pal == l.pal && s.comb_exists == l.comb_exists &&
		m.pending.pending == [2]C.uint8_t{} && C.paceline_atari_accept(s, c.rom) != 0
	runtime.KeepAlive(c)
	return ok
}

// drawPending draws the pending images. Call it before reading an image.
func (m *machine) drawPending(c *cartridge) {
	if m.pending.pending[0]|m.pending.pending[1] != 0 {
		C.paceline_atari_draw_pending(&m.state, c.rom, &m.pending)
		runtime.KeepAlive(c)
	}
}

func (m *machine) ram() *[128]byte          { return (*[128]byte)(unsafe.Pointer(&m.state.ram)) }
func (m *machine) cartridgeRAM() *[128]byte { return (*[128]byte)(unsafe.Pointer(&m.state.cart.ram)) }

// lines returns the number of scanlines in the last complete frame.
func (m *machine) lines() int { return int(m.state.tia.lines) }

// setImage selects the lines of the image.
func (m *machine) setImage(first, rows int, comb bool) {
	m.state.first_line, m.state.rows, m.state.draw = C.int16_t(first), C.int16_t(rows), 1
	if comb {
		m.state.comb_exists = 1
	}
}

func (m *machine) setPAL(pal bool) {
	m.state.pal = 0
	if pal {
		m.state.pal = 1
	}
}

// image returns the colour bytes of the last frame, in rows of 160. The slice is the machine's
// memory.
func (m *machine) image() []byte {
	p := &m.state.image[m.state.tia.buffer]
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), int(m.state.rows)*Width)
}

// unfinished reports whether the last frame has not ended. The next one continues it, in the same
// image.
func (m *machine) unfinished() bool { return m.state.unfinished != 0 }

// other returns the image of the last frame in the other buffer: the frame before the last, if the
// last frame continued none.
func (m *machine) other() []byte {
	p := &m.state.image[m.state.tia.buffer^1]
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), int(m.state.rows)*Width)
}

func (m *machine) setSwitches(v byte)      { m.state.swchb = C.uint8_t(v) }
func (m *machine) setSticks(v byte)        { m.state.swcha = C.uint8_t(v) }
func (m *machine) setButton(i int, v byte) { m.state.button[i] = C.uint8_t(v) }

// setPaddle sets the input of a paddle: it reads 0, reads 1, or reads 1 after its capacitor has
// charged for more than charge cycles.
func (m *machine) setPaddle(i int, mode paddleMode, charge uint32) {
	m.state.paddle[i], m.state.charge[i] = C.uint8_t(mode), C.uint32_t(charge)
}
