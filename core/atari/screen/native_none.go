//go:build !cgo || !amd64

package screen

// Without a C compiler for this processor the Go code is the only path.

type native struct{}

func newNative(*Resizer) *native { return nil }

func (r *Resizer) maxGreyResize(dst, a, b []byte, grey *[256]uint8) {
	r.maxGreyResizeGo(dst, a, b, grey)
}

func toGrey(dst, src []byte, grey *[256]uint8) { toGreyGo(dst, src, grey) }
