//go:build gpu && cgo && linux

package cuda

import (
	"cmp"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/cuda/cudatest"
)

// The tests of the driver's side run with the software device. mode has the name of a scenario
// (errors_test.go) in a child that has one to run.
const mode = cudatest.Mode

func init() {
	is := cudatest.Start()
	if is == "software" || scenarios[is] != nil {
		kernels = archive(nil, "sm_90.cubin")
	}
	if scenario := scenarios[is]; scenario != nil {
		report(scenario())
		os.Exit(0)
	}
}

// compiler is the C compiler with arguments.
func compiler(args ...string) *exec.Cmd {
	words := strings.Fields(cmp.Or(os.Getenv("CC"), "cc"))
	return exec.Command(words[0], append(words[1:], args...)...)
}

// needSoftware skips a test of what only the software device does: failing where it is asked to,
// and keeping a log.
func needSoftware(t *testing.T) {
	t.Helper()
	cudatest.Need(t)
	if os.Getenv(mode) == "gpu" {
		t.Skip("left out: needs the software device")
	}
}

// opened returns a device that is closed behind the test.
func opened(t *testing.T) *Device {
	t.Helper()
	cudatest.Need(t)
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
	c := cudatest.Command(program)
	c.Env = append(append(os.Environ(), mode+"="+scenario), environment...)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("%s, %v: %v\n%s", scenario, environment, err, out)
	}
	return strings.TrimSpace(string(out))
}
