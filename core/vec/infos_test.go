package vec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
)

// describeInfos returns row i of the columns as text: step, action, and whether the step is odd.
func describeInfos(columns [][]byte, i int) string {
	x := math.Float32frombits(binary.NativeEndian.Uint32(columns[1][8*i:]))
	y := math.Float32frombits(binary.NativeEndian.Uint32(columns[1][8*i+4:]))
	return fmt.Sprintf("%d (%v %v) %d", int32(binary.NativeEndian.Uint32(columns[0][4*i:])), x, y, columns[2][i])
}

// The infos of each mode, computed by hand. The environment has episodes of two steps and gets the
// actions 1, 2, 0, ... FinalInfos are in brackets.
func TestInfos(t *testing.T) {
	for mode, want := range map[Autoreset]string{
		NextStep: "0 (0 0) 0, 1 (1 0) 1, 2 (2 0) 0, 0 (0 0) 0, 1 (1 0) 1, 2 (2 0) 0, 0 (0 0) 0",
		SameStep: "0 (0 0) 0, 1 (1 0) 1, 0 (0 0) 0 [2 (2 0) 0], 1 (0 0) 1, 0 (0 0) 0 [2 (1 0) 0], 1 (2 0) 1, 0 (0 0) 0 [2 (0 0) 0]",
		Disabled: "0 (0 0) 0, 1 (1 0) 1, 2 (2 0) 0, 0 (0 0) 0, 1 (1 0) 1, 2 (2 0) 0, 0 (0 0) 0",
	} {
		v, rows := newVec(t, func(i int) (env.Env, error) { return newInfoCounter(2+100*i, discrete), nil }, 2, 2, mode)
		rows.AddInfos(v.Infos())
		if err := v.Reset(rows, nil); err != nil {
			t.Fatal(err)
		}
		got := []string{describeInfos(rows.Infos, 0)}
		for k := range int32(6) {
			var err error
			if mode == Disabled && rows.Ends[0] != 0 {
				err = v.Reset(rows, []bool{true, false})
			} else {
				err = v.Step(Actions{Discrete: []int32{(k + 1) % 3, 1}}, rows)
			}
			if err != nil {
				t.Fatal(err)
			}
			s := describeInfos(rows.Infos, 0)
			if mode == SameStep && rows.Ends[0] != 0 {
				s += " [" + describeInfos(rows.FinalInfos, 0) + "]"
			}
			got = append(got, s)
		}
		if s := strings.Join(got, ", "); s != want {
			t.Errorf("%v: %s, want %s", mode, s, want)
		}
	}
}

// Rows may have no Infos or no FinalInfos, and environments may have no infos.
func TestInfosAreOptional(t *testing.T) {
	for what, remove := range map[string]func(r *Rows){
		"none":     func(r *Rows) { r.Infos, r.FinalInfos = nil, nil },
		"no final": func(r *Rows) { r.FinalInfos = nil },
	} {
		v, rows := newVec(t, func(int) (env.Env, error) { return newInfoCounter(1, discrete), nil }, 2, 1, SameStep)
		rows.AddInfos(v.Infos())
		remove(rows)
		if err := errors.Join(v.Reset(rows, nil), v.Step(Actions{Discrete: []int32{0, 0}}, rows)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	v, rows, _ := counters(t, SameStep, 1, 1, 1)
	if specs := v.Infos(); len(specs) != 0 {
		t.Errorf("counters report %v", specs)
	}
	rows.Infos, rows.FinalInfos = [][]byte{}, [][]byte{}
	if err := errors.Join(v.Reset(rows, nil), v.Step(Actions{Discrete: []int32{0, 0}}, rows)); err != nil {
		t.Error(err)
	}
	rows.Infos = [][]byte{{1, 2}}
	if err := v.Reset(rows, nil); err == nil || err.Error() != "rows.Infos: 1 columns, must be 0" {
		t.Error(err)
	}
}

// informer has different infos in each environment.
type informer struct {
	*infoCounter
	specs []env.InfoSpec
}

func (s informer) Infos() []env.InfoSpec { return s.specs }

func TestInfosMustBeEqual(t *testing.T) {
	_, err := New(func(i int) (env.Env, error) {
		return informer{newInfoCounter(1, discrete), []env.InfoSpec{{Name: "step", Len: i / 2}}}, nil
	}, 3, newPool(t, 1), NextStep)
	if err == nil || err.Error() != "environment 2: infos: differ from those of environment 0, must be the same" {
		t.Error(err)
	}
}

// After a lost life an environment needs no reset in any mode.
func TestLostLifeNeedsNoReset(t *testing.T) {
	for _, mode := range []Autoreset{NextStep, SameStep, Disabled} {
		v, rows := newVec(t, func(int) (env.Env, error) { return newLivesCounter(), nil }, 1, 1, mode)
		if err := v.Reset(rows, nil); err != nil {
			t.Fatal(err)
		}
		var got []string
		for range 4 {
			if err := v.Step(Actions{Discrete: []int32{0}}, rows); err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprintf("%s %v %d %v", show(rows.Obs, 0), rows.Rewards[0], rows.Ends[0], rows.Starts[0]))
		}
		want := "1.1 11 0 false, 1.2 12 4 false, 1.3 13 4 false, 1.4 14 5 false"
		if mode == SameStep {
			want = strings.Replace(want, "1.4 14 5 false", "2.0 14 5 true", 1)
		}
		if s := strings.Join(got, ", "); s != want {
			t.Errorf("%v: %s, want %s", mode, s, want)
		}
	}
}

// livesCounter loses a life in each step from the second on, and ends its game in the fourth.
type livesCounter struct{ *counter }

func newLivesCounter() livesCounter { return livesCounter{newCounter(4, env.Terminated)} }

func (l livesCounter) Step(action int32, obs []byte) (float32, env.End, error) {
	reward, end, err := l.counter.Step(action, obs)
	if l.step > 1 {
		end |= env.Lost
	}
	return reward, end, err
}
