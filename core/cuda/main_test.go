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

// The tests of the driver calls run on the software device. In a child process, the environment
// variable mode has the name of the scenario to run (errors_test.go).
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

// compiler returns a command of the C compiler.
func compiler(args ...string) *exec.Cmd {
	words := strings.Fields(cmp.Or(os.Getenv("CC"), "cc"))
	return exec.Command(words[0], append(words[1:], args...)...)
}

// needSoftwareDevice skips a test that needs calls to fail on request, or a log of the calls.
func needSoftwareDevice(t *testing.T) {
	t.Helper()
	cudatest.Need(t)
	if os.Getenv(mode) == "gpu" {
		t.Skip("left out: needs the software device")
	}
}

// openDevice returns a device that is closed after the test.
func openDevice(t *testing.T) *Device {
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

// runScenario runs a scenario in a separate process and returns its report.
func runScenario(t *testing.T, scenario string, environment ...string) string {
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
