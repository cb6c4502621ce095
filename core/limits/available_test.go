package limits

import (
	"runtime"
	"testing"
	"testing/fstest"
)

// Keys of the test's maps for the memory of the machine.
const freeRAM, totalRAM = resource(100), resource(101)

func TestAvailable(t *testing.T) {
	files := func(kv ...string) fstest.MapFS {
		fs := fstest.MapFS{}
		for i := 0; i < len(kv); i += 2 {
			fs[kv[i]] = &fstest.MapFile{Data: []byte(kv[i+1])}
		}
		return fs
	}
	const meminfo = "MemTotal: 900 kB\nMemFree: 100 kB\nMemAvailable:    700 kB\n"
	const threadless = 1_000_000_000 - 200_000*1024 + 5 - headroom
	const cgroup, machine = "memory limit of the control group", "free memory of the machine"
	for name, c := range map[string]struct {
		fs     fstest.MapFS
		want   int64
		what   string
		limits map[resource]int64
	}{
		"nothing known": {files(), 1<<63 - 1, "no limit", nil},
		"no group":      {files("proc/meminfo", meminfo), 700 * 1024, machine, nil},
		"v2, the parent is tighter": {files("proc/meminfo", meminfo, "proc/self/cgroup", "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max", "max\n", "sys/fs/cgroup/a/b/memory.current", "5\n",
			"sys/fs/cgroup/a/memory.max", "1000\n", "sys/fs/cgroup/a/memory.current", "600\n",
			"sys/fs/cgroup/a/memory.stat", "anon 400\ninactive_file 150\n"), 550, cgroup, nil},
		"v2, the host's path inside a container": {files("proc/meminfo", meminfo, "proc/self/cgroup", "0::/../x\n",
			"sys/fs/cgroup/memory.max", "5000\n", "sys/fs/cgroup/memory.current", "6000\n"), 0, cgroup, nil},
		"v1": {files("proc/meminfo", meminfo, "proc/self/cgroup", "3:cpu:/q\n2:cpuset,memory:/job\n",
			"sys/fs/cgroup/memory/job/memory.limit_in_bytes", "4000\n", "sys/fs/cgroup/memory/job/memory.usage_in_bytes", "1000\n"), 3000, cgroup, nil},
		"v1 without a limit": {files("proc/meminfo", meminfo, "proc/self/cgroup", "2:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n", "sys/fs/cgroup/memory/memory.usage_in_bytes", "1000\n"), 700 * 1024, machine, nil},
		"address space": {files("proc/meminfo", "MemAvailable: 9000000 kB\n",
			"proc/self/status", "VmSize:\t  200000 kB\nThreads:\t100000\n"), threadless, "limit of the address space", map[resource]int64{addresses: 1_000_000_000}},
		"address space, threads to come": {files("proc/meminfo", "MemAvailable: 9000000 kB\n",
			"proc/self/status", "VmSize:\t  200000 kB\nThreads:\t1\n"), threadless - threadless/4, "limit of the address space", map[resource]int64{addresses: 1_000_000_000}},
		"data segment, all of it used": {files(
			"proc/self/status", "VmSize: 9 kB\nVmData: 2000 kB\n"), 0, "limit of the data segment", map[resource]int64{data: 1_000_000}},
		"address space, no /proc":       {files(), 600_000_000 + 5 - headroom - min((600_000_000+5-headroom)/4, int64(2*runtime.GOMAXPROCS(0)+6)*perThread), "limit of the address space", map[resource]int64{addresses: 1_000_000_000}},
		"no /proc/meminfo, free memory": {files("sys/fs/cgroup/memory.max", "max\n"), 5000, "memory of the machine, without /proc/meminfo at least half of it", map[resource]int64{freeRAM: 5000, totalRAM: 8000}},
		"no /proc/meminfo, half in use": {files(), 4000, "memory of the machine, without /proc/meminfo at least half of it", map[resource]int64{freeRAM: 100, totalRAM: 8000}},
		"no /proc, a container's group": {files("sys/fs/cgroup/memory.max", "3000\n", "sys/fs/cgroup/memory.current", "1000\n"), 2000, cgroup, map[resource]int64{totalRAM: 80000}},
		"garbage": {files("proc/meminfo", "MemAvailable: lots\n", "proc/self/cgroup", "::\nx\n\n0::/\n",
			"sys/fs/cgroup/memory.max", ""), 1<<63 - 1, "no limit", nil},
	} {
		machine := system{
			c.fs,
			func() (int64, int64) { return c.limits[freeRAM], c.limits[totalRAM] },
			func(r resource) (int64, bool) { most, ok := c.limits[r]; return most, ok },
			func(most int64) int64 { return most - 400_000_000 },
		}
		if n, what := available(machine, 5); n != c.want || what != c.what {
			t.Errorf("%s: %d, %s; want %d, %s", name, n, what, c.want, c.what)
		}
	}
	if n, _ := Available(); n <= 0 {
		t.Errorf("this machine has %d bytes", n)
	}
}

// Without an rlimit, mappable returns its argument, up to its precision.
func TestMappable(t *testing.T) {
	const limit = 1 << 30
	if got := thisSystem.mappable(limit); got < limit-2<<20 || got > limit {
		t.Errorf("mappable(%d) without an rlimit is %d", int64(limit), got)
	}
	if free, total := thisSystem.ram(); total > 0 && (free <= 0 || free > total) {
		t.Errorf("%d of %d bytes are free", free, total)
	}
}
