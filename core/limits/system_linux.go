package limits

import (
	"math"
	"os"
	"syscall"
)

var thisSystem = system{os.DirFS("/"), ram, rlimit, mappable}

func ram() (free, total int64) {
	var info syscall.Sysinfo_t
	if syscall.Sysinfo(&info) != nil {
		return 0, 0
	}
	unit := int64(info.Unit)
	return (int64(info.Freeram) + int64(info.Bufferram)) * unit, int64(info.Totalram) * unit
}

func rlimit(r resource) (int64, bool) {
	var l syscall.Rlimit
	which := map[resource]int{addresses: syscall.RLIMIT_AS, data: syscall.RLIMIT_DATA}[r]
	if syscall.Getrlimit(which, &l) != nil || l.Cur > math.MaxInt64 {
		return 0, false
	}
	return int64(l.Cur), true
}

// mappable maps and unmaps memory, by bisection. A private mapping counts against both limits even
// if it is never touched.
func mappable(limit int64) int64 {
	const precision = 1 << 20
	low, high := int64(0), limit
	for high-low > precision {
		middle := low + (high-low)/2
		if m, err := syscall.Mmap(-1, 0, int(middle), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON|syscall.MAP_NORESERVE); err == nil {
			syscall.Munmap(m)
			low = middle
		} else {
			high = middle
		}
	}
	return low
}
