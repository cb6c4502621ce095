package replay

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"testing"
	"unsafe"

	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/rng"
)

// copied is a Copy in its own memory.
type copied struct {
	frames []byte
	width  int
	puts   int
	err    error // error of the next Put

	may        int
	registered [][]byte
	split      int // Puts of memory of which only a part is registered
}

func (c *copied) Resize(slots, width int) error {
	c.frames, c.width = bytes.Repeat([]byte{0xAA}, slots*width), width
	return nil
}

// Register fails after `may` pieces.
func (c *copied) Register(memory []byte) (func(), error) {
	if c.may == 0 {
		return nil, errors.New("cannot")
	}
	c.may--
	c.registered = append(c.registered, memory)
	return func() {
		c.registered = slices.DeleteFunc(c.registered, func(m []byte) bool { return &m[0] == &memory[0] })
	}, nil
}

func (c *copied) Put(slot int, frames []byte) error {
	c.puts += len(frames) / c.width
	begin := uintptr(unsafe.Pointer(&frames[0]))
	for _, m := range c.registered {
		from, until := uintptr(unsafe.Pointer(&m[0])), uintptr(unsafe.Pointer(&m[0]))+uintptr(len(m))
		if begin < until && from < begin+uintptr(len(frames)) && (begin < from || until < begin+uintptr(len(frames))) {
			c.split++
		}
	}
	if err := c.err; err != nil {
		c.err = nil
		return err
	}
	copy(c.frames[slot*c.width:(slot+len(frames)/c.width)*c.width], frames)
	return nil
}

// observation returns the observation of a stack in the copy.
func (c *copied) observation(s experience.Stack, frames int) []byte {
	var obs []byte
	for k := range frames {
		frame := make([]byte, c.width)
		if k >= frames-int(s.Frames) {
			slot := int(s.Base) + (int(s.First-s.Base)+k)%int(s.Slots)
			copy(frame, c.frames[slot*c.width:])
		}
		obs = append(obs, frame...)
	}
	return obs
}

// compareMirror checks that the stacks that a Mirror returns are the observations that
// Memory.Gather copies to b. draws draws them.
func compareMirror(t *testing.T, r *Mirror, c *copied, b *experience.Transitions, draws *rng.Stream) {
	t.Helper()
	check(t, r.Follow(c))
	rows := len(b.Actions)
	s := experience.Transitions{Stacks: make([]experience.Stack, rows), NextStacks: make([]experience.Stack, rows),
		Actions: make([]int32, rows), Rewards: make([]float32, rows), Discounts: make([]float32, rows), NextMasks: make([]byte, len(b.NextMasks))}
	picks := make([]int, rows)
	Uniform{Memory: r.m}.Draw(draws, picks)
	steps := 1 + int(draws.Uint64()%3)
	r.m.Gather(picks, steps, gamma, b, nil)
	r.Gather(picks, steps, gamma, &s, nil)
	for row := range rows {
		n := r.m.obsBytes
		if got := c.observation(s.Stacks[row], r.m.stack); !bytes.Equal(got, b.Obs[row*n:(row+1)*n]) {
			t.Fatalf("obs %v, want %v", got, b.Obs[row*n:(row+1)*n])
		}
		if got := c.observation(s.NextStacks[row], r.m.stack); !bytes.Equal(got, b.NextObs[row*n:(row+1)*n]) {
			t.Fatalf("next obs %v, want %v", got, b.NextObs[row*n:(row+1)*n])
		}
		if s.Actions[row] != b.Actions[row] || s.Rewards[row] != b.Rewards[row] || s.Discounts[row] != b.Discounts[row] {
			t.Fatalf("row %d: %v %v %v", row, s.Actions[row], s.Rewards[row], s.Discounts[row])
		}
	}
	if !bytes.Equal(s.NextMasks, b.NextMasks) {
		t.Fatalf("masks %v, want %v", s.NextMasks, b.NextMasks)
	}
}

// A frame is copied once, and after an error all frames are copied again.
func TestMirrorCopiesNewFramesOnce(t *testing.T) {
	m := must(New(Config{Obs: stackSpec(4, 2), Envs: 2, Capacity: 40, Window: 10}))
	defer m.Close()
	r, c := m.NewMirror(), &copied{}
	add := func(steps int) {
		for e := range 2 {
			for range steps {
				if !m.Open(e) {
					check(t, m.Begin(e, make([]byte, 8)))
				}
				check(t, addStep(m, e, 0, 0, 0, 0, make([]byte, 8)))
			}
		}
		m.Flush()
	}
	// an observation and three steps; nothing; five steps
	for _, want := range []int{2 * (4 + 3), 0, 2 * 5} {
		c.puts = 0
		check(t, r.Follow(c))
		if want > 0 && c.puts == 0 {
			add(map[int]int{14: 3, 10: 5}[want])
			check(t, r.Follow(c))
		}
		if c.puts != want {
			t.Errorf("%d frames were copied, must be %d", c.puts, want)
		}
	}
	add(1)
	c.err = errors.New("no")
	if err := r.Follow(c); err == nil {
		t.Error("an error of the copy is lost")
	}
	c.puts = 0
	check(t, r.Follow(c))
	if live := 2 * (4 + 9); c.puts != live {
		t.Errorf("%d frames were copied after an error, must be all %d", c.puts, live)
	}
}

// The rings' memory is registered in whole pages, up to the last copied frame. It is never
// registered while it moves or is unmapped. Memory that cannot be registered is copied as well.
func TestMirrorRegistersCopiedFrames(t *testing.T) {
	if !offHeap {
		t.Skip("left out: the rings lie on Go's heap")
	}
	const width, slots = 100_000, 400 // a piece is 1,024 pages of 25,000 bytes at 4 KB
	for _, may := range []int{0, 1, 1000} {
		m := must(New(Config{Obs: stackSpec(1, width), Envs: 1, Capacity: slots, Window: 10}))
		r, c := m.NewMirror(), &copied{may: may}
		obs := make([]byte, width)
		add := func(steps int) {
			for range steps {
				if !m.Open(0) {
					check(t, m.Begin(0, obs))
				}
				for i := range obs[:8] {
					obs[i]++
				}
				check(t, addStep(m, 0, 0, 0, 0, 0, obs))
				m.Flush()
			}
			check(t, r.Follow(c))
		}
		add(10)
		if n := len(c.registered); n != min(may, 1) {
			t.Errorf("%d pieces are registered after 10 frames, must be %d", n, min(may, 1))
		}
		add(slots - 50)
		total := 0
		for _, piece := range c.registered {
			if total += len(piece); uintptr(unsafe.Pointer(&piece[0]))%uintptr(os.Getpagesize()) != 0 {
				t.Errorf("a piece begins in the middle of a page")
			}
		}
		ring := &m.parts[0].frames
		if may > 1 && (len(c.registered) < 2 || total < (slots-50)*width || total > len(ring.mem)) || c.split > 0 {
			t.Errorf("%d bytes are registered in %d pieces, %d copies were of two", total, len(c.registered), c.split)
		}
		check(t, ring.grow(m.parts[0].oldestFrame, m.parts[0].nextFrame, ring.slots+100))
		m.relocations++
		if len(c.registered) != 0 {
			t.Error("the memory was moved while it was registered")
		}
		add(100)
		if got := c.frames[int((m.parts[0].nextFrame-1-ring.origin)%ring.slots)*width:][:width]; !bytes.Equal(got, obs) {
			t.Error("the copy's newest frame differs")
		}
		m.Close()
		if len(c.registered) != 0 {
			t.Error("the memory was unmapped while it was registered")
		}
	}
}
