package nn

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/paceline-rl/paceline/core/env"
)

// kept are the observations of which batches name rows: Learner.Keep's.
type kept struct {
	obs    []byte // the caller's
	rows   int
	picked []byte  // those of a batch, copied together
	index  []int32 // the numbers of these; none: the rows may have changed
}

// Keep remembers where the rows are: a gradient copies those of its batch together.
func (l *learner) Keep(obs []byte) error {
	if err := l.keep(obs); err != nil {
		return err
	}
	if l.kept.picked == nil {
		n := l.graph.capacity
		l.kept.picked, l.kept.index = make([]byte, n*l.graph.spec.Obs.Bytes()), make([]int32, 0, n)
	}
	l.kept.index = l.kept.index[:0]
	return nil
}

// Refresh finds the rows where they were.
func (l *learner) Refresh(first, rows int) error {
	if err := l.checkRefresh(first, rows); err != nil {
		return err
	}
	l.kept.index = l.kept.index[:0]
	return nil
}

// keep checks the rows of a Keep and remembers where they are.
func (l *learner) keep(obs []byte) error {
	size, most := l.graph.spec.Obs.Bytes(), 1<<31-2
	if len(obs) == 0 || len(obs)%size != 0 || len(obs)/size > most {
		return fmt.Errorf("keep: %d bytes, must be 1 to %d rows of %d bytes", len(obs), most, size)
	}
	if l.graph.spec.Obs.DType == env.Float32 && uintptr(unsafe.Pointer(&obs[0]))%4 != 0 {
		return fmt.Errorf("keep: address %p, must be a multiple of 4", &obs[0])
	}
	l.kept.obs, l.kept.rows = obs, len(obs)/size
	return nil
}

// checkRefresh checks the rows of a Refresh.
func (l *learner) checkRefresh(first, rows int) error {
	switch n := l.kept.rows; {
	case n == 0:
		return fmt.Errorf("refresh: %d rows, must follow a Keep", rows)
	case first < 0 || first >= n:
		return fmt.Errorf("refresh: first row %d, must be 0 to %d", first, n-1)
	case rows < 1 || rows > n:
		return fmt.Errorf("refresh: %d rows, must be 1 to %d", rows, n)
	}
	return nil
}

// checkObs checks a batch's observations, or the rows that it names.
func (l *learner) checkObs(b *Batch) error {
	n := l.graph.capacity
	switch {
	case b.Rows == nil:
		return l.graph.spec.checkObs("batch.obs", b.Obs, n)
	case b.Obs != nil:
		return fmt.Errorf("batch.obs: %d bytes, must be nil with batch.rows", len(b.Obs))
	case len(b.Rows) != n:
		return fmt.Errorf("batch.rows: %d, must be %d", len(b.Rows), n)
	case l.kept.rows == 0:
		return fmt.Errorf("batch.rows: %d, must be nil: nothing was given to Keep", len(b.Rows))
	}
	for i, row := range b.Rows {
		if row < -1 || int(row) >= l.kept.rows {
			return fmt.Errorf("batch.rows[%d]: %d, must be -1 or a row that was given to Keep: 0 to %d", i, row, l.kept.rows-1)
		}
	}
	return nil
}

// observations are those of a batch that was checked.
func (l *learner) observations(b *Batch) []byte {
	if b.Rows == nil {
		return b.Obs
	}
	k, size := &l.kept, l.graph.spec.Obs.Bytes()
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
