package screen

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
)

// pairs returns pairs of images of several kinds, with and without odd colour bytes.
func pairs(rows int) map[string][2][]byte {
	return map[string][2][]byte{
		"noise":      {noise(rows*Width, 1, 0xff), noise(rows*Width, 2, 0xff)},
		"even noise": {noise(rows*Width, 3, 0xfe), noise(rows*Width, 4, 0xfe)},
		"blocks":     {blocks(rows, 5, 0xfe), blocks(rows, 6, 0xfe)},
		"two levels": {noise(rows*Width, 7, 0x80), noise(rows*Width, 8, 0x80)},
		"one":        {blocks(rows, 9, 0xff), blocks(rows, 9, 0xff)},
	}
}

func mustResizer(t *testing.T, rows, w, h int) *resizer {
	t.Helper()
	r, err := newResizer(rows, w, h)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestResizeEqualsOpenCV(t *testing.T) {
	onPaths(t, func(t *testing.T) {
		n := 0
		for name, want := range golden(t) {
			var rows, w, h int
			if _, err := fmt.Sscanf(name, "resize %d %d %d", &rows, &w, &h); err != nil {
				continue
			}
			n++
			r := mustResizer(t, rows, w, h)
			seed := uint64(rows)
			all := make([]byte, 2*r.length())
			r.maxGreyResize(all[:r.length()], noise(rows*Width, seed, 0xff), noise(rows*Width, 1000+seed, 0xff), &plain.Grey)
			r.maxGreyResize(all[r.length():], blocks(rows, seed, 0xff), blocks(rows, 1000+seed, 0xff), &plain.Grey)
			if got := sum(all); got != want {
				t.Errorf("%s: sum %s, OpenCV's is %s", name, got, want)
			}
		}
		if n < 100 {
			t.Errorf("%d sums of resized images, want 100 or more", n)
		}
	})
}

func TestResizeIsTheMeanOverTheArea(t *testing.T) {
	onPaths(t, func(t *testing.T) {
		for _, rows := range []int{1, 2, 5, 84, 104, 208, 209, 210, 214, 220, 230, 250, 256} {
			for _, s := range [][2]int{{84, 84}, {80, 104}, {80, 105}, {64, 64}, {160, 50}, {37, 83}, {1, 1}, {159, 5}} {
				w, h := s[0], min(s[1], rows)
				r := mustResizer(t, rows, w, h)
				dst := make([]byte, r.length())
				for name, p := range pairs(rows) {
					r.maxGreyResize(dst, p[0], p[1], &NTSC.Grey)
					for i, want := range naive(p[0], p[1], NTSC, rows, w, h) {
						if d := math.Abs(float64(dst[i]) - want); d > 0.5001 {
							t.Fatalf("%s %dx%d to %dx%d: pixel %d is %d, the mean is %v", name, rows, Width, h, w, i, dst[i], want)
						}
					}
				}
			}
		}
	})
}

// naive sums every pixel times the area that the pixel shares with the output pixel.
func naive(a, b []byte, p *Palette, rows, w, h int) []float64 {
	shared := func(i, to, k, from int) float64 { // the part of input k that output i covers
		scale := float64(from) / float64(to)
		begin, end := max(float64(i)*scale, float64(k)), min(float64(i+1)*scale, float64(k+1))
		return max(end-begin, 0)
	}
	across := make([]float64, rows*w)
	for y := range rows {
		for x := range w {
			for k := x * Width / w; k < min((x+1)*Width/w+1, Width); k++ {
				at := y*Width + k
				grey := max(p.Grey[a[at]], p.Grey[b[at]])
				across[y*w+x] += shared(x, w, k, Width) * float64(grey)
			}
		}
	}
	out := make([]float64, h*w)
	for y := range h {
		for k := y * rows / h; k < min((y+1)*rows/h+1, rows); k++ {
			for x := range w {
				out[y*w+x] += shared(y, h, k, rows) * across[k*w+x]
			}
		}
	}
	for i := range out {
		out[i] /= float64(rows) / float64(h) * Width / float64(w)
	}
	return out
}

// All widths and many heights are compared.
func TestResizeEqualsTheGoCode(t *testing.T) {
	onPaths(t, func(t *testing.T) {
		compare := func(rows, w, h int) {
			r := mustResizer(t, rows, w, h)
			want := make([]byte, r.length())
			for name, p := range pairs(rows) {
				dst, check := guarded(t, r.length())
				r.maxGreyResize(dst, p[0], p[1], &PAL.Grey)
				check()
				r.maxGreyResizeGo(want, p[0], p[1], &PAL.Grey)
				if !bytes.Equal(dst, want) {
					t.Fatalf("%s: %dx%d to %dx%d differs from the Go code", name, rows, Width, h, w)
				}
			}
		}
		for w := 1; w <= Width; w++ {
			compare(9, w, 4)
			compare(8, w, 4)
		}
		for h := 1; h <= 210; h += 11 {
			compare(210, 80, h)
		}
		compare(256, 84, 256)
	})
}

// A row is repeated only if it equals the row above in both images.
func TestRepeatedRows(t *testing.T) {
	onPaths(t, func(t *testing.T) {
		const rows = 210
		r := mustResizer(t, rows, 84, 84)
		dst := make([]byte, r.length())
		a := bytes.Repeat(noise(Width, 1, 0xfe), rows)
		for _, x := range []int{0, 31, 32, 77, 128, 159} {
			for which := range 2 {
				p := [2][]byte{bytes.Clone(a), bytes.Clone(a)}
				p[which][100*Width+x] = 0x0e
				r.maxGreyResize(dst, p[0], p[1], &NTSC.Grey)
				for i, want := range naive(p[0], p[1], NTSC, rows, 84, 84) {
					if math.Abs(float64(dst[i])-want) > 0.5001 {
						t.Fatalf("change at column %d of image %d: pixel %d is %d, the mean is %v", x, which, i, dst[i], want)
					}
				}
			}
		}
	})
}

func TestGoroutinesShareAResizer(t *testing.T) {
	onPaths(t, func(t *testing.T) {
		r := mustResizer(t, 210, 84, 84)
		var group sync.WaitGroup
		for seed := range uint64(4) {
			a, b := noise(210*Width, seed, 0xff), noise(210*Width, seed+10, 0xff)
			want := make([]byte, r.length())
			r.maxGreyResizeGo(want, a, b, &PAL.Grey)
			group.Go(func() {
				dst := make([]byte, r.length())
				for range 20 {
					r.maxGreyResize(dst, a, b, &PAL.Grey)
					if !bytes.Equal(dst, want) {
						t.Error("the observation depends on other goroutines")
						return
					}
				}
			})
		}
		group.Wait()
	})
}

func TestNewResizerRefusesSizes(t *testing.T) {
	for _, c := range []struct {
		rows, w, h int
		want       string
	}{
		{0, 84, 84, "rows: 0, must be 1 to 256"},
		{257, 84, 84, "rows: 257, must be 1 to 256"},
		{210, 0, 84, "width: 0, must be 1 to 160"},
		{210, 161, 84, "width: 161, must be 1 to 160"},
		{210, 84, 0, "height: 0, must be 1 to 210"},
		{210, 84, 211, "height: 211, must be 1 to 210"},
	} {
		if _, err := newResizer(c.rows, c.w, c.h); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("newResizer(%d, %d, %d): %v, want %q", c.rows, c.w, c.h, err, c.want)
		}
	}
}
