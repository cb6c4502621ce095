package core_test

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// fusedAllowed are the functions whose fused products change no result of a run.
var fusedAllowed = []string{
	"core/kernel.refSumSquares", "core/kernel.sumOfSquares", // products of two float32 in float64 are exact
	"core/nn.Spec.flop", // counts of operations, for benchmarks
}

// Go's compiler adds a product without rounding it first where the processor can, as
// arm64 and not amd64. Whatever computes with floats in a run says float64(x*y) or
// float32(x*y), which forbids it: a run has the same bits everywhere.
func TestNothingIsFused(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles for arm64")
	}
	cmd := exec.Command("go", "build", "-gcflags="+module+"/core/...=-S", "./...")
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0")
	listing, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, listing[max(0, len(listing)-2000):])
	}
	text, fused, products := regexp.MustCompile(`^(\S+) STEXT`), regexp.MustCompile(`\tF(N?M(ADD|SUB))[SD]\t`), 0
	function, seen := "", map[string]int{}
	for line := range bytes.Lines(listing) {
		if m := text.FindSubmatch(line); m != nil {
			function = strings.TrimPrefix(string(m[1]), module+"/")
		}
		if bytes.Contains(line, []byte("\tFMULD\t")) {
			products++
		}
		if fused.Match(line) {
			seen[function]++
		}
	}
	if products < 50 {
		t.Errorf("%d products in the listing: it is not what this test reads", products)
	}
	for f, n := range seen {
		helper := strings.Contains(f, "/envtest.") || strings.Contains(f, "/traintest")
		if !helper && !slices.ContainsFunc(fusedAllowed, func(p string) bool { return strings.HasPrefix(f, p) }) {
			t.Errorf("%s: %d fused products on arm64; write float64(x*y) or float32(x*y) where it is added", f, n)
		}
	}
}
