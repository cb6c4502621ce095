package screen

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
)

func mustObserver(t *testing.T, look Look, rows, h, w int) *Observer {
	t.Helper()
	o, err := NewObserver(look, rows, h, w)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// The originals are cv2.resize and Torch's image.scale (testdata/golden.py).
func TestLooksEqualTheirOriginals(t *testing.T) {
	onPaths(t, func(t *testing.T) {
		counts := map[string]int{}
		for name, want := range golden(t) {
			kind, sizes, _ := strings.Cut(name, " ")
			var look Look
			var rows, w, h int
			var err error
			switch kind {
			case "resize", "rgb", "luma":
				look = map[string]Look{"resize": GreyArea, "rgb": RGBArea, "luma": LumaArea}[kind]
				_, err = fmt.Sscan(sizes, &rows, &w, &h)
			case "half":
				look = GreyHalf
				_, err = fmt.Sscan(sizes, &rows)
				w, h = Width/2, (rows-2)/2
			default:
				continue
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			counts[kind]++
			o := mustObserver(t, look, rows, h, w)
			seed, n := uint64(rows), o.Len()
			all, check := guarded(t, 2*n)
			o.Observe(all[:n], noise(rows*Width, seed, 0xff), noise(rows*Width, 1000+seed, 0xff), plain)
			o.Observe(all[n:], blocks(rows, seed, 0xff), blocks(rows, 1000+seed, 0xff), plain)
			check()
			if got := sum(all); got != want {
				t.Errorf("%s: sum %s, want %s", name, got, want)
			}
		}
		if counts["resize"] < 100 || counts["rgb"] < 40 || counts["luma"] < 40 || counts["half"] < 5 {
			t.Errorf("%v sums were compared; some are missing", counts)
		}
	})
}

// 5 pixels scaled to 2 have boxes of size 2.5.
func TestBoxesCoverAllInputs(t *testing.T) {
	got := fmt.Sprint(boxesOf(5, 2), boxesOf(3, 3), boxesOf(4, 2), boxesOf(3, 1))
	const want = "[{0 [1 1 0.5] 2.5} {2 [0.5 1 1] 2.5}] [{0 [1] 1} {1 [1] 1} {2 [1] 1}] [{0 [1 1] 2} {2 [1 1] 2}] [{0 [1 1 1] 3}]"
	if got != want {
		t.Errorf("boxes %s, want %s", got, want)
	}
	for _, from := range []int{Width, 210, 250, MaxRows} {
		for to := 1; to <= from; to++ {
			at := 0
			for i, b := range boxesOf(from, to) {
				if b.first != at && b.first != at-1 || b.first+len(b.weights) > from {
					t.Fatalf("%d to %d: box %d has inputs %d to %d after %d", from, to, i, b.first, b.first+len(b.weights)-1, at-1)
				}
				at = b.first + len(b.weights)
				if d := math.Abs(float64(b.size) - float64(from)/float64(to)); d > 1e-4 {
					t.Errorf("%d to %d: box %d has size %v", from, to, i, b.size)
				}
			}
			if at != from {
				t.Fatalf("%d to %d: the last %d inputs are in no box", from, to, from-at)
			}
		}
	}
}

// The maximum of red and cyan is white.
func TestLooksOfMixtures(t *testing.T) {
	p := new(Palette)
	p.RGB = [256][3]uint8{{255, 0, 0}, {0, 255, 255}, {74, 74, 74}, {142, 142, 142}}
	for _, c := range []struct {
		now, before uint8
		want        [5]uint8 // by look
	}{
		{0, 0, [5]uint8{0, 255, 76, 0, 76}},
		{0, 1, [5]uint8{0, 255, 255, 0, 255}},
		{2, 2, [5]uint8{0, 74, 74, 0, 74}},
		{3, 3, [5]uint8{0, 142, 142, 0, 142}},
	} {
		now, before := bytes.Repeat([]byte{c.now}, 4*Width), bytes.Repeat([]byte{c.before}, 4*Width)
		for _, look := range []Look{GreyArea, RGBArea, LumaArea, GreyHalf, OpenCVArea} {
			o := mustObserver(t, look, 4, 1, Width/2)
			dst := make([]byte, o.Len())
			o.Observe(dst, now, before, p)
			if dst[0] != c.want[look] {
				t.Errorf("look %d of colours %d and %d: %d, want %d", look, c.now, c.before, dst[0], c.want[look])
			}
		}
	}
}

// The order of the sum matters for 690 of all colours. The values are Torch's.
func TestLumaAddsFromTheLeft(t *testing.T) {
	for rgb, want := range map[[3]uint8]float32{
		{16, 102, 9}: 0x1.07c43p-2, {149, 219, 214}: 0x1.8c8c8cp-1, {237, 167, 172}: 0x1.7a7a7ap-1,
	} {
		if got := luma(rgb); got != want {
			t.Errorf("luma of %d: %x, want %x", rgb, got, want)
		}
	}
}

// Flat colours show that the byte is truncated. The levels are Torch's.
func TestLumaIsTruncated(t *testing.T) {
	o := mustObserver(t, LumaArea, 210, 84, 84)
	dst := make([]byte, o.Len())
	for _, c := range []struct {
		colour    uint8 // NTSC
		darkest   uint8
		brightest uint8
	}{{0x00, 0, 0}, {0x02, 73, 74}, {0x0e, 236, 236}, {0x10, 63, 63}, {0x2e, 198, 198}} {
		p := bytes.Repeat([]byte{c.colour}, 210*Width)
		o.Observe(dst, p, p, NTSC)
		if lo, hi := slices.Min(dst), slices.Max(dst); lo != c.darkest || hi != c.brightest {
			t.Errorf("colour %#02x: levels %d to %d, want %d to %d", c.colour, lo, hi, c.darkest, c.brightest)
		}
	}
}

func TestGreyHalfCropsTheLastTwoRows(t *testing.T) {
	o := mustObserver(t, GreyHalf, 210, 104, 80)
	black := make([]byte, 210*Width)
	dst := make([]byte, o.Len())
	for y := range 210 {
		now := bytes.Clone(black)
		now[y*Width] = 130 // a quarter is 32.5
		o.Observe(dst, now, black, plain)
		want := make([]byte, o.Len())
		if y < 208 {
			want[y/2*80] = 33
		}
		if !bytes.Equal(dst, want) {
			t.Fatalf("a bright pixel in row %d: wrong frame", y)
		}
	}
}

// All widths and many heights are compared.
func TestLooksEqualTheGoCode(t *testing.T) {
	onPaths(t, func(t *testing.T) {
		compare := func(look Look, rows, h, w int) {
			o := mustObserver(t, look, rows, h, w)
			want := make([]byte, o.Len())
			for name, p := range pairs(rows) {
				dst, check := guarded(t, o.Len())
				o.Observe(dst, p[0], p[1], PAL)
				check()
				onGo(func() { o.Observe(want, p[0], p[1], PAL) })
				if !bytes.Equal(dst, want) {
					t.Fatalf("look %d, %s: %dx%d to %dx%d differs from the Go code", look, name, rows, Width, h, w)
				}
			}
		}
		for _, look := range []Look{RGBArea, LumaArea, OpenCVArea} {
			for w := 1; w <= Width; w++ {
				compare(look, 9, 4, w)
			}
			for h := 1; h <= 210; h += 11 {
				compare(look, 210, h, 80)
			}
			compare(look, 250, 84, 84)
			compare(look, 256, 256, 84)
		}
		compare(GreyHalf, 250, 124, 80)
	})
}

// The C code scales rows that equal the row above once, and eight rows at a time.
func TestLumaOfRepeatedRows(t *testing.T) {
	onPaths(t, func(t *testing.T) {
		const rows = 210
		o := mustObserver(t, LumaArea, rows, 84, 84)
		dst, want := make([]byte, o.Len()), make([]byte, o.Len())
		r := splitmix(1)
		for range 20 {
			var p [2][]byte
			for i := range p {
				p[i] = make([]byte, 0, rows*Width)
				for len(p[i]) < rows*Width {
					row := noise(Width, r.next(), 0xff)
					for range min(1+r.next()%5, uint64(rows-len(p[i])/Width)) {
						p[i] = append(p[i], row...)
					}
				}
			}
			o.Observe(dst, p[0], p[1], NTSC)
			naiveLuma(want, p[0], p[1], NTSC, rows, 84, 84)
			if !bytes.Equal(dst, want) {
				t.Fatal("the frame differs from the reference, which scales each row")
			}
		}
	})
}

// naiveLuma scales all rows, then all columns.
func naiveLuma(dst, now, before []byte, p *Palette, rows, h, w int) {
	scale := func(to []float32, toStep int, from []float32, fromStep int, boxes []box) {
		for i, b := range boxes {
			var sum float32
			for k, weight := range b.weights {
				sum += float32(weight * from[(b.first+k)*fromStep])
			}
			to[i*toStep] = sum / b.size
		}
	}
	bright, across, down := make([]float32, rows*Width), make([]float32, rows*w), make([]float32, h*w)
	for i, c := range now {
		x, y := p.RGB[c], p.RGB[before[i]]
		bright[i] = luma([3]uint8{max(x[0], y[0]), max(x[1], y[1]), max(x[2], y[2])})
	}
	for y := range rows {
		scale(across[y*w:], 1, bright[y*Width:], 1, boxesOf(Width, w))
	}
	for x := range w {
		scale(down[x:], w, across[x:], w, boxesOf(rows, h))
	}
	for i, v := range down {
		dst[i] = uint8(v * 255)
	}
}

func TestBlackImageChangesNothing(t *testing.T) {
	black := make([]byte, 210*Width)
	p := blocks(210, 1, 0xfe)
	for _, look := range []Look{GreyArea, RGBArea, LumaArea, GreyHalf, OpenCVArea} {
		h, w := 84, 84
		if look == GreyHalf {
			h, w = 104, 80
		}
		o := mustObserver(t, look, 210, h, w)
		one, two, swapped := make([]byte, o.Len()), make([]byte, o.Len()), make([]byte, o.Len())
		o.Observe(one, p, p, NTSC)
		o.Observe(two, p, black, NTSC)
		o.Observe(swapped, black, p, NTSC)
		if !bytes.Equal(one, two) || !bytes.Equal(one, swapped) {
			t.Errorf("look %d: a black image changes the frame", look)
		}
	}
}

func TestGoroutinesShareAnObserver(t *testing.T) {
	// This palette has no tables yet: the first call builds them.
	palette := &Palette{Grey: NTSC.Grey, RGB: NTSC.RGB}
	a, b := noise(210*Width, 1, 0xff), noise(210*Width, 2, 0xff)
	for _, look := range []Look{RGBArea, LumaArea, OpenCVArea} {
		o := mustObserver(t, look, 210, 84, 84)
		want := make([]byte, o.Len())
		o.Observe(want, a, b, NTSC)
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				dst := make([]byte, o.Len())
				for range 20 {
					o.Observe(dst, a, b, palette)
					if !bytes.Equal(dst, want) {
						t.Error("the frame depends on other goroutines")
						return
					}
				}
			})
		}
		group.Wait()
	}
}

func TestObservingAllocatesNothing(t *testing.T) {
	a, b := noise(210*Width, 1, 0xff), noise(210*Width, 2, 0xff)
	onPaths(t, func(t *testing.T) {
		for _, look := range []Look{GreyArea, RGBArea, LumaArea, OpenCVArea} {
			o := mustObserver(t, look, 210, 84, 84)
			dst := make([]byte, o.Len())
			if n := testing.AllocsPerRun(10, func() { o.Observe(dst, a, b, NTSC) }); n != 0 {
				t.Errorf("look %d allocates %v times per call", look, n)
			}
		}
	})
}

func TestNewObserverRefusesSizes(t *testing.T) {
	for _, c := range []struct {
		look       Look
		rows, h, w int
		want       string
	}{
		{5, 210, 84, 84, "look: 5, must be 0 to 4"},
		{GreyArea, 257, 84, 84, "rows: 257, must be 1 to 256"},
		{RGBArea, 210, 211, 84, "height: 211, must be 1 to 210"},
		{LumaArea, 0, 84, 84, "rows: 0, must be 1 to 256"},
		{LumaArea, 210, 84, 161, "width: 161, must be 1 to 160"},
		{LumaArea, 210, 0, 84, "height: 0, must be 1 to 210"},
		{GreyHalf, 211, 104, 80, "rows: 211, must be even, 4 to 256"},
		{GreyHalf, 2, 0, 80, "rows: 2, must be even, 4 to 256"},
		{GreyHalf, 258, 128, 80, "rows: 258, must be even, 4 to 256"},
		{GreyHalf, 210, 84, 80, "height: 84, must be 104, half"},
		{GreyHalf, 250, 104, 80, "height: 104, must be 124, half"},
		{GreyHalf, 210, 104, 84, "width: 84, must be 80, half"},
	} {
		if o, err := NewObserver(c.look, c.rows, c.h, c.w); o != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("NewObserver(%d, %d, %d, %d): %v, want %q", c.look, c.rows, c.h, c.w, err, c.want)
		}
	}
	o := mustObserver(t, RGBArea, 210, 84, 84)
	image := make([]byte, 210*Width)
	panics(t, "dst has 7056 bytes, must have 21168", func() { o.Observe(make([]byte, 7056), image, image, NTSC) })
	panics(t, "have 33600 and 33599 bytes, both must have 33600, 210 rows of 160", func() { o.Observe(make([]byte, 21168), image, image[1:], NTSC) })
}

// ObserveAll of two images equals Observe. Of three images it is at least as bright as of any two.
func TestObserveAllTakesTheMaximum(t *testing.T) {
	const rows = 210
	a, b, c := noise(rows*Width, 1, 0xfe), noise(rows*Width, 2, 0xfe), noise(rows*Width, 3, 0xfe)
	for look, size := range map[Look][2]int{GreyArea: {84, 84}, RGBArea: {84, 84}, LumaArea: {84, 84}, GreyHalf: {104, 80}, OpenCVArea: {84, 84}} {
		o, err := NewObserver(look, rows, size[0], size[1])
		if err != nil {
			t.Fatal(err)
		}
		want, got := make([]byte, o.Len()), make([]byte, o.Len())
		o.Observe(want, a, b, NTSC)
		o.ObserveAll(got, NTSC, a, b)
		if !bytes.Equal(got, want) {
			t.Errorf("look %d: two images differ from Observe's", look)
		}
		if look == LumaArea || look == OpenCVArea {
			continue
		}
		o.ObserveAll(got, NTSC, a, b, c)
		for _, two := range [][2][]byte{{a, b}, {b, c}, {a, c}} {
			o.Observe(want, two[0], two[1], NTSC)
			for i := range want {
				if got[i] < want[i] {
					t.Fatalf("look %d: byte %d of three images is darker than of two", look, i)
				}
			}
		}
		o.ObserveAll(want, NTSC, c, a, b)
		if !bytes.Equal(got, want) {
			t.Errorf("look %d: the order of images matters", look)
		}
	}
}
