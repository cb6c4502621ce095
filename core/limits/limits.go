// Package limits compares the memory that a call needs with the memory that the process may still
// use. Go's runtime ends the process if an allocation fails, and the process is the host's.
// Therefore all memory that grows with a setting, an argument or a file is summed up and admitted
// before any of it is allocated.
package limits

import (
	"fmt"
	"math"
	"runtime/debug"
	"runtime/metrics"

	"github.com/paceline-rl/paceline/core/fault"
)

// small is the number of bytes that Admit admits without a check. Go's heap grows in larger steps.
const small = 1 << 20

// Part is an amount of memory and the setting that determines it.
type Part struct {
	Setting string // "buffer_size: 1000000"
	Bytes   int64
}

// Admit returns a *fault.Memory if there is not enough memory for all parts. The error names the
// largest part.
func Admit(parts ...Part) error { return admit(parts, Available) }

func admit(parts []Part, available func() (int64, string)) error {
	var total int64
	var largest Part
	for _, p := range parts {
		bytes := max(0, p.Bytes)
		if total += bytes; total < 0 {
			total = math.MaxInt64
		}
		if bytes > largest.Bytes {
			largest = p
		}
	}
	if total <= small {
		return nil
	}
	bytes, limit := available()
	if total > bytes/2 {
		// Freed memory may not have been returned to the system yet. Without it, a call that needs
		// almost all available memory could fail.
		debug.FreeOSMemory()
		bytes, limit = available()
	}
	if total <= bytes {
		return nil
	}
	all := ""
	if len(parts) > 1 {
		all = fmt.Sprintf(" (%s in all)", Size(total))
	}
	return &fault.Memory{Text: fmt.Sprintf("%s needs %s of memory%s, %s are available (%s)", largest.Setting, Size(largest.Bytes), all, Size(bytes), limit)}
}

// Collect makes Go's garbage collector respect a limit of the address space. Otherwise the heap
// grows to twice the memory in use, and the process ends at the limit. It must be called after a
// large allocation. A lower GOMEMLIMIT remains in force.
func Collect() {
	bytes, limit := addressSpace(thisSystem, 0)
	if limit == "" {
		return
	}
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
	metrics.Read(sample)
	debug.SetMemoryLimit(min(goMemLimit, int64(sample[0].Value.Uint64())+bytes))
}

// goMemLimit is GOMEMLIMIT, or the largest number.
var goMemLimit = debug.SetMemoryLimit(-1)
