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

// fusedAllowed are functions whose fused products do not change the results of a run.
var fusedAllowed = []string{
	"core/kernel.refSumSquares", "core/kernel.sumOfSquares", // exact: float32 products in float64
	"core/nn/cpu.flop", // counts operations, for benchmarks
}

// A run has the same bits on every processor. Go's compiler fuses a product and an addition,
// without rounding the product, on arm64 but not on amd64. An explicit float64(x*y) or float32(x*y)
// prevents it, so all float code of a run has one.
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
		t.Errorf("%d products in the listing: the test does not understand the listing", products)
	}
	for f, n := range seen {
		helper := strings.Contains(f, "/envtest.") || strings.Contains(f, "/nntest.") || strings.Contains(f, "/traintest")
		if !helper && !slices.ContainsFunc(fusedAllowed, func(p string) bool { return strings.HasPrefix(f, p) }) {
			t.Errorf("%s: %d fused products on arm64; write float64(x*y) or float32(x*y) where it is added", f, n)
		}
	}
}
