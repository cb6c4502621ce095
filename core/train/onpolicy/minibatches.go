package onpolicy

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rng"
)

// Minibatches are the steps of a Run's rollout in a shuffled order, cut into batches of a fixed
// number of rows, which refer to observations of the rollout (nn.Batch.Rows). An epoch is one pass
// over them. Each epoch has its own order: stream e of "minibatches" for the e-th epoch of the
// whole training.
type Minibatches struct {
	// Batch is the current minibatch. Rows after its last step have weight 0.
	Batch nn.Batch

	run    *Run
	row    []float32 // a row's columns
	weight int       // the column of weights
	order  []int32   // the rollout's steps in the order of an epoch
	of     epoch     // the epoch of order
}

// epoch names an epoch.
type epoch struct {
	seed   uint64
	number int64
	loads  int // checkpoints loaded before it
}

// MinibatchesBytes is the memory of NewMinibatches, and of a Stepper for the observations and row
// numbers of its batches.
func MinibatchesBytes(spec env.Spec, rows, columns, rolloutRows int) int64 {
	return int64(rows)*int64(spec.Obs.Bytes()+4+4+spec.Action.Bytes()+4*columns+spec.Action.Logits()) + 4*int64(rolloutRows)
}

// NewMinibatches returns batches of a number of rows and columns. Column weight is the row's
// weight.
func NewMinibatches(r *Run, spec env.Spec, rows, columns, weight int) *Minibatches {
	return &Minibatches{run: r, row: make([]float32, columns), weight: weight, Batch: NewBatch(spec, rows, columns)}
}

// NewBatch returns a batch of a number of rows and columns that refers to rows of a Run's rollout,
// with masks if spec has them.
func NewBatch(spec env.Spec, rows, columns int) nn.Batch {
	b := nn.Batch{Rows: make([]int32, rows), Actions: make([]int32, rows*spec.Action.Ints()), Continuous: make([]float32, rows*spec.Action.Floats()), Columns: make([][]float32, columns)}
	if spec.Masks {
		b.Masks = make([]byte, rows*spec.Action.Logits())
	}
	for c := range b.Columns {
		b.Columns[c] = make([]float32, rows)
	}
	return b
}

// PerEpoch is the largest number of minibatches of a size in an epoch.
func PerEpoch(rolloutRows, size int) int { return (rolloutRows + size - 1) / size }

// Begin begins the next epoch.
func (m *Minibatches) Begin() { m.run.Clock.Epochs++ }

// Rewind takes a Begin back, which comes again.
func (m *Minibatches) Rewind() { m.run.Clock.Epochs-- }

// Gather fills in Batch with minibatch k of the epoch, and reports whether it has a step. columns
// writes the columns of a row of the rollout, except its weight.
func (m *Minibatches) Gather(k int, columns func(row int, to []float32)) bool {
	m.shuffle()
	to, from := &m.Batch, m.run.Rollout.Batch()
	size := len(to.Rows)
	steps := m.order[min(k*size, len(m.order)):min((k+1)*size, len(m.order))]
	masks, ints, floats := len(to.Masks)/size, len(to.Actions)/size, len(to.Continuous)/size
	for i := range size {
		if i < len(steps) {
			row := int(steps[i])
			to.Rows[i] = steps[i]
			if masks > 0 {
				copy(to.Masks[i*masks:(i+1)*masks], from.Masks[row*masks:])
			}
			copy(to.Actions[i*ints:(i+1)*ints], from.Actions[row*ints:])
			copy(to.Continuous[i*floats:(i+1)*floats], from.Continuous[row*floats:])
			columns(row, m.row)
			m.row[m.weight] = 1
		} else {
			to.Rows[i] = -1
			clear(to.Actions[i*ints : (i+1)*ints])
			clear(to.Continuous[i*floats : (i+1)*floats])
			clear(m.row)
		}
		for c, v := range m.row {
			to.Columns[c][i] = v
		}
	}
	return len(steps) > 0
}

// shuffle fills in order for the current epoch, unless order is of that epoch.
func (m *Minibatches) shuffle() {
	now := epoch{m.run.Clock.Seed, m.run.Clock.Epochs, m.run.loads}
	if m.of == now {
		return
	}
	m.of, m.order = now, m.order[:0]
	for k, w := range m.run.Rollout.Batch().Weights {
		if w != 0 {
			m.order = append(m.order, int32(k))
		}
	}
	r := rng.New(now.seed, "minibatches", int(now.number))
	for k := len(m.order) - 1; k > 0; k-- {
		other := r.Intn(k + 1)
		m.order[k], m.order[other] = m.order[other], m.order[k]
	}
}

// CheckRows refuses a rollout with too many rows. name is what the number of environments is
// called.
func CheckRows(steps, envs int, name string) error {
	if most := nn.MaxRows / envs; steps > most {
		return fmt.Errorf("n_steps: %d, must be at most %d with %s %d: n_steps * %s rows are one rollout of up to %d", steps, most, name, envs, name, nn.MaxRows)
	}
	return nil
}

// CheckAdvantages refuses rollouts of one row whose advantages are normalised by themselves
// (alone). name is as for CheckRows.
func CheckAdvantages(steps, envs int, name string, alone bool) error {
	if alone && steps*envs == 1 {
		return fmt.Errorf("n_steps: 1, must be more with %s 1 and normalize_advantage: one advantage has no deviation", name)
	}
	return nil
}

// FitBatch reduces a batch_size to at most the rows of a rollout. It returns a notice if it did,
// and one if batch_size does not divide the rows. name is as for CheckRows.
func FitBatch(size *int, rows int, name string) (notices []string) {
	if *size > rows {
		notices = append(notices, fmt.Sprintf("batch_size: %d is more than n_steps * %s; minibatches are whole rollouts of %d steps", *size, name, rows))
		*size = rows
	}
	if left := rows % *size; left != 0 {
		notices = append(notices, fmt.Sprintf("batch_size: %d does not divide n_steps * %s (%d); every epoch ends with a minibatch of %d steps", *size, name, rows, left))
	}
	return notices
}
