//go:build cgo && amd64

package screen

import (
	"os"
	"os/exec"
	"testing"

	"github.com/paceline-rl/paceline/core/cpu"
)

// PACELINE_ISA selects the C code, as in the rest of the library. It is read at the start of a
// program, so each value needs a process.
func TestEnvironmentVariable(t *testing.T) {
	if want, ok := os.LookupEnv("SCREEN_TEST_WANT"); ok {
		if (want == "c") != useNative {
			t.Fatalf("C code: %v, want %s", useNative, want)
		}
		return
	}
	for _, path := range cpu.Paths() {
		want := "c"
		if path == cpu.Generic || path == cpu.Go {
			want = "go"
		}
		cmd := exec.Command(os.Args[0], "-test.run=^TestEnvironmentVariable$")
		cmd.Env = append(os.Environ(), "PACELINE_ISA="+path, "SCREEN_TEST_WANT="+want)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("PACELINE_ISA=%s: %v\n%s", path, err, out)
		}
	}
}

type path struct {
	name string
	use  func() (undo func())
}

func paths() []path {
	use := func(native bool) func() func() {
		return func() func() {
			old := useNative
			useNative = native
			return func() { useNative = old }
		}
	}
	if !useNative {
		return []path{{"go", use(false)}}
	}
	return []path{{"c", use(true)}, {"go", use(false)}}
}

// onGo runs f on the Go path.
func onGo(f func()) {
	old := useNative
	useNative = false
	defer func() { useNative = old }()
	f()
}
