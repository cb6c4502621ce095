package replay

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/rng"
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

// play runs operations on a memory and on the reference. Each pair of bytes in ops is one
// operation.
func play(t *testing.T, cfg Config, ops []byte, odd bool) {
	m, err := New(cfg)
	check(t, err)
	defer func() { m.Close() }()
	ref := newReference(cfg.Envs, cfg.Capacity)
	r := rand.New(rand.NewPCG(1, uint64(len(ops))))
	mirror, there := m.NewMirror(), &copied{}
	drawn := drawablesOf(t, m)
	stack := max(1, cfg.Obs.FrameStack)
	width := m.obsBytes / stack
	random := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	}
	seed := uint64(0)
	for len(ops) >= 2 {
		op, arg := ops[0], ops[1]
		ops = ops[2:]
		e := int(arg) % cfg.Envs
		switch {
		case op < 200: // one step, or the first observation
			// Only steps need room in advance; a Begin after an end always has it.
			if ref.pending[e] != nil && m.Room(e) == 0 {
				before := m.Hash()
				check(t, m.Grow(1))
				if m.Hash() != before || m.Room(e) == 0 {
					t.Fatal("Grow changed what is visible, or not enough")
				}
			}
			if ref.pending[e] == nil || op < 3 {
				obs := random(m.obsBytes)
				if r.IntN(2) == 0 {
					clear(obs[:(stack-1)*width]) // padding
				}
				check(t, m.Begin(e, obs))
				ref.begin(e, obs)
				continue
			}
			next := append(bytes.Clone(ref.pending[e][width:]), random(width)...)
			if odd && op > 195 {
				// one byte; the newest frame may have any value
				next[r.IntN(len(next))] ^= 1 + byte(r.IntN(255))
			}
			end := env.End(0)
			if op >= 170 && op < 196 {
				end = env.End(op % 8)
			}
			action, reward, version := int32(r.Uint32()>>1), r.Float32(), r.Uint64()
			mask := make([]byte, cfg.Actions)
			for a := range mask {
				mask[a] = byte(r.IntN(2))
			}
			if cfg.Actions > 0 {
				mask[r.IntN(cfg.Actions)] = 1
				action %= int32(cfg.Actions)
			}
			given := next
			if end.Over() && end&(env.Terminated|env.Lost) != 0 && r.IntN(2) == 0 {
				given = nil
			}
			hash := m.Hash()
			err := addMasked(m, e, action, reward, version, end, given, mask)
			if errors.Is(err, ErrNotAStack) && odd {
				bytesBefore := m.Bytes()
				more, err := m.StoreWhole()
				check(t, err)
				if more != m.Bytes()-bytesBefore {
					t.Fatalf("StoreWhole reports %d bytes more, there are %d", more, m.Bytes()-bytesBefore)
				}
				compare(t, m, ref)
				if m.Room(e) == 0 {
					t.Fatal("nothing free after StoreWhole")
				}
				check(t, addMasked(m, e, action, reward, version, end, given, mask))
			} else {
				check(t, err)
			}
			if m.Hash() != hash {
				t.Fatal("Add changed what is visible")
			}
			ref.add(e, action, reward, version, end, next, mask)
		case op < 205:
			hash := m.Hash()
			m.Cut(e)
			ref.cut(e)
			if m.Hash() != hash {
				t.Fatal("Cut changed what is visible")
			}
		case op < 235:
			m.Flush()
			ref.flush()
			compare(t, m, ref)
			compareDrawables(t, drawn, ref)
		case op < 240: // growth without need
			p := &m.parts[e]
			check(t, p.frames.grow(p.oldestFrame, p.nextFrame, p.frames.slots+int64(arg%32)))
			check(t, p.steps.grow(p.oldest, p.nextStep, p.steps.slots+int64(arg%8)))
			m.relocations++
			compare(t, m, ref)
		case op < 245:
			data := saved(t, m)
			other := cfg
			other.Window = 1 + int(arg)
			m2, err := New(other)
			check(t, err)
			check(t, load(m2, data))
			m.Close()
			m = m2
			mirror, drawn = m.NewMirror(), drawablesOf(t, m)
			compareDrawables(t, drawn, ref)
			for e := range cfg.Envs {
				if m.Room(e) == 0 {
					t.Fatal("nothing free after Load")
				}
			}
			compare(t, m, ref)
		case op < 249: // a transition from outside
			if m.Room(e) < 2 {
				check(t, m.Grow(2))
				if m.Room(e) < 2 {
					t.Fatal("Grow(2) leaves less than two steps free")
				}
			}
			obs := random(m.obsBytes)
			next := append(bytes.Clone(obs[width:]), random(width)...)
			end := env.Truncated
			if arg%2 == 0 {
				end = env.Terminated
			}
			mask := bytes.Repeat([]byte{1}, cfg.Actions)
			s := experience.Step{Action: make([]int32, 1), Reward: r.Float32(), End: end & env.Terminated, NextMask: mask, Updates: r.Uint64()}
			hash := m.Hash()
			if err := m.Insert(e, &s, obs, next[1:]); err == nil && end == env.Truncated {
				t.Fatal("a short observation was inserted")
			}
			if end == env.Truncated { // an observation after a termination is not checked
				check(t, m.Insert(e, &s, obs, next))
			}
			ref.insert(e, s.Action[0], s.Reward, s.Updates, end, obs, next, mask)
			if m.Hash() != hash {
				t.Fatal("Insert changed what is visible")
			}
		default:
			if m.Len() == 0 {
				continue
			}
			seed++
			b := m.Minibatch(5)
			draw(m, rng.New(seed, "replay", 0), b, nil)
			same, flat := rng.New(seed, "replay", 0), ref.flat()
			for row := range 5 {
				compareRow(t, m, b, row, flat[same.Intn(len(flat))])
			}
			compareMirror(t, mirror, there, b, rng.New(seed, "replay", 0))
		}
	}
	m.Flush()
	ref.flush()
	compare(t, m, ref)
	compareDrawables(t, drawn, ref)
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
					ops[i] = 170 + ops[i]%26
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
