package vec

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/env"
)

// Rows is where a Vec of n environments writes; all of it belongs to the
// caller, and another one may be passed at every call. Row i belongs to
// environment i alone, so different ones can be written and read at once.
type Rows struct {
	// Obs has n rows of Spec().Obs.Bytes() bytes: what each environment shows now.
	Obs []byte
	// FinalObs is of the same size, and needed in SameStep only. Its row i is
	// written where Ends[i] is Over: the last observation of the episode.
	FinalObs []byte
	// Masks has a byte for each of Spec().Action.N actions of each row, 0 where it may not be
	// taken now, or is nil; FinalMasks are those of the observations in FinalObs.
	Masks, FinalMasks []byte
	// Infos has a column of n entries for each of Vec.Infos, or is nil; FinalInfos are
	// those of the last step of the episode, written where FinalObs is.
	Infos, FinalInfos [][]byte
	// IDs has n entries, the environments of the rows; written by Async only.
	IDs []int32
	// Rewards has n entries.
	Rewards []float32
	// Ends has n entries: how the step left the episode.
	Ends []env.End
	// Starts has n entries: whether the row of Obs is the first of an episode.
	// In NextStep such a row of a Step is no transition; in SameStep it comes
	// with the End of the episode before.
	Starts []bool
}

// NewRows returns Rows for n environments, FinalObs included.
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

// AddInfos adds columns for infos, as Vec.Infos describes them.
func (r *Rows) AddInfos(specs []env.InfoSpec) {
	n := len(r.Ends)
	for _, s := range specs {
		r.Infos = append(r.Infos, make([]byte, n*s.Bytes()))
		r.FinalInfos = append(r.FinalInfos, make([]byte, n*s.Bytes()))
	}
}

// AddMasks adds masks of so many actions.
func (r *Rows) AddMasks(actions int) {
	n := len(r.Ends)
	r.Masks, r.FinalMasks = make([]byte, n*actions), make([]byte, n*actions)
}

// Actions are those of n environments: numbers, or where the ActionSpec is a box its
// float32, row after row. The other one is nil.
type Actions struct {
	Discrete []int32
	Box      []float32
}

// Action is that of one environment: a number, or a box's float32. The other one is 0 or
// nil.
type Action struct {
	Discrete int32
	Box      []float32
}

// of returns environment number i's, each of them a row of size.
func (a Actions) of(i, size int) Action {
	if a.Box != nil {
		return Action{Box: a.Box[i*size : (i+1)*size : (i+1)*size]}
	}
	return Action{Discrete: a.Discrete[i]}
}

// checkRows refuses rows of another size than n environments need.
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
		switch want := n * v.spec.Action.N; {
		case masks.of != nil && v.masks == nil:
			return fmt.Errorf("rows.%s: set, must be nil: %s has no action masks", masks.name, v.spec.ID)
		case masks.of != nil && len(masks.of) != want:
			return fmt.Errorf("rows.%s: %d bytes, must be %d (%d rows of %d)", masks.name, len(masks.of), want, n, v.spec.Action.N)
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
