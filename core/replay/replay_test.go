package replay

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/rng"
)

// tuple formats visible transition i of a memory of short observations.
func tuple(m *Memory, i int) string {
	b := m.Minibatch(1)
	m.copyRow(i, 1, gamma, b, 0)
	s := fmt.Sprintf("%d a%d r%g v%d %d", b.Obs, b.Actions[0], b.Rewards[0], b.Updates[0], b.NextObs)
	if b.Terminated[0] {
		s += " T"
	}
	return s
}

func expectTuples(t *testing.T, m *Memory, want ...string) {
	t.Helper()
	var got []string
	for i := range m.Len() {
		got = append(got, tuple(m, i))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A counter with two frames of one byte: tuples computed by hand over a termination, a truncation,
// both at once, a cut and an unfinished segment.
func TestTuplesOfACounterAreExact(t *testing.T) {
	m := must(New(Config{Obs: stackSpec(2, 1), Envs: 1, Capacity: 100, Window: 10, Stack: StackDeclared}))
	defer m.Close()
	check(t, m.Begin(0, []byte{0, 1}))
	check(t, addStep(m, 0, 10, 0.5, 1, 0, []byte{1, 2}))
	check(t, addStep(m, 0, 11, -1, 1, env.Terminated, nil))
	check(t, m.Begin(0, []byte{50, 51})) // different padding
	check(t, addStep(m, 0, 12, 0, 2, env.Truncated, []byte{51, 52}))
	check(t, m.Begin(0, []byte{0, 60}))
	check(t, addStep(m, 0, 13, 0, 2, env.Terminated|env.Truncated, []byte{60, 61}))
	check(t, m.Begin(0, []byte{0, 70}))
	expectTuples(t, m) // nothing is visible before a flush
	m.Flush()
	visible := []string{
		"[0 1] a10 r0.5 v1 [1 2]",
		"[1 2] a11 r-1 v1 [0 0] T",
		"[50 51] a12 r0 v2 [51 52]",
		"[0 60] a13 r0 v2 [0 0] T",
	}
	expectTuples(t, m, visible...)
	check(t, addStep(m, 0, 14, 0, 3, 0, []byte{70, 71}))
	expectTuples(t, m, visible...)
	m.Flush()
	visible = append(visible, "[0 70] a14 r0 v3 [70 71]") // the pending observation is its next
	expectTuples(t, m, visible...)
	hash := m.Hash()
	m.Cut(0)
	if m.Hash() != hash {
		t.Error("Cut changed what is visible before the flush")
	}
	check(t, m.Begin(0, []byte{0, 80}))
	check(t, addStep(m, 0, 15, 0, 3, 0, []byte{80, 81}))
	m.Flush()
	expectTuples(t, m, append(visible, "[0 80] a15 r0 v3 [80 81]")...)
}

func TestCapacityIsDividedAmongEnvironments(t *testing.T) {
	m := must(New(Config{Obs: stackSpec(1, 1), Envs: 3, Capacity: 7, Window: 6}))
	defer m.Close()
	for e := range 3 {
		check(t, m.Begin(e, []byte{byte(100 * e)}))
	}
	for i := 1; i <= 4; i++ {
		for e := range 3 {
			if e == 1 && i == 3 {
				check(t, addStep(m, e, int32(i), 0, 0, env.Truncated, []byte{199}))
				check(t, m.Begin(e, []byte{103}))
				continue
			}
			check(t, addStep(m, e, int32(i), 0, 0, 0, []byte{byte(100*e + i)}))
		}
		if i%2 == 0 {
			m.Flush()
		}
	}
	// Capacity 7 over three environments: 3, 2 and 2.
	expectTuples(t, m,
		"[1] a2 r0 v0 [2]", "[2] a3 r0 v0 [3]", "[3] a4 r0 v0 [4]",
		"[102] a3 r0 v0 [199]", "[103] a4 r0 v0 [104]",
		"[202] a3 r0 v0 [203]", "[203] a4 r0 v0 [204]")
}

// Steps staged beyond the capacity do not overwrite visible transitions, and the flush times do not
// change the final contents.
func TestFlushTimesDoNotChangeTheContents(t *testing.T) {
	fill := func(every int) *Memory {
		m := must(New(Config{Obs: stackSpec(4, 2), Envs: 2, Capacity: 31, Window: 100}))
		c := byte(0)
		for i := range 400 {
			e := i % 2
			if i < 2 || i%37 == e {
				check(t, m.Begin(e, []byte{c, 1, c, 2, c, 3, c, 4}))
			}
			next := make([]byte, 8)
			p := &m.parts[e]
			p.frames.read(next, p.nextFrame-3, 3)
			next[6], next[7] = c, byte(i)
			if m.Room(e) == 0 {
				check(t, m.Grow(1))
			}
			check(t, addStep(m, e, int32(i), 1, 0, 0, next))
			c++
			if i%every == every-1 {
				m.Flush()
			}
		}
		return m
	}
	a := fill(2)
	for _, every := range []int{4, 50, 400} {
		b := fill(every)
		if a.Hash() != b.Hash() {
			t.Errorf("flushing every %d steps gives other contents", every)
		}
		b.Close()
	}
	a.Close()
}

func TestFloatObservationsAreStoredExactly(t *testing.T) {
	spec := env.ObsSpec{DType: env.Float32, Shape: []int{3}}
	m := must(New(Config{Obs: spec, Envs: 1, Capacity: 4, Window: 1}))
	defer m.Close()
	row := func(x float32) []byte {
		b := make([]byte, 12)
		for i := range 3 {
			u := math.Float32bits(x + float32(i))
			b[4*i], b[4*i+1], b[4*i+2], b[4*i+3] = byte(u), byte(u>>8), byte(u>>16), byte(u>>24)
		}
		return b
	}
	check(t, m.Begin(0, row(0.25)))
	for i := range 9 {
		check(t, addStep(m, 0, 0, float32(i), 0, 0, row(float32(i)+1.25)))
		m.Flush()
	}
	b := m.Minibatch(1)
	m.copyRow(2, 1, gamma, b, 0)
	if string(b.Obs) != string(row(7.25)) || string(b.NextObs) != string(row(8.25)) || b.Rewards[0] != 7 {
		t.Errorf("got %v %v %v", b.Obs, b.NextObs, b.Rewards)
	}
}

func TestDrawsAreUniform(t *testing.T) {
	m := must(New(Config{Obs: stackSpec(2, 1), Envs: 3, Capacity: 100, Window: 300}))
	defer m.Close()
	for e, steps := range []int{90, 0, 45} { // one ring wraps and evicts, one is empty
		check(t, m.Begin(e, []byte{0, 0}))
		for i := range steps {
			end := env.End(0)
			if i%7 == 6 {
				end = env.End(1 + i%3)
			}
			check(t, addStep(m, e, int32(100*e+i), 0, 0, end, []byte{byte(i), byte(i + 1)}))
			if end != 0 {
				check(t, m.Begin(e, []byte{byte(i), byte(i + 1)}))
			}
		}
	}
	m.Flush()
	if want := 34 + 0 + 33; m.Len() != want {
		t.Fatalf("Len %d, want %d", m.Len(), want)
	}
	const n = 200_000
	count := map[int32]int{}
	b, r := m.Minibatch(100), rng.New(3, "replay", 0)
	for range n / 100 {
		draw(m, r, b, nil)
		for _, a := range b.Actions {
			count[a]++
		}
	}
	chi, expected := 0.0, float64(n)/float64(m.Len())
	for i := range m.Len() {
		m.copyRow(i, 1, gamma, b, 0)
		d := float64(count[b.Actions[0]]) - expected
		chi += d * d / expected
		delete(count, b.Actions[0])
	}
	// The chi-square distribution has 66 degrees of freedom: mean 66, standard deviation 11.5.
	if chi > 120 || chi < 30 || len(count) != 0 {
		t.Errorf("chi-square %.1f, drawn but not visible: %v", chi, count)
	}
}

func TestADrawUsesOneNumberPerRow(t *testing.T) {
	m := filled(t, 4, 50)
	defer m.Close()
	r, same := rng.New(1, "replay", 0), rng.New(1, "replay", 0)
	b := m.Minibatch(7)
	draw(m, r, b, nil)
	for range 7 {
		same.Intn(m.Len())
	}
	if r.Uint64() != same.Uint64() {
		t.Error("the stream's position differs")
	}
}

// filled returns a memory of one environment with n steps of one segment.
func filled(t testing.TB, stack, n int) *Memory {
	m := must(New(Config{Obs: stackSpec(stack, 5), Envs: 1, Capacity: n, Window: n}))
	obs := make([]byte, 5*stack)
	check(t, m.Begin(0, obs))
	for i := range n {
		copy(obs, obs[5:])
		obs[5*stack-1] = byte(i)
		check(t, addStep(m, 0, int32(i), 0, 0, 0, obs))
	}
	m.Flush()
	return m
}

func TestBadConfigsAreRefused(t *testing.T) {
	good := Config{Obs: stackSpec(4, 10), Envs: 2, Capacity: 10, Window: 5}
	must(New(good)).Close()
	for want, change := range map[string]func(c *Config){
		"num_envs: 0, must be 1 to":                            func(c *Config) { c.Envs = 0 },
		"buffer_size: 1, must be num_envs (2) to":              func(c *Config) { c.Capacity = 1 },
		"window: 0, must be 1 to":                              func(c *Config) { c.Window = 0 },
		"frame_stack: 3, must be 0 or divide":                  func(c *Config) { c.Obs.FrameStack = 3 },
		"frame_stack: -1, must be 0":                           func(c *Config) { c.Obs.FrameStack = -1 },
		"observation shape: [4 0], every axis":                 func(c *Config) { c.Obs.Shape = []int{4, 0} },
		"observation: 1073741824 bytes, must be":               func(c *Config) { c.Obs.Shape = []int{1 << 15, 1 << 15}; c.Obs.FrameStack = 0 },
		"stack mode: 9":                                        func(c *Config) { c.Stack = 9 },
		"buffer_size: 10 needs 1344 bytes of memory, 5 bytes ": func(c *Config) { c.MemoryLimit = func() (int64, string) { return 5, "test" } },
	} {
		c := good
		change(&c)
		m, err := New(c)
		if err == nil {
			m.Close()
		}
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s...", err, want)
		}
	}
}

func TestMemoryLimitNamesBothNumbers(t *testing.T) {
	_, err := New(Config{Obs: env.ObsSpec{Shape: []int{4, 84, 84}, FrameStack: 4}, Envs: 1, Capacity: 1_000_000, Window: 1,
		MemoryLimit: func() (int64, string) { return 3_200_000_000, "memory limit of the control group" }})
	const want = "buffer_size: 1000000 needs 7.2 GB of memory, 3.2 GB are available (memory limit of the control group)"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestBadCallsAreRefused(t *testing.T) {
	m := must(New(Config{Obs: stackSpec(2, 1), Envs: 2, Capacity: 2, Window: 2, Stack: StackDeclared}))
	defer m.Close()
	fails := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want ...%s...", err, want)
		}
	}
	fails(addStep(m, 1, 0, 0, 0, 0, []byte{0, 0}), "environment 1: a step without a first observation")
	fails(m.Begin(1, []byte{0}), "environment 1: observation of 1 bytes, must be 2")
	check(t, m.Begin(1, []byte{0, 1}))
	fails(addStep(m, 1, 0, 0, 0, 0, nil), "environment 1: observation of 0 bytes, must be 2")
	fails(addStep(m, 1, 0, 0, 0, env.Truncated, []byte{1}), "observation of 1 bytes")
	check(t, addStep(m, 1, 0, 0, 0, 0, []byte{1, 2}))
	fails(addStep(m, 1, 0, 0, 0, 0, []byte{3, 3}), "frame_stack: 2, but in environment 1 at step 2 the older frames")
	// this observation is not read
	check(t, addStep(m, 1, 7, 0, 0, env.Terminated, []byte{9, 9, 9}))
	fails(addStep(m, 1, 0, 0, 0, 0, []byte{2, 3}), "without a first observation")
	// Two transitions fill the ring until a flush.
	check(t, m.Begin(1, []byte{0, 1}))
	if m.Room(1) > 0 || m.Room(0) == 0 {
		t.Error("environment 1 alone must have no steps free")
	}
	panics(t, "replay: the ring of environment 1 is full", func() { _ = addStep(m, 1, 0, 0, 0, 0, []byte{1, 2}) })
	m.Flush()
	check(t, addStep(m, 1, 8, 0, 0, 0, []byte{1, 2}))
	m.Flush()
	expectTuples(t, m, "[0 1] a8 r0 v0 [1 2]")
}

func panics(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if got := fmt.Sprint(recover()); !strings.HasPrefix(got, want) {
			t.Errorf("panic %q, want %q", got, want)
		}
	}()
	f()
}

// Errors that only the library can make cause a panic.
func TestMisusePanics(t *testing.T) {
	m := must(New(Config{Obs: stackSpec(2, 1), Envs: 2, Capacity: 8, Window: 2}))
	defer m.Close()
	b := m.Minibatch(1)
	sample := func() { draw(m, rng.New(1, "replay", 0), b, nil) }
	panics(t, "replay: Draw where no transition is visible", sample)
	check(t, m.Begin(1, []byte{0, 1}))
	check(t, addStep(m, 1, 0, 0, 0, 0, []byte{1, 2}))
	panics(t, "replay: Draw where no transition is visible", sample) // staged steps are not visible
	m.Flush()
	sample()
	for _, i := range []int{-1, 1, 7} {
		panics(t, fmt.Sprintf("replay: pick %d where 1 transitions are visible", i), func() { m.copyRow(i, 1, gamma, b, 0) })
	}
}

func TestDetectNamesTheStepAndChangesNothing(t *testing.T) {
	m := must(New(Config{Obs: stackSpec(2, 1), Envs: 1, Capacity: 10, Window: 2, Stack: StackDetect}))
	defer m.Close()
	check(t, m.Begin(0, []byte{0, 1}))
	check(t, addStep(m, 0, 1, 0, 0, 0, []byte{1, 2}))
	err := addStep(m, 0, 2, 0, 0, 0, []byte{9, 3})
	if !errors.Is(err, ErrNotAStack) || !strings.HasPrefix(err.Error(), "environment 0, step 2: ") {
		t.Fatalf("got %v", err)
	}
	m.Flush()
	expectTuples(t, m, "[0 1] a1 r0 v0 [1 2]")
	if more, err := m.StoreWhole(); err != nil || more <= 0 {
		t.Fatalf("StoreWhole: %d, %v", more, err)
	}
	if more, err := m.StoreWhole(); more != 0 || err != nil {
		t.Fatalf("second StoreWhole: %d, %v", more, err)
	}
	expectTuples(t, m, "[0 1] a1 r0 v0 [1 2]")
	check(t, addStep(m, 0, 2, 0, 0, env.Truncated, []byte{9, 3}))
	m.Flush()
	expectTuples(t, m, "[0 1] a1 r0 v0 [1 2]", "[1 2] a2 r0 v0 [9 3]")
}

// CheckNext returns the error that Add would return, and changes nothing.
func TestCheckNextReturnsTheErrorOfAdd(t *testing.T) {
	for _, mode := range []StackMode{StackTrusted, StackDeclared, StackDetect} {
		m := must(New(Config{Obs: stackSpec(2, 1), Envs: 1, Capacity: 100, Window: 10, Stack: mode}))
		defer m.Close()
		for _, begun := range []bool{false, true} {
			if begun {
				check(t, m.Begin(0, []byte{0, 1}))
			}
			for _, next := range [][]byte{{1}, {2, 2}, {1, 2}} {
				before := m.Hash()
				says := fmt.Sprint(m.CheckNext(0, next))
				if again := fmt.Sprint(m.CheckNext(0, next)); again != says || m.Hash() != before {
					t.Errorf("mode %d, %v: %s, then %s", mode, next, says, again)
				}
				if err := addStep(m, 0, 0, 0, 0, 0, next); fmt.Sprint(err) != says {
					t.Errorf("mode %d, %v: CheckNext says %s, Add %v", mode, next, says, err)
				}
				if begun {
					check(t, m.Begin(0, []byte{0, 1}))
				}
			}
		}
	}
}
