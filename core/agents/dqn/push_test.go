package dqn

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/offpolicy"
	"github.com/paceline-rl/paceline/core/train/traintest"
	"github.com/paceline-rl/paceline/core/vec"
)

// film shows stacks of depth images of 2x3 pixels, with arbitrary padding at the start of an
// episode. From step liesAt on, or at this step only, the observation is not a stack.
type film struct {
	stream       *rng.Stream
	depth        int
	declared     int
	liesAt       int
	liesOnce     bool
	shortEpisode int // mean number of steps in an episode
	step         int
	obs          []byte
}

func makeFilm(edit func(i int, f *film)) func(i int) (env.Env, error) {
	return func(i int) (env.Env, error) {
		f := &film{stream: rng.New(5, "film", i), depth: 3, liesAt: 1 << 30, shortEpisode: 8}
		edit(i, f)
		f.obs = make([]byte, f.depth*6)
		return f, nil
	}
}

func (f *film) Spec() env.Spec {
	return env.Spec{ID: "film", Action: env.ActionSpec{N: 2},
		Obs: env.ObsSpec{DType: env.Uint8, Shape: []int{f.depth, 2, 3}, Low: []float32{0}, High: []float32{255}, FrameStack: f.declared}}
}
func (f *film) Seed(uint64) {}
func (f *film) shoot(from int, obs []byte) {
	for k := from; k < len(f.obs); k++ {
		f.obs[k] = byte(f.stream.Intn(256))
	}
	copy(obs, f.obs)
}
func (f *film) Reset(obs []byte) error {
	f.shoot(0, obs)
	return nil
}
func (f *film) Step(action int32, obs []byte) (float32, env.End, error) {
	f.step++
	copy(f.obs, f.obs[6:])
	from := len(f.obs) - 6
	if f.step >= f.liesAt && (!f.liesOnce || f.step == f.liesAt) {
		from = 0
	}
	f.shoot(from, obs)
	if f.stream.Intn(f.shortEpisode) == 0 {
		return 1, env.Truncated, nil
	}
	return float32(action), 0, nil
}
func (f *film) Close() error { return nil }

func filmConfig(edit ...func(*Config)) Config {
	return cartpole(append([]func(*Config){func(c *Config) {
		c.Policy, c.NumEnvs, c.LearningStarts, c.Window, c.BufferSize = train.PolicyMLP, 3, 40, 60, 500
		c.TargetUpdateInterval = 100
	}}, edit...)...)
}

// If observations turn out not to be stacks, inside a window and during updates, the result is that
// of observations stored whole from the start.
func TestChangingToWholeObservationsChangesNoResult(t *testing.T) {
	for _, mode := range []vec.Autoreset{vec.SameStep, vec.NextStep} {
		mk := makeFilm(func(i int, f *film) { f.liesAt = 60 + 7*i })
		detect, whole := newHost(t, filmConfig(), mode, mk), newHost(t, filmConfig(func(c *Config) { c.FrameStack = 1 }), mode, mk)
		o := slow(detect.d, 0)
		before := detect.d.m.Memory.Bytes()
		for _, h := range []*host{detect, whole} {
			h.Begin(t, 10_000)
		}
		for k := range 200 {
			switch k { // updates run when the first observation is not a stack
			case 50:
				o.pause.Store(int64(3 * time.Millisecond))
			case 90:
				o.pause.Store(0)
			}
			detect.Round(t)
			whole.Round(t)
			if k%50 == 49 {
				if a, b := hashesOf(t, detect.d), hashesOf(t, whole.d); a != b {
					t.Fatalf("%v, round %d: %+v, stored whole from the start %+v", mode, k, a, b)
				}
			}
		}
		if after := detect.d.m.Memory.Bytes(); after <= before || detect.d.m.Clock.Windows < 3 {
			t.Errorf("%d bytes, before %d; %d windows", after, before, detect.d.m.Clock.Windows)
		}
		if text, err := detect.d.Notice(); err != nil || !strings.Contains(text, "stored whole") {
			t.Errorf("notice %q, %v", text, err)
		}
		if text, _ := detect.d.Notice(); text != "" {
			t.Errorf("said twice: %q", text)
		}
	}
}

// A refused row is not recorded, and the row that replaces it is recorded once.
func TestDeclaredFrameStackIsChecked(t *testing.T) {
	mk := makeFilm(func(int, *film) {})
	declared := func(c *Config) { c.FrameStack = 3 }
	h, honest := newHost(t, filmConfig(declared), vec.SameStep, mk), newHost(t, filmConfig(declared), vec.SameStep, mk)
	h.Begin(t, 10_000)
	honest.Begin(t, 10_000)
	for k := range 100 {
		check(t, h.Act())
		check(t, h.Vec.Step(h.Actions, h.Rows))
		if k%10 == 9 && h.Rows.Ends[2] == 0 {
			steps := h.d.Stats().Steps
			h.Rows.Obs[2*18] ^= 1
			err := h.Observe()
			if err == nil || !strings.Contains(err.Error(), "frame_stack: 3, but in environment 2 at step") {
				t.Fatal(err)
			}
			if now := h.d.Stats().Steps; now != steps {
				t.Errorf("%d steps of a refused round were taken", now-steps)
			}
			h.Rows.Obs[2*18] ^= 1
		}
		check(t, h.Observe())
		honest.Round(t)
	}
	if a, b := hashesOf(t, h.d), hashesOf(t, honest.d); a != b {
		t.Errorf("%+v, without the refusals %+v", a, b)
	}
}

// A declared frame_stack is also checked in the host's environments that the library steps.
func TestDeclaredFrameStackOfASteppedEnvironmentIsChecked(t *testing.T) {
	for name, edit := range fourModes {
		d := must(newTrial(filmConfig(edit, func(c *Config) { c.BufferSize, c.GradientSteps = 3000, 1 }),
			makeFilm(func(i int, f *film) { f.declared, f.liesOnce, f.liesAt = 3, true, 100*(1+i) })))(t)
		check(t, d.Begin(1000, 0))
		for i := range 3 {
			err := d.Run(0, 0)
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("frame_stack: 3, but in environment %d at step", i)) {
				t.Errorf("%s: %v", name, err)
			}
			if a, b := hashesOf(t, d), hashesOf(t, d); a != b {
				t.Errorf("%s: two reads differ", name)
			}
		}
		check(t, d.Run(0, 0))
		d.m.Memory.Flush()
		if s := d.Stats(); int64(d.m.Memory.Len()) != s.Steps {
			t.Errorf("%s: %d steps counted, %d stored", name, s.Steps, d.m.Memory.Len())
		}
		check(t, d.Close())
	}
}

// Episodes can be so short that their first and last observations need larger rings.
func TestGrowingRingsChangeNoResult(t *testing.T) {
	for _, synchronized := range []bool{true, false} {
		c := filmConfig(func(c *Config) { c.Synchronized, c.Window, c.NumThreads = synchronized, 90, 1 })
		mk := makeFilm(func(i int, f *film) { f.declared, f.shortEpisode = 3, 1+i })
		run := func(threads int, emulate offpolicy.Order, pause time.Duration) Hashes {
			c := c
			c.NumThreads = threads
			d := must(newTrial(c, mk))(t)
			defer d.Close()
			before := d.m.Memory.Bytes()
			if emulate != offpolicy.Concurrently {
				d.m.Emulate(emulate)
			} else {
				slow(d, pause)
			}
			check(t, d.Begin(2000, 0))
			check(t, d.Run(0, 0))
			if d.m.Memory.Bytes() <= before {
				t.Error("the rings did not grow: the test proves nothing")
			}
			return hashesOf(t, d)
		}
		want := run(1, offpolicy.Concurrently, 0)
		for how, got := range map[string]Hashes{
			"slow trainer": run(3, offpolicy.Concurrently, 100*time.Microsecond),
			"before":       run(1, offpolicy.UpdatesFirst, 0),
			"after":        run(1, offpolicy.UpdatesLast, 0),
		} {
			if got != want {
				t.Errorf("synchronized %v, %s: %+v, want %+v", synchronized, how, got, want)
			}
		}
	}
}

// With longer episodes the replay memory does not grow.
func TestRingsHoldAWholeWindow(t *testing.T) {
	for name, edit := range fourModes {
		for _, w := range []int{1, 4} {
			d := must(newTrial(cartpole(edit, func(c *Config) {
				c.NumEnvs, c.BufferSize, c.LearningStarts, c.GradientSteps, c.TrainFreq = w, 400, 1000, 1, 32
			}), func(i int) (env.Env, error) {
				c := newCounter(i)
				c.lengths = []int{1 << 30}
				return c, nil
			}))(t)
			before := d.m.Memory.Bytes()
			check(t, d.Begin(4000, 0))
			check(t, d.Run(0, 0))
			if after := d.m.Memory.Bytes(); after != before || d.m.Memory.Len() != 400 {
				t.Errorf("%s, W = %d: %d bytes, at the start %d; %d transitions", name, w, after, before, d.m.Memory.Len())
			}
			check(t, d.Close())
		}
	}
}

func TestFirstObservationsAreChecked(t *testing.T) {
	h := newHost(t, cartpole(), vec.SameStep, traintest.MakeWalk(1))
	check(t, h.Vec.Reset(h.Rows, nil))
	keep := append([]byte(nil), h.Rows.Obs...)
	copy(h.Rows.Obs[8*2+4:], []byte{0, 0, 0x80, 0x7f})
	check(t, h.d.Begin(100, 0))
	if err := h.Act(); !errors.Is(err, fault.ErrNotFinite) || !strings.Contains(err.Error(), "environment 2") {
		t.Error(err)
	}
	copy(h.Rows.Obs, keep)
	h.Round(t)
}

// A round that Act began and Observe did not end leaves no trace except its random numbers.
func TestBeginDiscardsTheRoundOfAct(t *testing.T) {
	h := newHost(t, cartpole(), vec.SameStep, traintest.MakeWalk(1))
	h.Begin(t, 1000)
	for range 60 {
		h.Round(t)
	}
	s := h.d.Stats()
	path := filepath.Join(t.TempDir(), "a")
	check(t, h.d.Save(path, true))
	for _, f := range []func() error{
		func() error { return h.d.Begin(1000, train.ResetTimesteps) },
		func() error { return h.d.Load(path) },
	} {
		check(t, h.Act())
		check(t, f())
		if err := h.Observe(); err == nil || !strings.Contains(err.Error(), "must follow act") {
			t.Error(err)
		}
	}
	check(t, h.Vec.Reset(h.Rows, nil))
	check(t, h.d.Begin(1000, train.ResetTimesteps|train.ResetEnvs))
	for range 100 {
		h.Round(t)
	}
	now := h.d.Stats()
	check(t, h.d.Settle())
	if now = h.d.Stats(); now.Steps != 400 || h.d.m.Clock.Warmup != 100 || now.Updates != now.UpdatesDue || now.Updates-s.Updates < 150 {
		t.Errorf("%+v, before %+v, %+v", now, s, h.d.m.Clock)
	}
}

// A row that would only reset may begin an episode instead.
func TestBeginReplacesRowsThatReset(t *testing.T) {
	h := newHost(t, cartpole(func(c *Config) { c.NumEnvs = 2 }), vec.NextStep, counters(func(c *counter) {
		c.lengths = c.lengths[c.index:] // 3, 1, 4 ... and 1, 4 ...
	}))
	h.Begin(t, 1000)
	h.Round(t) // an episode of environment 1 has ended
	check(t, h.Vec.Reset(h.Rows, nil))
	check(t, h.d.Begin(1000, train.ResetEnvs))
	for range 3 {
		h.Round(t)
	}
	h.d.m.Memory.Flush()
	var got [][3]float32
	for _, tu := range contents(h.d.m.Memory) {
		got = append(got, tu.obs)
	}
	// Environment 0 took three steps; the second ended an episode, and a row that reset followed.
	// Environment 1 took four steps; the first is an episode.
	want := [][3]float32{{0, 0, 0}, {0, 1, 0}, {0, 2, 0}, {1, 0, 0}, {1, 1, 0}, {1, 1, 1}, {1, 1, 2}}
	if !slices.Equal(got, want) {
		t.Errorf("transitions from %v, want from %v", got, want)
	}
}

func TestRowsOfTheWrongSizeAreRefused(t *testing.T) {
	h := newHost(t, cartpole(), vec.SameStep, traintest.MakeWalk(1))
	h.Begin(t, 100)
	for want, edit := range map[string]func(r *vec.Rows) *vec.Rows{
		"rows: nil, must be a Rows":                         func(*vec.Rows) *vec.Rows { return nil },
		"rows.Obs: 31, must be 32 (num_envs 4 times 8)":     func(r *vec.Rows) *vec.Rows { r.Obs = r.Obs[1:]; return r },
		"rows.FinalObs: 0, must be 32 (num_envs 4 times 8)": func(r *vec.Rows) *vec.Rows { r.FinalObs = nil; return r },
		"rows.Rewards: 3, must be 4 (num_envs 4 times 1)":   func(r *vec.Rows) *vec.Rows { r.Rewards = r.Rewards[1:]; return r },
		"rows.Ends: 5, must be 4 (num_envs 4 times 1)":      func(r *vec.Rows) *vec.Rows { r.Ends = make([]env.End, 5); return r },
	} {
		check(t, h.Act())
		if err := h.d.Observe(edit(vec.NewRows(h.Vec.Spec().Obs, 4)), 0); err == nil || err.Error() != want {
			t.Errorf("%v, want %q", err, want)
		}
		check(t, h.Vec.Step(h.Actions, h.Rows))
		check(t, h.Observe()) // no step was lost
	}
	short := *h.Rows
	short.Obs = short.Obs[1:]
	if err := h.d.Act(&short, h.Actions, 0); err == nil || err.Error() != "rows.Obs: 31, must be 32 (num_envs 4 times 8)" {
		t.Error(err)
	}
	h.Round(t) // no step was lost
}
