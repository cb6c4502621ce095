//go:build cgo

package atari

import (
	"testing"
	"unsafe"
)

// A machine is its two images and little else; a console adds what waits to be drawn,
// the generator and the rule. The cartridge and all tables are shared.
func TestSize(t *testing.T) {
	const images = 2 * 250 * 160
	var b box
	if rest := unsafe.Sizeof(b.m) - images; rest > 4<<10 {
		t.Errorf("a machine has %d bytes beside its images", rest)
	}
	if size := unsafe.Sizeof(state{}); size > 84<<10 {
		t.Errorf("a console has %d bytes", size)
	}
	t.Logf("machine %d bytes, %d of them images; console %d", unsafe.Sizeof(b.m), images, unsafe.Sizeof(state{}))
}
