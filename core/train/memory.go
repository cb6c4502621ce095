package train

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/replay"
)

// admit refuses a trainer for which there is not memory enough, before any of it is
// taken. The sentence names the largest of its parts.
func admit(parts []Allocation) error {
	var total int64
	var largest Allocation
	for _, a := range parts {
		total += a.Bytes
		if a.Bytes > largest.Bytes {
			largest = a
		}
	}
	free, what := replay.AvailableMemory()
	if total <= free {
		return nil
	}
	of := ""
	if len(parts) > 1 {
		of = fmt.Sprintf(" of %s in all", replay.Size(total))
	}
	return &fault.Memory{Text: fmt.Sprintf("%s needs %s%s of memory, %s are available (%s)", largest.Setting, replay.Size(largest.Bytes), of, replay.Size(free), what)}
}
