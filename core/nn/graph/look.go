package graph

import (
	"github.com/paceline-rl/paceline/core/nn"
)

// Look sets alive[unit], [l.Units()], for every unit that is above 0 anywhere in y, the outputs of
// a layer for some rows. planar says that y has the layout [unit, position]; otherwise it is
// [position, unit]. Look stops reading a unit at its first output above 0, so only dead units take
// long.
func Look(alive []bool, l *nn.Layer, y []float32, rows int, planar bool) {
	rows = l.Rows(rows)
	positions := 1 // of a unit in a row
	switch {
	case l.Conv != nil:
		positions = l.Conv.OutH() * l.Conv.OutW()
	case l.Norm != nil:
		positions = l.Norm.Positions
	}
	stride, next := len(alive), 1 // from one position to the next, and from one unit to the next
	if planar {
		stride, next = 1, positions
	}
	for unit := range alive {
		for at := unit * next; !alive[unit] && at < rows*l.Out; at += l.Out {
			for k := range positions {
				if y[at+k*stride] > 0 {
					alive[unit] = true
					break
				}
			}
		}
	}
}

// Constant reports whether all rows of outputs are the same, to within a millionth of the largest
// output.
func Constant(y []float32, width int) bool {
	largest, spread := float32(0), float32(0)
	for i, v := range y {
		largest = max(largest, v, -v)
		d := v - y[i%width]
		spread = max(spread, d, -d)
	}
	return spread <= 1e-6*largest
}
