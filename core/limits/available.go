package limits

import (
	"fmt"
	"io/fs"
	"math"
	"path"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
)

// Available returns the number of bytes that this process may still use and the name of the limit
// that sets it. It is the least of the kernel's MemAvailable, the rest of each enclosing control
// group (version 1 or 2), and the rest of RLIMIT_AS and RLIMIT_DATA. Without /proc (in a chroot, or
// with ProcSubset=pid) it uses system calls, which are less exact. An unknown limit counts as none.
func Available() (bytes int64, limit string) { return available(thisSystem, idle()) }

// system is the source of the numbers that Available uses.
type system struct {
	files    fs.FS
	ram      func() (free, total int64)   // bytes of the machine; the page cache is not free; 0, 0: unknown
	rlimit   func(resource) (int64, bool) // a limit of the process; false: none
	mappable func(limit int64) int64      // the largest possible mapping of at most limit bytes
}

// resource is a limit on the mappings of the process.
type resource int

const (
	addresses resource = iota // RLIMIT_AS
	data                      // RLIMIT_DATA
)

func available(s system, idle int64) (int64, string) {
	root := s.files
	least, name := int64(math.MaxInt64), "no limit"
	if kb, ok := field(root, "proc/meminfo", "MemAvailable:"); ok {
		least, name = kb*1024, "free memory of the machine"
	} else if free, total := s.ram(); total > 0 {
		// It is unknown how much of the page cache the kernel can reclaim.
		least, name = max(free, total/2), "memory of the machine, without /proc/meminfo at least half of it"
	}
	if left, limit := addressSpace(s, idle); left < least {
		least, name = left, limit
	}
	cgroups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		cgroups = []byte("0::/\n1:memory:/\n") // the group of a container
	}
	for line := range strings.Lines(string(cgroups)) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) != 3 {
			continue
		}
		var mount, limit, usage, cache string
		switch {
		case part[1] == "":
			mount, limit, usage, cache = "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"
		case strings.Contains(","+part[1]+",", ",memory,"):
			mount, limit, usage, cache = "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
		default:
			continue
		}
		// In a container the path may be the host's, of which only the root exists.
		for p := path.Clean("/" + part[2]); ; p = path.Dir(p) {
			dir := path.Join(mount, p)
			maximum, ok1 := field(root, path.Join(dir, limit), "")
			used, ok2 := field(root, path.Join(dir, usage), "")
			if ok1 && ok2 {
				cached, _ := field(root, path.Join(dir, "memory.stat"), cache) // the kernel reclaims it
				if left := max(0, maximum-max(0, used-cached)); left < least {
					least, name = left, "memory limit of the control group"
				}
			}
			if p == "/" {
				break
			}
		}
	}
	return least, name
}

// idle returns the bytes that Go's heap has mapped and does not use.
func idle() int64 {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64() + samples[1].Value.Uint64())
}

const (
	// headroom is the address space that Go's heap, which grows in steps of 64 MB, and the garbage
	// collector map beyond the requested memory, and that of two threads: on a busy machine Go starts
	// threads between the question and the allocation.
	headroom = 192<<20 + 2*perThread
	// perThread is a stack of 8 MB and an arena of the C library of 64 MB. A thread maps an arena
	// when it first frees memory; there are at most eight arenas for each processor.
	perThread = (8 + 64) << 20
)

// addressSpace returns how many more bytes the process may map, and the name of the limit; "" if
// there is none. It adds idle bytes, which Go reuses. It subtracts what Go's runtime and the C
// library may still map: headroom, and the memory of threads that Go may still start. These threads
// count for at most a quarter, because most processes never start them.
func addressSpace(s system, idle int64) (int64, string) {
	least, name := int64(math.MaxInt64), ""
	threads, _ := field(s.files, "proc/self/status", "Threads:")
	// Go starts a thread for each processor, another one for each that waits in a call, and six of
	// the runtime.
	stacks := max(0, int64(2*runtime.GOMAXPROCS(0)+6)-threads) * perThread
	for _, l := range []struct {
		resource
		used, name string
	}{
		{addresses, "VmSize:", "limit of the address space"},
		{data, "VmData:", "limit of the data segment"},
	} {
		maximum, ok := s.rlimit(l.resource)
		if !ok {
			continue
		}
		left := int64(0)
		if kb, ok := field(s.files, "proc/self/status", l.used); ok {
			left = maximum - kb*1024
		} else {
			left = s.mappable(maximum)
		}
		left += idle - headroom
		if left = max(0, left-min(left/4, stacks)); left < least {
			least, name = left, l.name
		}
	}
	return least, name
}

// field returns the number after name in a file of lines "name number", or the number at the start
// of the file if name is empty. The text "max" gives false.
func field(root fs.FS, file, name string) (int64, bool) {
	data, err := fs.ReadFile(root, file)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(data)) {
		words := strings.Fields(line)
		if name != "" && len(words) > 1 && words[0] == name {
			words = words[1:]
		} else if name != "" || len(words) == 0 {
			continue
		}
		n, err := strconv.ParseInt(words[0], 10, 64)
		return n, err == nil
	}
	return 0, false
}

// Size returns a number of bytes as text with a unit.
func Size(n int64) string {
	switch {
	case n >= 1e8:
		return fmt.Sprintf("%.1f GB", float64(n)/1e9)
	case n >= 1e5:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	default:
		return fmt.Sprintf("%d bytes", n)
	}
}
