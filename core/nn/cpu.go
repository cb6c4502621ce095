package nn

import (
	"fmt"

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
	if n < 1 || n > threads.Max {
		return nil, fmt.Errorf("threads: %d, must be 1 to %d", n, threads.Max)
	}
	if n == 1 {
		return &cpu{}, nil
	}
	team, err := kernel.NewTeam(n, budget)
	return &cpu{team}, err
}

func (d *cpu) Params(l *Layout) *Params { return NewParams(l) }

func (d *cpu) Close() { d.team.Close() }

func (d *cpu) Network(s Spec, rows int) (Network, error) { return newNetwork(s, rows, d.team) }

func (d *cpu) Learner(s Spec, rows int, loss Loss) (Learner, error) {
	return newLearner(s, rows, loss, d.team)
}

func (d *cpu) Optimizer(c OptimizerConfig, size int) (Optimizer, error) {
	return newOptimizer(c, size, d.team)
}

func (d *cpu) Stepper(l Learner, o Optimizer, maxGradNorm float64) (Stepper, error) {
	return newStepper(l, o, maxGradNorm)
}

// Bytes adds up the same arrays that the ops of a graph make.
func (d *cpu) Bytes(s Spec, n Needs) (int64, error) {
	layout, err := s.Layout()
	if err != nil {
		return 0, err
	}
	floats := int64(n.Sets) * int64(layout.Size)
	for _, rows := range n.NetworkRows {
		if err := checkRows(rows); err != nil {
			return 0, err
		}
		floats += s.bufferFloats(rows, false, d.team)
	}
	for _, rows := range n.LearnerRows {
		if err := checkRows(rows); err != nil {
			return 0, err
		}
		floats += s.bufferFloats(rows, true, d.team)
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
	trunks, heads, _ := s.layers()
	precision, _ := s.Precision.kernels()
	scratch, converts := 0, false
	add := func(l *layer, first bool) {
		n := rows * l.out // y
		if l.conv != nil {
			n += l.conv.PackLen()
			scratch = max(scratch, l.conv.Workspace(rows, team))
		} else {
			scratch = max(scratch, l.dense(precision).Workspace(rows, team))
			converts = converts || first && s.Obs.DType == env.Uint8
		}
		if backward && !first {
			n += rows * l.in // dx
			if l.conv != nil {
				n += l.conv.PackBackLen()
			}
		}
		if backward && l.act == tanh {
			n += rows * l.out // dz
		}
		floats += int64(n)
	}
	users := make([]int, len(trunks))
	for i := range trunks {
		for k := range trunks[i] {
			add(&trunks[i][k], k == 0)
		}
	}
	for i := range heads {
		trunk := s.Heads[i].Trunk
		add(&heads[i], len(trunks[trunk]) == 0)
		if backward {
			floats += int64(rows * heads[i].out) // the loss's gradient
			if users[trunk]++; users[trunk] > 1 && len(trunks[trunk]) > 0 {
				floats += int64(rows * heads[i].in) // the sum with that of the heads before
			}
		}
	}
	if converts {
		floats += int64(rows * s.Obs.Len())
	}
	return floats + int64(scratch)
}
