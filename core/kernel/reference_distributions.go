package kernel

// The plain Go counterpart of distributions.h, operation by operation.

func refCategoricalMeans(means, logits []float32, s Support) {
	step := s.step()
	for i := range means {
		x := logits[i*s.Atoms : (i+1)*s.Atoms]
		top, sum, weighted := largest(x), 0.0, 0.0
		for k, v := range x {
			e := float64(exp32(v - top))
			sum += e
			weighted += float64(e * (s.Min + float64(float64(k)*step)))
		}
		means[i] = float32(weighted / sum)
	}
}

func refProject(targets, logits []float32, actions []int32, rewards, discounts []float32, width int, s Support) {
	step, last := s.step(), float64(s.Atoms-1)
	high := s.Min + float64(last*step)
	var e [MaxAtoms]float32
	for i, a := range actions {
		_, sum := exponentialsOfRow(e[:s.Atoms], logits[(i*width+int(a))*s.Atoms:][:s.Atoms], nil)
		to := targets[i*s.Atoms : (i+1)*s.Atoms]
		clear(to)
		for k := range to {
			z := float64(rewards[i]) + float64(float64(discounts[i])*(s.Min+float64(float64(k)*step)))
			if z < s.Min {
				z = s.Min
			} else if z > high {
				z = high
			}
			at := (z - s.Min) / step
			if !(at < last) {
				if at != at {
					to[k] = nan32
					continue
				}
				at = last
			}
			lower := min(int(at), s.Atoms-2)
			p, up := e[k]/sum, float32(at-float64(lower))
			to[lower] += float32(p * (1 - up))
			to[lower+1] += float32(p * up)
		}
	}
}

// weightOf returns the weight of row i.
func (b *DistributionBatch) weightOf(i int) float32 {
	if b.Weights == nil {
		return 1
	}
	return b.Weights[i]
}

func refCategoricalLoss(dx, perRow []float32, b *DistributionBatch, least float32, divergence bool, weight float32) (sum float64) {
	clear(dx[:len(b.Actions)*b.Width*b.Points])
	logLeast := log32(least)
	for i, a := range b.Actions {
		at := (i*b.Width + int(a)) * b.Points
		x, d, m := b.X[at:at+b.Points], dx[at:at+b.Points], b.Targets[i*b.Points:(i+1)*b.Points]
		top, total := exponentialsOfRow(d, x, nil)
		logTotal := log32(total)
		loss, mass, entropy := 0.0, 0.0, 0.0
		for k := range d {
			d[k] /= total
			logP := (x[k] - top) - logTotal
			if d[k] < least {
				logP = logLeast
			} else {
				mass += float64(m[k])
			}
			if !(m[k] < 0x1p-126) { // 0 log 0 is 0, and a denormal counts as 0: its log32 is -Inf
				loss -= float64(float64(m[k]) * float64(logP))
				if divergence {
					entropy -= float64(float64(m[k]) * float64(log32(m[k])))
				}
			}
		}
		if perRow != nil {
			perRow[i] = float32(loss - entropy)
		}
		w := b.weightOf(i)
		if w == 0 {
			clear(d)
			continue
		}
		by, active := float32(w*weight), float32(mass)
		for k, p := range d {
			slope := float32(p * active)
			if !(p < least) {
				slope -= m[k]
			}
			d[k] = by * slope
		}
		sum += float64(float64(w) * loss)
	}
	return sum * float64(weight)
}

func refQuantileLoss(dx, perRow []float32, b *DistributionBatch, kappa, weight float32) (sum float64) {
	n, goals := b.Points, b.goals()
	clear(dx[:len(b.Actions)*b.Width*n])
	for i, a := range b.Actions {
		w := b.weightOf(i)
		by := float32(w*weight) / float32(float32(goals)*kappa)
		row := 0.0
		for j := range n {
			at := (i*n+j)*b.Width + int(a)
			x, tau := b.X[at], (float32(j)+0.5)/float32(n)
			if b.Taus != nil {
				tau = b.Taus[i*n+j]
			}
			rest := 1 - tau
			var loss, slope float32
			for _, target := range b.Targets[i*goals : (i+1)*goals] {
				u := target - x
				side, c := tau, u
				if u < 0 {
					side = rest
				}
				if u > kappa {
					c = kappa
				} else if u < -kappa {
					c = -kappa
				}
				slope += float32(side * c)
				loss += float32(side * float32(c*(u-float32(0.5*c))))
			}
			if dx[at] = -float32(slope * by); w == 0 {
				dx[at] = 0
			}
			row += float64(loss)
		}
		row /= float64(goals) * float64(kappa)
		if perRow != nil {
			perRow[i] = float32(row)
		}
		if w != 0 {
			sum += float64(float64(w) * row)
		}
	}
	return sum * float64(weight)
}
