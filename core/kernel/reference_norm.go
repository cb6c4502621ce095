package kernel

// The plain Go counterpart of norm.h, operation by operation, for the same bits on every path.

// group is one group of a row. It maps numbers of the group to indices.
type group struct {
	c        *Norm
	position int // of a group of channels
}

// at returns the index in a row of number k of the group, and the index of its parameter in scale.
// The numbers of a whole row are counted in memory order.
func (g group) at(k int) (number, param int) {
	c := g.c
	switch {
	case c.All && c.Planar:
		return k, k
	case c.All:
		return k, k%c.Channels*c.Positions + k/c.Channels
	case c.Planar:
		return k*c.Positions + g.position, k
	default:
		return g.position*c.Channels + k, k
	}
}

// mean returns the mean of f(0) to f(n-1), added in 16 interleaved sums.
func mean(n int, f func(k int) float32) float32 {
	var s [16]float32
	for k := range n {
		s[k%16] += f(k)
	}
	for half := 8; half > 0; half /= 2 {
		for j := range half {
			s[j] += s[j+half]
		}
	}
	return s[0] / float32(n)
}

func refNormForward(_ *Team, y, statistics, x, scale, bias []float32, n int, c *Norm, _ []float32) {
	row, length := c.RowLen(), c.ParamLen()
	for i := range n {
		x, y := x[i*row:][:row], y[i*row:][:row]
		for position := range c.Groups() {
			g := group{c, position}
			center := mean(length, func(k int) float32 { j, _ := g.at(k); return x[j] })
			variance := mean(length, func(k int) float32 {
				j, _ := g.at(k)
				d := x[j] - center
				return float32(d * d)
			})
			invStd := 1 / sqrt32(variance+c.Eps)
			if statistics != nil {
				statistics[2*(i*c.Groups()+position)], statistics[2*(i*c.Groups()+position)+1] = center, invStd
			}
			for k := range length {
				j, p := g.at(k)
				v := float32(float32((x[j]-center)*invStd)*scale[p]) + bias[p]
				if c.ReLU && v < 0 {
					v = 0
				}
				y[j] = v
			}
		}
	}
}

func refNormBackward(_ *Team, dscale, dbias, dx, statistics, x, y, dy, scale []float32, n int, c *Norm, ws []float32) {
	row, length := c.RowLen(), c.ParamLen()
	clear(dscale[:length])
	clear(dbias[:length])
	ofScale, ofBias := ws[:length], ws[length:2*length] // sums of one block of rows
	for block := 0; block < n; block += normBlock {
		clear(ofScale)
		clear(ofBias)
		for i := block; i < min(n, block+normBlock); i++ {
			x, dy, dx := x[i*row:][:row], dy[i*row:][:row], dx[i*row:][:row]
			for position := range c.Groups() {
				g := group{c, position}
				center, invStd := statistics[2*(i*c.Groups()+position)], statistics[2*(i*c.Groups()+position)+1]
				hat := func(j int) float32 { return (x[j] - center) * invStd }
				through := func(j int) float32 {
					if c.ReLU && !(y[i*row+j] > 0) {
						return 0
					}
					return dy[j]
				}
				for k := range length {
					j, p := g.at(k)
					ofBias[p] += through(j)
					ofScale[p] += float32(through(j) * hat(j))
				}
				ofG := mean(length, func(k int) float32 { j, p := g.at(k); return float32(through(j) * scale[p]) })
				ofGH := mean(length, func(k int) float32 {
					j, p := g.at(k)
					return float32(float32(through(j)*scale[p]) * hat(j))
				})
				for k := range length {
					j, p := g.at(k)
					dx[j] = invStd * ((float32(through(j)*scale[p]) - ofG) - float32(hat(j)*ofGH))
				}
			}
		}
		for p := range length {
			dscale[p] += ofScale[p]
			dbias[p] += ofBias[p]
		}
	}
}
