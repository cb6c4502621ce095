package screen

import (
	"bytes"
	"testing"
)

func TestPalettesEqualALE(t *testing.T) {
	looks := func(p *Palette, colours []int) string {
		var all []byte
		for _, c := range colours {
			all = append(append(all, p.Grey[c]), p.RGB[c][:]...)
		}
		return sum(all)
	}
	var ntsc, pal []int
	for c := range 256 {
		pal = append(pal, c)
		if c%2 == 0 {
			ntsc = append(ntsc, c)
		}
	}
	// An NTSC console can show only these odd bytes.
	ntsc = append(ntsc, 1, 3, 5, 7)
	want := golden(t)
	if got := looks(NTSC, ntsc); got != want["colours ntsc"] {
		t.Errorf("NTSC: sum %s, ALE's is %s", got, want["colours ntsc"])
	}
	if got := looks(PAL, pal); got != want["colours pal"] {
		t.Errorf("PAL: sum %s, ALE's is %s", got, want["colours pal"])
	}
}

func TestOddBytesAreGrey(t *testing.T) {
	for _, c := range []struct {
		p    *Palette
		byte uint8
		grey uint8
		rgb  uint8
	}{{NTSC, 1, 0x4a, 0}, {NTSC, 7, 0xaa, 142}, {NTSC, 255, 0, 220}, {PAL, 33, 0x1a, 90}, {PAL, 255, 0, 236}} {
		if got := c.p.Grey[c.byte]; got != c.grey {
			t.Errorf("grey of %d: %d, want %d", c.byte, got, c.grey)
		}
		if got := c.p.RGB[c.byte]; got != [3]uint8{c.rgb, c.rgb, c.rgb} {
			t.Errorf("RGB of %d: %d, want %d three times", c.byte, got, c.rgb)
		}
	}
}

func TestToGrey(t *testing.T) {
	onPaths(t, func(t *testing.T) {
		for _, n := range []int{0, 1, 7, 8, 9, 31, 32, 33, 63, 64, 65, 100, 210 * Width} {
			for _, mask := range []byte{0xff, 0xfe, 0x06} {
				src := noise(n, uint64(n), mask)
				dst, check := guarded(t, n)
				ToGrey(dst, src, PAL)
				check()
				for i, c := range src {
					if dst[i] != PAL.Grey[c] {
						t.Fatalf("pixel %d of %d, colour %d: grey %d, want %d", i, n, c, dst[i], PAL.Grey[c])
					}
				}
				ToGrey(src, src, PAL)
				if !bytes.Equal(src, dst) {
					t.Fatalf("%d pixels: in place the greys differ", n)
				}
			}
		}
		ToGrey(nil, nil, NTSC)
	})
}

func TestToRGB(t *testing.T) {
	for _, n := range []int{0, 1, 3, 4, 5, 11, 210 * Width} {
		src := noise(n, uint64(n), 0xff)
		dst, check := guarded(t, 3*n)
		ToRGB(dst, src, PAL)
		check()
		for i, c := range src {
			if [3]uint8(dst[3*i:]) != PAL.RGB[c] {
				t.Fatalf("pixel %d of %d, colour %d: %v, want %v", i, n, c, dst[3*i:3*i+3], PAL.RGB[c])
			}
		}
	}
}

func TestAveragesEqualALE(t *testing.T) {
	want := golden(t)
	for _, c := range []struct {
		name string
		p    *Palette
		step int // the golden NTSC pairs have even bytes
	}{{"averages ntsc", NTSC, 2}, {"averages pal", PAL, 1}} {
		var a, b []byte
		for i := 0; i < 256; i += c.step {
			for j := 0; j < 256; j += c.step {
				a, b = append(a, byte(i)), append(b, byte(j))
			}
		}
		blend := NewBlend(c.p)
		dst, check := guarded(t, len(a))
		blend.Average(dst, a, b)
		check()
		if got := sum(dst); got != want[c.name] {
			t.Errorf("%s: sum %s, ALE's is %s", c.name, got, want[c.name])
		}
		blend.Average(a, a, b)
		if !bytes.Equal(a, dst) {
			t.Errorf("%s: in place the averages differ", c.name)
		}
	}
}

func TestCallsDoNotAllocate(t *testing.T) {
	r, err := newResizer(210, 84, 84)
	if err != nil {
		t.Fatal(err)
	}
	a, b := noise(210*Width, 1, 0xff), noise(210*Width, 2, 0xff)
	small, grey, rgb := make([]byte, r.length()), make([]byte, len(a)), make([]byte, 3*len(a))
	blend := NewBlend(NTSC)
	onPaths(t, func(t *testing.T) {
		for name, f := range map[string]func(){
			"ToGrey":  func() { ToGrey(grey, a, NTSC) },
			"ToRGB":   func() { ToRGB(rgb, a, NTSC) },
			"Average": func() { blend.Average(grey, a, b) },
			"resize":  func() { r.maxGreyResize(small, a, b, &NTSC.Grey) },
		} {
			if n := testing.AllocsPerRun(10, f); n != 0 {
				t.Errorf("%s allocates %v times per call", name, n)
			}
		}
	})
}

func TestWrongLengthsPanic(t *testing.T) {
	blend := NewBlend(NTSC)
	panics(t, "dst has 3 bytes, src 4", func() { ToGrey(make([]byte, 3), make([]byte, 4), NTSC) })
	panics(t, "dst has 11 bytes, src 4", func() { ToRGB(make([]byte, 11), make([]byte, 4), NTSC) })
	panics(t, "dst has 4 bytes, the images 4 and 5", func() { blend.Average(make([]byte, 4), make([]byte, 4), make([]byte, 5)) })
	panics(t, "dst has 4 bytes, the images 3 and 4", func() { blend.Average(make([]byte, 4), make([]byte, 3), make([]byte, 4)) })
}
