//go:build linux && !race

package replay

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"
)

// flags returns the kernel's flags of the mapping that starts at mem.
func flags(t *testing.T, mem []byte) string {
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	_, after, _ := strings.Cut(string(smaps), fmt.Sprintf("\n%x-", uintptr(unsafe.Pointer(&mem[0]))))
	_, after, _ = strings.Cut(after, "VmFlags:")
	line, _, _ := strings.Cut(after, "\n")
	if line == "" {
		t.Skip("the kernel does not say")
	}
	return line + " "
}

// Mapped memory is charged only when used and is not inherited by children, also after it has grown
// and moved.
func TestMappingFlags(t *testing.T) {
	mem := must(allocate(64 << 20))
	mem[5] = 7
	for range 2 {
		f := flags(t, mem)
		for _, want := range []string{" dc ", " nr "} {
			if !strings.Contains(f, want) {
				t.Errorf("flags%s lack%s", f, want)
			}
		}
		mem = must(extend(mem, int64(2*len(mem))))
		if mem[5] != 7 || mem[len(mem)-1] != 0 {
			t.Error("contents lost")
		}
	}
	release(mem)
}
