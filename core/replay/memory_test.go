package replay

import (
	"bytes"
	"errors"
	"runtime"
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/threads"
)

func atari(capacity, window int) Config {
	return Config{Obs: env.ObsSpec{Shape: []int{4, 84, 84}, FrameStack: 4}, Envs: 1, Capacity: capacity, Window: window,
		MemoryLimit: func() (int64, string) { return 1 << 60, "test" }}
}

func TestDrawAddAndFlushDoNotAllocate(t *testing.T) {
	m := filled(t, 4, 64)
	defer m.Close()
	r, b, obs := rng.New(1, "replay", 0), m.Minibatch(8), make([]byte, 20)
	picks := make([]int, 8)
	if n := testing.AllocsPerRun(100, func() {
		Uniform{Memory: m}.Draw(r, picks)
		m.Gather(picks, 1, gamma, b, nil)
	}); n != 0 {
		t.Errorf("Draw, Gather: %g allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() {
		err := m.Begin(0, obs)
		for range 7 {
			err = errors.Join(err, addStep(m, 0, 1, 1, 1, 0, obs))
		}
		if err = errors.Join(err, addStep(m, 0, 1, 1, 1, env.Truncated, obs)); err != nil {
			t.Fatal(err)
		}
		m.Flush()
	}); n != 0 {
		t.Errorf("Begin, Add, Flush: %g allocations", n)
	}
}

// A replay memory of full size takes no Go heap, and system memory only for written pages.
func TestBigRingIsOffHeap(t *testing.T) {
	if !offHeap {
		t.Skip("replay lies on the Go heap in this build")
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	m := must(New(atari(1_000_000, 10_000)))
	defer m.Close()
	if m.Bytes() < 7_100_000_000 {
		t.Errorf("Bytes %d", m.Bytes())
	}
	obs := make([]byte, 4*84*84)
	check(t, m.Begin(0, obs))
	for range 100 {
		check(t, addStep(m, 0, 0, 0, 0, 0, obs))
	}
	m.Flush()
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 1<<20 {
		t.Errorf("heap grew by %d bytes", grown)
	}
}

func TestUseAfterClosePanics(t *testing.T) {
	m := must(New(atari(10, 1)))
	m.Close()
	m.Close()
	defer func() {
		if recover() == nil {
			t.Error("use after Close must panic, not touch unmapped memory")
		}
	}()
	m.Begin(0, make([]byte, 4*84*84))
}

func BenchmarkMinibatch32(b *testing.B) {
	m := must(New(atari(20_000, 100)))
	defer m.Close()
	fill(b, m, 20_000)
	batch, r := m.Minibatch(32), rng.New(1, "replay", 0)
	b.SetBytes(int64(2 * len(batch.Obs)))
	b.ReportAllocs()
	picks := make([]int, 32)
	for b.Loop() {
		Uniform{Memory: m}.Draw(r, picks)
		m.Gather(picks, 1, gamma, batch, nil)
	}
}

func BenchmarkAdd(b *testing.B) {
	for name, mode := range map[string]StackMode{"trusted": StackTrusted, "checked": StackDeclared} {
		b.Run(name, func(b *testing.B) {
			c := atari(20_000, 100)
			c.Stack = mode
			m := must(New(c))
			defer m.Close()
			obs := fill(b, m, 20_200)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				shift(obs, byte(i))
				if err := addStep(m, 0, 1, 1, 1, 0, obs); err != nil {
					b.Fatal(err)
				}
				if i%100 == 99 {
					m.Flush()
				}
			}
		})
	}
}

// fill adds n steps of one segment.
func fill(b *testing.B, m *Memory, n int) []byte {
	obs := make([]byte, 4*84*84)
	check(b, m.Begin(0, obs))
	for i := range n {
		shift(obs, byte(i))
		check(b, addStep(m, 0, 0, 0, 0, 0, obs))
		if i%100 == 99 {
			m.Flush()
		}
	}
	return obs
}

// shift moves the stack in obs on by one frame. It changes only the ends of each frame, so the
// benchmark measures little of its own work.
func shift(obs []byte, x byte) {
	const frame = 84 * 84
	for f := range 3 {
		obs[f*frame], obs[f*frame+frame-1] = obs[(f+1)*frame], obs[(f+1)*frame+frame-1]
	}
	obs[3*frame], obs[4*frame-1] = x, x
}

// A pool of any size copies the same rows as one thread, and allocates nothing.
func TestThreadsGatherTheSameRows(t *testing.T) {
	m := must(New(atari(200, 100)))
	defer m.Close()
	r, obs := rng.New(1, "replay", 0), make([]byte, 4*84*84)
	check(t, m.Begin(0, obs))
	for range 200 {
		copy(obs, obs[84*84:])
		for i := range 84 * 84 {
			obs[3*84*84+i] = byte(r.Intn(256))
		}
		check(t, addStep(m, 0, int32(r.Intn(4)), 1, 1, 0, obs))
		m.Flush()
	}
	one, many := m.Minibatch(33), m.Minibatch(33)
	if len(one.Obs) < worthSharing {
		t.Fatal("the batch is too small to be shared")
	}
	draw(m, rng.New(2, "replay", 0), one, nil)
	for _, n := range []int{1, 2, 3} {
		pool := must(threads.NewPool(n, nil))
		defer pool.Close()
		draw(m, rng.New(2, "replay", 0), many, pool)
		if !bytes.Equal(one.Obs, many.Obs) || !bytes.Equal(one.NextObs, many.NextObs) || !slices.Equal(one.Actions, many.Actions) {
			t.Errorf("%d threads: another batch", n)
		}
		picks := make([]int, 33)
		if allocs := testing.AllocsPerRun(10, func() { m.Gather(picks, 1, gamma, many, pool) }); allocs != 0 {
			t.Errorf("%d threads: %v allocations", n, allocs)
		}
	}
}

// Steps are pending until a Flush makes them visible.
func TestStepsArePendingUntilFlush(t *testing.T) {
	m := must(New(atari(10, 1)))
	defer m.Close()
	obs := make([]byte, 4*84*84)
	check(t, m.Begin(0, obs))
	for _, steps := range []int{0, 3, 1, 0} {
		for range steps {
			check(t, addStep(m, 0, 0, 0, 0, 0, obs))
		}
		if m.Pending() != steps {
			t.Errorf("%d pending, must be %d", m.Pending(), steps)
		}
		before := m.Len()
		m.Flush()
		if m.Pending() != 0 || m.Len() != before+steps {
			t.Errorf("%d pending and %d visible after a flush of %d", m.Pending(), m.Len(), steps)
		}
	}
}
