//go:build gpu && cgo && linux

package cuda

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gorgonia.org/cu"

	"github.com/paceline-rl/paceline/core/fault"
)

// scenarios has functions that a child process runs. The child reports the error.
var scenarios = map[string]func() error{
	"closed driver": func() error {
		_, err := cu.NumDevices()
		return fmt.Errorf("version %d, devices: %v", cu.Version(), err)
	},
	"devices": func() error { _, err := Devices(); return err },
	"open":    func() error { d, err := Open(0); return closeDevice(d, err) },
	"open 2":  func() error { _, err := Open(2); return err },
	"open -1": func() error { _, err := Open(-1); return err },
	"twice": func() error { // the first error is permanent
		_, first := Open(0)
		if _, second := Open(0); first == nil || second == nil || first.Error() != second.Error() {
			return fmt.Errorf("first %v, then %v", first, second)
		}
		return first
	},
	"another chip": func() error {
		kernels = archive(nil, "sm_80.cubin")
		_, err := Open(0)
		return err
	},
	"the second image": func() error {
		kernels = archive(nil, "sm_90.cubin", "compute_80.ptx")
		d, err := Open(0)
		return closeDevice(d, err)
	},
	"broken": func() error {
		kernels = []byte("no archive")
		_, err := Open(0)
		return err
	},
	"too much": withDevice(func(d *Device) error { _, err := d.Alloc(3 << 20); return err }),
	"too much in parts": withDevice(func(d *Device) error {
		for {
			if _, err := d.Alloc(1 << 20); err != nil {
				return err
			}
		}
	}),
	"negative":       withDevice(func(d *Device) error { _, err := d.Alloc(-1); return err }),
	"nothing":        withDevice(func(d *Device) error { _, err := d.Pinned(0); return err }),
	"pinned":         withDevice(func(d *Device) error { _, err := d.Pinned(1 << 20); return err }),
	"huge":           withDevice(func(d *Device) error { _, err := d.Pinned(1 << 60); return err }),
	"no such kernel": withDevice(func(d *Device) error { _, err := d.Function("nothing"); return err }),
	"arguments": withDevice(func(d *Device) error {
		return withKernel(d, func(s *Stream, f *Function) error { return s.Launch(f, Launch{Bytes: 5000}) })
	}),
	"geometry": withDevice(func(d *Device) error {
		return withKernel(d, func(s *Stream, f *Function) error {
			return s.Launch(f, Launch{Grid: [3]uint32{1, 2, 3}, Block: [3]uint32{2000, 1, 1}, Shared: 7, Args: nil})
		})
	}),
	"sum": withDevice(func(d *Device) error {
		m, err := d.Alloc(8 * elements)
		if err != nil {
			return err
		}
		args := sum{weights: 10, partsCount: 1, parts: m.Ptr, dw: m.Ptr, db: m.Ptr}
		return withKernel(d, func(s *Stream, f *Function) error {
			if err := s.Launch(f, args.launch()); err != nil {
				return err
			}
			return s.Synchronize()
		})
	}),
	"opened twice": func() error {
		for range 2 {
			d, err := Open(0)
			if err := closeDevice(d, err); err != nil {
				return err
			}
		}
		return nil
	},
	"lost":       withDevice(callsAfterLoss),
	"everything": withDevice(everyCall),
}

// closeDevice closes the device that Open returned.
func closeDevice(d *Device, err error) error {
	if err != nil {
		return err
	}
	return d.Close()
}

// withDevice opens a device, runs f and closes the device.
func withDevice(f func(d *Device) error) func() error {
	return func() error {
		d, err := Open(0)
		if err != nil {
			return err
		}
		return errors.Join(f(d), d.Close())
	}
}

// mapped returns two pages that stay mapped.
func mapped() ([]byte, error) {
	return syscall.Mmap(-1, 0, 2*os.Getpagesize(), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
}

func withKernel(d *Device, f func(s *Stream, f *Function) error) error {
	s, err := d.Stream(Low)
	if err != nil {
		return err
	}
	defer s.Close()
	k, err := d.Function("weight_gradient_sum")
	if err != nil {
		return err
	}
	return f(s, k)
}

// callsAfterLoss checks that every call after the loss returns the first error and does not reach
// the driver.
func callsAfterLoss(d *Device) error {
	m, _ := d.Alloc(100)
	e, _ := d.Event(false)
	return withKernel(d, func(s *Stream, f *Function) error {
		first := s.Synchronize()
		if !errors.Is(first, ErrLost) || !d.Lost() {
			return fmt.Errorf("not lost: %v", first)
		}
		before, _ := os.ReadFile(os.Getenv("PACELINE_SOFTWARE_LOG"))
		_, allocating := d.Alloc(100)
		_, capturing := s.Capture(func() error { return errors.New("was called") })
		_, locking := d.Pinned(100)
		for i, err := range []error{s.Synchronize(), s.Launch(f, Launch{}), s.Upload(m.Ptr, []byte{1}), s.Record(e), e.Wait(), allocating, capturing, locking} {
			if err == nil || err != first {
				return fmt.Errorf("call %d after the loss: %v", i, err)
			}
		}
		m.Free()
		e.Close()
		after, _ := os.ReadFile(os.Getenv("PACELINE_SOFTWARE_LOG"))
		if len(after) != len(before) {
			return fmt.Errorf("the driver was called: %s", after[len(before):])
		}
		return first
	})
}

// everyCall reaches every driver function that core/cuda calls.
func everyCall(d *Device) (err error) {
	try := func(e error) { err = errors.Join(err, e) }
	_, _, e := d.MemInfo()
	try(e)
	f, e := d.Function("weight_gradient_sum")
	if e != nil {
		return e
	}
	m, e := d.Alloc(8 * elements)
	if e != nil {
		return e
	}
	defer m.Free()
	p, e := d.Pinned(64)
	if e != nil {
		return e
	}
	defer p.Free()
	page, e := mapped()
	if e != nil {
		return e
	}
	if registered, e := d.Register(page); e != nil {
		try(e)
	} else {
		registered.Free()
	}
	s, e := d.Stream(High)
	if e != nil {
		return e
	}
	defer s.Close()
	begin, e := d.Event(false)
	if e != nil {
		return e
	}
	defer begin.Close()
	end, e := d.Event(false)
	if e != nil {
		return e
	}
	defer end.Close()
	args := sum{weights: 10, partsCount: 1, parts: m.Ptr, dw: m.Ptr, db: m.Ptr}
	try(s.Record(begin))
	try(s.Wait(begin))
	try(s.Upload(m.Ptr, p.Data))
	try(s.Upload(m.Ptr, make([]byte, 8)))
	try(s.Copy(m.Ptr+64, m.Ptr, 64))
	try(s.Zero(m.Ptr, 64))
	try(s.Launch(f, args.launch()))
	try(s.Download(p.Data, m.Ptr))
	try(s.Download(make([]byte, 8), m.Ptr))
	g, e := s.Capture(func() error { return s.Launch(f, args.launch()) })
	try(e)
	if e == nil {
		try(s.Replay(g, 1))
		g.Close()
	}
	try(s.Record(end))
	_, e = end.Done()
	try(e)
	try(end.Wait())
	_, e = end.Since(begin)
	try(e)
	try(s.Synchronize())
	return err
}

// report prints a child's errors, one per line, with the kind of the error.
func report(err error) {
	var memory *fault.Memory
	switch {
	case err == nil:
		fmt.Println("no error")
	case errors.Is(err, ErrLost):
		fmt.Println("lost: " + err.Error())
	case errors.As(err, &memory):
		fmt.Println("memory: " + err.Error())
	default:
		fmt.Println(err)
	}
}

// Every error message names the call that failed, the value, and the allowed values.
func TestErrorMessages(t *testing.T) {
	needSoftwareDevice(t)
	const device = "cuda:0 (Software device sm_90)"
	for _, c := range []struct{ name, scenario, environment, want string }{
		{"too old", "devices", "PACELINE_SOFTWARE_DRIVER=11080", "the NVIDIA driver is too old (for CUDA 11.8), must be version 525 or newer, for CUDA 12.0"},
		{"old enough", "open", "PACELINE_SOFTWARE_DRIVER=12000", "no error"},
		{"does not start", "twice", "PACELINE_SOFTWARE_FAIL=cuInit:1:999", "the NVIDIA driver did not start: error 999 of CUDA"},
		{"no GPU", "devices", "PACELINE_SOFTWARE_DEVICES=0", "the NVIDIA driver found no GPU"},
		{"none visible", "open", "PACELINE_SOFTWARE_DEVICES=0 CUDA_VISIBLE_DEVICES=", `the NVIDIA driver found no GPU (CUDA_VISIBLE_DEVICES is "")`},
		{"one", "open 2", "", "cuda:2: there is no such GPU, must be cuda:0"},
		{"two", "open 2", "PACELINE_SOFTWARE_DEVICES=2", "cuda:2: there is no such GPU, must be cuda:0 to cuda:1"},
		{"negative index", "open -1", "", "cuda:-1: there is no such GPU, must be cuda:0"},
		{"an old chip", "open", "PACELINE_SOFTWARE_SM=70", "cuda:0 (Software device sm_70): its compute capability is 7.0, must be 7.5 or higher"},
		{"no kernels", "another chip", "", device + ": this build has no kernels for its compute capability 9.0"},
		{"broken archive", "broken", "", "kernels.zip cannot be read: zip: not a valid zip file"},
		{"refused image", "open", "PACELINE_SOFTWARE_FAIL=cuModuleLoadData:1:209", device + ": loading the kernels sm_90.cubin failed: error 209 of CUDA"},
		{"the second image", "the second image", "PACELINE_SOFTWARE_FAIL=cuModuleLoadData:1:209", "no error"},
		{"context", "open", "PACELINE_SOFTWARE_FAIL=cuDevicePrimaryCtxRetain:1:2", "memory: " + device + ": its memory is full: acquiring its context failed"},
		{"too much", "too much", "PACELINE_SOFTWARE_MEMORY=2500000", "memory: " + device + ": its memory is full: allocating 3.1 MB failed, 2.5 MB of 2.5 MB are free"},
		{"too much in parts", "too much in parts", "PACELINE_SOFTWARE_MEMORY=2500000", "memory: " + device + ": its memory is full: allocating 1.0 MB failed, 0.4 MB of 2.5 MB are free"},
		{"negative", "negative", "", device + ": -1 bytes of its memory, must be at least 1"},
		{"nothing", "nothing", "", device + ": 0 bytes of page-locked memory, must be at least 1"},
		{"no page-locked memory", "pinned", "PACELINE_SOFTWARE_FAIL=cuMemHostAlloc:1:2", "memory: " + device + ": page-locking 1.0 MB of host memory failed: the driver could not allocate it"},
		{"more than there is", "huge", "", "memory: page-locked memory for the GPU needs 1152921504.6 GB of memory, "},
		{"no such kernel", "no such kernel", "", device + ": finding the kernel nothing failed: named symbol not found (CUDA_ERROR_NOT_FOUND)"},
		{"arguments", "arguments", "", device + ": 5000 bytes of arguments of the kernel weight_gradient_sum, must be at most 1024"},
		{"geometry", "geometry", "", device + ": launching weight_gradient_sum (grid [1 2 3], block [2000 1 1], 7 bytes of shared memory) failed: invalid argument (CUDA_ERROR_INVALID_VALUE)"},
		{"a kernel", "sum", "PACELINE_SOFTWARE_FAIL=cuStreamSynchronize:2:719", "lost: " + device + " is lost with the contents of its memory: waiting for a stream failed: unspecified launch failure (CUDA_ERROR_LAUNCH_FAILED)"},
		{"a kernel, eager", "sum", "PACELINE_CUDA_EAGER=1 PACELINE_SOFTWARE_FAIL=cuStreamSynchronize:2:719", "lost: " + device + " is lost with the contents of its memory: running weight_gradient_sum (grid [4 1 1], block [256 1 1], 0 bytes of shared memory) failed: unspecified launch failure (CUDA_ERROR_LAUNCH_FAILED)"},
		{"neither eager nor not", "open", "PACELINE_CUDA_EAGER=yes", `PACELINE_CUDA_EAGER: "yes", must be 0 or 1`},
		{"another library captures", "everything", "PACELINE_SOFTWARE_CAPTURING=1", "no error"},
		{"lost", "lost", "PACELINE_SOFTWARE_FAIL=cuStreamSynchronize:2:719", "lost: " + device + " is lost with the contents of its memory: waiting for a stream failed: unspecified launch failure (CUDA_ERROR_LAUNCH_FAILED)"},
		{"no driver", "twice", "LD_LIBRARY_PATH=", "no NVIDIA driver was found (libcuda.so.1: cannot open shared object file: No such file or directory), must be version 525 or newer"},
		{"lacks a function", "twice", "LD_LIBRARY_PATH=" + lacking(t), "the NVIDIA driver is too old (it has no cuCtxGetStreamPriorityRange), must be version 525 or newer, for CUDA 12.0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "no driver" && exec.Command("sh", "-c", "ldconfig -p | grep -q libcuda.so.1").Run() == nil {
				t.Skip("left out: this machine has a driver")
			}
			environment := append(strings.Fields(c.environment), "PACELINE_SOFTWARE_LOG="+filepath.Join(t.TempDir(), "log"))
			if got := runScenario(t, c.scenario, environment...); got != c.want && (c.name != "more than there is" || !strings.HasPrefix(got, c.want)) {
				t.Errorf("%q, want\n%q", got, c.want)
			}
		})
	}
}

// lacking returns a folder with a driver that has two functions only.
func lacking(t *testing.T) string {
	folder := t.TempDir()
	source := filepath.Join(folder, "old.c")
	text := "int cuInit(unsigned f) { return 0; }\nint cuDriverGetVersion(int *v) { return *v = 12000, 0; }\n"
	if err := os.WriteFile(source, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := compiler("-shared", "-fPIC", source, "-o", filepath.Join(folder, "libcuda.so.1")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return folder
}

// symbols returns the functions that symbols.h marks NEEDED, and all functions in it.
func symbols(t *testing.T) (needed, all []string) {
	text, err := os.ReadFile("symbols.h")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^(INIT|NEEDED|SYMBOL)\(\d+, (\w+)\)$`).FindAllStringSubmatch(string(text), -1) {
		if all = append(all, m[2]); m[1] != "SYMBOL" {
			needed = append(needed, m[2])
		}
	}
	if len(needed) < 40 || len(all) < 150 {
		t.Fatalf("%d of %d functions are needed", len(needed), len(all))
	}
	return needed, all
}

// If any driver function fails with any code, the error names the device or the driver, and closing
// still works.
func TestEveryFailureIsReported(t *testing.T) {
	needSoftwareDevice(t)
	if testing.Short() {
		t.Skip("starts 140 processes")
	}
	// These may fail without an error: closing continues, and error codes have a fallback text.
	silent := []string{"cuGetErrorName", "cuGetErrorString", "cuCtxPopCurrent_v2", "cuMemFree_v2", "cuMemFreeHost", "cuMemHostUnregister", "cuStreamDestroy_v2",
		"cuEventDestroy_v2", "cuGraphExecDestroy"}
	needed, _ := symbols(t)
	for _, name := range needed {
		for _, code := range []string{"1", "2", "719"} {
			got := runScenario(t, "everything", "PACELINE_SOFTWARE_FAIL="+name+":1:"+code)
			switch {
			case slices.Contains(silent, name):
			case name == "cuStreamIsCapturing" || got != "no error":
			default:
				t.Errorf("%s failed with %s, but no call returned an error", name, code)
			}
			for line := range strings.Lines(got) {
				line = strings.TrimSpace(line)
				plain := strings.TrimPrefix(strings.TrimPrefix(line, "lost: "), "memory: ")
				if line != "no error" && !strings.HasPrefix(plain, "cuda:0") && !strings.HasPrefix(plain, "the NVIDIA driver") {
					t.Errorf("%s failed with %s: %q", name, code, line)
				}
			}
			if code == "719" && strings.HasPrefix(name, "cuLaunch") && !strings.HasPrefix(got, "lost: ") {
				t.Errorf("%s failed with %s: %q", name, code, got)
			}
		}
	}
}
