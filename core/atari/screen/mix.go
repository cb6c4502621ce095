package screen

import (
	"encoding/binary"
	"sync"
)

// opencvGrey returns the grey of a colour by the weights of BT.601, in units of 1/32768; a half is
// rounded up. OpenCV 5's COLOR_RGB2GRAY returns the same for every colour.
func opencvGrey(rgb [3]uint8) uint8 {
	const red, green, blue = 9798, 19235, 3735
	return uint8((red*uint32(rgb[0]) + green*uint32(rgb[1]) + blue*uint32(rgb[2]) + 1<<14) >> 15)
}

// identity is the grey table for pixels that are grey levels already.
var identity = func() (grey [256]uint8) {
	for i := range grey {
		grey[i] = uint8(i)
	}
	return grey
}()

// planes recycles images of grey levels.
var planes = sync.Pool{New: func() any { return new([MaxRows * Width]byte) }}

// mixGrey looks up eight pixels at a time. Most of an image is flat and equals the previous image,
// so the eight pixels usually equal the last eight.
func mixGrey(dst, now, before []byte, grey *[256][256]uint8) {
	var seen, old uint64
	last := uint64(grey[0][0]) * 0x0101010101010101
	for i := 0; i+8 <= len(dst); i += 8 {
		v, w := binary.LittleEndian.Uint64(now[i:]), binary.LittleEndian.Uint64(before[i:])
		if v != seen || w != old {
			seen, old, last = v, w, 0
			for k := 0; k < 64; k += 8 {
				last |= uint64(grey[uint8(v>>k)][uint8(w>>k)]) << k
			}
		}
		binary.LittleEndian.PutUint64(dst[i:], last) // a line is a multiple of eight
	}
}
