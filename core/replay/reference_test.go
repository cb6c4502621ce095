package replay

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
)

// step is a transition of the naive reference, with complete observations.
type step struct {
	obs, next []byte // zeros after a termination
	action    int32
	reward    float32
	version   uint64
	end       env.End
	mask      []byte // of next; all ones after a termination
	sameNext  bool   // next is the following step's observation, if that step exists
}

// reference is a replay memory made of lists.
type reference struct {
	capacity []int
	all      [][]step
	visible  [][]step
	pending  [][]byte
	open     []bool // the newest step belongs to the segment in progress
}

func newReference(envs, capacity int) *reference {
	r := &reference{all: make([][]step, envs), visible: make([][]step, envs), pending: make([][]byte, envs),
		open: make([]bool, envs)}
	for e := range envs {
		r.capacity = append(r.capacity, (capacity+envs-1-e)/envs)
	}
	return r
}

func (r *reference) begin(e int, obs []byte) {
	r.cut(e)
	r.pending[e], r.open[e] = bytes.Clone(obs), false
}

func (r *reference) add(e int, action int32, reward float32, version uint64, end env.End, next, mask []byte) {
	goesOn := end == env.Lost
	if end&env.Lost != 0 { // to the learner a termination
		end = end&^env.Lost | env.Terminated
	}
	s := step{obs: r.pending[e], next: bytes.Clone(next), action: action, reward: reward, version: version, end: end, mask: bytes.Clone(mask)}
	if end&env.Terminated != 0 {
		s.next, s.mask = make([]byte, len(s.obs)), bytes.Repeat([]byte{1}, len(mask))
	}
	s.sameNext = end == 0
	r.all[e] = append(r.all[e], s)
	r.pending[e], r.open[e] = s.next, true
	switch {
	case goesOn:
		r.pending[e], r.open[e] = bytes.Clone(next), false
	case end != 0:
		r.pending[e] = nil
	}
}

func (r *reference) cut(e int) {
	if r.pending[e] != nil && r.open[e] {
		last := &r.all[e][len(r.all[e])-1]
		last.end, last.sameNext = env.Truncated, false
	}
	r.pending[e] = nil
}

// insert adds a segment of one transition before the pending observation.
func (r *reference) insert(e int, action int32, reward float32, version uint64, end env.End, obs, next, mask []byte) {
	pending := r.pending[e]
	r.begin(e, obs)
	r.add(e, action, reward, version, end, next, mask)
	if pending != nil {
		r.begin(e, pending)
	}
}

func (r *reference) flush() {
	for e, all := range r.all {
		r.visible[e] = append([]step(nil), all[max(0, len(all)-r.capacity[e]):]...)
	}
}

func (r *reference) flat() []step {
	var s []step
	for _, v := range r.visible {
		s = append(s, v...)
	}
	return s
}

func (r *reference) hash(obsBytes int) [32]byte {
	var b []byte
	b = binary.LittleEndian.AppendUint64(b, uint64(obsBytes))
	b = binary.LittleEndian.AppendUint64(b, uint64(len(r.all)))
	for _, v := range r.visible {
		b = binary.LittleEndian.AppendUint64(b, uint64(len(v)))
		for i, s := range v {
			b = append(b, s.obs...)
			b = binary.LittleEndian.AppendUint32(b, uint32(s.action))
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(s.reward))
			b = append(b, byte(s.end))
			packed := make([]byte, (len(s.mask)+7)/8)
			for a, allowed := range s.mask {
				if s.end&env.Terminated == 0 {
					packed[a/8] |= allowed << (a % 8)
				}
			}
			b = append(b, packed...)
			if s.end&env.Terminated == 0 && (!s.sameNext || i == len(v)-1) {
				b = append(b, s.next...)
			}
		}
	}
	return sha256.Sum256(b)
}

// stackSpec is the spec of observations of `stack` frames of `width` bytes.
func stackSpec(stack, width int) env.ObsSpec {
	return env.ObsSpec{Shape: []int{stack, width}, FrameStack: stack}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// compare fails unless m has exactly the contents of r.
func compare(t *testing.T, m *Memory, r *reference) {
	t.Helper()
	want := r.flat()
	if m.Len() != len(want) {
		t.Fatalf("Len %d, want %d", m.Len(), len(want))
	}
	b := m.Minibatch(3)
	for i, s := range want {
		for j := range b.NextObs {
			b.NextObs[j] = 0xAA
		}
		m.copyRow(i, 1, gamma, b, 1)
		compareRow(t, m, b, 1, s)
	}
	compareSteps(t, m, r, 2+len(want)%4)
	if m.Hash() != r.hash(m.obsBytes) {
		t.Fatal("hashes differ")
	}
}

// nSteps returns the transition over n steps of one environment from step i on, computed naively,
// and how many steps it has.
func nSteps(visible []step, i, n int) (s step, discount float64, m int) {
	s, discount = visible[i], 1
	sum := 0.0
	for m < n && i+m < len(visible) {
		last := visible[i+m]
		s.next, s.mask, s.end = last.next, last.mask, last.end
		sum += float64(math.Pow(gamma, float64(m)) * float64(last.reward))
		m++
		if last.end != 0 {
			break
		}
	}
	s.reward = float32(sum)
	if s.end&env.Terminated == 0 {
		discount = math.Pow(gamma, float64(m))
	} else {
		discount = 0
	}
	return s, discount, m
}

// compareSteps fails unless m has the transitions over n steps of r.
func compareSteps(t *testing.T, m *Memory, r *reference, n int) {
	t.Helper()
	i, b := 0, m.Minibatch(1)
	for _, visible := range r.visible {
		for k := range visible {
			want, discount, _ := nSteps(visible, k, n)
			for j := range b.NextObs {
				b.NextObs[j] = 0xAA
			}
			m.copyRow(i, n, gamma, b, 0)
			got := b.Discounts[0]
			if float64(got) != discount {
				t.Fatalf("transition %d over %d steps: discount %v, want %v", i, n, got, discount)
			}
			if got != 0 {
				b.Discounts[0] = gamma // compareRow knows one step
			}
			compareRow(t, m, b, 0, want)
			i++
		}
	}
}

func compareRow(t *testing.T, m *Memory, b *experience.Transitions, row int, s step) {
	t.Helper()
	n := m.obsBytes
	if got := b.Obs[row*n : (row+1)*n]; !bytes.Equal(got, s.obs) {
		t.Fatalf("obs %v, want %v", got, s.obs)
	}
	if got := b.NextObs[row*n : (row+1)*n]; !bytes.Equal(got, s.next) {
		t.Fatalf("next obs %v, want %v", got, s.next)
	}
	if a := m.cfg.Actions; !bytes.Equal(b.NextMasks[row*a:(row+1)*a], s.mask) {
		t.Fatalf("next mask %v, want %v", b.NextMasks[row*a:(row+1)*a], s.mask)
	}
	if b.Actions[row] != s.action || b.Rewards[row] != s.reward || b.Updates[row] != s.version ||
		b.Terminated[row] != (s.end&env.Terminated != 0) || (b.Discounts[row] == 0) != b.Terminated[row] || b.Discounts[row] != 0 && b.Discounts[row] != gamma {
		t.Fatalf("row %v %v %v %v, discount %v, want %+v", b.Actions[row], b.Rewards[row], b.Updates[row], b.Terminated[row], b.Discounts[row], s)
	}
}

func TestMemoryEqualsReference(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	runs := 150
	if testing.Short() {
		runs = 40
	}
	for run := range runs {
		stack := []int{1, 4, 2}[run%3]
		cfg := Config{Obs: stackSpec(stack, 1+r.IntN(3)), Envs: []int{1, 3}[run/3%2], Window: 1 + r.IntN(20),
			Stack: StackMode(run / 6 % 3)}
		cfg.Capacity = cfg.Envs + r.IntN(60)
		cfg.Actions = []int{0, 1 + r.IntN(20)}[run%2]
		ops := make([]byte, 1200)
		for i := range ops {
			ops[i] = byte(r.Uint32())
		}
		if run%5 == 0 { // very short segments
			for i := 0; i < len(ops); i += 2 {
				if ops[i] > 10 && ops[i] < 160 {
					ops[i] = endsFrom + ops[i]%(endsTo-endsFrom)
				}
			}
		}
		play(t, cfg, ops, cfg.Stack == StackDetect && run%2 == 0)
	}
}

func FuzzOperations(f *testing.F) {
	f.Add([]byte{4, 3, 9, 10, 0, 10, 0, 180, 0, 210, 0, 250, 0, 241, 9})
	f.Add([]byte{12, 1, 1, 10, 0, 199, 0, 10, 1, 181, 0, 201, 0, 10, 0, 210, 0})
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) < 3 || len(in) > 4000 {
			return
		}
		cfg := Config{Obs: stackSpec(1+int(in[0]%4), 1+int(in[0]/4%3)), Envs: 1 + int(in[1]%3), Actions: int(in[2] / 16), Window: 1 + int(in[2]%16),
			Stack: StackDetect, MemoryLimit: func() (int64, string) { return 1 << 30, "test" }}
		cfg.Capacity = cfg.Envs + int(in[1]/4)
		play(t, cfg, in[3:], true)
	})
}
