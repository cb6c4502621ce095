package replay

import (
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
)

// An Identity names the same transition after later flushes, until it is evicted.
func TestIdentitiesLast(t *testing.T) {
	m, err := New(Config{Obs: env.ObsSpec{Shape: []int{1}, DType: env.Float32}, Envs: 2, Capacity: 8, Window: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	u := Uniform{Memory: m}
	obs, names := make([]byte, 4), map[int64]float32{}
	to := m.Minibatch(1)
	for k := range 20 {
		e := k % 2
		if m.Room(e) < 2 {
			m.Flush()
		}
		if k < 2 {
			if err := m.Begin(e, obs); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.Add(e, &experience.Step{Action: []int32{0}, Reward: float32(k)}, obs); err != nil {
			t.Fatal(err)
		}
		m.Flush()
		for pick := range m.Len() {
			m.Gather([]int{pick}, 1, 1, to, nil)
			names[m.Identity(pick)] = to.Rewards[0]
		}
		if len(names) != k+1 {
			t.Fatalf("%d identities of %d transitions", len(names), k+1)
		}
		stored := 0
		for name, reward := range names {
			pick, ok := m.Pick(name)
			if !ok {
				continue
			}
			stored++
			if m.Gather([]int{pick}, 1, 1, to, nil); to.Rewards[0] != reward || !u.Has(pick) {
				t.Fatalf("identity %d: reward %v, was %v", name, to.Rewards[0], reward)
			}
		}
		if stored != m.Len() {
			t.Fatalf("%d of %d transitions have an identity", stored, m.Len())
		}
	}
	for _, name := range []int64{-1, 1 << 62, 2 << identityBits, 1<<identityBits - 1} {
		if _, ok := m.Pick(name); ok {
			t.Errorf("identity %d is stored", name)
		}
	}
}
