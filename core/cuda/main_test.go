//go:build gpu && cgo && linux

package cuda

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The tests of the driver's side run with core/cuda/software, a libcuda.so.1 for machines
// without a GPU, which the dynamic linker finds by LD_LIBRARY_PATH: so this program starts
// itself again with that. PACELINE_CUDA_TEST: "" at first, "software" behind that, "gpu"
// where the machine's own driver is to be used, "missing: ..." where there is neither, and the
// name of a scenario (errors_test.go) in a child that has one to run. PACELINE_CUDA_EMULATOR: the
// words before a program of this architecture, where the machine has another.
const mode = "PACELINE_CUDA_TEST"

func init() {
	is := os.Getenv(mode)
	if is == "" {
		is = again()
	}
	if is == "software" || scenarios[is] != nil {
		kernels = archive(nil, "sm_90.cubin")
	}
	if scenario := scenarios[is]; scenario != nil {
		report(scenario())
		os.Exit(0)
	}
}

// again starts this program anew with the software device. It returns only where there is none.
func again() string {
	folder := os.Getenv("PACELINE_SOFTWARE")
	if folder == "" {
		folder, _ = filepath.Abs("../../build/cuda/software")
		if out, err := exec.Command("sh", "software/build.sh", folder).CombinedOutput(); err != nil {
			missing := fmt.Sprintf("missing: the software device was not built: %v %s", err, out)
			os.Setenv(mode, missing)
			return missing
		}
	}
	os.Setenv(mode, "software")
	os.Setenv("PACELINE_SOFTWARE", folder)
	os.Setenv("LD_LIBRARY_PATH", folder+":"+os.Getenv("LD_LIBRARY_PATH"))
	program, err := os.Executable()
	if err == nil {
		c := command(program, os.Args[1:]...)
		err = syscall.Exec(c.Path, c.Args, os.Environ())
	}
	panic(err)
}

// command is exec.Command, under the emulator where there is one.
func command(program string, args ...string) *exec.Cmd {
	words := append(strings.Fields(os.Getenv(emulator)), program)
	return exec.Command(words[0], append(words[1:], args...)...)
}

// compiler is the C compiler with arguments.
func compiler(args ...string) *exec.Cmd {
	words := strings.Fields(cmp.Or(os.Getenv("CC"), "cc"))
	return exec.Command(words[0], append(words[1:], args...)...)
}

// needDevice skips a test where there is no device to run it on.
func needDevice(t *testing.T) {
	t.Helper()
	if why, missing := strings.CutPrefix(os.Getenv(mode), "missing: "); missing {
		t.Skip("left out: " + why)
	}
}

// opened returns a device that is closed behind the test.
func opened(t *testing.T) *Device {
	t.Helper()
	needDevice(t)
	d, err := Open(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// child runs a scenario in a process of its own and returns what it reports.
func child(t *testing.T, scenario string, environment ...string) string {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := command(program)
	c.Env = append(append(os.Environ(), mode+"="+scenario), environment...)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("%s, %v: %v\n%s", scenario, environment, err, out)
	}
	return strings.TrimSpace(string(out))
}
