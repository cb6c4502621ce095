package kernel

import (
	"fmt"
	"math"

	same "github.com/paceline-rl/paceline/core/portable"
)

// Implicit quantile networks (Dabney et al. 2018) compute the quantile of a probability tau. A row
// has several taus. Each tau has cosines, from which a dense layer computes an embedding, and the
// features of the row are multiplied by the embedding of each of its taus.

// Cosines overwrites to, [len(taus), n], with cos(pi i tau) for i from 1 to n, as the code of
// DQN Zoo and of Dopamine has them: the paper's equation 4 also has i = 0, a second bias. The
// recurrence cos(i+1)x = 2 cos x cos ix - cos(i-1)x in float64 has an error of about i*i*1e-16. All
// processors have the same bits.
func Cosines(to, taus []float32, n int) {
	atLeast("to", len(to), len(taus)*n)
	for k, tau := range taus {
		row, cosine := to[k*n:(k+1)*n], same.CosPi(math.Abs(float64(tau)))
		before, at := 1.0, cosine // of 0 and 1
		for i := range row {
			row[i] = float32(at)
			before, at = at, float64(2*cosine*at)-before
		}
	}
}

// Modulate computes y[i, k] = x[i] * by[i, k], element by element, of n rows x of width numbers
// with times factors each. All paths give the same bits.
func Modulate(t *Team, y, x, by []float32, n, times, width int) {
	checkModulate(n, times, width)
	atLeast("y", len(y), n*times*width)
	atLeast("x", len(x), n*width)
	atLeast("by", len(by), n*times*width)
	current.Load().modulate(t, y, x, by, n, times, width)
}

// ModulateBackward overwrites dby and dx with the gradients of Modulate's inputs. dy is the
// gradient of y. The terms of dx are added in the order of the factors. All paths give the same
// bits.
func ModulateBackward(t *Team, dby, dx, x, by, dy []float32, n, times, width int) {
	checkModulate(n, times, width)
	atLeast("dby", len(dby), n*times*width)
	atLeast("dx", len(dx), n*width)
	atLeast("x", len(x), n*width)
	atLeast("by", len(by), n*times*width)
	atLeast("dy", len(dy), n*times*width)
	current.Load().modulateBackward(t, dby, dx, x, by, dy, n, times, width)
}

func checkModulate(n, times, width int) {
	if n < 1 || times < 1 || width < 1 {
		panic(fmt.Sprintf("kernel: %d rows of %d numbers with %d factors: every number must be at least 1", n, width, times))
	}
}

func refModulate(_ *Team, y, x, by []float32, n, times, width int) {
	for row := range n * times {
		own := x[row/times*width:][:width]
		for j, v := range own {
			y[row*width+j] = v * by[row*width+j]
		}
	}
}

func refModulateBackward(_ *Team, dby, dx, x, by, dy []float32, n, times, width int) {
	clear(dx[:n*width])
	for row := range n * times {
		own, to := x[row/times*width:][:width], dx[row/times*width:][:width]
		for j, v := range own {
			at := row*width + j
			to[j] += float32(dy[at] * by[at])
			dby[at] = dy[at] * v
		}
	}
}
