package replay

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"strconv"
	"strings"
)

// AvailableMemory returns how many bytes more this process may use, and what
// sets that limit: the smallest of the kernel's MemAvailable and what each
// enclosing control group (version 1 or 2) leaves. Where neither can be read
// there is no limit.
func AvailableMemory() (bytes int64, what string) { return availableMemory(os.DirFS("/")) }

func availableMemory(root fs.FS) (int64, string) {
	best, what := int64(math.MaxInt64), "no limit"
	if kb, ok := field(root, "proc/meminfo", "MemAvailable:"); ok {
		best, what = kb*1024, "free memory of the machine"
	}
	groups, _ := fs.ReadFile(root, "proc/self/cgroup")
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
