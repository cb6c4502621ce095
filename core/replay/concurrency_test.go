package replay

import (
	"bytes"
	"sync"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/rng"
)

// Each environment's sampler writes in its own goroutine while the trainer draws and hashes. Drawn
// transitions are complete and belong to earlier windows, and the contents do not depend on the
// interleaving. With -race this tests the rules of the package comment.
func TestSamplersWriteWhileTheTrainerDraws(t *testing.T) {
	const envs, windows, share = 4, 30, 60
	var want [32]byte
	for round := range 3 {
		m := must(New(Config{Obs: stackSpec(4, 32), Envs: envs, Capacity: 500, Window: envs * share, Stack: StackDeclared}))
		// Every byte of frame i is i, and stacks shift by one frame.
		frame := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, 32) }
		stack := func(i int) []byte {
			return append(append(append(frame(i-3), frame(i-2)...), frame(i-1)...), frame(i)...)
		}
		count := make([]int, envs)
		for e := range envs {
			check(t, m.Begin(e, stack(0)))
		}
		for w := range windows {
			var all sync.WaitGroup
			for e := range envs {
				if m.Room(e) == 0 || !m.parts[e].frames.fits(m.parts[e].oldestFrame, m.parts[e].nextFrame+2*share) {
					check(t, m.parts[e].frames.grow(m.parts[e].oldestFrame, m.parts[e].nextFrame, m.parts[e].frames.slots+2*share))
				}
				all.Go(func() {
					for range share {
						count[e]++
						i, end := count[e], env.End(0)
						if i%23 == e {
							end = env.End(1 + i%3)
						}
						if err := addStep(m, e, int32(i), float32(i), uint64(w), end, stack(i)); err != nil {
							t.Error(err)
							return
						}
						if i%41 == 0 {
							m.Cut(e)
						}
						if !m.parts[e].pending {
							if err := m.Begin(e, stack(i)); err != nil {
								t.Error(err)
								return
							}
						}
					}
				})
			}
			if m.Len() > 0 {
				all.Go(func() {
					before := m.Hash()
					b, r := m.Minibatch(32), rng.New(uint64(w), "replay", 0)
					for range 20 {
						draw(m, r, b, nil)
						for row, a := range b.Actions {
							obs := b.Obs[row*128 : (row+1)*128]
							if !bytes.Equal(obs, stack(int(a)-1)) {
								t.Errorf("transition %d has %v", a, obs)
							}
							if next := b.NextObs[row*128 : (row+1)*128]; !b.Terminated[row] && !bytes.Equal(next, stack(int(a))) {
								t.Errorf("transition %d leads to %v", a, next)
							}
							if b.Updates[row] >= uint64(w) {
								t.Errorf("transition %d of this window", a)
							}
						}
					}
					if m.Hash() != before {
						t.Error("visible part changed inside a window")
					}
				})
			}
			all.Wait()
			m.Flush()
		}
		if round == 0 {
			want = m.Hash()
		} else if m.Hash() != want {
			t.Error("contents depend on interleaving")
		}
		m.Close()
	}
}
