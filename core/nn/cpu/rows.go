package cpu

import (
	"slices"

	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/graph"
)

// rowSet are the observations of the latest SetObs.
type rowSet struct {
	obs    []byte // the caller's
	rows   int
	picked []byte  // the observations of the latest batch
	index  []int32 // the rows that picked was copied from; empty: the rows may have changed
}

// SetObs copies nothing: a gradient gathers the rows of its batch.
func (l *learner) SetObs(obs []byte) error {
	rows, err := l.graph.CheckSetObs(obs)
	if err != nil {
		return err
	}
	k := &l.obsRows
	k.obs, k.rows = obs, rows
	if k.picked == nil {
		n := l.graph.Rows
		k.picked, k.index = make([]byte, n*l.graph.Spec.Obs.Bytes()), make([]int32, 0, n)
	}
	k.index = k.index[:0]
	return nil
}

// Refresh invalidates picked: the rows are in the caller's memory.
func (l *learner) Refresh(first, rows int) error {
	if err := graph.CheckRefresh(l.obsRows.rows, first, rows); err != nil {
		return err
	}
	l.obsRows.index = l.obsRows.index[:0]
	return nil
}

// observations returns the observations of a checked batch.
func (l *learner) observations(b *nn.Batch) []byte {
	if b.Rows == nil {
		return b.Obs
	}
	k, size := &l.obsRows, l.graph.Spec.Obs.Bytes()
	if slices.Equal(k.index, b.Rows) {
		return k.picked
	}
	k.index = append(k.index[:0], b.Rows...)
	for i, row := range b.Rows {
		to := k.picked[i*size : (i+1)*size]
		if row < 0 {
			clear(to)
		} else {
			copy(to, k.obs[int(row)*size:])
		}
	}
	return k.picked
}
