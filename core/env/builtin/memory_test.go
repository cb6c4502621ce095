package builtin

import (
	"runtime"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
)

// BytesOf is at least the memory that an environment uses, and at most about four times as much.
// A vector of environments is admitted by BytesOf.
func TestBytes(t *testing.T) {
	const n = 500
	for _, id := range env.IDs() {
		if strings.HasPrefix(id, prefix) {
			continue // core/atari has its own test
		}
		envs := make([]env.Env, n)
		var obs []byte
		var before, after runtime.MemStats
		for i := range n + 1 { // the first environment allocates what all share
			if i == 1 {
				runtime.GC()
				runtime.ReadMemStats(&before)
			}
			e, err := env.Make(id, nil)
			if err != nil {
				t.Fatal(err)
			}
			if obs == nil {
				obs = make([]byte, e.Spec().Obs.Bytes())
			}
			if err := e.Reset(obs); err != nil {
				t.Fatal(err)
			}
			s := e.Spec().Action
			if _, _, err := s.Step(e, make([]int32, s.Ints()), make([]float32, s.Floats()), obs); err != nil {
				t.Fatal(err)
			}
			envs[i%n] = e
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		reported, used := env.BytesOf(envs[0]), (int64(after.HeapAlloc)-int64(before.HeapAlloc))/(n-1)
		t.Logf("%s: uses %d bytes, reports %d", id, used, reported)
		if used > reported || used < reported/4-1024 {
			t.Errorf("%s uses %d bytes and reports %d", id, used, reported)
		}
	}
}
