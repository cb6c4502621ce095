//go:build linux && !race

package atari

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"testing"
)

// memory returns the size of the heap, and the resident memory of the process, which includes C's.
func memory(t *testing.T) (heap, resident int) {
	t.Helper()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var total, pages int
	if _, err := fmt.Sscan(string(text), &total, &pages); err != nil {
		t.Fatal(err)
	}
	return int(m.HeapAlloc), pages * os.Getpagesize()
}

// An environment uses less than 256 KB besides its rows.
func TestEnvironmentsUseLittleMemory(t *testing.T) {
	rom := newROM(t, "amidar", livesImage())
	const n, limit = 200, 256 << 10
	for _, options := range []string{
		``, `{"recipe": "mnih2015"}`, `{"recipe": "machado2018"}`, `{"recipe": "dopamine"}`, `{"recipe": "stooke_abbeel"}`, `{"recipe": "sb3"}`, `{"obs_type": "rgb"}`,
	} {
		envs := make([]*Env, n)
		obs := make([]byte, 1<<20)
		make1 := func(i int) {
			e, err := NewEnv(rom, parse(t, options))
			if err != nil {
				t.Fatal(err)
			}
			envs[i] = e
			if err := e.Reset(obs[:e.Spec().Obs.Bytes()]); err != nil {
				t.Fatal(err)
			}
			for range 5 {
				if _, _, err := e.Step(0, obs[:e.Spec().Obs.Bytes()]); err != nil {
					t.Fatal(err)
				}
			}
		}
		make1(0) // allocates what all share
		heap, resident := memory(t)
		for i := range n {
			make1(i)
		}
		heapAfter, residentAfter := memory(t)
		each, eachResident := (heapAfter-heap)/n, (residentAfter-resident)/n
		t.Logf("%s: %d bytes of heap an environment, %d in memory", options, each, eachResident)
		if reported := int(envs[0].Bytes()); each > reported || eachResident > reported {
			t.Errorf("%s: an environment uses %d bytes of heap and %d in memory, and reports %d", options, each, eachResident, reported)
		}
		if each > limit || eachResident > limit {
			t.Errorf("%s: an environment uses %d bytes of heap and %d in memory, must be under %d", options, each, eachResident, limit)
		}
		runtime.KeepAlive(envs)
	}
}
