package nn

import "github.com/paceline-rl/paceline/core/cuda"

// gpuKept is a copy of what Keep was given, in the GPU's memory. A row of zeros lies before the
// others, which batches with rows of number -1 have.
type gpuKept struct {
	at    uint64
	bytes int
}

// Keep uploads the rows, in one copy. The graphs of updates hold its address: it stays as long
// as the rows fit, and a copy that has become too small is freed with the device.
func (l *gpuLearner) Keep(obs []byte) error {
	if err := l.learner.keep(obs); err != nil {
		return err
	}
	size := l.graph.spec.Obs.Bytes()
	err := l.there.reserve(l.card, size+len(obs))
	if err == nil {
		err = l.lanes.main.Upload(l.there.at+uint64(size), obs)
	}
	if err != nil {
		l.kept.rows = 0
	}
	return err
}

func (k *gpuKept) reserve(c *card, bytes int) error {
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
func (l *gpuLearner) keptFor(b *Batch) uint64 {
	if b.Rows == nil {
		return 0
	}
	return l.there.at
}

// loadObs copies a batch's observations, or the numbers of its rows, to where the GPU fetches them.
func (l *gpuLearner) loadObs(b *Batch) {
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

// recordBatch lists the kernels of a gradient, behind the one that copies a batch's rows together
// where it names them.
func (l *gpuLearner) recordBatch(key learningKey) error {
	if key.kept != 0 {
		rows, size := l.graph.capacity, l.graph.spec.Obs.Bytes()
		args := cuda.PickArgs{Rows: int64(rows), Width: int64(size), Index: l.index.at(), From: key.kept, To: l.obs.at()}
		if err := enqueue(l.on, "pick", cuda.Pick(rows, size), args); err != nil {
			return err
		}
	}
	return l.record(key.params, key.masked)
}
