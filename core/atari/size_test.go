//go:build cgo

package atari

import (
	"testing"
	"unsafe"
)

// A machine is little larger than its two images. A console adds pending images, the generator and
// the rule. Consoles share the cartridge and all tables.
func TestStatesAreSmall(t *testing.T) {
	const images = 2 * 250 * 160
	var m machine
	if rest := unsafe.Sizeof(m.state) - images; rest > 4<<10 {
		t.Errorf("a machine has %d bytes besides its images", rest)
	}
	if size := unsafe.Sizeof(state{}); size > 84<<10 {
		t.Errorf("a console has %d bytes", size)
	}
	t.Logf("machine %d bytes, %d of them images; console %d", unsafe.Sizeof(m.state), images, unsafe.Sizeof(state{}))
}
