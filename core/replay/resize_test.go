package replay

import (
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
)

// Segments of one step need five slots each. The rings grow in few steps and not much beyond the
// need.
func TestGrowFollowsShortSegments(t *testing.T) {
	m := must(New(Config{Obs: stackSpec(4, 1), Envs: 2, Capacity: 2000, Window: 200}))
	defer m.Close()
	grown := 0
	for i := range 6000 {
		for e := range 2 {
			if m.Room(e) == 0 {
				before := m.Hash()
				check(t, m.Grow(1))
				if m.Hash() != before {
					t.Fatal("Grow changed what is visible")
				}
				grown++
			}
			check(t, m.Begin(e, []byte{0, 0, 0, byte(i)}))
			check(t, addStep(m, e, int32(i), 0, 0, env.Truncated, []byte{0, 0, byte(i), byte(i + 1)}))
		}
		if i%100 == 99 {
			m.Flush()
		}
	}
	if m.Len() != 2000 {
		t.Errorf("Len %d", m.Len())
	}
	if grown == 0 || grown > 4 {
		t.Errorf("grown %d times", grown)
	}
	if need, have := int64(1100*5), m.parts[0].frames.slots; have > need*11/10 {
		t.Errorf("%d slots where %d do", have, need)
	}
}

// A warm-up may be longer than a window, so the ring of transitions also grows.
func TestRingsGrowUntilAFlush(t *testing.T) {
	m := must(New(Config{Obs: stackSpec(1, 1), Envs: 1, Capacity: 10, Window: 1}))
	defer m.Close()
	check(t, m.Begin(0, []byte{0}))
	for i := range 500 {
		if m.Room(0) == 0 {
			check(t, m.Grow(1))
		}
		check(t, addStep(m, 0, int32(i), 0, 0, 0, []byte{byte(i + 1)}))
	}
	m.Flush()
	if m.Len() != 10 || !strings.HasPrefix(tuple(m, 9), "[243] a499 ") || !strings.HasPrefix(tuple(m, 0), "[234] a490 ") {
		t.Errorf("Len %d, %s ... %s", m.Len(), tuple(m, 0), tuple(m, 9))
	}
}

// A segment that is cut before its first step takes no room.
func TestEmptySegmentsTakeNoRoom(t *testing.T) {
	m := must(New(Config{Obs: stackSpec(4, 1), Envs: 1, Capacity: 5, Window: 1}))
	defer m.Close()
	check(t, m.Begin(0, []byte{9, 9, 9, 9}))
	check(t, addStep(m, 0, 7, 0, 0, env.Terminated, nil))
	for i := range 1000 {
		check(t, m.Begin(0, []byte{1, 2, 3, 4}))
		m.Cut(0)
		check(t, m.Begin(0, []byte{1, 2, 3, 4}))
		if i%50 == 0 {
			m.Flush()
		}
	}
	check(t, addStep(m, 0, 0, 0, 0, 0, []byte{2, 3, 4, 5}))
	m.Flush()
	expectTuples(t, m, "[9 9 9 9] a7 r0 v0 [0 0 0 0] T", "[1 2 3 4] a0 r0 v0 [2 3 4 5]")
	if m.Room(0) == 0 {
		t.Error("nothing free")
	}
}

func TestGrowthWithoutMemoryIsRefused(t *testing.T) {
	free := int64(1 << 30)
	m := must(New(Config{Obs: stackSpec(4, 100), Envs: 1, Capacity: 100, Window: 1, Stack: StackDetect,
		MemoryLimit: func() (int64, string) { return free, "test" }}))
	defer m.Close()
	for m.Room(0) > 0 {
		check(t, m.Begin(0, make([]byte, 400)))
		check(t, addStep(m, 0, 0, 0, 0, env.Truncated, make([]byte, 400)))
	}
	m.Flush()
	hash, bytes := m.Hash(), m.Bytes()
	free = 100
	if err := m.Grow(1); err == nil || !strings.HasPrefix(err.Error(), "buffer_size: 100 needs ") ||
		!strings.Contains(err.Error(), "more memory for episodes this short, 100 bytes are available (test)") {
		t.Errorf("Grow: %v", err)
	}
	if _, err := m.StoreWhole(); err == nil || !strings.Contains(err.Error(), "more memory to store observations whole, 100 bytes are available (test)") {
		t.Errorf("StoreWhole: %v", err)
	}
	if m.Hash() != hash || m.Bytes() != bytes {
		t.Error("a refusal changed something")
	}
}

// A short segment stores nearly two whole observations per step.
func TestStoreWholeKeepsShortSegments(t *testing.T) {
	m := must(New(Config{Obs: stackSpec(2, 1), Envs: 1, Capacity: 300, Window: 1, Stack: StackDetect}))
	defer m.Close()
	for i := range 300 {
		if m.Room(0) == 0 {
			check(t, m.Grow(1))
		}
		check(t, m.Begin(0, []byte{0, byte(i)}))
		check(t, addStep(m, 0, 0, 0, 0, env.Truncated, []byte{byte(i), 1}))
	}
	m.Flush()
	hash := m.Hash()
	_, err := m.StoreWhole()
	check(t, err)
	if m.Hash() != hash || m.Len() != 300 {
		t.Error("contents changed")
	}
}

func TestCapacityIsExact(t *testing.T) {
	for envs := 1; envs <= 7; envs++ {
		m := must(New(Config{Obs: stackSpec(1, 1), Envs: envs, Capacity: 23, Window: 5}))
		for i := range 100 {
			for e := range envs {
				if i == 0 {
					check(t, m.Begin(e, []byte{0}))
				}
				check(t, addStep(m, e, 0, 0, 0, 0, []byte{0}))
			}
			m.Flush()
		}
		if m.Len() != 23 {
			t.Errorf("%d environments: Len %d", envs, m.Len())
		}
		m.Close()
	}
}
