package vec

import (
	"cmp"
	"fmt"

	"github.com/paceline-rl/paceline/core/env"
)

// Rows is the memory that a Vec of n environments writes to. The caller owns it and may pass
// other Rows at every call. Only environment i writes row i, so different rows may be read and
// written concurrently.
type Rows struct {
	// Obs is [n][Spec().Obs.Bytes()]: the current observations.
	Obs []byte
	// FinalObs has the size of Obs and is needed in SameStep only. Row i is written if Ends[i] is
	// Over: the last observation of the episode.
	FinalObs []byte
	// Masks is [n][Spec().Action.Logits()] or nil: the masks of the observations in Obs, 0 for an
	// action that is not allowed. FinalMasks are the masks of FinalObs.
	Masks, FinalMasks []byte
	// Infos has a column of n entries for each of Vec.Infos, or is nil. FinalInfos are the infos
	// of the last step of an episode, written for the same rows as FinalObs.
	Infos, FinalInfos [][]byte
	// IDs is [n]: the environment of each row. Only Async writes IDs.
	IDs []int32
	// Rewards is [n].
	Rewards []float32
	// Ends is [n]: 0, or how the step ended the episode.
	Ends []env.End
	// Starts is [n]: true if the row of Obs is the first observation of an episode. After a Step
	// in NextStep such a row is not a transition. In SameStep the row also has the End of the
	// previous episode.
	Starts []bool
}

// NewRows returns Rows for n environments, with FinalObs.
func NewRows(spec env.ObsSpec, n int) *Rows {
	size := n * spec.Bytes()
	return &Rows{
		Obs:      make([]byte, size),
		FinalObs: make([]byte, size),
		Rewards:  make([]float32, n),
		Ends:     make([]env.End, n),
		Starts:   make([]bool, n),
	}
}

// AddInfos adds columns for the infos that specs (Vec.Infos) describes.
func (r *Rows) AddInfos(specs []env.InfoSpec) {
	n := len(r.Ends)
	for _, s := range specs {
		r.Infos = append(r.Infos, make([]byte, n*s.Bytes()))
		r.FinalInfos = append(r.FinalInfos, make([]byte, n*s.Bytes()))
	}
}

// AddMasks adds masks of a size in bytes: Spec().Action.Logits().
func (r *Rows) AddMasks(size int) {
	n := len(r.Ends)
	r.Masks, r.FinalMasks = make([]byte, n*size), make([]byte, n*size)
}

// Actions holds one action for each of n environments: Discrete is [n][Spec().Action.Ints()], Box
// [n][Spec().Action.Floats()]. Either may be nil if it has no entries.
type Actions struct {
	Discrete []int32
	Box      []float32
}

// Action is the action of one environment.
type Action struct {
	Discrete []int32
	Box      []float32
}

// At returns the action of environment i, of a spec.
func (a *Actions) At(i int, spec *env.ActionSpec) Action {
	return a.of(i, width{spec.Ints(), spec.Floats()})
}

// NewAction returns memory for an action.
func NewAction(spec *env.ActionSpec) Action {
	return Action{make([]int32, spec.Ints()), make([]float32, spec.Floats())}
}

// width is the size of one action.
type width struct{ ints, floats int }

// of returns the action of environment i.
func (a *Actions) of(i int, w width) (one Action) {
	if w.ints > 0 {
		one.Discrete = a.Discrete[i*w.ints : (i+1)*w.ints : (i+1)*w.ints]
	}
	if w.floats > 0 {
		one.Box = a.Box[i*w.floats : (i+1)*w.floats : (i+1)*w.floats]
	}
	return one
}

// checkRows refuses rows that do not have the size for n environments.
func (v *Vec) checkRows(r *Rows, n int) error {
	switch {
	case len(r.Obs) != n*v.bytes:
		return fmt.Errorf("rows.Obs: %d bytes, must be %d (%d rows of %d)", len(r.Obs), n*v.bytes, n, v.bytes)
	case v.mode == SameStep && len(r.FinalObs) != n*v.bytes:
		return fmt.Errorf("rows.FinalObs: %d bytes, must be %d (%d rows of %d)", len(r.FinalObs), n*v.bytes, n, v.bytes)
	case len(r.Rewards) != n:
		return fmt.Errorf("rows.Rewards: %d entries, must be %d", len(r.Rewards), n)
	case len(r.Ends) != n:
		return fmt.Errorf("rows.Ends: %d entries, must be %d", len(r.Ends), n)
	case len(r.Starts) != n:
		return fmt.Errorf("rows.Starts: %d entries, must be %d", len(r.Starts), n)
	}
	for _, masks := range []struct {
		name string
		of   []byte
	}{{"Masks", r.Masks}, {"FinalMasks", r.FinalMasks}} {
		switch want := n * v.maskBytes; {
		case masks.of != nil && v.masks == nil:
			return fmt.Errorf("rows.%s: set, must be nil: %s has no action masks", masks.name, cmp.Or(v.spec.ID, "the environment"))
		case masks.of != nil && len(masks.of) != want:
			return fmt.Errorf("rows.%s: %d bytes, must be %d (%d rows of %d)", masks.name, len(masks.of), want, n, v.maskBytes)
		}
	}
	if err := v.checkColumns("Infos", r.Infos, n); err != nil {
		return err
	}
	return v.checkColumns("FinalInfos", r.FinalInfos, n)
}

func (v *Vec) checkColumns(name string, columns [][]byte, n int) error {
	if columns != nil && len(columns) != len(v.infos) {
		return fmt.Errorf("rows.%s: %d columns, must be %d", name, len(columns), len(v.infos))
	}
	for k, column := range columns {
		if s := &v.infos[k]; len(column) != n*s.Bytes() {
			return fmt.Errorf("rows.%s[%d]: %d bytes, must be %d (%d of %s)", name, k, len(column), n*s.Bytes(), n, s.Name)
		}
	}
	return nil
}
