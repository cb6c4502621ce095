package screen

import (
	"bytes"
	"testing"
)

// OpenCVArea equals GreyArea of the mixed colours' greys.
func TestOpenCVAreaEqualsPlainLoops(t *testing.T) {
	const rows = 210
	opencv, area := mustObserver(t, OpenCVArea, rows, 84, 84), mustObserver(t, GreyArea, rows, 84, 84)
	identical := &Palette{Grey: identity}
	for name, p := range pairs(rows) {
		for _, palette := range []*Palette{NTSC, PAL} {
			mixed := make([]byte, rows*Width)
			for i := range mixed {
				a, b := palette.RGB[p[0][i]], palette.RGB[p[1][i]]
				// The weights of BT.601 that OpenCV documents, with 15 bits each.
				sum := 0.0
				for c, weight := range [3]float64{9798, 19235, 3735} {
					sum += weight / 32768 * float64(max(a[c], b[c]))
				}
				mixed[i] = byte(sum + 0.5)
			}
			got, want := make([]byte, opencv.Len()), make([]byte, area.Len())
			opencv.Observe(got, p[0], p[1], palette)
			area.Observe(want, mixed, mixed, identical)
			if !bytes.Equal(got, want) {
				t.Errorf("%s: the frame differs", name)
			}
		}
	}
}

// The greys are cv2.cvtColor's. Weights of 14 bits give other greys.
func TestGreyEqualsOpenCV(t *testing.T) {
	for rgb, want := range map[[3]uint8]uint8{{195, 110, 216}: 147, {119, 248, 3}: 182, {207, 236, 27}: 204, {118, 148, 3}: 123, {64, 12, 187}: 47, {111, 130, 0}: 110, {255, 255, 255}: 255, {0, 0, 1}: 0, {200, 72, 72}: 110} {
		if got := opencvGrey(rgb); got != want {
			t.Errorf("grey of %v: %d, want %d", rgb, got, want)
		}
	}
}
