//go:build !cgo || !amd64

package screen

// Without C code for this processor the Go code is the only path.

type native struct{}

type nativeBoxes struct{}

func newNative(*resizer) *native { return nil }

func (r *resizer) maxGreyResize(dst, a, b []byte, grey *[256]uint8) {
	r.maxGreyResizeGo(dst, a, b, grey)
}

func newNativeBoxes(*boxes) *nativeBoxes { return nil }

func (b *boxes) resize(dst, now, before []byte, lumas *[256][256]float32) {
	b.resizeGo(dst, now, before, lumas)
}

func toGrey(dst, src []byte, grey *[256]uint8) { toGreyGo(dst, src, grey) }
