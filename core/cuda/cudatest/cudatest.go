// Package cudatest runs a test program on core/cuda/software, a libcuda.so.1 for machines without a
// GPU.
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

// Mode is the environment variable that selects the driver of a test program: "gpu" is the
// machine's own driver, "software" the software device. Start sets "software" if Mode is unset, or
// "missing: reason" if the software device cannot be built.
const Mode = "PACELINE_CUDA_TEST"

// Emulator is the environment variable with the command that runs a program of this architecture on
// a machine of another one. Unset: the machine runs the program itself.
const Emulator = "PACELINE_CUDA_EMULATOR"

// Start returns the value of Mode. If Mode is unset, Start restarts the program with the software
// device, which the dynamic linker finds through LD_LIBRARY_PATH: call Start in an init. The device
// is in the folder PACELINE_SOFTWARE, or Start builds it into build/cuda/software.
func Start() string {
	if mode := os.Getenv(Mode); mode != "" {
		return mode
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

// Need skips the test if Start found no device.
func Need(t testing.TB) {
	t.Helper()
	if why, missing := strings.CutPrefix(os.Getenv(Mode), "missing: "); missing {
		t.Skip("left out: " + why)
	}
}

// Command is exec.Command for a program of this architecture. It runs the program with Emulator's
// command.
func Command(program string, args ...string) *exec.Cmd {
	words := append(strings.Fields(os.Getenv(Emulator)), program)
	return exec.Command(words[0], append(words[1:], args...)...)
}
