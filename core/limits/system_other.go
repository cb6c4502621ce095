//go:build !linux

package limits

import "os"

var thisSystem = system{
	os.DirFS("/"),
	func() (int64, int64) { return 0, 0 },
	func(resource) (int64, bool) { return 0, false },
	func(limit int64) int64 { return limit },
}
