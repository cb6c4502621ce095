package replay

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/rng"
)

// run goes on with a deterministic environment: step i of it is a function of i.
func run(t *testing.T, m *Memory, from, to int) {
	t.Helper()
	obs := func(i int) []byte { return []byte{byte(i), byte(i + 1), byte(i + 2)} }
	for i := from; i < to; i++ {
		for e := range m.parts {
			if m.Room(e) == 0 {
				check(t, m.Grow())
			}
			if i == 0 || (i-1)%9 == 8-e {
				check(t, m.Begin(e, obs(i)))
			}
			end := env.End(0)
			if i%9 == 8-e {
				end = env.End(1 + (i+e)%3)
			}
			check(t, m.Add(e, int32(i*10+e), float32(i), uint64(i/3), end, obs(i+1)))
		}
		if i%13 == 12 {
			m.Flush()
		}
	}
}

func saveConfig() Config {
	return Config{Obs: stackSpec(3, 1), Envs: 2, Capacity: 41, Window: 26, Stack: StackDeclared}
}

// Saved in mid-window, with staged steps and pending observations, and loaded
// elsewhere, everything goes on the same.
func TestSaveContinues(t *testing.T) {
	for _, at := range []int{0, 1, 5, 12, 13, 40, 100} {
		a := must(New(saveConfig()))
		run(t, a, 0, at)
		if at == 40 {
			a.Flush()
			a.Cut(0) // staged as well: the visible flag changes only at the next flush
			check(t, a.Begin(0, []byte{40, 41, 42}))
		}
		var saved, again bytes.Buffer
		check(t, a.Save(&saved))
		stream := bytes.Clone(saved.Bytes())
		other := saveConfig()
		other.Window = 1
		b := must(New(other))
		run(t, b, 0, 30) // something to be replaced
		saved.WriteString("what follows is somebody else's")
		check(t, b.Load(&saved))
		if saved.String() != "what follows is somebody else's" {
			t.Fatalf("at %d: Load read too far, left %q", at, saved.String())
		}
		check(t, b.Save(&again))
		if !bytes.Equal(stream, again.Bytes()) {
			t.Errorf("at %d: loaded and saved again, the bytes differ", at)
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
		x, y := a.NewBatch(64), b.NewBatch(64)
		a.Sample(rng.New(1, "replay", 0), x, nil)
		b.Sample(rng.New(1, "replay", 0), y, nil)
		if a.Hash() != b.Hash() || !bytes.Equal(x.Obs, y.Obs) || !bytes.Equal(x.NextObs, y.NextObs) {
			t.Error("continuations differ")
		}
		a.Close()
		b.Close()
	}
}

// Every truncation and every changed byte is an error that changes nothing.
func TestDamagedSave(t *testing.T) {
	a := must(New(saveConfig()))
	defer a.Close()
	run(t, a, 0, 40)
	var buf bytes.Buffer
	check(t, a.Save(&buf))
	saved := buf.Bytes()
	b := must(New(saveConfig()))
	defer b.Close()
	run(t, b, 0, 14)
	before := b.Hash()
	for n := range saved {
		err := b.Load(bytes.NewReader(saved[:n]))
		if err == nil || !strings.HasSuffix(err.Error(), "the saved data end early") {
			t.Fatalf("%d of %d bytes: %v", n, len(saved), err)
		}
		broken := bytes.Clone(saved)
		broken[n] ^= 1 << (n % 8)
		if b.Load(bytes.NewReader(broken)) == nil {
			t.Fatalf("byte %d changed, loaded", n)
		}
		if b.Hash() != before {
			t.Fatal("a failed Load changed the memory")
		}
	}
	check(t, b.Load(bytes.NewReader(saved)))
	if a.Hash() != b.Hash() {
		t.Error("contents differ")
	}
}

func TestForeignSave(t *testing.T) {
	a := must(New(saveConfig()))
	defer a.Close()
	var buf bytes.Buffer
	check(t, a.Save(&buf))
	for want, change := range map[string]func(c *Config){
		"num_envs: replay saved with 2, must be 3":      func(c *Config) { c.Envs = 3 },
		"buffer_size: replay saved with 41, must be 40": func(c *Config) { c.Capacity = 40 },
		"saved with observations of 3 bytes, must be 6": func(c *Config) { c.Obs = stackSpec(3, 2) },
		"frame_stack: replay saved with 3, must be 1":   func(c *Config) { c.Obs.FrameStack = 0 },
	} {
		c := saveConfig()
		change(&c)
		b := must(New(c))
		if err := b.Load(bytes.NewReader(buf.Bytes())); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		b.Close()
	}
	b := must(New(saveConfig()))
	defer b.Close()
	if err := b.Load(strings.NewReader(strings.Repeat("PNG", 100))); err == nil || !strings.Contains(err.Error(), "not saved replay data") {
		t.Errorf("foreign data: %v", err)
	}
	b.cfg.MemoryLimit = func() (int64, string) { return 1000, "test" }
	if err := b.Load(bytes.NewReader(buf.Bytes())); err == nil || !strings.Contains(err.Error(), "buffer_size: 41 needs ") {
		t.Errorf("no memory: %v", err)
	}
	newer := bytes.Clone(buf.Bytes())
	newer[8] = 9
	if err := b.Load(bytes.NewReader(newer)); err == nil || !strings.Contains(err.Error(), "saved in format 9, this version reads 1") {
		t.Errorf("newer format: %v", err)
	}
}

// A memory that went over to whole observations comes back as one, but not
// where stacks were declared.
func TestSaveWhole(t *testing.T) {
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
	var buf bytes.Buffer
	check(t, a.Save(&buf))
	b := must(New(c))
	defer b.Close()
	check(t, b.Load(bytes.NewReader(buf.Bytes())))
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
	if err := d.Load(bytes.NewReader(buf.Bytes())); err == nil || !strings.Contains(err.Error(), "frame_stack: replay saved with 1, must be 3") {
		t.Errorf("declared: %v", err)
	}
}

// Data whose checksums are right but whose numbers are not must not be trusted
// either: At would leave the ring.
func TestForgedSave(t *testing.T) {
	a := must(New(saveConfig()))
	defer a.Close()
	run(t, a, 0, 20)
	const head, table = 32, 2 * 40
	forge := func(m *Memory, at int, value uint64) error {
		var buf bytes.Buffer
		check(t, m.Save(&buf))
		s := buf.Bytes()
		binary.LittleEndian.PutUint64(s[at:], value)
		sum := crc32.New(castagnoli)
		sum.Write(s[:head+table])
		binary.LittleEndian.PutUint32(s[head+table:], sum.Sum32())
		sum.Write(s[head+table+4 : len(s)-4])
		binary.LittleEndian.PutUint32(s[len(s)-4:], sum.Sum32())
		b := must(New(saveConfig()))
		defer b.Close()
		return b.Load(bytes.NewReader(s))
	}
	check(t, forge(a, head, 20)) // as it was
	empty := must(New(saveConfig()))
	defer empty.Close()
	for _, flag := range []uint64{flagPending, flagCut} {
		if err := forge(empty, head+32, flag); !errors.Is(err, errDamaged) {
			t.Errorf("flag %d without what it speaks of: %v", flag, err)
		}
	}
	first := head + table + 4
	p := &a.parts[0]
	lastStep := first + transitionBytes*int(p.nextStep-p.oldest-1)
	for at, value := range map[int]uint64{
		head + 8:   99,                                // more visible than the capacity
		head + 16:  1 << 60,                           // steps
		head + 24:  1 << 50,                           // frames
		first:      1 << 2,                            // a stack that begins before the first frame
		first + 24: 1 << 40,                           // a frame that is not there
		lastStep:   uint64(p.nextFrame-p.keep-1) << 2, // a next frame that is not there
	} {
		if err := forge(a, at, value); !errors.Is(err, errDamaged) {
			t.Errorf("byte %d set to %d: %v", at, value, err)
		}
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
	var buf bytes.Buffer
	check(t, a.Save(&buf))
	for n := range buf.Len() {
		if err := a.Save(&failing{n}); err == nil || err.Error() != "disk full" {
			t.Fatalf("room for %d bytes: %v", n, err)
		}
	}
	check(t, a.Save(&failing{buf.Len()}))
}

// The saved form and the hash are for ever: files and recorded runs depend on
// them. A change of format keeps reading this one.
func TestGoldenFormat(t *testing.T) {
	a := must(New(saveConfig()))
	defer a.Close()
	run(t, a, 0, 40)
	var buf bytes.Buffer
	check(t, a.Save(&buf))
	const wantSave = "2aa9b5f67f8da9dacb971f70d5a32987372e4a0e0f92899aac253da2f7e11a07"
	const wantHash = "063abf8e8f7167f03402a5a31305539169cfd358e4d2ac1dc443eee693408c15"
	if got := fmt.Sprintf("%x", sha256.Sum256(buf.Bytes())); got != wantSave {
		t.Errorf("saved data have SHA-256 %s", got)
	}
	if got := fmt.Sprintf("%x", a.Hash()); got != wantHash {
		t.Errorf("hash %s", got)
	}
}

func TestClear(t *testing.T) {
	m := must(New(Config{Obs: stackSpec(2, 3), Envs: 2, Capacity: 10, Window: 4}))
	defer m.Close()
	empty := m.Hash()
	obs := make([]byte, 6)
	for e := range 2 {
		check(t, m.Begin(e, obs))
		check(t, m.Add(e, 1, 2, 3, 0, obs))
	}
	m.Flush()
	if m.Len() != 2 || m.Hash() == empty {
		t.Fatalf("%d transitions", m.Len())
	}
	check(t, m.Clear())
	m.Flush()
	if m.Len() != 0 || m.Hash() != empty {
		t.Errorf("%d transitions after Clear", m.Len())
	}
	if err := m.Add(0, 1, 2, 3, 0, obs); err == nil {
		t.Error("a pending observation survived Clear")
	}
}
