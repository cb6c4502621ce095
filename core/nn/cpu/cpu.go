// Package cpu is the device that computes networks with core/kernel.
//
// A machine runs the ops of a graph (nn/graph) on the caller's goroutine. It does not allocate, and
// it turns the panic of an op into an error. Parameters, minibatches and observations are not
// copied: a run points the leaves of the graph at the caller's slices, and clears the leaves when
// it ends.
package cpu

import (
	"math"
	"slices"
	"time"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/threads"
)

// device is the nn.Device.
type device struct {
	team *kernel.Team // nil: the calling goroutine alone
}

// New returns a device of n threads, 1 to threads.Max: the calling goroutine and n-1 helpers, which
// share the work of each call. With a budget, the caller holds one of its cores, and a helper
// computes only while a further core is free.
//
// A device of several threads does one call at a time, so one goroutine at a time may use the
// objects that it made. A device of one thread has no helpers, and each of its objects may belong
// to another goroutine. The number of threads does not change a bit of a result.
func New(n int, budget *threads.Budget) (nn.Device, error) {
	if n == 1 {
		return &device{}, nil
	}
	team, err := kernel.NewTeam(n, budget)
	return &device{team}, err
}

func (d *device) Name() string { return "cpu" }

func (d *device) Another(n int, budget *threads.Budget) (nn.Device, error) { return New(n, budget) }

func (d *device) ClipGradNorm(grad []float32, max float64) (norm float64, factor float32) {
	norm = math.Sqrt(kernel.SumSquares(d.team, grad))
	return norm, nn.ClipFactor(norm, max)
}

func (d *device) Average(to, from *nn.Params, weight float64) {
	if len(to.Raw()) != len(from.Raw()) {
		panic("nn: Average between different layouts")
	}
	kernel.Average(d.team, to.Host(), from.Host(), weight)
	to.Updates = from.Updates
	to.Wrote()
}

func (d *device) Busy() time.Duration { return d.team.Busy() }

func (d *device) Lost() error { return nil }

func (d *device) Close() { d.team.Close() }

// Bytes adds up the arrays that the ops of a graph allocate.
func (d *device) Bytes(s nn.Spec, n nn.Needs) (int64, error) {
	layout, err := s.Layout()
	if err != nil {
		return 0, err
	}
	layers, err := checkLayers(&s)
	if err != nil {
		return 0, err
	}
	floats := int64(n.Sets) * int64(layout.Size)
	for i, rows := range slices.Concat(n.NetworkRows, n.LearnerRows) {
		if err := nn.CheckRows(rows); err != nil {
			return 0, err
		}
		floats += bufferFloats(&s, layers, rows, i >= len(n.NetworkRows), d.team)
	}
	if n.Optimizer.Name != "" {
		c := n.Optimizer
		names, err := c.Complete()
		if err != nil {
			return 0, err
		}
		floats += int64(len(names)) * int64(layout.Size)
	}
	return 4 * floats, nil
}

// bufferFloats returns the size of a graph's buffers in floats: outputs, gradients between layers,
// packed weights, padded images and scratch.
func bufferFloats(s *nn.Spec, layers []layer, rows int, backward bool, team *kernel.Team) (floats int64) {
	scratch, padded, dPadded, converts, rescales := 0, 0, 0, false, false
	users := make([]int, len(layers)) // of a layer's output
	for i := range layers {
		l := &layers[i]
		rows := l.Rows(rows)
		scratch = max(scratch, l.workspace(rows, team))
		if l.pad != nil {
			padded = max(padded, l.pad.floats(rows, l.From < 0 && s.Obs.DType == env.Uint8))
			if backward && l.From >= 0 {
				dPadded = max(dPadded, l.pad.floats(rows, false))
			}
		}
		n := rows * l.Out // y
		if l.conv != nil {
			n += l.conv.PackLen()
		} else if l.packs() && !backward {
			n += l.In * l.Out
		}
		if l.norm != nil && backward {
			n += 2 * rows * l.norm.Groups() // statistics
		}
		if l.Cosines {
			n += rows*l.In + rows*l.Out // cosines, and the product with the features
			if backward {
				n += rows*l.Out + rows/l.Taus*l.Out // the gradients of both factors
			}
		} else if l.From < 0 {
			converts = converts || l.conv == nil && s.Obs.DType == env.Uint8
		} else if backward {
			n += rows * l.In // dx
			if l.conv != nil {
				n += l.conv.PackBackLen()
			}
			if users[l.From]++; users[l.From] > 1 {
				n += rows * l.In // the sum with the gradients of the users before
			}
		}
		if backward && l.Rescaled && !rescales {
			n += rows * l.In // for both streams
			rescales = true
		}
		if backward && (l.Activation == nn.Tanh || l.Head) {
			n += rows * l.Out // dz, or the loss's gradient
		}
		floats += int64(n)
	}
	for i := range s.Heads {
		if h := &s.Heads[i]; h.Points() > 1 {
			floats += int64(rows * h.Out) // the means
		}
		if h := &s.Heads[i]; h.Dueling {
			floats += int64(rows * h.Width()) // both streams together
			if backward {
				floats += int64(rows * h.Width()) // and their gradient
			}
		}
	}
	if converts {
		floats += int64(rows * s.Obs.Len())
	}
	return floats + int64(scratch) + int64(padded) + int64(dPadded)
}

// noBackup is the nn.Backup of a device that computes in host memory.
type noBackup struct{}

func (d *device) Backup([]*nn.Params, nn.Optimizer) (nn.Backup, error) { return noBackup{}, nil }

func (noBackup) Make() (k int, err error)  { return 0, nil }
func (noBackup) Poll()                     {}
func (noBackup) Restore() (k int, ok bool) { return 0, false }
