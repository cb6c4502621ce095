//go:build !linux

package bench

import "time"

func wait(cost time.Duration) { time.Sleep(cost) }
