package replay

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/rng"
)

// anyAction allows every action that is not negative.
const anyAction = 1 << 31

func saved(t testing.TB, m *Memory) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := m.save(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// load reads the bytes of saved and adopts them.
func load(m *Memory, b []byte) error {
	adopt, err := m.Part("replay", anyAction).Read(bytes.NewReader(b), int64(len(b)))
	if err == nil {
		adopt()
	}
	return err
}

// loadFile loads from a whole file, whose reader classifies errors.
func loadFile(t *testing.T, m, from *Memory) error {
	t.Helper()
	r := must(checkpoint.OpenBytes(must(checkpoint.SaveBytes("run", nil, []checkpoint.Part{from.Part("replay", anyAction)}))))
	adopt, err := r.Load([]checkpoint.Part{m.Part("replay", anyAction)})
	if err == nil {
		adopt()
	}
	return err
}

// run adds steps of a deterministic environment, in which step i depends only on i.
func run(t *testing.T, m *Memory, from, to int) {
	t.Helper()
	obs := func(i int) []byte { return []byte{byte(i), byte(i + 1), byte(i + 2)} }
	for i := from; i < to; i++ {
		for e := range m.parts {
			if m.Room(e) == 0 {
				check(t, m.Grow(1))
			}
			if i == 0 || (i-1)%9 == 8-e {
				check(t, m.Begin(e, obs(i)))
			}
			end := env.End(0)
			if i%9 == 8-e {
				end = env.End(1 + (i+e)%3)
			}
			check(t, addStep(m, e, int32(i*10+e), float32(i), uint64(i/3), end, obs(i+1)))
		}
		if i%13 == 12 {
			m.Flush()
		}
	}
}

func saveConfig() Config {
	return Config{Obs: stackSpec(3, 1), Envs: 2, Capacity: 41, Window: 26, Stack: StackDeclared}
}

// A memory saved inside a window, with staged steps and pending observations, continues the same
// after a load.
func TestALoadedMemoryContinuesTheSame(t *testing.T) {
	for _, at := range []int{0, 1, 5, 12, 13, 40, 100} {
		a := must(New(saveConfig()))
		run(t, a, 0, at)
		if at == 40 {
			a.Flush()
			a.Cut(0) // staged as well: the visible flag changes only at the next flush
			check(t, a.Begin(0, []byte{40, 41, 42}))
		}
		stream := saved(t, a)
		other := saveConfig()
		other.Window = 1
		b := must(New(other))
		run(t, b, 0, 30) // contents that the load replaces
		check(t, load(b, stream))
		if !bytes.Equal(stream, saved(t, b)) {
			t.Errorf("at %d: saved again, the bytes differ", at)
		}
		for _, to := range []int{at + 1, at + 30, at + 90} {
			if a.Hash() != b.Hash() || a.Len() != b.Len() {
				t.Fatalf("at %d: contents differ", at)
			}
			run(t, a, at, to)
			run(t, b, at, to)
			at = to
		}
		a.Flush()
		b.Flush()
		x, y := a.Minibatch(64), b.Minibatch(64)
		draw(a, rng.New(1, "replay", 0), x, nil)
		draw(b, rng.New(1, "replay", 0), y, nil)
		if a.Hash() != b.Hash() || !bytes.Equal(x.Obs, y.Obs) || !bytes.Equal(x.NextObs, y.NextObs) {
			t.Error("continuations differ")
		}
		a.Close()
		b.Close()
	}
}

// In a checkpoint every truncation and every changed byte is an error that changes nothing. Outside
// a checkpoint, bytes that are accepted give a usable memory.
func TestDamageIsDetected(t *testing.T) {
	a := must(New(saveConfig()))
	defer a.Close()
	run(t, a, 0, 40)
	b := must(New(saveConfig()))
	defer b.Close()
	run(t, b, 0, 14)
	before := b.Hash()
	part := []checkpoint.Part{b.Part("replay.bin", anyAction)}
	try := func(file []byte) error {
		r, err := checkpoint.OpenBytes(file)
		if err != nil {
			return err
		}
		defer r.Close()
		_, err = r.Load(part)
		return err
	}
	file, err := checkpoint.SaveBytes("run", nil, []checkpoint.Part{a.Part("replay.bin", anyAction)})
	check(t, err)
	data := saved(t, a)
	first := bytes.Index(file, data)
	for n := range data {
		broken := bytes.Clone(file)
		broken[first+n] ^= 1 << (n % 8)
		if err := try(broken); !errors.Is(err, checkpoint.ErrFormat) {
			t.Fatalf("byte %d changed: %v", n, err)
		}
		if load(b, data[:n]) == nil {
			t.Fatalf("%d of %d bytes loaded", n, len(data))
		}
		if b.Hash() != before {
			t.Fatal("a failed load changed the memory")
		}
		broken = bytes.Clone(data)
		broken[n] ^= 1 << (n % 8)
		c := must(New(saveConfig()))
		if load(c, broken) == nil {
			goesOn(t, c)
		}
		c.Close()
	}
	check(t, load(b, data))
	if a.Hash() != b.Hash() {
		t.Error("contents differ")
	}
}

// goesOn draws from every environment and adds steps to it.
func goesOn(t *testing.T, m *Memory) {
	t.Helper()
	obs := make([]byte, m.obsBytes)
	for e := range m.parts {
		for range 3 {
			if m.Room(e) < 1 {
				check(t, m.Grow(1))
			}
			check(t, m.Begin(e, obs))
			check(t, addStep(m, e, 0, 0, 0, 0, obs))
		}
	}
	m.Flush()
	b := m.Minibatch(200)
	draw(m, rng.New(1, "replay", 0), b, nil)
	m.Hash()
}

// A file of another configuration, or one for which memory is missing, is refused, but not as
// damaged.
func TestFilesOfOtherConfigsAreRefused(t *testing.T) {
	a := must(New(saveConfig()))
	defer a.Close()
	data := saved(t, a)
	for want, change := range map[string]func(c *Config){
		"num_envs: replay saved with 2, must be 3":             func(c *Config) { c.Envs = 3 },
		"buffer_size: replay saved with 41, must be 40":        func(c *Config) { c.Capacity = 40 },
		"replay saved with observations of 3 bytes, must be 6": func(c *Config) { c.Obs = stackSpec(3, 2) },
		"frame_stack: replay saved with 3, must be 1":          func(c *Config) { c.Obs.FrameStack = 0 },
	} {
		c := saveConfig()
		change(&c)
		b := must(New(c))
		if err := load(b, data); err == nil || err.Error() != want || errors.Is(err, checkpoint.ErrFormat) {
			t.Errorf("got %v, want %s", err, want)
		}
		if err := loadFile(t, b, a); err == nil || !strings.HasSuffix(err.Error(), want) || errors.Is(err, checkpoint.ErrFormat) {
			t.Errorf("from a file: %v, want %s", err, want)
		}
		b.Close()
	}
	b := must(New(saveConfig()))
	defer b.Close()
	b.cfg.MemoryLimit = func() (int64, string) { return 1000, "test" }
	err := loadFile(t, b, a)
	if errors.Is(err, checkpoint.ErrFormat) {
		t.Errorf("no memory, from a file: %v is ErrFormat", err)
	}
	err = load(b, data)
	var memory *fault.Memory
	if !errors.As(err, &memory) || !strings.HasPrefix(err.Error(), "buffer_size: 41 needs ") ||
		!strings.HasSuffix(err.Error(), "1000 bytes are available (test); during a load the old and the new replay memory are both in memory") {
		t.Errorf("no memory: %v", err)
	}
}

// A discarded load leaves nothing behind. A load of a file without replay empties the memory and
// needs no memory.
func TestADiscardedLoadChangesNothing(t *testing.T) {
	a, b := must(New(saveConfig())), must(New(saveConfig()))
	defer a.Close()
	defer b.Close()
	run(t, a, 0, 40)
	run(t, b, 0, 20)
	empty, before, data := must(New(saveConfig())).Hash(), b.Hash(), saved(t, a)
	p := b.Part("replay", anyAction)
	for range 3 {
		adopt, err := p.Read(bytes.NewReader(data), int64(len(data)))
		if err != nil || adopt == nil || b.Hash() != before {
			t.Fatalf("%v, or something has changed", err)
		}
		p.Discard()
		p.Discard() // there is nothing left to discard
	}
	adopt, err := p.Read(bytes.NewReader(data), int64(len(data)))
	check(t, err)
	adopt()
	p.Discard()
	if b.Hash() != a.Hash() {
		t.Error("contents differ")
	}
	goesOn(t, b)
	b.cfg.MemoryLimit = func() (int64, string) { return 0, "test" }
	adopt, err = p.Read(nil, 0)
	check(t, err)
	if b.Len() == 0 {
		t.Error("emptied before adopt")
	}
	if adopt(); b.Hash() != empty {
		t.Error("not empty")
	}
}

// A memory that has changed to whole observations is loaded as such, but is refused if stacks are
// declared.
func TestWholeObservationsAreSavedAndLoaded(t *testing.T) {
	c := saveConfig()
	c.Stack = StackDetect
	a := must(New(c))
	defer a.Close()
	run(t, a, 0, 40)
	more, err := a.StoreWhole()
	check(t, err)
	if more <= 0 {
		t.Errorf("whole observations take %d bytes more", more)
	}
	run(t, a, 40, 70)
	data := saved(t, a)
	b := must(New(c))
	defer b.Close()
	check(t, load(b, data))
	if a.Hash() != b.Hash() {
		t.Error("contents differ")
	}
	run(t, a, 70, 100)
	run(t, b, 70, 100)
	if a.Hash() != b.Hash() {
		t.Error("continuations differ")
	}
	d := must(New(saveConfig()))
	defer d.Close()
	if err := loadFile(t, d, a); err == nil || !strings.Contains(err.Error(), "frame_stack: replay saved with 1, must be 3") || errors.Is(err, checkpoint.ErrFormat) {
		t.Errorf("declared: %v", err)
	}
}

// Numbers that no memory writes are refused, whatever the checksum. Otherwise an index could leave
// the ring, an action could be invalid, or a step could have no segment.
func TestForgedNumbersAreRefused(t *testing.T) {
	a := must(New(saveConfig()))
	defer a.Close()
	run(t, a, 0, 20)
	head, row := binary.Size(saveHeader{}), binary.Size(savePartition{})
	first := head + 2*row
	forge := func(m *Memory, at int, value uint64) error {
		data := saved(t, m)
		binary.LittleEndian.PutUint64(data[at:], value)
		b := must(New(saveConfig()))
		defer b.Close()
		_, _, err := b.read(bytes.NewReader(data), int64(len(data)), 200)
		return err
	}
	check(t, forge(a, head, 20)) // unchanged
	empty := must(New(saveConfig()))
	defer empty.Close()
	for _, flag := range []uint64{flagPending, flagCut, 4, 1 << 63} {
		if err := forge(empty, head+4*8, flag); !errors.Is(err, errDamaged) {
			t.Errorf("flag %d without its observation: %v", flag, err)
		}
	}
	p := &a.parts[0]
	if !p.pending || p.cut {
		t.Fatal("environment 0 must be inside a segment")
	}
	steps := int(p.nextStep - p.oldest)
	lastStep := first + transitionBytes*(steps-1)
	word := func(action int32, reward float32) uint64 {
		return uint64(uint32(action)) | uint64(math.Float32bits(reward))<<32
	}
	check(t, forge(a, first+16, word(199, 1e30)))
	for at, values := range map[int][]uint64{
		head: {19, 0}, // fewer steps added than stored
		// more visible steps than the capacity, than stored
		head + 8:      {99, uint64(steps + 1), 1 << 63},
		head + 16:     {1 << 60, uint64(steps + 1), uint64(steps - 1)},
		head + 24:     {1 << 50, uint64(p.nextFrame-p.oldestFrame) + 1},
		head + 32:     {0, flagCut, flagCut | flagPending}, // a cut without an end
		first:         {1 << 2, 3 << 2, 1 << 63},           // no whole observation, a gap
		first + 24:    {1 << 40, 2 << 2},
		first + 16:    {word(200, 0), word(-1, 0), word(0, float32(math.Inf(1))), word(0, float32(math.NaN()))},
		lastStep:      {uint64(p.nextFrame-p.oldestFrame-1) << 2, uint64(p.nextFrame-p.oldestFrame-2)<<2 | 1, uint64(p.nextFrame-p.oldestFrame-2)<<2 | 2},
		lastStep + 16: {word(math.MaxInt32, 0)},
	} {
		for _, value := range values {
			if err := forge(a, at, value); !errors.Is(err, errDamaged) || !errors.Is(err, checkpoint.ErrFormat) {
				t.Errorf("byte %d set to %#x: %v", at, value, err)
			}
		}
	}
}

// Float observations must be finite, as environments' observations are.
func TestForgedObservationsAreRefused(t *testing.T) {
	cfg := Config{Obs: env.ObsSpec{DType: env.Float32, Shape: []int{2}}, Envs: 1, Capacity: 5, Window: 5}
	a, b := must(New(cfg)), must(New(cfg))
	defer a.Close()
	defer b.Close()
	check(t, a.Begin(0, make([]byte, 8)))
	check(t, addStep(a, 0, 0, 0, 0, 0, make([]byte, 8)))
	data := saved(t, a)
	check(t, load(b, data))
	binary.LittleEndian.PutUint32(data[len(data)-4:], math.Float32bits(float32(math.NaN())))
	if err := load(b, data); !errors.Is(err, errDamaged) {
		t.Error(err)
	}
}

type failing struct{ left int }

func (f *failing) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, errors.New("disk full")
	}
	return len(b), nil
}

func TestSaveReportsWriteErrors(t *testing.T) {
	a := must(New(saveConfig()))
	defer a.Close()
	run(t, a, 0, 40)
	size := len(saved(t, a))
	for n := range size {
		if err := a.save(&failing{n}); err == nil || err.Error() != "disk full" {
			t.Fatalf("%d bytes available: %v", n, err)
		}
	}
	check(t, a.save(&failing{size}))
}

// Files and recorded runs depend on the saved form and the hash, so neither may change. A new
// format must still read this one.
func TestFormatAndHashAreStable(t *testing.T) {
	a := must(New(saveConfig()))
	defer a.Close()
	run(t, a, 0, 40)
	const wantSave = "2732e534f4463dcfa935cb002127054113c6af066a28b725c15b38d9e4b1e9ca"
	const wantHash = "063abf8e8f7167f03402a5a31305539169cfd358e4d2ac1dc443eee693408c15"
	if got := fmt.Sprintf("%x", sha256.Sum256(saved(t, a))); got != wantSave {
		t.Errorf("saved data have SHA-256 %s", got)
	}
	if got := fmt.Sprintf("%x", a.Hash()); got != wantHash {
		t.Errorf("hash %s", got)
	}
}

func TestClearRemovesEveryStep(t *testing.T) {
	m := must(New(Config{Obs: stackSpec(2, 3), Envs: 2, Capacity: 10, Window: 4}))
	defer m.Close()
	empty := m.Hash()
	obs := make([]byte, 6)
	for e := range 2 {
		check(t, m.Begin(e, obs))
		check(t, addStep(m, e, 1, 2, 3, 0, obs))
	}
	m.Flush()
	if m.Len() != 2 || m.Hash() == empty {
		t.Fatalf("%d transitions", m.Len())
	}
	m.Clear()
	m.Flush()
	if m.Len() != 0 || m.Hash() != empty {
		t.Errorf("%d transitions after Clear", m.Len())
	}
	if err := addStep(m, 0, 1, 2, 3, 0, obs); err == nil {
		t.Error("a pending observation survived Clear")
	}
}

// Any bytes give a quick answer without much memory, and accepted bytes give a usable memory.
func FuzzLoad(f *testing.F) {
	a := must(New(saveConfig()))
	defer a.Close()
	f.Add(saved(f, a))
	cfg := saveConfig()
	cfg.MemoryLimit = func() (int64, string) { return 100 << 20, "test" }
	for _, to := range []int{1, 13, 40} {
		m := must(New(saveConfig()))
		obs := []byte{1, 2, 3}
		for i := range to {
			if i%5 == 0 {
				m.Begin(1, obs)
			}
			addStep(m, 1, int32(i%4), 1, uint64(i), env.End(max(0, i%5-3)), obs)
		}
		m.Flush()
		f.Add(saved(f, m))
		m.Close()
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m := must(New(cfg))
		defer m.Close()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := load(m, data)
		runtime.ReadMemStats(&after)
		if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 100 {
			t.Fatalf("%d MB", mb)
		}
		if err == nil {
			if !bytes.Equal(saved(t, m), data) {
				t.Fatal("saved again, the bytes differ")
			}
			goesOn(t, m)
		}
	})
}
