package rollout

import "math"

// Moments describe the values of the rows of weight 1. Sums are float64, in the order of the rows.
type Moments struct {
	N       float64 // rows
	Mean    float64 // 0 without rows
	Squares float64 // sum of squared distances from the mean
}

// MomentsOf returns the moments of values. Both slices have the same length.
func MomentsOf(values, weights []float32) (m Moments) {
	sum := 0.0
	for k, v := range values {
		if weights[k] != 0 {
			m.N++
			sum += float64(v)
		}
	}
	if m.N == 0 {
		return m
	}
	m.Mean = sum / m.N
	for k, v := range values {
		if weights[k] != 0 {
			d := float64(v) - m.Mean
			m.Squares += float64(d * d)
		}
	}
	return m
}

// Plus returns the moments of the rows of both (Chan et al. 1979, "Updating Formulae and a Pairwise
// Algorithm for Computing Sample Variances").
func (m Moments) Plus(o Moments) Moments {
	switch {
	case o.N == 0:
		return m
	case m.N == 0:
		return o
	}
	n, d := m.N+o.N, o.Mean-m.Mean
	share := o.N / n
	between := float64(float64(d*d) * float64(m.N*share))
	return Moments{n, m.Mean + float64(d*share), m.Squares + o.Squares + between}
}

// Finite reports whether the moments are finite.
func (m Moments) Finite() bool {
	return m.Mean-m.Mean == 0 && m.Squares-m.Squares == 0
}

// Normalize shifts and scales the advantages of weight 1 as advantages with these moments become
// ones of mean 0 and standard deviation 1, as Stable-Baselines3's A2C does: (a - mean) / (std +
// 1e-8), with the unbiased standard deviation (PyTorch's std). It ignores rows of weight 0 and does
// nothing if fewer than two rows have weight 1. Both slices have the same length.
func (m Moments) Normalize(advantages, weights []float32) {
	if m.N < 2 {
		return
	}
	scale := math.Sqrt(m.Squares/(m.N-1)) + 1e-8
	for k, a := range advantages {
		if weights[k] != 0 {
			advantages[k] = float32((float64(a) - m.Mean) / scale)
		}
	}
}
