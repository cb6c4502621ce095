package dqn

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
)

// rowsOf returns memory for n transitions of environments of a spec.
func rowsOf(s env.Spec, n int) *experience.Transitions {
	x := &experience.Transitions{
		Obs: make([]byte, n*s.Obs.Bytes()), NextObs: make([]byte, n*s.Obs.Bytes()),
		Actions: make([]int32, n), Rewards: make([]float32, n), Terminated: make([]bool, n),
	}
	if s.Masks {
		x.NextMasks = make([]byte, n*s.Action.N)
	}
	return x
}

// made returns n random transitions.
func made(s env.Spec, n int, seed uint64) *experience.Transitions {
	r, x := rand.New(rand.NewPCG(seed, 1)), rowsOf(s, n)
	for _, obs := range [][]byte{x.Obs, x.NextObs} {
		for k := 0; k < len(obs); k += 4 {
			binary.NativeEndian.PutUint32(obs[k:], math.Float32bits(r.Float32()))
		}
	}
	for i := range n {
		x.Actions[i], x.Rewards[i], x.Terminated[i] = int32(r.IntN(s.Action.N)), r.Float32(), r.IntN(3) == 0
		if x.Terminated[i] { // as ReadTransitions returns it
			clear(x.NextObs[i*s.Obs.Bytes() : (i+1)*s.Obs.Bytes()])
		}
	}
	return x
}

func numbers(n int) []int64 {
	list := make([]int64, n)
	for i := range list {
		list[i] = int64(i)
	}
	return list
}

// ReadTransitions returns the memory's transitions, and changes no bit of the run.
func TestReadingTransitionsChangesNothing(t *testing.T) {
	read, quiet := newDQN(t, cartpole()), newDQN(t, cartpole())
	for range 5 {
		check(t, read.Run(170, 0))
		check(t, quiet.Run(170, 0))
		n := read.m.Memory.Len()
		x := rowsOf(*read.Spec(), n)
		check(t, read.ReadTransitions(numbers(n), x))
		b := read.m.Memory.Minibatch(1)
		for i := range n {
			read.m.Memory.Gather([]int{i}, 1, 1, b, nil)
			size := len(b.Obs)
			if string(x.Obs[i*size:(i+1)*size]) != string(b.Obs) || string(x.NextObs[i*size:(i+1)*size]) != string(b.NextObs) ||
				x.Actions[i] != b.Actions[0] || x.Rewards[i] != b.Rewards[0] || x.Terminated[i] != b.Terminated[0] {
				t.Fatalf("transition %d differs", i)
			}
		}
	}
	if must(read.Hashes())(t) != must(quiet.Hashes())(t) {
		t.Error("reading changed the run")
	}
}

// Transitions that are added before or during a run are visible at once. The run with them is a
// function of the seed, for any number of threads, also after a save and a load.
func TestAddedTransitionsAreVisibleAtOnce(t *testing.T) {
	run := func(threads int, cut bool, edit func(*Config)) Hashes {
		c := cartpole(edit, func(c *Config) { c.NumThreads = threads })
		d := newDQN(t, c)
		spec := *d.Spec()
		add := func(n int, seed uint64) {
			t.Helper()
			x := made(spec, n, seed)
			before := d.m.Memory.Len() + d.m.Memory.Pending()
			check(t, d.AddTransitions(x))
			if got := d.m.Memory.Len(); got != min(before+n, c.BufferSize) || d.m.Memory.Pending() != 0 {
				t.Fatalf("%d transitions, %d more to come, after %d more than %d", got, d.m.Memory.Pending(), n, before)
			}
			// The newest transitions of each environment are the added ones.
			got := rowsOf(spec, 1)
			last := d.m.Memory.Len() - 1 // of the last environment
			check(t, d.ReadTransitions([]int64{int64(last)}, got))
			i := (n-c.NumEnvs)/c.NumEnvs*c.NumEnvs + c.NumEnvs - 1
			want := made(spec, n, seed)
			if got.Actions[0] != want.Actions[i] || got.Rewards[0] != want.Rewards[i] || got.Terminated[0] != want.Terminated[i] || string(got.NextObs) != string(want.NextObs[i*len(got.NextObs):(i+1)*len(got.NextObs)]) {
				t.Fatalf("the newest transition is %v, want row %d", got, i)
			}
		}
		check(t, d.Begin(1500, 0))
		add(8*c.NumEnvs, 1)
		check(t, d.Run(430, 0)) // inside a window and inside episodes
		add(20*c.NumEnvs, 2)
		check(t, d.Run(333, 0))
		if cut {
			path := filepath.Join(t.TempDir(), "a.paceline")
			check(t, d.Save(path, true))
			again := newDQN(t, c)
			check(t, again.Load(path))
			d = again
		}
		check(t, d.Run(300, 0))
		return must(d.Hashes())(t)
	}
	for name, edit := range map[string]func(*Config){
		"as it is":       func(*Config) {},
		"not concurrent": func(c *Config) { c.Concurrent, c.Synchronized = settings.Off, false },
		"small":          func(c *Config) { c.BufferSize = 200 },
	} {
		t.Run(name, func(t *testing.T) {
			want := run(1, false, edit)
			for _, threads := range []int{2, 3} {
				if got := run(threads, threads == 2, edit); !reflect.DeepEqual(got, want) {
					t.Errorf("%d threads: %v, want %v", threads, got, want)
				}
			}
		})
	}
}

// Added transitions do not change the targets of the episode in progress: its next step follows the
// step before them.
func TestAddedTransitionsCutNoEpisode(t *testing.T) {
	with, without := newDQN(t, cartpole()), newDQN(t, cartpole())
	check(t, with.Run(90, 0)) // the warm-up: random actions, no updates
	check(t, without.Run(90, 0))
	check(t, with.AddTransitions(made(*with.Spec(), 4, 3)))
	check(t, with.Run(8, 0))
	check(t, without.Run(8, 0))
	with.m.Memory.Flush()
	without.m.Memory.Flush()
	added := map[float32]bool{}
	for _, r := range made(*with.Spec(), 4, 3).Rewards {
		added[r] = true
	}
	var own []tuple
	for _, x := range contents(with.m.Memory) {
		if !added[x.reward] {
			own = append(own, x)
		}
	}
	if want := contents(without.m.Memory); !reflect.DeepEqual(own, want) {
		t.Errorf("%d transitions besides the added ones, want those of %d", len(own), len(want))
	}
}

// Over n steps an added transition is a tail. Rows of which none could ever be drawn are refused.
func TestAddedTransitionsThatCannotBeDrawnAreRefused(t *testing.T) {
	const never = " where n_steps is 3: each has one step and could never be drawn"
	for _, x := range []struct {
		steps      int
		tails      string
		some, none string // the refusal of rows of which some terminate, or none
		stored     int
	}{
		{3, "keep", "", "", 16},
		{3, "drop_truncated", "", "n_step_tails: drop_truncated, must be keep to add transitions that do not terminate" + never, 8},
		{3, "drop", "n_step_tails: drop, must be keep to add transitions" + never, "n_step_tails: drop, must be keep to add transitions" + never, 0},
		{1, "drop", "", "", 16},
	} {
		d := newDQN(t, cartpole(func(c *Config) { c.NSteps, c.NStepTails = x.steps, x.tails }))
		rows := made(*d.Spec(), 8, 1)
		for says, some := range map[*string]bool{&x.some: true, &x.none: false} {
			for i := range rows.Terminated {
				rows.Terminated[i] = some && i < 3
			}
			if err := d.AddTransitions(rows); (*says == "") != (err == nil) || err != nil && err.Error() != *says {
				t.Errorf("n_steps %d, %s: %v, must be %q", x.steps, x.tails, err, *says)
			}
		}
		if got := d.m.Memory.Len(); got != x.stored {
			t.Errorf("n_steps %d, %s: %d transitions, must be %d", x.steps, x.tails, got, x.stored)
		}
		check(t, d.AddTransitions(rowsOf(*d.Spec(), 0)))
	}
}

// refusesRow checks that an error has the number of the row or step that its text names.
func refusesRow(t *testing.T, err error, says string) {
	t.Helper()
	var row *env.RowError
	of, number, _ := strings.Cut(strings.SplitN(says, ":", 2)[0], " ")
	if of != "row" && of != "step" {
		return
	}
	if !errors.As(err, &row) || row.Of != of || strconv.Itoa(row.Index) != number {
		t.Errorf("%v: %+v, must have the number of the %s", err, row, of)
	}
}

func TestBadTransitionsAreRefused(t *testing.T) {
	d := newDQN(t, cartpole())
	spec := *d.Spec()
	x := rowsOf(spec, 2)
	refuses(t, d.ReadTransitions([]int64{0, 0}, x), "transitions: 0 in the replay memory, must be at least 1 to read one")
	check(t, d.AddTransitions(made(spec, 4, 1)))
	refuses(t, d.ReadTransitions([]int64{0, 4}, x), "numbers[1]: 4, must be 0 to 3: there are 4 transitions")
	refuses(t, d.ReadTransitions([]int64{0}, x), "obs: 32 entries, must be 16")
	for says, change := range map[string]func(x *experience.Transitions){
		"row 1: action: 2, must be 0 to 1":                        func(x *experience.Transitions) { x.Actions[1] = 2 },
		"row 2: reward: NaN, must be finite":                      func(x *experience.Transitions) { x.Rewards[2] = float32(math.NaN()) },
		"row 0: observation: component 1 is +Inf, must be finite": func(x *experience.Transitions) { binary.NativeEndian.PutUint32(x.Obs[4:], 0x7f800000) },
		"row 0: next observation: component 0 is NaN, must be finite": func(x *experience.Transitions) {
			x.Terminated[0] = false
			binary.NativeEndian.PutUint32(x.NextObs, 0x7fc00000)
		},
		"rewards: 2 entries, must be 3": func(x *experience.Transitions) { x.Rewards = x.Rewards[:2] },
	} {
		x := made(spec, 3, 2)
		change(x)
		err := d.AddTransitions(x)
		refuses(t, err, says)
		refusesRow(t, err, says)
	}
	if d.m.Memory.Len() != 4 {
		t.Errorf("%d transitions after refusals, must be 4", d.m.Memory.Len())
	}
	check(t, d.Begin(10, train.ResetEnvs))
	check(t, d.Run(10, 0))
}
