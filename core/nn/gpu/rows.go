package gpu

import (
	"github.com/paceline-rl/paceline/core/cuda"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/graph"
)

// rowSet are the rows of the latest SetObs and their copy in GPU memory. A row of zeros precedes
// the copy: Batch.Rows calls it -1.
type rowSet struct {
	obs   []byte // the caller's
	rows  int
	at    uint64
	bytes int
}

// SetObs uploads the rows in one copy. The graphs of updates hold the address of the copy, so the
// address changes only if the rows do not fit. A copy that is too small is freed with the device.
func (l *learner) SetObs(obs []byte) error {
	rows, err := l.graph.CheckSetObs(obs)
	if err != nil {
		return err
	}
	l.obsRows.obs, l.obsRows.rows = obs, rows
	err = l.obsRows.reserve(l.gpu, l.graph.Spec.Obs.Bytes()+len(obs))
	if err == nil {
		err = l.upload(0, l.obsRows.rows)
	}
	if err != nil {
		l.obsRows.rows = 0
	}
	return err
}

// Refresh uploads the rows in one copy, or in two if they wrap.
func (l *learner) Refresh(first, rows int) error {
	if err := graph.CheckRefresh(l.obsRows.rows, first, rows); err != nil {
		return err
	}
	until := min(first+rows, l.obsRows.rows)
	err := l.upload(first, until)
	if err == nil {
		err = l.upload(0, first+rows-until)
	}
	if err != nil {
		l.obsRows.rows = 0
	}
	return err
}

// upload uploads rows from to until-1.
func (l *learner) upload(from, until int) error {
	size := l.graph.Spec.Obs.Bytes()
	return l.lanes.main.Upload(l.obsRows.at+uint64((1+from)*size), l.obsRows.obs[from*size:until*size])
}

func (k *rowSet) reserve(c *gpu, bytes int) error {
	if bytes <= k.bytes {
		return nil
	}
	at, err := c.memory(int64(bytes))
	if err == nil {
		k.at, k.bytes = at, bytes
	}
	return err
}

// rowsOf returns the address of the rows that Batch.Rows refers to; 0: the batch has Obs.
func (l *learner) rowsOf(b *nn.Batch) uint64 {
	if b.Rows == nil {
		return 0
	}
	return l.obsRows.at
}

// loadObs copies the observations of a batch, or its row numbers, to page-locked memory for the
// upload. The observations of OwnTransitions are in that memory already.
func (l *learner) loadObs(b *nn.Batch) {
	if b.Rows == nil {
		if own := l.obs.host(); &own[0] != &b.Obs[0] {
			copy(own, b.Obs)
		}
		return
	}
	index := view[int32](l.index)
	for i, row := range b.Rows {
		index[i] = row + 1 // row 0 is zeros
	}
}

// recordRows lists the kernel that gathers the observations of a batch with Rows.
func (l *learner) recordRows(key learningKey) error {
	if key.obsRows == 0 {
		return nil
	}
	rows, size := l.graph.Rows, l.graph.Spec.Obs.Bytes()
	args := cuda.PickArgs{Rows: int64(rows), Width: int64(size), Index: l.index.at(), From: key.obsRows, To: l.obs.at()}
	return enqueue(l.recorder, "pick", cuda.Pick(rows, size), args)
}

// recordBatch lists the kernels of a gradient.
func (l *learner) recordBatch(key learningKey) error {
	if err := l.recordRows(key); err != nil {
		return err
	}
	return l.record(key.params, key.masked)
}
