package builtin

import (
	"runtime"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
)

// What an environment says that it takes is what it takes, to within a factor of four
// (and some KB): on this a vector is admitted.
func TestBytes(t *testing.T) {
	const n = 500
	for _, id := range env.IDs() {
		if strings.HasPrefix(id, prefix) {
			continue // core/atari has a test of its own
		}
		envs := make([]env.Env, n)
		var obs []byte
		var before, after runtime.MemStats
		for i := range n + 1 { // the first one is made for what all share
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
			if _, _, err := e.Step(0, obs); err != nil {
				t.Fatal(err)
			}
			envs[i%n] = e
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		says, takes := env.BytesOf(envs[0]), (int64(after.HeapAlloc)-int64(before.HeapAlloc))/(n-1)
		t.Logf("%s: %d bytes, says %d", id, takes, says)
		if takes > says || takes < says/4-1024 {
			t.Errorf("%s takes %d bytes and says %d", id, takes, says)
		}
	}
}
