// Package limits checks what something is about to allocate against what the process may
// still use. Go's runtime ends the process where memory cannot be had, and the process
// is the host's: whatever grows with a setting, an argument or a file is summed up and
// admitted before any of it is allocated.
package limits

import (
	"fmt"
	"math"
	"runtime/debug"
	"runtime/metrics"

	"github.com/paceline-rl/paceline/core/fault"
)

// small is what is admitted without a look: less than Go's heap grows by.
const small = 1 << 20

// Part is memory that something will take, and the setting that decides about it.
type Part struct {
	Setting string // "buffer_size: 1000000"
	Bytes   int64
}

// Admit refuses, by a *fault.Memory, parts for which there is not memory enough. The
// sentence names the largest of them.
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
	free, what := available()
	if total > free/2 {
		// What was freed before may not have gone back yet, and where all that is available
		// is to be used, what others take meanwhile must not be what is missing.
		debug.FreeOSMemory()
		free, what = available()
	}
	if total <= free {
		return nil
	}
	of := ""
	if len(parts) > 1 {
		of = fmt.Sprintf(" of %s in all", Size(total))
	}
	return &fault.Memory{Text: fmt.Sprintf("%s needs %s%s of memory, %s are available (%s)", largest.Setting, Size(largest.Bytes), of, Size(free), what)}
}

// Collect lets Go's garbage collector keep to a limit of the address space: without it
// the heap grows to twice what is in use, and the process ends where that cannot be
// had. It is called after something large was allocated. Where GOMEMLIMIT is lower, that
// stands.
func Collect() {
	left, what := addressSpace(here, 0)
	if what == "" {
		return
	}
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
	metrics.Read(sample)
	debug.SetMemoryLimit(min(given, int64(sample[0].Value.Uint64())+left))
}

// given is the limit that the environment set, or none.
var given = debug.SetMemoryLimit(-1)
