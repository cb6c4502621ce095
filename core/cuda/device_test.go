package cuda

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"github.com/paceline-rl/paceline/core/cuda/cudatest"
)

// The tests of the kernels use a device through a separate program (software/server.cpp), so that
// they need neither cgo nor the build tag. By default they build the program with the software
// device:
//
//	PACELINE_CUDA_SANITIZER=address   with the address and undefined-behaviour sanitizers
//	PACELINE_CUDA_SANITIZER=thread    with a system thread per CUDA thread and the thread sanitizer
//
// If PACELINE_CUDA_SERVER names the built program, the tests use the machine's driver,
// libcuda.so.1, and the machine code in the file PACELINE_CUDA_CODE.

// sanitizer returns the sanitizer that PACELINE_CUDA_SANITIZER asks for.
func sanitizer() string { return os.Getenv("PACELINE_CUDA_SANITIZER") }

// device is a process with a device.
type device struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   *bufio.Writer
	pipe io.Closer
	out  *bufio.Reader
	says bytes.Buffer
	has  []allocation
}

// allocation is memory of a device. name is that of an argument that points into the memory.
type allocation struct {
	at    uint64
	bytes int
	name  string
}

// software builds the software device once per process and returns its folder.
var software = sync.OnceValues(func() (string, error) {
	folder, err := filepath.Abs(filepath.Join("..", "..", "build", "cuda", "software"+sanitizer()))
	if err != nil {
		return "", err
	}
	out, err := exec.Command("sh", filepath.Join("software", "build.sh"), folder, sanitizer()).CombinedOutput()
	if err != nil {
		return "", errors.New(string(out) + err.Error())
	}
	return folder, nil
})

// notEmulated skips the tests of the kernels under an emulator, which would test nothing more, and
// with -short, because the software device is slow.
func notEmulated(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("left out by -short")
	}
	if os.Getenv(cudatest.Emulator) != "" {
		t.Skip("left out: tested without an emulator")
	}
}

// open starts a device for a test.
func open(t *testing.T) *device {
	t.Helper()
	notEmulated(t)
	d := &device{t: t}
	if server := os.Getenv("PACELINE_CUDA_SERVER"); server != "" {
		d.cmd = exec.Command(server, "libcuda.so.1", os.Getenv("PACELINE_CUDA_CODE"))
	} else {
		if _, err := exec.LookPath("g++"); err != nil {
			t.Skip("left out: no C++ compiler")
		}
		folder, err := software()
		if err != nil {
			t.Fatal(err)
		}
		d.cmd = exec.Command(filepath.Join(folder, "server"), filepath.Join(folder, "libcuda.so.1"))
		d.cmd.Env = append(os.Environ(), "ASAN_OPTIONS=detect_leaks=0") // the driver does not free memory at the end
		if sanitizer() == "thread" {
			d.cmd.Env = append(os.Environ(), "PACELINE_SOFTWARE_THREADS=1", "TSAN_OPTIONS=halt_on_error=1")
		}
	}
	in, err := d.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	d.cmd.Stderr = &d.says
	d.in, d.pipe, d.out = bufio.NewWriter(in), in, bufio.NewReader(out)
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := d.cmd.Wait(); err != nil {
			t.Errorf("the device's process: %v\n%s", err, d.says.String())
		}
	})
	return d
}

// request sends the fields of one request and returns the driver's code.
func (d *device) request(fields ...any) int32 {
	d.t.Helper()
	for _, f := range fields {
		if b, ok := f.([]byte); ok {
			d.in.Write(b)
		} else if err := binary.Write(d.in, binary.LittleEndian, f); err != nil {
			d.t.Fatal(err)
		}
	}
	d.in.Flush()
	var code int32
	if err := binary.Read(d.out, binary.LittleEndian, &code); err != nil {
		d.pipe.Close()
		d.t.Fatalf("the device's process ended: %v\n%s", d.cmd.Wait(), d.says.String())
	}
	return code
}

func (d *device) must(what string, code int32) {
	d.t.Helper()
	if code != 0 {
		d.t.Fatalf("%s: the driver answers %d", what, code)
	}
}

func (d *device) alloc(bytes int) (at uint64) {
	d.t.Helper()
	d.must("alloc", d.request(uint32(1), uint64(bytes)))
	if err := binary.Read(d.out, binary.LittleEndian, &at); err != nil {
		d.t.Fatal(err)
	}
	d.has = append(d.has, allocation{at: at, bytes: bytes})
	return at
}

// put returns the address of a copy of x.
func put[T any](d *device, x []T) uint64 {
	d.t.Helper()
	raw := rawOf(x)
	at := d.alloc(max(1, len(raw)))
	d.upload(at, raw)
	return at
}

func (d *device) upload(at uint64, raw []byte) {
	d.t.Helper()
	d.must("upload", d.request(uint32(3), at, uint64(len(raw)), raw))
}

// get downloads n elements.
func get[T any](d *device, at uint64, n int) []T {
	d.t.Helper()
	x := make([]T, n)
	raw := rawOf(x)
	d.must("download", d.request(uint32(4), at, uint64(len(raw))))
	if _, err := io.ReadFull(d.out, raw); err != nil {
		d.t.Fatal(err)
	}
	return x
}

// launched has the kernels that this process has run.
var launched = map[string]bool{}

// launch runs a kernel twice and checks that both runs give the same bits. args points to the
// kernel's argument struct. Before the second run it restores the memory. The software device runs
// blocks and threads in reverse order the second time.
func (d *device) launch(name string, g Geometry, args any) {
	d.t.Helper()
	launched[name] = true
	v := reflect.ValueOf(args)
	raw := unsafe.Slice((*byte)(v.UnsafePointer()), v.Elem().Type().Size())
	run := func() {
		d.t.Helper()
		d.must(name, d.request(uint32(5), uint32(len(name)), []byte(name), g.Grid, g.Block, uint32(len(raw)), raw))
	}
	memory := d.reached(v.Elem())
	before := d.contents(memory)
	run()
	once := d.contents(memory)
	for i, m := range memory {
		if !bytes.Equal(before[i], once[i]) {
			d.upload(m.at, before[i])
		}
	}
	d.must("order", d.request(uint32(7), uint32(1)))
	run()
	d.must("order", d.request(uint32(7), uint32(0)))
	for i, again := range d.contents(memory) {
		same(d.t, fmt.Sprintf("%s, again: bytes of %s", name, memory[i].name), again, once[i])
	}
}

// reached returns the allocations that a kernel's arguments point into, without duplicates. An
// allocation has the name of the first such argument.
func (d *device) reached(args reflect.Value) (memory []allocation) {
	for i := range args.NumField() {
		switch args.Field(i).Kind() {
		case reflect.Struct:
			memory = append(memory, d.reached(args.Field(i))...)
		case reflect.Uint64:
			at := args.Field(i).Uint()
			for _, a := range d.has {
				if a.at <= at && at < a.at+uint64(a.bytes) {
					a.name = args.Type().Field(i).Name
					memory = append(memory, a)
				}
			}
		}
	}
	slices.SortStableFunc(memory, func(a, b allocation) int { return cmp.Compare(a.at, b.at) })
	return slices.CompactFunc(memory, func(a, b allocation) bool { return a.at == b.at })
}

func (d *device) contents(memory []allocation) [][]byte {
	d.t.Helper()
	all := make([][]byte, len(memory))
	for i, m := range memory {
		all[i] = get[byte](d, m.at, m.bytes)
	}
	return all
}

func rawOf[T any](x []T) []byte {
	if len(x) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), len(x)*int(unsafe.Sizeof(x[0])))
}

// margin is the number of NaN before and after an output. A kernel must not change them.
const margin = 8

// outputs allocates n floats with margins for a kernel's output, all NaN.
func (d *device) outputs(n int) uint64 {
	x := make([]float32, n+2*margin)
	for i := range x {
		x[i] = float32(math.NaN())
	}
	return put(d, x) + 4*margin
}

// result returns a kernel's output and checks its margins.
func (d *device) result(what string, at uint64, n int) []float32 {
	d.t.Helper()
	x := get[float32](d, at-4*margin, n+2*margin)
	for i, v := range x {
		if (i < margin || i >= n+margin) && v == v {
			d.t.Errorf("%s: wrote %v at %d of %d", what, v, i-margin, n)
		}
	}
	return x[margin : margin+n]
}

// near checks that no error is larger than within times the largest wanted element.
func near(t *testing.T, what string, got, want []float32, within float64) {
	t.Helper()
	largest, worst, at := 0.0, 0.0, 0
	for _, v := range want {
		largest = max(largest, math.Abs(float64(v)))
	}
	for i := range want {
		e := math.Abs(float64(got[i]) - float64(want[i]))
		if !(e <= worst) { // also if e is NaN
			worst, at = e, i
		}
	}
	if !(worst <= within*max(largest, 1e-30)) {
		t.Errorf("%s: element %d is %v, must be %v; the largest is %v", what, at, got[at], want[at], largest)
	}
}

// canonical gives every NaN the same bits. A GPU's NaN is 0x7FFFFFFF; x86's is 0x7FC00000 or that
// of the operand.
func canonical(x []float32) []float32 {
	x = slices.Clone(x)
	for i, v := range x {
		if v != v {
			x[i] = float32(math.NaN())
		}
	}
	return x
}

// same checks for equal bits.
func same[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	if !bytes.Equal(rawOf(got), rawOf(want)) {
		for i := range want {
			if !bytes.Equal(rawOf(got[i:i+1]), rawOf(want[i:i+1])) {
				t.Errorf("%s: element %d is %v, must be %v", what, i, got[i], want[i])
				return
			}
		}
	}
}
