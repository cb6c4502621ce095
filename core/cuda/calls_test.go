//go:build gpu && cgo && linux

package cuda

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/paceline-rl/paceline/core/cuda/cudatest"
	"github.com/paceline-rl/paceline/core/fault"
)

// must returns the value of a call that must succeed.
func must[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestDevicesAreDescribed(t *testing.T) {
	cudatest.Need(t)
	for i, info := range must(Devices())(t) {
		if info.Index != i || info.Name == "" || !strings.HasPrefix(info.UUID, "GPU-") || info.Major < 1 || info.Bytes < 1<<20 || info.SMs < 1 ||
			info.SharedPerBlock < 48<<10 || info.WarpsPerSM < 16 || info.Driver < oldest {
			t.Errorf("%+v", info)
		}
	}
	d := openDevice(t)
	if free, total, err := d.MemInfo(); err != nil || free < 1 || free > total || total > d.Info().Bytes {
		t.Errorf("%d of %d bytes are free, %v", free, total, err)
	}
	if d.Lost() {
		t.Error("the device is lost without an error")
	}
}

// Copies keep the bytes, from any host memory and on streams of any priority. New memory is zero.
func TestCopiesKeepTheBytes(t *testing.T) {
	d := openDevice(t)
	const n = 100_003
	a, b := must(d.Alloc(n))(t), must(d.Alloc(n))(t)
	defer a.Free()
	defer b.Free()
	locked := must(d.Pinned(n))(t)
	defer locked.Free()
	if a.Bytes != n || len(locked.Data) != n {
		t.Fatalf("%d and %d bytes, want %d", a.Bytes, len(locked.Data), n)
	}
	random := make([]byte, n)
	for i := range random {
		random[i] = byte(rand.IntN(255) + 1)
	}
	for _, priority := range []Priority{Low, Normal, High} {
		s := must(d.Stream(priority))(t)
		for name, memory := range map[string][]byte{"of Go": make([]byte, n), "page-locked": locked.Data} {
			copy(memory, random)
			ok(t, s.Upload(a.Ptr, memory))
			ok(t, s.Copy(b.Ptr, a.Ptr, n))
			ok(t, s.Zero(b.Ptr+10, 20))
			ok(t, s.Synchronize())
			clear(memory)
			ok(t, s.Download(memory[7:], b.Ptr+7))
			ok(t, s.Synchronize())
			want := bytes.Clone(random)
			clear(want[:7])
			clear(want[10:30])
			if !bytes.Equal(memory, want) {
				t.Errorf("memory %s: the bytes changed", name)
			}
		}
		ok(t, s.Upload(a.Ptr, nil))
		ok(t, s.Download(nil, a.Ptr))
		ok(t, s.Copy(a.Ptr, b.Ptr, 0))
		ok(t, s.Zero(a.Ptr, 0))
		s.Close()
	}
	fresh := must(d.Alloc(n))(t)
	s := must(d.Stream(Low))(t)
	defer s.Close()
	ok(t, s.Download(random, fresh.Ptr))
	if !bytes.Equal(random, make([]byte, n)) {
		t.Error("new memory is not zero")
	}
	fresh.Free()
	fresh.Free() // a second Free is allowed
}

// Copies from registered memory count as page-locked if all of their bytes are registered.
func TestRegisteredMemoryIsPageLocked(t *testing.T) {
	d := openDevice(t)
	s := must(d.Stream(Low))(t)
	defer s.Close()
	memory := must(mapped())(t)
	half := len(memory) / 2
	to := must(d.Alloc(int64(len(memory))))(t)
	defer to.Free()
	upload := func(bytes []byte) error {
		g, err := s.Capture(func() error { return s.Upload(to.Ptr, bytes) })
		if err == nil {
			g.Close()
		}
		return err
	}
	locked := must(d.Register(memory[:half]))(t)
	for _, c := range []struct {
		name   string
		bytes  []byte
		locked bool
	}{{"the piece", memory[:half], true}, {"its end", memory[half-3 : half], true}, {"beyond its end", memory[half-3 : half+1], false}, {"the rest", memory[half:], false}} {
		if err := upload(c.bytes); (err == nil) != c.locked {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	locked.Free()
	locked.Free() // a second Free is allowed
	if err := upload(memory[:half]); err == nil {
		t.Error("unlocked memory counts as page-locked")
	}
	must(d.Register(memory))(t).Free()
}

// sum has the arguments of weight_gradient_sum, the smallest kernel: dw = scale * sum of the parts.
type sum struct {
	weights, biases, partsCount int32
	scale                       float32
	parts, dw, db               uint64
}

func (a *sum) launch() Launch {
	return Launch{Grid: [3]uint32{4, 1, 1}, Block: [3]uint32{256, 1, 1}, Args: unsafe.Pointer(a), Bytes: unsafe.Sizeof(*a)}
}

const elements = 1000

// summing has two parts of numbers in GPU memory, and the arguments of the launch that sums them.
type summing struct {
	d        *Device
	f        *Function
	from, to *Memory
	args     sum
}

func newSumming(t testing.TB, d *Device) *summing {
	u := &summing{d: d, f: must(d.Function("weight_gradient_sum"))(t), from: must(d.Alloc(8 * elements))(t), to: must(d.Alloc(4 * elements))(t)}
	u.args = sum{weights: elements, partsCount: 2, scale: 0.5, parts: u.from.Ptr, dw: u.to.Ptr, db: u.to.Ptr}
	numbers := make([]float32, 2*elements)
	for i := range numbers {
		numbers[i] = float32(i)
	}
	s := must(d.Stream(Low))(t)
	defer s.Close()
	ok(t, s.Upload(u.from.Ptr, asBytes(numbers)))
	return u
}

// check compares the kernel's output with the sum if the kernel ran, otherwise with zeros.
func (u *summing) check(t testing.TB, s *Stream, ran bool) {
	t.Helper()
	got := make([]float32, elements)
	ok(t, s.Download(asBytes(got), u.to.Ptr))
	for i, x := range got {
		want := 0.5 * float32(i+i+elements)
		if !ran {
			want = 0
		}
		if x != want {
			t.Fatalf("element %d: %v, want %v", i, x, want)
		}
	}
}

func (u *summing) free() {
	u.from.Free()
	u.to.Free()
}

func asBytes(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}

func TestLaunchRunsTheKernel(t *testing.T) {
	d := openDevice(t)
	u := newSumming(t, d)
	defer u.free()
	s := must(d.Stream(Low))(t)
	defer s.Close()
	ok(t, s.Launch(u.f, u.args.launch()))
	u.check(t, s, true)
	if u.f.MaxThreads < 256 || u.f.Regs < 1 || u.f.Shared < 0 {
		t.Errorf("the kernel: %+v", *u.f)
	}
	if again := must(d.Function("weight_gradient_sum"))(t); again != u.f {
		t.Error("the same name gives another Function")
	}
}

// Capturing a graph of two branches runs nothing; each replay runs both branches.
func TestReplayRunsBothBranches(t *testing.T) {
	d := openDevice(t)
	u := newSumming(t, d)
	defer u.free()
	s, side := must(d.Stream(Low))(t), must(d.Stream(High))(t)
	defer s.Close()
	defer side.Close()
	fork, join := must(d.Event(false))(t), must(d.Event(false))(t)
	defer fork.Close()
	defer join.Close()
	extra := must(d.Alloc(4 * elements))(t)
	defer extra.Free()
	g := must(s.Capture(func() error {
		return errors.Join(s.Zero(u.to.Ptr, u.to.Bytes), s.Record(fork), side.Wait(fork),
			s.Launch(u.f, u.args.launch()), side.Copy(extra.Ptr, u.from.Ptr, extra.Bytes), side.Record(join), s.Wait(join))
	}))(t)
	if g.Nodes != 3 {
		t.Errorf("%d nodes, want 3", g.Nodes)
	}
	u.check(t, s, false)
	for range 3 {
		ok(t, s.Zero(u.to.Ptr, u.to.Bytes))
		ok(t, s.Zero(extra.Ptr, extra.Bytes))
		ok(t, s.Replay(g, 1))
		u.check(t, s, true)
		first := make([]float32, 2)
		ok(t, s.Download(asBytes(first), extra.Ptr))
		if first[1] != 1 {
			t.Error("the other branch did not run")
		}
	}
	g.Close()
	g.Close() // a second Close is allowed
	if err := s.Replay(g, 1); !errors.Is(err, fault.ErrClosed) {
		t.Errorf("replaying a closed graph: %v", err)
	}
}

// A stream works normally after a capture that ended with an error or a panic.
func TestStreamWorksAfterAFailedCapture(t *testing.T) {
	d := openDevice(t)
	u := newSumming(t, d)
	defer u.free()
	s, side := must(d.Stream(Low))(t), must(d.Stream(Low))(t)
	defer s.Close()
	defer side.Close()
	fork := must(d.Event(false))(t)
	defer fork.Close()
	reason := errors.New("the caller's error")
	for _, c := range []struct {
		name, want string
		enqueue    func() error
	}{
		{"an error", "the caller's error", func() error { return reason }},
		{"an upload of Go memory", "inside a graph: the host memory must be page-locked (Pinned)", func() error { return s.Upload(u.to.Ptr, make([]byte, 8)) }},
		{"a download to Go memory", "inside a graph: the host memory must be page-locked (Pinned)", func() error { return s.Download(make([]byte, 8), u.to.Ptr) }},
		{"a branch that is not joined", "making a graph failed: ", func() error {
			return errors.Join(s.Record(fork), side.Wait(fork), side.Launch(u.f, u.args.launch()))
		}},
		{"waiting", "waiting for a stream failed: ", s.Synchronize},
	} {
		if g, err := s.Capture(c.enqueue); g != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v, want %q", c.name, g, err, c.want)
		}
		ok(t, s.Launch(u.f, u.args.launch()))
		ok(t, side.Synchronize())
	}
	func() {
		defer func() {
			if recover() != "a bug" {
				t.Error("Capture did not pass the panic on")
			}
		}()
		s.Capture(func() error { panic("a bug") })
	}()
	ok(t, s.Launch(u.f, u.args.launch()))
	u.check(t, s, true)
}

func TestEventsOrderStreams(t *testing.T) {
	d := openDevice(t)
	s, other := must(d.Stream(Low))(t), must(d.Stream(Low))(t)
	defer s.Close()
	defer other.Close()
	begin, end := must(d.Event(false))(t), must(d.Event(false))(t)
	defer begin.Close()
	defer end.Close()
	ok(t, s.Record(begin))
	ok(t, other.Wait(begin))
	ok(t, other.Record(end))
	ok(t, end.Wait())
	if over, err := end.Done(); !over || err != nil {
		t.Errorf("after Wait: %v, %v", over, err)
	}
	if took := must(end.Since(begin))(t); took < 0 || took > time.Second {
		t.Errorf("the time between the events is %v", took)
	}
	if took := must(end.Since(end))(t); took != 0 {
		t.Errorf("from an event to itself: %v", took)
	}
}

// The calls that every update makes do not allocate Go memory.
func TestCallsDoNotAllocate(t *testing.T) {
	d := openDevice(t)
	u := newSumming(t, d)
	defer u.free()
	s := must(d.Stream(Low))(t)
	defer s.Close()
	e := must(d.Event(false))(t)
	defer e.Close()
	locked := must(d.Pinned(64))(t)
	defer locked.Free()
	g := must(s.Capture(func() error { return s.Launch(u.f, u.args.launch()) }))(t)
	defer g.Close()
	heap := make([]byte, 64)
	for name, call := range map[string]func() error{
		"Launch": func() error {
			args := u.args
			return s.Launch(u.f, args.launch())
		},
		"Replay":      func() error { return s.Replay(g, 1) },
		"Record":      func() error { return s.Record(e) },
		"Wait":        func() error { return s.Wait(e) },
		"Done":        func() error { _, err := e.Done(); return err },
		"Synchronize": s.Synchronize,
		"Upload":      func() error { return errors.Join(s.Upload(u.to.Ptr, locked.Data), s.Upload(u.to.Ptr, heap)) },
		"Download":    func() error { return errors.Join(s.Download(locked.Data, u.to.Ptr), s.Download(heap, u.to.Ptr)) },
		"Copy":        func() error { return s.Copy(u.to.Ptr, u.from.Ptr, 64) },
		"Zero":        func() error { return s.Zero(u.to.Ptr, 64) },
	} {
		if n := testing.AllocsPerRun(100, func() { ok(t, call()) }); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

// Goroutines use and close shared objects at the same time: every call succeeds or returns
// fault.ErrClosed.
func TestGoroutinesUseAndClose(t *testing.T) {
	for range 20 {
		d := openDevice(t)
		u := newSumming(t, d)
		s := must(d.Stream(Low))(t)
		e := must(d.Event(false))(t)
		g := must(s.Capture(func() error { return s.Launch(u.f, u.args.launch()) }))(t)
		locked := must(d.Pinned(64))(t)
		calls := []func() error{
			func() error { return s.Launch(u.f, u.args.launch()) },
			func() error { return s.Replay(g, 1) },
			func() error { return s.Record(e) },
			func() error { return s.Wait(e) },
			func() error { _, err := e.Done(); return err },
			e.Wait, s.Synchronize,
			func() error { return s.Upload(u.from.Ptr, make([]byte, 100)) },
			func() error { m, err := d.Alloc(100); freeUnless(err, m); return err },
			func() error { p, err := d.Pinned(100); freeUnless(err, p); return err },
			func() error { _, err := d.Function("weight_gradient_sum"); return err },
			func() error { _, _, err := d.MemInfo(); return err },
			func() error { more, err := d.Stream(High); closeUnless(err, more); return err },
			func() error { more, err := d.Event(false); closeUnless(err, more); return err },
		}
		var all sync.WaitGroup
		for i, call := range calls {
			all.Go(func() {
				for n := range 200 {
					if err := call(); err != nil && !errors.Is(err, fault.ErrClosed) {
						t.Errorf("call %d: %v", i, err)
					} else if err != nil {
						return
					}
					switch {
					case n == 150 && i == 0:
						g.Close()
					case n == 180 && i == 1:
						e.Close()
					case n == 190 && i == 5:
						s.Close()
					case n == 199 && i == 11:
						locked.Free()
						d.Close()
					}
				}
			})
		}
		all.Wait()
		d.Close()
		u.free()
	}
}

func freeUnless(err error, m interface{ Free() }) {
	if err == nil {
		m.Free()
	}
}

func closeUnless(err error, c interface{ Close() }) {
	if err == nil {
		c.Close()
	}
}

// A closed object refuses every call with a sentence.
func TestClosedObjectsRefuseCalls(t *testing.T) {
	d := openDevice(t)
	s, e := must(d.Stream(Low))(t), must(d.Event(false))(t)
	alive := must(d.Stream(Low))(t)
	f := must(d.Function("weight_gradient_sum"))(t)
	s.Close()
	e.Close()
	for want, call := range map[string]error{
		"CUDA stream: closed": s.Launch(f, Launch{}),
		"CUDA event: closed":  alive.Record(e),
	} {
		if call == nil || call.Error() != want || !errors.Is(call, fault.ErrClosed) {
			t.Errorf("%v, want %q", call, want)
		}
	}
	ok(t, d.Close())
	ok(t, d.Close())
	for name, err := range map[string]error{"Synchronize": alive.Synchronize(), "Wait": e.Wait()} {
		if err == nil || err.Error() != "CUDA device: closed" {
			t.Errorf("%s of a closed device: %v", name, err)
		}
	}
	if _, err := d.Alloc(10); !errors.Is(err, fault.ErrClosed) {
		t.Errorf("Alloc of a closed device: %v", err)
	}
	alive.Close() // closing after the device is allowed
}
