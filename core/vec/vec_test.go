package vec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	_ "github.com/paceline-rl/paceline/core/env/builtin"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/threads"
)

// counter is an environment with predictable values. Its observation is (episode, step), its reward
// 10*episode+step, and its episodes end after length steps. Hooks make it fail.
type counter struct {
	spec                  env.Spec
	length, episode, step int
	end                   env.End
	closed                *int
	onReset, onStep       func(c *counter) error
	nanObs, nanReward     bool
}

func newCounter(length int, end env.End) *counter {
	return &counter{length: length, end: end, spec: env.Spec{
		ID:     "Counter-v0",
		Obs:    env.ObsSpec{DType: env.Float32, Shape: []int{2}, Low: []float32{0}, High: []float32{100}},
		Action: env.ActionSpec{N: 3},
	}}
}

func (c *counter) Spec() env.Spec { return c.spec }
func (c *counter) Seed(s uint64)  { c.episode = int(s) - 1 }
func (c *counter) Close() error {
	if c.closed != nil {
		*c.closed++
	}
	return nil
}

func (c *counter) show(obs []byte) {
	x, y := float32(c.episode), float32(c.step)
	if c.nanObs {
		y = float32(math.NaN())
	}
	binary.NativeEndian.PutUint32(obs, math.Float32bits(x))
	binary.NativeEndian.PutUint32(obs[4:], math.Float32bits(y))
}

func (c *counter) Reset(obs []byte) error {
	if c.onReset != nil {
		if err := c.onReset(c); err != nil {
			return err
		}
	}
	c.episode++
	c.step = 0
	c.show(obs)
	return nil
}

func (c *counter) Step(_ int32, obs []byte) (float32, env.End, error) {
	if c.onStep != nil {
		if err := c.onStep(c); err != nil {
			return 0, 0, err
		}
	}
	c.step++
	c.show(obs)
	reward := float32(10*c.episode + c.step)
	if c.nanReward {
		reward = float32(math.NaN())
	}
	if c.step == c.length {
		return reward, c.end, nil
	}
	return reward, 0, nil
}

func newPool(t testing.TB, size int) *threads.Pool {
	t.Helper()
	p, err := threads.NewPool(size, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func newVec(t testing.TB, mk func(i int) (env.Env, error), n, threads int, mode Autoreset) (*Vec, *Rows) {
	t.Helper()
	v, err := New(mk, n, newPool(t, threads), mode)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = v.Close() })
	return v, NewRows(v.Spec().Obs, n)
}

// counters makes a Vec of counters whose episodes have the given lengths.
func counters(t *testing.T, mode Autoreset, threads int, lengths ...int) (*Vec, *Rows, []*counter) {
	t.Helper()
	cs := make([]*counter, len(lengths))
	v, rows := newVec(t, func(i int) (env.Env, error) {
		cs[i] = newCounter(lengths[i], env.Truncated)
		return cs[i], nil
	}, len(lengths), threads, mode)
	return v, rows, cs
}

func show(obs []byte, i int) string {
	x := math.Float32frombits(binary.NativeEndian.Uint32(obs[8*i:]))
	y := math.Float32frombits(binary.NativeEndian.Uint32(obs[8*i+4:]))
	return fmt.Sprintf("%v.%v", x, y)
}

// The rows of each mode, computed by hand. Two environments have episodes of 2 and 3 steps. An
// entry is episode.step, reward, end and start, then the last observation in brackets.
func TestAutoreset(t *testing.T) {
	for _, c := range []struct {
		mode  Autoreset
		reset [][]bool // masks of the resets before each step
		want  []string
	}{
		{NextStep, nil, []string{
			"1.1 11 0 false, 1.1 11 0 false",
			"1.2 12 2 false, 1.2 12 0 false",
			"2.0 0 0 true, 1.3 13 2 false",
			"2.1 21 0 false, 2.0 0 0 true",
			"2.2 22 2 false, 2.1 21 0 false",
			"3.0 0 0 true, 2.2 22 0 false",
		}},
		{SameStep, nil, []string{
			"1.1 11 0 false, 1.1 11 0 false",
			"2.0 12 2 true (1.2), 1.2 12 0 false",
			"2.1 21 0 false, 2.0 13 2 true (1.3)",
			"3.0 22 2 true (2.2), 2.1 21 0 false",
			"3.1 31 0 false, 2.2 22 0 false",
			"4.0 32 2 true (3.2), 3.0 23 2 true (2.3)",
		}},
		{Disabled, [][]bool{nil, nil, {true, false}, {false, true}}, []string{
			"1.1 11 0 false, 1.1 11 0 false",
			"1.2 12 2 false, 1.2 12 0 false",
			"2.1 21 0 false, 1.3 13 2 false",
			"2.2 22 2 false, 2.1 21 0 false",
		}},
	} {
		v, rows, _ := counters(t, c.mode, 2, 2, 3)
		if err := v.Reset(rows, nil); err != nil {
			t.Fatal(err)
		}
		if got := show(rows.Obs, 0) + " " + show(rows.Obs, 1); got != "1.0 1.0" || !rows.Starts[0] || !rows.Starts[1] {
			t.Errorf("%v: after Reset %s", c.mode, got)
		}
		for k, want := range c.want {
			if k < len(c.reset) && c.reset[k] != nil {
				if err := v.Reset(rows, c.reset[k]); err != nil {
					t.Fatal(err)
				}
			}
			actions := []int32{1, 2}
			for i := range actions {
				if c.mode == NextStep && rows.Ends[i] != 0 { // this step resets
					actions[i] = -99 // is ignored
				}
			}
			if err := v.Step(Actions{Discrete: actions}, rows); err != nil {
				t.Fatal(err)
			}
			var got []string
			for i := range v.Len() {
				s := fmt.Sprintf("%s %v %d %v", show(rows.Obs, i), rows.Rewards[i], rows.Ends[i], rows.Starts[i])
				if c.mode == SameStep && rows.Ends[i] != 0 {
					s += " (" + show(rows.FinalObs, i) + ")"
				}
				got = append(got, s)
			}
			if s := strings.Join(got, ", "); s != want {
				t.Errorf("%v, step %d: %s, want %s", c.mode, k, s, want)
			}
		}
	}
}

func TestResetMask(t *testing.T) {
	v, rows, _ := counters(t, NextStep, 1, 5, 5, 1)
	if err := v.Reset(rows, nil); err != nil {
		t.Fatal(err)
	}
	if err := v.Step(Actions{Discrete: []int32{0, 0, 0}}, rows); err != nil {
		t.Fatal(err)
	}
	if err := v.Reset(rows, []bool{false, true, true}); err != nil {
		t.Fatal(err)
	}
	// The reset leaves the first row unchanged.
	got := fmt.Sprintf("%s %s %s %v %v %v", show(rows.Obs, 0), show(rows.Obs, 1), show(rows.Obs, 2), rows.Rewards, rows.Ends, rows.Starts)
	if want := "1.1 2.0 2.0 [11 0 0] [0 0 0] [false true true]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, mask := range [][]bool{{}, {true}, {false, false, false}} {
		if err := v.Reset(rows, mask); err == nil || !strings.HasPrefix(err.Error(), "reset_mask: ") {
			t.Errorf("mask %v: %v", mask, err)
		}
	}
	if err := v.Seed([]uint64{7, 8, 9}, nil); err != nil {
		t.Fatal(err)
	}
	if err := v.Reset(rows, nil); err != nil || show(rows.Obs, 2) != "9.0" {
		t.Errorf("after Seed: %s, %v", show(rows.Obs, 2), err)
	}
	if err := errors.Join(v.Seed([]uint64{1, 20, 1}, []bool{false, true, false}), v.Reset(rows, nil)); err != nil {
		t.Fatal(err)
	}
	if got := show(rows.Obs, 0) + " " + show(rows.Obs, 1) + " " + show(rows.Obs, 2); got != "8.0 20.0 10.0" {
		t.Errorf("after Seed of the second alone: %s", got)
	}
	if err := v.Seed([]uint64{7}, nil); err == nil || err.Error() != "seeds: 1, must be 3, one for each environment" {
		t.Errorf("one seed: %v", err)
	}
	if err := v.Seed([]uint64{7, 7, 7}, []bool{true}); err == nil || err.Error() != "mask: 1 entries, must be 3" {
		t.Errorf("a mask of one: %v", err)
	}
}

func TestNewRefuses(t *testing.T) {
	pool := newPool(t, 1)
	closed := 0
	good := func(i int) (env.Env, error) {
		c := newCounter(3, env.Terminated)
		c.closed = &closed
		return c, nil
	}
	for _, c := range []struct {
		want   string
		mk     func(i int) (env.Env, error)
		n      int
		pool   *threads.Pool
		mode   Autoreset
		closed int
	}{
		{"num_envs: 0, must be at least 1", good, 0, pool, NextStep, 0},
		{"autoreset: 3, must be", good, 1, pool, 3, 0},
		{"pool: nil", good, 1, nil, NextStep, 0},
		{"environment 2: no licence", func(i int) (env.Env, error) {
			if i == 2 {
				return nil, errors.New("no licence")
			}
			return good(i)
		}, 5, pool, NextStep, 2},
		{"environment 1: nil, must be an environment", func(i int) (env.Env, error) {
			if i == 1 {
				return nil, nil
			}
			return good(i)
		}, 5, pool, NextStep, 1},
		{"environment 0: actions: 0, must be at least 1", func(i int) (env.Env, error) {
			e, _ := good(i)
			e.(*counter).spec.Action.N = 0
			return e, nil
		}, 5, pool, NextStep, 1},
	} {
		closed = 0
		if _, err := New(c.mk, c.n, c.pool, c.mode); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
		if closed != c.closed {
			t.Errorf("%s: %d environments closed, want %d", c.want, closed, c.closed)
		}
	}
}

func TestSpecsMustBeEqual(t *testing.T) {
	for want, spoil := range map[string]func(s *env.Spec){
		`id: "X-v0", must be that of environment 0: "Counter-v0"`:                      func(s *env.Spec) { s.ID = "X-v0" },
		"observation dtype: uint8, must be that of environment 0: float32":             func(s *env.Spec) { s.Obs.DType = env.Uint8 },
		"observation shape: [3], must be that of environment 0: [2]":                   func(s *env.Spec) { s.Obs.Shape = []int{3} },
		"observation frame_stack: 2, must be that of environment 0: 0":                 func(s *env.Spec) { s.Obs.FrameStack = 2 },
		"observation bounds: differ from those of environment 0, must be the same":     func(s *env.Spec) { s.Obs.High = []float32{101} },
		"observation bounds: differ from those of environment 0, must be the same\x00": func(s *env.Spec) { s.Obs.Low = []float32{-1} },
		"actions: 4 discrete, must be those of environment 0: 3 discrete":              func(s *env.Spec) { s.Action.N = 4 },
		"max_steps: 9, must be that of environment 0: 0":                               func(s *env.Spec) { s.MaxSteps = 9 },
		"waits: true, must be that of environment 0: false":                            func(s *env.Spec) { s.Waits = true },
	} {
		closed := 0
		_, err := New(func(i int) (env.Env, error) {
			c := newCounter(3, env.Terminated)
			c.closed = &closed
			if i == 1 {
				spoil(&c.spec)
			}
			return c, nil
		}, 5, newPool(t, 1), NextStep)
		if want = strings.TrimSuffix(want, "\x00"); err == nil || err.Error() != "environment 1: "+want {
			t.Errorf("%v, want %q", err, want)
		}
		if closed != 2 {
			t.Errorf("%s: %d environments closed, want 2", want, closed)
		}
	}
}

// No environment moves after a bad argument.
func TestBadArgumentsMoveNothing(t *testing.T) {
	v, rows, cs := counters(t, SameStep, 1, 3, 3)
	if err := v.Step(Actions{Discrete: []int32{0, 0}}, rows); err == nil || err.Error() != "environment 0: step before reset" {
		t.Errorf("step before reset: %v", err)
	}
	if err := v.Reset(rows, nil); err != nil {
		t.Fatal(err)
	}
	spoilt := func(spoil func(r *Rows)) *Rows {
		r := *rows
		spoil(&r)
		return &r
	}
	for want, c := range map[string]struct {
		actions []int32
		rows    *Rows
	}{
		"environment 1: action: 3, must be 0 to 2":         {[]int32{0, 3}, rows},
		"environment 0: action: -1, must be 0 to 2":        {[]int32{-1, 7}, rows},
		"actions: 1, must be 2":                            {[]int32{0}, rows},
		"rows: nil":                                        {[]int32{0, 0}, nil},
		"rows.Obs: 15 bytes, must be 16 (2 rows of 8)":     {[]int32{0, 0}, spoilt(func(r *Rows) { r.Obs = r.Obs[1:] })},
		"rows.FinalObs: 0 bytes, must be 16 (2 rows of 8)": {[]int32{0, 0}, spoilt(func(r *Rows) { r.FinalObs = nil })},
		"rows.Rewards: 1 entries, must be 2":               {[]int32{0, 0}, spoilt(func(r *Rows) { r.Rewards = r.Rewards[1:] })},
		"rows.Ends: 1 entries, must be 2":                  {[]int32{0, 0}, spoilt(func(r *Rows) { r.Ends = r.Ends[1:] })},
		"rows.Starts: 1 entries, must be 2":                {[]int32{0, 0}, spoilt(func(r *Rows) { r.Starts = r.Starts[1:] })},
	} {
		if err := v.Step(Actions{Discrete: c.actions}, c.rows); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for _, i := range []int{-1, 2} {
		if err := v.StepOne(i, Action{}, rows); err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("environment: %d, must be 0 to 1", i)) {
			t.Errorf("StepOne(%d): %v", i, err)
		}
	}
	if err := v.StepOne(1, Action{Discrete: []int32{0}, Box: []float32{0}}, rows); err == nil || err.Error() != "environment 1: actions: 1 numbers of a box, must be 0, 0 for each environment" {
		t.Errorf("StepOne: %v", err)
	}
	if err := v.StepOne(1, Action{Discrete: []int32{5}}, rows); err == nil || err.Error() != "environment 1: action: 5, must be 0 to 2" {
		t.Errorf("StepOne: %v", err)
	}
	if cs[0].step != 0 || cs[1].step != 0 {
		t.Errorf("environments moved: %d and %d steps", cs[0].step, cs[1].step)
	}

	d, rows, cs := counters(t, Disabled, 1, 3, 1)
	if err := errors.Join(d.Reset(rows, nil), d.Step(Actions{Discrete: []int32{0, 0}}, rows)); err != nil {
		t.Fatal(err)
	}
	if err := d.Step(Actions{Discrete: []int32{0, 0}}, rows); err == nil || !strings.HasPrefix(err.Error(), "environment 1: step after the episode ended") {
		t.Errorf("Disabled: %v", err)
	}
	if cs[0].step != 1 {
		t.Error("Disabled: environment 0 moved")
	}
	if err := errors.Join(d.Close(), d.Close()); err != nil {
		t.Error(err)
	}
	for _, err := range []error{d.Step(Actions{Discrete: []int32{0, 0}}, rows), d.Reset(rows, nil), d.StepOne(0, Action{}, rows), d.Seed([]uint64{1, 2}, nil)} {
		if err == nil || err.Error() != "environments: closed" {
			t.Errorf("after Close: %v", err)
		}
	}
}

// One environment fails in each way: in a step, in a reset, and in an autoreset. The error names
// its index, the others take their step, and a reset repairs the failed environment.
func TestFailures(t *testing.T) {
	boom := errors.New("boom")
	for want, spoil := range map[string]func(c *counter) (heal func()){
		"environment 1: boom": func(c *counter) func() {
			c.onStep = func(*counter) error { return boom }
			return func() { c.onStep = nil }
		},
		"environment 1: panic: kaboom": func(c *counter) func() {
			c.onStep = func(*counter) error { panic("kaboom") }
			return func() { c.onStep = nil }
		},
		"environment 1: reward: NaN, must be finite": func(c *counter) func() {
			c.nanReward = true
			return func() { c.nanReward = false }
		},
		"environment 1: observation: component 1 is NaN, must be finite": func(c *counter) func() {
			c.nanObs = true
			return func() { c.nanObs = false }
		},
		"environment 1: no reset": func(c *counter) func() { // two steps end this one, and then it is reset
			c.step = c.length - 1
			c.onReset = func(*counter) error { return errors.New("no reset") }
			return func() { c.onReset = nil }
		},
	} {
		for _, threads := range []int{1, 3} {
			v, rows, cs := counters(t, SameStep, threads, 9, 9, 9)
			if err := v.Reset(rows, nil); err != nil {
				t.Fatal(err)
			}
			heal := spoil(cs[1])
			cs[2].onStep = func(*counter) error { return errors.New("a later failure") }
			err := v.Step(Actions{Discrete: []int32{0, 0, 0}}, rows)
			var failed *env.Error
			if err == nil || err.Error() != want || !errors.As(err, &failed) || failed.Index != 1 {
				t.Errorf("%v, want %q", err, want)
			}
			if want == "environment 1: boom" && !errors.Is(err, boom) {
				t.Errorf("%v does not unwrap", err)
			}
			if cs[0].step != 1 {
				t.Errorf("%s: environment 0 did not step", want)
			}
			cs[2].onStep = nil
			heal()
			if err := v.Step(Actions{Discrete: []int32{0, 0, 0}}, rows); err == nil || err.Error() != "environment 1: step before reset" {
				t.Errorf("%s: stepped on: %v", want, err)
			}
			if err := errors.Join(v.Reset(rows, []bool{false, true, true}), v.Step(Actions{Discrete: []int32{0, 0, 0}}, rows)); err != nil {
				t.Errorf("%s: not healed by a reset: %v", want, err)
			}
		}
	}
	v, rows, cs := counters(t, NextStep, 2, 9, 9)
	cs[0].nanObs = true
	cs[1].onReset = func(*counter) error { panic("kaboom") }
	if err := v.Reset(rows, nil); err == nil || err.Error() != "environment 0: observation: component 1 is NaN, must be finite" {
		t.Errorf("Reset: %v", err)
	}
	cs[0].nanObs = false
	if err := v.Reset(rows, nil); err == nil || err.Error() != "environment 1: panic: kaboom" {
		t.Errorf("Reset: %v", err)
	}
}

func TestStepAllocatesNothing(t *testing.T) {
	for _, mode := range []Autoreset{NextStep, SameStep} {
		v, rows := newVec(t, func(int) (env.Env, error) { return env.Make("Catch-v0", nil) }, 4, 2, mode)
		if err := v.Reset(rows, nil); err != nil {
			t.Fatal(err)
		}
		actions := make([]int32, 4)
		if got := testing.AllocsPerRun(500, func() { _ = v.Step(Actions{Discrete: actions}, rows) }); got != 0 {
			t.Errorf("%v: %v allocations a step, want 0", mode, got)
		}
	}
}

func TestSeedFor(t *testing.T) {
	if got, want := SeedFor(3, 5), rng.New(3, "env", 5).Uint64(); got != want {
		t.Errorf("%d, want %d", got, want)
	}
	if SeedFor(3, 5) == SeedFor(3, 6) || SeedFor(3, 5) == SeedFor(4, 5) {
		t.Error("two environments share a seed")
	}
}
