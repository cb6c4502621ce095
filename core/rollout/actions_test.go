package rollout

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
)

var kinds = map[string]env.ActionSpec{
	"branches": {Branches: []int32{3, 1, 4}},
	"box":      {Low: []float32{-1, 0}, High: []float32{1, 5}},
	"hybrid":   {Branches: []int32{2, 3}, Low: []float32{-1}, High: []float32{1}},
}

func rolloutOf(t *testing.T, action env.ActionSpec, masks bool) *Rollout {
	t.Helper()
	r, err := New(Config{Obs: env.ObsSpec{DType: env.Float32, Shape: []int{1}}, Action: action, Horizon: 4, Envs: 3, Masks: masks, Columns: []string{"value"}})
	check(t, err)
	return r
}

// act returns a random step, whose box may be outside the bounds, and its mask.
func act(rnd *rand.Rand, action env.ActionSpec, masks bool) *experience.Step {
	s := &experience.Step{Reward: rnd.Float32(), Columns: []float32{0}}
	for b := range action.Ints() {
		n := action.Branch(b)
		a := rnd.IntN(n)
		s.Action = append(s.Action, int32(a))
		for k := range n {
			if masks {
				s.Mask = append(s.Mask, 0)
				if k == a || rnd.IntN(2) == 0 {
					s.Mask[len(s.Mask)-1] = 1
				}
			}
		}
	}
	for range action.Floats() {
		s.Continuous = append(s.Continuous, float32(9*rnd.NormFloat64()))
	}
	return s
}

// fill plays rounds until the rollout is full. Environment 1 takes no step in round 2.
func fill(t *testing.T, r *Rollout, rnd *rand.Rand, masks bool) (steps [][]*experience.Step) {
	t.Helper()
	for round := r.round; !r.Full(); round++ {
		row := make([]*experience.Step, 3)
		for i := range row {
			if !r.Open(i) {
				check(t, r.Begin(i, observation(i)))
			}
			if i == 1 && round == 2 {
				continue
			}
			s := act(rnd, r.cfg.Action, masks)
			row[i] = &experience.Step{Action: slices.Clone(s.Action), Continuous: slices.Clone(s.Continuous), Mask: slices.Clone(s.Mask)}
			check(t, r.Add(i, s, observation(i+1)))
			for k := range s.Action { // the rollout has copied
				s.Action[k] = 77
			}
			for k := range s.Continuous {
				s.Continuous[k] = 77
			}
		}
		steps = append(steps, row)
		check(t, r.EndRound())
	}
	return steps
}

func compareActions(t *testing.T, r *Rollout, steps [][]*experience.Step, masks bool) {
	t.Helper()
	b, ints, floats, logits := r.Batch(), r.ints, r.floats, r.cfg.maskBytes()
	if len(b.Actions) != 12*ints || len(b.Continuous) != 12*floats || len(b.Masks) != 12*logits {
		t.Fatalf("%d integers, %d numbers, %d bytes of masks", len(b.Actions), len(b.Continuous), len(b.Masks))
	}
	for round, row := range steps {
		for i, s := range row {
			k := round*3 + i
			actions, box := b.Actions[k*ints:(k+1)*ints], b.Continuous[k*floats:(k+1)*floats]
			if s == nil {
				if b.Weights[k] != 0 || slices.ContainsFunc(actions, func(a int32) bool { return a != 0 }) || slices.ContainsFunc(box, func(x float32) bool { return x != 0 }) {
					t.Fatalf("row %d: a hole with %v %v", k, actions, box)
				}
				continue
			}
			if !slices.Equal(actions, s.Action) || !slices.Equal(box, s.Continuous) || masks && !bytes.Equal(b.Masks[k*logits:(k+1)*logits], s.Mask) {
				t.Fatalf("row %d: %v %v, want %v %v", k, actions, box, s.Action, s.Continuous)
			}
		}
	}
}

// Actions of every kind are stored as they were given, survive a checkpoint, and are gathered.
func TestActionsOfEveryKind(t *testing.T) {
	for name, action := range kinds {
		for _, masks := range []bool{false, true} {
			if masks && action.Ints() == 0 {
				continue
			}
			rnd := rand.New(rand.NewPCG(3, 4))
			r := rolloutOf(t, action, masks)
			fill(t, r, rnd, masks)
			check(t, r.Next())
			steps := fill(t, r, rnd, masks)
			compareActions(t, r, steps, masks)

			again := rolloutOf(t, action, masks)
			data := save(t, r)
			load(t, again, data)
			compareActions(t, again, steps, masks)
			if !bytes.Equal(save(t, again), data) {
				t.Errorf("%s: the loaded rollout saves other data", name)
			}
			moved := rolloutOf(t, action, masks) // a ring whose oldest round is not the first of memory
			load(t, moved, data)
			for range 2 {
				check(t, moved.Drop(2))
				steps = append(steps[2:], fill(t, moved, rnd, masks)...)
			}
			load(t, again, save(t, moved))
			check(t, moved.Finish(.9, .9, values))

			rows, weights := make([]int32, 8), make([]float32, 8)
			actions, box, mask := make([]int32, 8*r.ints), make([]float32, 8*r.floats), make([]byte, 8*r.cfg.maskBytes())
			again.Gather(1, 2, rows, actions, box, mask, weights)
			for at := range rows {
				s := steps[at/2][1+at%2]
				if (s == nil) != (weights[at] == 0) {
					t.Fatalf("%s, row %d: weight %v", name, at, weights[at])
				}
				if n := r.cfg.maskBytes(); s != nil && (!slices.Equal(actions[at*r.ints:(at+1)*r.ints], s.Action) || !slices.Equal(box[at*r.floats:(at+1)*r.floats], s.Continuous) || !bytes.Equal(mask[at*n:(at+1)*n], s.Mask)) {
					t.Fatalf("%s, row %d: another action than %v %v", name, at, s.Action, s.Continuous)
				}
			}
		}
	}
}

func TestActionsOfAnotherSizeAreRefused(t *testing.T) {
	r := rolloutOf(t, kinds["hybrid"], false)
	check(t, r.Begin(0, observation(1)))
	for _, s := range []*experience.Step{
		{Action: []int32{1}, Continuous: []float32{0}}, {Action: []int32{1, 1}}, {Action: []int32{1, 1}, Continuous: []float32{0, 0}},
	} {
		s.Columns = []float32{0}
		if err := r.Add(0, s, observation(1)); err == nil || !strings.HasSuffix(err.Error(), "must be 2 and 1") {
			t.Errorf("%v", err)
		}
	}
	for want, action := range map[string]env.ActionSpec{
		"action branches[1]: 0, must be at least 1":    {Branches: []int32{2, 0}},
		"action low[0]: 2, must be at most high[0], 1": {Low: []float32{2}, High: []float32{1}},
	} {
		_, err := New(Config{Obs: env.ObsSpec{Shape: []int{1}}, Action: action, Horizon: 4, Envs: 3, Columns: []string{"value"}})
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Data of other actions, and actions that no chooser can have chosen, are refused.
func TestDamagedActionsAreRefused(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	r := rolloutOf(t, kinds["hybrid"], true)
	fill(t, r, rnd, true)
	data := save(t, r)
	for want, action := range map[string]env.ActionSpec{
		"rollout: saved in format 4, this version reads 2":             {N: 5},
		"rollout: saved with 5 actions, must be 6":                     {Branches: []int32{2, 4}, Low: []float32{-1}, High: []float32{1}},
		"actions: rollout saved with other branches or another box":    {Branches: []int32{3, 2}, Low: []float32{-1}, High: []float32{1}},
		"actions: rollout saved with other branches or another box, ":  {Branches: []int32{2, 3}},
		"actions: rollout saved with other branches or another box, m": {Branches: []int32{2, 3}, Low: []float32{-1, 0}, High: []float32{1, 1}},
	} {
		other := rolloutOf(t, action, true)
		if _, err := other.Load(bytes.NewReader(data), int64(len(data))); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	branches := bytes.Index(data, int32s(r.data.Actions[:4]))
	box := bytes.Index(data, int32s(float32s(r.data.Continuous[:3])))
	if branches < 0 || box < 0 {
		t.Fatal("the actions are not in the saved data")
	}
	for name, change := range map[string]struct {
		at  int
		bit uint32
	}{
		"branch too large": {branches, 2}, "negative branch": {branches + 4, math.MaxUint32}, "NaN": {box, math.Float32bits(float32(math.NaN()))},
		"infinite": {box, math.Float32bits(float32(math.Inf(-1)))},
	} {
		bad := slices.Clone(data)
		binary.LittleEndian.PutUint32(bad[change.at:], change.bit)
		if _, err := r.Load(bytes.NewReader(bad), int64(len(bad))); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	masked := slices.Clone(data) // forbids the first action of the first row
	masks := bytes.Index(masked, r.data.Masks[:10])
	masked[masks+int(r.data.Actions[0])] = 0
	if _, err := r.Load(bytes.NewReader(masked), int64(len(masked))); err == nil {
		t.Error("an action that its mask forbids was accepted")
	}
}

func int32s(list []int32) (b []byte) {
	for _, x := range list {
		b = binary.LittleEndian.AppendUint32(b, uint32(x))
	}
	return b
}

// float32s returns the bits of the numbers.
func float32s(list []float32) (bits []int32) {
	for _, x := range list {
		bits = append(bits, int32(math.Float32bits(x)))
	}
	return bits
}
