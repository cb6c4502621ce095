package nn

import (
	"slices"
	"time"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/threads"
)

// cpu is the Device that computes with core/kernel.
type cpu struct {
	team *kernel.Team // nil: the calling goroutine alone
}

// NewCPU returns a device of the given number of threads, 1 to threads.Max: the
// calling goroutine and helpers, which share the work of each call. With a budget,
// whoever calls holds one of its cores, and helpers come only as far as further
// ones are free.
//
// A device of several threads does one call at a time: all that it made belongs to
// one goroutine at a time. Of a device of one thread, which has no helpers, each
// Network, Learner and Optimizer is a matter of its own. The number of threads
// changes the time taken and no bit of a result.
func NewCPU(n int, budget *threads.Budget) (Device, error) {
	if n == 1 {
		return &cpu{}, nil
	}
	team, err := kernel.NewTeam(n, budget)
	return &cpu{team}, err
}

func (d *cpu) Name() string { return "cpu" }

func (d *cpu) Another(n int, budget *threads.Budget) (Device, error) { return NewCPU(n, budget) }

func (d *cpu) Average(to, from *Params, weight float64) {
	if len(to.host) != len(from.host) {
		panic("nn: Average between different layouts")
	}
	kernel.Average(d.team, to.Host(), from.Host(), weight)
	to.Updates = from.Updates
	to.Wrote()
}

func (d *cpu) Busy() time.Duration { return d.team.Busy() }

func (d *cpu) Lost() error { return nil }

func (d *cpu) Close() { d.team.Close() }

// Bytes adds up the same arrays that the ops of a graph make.
func (d *cpu) Bytes(s Spec, n Needs) (int64, error) {
	layout, err := s.Layout()
	if err != nil {
		return 0, err
	}
	floats := int64(n.Sets) * int64(layout.Size)
	for i, rows := range slices.Concat(n.NetworkRows, n.LearnerRows) {
		if err := checkRows(rows); err != nil {
			return 0, err
		}
		floats += s.bufferFloats(rows, i >= len(n.NetworkRows), d.team)
	}
	if n.Optimizer.Name != "" {
		c := n.Optimizer
		names, err := c.resolve()
		if err != nil {
			return 0, err
		}
		floats += int64(len(names)) * int64(layout.Size)
	}
	return 4 * floats, nil
}

// bufferFloats are those of a graph: outputs, gradients between layers, packed
// weights and scratch. s is a network that Layout accepts.
func (s *Spec) bufferFloats(rows int, backward bool, team *kernel.Team) (floats int64) {
	layers, _ := s.layers()
	scratch, converts := 0, false
	users := make([]int, len(layers)) // of a layer's output
	for i := range layers {
		l := &layers[i]
		scratch = max(scratch, l.workspace(rows, team))
		n := rows * l.out // y
		if l.conv != nil {
			n += l.conv.PackLen()
		} else if l.packs() && !backward {
			n += l.in * l.out
		}
		if l.norm != nil && backward {
			n += 2 * rows * l.norm.Groups() // statistics
		}
		if l.from < 0 {
			converts = converts || l.conv == nil && s.Obs.DType == env.Uint8
		} else if backward {
			n += rows * l.in // dx
			if l.conv != nil {
				n += l.conv.PackBackLen()
			}
			if users[l.from]++; users[l.from] > 1 {
				n += rows * l.in // the sum with that of the users before
			}
		}
		if backward && (l.act == tanh || l.head) {
			n += rows * l.out // dz, or the loss's gradient
		}
		floats += int64(n)
	}
	if converts {
		floats += int64(rows * s.Obs.Len())
	}
	return floats + int64(scratch)
}
