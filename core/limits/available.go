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

// Available returns how many bytes more this process may use, and what sets that
// limit: the smallest of the kernel's MemAvailable, what each enclosing control group
// (version 1 or 2) leaves, and what RLIMIT_AS and RLIMIT_DATA leave of the address
// space. Where /proc is not there (a chroot, ProcSubset=pid), system calls answer instead,
// less exactly. What cannot be known is no limit.
func Available() (bytes int64, what string) { return available(here, idle()) }

// system is what Available asks.
type system struct {
	files    fs.FS
	ram      func() (free, total int64)   // bytes of the machine, page cache not free; 0, 0: not known
	limit    func(resource) (int64, bool) // a limit of the process; false: none
	mappable func(most int64) int64       // the largest mapping that the process may still make, up to most bytes
}

// resource is a limit of the process's own mappings.
type resource int

const (
	addresses resource = iota // RLIMIT_AS
	data                      // RLIMIT_DATA
)

func available(s system, idle int64) (int64, string) {
	root := s.files
	best, what := int64(math.MaxInt64), "no limit"
	if kb, ok := field(root, "proc/meminfo", "MemAvailable:"); ok {
		best, what = kb*1024, "free memory of the machine"
	} else if free, total := s.ram(); total > 0 {
		// How much of the page cache could be given up is not known.
		best, what = max(free, total/2), "memory of the machine, without /proc/meminfo at least half of it"
	}
	if left, limit := addressSpace(s, idle); left < best {
		best, what = left, limit
	}
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		groups = []byte("0::/\n1:memory:/\n") // a container's own
	}
	for line := range strings.Lines(string(groups)) {
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
		// In a container the path may be the host's and exist only as its root.
		for p := path.Clean("/" + part[2]); ; p = path.Dir(p) {
			dir := path.Join(mount, p)
			most, ok1 := field(root, path.Join(dir, limit), "")
			used, ok2 := field(root, path.Join(dir, usage), "")
			if ok1 && ok2 {
				cached, _ := field(root, path.Join(dir, "memory.stat"), cache) // given up under pressure
				if left := max(0, most-max(0, used-cached)); left < best {
					best, what = left, "memory limit of the control group"
				}
			}
			if p == "/" {
				break
			}
		}
	}
	return best, what
}

// idle is what Go's heap has mapped and does not use.
func idle() int64 {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64() + samples[1].Value.Uint64())
}

const (
	// headroom is address space that is left alone: what Go's heap, which grows in steps of
	// 64 MB, and the collector take beyond what they are asked for.
	headroom = 192 << 20
	// perThread is a stack and, up to eight for each processor, an arena of the C library,
	// which a thread maps when it first frees something.
	perThread = (8 + 64) << 20
)

// addressSpace returns what the limits of the process's own mappings leave, idle bytes of
// which are to be had again, less what Go's runtime and the C library map beside what they
// are asked for: headroom, and the threads that Go may still start, these at most a quarter
// of what is left, as most processes end without them.
func addressSpace(s system, idle int64) (int64, string) {
	best, what := int64(math.MaxInt64), ""
	threads, _ := field(s.files, "proc/self/status", "Threads:")
	// Go's: one for each processor and one that waits in a call, and six of the runtime's.
	stacks := max(0, int64(2*runtime.GOMAXPROCS(0)+6)-threads) * perThread
	for _, l := range []struct {
		resource
		used, what string
	}{
		{addresses, "VmSize:", "limit of the address space"},
		{data, "VmData:", "limit of the data segment"},
	} {
		most, ok := s.limit(l.resource)
		if !ok {
			continue
		}
		left := int64(0)
		if kb, ok := field(s.files, "proc/self/status", l.used); ok {
			left = most - kb*1024
		} else {
			left = s.mappable(most)
		}
		left += idle - headroom
		if left = max(0, left-min(left/4, stacks)); left < best {
			best, what = left, l.what
		}
	}
	return best, what
}

// field returns the number after name in a file of lines "name number", or the
// number that the file starts with if name is empty. "max" is no number.
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

// Size writes a number of bytes for people.
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
