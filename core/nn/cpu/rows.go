package cpu

import (
	"slices"

	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/graph"
)

// kept are the observations that batches name rows of (Learner.Keep).
type kept struct {
	obs    []byte // the caller's
	rows   int
	picked []byte  // the observations of the latest batch
	index  []int32 // the rows that picked was copied from; none: the rows may have changed
}

// Keep remembers where the rows are: a gradient copies those of its batch together.
func (l *learner) Keep(obs []byte) error {
	rows, err := l.graph.CheckKeep(obs)
	if err != nil {
		return err
	}
	k := &l.kept
	k.obs, k.rows = obs, rows
	if k.picked == nil {
		n := l.graph.Rows
		k.picked, k.index = make([]byte, n*l.graph.Spec.Obs.Bytes()), make([]int32, 0, n)
	}
	k.index = k.index[:0]
	return nil
}

// Refresh forgets the copies: the rows are the caller's memory.
func (l *learner) Refresh(first, rows int) error {
	if err := graph.CheckRefresh(l.kept.rows, first, rows); err != nil {
		return err
	}
	l.kept.index = l.kept.index[:0]
	return nil
}

// observations returns the observations of a batch that was checked.
func (l *learner) observations(b *nn.Batch) []byte {
	if b.Rows == nil {
		return b.Obs
	}
	k, size := &l.kept, l.graph.Spec.Obs.Bytes()
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
