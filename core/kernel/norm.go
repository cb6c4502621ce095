package kernel

import "fmt"

// Norm is layer normalisation (Ba et al. 2016), optionally followed by a ReLU. A row has
// Channels*Positions numbers; a row of a dense layer has one position. Both numbers are at least 1,
// Eps is above 0.
type Norm struct {
	Channels, Positions int
	// Rows are [channel, position] if Planar, [position, channel] otherwise.
	Planar bool
	// All normalises over a whole row, as PyTorch's LayerNorm([C, H, W]) does; otherwise each
	// position is normalised over its channels, as flax's LayerNorm does.
	All  bool
	Eps  float32 // added to the variance
	ReLU bool
}

// RowLen returns the length of a row.
func (c *Norm) RowLen() int { return c.Channels * c.Positions }

// Groups returns the number of groups of a row. Each group is normalised separately.
func (c *Norm) Groups() int {
	if c.All {
		return 1
	}
	return c.Positions
}

// ParamLen returns the number of scales, which is also the number of biases: one for each number of
// a group.
func (c *Norm) ParamLen() int { return c.RowLen() / c.Groups() }

// NormForward computes y = (x - mean)/sqrt(variance + Eps)*scale + bias on n rows x [n, RowLen],
// then max(0, y) if c.ReLU is set. The mean and the biased variance are those of each group. scale
// and bias are [Channels]; if c.All is set, [Channels, Positions] in either layout of the rows.
// statistics [n, Groups, 2], which may be nil, is overwritten with each group's mean and
// 1/sqrt(variance + Eps), for NormBackward. ws is c.Workspace(n, t) floats of scratch. All paths
// give the same bits.
func NormForward(t *Team, y, statistics, x, scale, bias []float32, n int, c *Norm, ws []float32) {
	c.check(t, n, ws)
	atLeast("y", len(y), n*c.RowLen())
	if statistics != nil {
		atLeast("statistics", len(statistics), 2*n*c.Groups())
	}
	atLeast("x", len(x), n*c.RowLen())
	atLeast("scale", len(scale), c.ParamLen())
	atLeast("bias", len(bias), c.ParamLen())
	current.Load().normForward(t, y, statistics, x, scale, bias, n, c, ws)
}

// NormBackward overwrites dscale and dbias, which have the shape of scale, with the gradients
// summed over n rows, and dx [n, RowLen] with the gradient of the input. x is the input, y the
// output and statistics the statistics of the forward pass; y is read only if c.ReLU is set. dy is
// the gradient of y, ws c.Workspace(n, t) floats of scratch. Each block of 8 rows has its own sums,
// which are added in order. All paths give the same bits.
func NormBackward(t *Team, dscale, dbias, dx, statistics, x, y, dy, scale []float32, n int, c *Norm, ws []float32) {
	c.check(t, n, ws)
	atLeast("dscale", len(dscale), c.ParamLen())
	atLeast("dbias", len(dbias), c.ParamLen())
	atLeast("dx", len(dx), n*c.RowLen())
	atLeast("statistics", len(statistics), 2*n*c.Groups())
	atLeast("x", len(x), n*c.RowLen())
	if c.ReLU {
		atLeast("y", len(y), n*c.RowLen())
	}
	atLeast("dy", len(dy), n*c.RowLen())
	atLeast("scale", len(scale), c.ParamLen())
	current.Load().normBackward(t, dscale, dbias, dx, statistics, x, y, dy, scale, n, c, ws)
}

func (c *Norm) check(t *Team, n int, ws []float32) {
	if n < 1 || c.Channels < 1 || c.Positions < 1 || !(c.Eps > 0) {
		panic(fmt.Sprintf("kernel: normalisation %+v of %d rows: every number must be at least 1, and eps above 0", *c, n))
	}
	atLeast("ws", len(ws), c.Workspace(n, t))
}
