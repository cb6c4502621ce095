package limits

import (
	"testing"
	"testing/fstest"
)

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
	const group, machine = "memory limit of the control group", "free memory of the machine"
	for name, c := range map[string]struct {
		fs   fstest.MapFS
		want int64
		what string
	}{
		"nothing known": {files(), 1<<63 - 1, "no limit"},
		"no group":      {files("proc/meminfo", meminfo), 700 * 1024, machine},
		"v2, the parent is tighter": {files("proc/meminfo", meminfo, "proc/self/cgroup", "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max", "max\n", "sys/fs/cgroup/a/b/memory.current", "5\n",
			"sys/fs/cgroup/a/memory.max", "1000\n", "sys/fs/cgroup/a/memory.current", "600\n",
			"sys/fs/cgroup/a/memory.stat", "anon 400\ninactive_file 150\n"), 550, group},
		"v2, the host's path inside a container": {files("proc/meminfo", meminfo, "proc/self/cgroup", "0::/../x\n",
			"sys/fs/cgroup/memory.max", "5000\n", "sys/fs/cgroup/memory.current", "6000\n"), 0, group},
		"v1": {files("proc/meminfo", meminfo, "proc/self/cgroup", "3:cpu:/q\n2:cpuset,memory:/job\n",
			"sys/fs/cgroup/memory/job/memory.limit_in_bytes", "4000\n", "sys/fs/cgroup/memory/job/memory.usage_in_bytes", "1000\n"), 3000, group},
		"v1 without a limit": {files("proc/meminfo", meminfo, "proc/self/cgroup", "2:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n", "sys/fs/cgroup/memory/memory.usage_in_bytes", "1000\n"), 700 * 1024, machine},
		"address space": {files("proc/meminfo", "MemAvailable: 9000000 kB\n",
			"proc/self/limits", "Limit Soft Limit Hard Limit Units\nMax data size unlimited unlimited bytes\nMax address space         1000000000           unlimited            bytes\n",
			"proc/self/status", "VmSize:\t  200000 kB\nThreads:\t100000\n"), threadless, "limit of the address space"},
		"address space, threads to come": {files("proc/meminfo", "MemAvailable: 9000000 kB\n",
			"proc/self/limits", "Max address space         1000000000           unlimited            bytes\n",
			"proc/self/status", "VmSize:\t  200000 kB\nThreads:\t1\n"), threadless - threadless/4, "limit of the address space"},
		"data segment, all of it used": {files("proc/self/limits", "Max address space unlimited unlimited bytes\nMax data size 1000000 unlimited bytes\n",
			"proc/self/status", "VmSize: 9 kB\nVmData: 2000 kB\n"), 0, "limit of the data segment"},
		"garbage": {files("proc/meminfo", "MemAvailable: lots\n", "proc/self/cgroup", "::\nx\n\n0::/\n",
			"sys/fs/cgroup/memory.max", ""), 1<<63 - 1, "no limit"},
	} {
		if n, what := available(c.fs, 5); n != c.want || what != c.what {
			t.Errorf("%s: %d, %s; want %d, %s", name, n, what, c.want, c.what)
		}
	}
	if n, _ := Available(); n <= 0 {
		t.Errorf("this machine has %d bytes", n)
	}
}
