package threads

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// mask returns the cores that the calling thread may use.
func mask(t *testing.T) (cores []int) {
	t.Helper()
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Skip(err)
	}
	for core := range len(set) * bitsPerWord {
		if set.IsSet(core) {
			cores = append(cores, core)
		}
	}
	return cores
}

func restrict(t *testing.T, cores []int) {
	t.Helper()
	var set unix.CPUSet
	for _, core := range cores {
		set.Set(core)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		t.Skip(err)
	}
}

// If a process may use some of the machine's cores only, Pin chooses among them.
func TestPinStaysOnTheCoresGiven(t *testing.T) {
	runtime.LockOSThread() // never unlocked: the thread and its mask end with the goroutine
	all := mask(t)
	for bits := 1; bits < 1<<min(len(all), 6); bits++ {
		var given []int
		for i := range min(len(all), 6) {
			if bits>>i&1 != 0 {
				given = append(given, all[i])
			}
		}
		restrict(t, given)
		for k := range 2*len(given) + 1 {
			undo := Pin(k)
			if got := mask(t); len(got) != 1 || got[0] != given[k%len(given)] {
				t.Errorf("cores %v given, Pin(%d): on %v, want %d", given, k, got, given[k%len(given)])
			}
			undo()
			if got := mask(t); len(got) != len(given) || got[0] != given[0] {
				t.Errorf("cores %v given, after undo %v", given, got)
			}
		}
		restrict(t, all)
	}
}

// nth equals a plain list, on random sets.
func TestNthCore(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		var set unix.CPUSet
		var list []int
		for core := range len(set) * bitsPerWord {
			if r.IntN(1+r.IntN(100)) == 0 {
				set.Set(core)
				list = append(list, core)
			}
		}
		for range 20 {
			if k := r.IntN(3000); len(list) > 0 && nth(&set, k) != list[k%len(list)] {
				t.Fatalf("core %d of %v: %d, want %d", k, list, nth(&set, k), list[k%len(list)])
			}
		}
	}
}
