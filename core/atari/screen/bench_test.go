package screen

import "testing"

// benchImages returns two kinds of images: "game" has flat areas, repeated rows and a few moving
// objects, as real images have; "noise" is random.
func benchImages(rows int) map[string][2][]byte {
	return map[string][2][]byte{
		"game":  {gameImage(rows, 1), gameImage(rows, 2)},
		"noise": {noise(rows*Width, 1, 0xfe), noise(rows*Width, 2, 0xfe)},
	}
}

// gameImage returns an image with bands of two rows, a wall on each side and objects that move with
// phase.
func gameImage(rows, phase int) []byte {
	p := make([]byte, rows*Width)
	r := splitmix(7)
	band := make([]byte, Width)
	for y := range rows {
		if y%2 == 0 {
			for x := range band {
				if x%8 == 0 {
					r.next()
				}
				band[x] = 0
				if y > 40 && y < 100 {
					band[x] = byte(uint64(r)>>40) & 0x3e
				}
				if x < 8 || x >= 152 {
					band[x] = 0x8e
				}
			}
		}
		copy(p[y*Width:], band)
	}
	for i := range 10 {
		top, left := int(r.next()%uint64(rows-10)), int(r.next()%140)+3*phase
		for y := range 8 {
			shape := r.next()
			for x := range 8 {
				if shape>>x&1 == 1 {
					p[(top+y)*Width+left+x] = byte(16*i + 10)
				}
			}
		}
	}
	return p
}

func bothPaths(b *testing.B, f func(b *testing.B)) {
	for _, path := range paths() {
		b.Run(path.name, func(b *testing.B) {
			defer path.use()()
			f(b)
		})
	}
}

func BenchmarkToGrey(b *testing.B) {
	for name, p := range benchImages(210) {
		b.Run(name, func(b *testing.B) {
			bothPaths(b, func(b *testing.B) {
				dst := make([]byte, len(p[0]))
				for b.Loop() {
					ToGrey(dst, p[0], NTSC)
				}
			})
		})
	}
}

func BenchmarkToRGB(b *testing.B) {
	for name, p := range benchImages(210) {
		b.Run(name, func(b *testing.B) {
			dst := make([]byte, 3*len(p[0]))
			for b.Loop() {
				ToRGB(dst, p[0], NTSC)
			}
		})
	}
}

func BenchmarkAverage(b *testing.B) {
	blend := NewBlend(NTSC)
	for name, p := range benchImages(210) {
		b.Run(name, func(b *testing.B) {
			dst := make([]byte, len(p[0]))
			for b.Loop() {
				blend.Average(dst, p[0], p[1])
			}
		})
	}
}

func BenchmarkNewBlend(b *testing.B) {
	for b.Loop() {
		NewBlend(NTSC)
	}
}

func BenchmarkGreyResize(b *testing.B) {
	for _, s := range []struct {
		name       string
		rows, w, h int
	}{{"84x84", 210, 84, 84}, {"104x80", 208, 80, 104}, {"pal_84x84", 250, 84, 84}} {
		r, err := newResizer(s.rows, s.w, s.h)
		if err != nil {
			b.Fatal(err)
		}
		for name, p := range benchImages(s.rows) {
			b.Run(s.name+"/"+name, func(b *testing.B) {
				bothPaths(b, func(b *testing.B) {
					dst := make([]byte, r.length())
					for b.Loop() {
						r.maxGreyResize(dst, p[0], p[1], &NTSC.Grey)
					}
				})
			})
		}
	}
}

func BenchmarkObserve(b *testing.B) {
	for _, s := range []struct {
		name       string
		look       Look
		rows, h, w int
	}{
		{"grey", GreyArea, 210, 84, 84}, {"rgb", RGBArea, 210, 84, 84}, {"luma", LumaArea, 210, 84, 84},
		{"luma_pal", LumaArea, 250, 84, 84}, {"half", GreyHalf, 210, 104, 80}, {"opencv", OpenCVArea, 210, 84, 84},
	} {
		o, err := NewObserver(s.look, s.rows, s.h, s.w)
		if err != nil {
			b.Fatal(err)
		}
		for name, p := range benchImages(s.rows) {
			b.Run(s.name+"/"+name, func(b *testing.B) {
				bothPaths(b, func(b *testing.B) {
					dst := make([]byte, o.Len())
					for b.Loop() {
						o.Observe(dst, p[0], p[1], NTSC)
					}
				})
			})
		}
	}
}
