package gpu

import (
	"github.com/paceline-rl/paceline/core/cuda"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/graph"
)

// keptRows are the rows of the latest Keep, and their copy in the GPU's memory. A row of zeros lies
// before the others: batches name it -1.
type keptRows struct {
	obs   []byte // the caller's
	rows  int
	at    uint64
	bytes int
}

// Keep uploads the rows, in one copy. The graphs of updates hold its address: it stays as long
// as the rows fit, and a copy that has become too small is freed with the device.
func (l *gpuLearner) Keep(obs []byte) error {
	rows, err := l.graph.CheckKeep(obs)
	if err != nil {
		return err
	}
	l.kept.obs, l.kept.rows = obs, rows
	err = l.kept.reserve(l.card, l.graph.Spec.Obs.Bytes()+len(obs))
	if err == nil {
		err = l.upload(0, l.kept.rows)
	}
	if err != nil {
		l.kept.rows = 0
	}
	return err
}

// Refresh uploads so many rows again, in one copy, or in two where it goes on at row 0.
func (l *gpuLearner) Refresh(first, rows int) error {
	if err := graph.CheckRefresh(l.kept.rows, first, rows); err != nil {
		return err
	}
	until := min(first+rows, l.kept.rows)
	err := l.upload(first, until)
	if err == nil {
		err = l.upload(0, first+rows-until)
	}
	if err != nil {
		l.kept.rows = 0
	}
	return err
}

// upload uploads the rows that were kept from one number until another.
func (l *gpuLearner) upload(from, until int) error {
	size := l.graph.Spec.Obs.Bytes()
	return l.lanes.main.Upload(l.kept.at+uint64((1+from)*size), l.kept.obs[from*size:until*size])
}

func (k *keptRows) reserve(c *card, bytes int) error {
	if bytes <= k.bytes {
		return nil
	}
	at, err := c.memory(int64(bytes))
	if err == nil {
		k.at, k.bytes = at, bytes
	}
	return err
}

// keptFor returns where the rows lie that a batch names; 0: it has observations of its own.
func (l *gpuLearner) keptFor(b *nn.Batch) uint64 {
	if b.Rows == nil {
		return 0
	}
	return l.kept.at
}

// loadObs copies a batch's observations, or the numbers of its rows, to where the GPU fetches them.
func (l *gpuLearner) loadObs(b *nn.Batch) {
	if b.Rows == nil {
		if there := l.obs.host(); &there[0] != &b.Obs[0] { // OwnTransitions is there
			copy(there, b.Obs)
		}
		return
	}
	index := view[int32](l.index)
	for i, row := range b.Rows {
		index[i] = row + 1 // behind the row of zeros
	}
}

// recordRows lists the kernel that copies a batch's rows together, where it names them.
func (l *gpuLearner) recordRows(key learningKey) error {
	if key.kept == 0 {
		return nil
	}
	rows, size := l.graph.Rows, l.graph.Spec.Obs.Bytes()
	args := cuda.PickArgs{Rows: int64(rows), Width: int64(size), Index: l.index.at(), From: key.kept, To: l.obs.at()}
	return enqueue(l.on, "pick", cuda.Pick(rows, size), args)
}

// recordBatch lists the kernels of a gradient.
func (l *gpuLearner) recordBatch(key learningKey) error {
	if err := l.recordRows(key); err != nil {
		return err
	}
	return l.record(key.params, key.masked)
}
