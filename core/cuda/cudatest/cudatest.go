// Package cudatest lets a test program run on core/cuda/software, a libcuda.so.1 for machines
// without a GPU.
package cudatest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// Mode is the environment variable that says what a test program of the CUDA side runs on: ""
// at first, "software" behind Start, "gpu" where the machine's own driver is to be used,
// "missing: ..." where there is neither.
const Mode = "PACELINE_CUDA_TEST"

// Emulator is the environment variable with the words before a program of this architecture,
// where the machine has another.
const Emulator = "PACELINE_CUDA_EMULATOR"

// Start, called in an init, starts the program anew with the software device, which the dynamic
// linker finds by LD_LIBRARY_PATH, where Mode is not set. It returns what Mode is. The
// device is built into build/cuda/software, or is in the folder that PACELINE_SOFTWARE names.
func Start() string {
	if is := os.Getenv(Mode); is != "" {
		return is
	}
	folder := os.Getenv("PACELINE_SOFTWARE")
	if folder == "" {
		_, here, _, _ := runtime.Caller(0)
		root := filepath.Join(filepath.Dir(here), "../../..")
		folder = filepath.Join(root, "build/cuda/software")
		if out, err := exec.Command("sh", filepath.Join(root, "core/cuda/software/build.sh"), folder).CombinedOutput(); err != nil {
			missing := fmt.Sprintf("missing: the software device was not built: %v %s", err, out)
			os.Setenv(Mode, missing)
			return missing
		}
	}
	os.Setenv(Mode, "software")
	os.Setenv("PACELINE_SOFTWARE", folder)
	os.Setenv("LD_LIBRARY_PATH", folder+":"+os.Getenv("LD_LIBRARY_PATH"))
	program, err := os.Executable()
	if err == nil {
		c := Command(program, os.Args[1:]...)
		err = syscall.Exec(c.Path, c.Args, os.Environ())
	}
	panic(err)
}

// Need skips a test where Start has found no device to run it on.
func Need(t testing.TB) {
	t.Helper()
	if why, missing := strings.CutPrefix(os.Getenv(Mode), "missing: "); missing {
		t.Skip("left out: " + why)
	}
}

// Command is exec.Command for a program of this architecture: behind the
// words of Emulator.
func Command(program string, args ...string) *exec.Cmd {
	words := append(strings.Fields(os.Getenv(Emulator)), program)
	return exec.Command(words[0], append(words[1:], args...)...)
}
