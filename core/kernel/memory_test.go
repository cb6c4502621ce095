//go:build linux || darwin

package kernel

import (
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"unsafe"
)

// fences copies slices to memory next to an inaccessible page. An access beyond such a slice ends
// the test, even if the value has no effect.
type fences struct {
	t         *testing.T
	pageFirst bool // the page lies before the slices, not after them
	mapped    [][]byte
}

func (f *fences) release() {
	for _, m := range f.mapped {
		syscall.Munmap(m)
	}
	f.mapped = nil
}

func fenced[T uint8 | float32](f *fences, s *[]T) {
	if len(*s) == 0 {
		return
	}
	page := os.Getpagesize()
	size := len(*s) * int(unsafe.Sizeof((*s)[0]))
	body := (size + page - 1) / page * page
	memory, err := syscall.Mmap(-1, 0, body+page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		f.t.Fatal(err)
	}
	f.mapped = append(f.mapped, memory)
	fence, at := memory[body:], memory[body-size:]
	if f.pageFirst {
		fence, at = memory[:page], memory[page:]
	}
	if err := syscall.Mprotect(fence, syscall.PROT_NONE); err != nil {
		f.t.Fatal(err)
	}
	to := unsafe.Slice((*T)(unsafe.Pointer(&at[0])), len(*s))
	copy(to, *s)
	*s = to
}

// No call reads or writes a byte beyond a slice, workspaces included.
func TestNoAccessBeyondSlices(t *testing.T) {
	eachPath(t, func(t *testing.T, p Precision) {
		for _, pageFirst := range []bool{false, true} {
			r := rand.New(rand.NewPCG(24, 25))
			f := &fences{t: t, pageFirst: pageFirst}
			for i, s := range convShapes {
				if products(s.n, s.c) > 1_000_000 { // mapping their workspaces takes too long
					continue
				}
				k := newConvData(s.n, s.c, r).with(i%2 == 0 || s.c.InC == 4, i/2%2 == 0, p)
				k.eachSlice(func(s *[]float32) { fenced(f, s) })
				fenced(f, &k.x8)
				k.run()
				f.release()
			}
			for _, in := range []int{1, 3, 17, 64, 100} {
				for _, out := range []int{1, 2, 9, 33} {
					k := newDenseCase(1+r.IntN(20), Dense{In: in, Out: out, ReLU: true, Precision: p, Tiled: out%2 == 1}, r)
					for _, s := range []*[]float32{&k.x, &k.w, &k.b, &k.y, &k.dy, &k.out, &k.dw, &k.db, &k.dx, &k.ws} {
						fenced(f, s)
					}
					k.run()
					f.release()
				}
			}
			eachNorm(func(i int, c Norm) {
				k := newNormCase(1+i%10, c, r)
				for _, s := range []*[]float32{&k.x, &k.scale, &k.bias, &k.dy, &k.y, &k.statistics, &k.dscale, &k.dbias, &k.dx, &k.ws} {
					fenced(f, s)
				}
				k.run()
				f.release()
			})
			for _, n := range lengths[1:] {
				arrays := updateArrays(n).slices(n)
				theta, grad, s1, s2 := arrays["theta"], arrays["grad"], arrays["s1"], arrays["s2"]
				for _, s := range []*[]float32{&theta, &grad, &s1, &s2} {
					fenced(f, s)
				}
				for _, update := range updates {
					update(theta, grad, s1, s2)
				}
				SumSquares(nil, theta)
				f.release()
			}
		}
	})
}
