//go:build !linux

package threads

import "time"

// Usage tells nothing on this system.
func Usage() (computed, queued time.Duration, ok bool) { return 0, 0, false }
