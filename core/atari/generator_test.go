package atari

import (
	"sync"
	"testing"
)

// The expected numbers are those of the authors and of C++'s mt19937.
func TestGeneratorIsMT19937(t *testing.T) {
	g := newGenerator(5489)
	for i, want := range []uint32{3499211612, 581869302, 3890346734, 3586334585, 545404204, 4161255391} {
		if got := g.draw(); got != want {
			t.Errorf("draw %d is %d, want %d", i, got, want)
		}
	}
	g = newGenerator(5489)
	var last uint32
	for range 10000 {
		last = g.draw()
	}
	if last != 4123659995 {
		t.Errorf("draw 10000 is %d, want 4123659995", last)
	}
	g = newGenerator(1)
	if got := g.draw(); got != 1791095845 {
		t.Errorf("the first draw with seed 1 is %d, want 1791095845", got)
	}
	g = newGenerator(1)
	if got := g.uniform(); got != 1791095845.0/4294967296.0 {
		t.Errorf("uniform is %v", got)
	}
	a, b := newGenerator(7), newGenerator(7)
	for range 700 {
		a.draw()
	}
	b = a // a copy is independent
	for range 1300 {
		if a.draw() != b.draw() {
			t.Fatal("a copy of a generator draws other numbers")
		}
	}
}

func TestGoroutinesShareHardwareDraws(t *testing.T) {
	g := newGenerator(hardwareSeed)
	var want []uint32
	for range 3000 {
		want = append(want, g.draw())
	}
	var together sync.WaitGroup
	for k := range 8 {
		together.Go(func() {
			for n := range 3000 {
				i := (n*7 + k*311) % 3000
				if got := hardwareDraw(i); got != want[i] {
					t.Errorf("draw %d is %d, want %d", i, got, want[i])
					return
				}
			}
		})
	}
	together.Wait()
}
