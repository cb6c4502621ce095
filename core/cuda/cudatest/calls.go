package cudatest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Calls returns how often do calls each function of the driver, but for those that enqueue
// nothing and wait for nothing. It skips the test where the driver is not the software device,
// which reads at every call where its log is.
func Calls(t *testing.T, do func()) map[string]int {
	t.Helper()
	if os.Getenv(Mode) != "software" {
		t.Skip("left out: only the software device lists its calls")
	}
	const variable = "PACELINE_SOFTWARE_LOG"
	log := filepath.Join(t.TempDir(), "log")
	t.Setenv(variable, log)
	do()
	os.Unsetenv(variable)
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for line := range strings.Lines(string(text)) {
		counts[strings.Fields(line)[0]]++
	}
	for _, name := range []string{"cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuThreadExchangeStreamCaptureMode", "cuStreamIsCapturing", "cuEventQuery"} {
		delete(counts, name)
	}
	return counts
}
