package cudatest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Calls runs do and returns the number of calls of each driver function. Functions that neither
// enqueue work nor wait are left out. Calls skips the test on any driver other than the software
// device, which logs the calls.
func Calls(t *testing.T, do func()) map[string]int {
	t.Helper()
	if os.Getenv(Mode) != "software" {
		t.Skip("left out: only the software device lists its calls")
	}
	const variable = "PACELINE_SOFTWARE_LOG"
	log := filepath.Join(t.TempDir(), "log")
	t.Setenv(variable, log) // the device reads the variable at every call
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
