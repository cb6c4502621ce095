package rollout

import (
	"bytes"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
)

// exampleRollout returns a rollout of 6 rounds of 3 environments, after the given number of rounds
// of its second filling. It has holes, every kind of end and pending observations.
func exampleRollout(t testing.TB, rounds int) *Rollout {
	r := newRollout(t, 6, 3)
	drive(t, r, 0, 6)
	check(t, r.Next())
	drive(t, r, 6, 6+rounds)
	return r
}

// drive runs the rounds from to until-1 of a fixed run.
func drive(t testing.TB, r *Rollout, from, until int) {
	t.Helper()
	for round := from; round < until; round++ {
		for i := range 3 {
			rnd := rand.New(rand.NewPCG(uint64(round), uint64(i)))
			if rnd.IntN(5) == 0 {
				r.Cut(i)
			}
			if !r.envs[i].pending {
				check(t, r.Begin(i, observation(rnd.IntN(1000))))
				if rnd.IntN(2) == 0 {
					continue
				}
			}
			x := experience.Step{Action: []int32{int32(rnd.IntN(5))}, Reward: rnd.Float32(), Updates: uint64(round), Columns: []float32{rnd.Float32(), rnd.Float32()}}
			if rnd.IntN(3) == 0 {
				x.End = env.End(rnd.IntN(8))
			}
			check(t, r.Add(i, &x, observation(rnd.IntN(1000))))
		}
		check(t, r.EndRound())
	}
}

func save(t testing.TB, r *Rollout) []byte {
	t.Helper()
	var b bytes.Buffer
	check(t, r.Save(&b))
	return b.Bytes()
}

func load(t testing.TB, r *Rollout, data []byte) {
	t.Helper()
	adopt, err := r.Load(bytes.NewReader(data), int64(len(data)))
	check(t, err)
	adopt()
}

func TestLoadedRolloutContinuesWithSameBits(t *testing.T) {
	for rounds := range 7 {
		a := exampleRollout(t, rounds)
		data := save(t, a)
		b := exampleRollout(t, 4) // Load replaces its content
		batch := b.Batch()
		load(t, b, data)
		if batch != b.Batch() {
			t.Fatal("Load has changed the pointer that Batch returns")
		}
		if !bytes.Equal(save(t, b), data) {
			t.Fatalf("round %d: the loaded rollout saves other data", rounds)
		}
		for _, r := range []*Rollout{a, b} {
			drive(t, r, 6+rounds, 12)
			check(t, r.Finish(.9, .5, values))
		}
		x, y := a.Batch(), b.Batch()
		if !slices.Equal(x.Returns, y.Returns) || !slices.Equal(x.Advantages, y.Advantages) || !bytes.Equal(x.Obs, y.Obs) || !slices.Equal(x.Weights, y.Weights) {
			t.Fatalf("round %d: the rollout differs after a load", rounds)
		}
		check(t, a.Next())
		check(t, b.Next())
		if !bytes.Equal(save(t, a), save(t, b)) {
			t.Fatalf("round %d: the next rollout differs after a load", rounds)
		}
	}
}

// A checkpoint without experience has no rollout: Load empties the rollout.
func TestLoadOfNothing(t *testing.T) {
	r := exampleRollout(t, 3)
	adopt, err := r.Load(nil, 0)
	check(t, err)
	if !bytes.Equal(save(t, r), save(t, exampleRollout(t, 3))) {
		t.Fatal("changed before adopt")
	}
	adopt()
	if !bytes.Equal(save(t, r), save(t, newRollout(t, 6, 3))) {
		t.Fatal("not empty after adopt")
	}
}

// Damaged data give an error and change nothing, or a rollout that continues without a panic. (The
// checksum of the checkpoint finds changed bytes.)
func TestDamagedDataAreRefused(t *testing.T) {
	data, r := save(t, exampleRollout(t, 5)), exampleRollout(t, 2)
	before := save(t, r)
	try := func(what string, bad []byte) (refused bool) {
		defer func() {
			if p := recover(); p != nil {
				t.Fatalf("%s: panic: %v", what, p)
			}
		}()
		adopt, err := r.Load(bytes.NewReader(bad), int64(len(bad)))
		if !bytes.Equal(save(t, r), before) {
			t.Fatalf("%s: Load changed the rollout", what)
		}
		if err != nil {
			return true
		}
		adopt()
		round := 6 + r.round
		drive(t, r, round, 12)
		check(t, r.Finish(.9, .9, values))
		check(t, r.Next())
		load(t, r, before)
		return false
	}
	for n := range data {
		if !try("cut off", data[:n]) {
			t.Fatalf("%d of %d bytes were accepted", n, len(data))
		}
	}
	if !try("longer", append(slices.Clone(data), 0)) {
		t.Fatal("a byte too many was accepted")
	}
	accepted := 0
	for k := range 8 * len(data) {
		bad := slices.Clone(data)
		bad[k/8] ^= 1 << (k % 8)
		if !try("bit", bad) {
			accepted++
		}
	}
	if accepted == 8*len(data) {
		t.Fatal("no flipped bit was refused")
	}
}

func TestLoadRefusesOtherConfigs(t *testing.T) {
	data := save(t, exampleRollout(t, 5))
	good := newRollout(t, 6, 3).cfg
	for _, c := range []struct {
		edit func(*Config)
		want string
	}{
		{func(c *Config) { c.Horizon = 7 }, "n_steps: rollout saved with 6, must be 7"},
		{func(c *Config) { c.Envs = 4 }, "num_envs: rollout saved with 3, must be 4"},
		{func(c *Config) { c.Action.N = 6 }, "rollout: saved with 5 actions, must be 6"},
		{func(c *Config) { c.Obs.Shape = []int{2} }, "rollout: saved with observations of 4 bytes, must be 8"},
		{func(c *Config) { c.Columns = []string{"value"} }, `columns: rollout saved with other ones, must be "value"`},
		{func(c *Config) { c.Columns = []string{"value", "log_prob"} }, `columns: rollout saved with "log_prob,value", must be "value,log_prob"`},
	} {
		cfg := good
		c.edit(&cfg)
		r, err := New(cfg)
		check(t, err)
		if _, err := r.Load(bytes.NewReader(data), int64(len(data))); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	r, err := New(good)
	check(t, err)
	if _, err := r.Load(strings.NewReader(strings.Repeat("x", 100)), 100); err == nil || err.Error() != "rollout: these are not a saved rollout's data" {
		t.Error(err)
	}
}

// Load refuses recorded values that are not finite, except in holes.
func TestColumnsMustBeFinite(t *testing.T) {
	r, refused := exampleRollout(t, 5), 0
	for k, weight := range r.data.Weights[:5*3] {
		for c, column := range r.data.Columns {
			was := column[k]
			column[k] = float32(math.Inf(-1))
			data := save(t, r)
			column[k] = was
			_, err := newRollout(t, 6, 3).Load(bytes.NewReader(data), int64(len(data)))
			if want := r.cfg.Columns[c] + ": -Inf, must be finite"; weight == 0 && err != nil || weight != 0 && (err == nil || !strings.HasSuffix(err.Error(), want)) {
				t.Errorf("row %d of weight %g: %v, want %q", k, weight, err, want)
			}
			if err != nil {
				refused++
			}
		}
	}
	if refused == 0 || refused == 2*5*3 {
		t.Errorf("%d refused: the test shows nothing", refused)
	}
}

func TestSaveReportsAFullDisk(t *testing.T) {
	r := exampleRollout(t, 5)
	for n := range len(save(t, r)) {
		if err := r.Save(&smallDisk{n}); err != io.ErrShortWrite {
			t.Fatalf("after %d bytes: %v", n, err)
		}
	}
}

// smallDisk is a writer that accepts a limited number of bytes.
type smallDisk struct{ bytesLeft int }

func (d *smallDisk) Write(b []byte) (int, error) {
	if len(b) > d.bytesLeft {
		n := d.bytesLeft
		d.bytesLeft = 0
		return n, io.ErrShortWrite
	}
	d.bytesLeft -= len(b)
	return len(b), nil
}
