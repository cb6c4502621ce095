// Package normalize scales observations and rewards by running statistics, with the formulas of
// stable-baselines3's VecNormalize.
//
//   - A component x of an observation becomes (x - mean) / sqrt(variance + 1e-8), clipped to -10 to
//     10. Mean and variance are those of all observations so far.
//   - A reward r becomes r / sqrt(variance + 1e-8), clipped likewise. The variance is that of all
//     discounted returns so far. The discounted return of an environment after a step with reward r
//     is R = gamma R + r, and 0 when an episode begins.
//   - Statistics begin with mean 0 and variance 1, which count as 1e-4 of an observation.
//
// Statistics are float64, and a function of the rows in the order in which the caller adds them.
// Runs add rows in the order of the environments, so that no bit depends on threads.
package normalize

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Constants of VecNormalize.
const (
	clip       = 10
	epsilon    = 1e-8
	firstCount = 1e-4
)

// Moments are the running mean and variance of each number of a row. A row of bytes has float32
// numbers in the machine's byte order. Refresh must follow the rows that are added, and precede the
// next call of Scale or ScaleReward.
type Moments struct {
	Mean  []float64 `json:"mean"`
	Var   []float64 `json:"var"`
	Count float64   `json:"count"` // of rows, with the first statistics' part of one

	deviations []float64 // sqrt(Var + epsilon)
	since      *Moments  // gets every row, too; nil: see Share
}

// NewMoments returns the first statistics of rows of n numbers.
func NewMoments(n int) *Moments {
	m := &Moments{Mean: make([]float64, n), Var: make([]float64, n), Count: firstCount}
	for k := range m.Var {
		m.Var[k] = 1
	}
	m.Refresh()
	return m
}

// Bytes is the memory of NewMoments.
func Bytes(n int) int64 { return 3 * 8 * int64(n) }

// Clone returns a copy, nil of nil.
func (m *Moments) Clone() *Moments {
	if m == nil {
		return nil
	}
	return &Moments{slices.Clone(m.Mean), slices.Clone(m.Var), m.Count, slices.Clone(m.deviations), nil}
}

// Copy overwrites m, which has rows of as many numbers.
func (m *Moments) Copy(from *Moments) {
	copy(m.Mean, from.Mean)
	copy(m.Var, from.Var)
	m.Count = from.Count
	m.Refresh()
}

// Refresh computes the deviations by which Scale divides.
func (m *Moments) Refresh() {
	if len(m.deviations) != len(m.Var) {
		m.deviations = make([]float64, len(m.Var))
	}
	for k, v := range m.Var {
		m.deviations[k] = math.Sqrt(v + epsilon)
	}
}

// AddRow adds a row. Adding rows one after the other gives VecNormalize's update with a batch of
// them, up to rounding.
func (m *Moments) AddRow(row []byte) {
	old, part := m.count()
	for k := range m.Mean {
		m.add(k, float64(number(row, k)), old, part)
	}
	if m.since != nil {
		m.since.AddRow(row)
	}
}

// Add adds a row of one number.
func (m *Moments) Add(x float64) {
	old, part := m.count()
	m.add(0, x, old, part)
	if m.since != nil {
		m.since.Add(x)
	}
}

// count counts a row. It returns the parts of the older rows and of the new one.
func (m *Moments) count() (old, part float64) {
	total := m.Count + 1
	old, part = m.Count/total, 1/total
	m.Count = total
	return old, part
}

func (m *Moments) add(k int, x, old, part float64) {
	d := x - m.Mean[k]
	m.Mean[k] += float64(d * part)
	m.Var[k] = old * (m.Var[k] + float64(float64(d*d)*part))
}

// Scale normalises a row. to may be row.
func (m *Moments) Scale(to, row []byte) {
	for k, mean := range m.Mean {
		x := (float64(number(row, k)) - mean) / m.deviations[k]
		binary.NativeEndian.PutUint32(to[4*k:], math.Float32bits(clipped(x)))
	}
}

// ScaleReward normalises a reward by the moments of discounted returns.
func (m *Moments) ScaleReward(reward float32) float32 {
	return clipped(float64(reward) / m.deviations[0])
}

func clipped(x float64) float32 { return float32(max(-clip, min(clip, x))) }

func number(row []byte, k int) float32 {
	return math.Float32frombits(binary.NativeEndian.Uint32(row[4*k:]))
}

// check refuses statistics that no run has, so that numbers computed from m are finite. least is
// the least count.
func (m *Moments) check(n int, least float64) error {
	const mostMean, mostVar, mostCount = 1e60, 1e120, 1e18
	if len(m.Mean) != n || len(m.Var) != n {
		return fmt.Errorf("%d means and %d variances, must be %d", len(m.Mean), len(m.Var), n)
	}
	for k, v := range m.Var {
		if !(v >= 0 && v <= mostVar && math.Abs(m.Mean[k]) <= mostMean) {
			return fmt.Errorf("mean %v, variance %v", m.Mean[k], v)
		}
	}
	if !(m.Count >= least && m.Count <= mostCount) {
		return fmt.Errorf("count %v", m.Count)
	}
	return nil
}

// Normalizer is what a run normalises, and its statistics.
type Normalizer struct {
	Obs     *Moments // nil: the network gets observations as they are
	Returns *Moments // of discounted returns; nil: rewards stay as they are
	Gamma   float64  // discounts the returns
}

// New returns a Normalizer of observations of n numbers, if obs says so, and of rewards, if rewards
// says so; nil if neither does.
func New(n int, obs, rewards bool, gamma float64) *Normalizer {
	if !obs && !rewards {
		return nil
	}
	z := &Normalizer{Gamma: gamma}
	if obs {
		z.Obs = NewMoments(n)
	}
	if rewards {
		z.Returns = NewMoments(1)
	}
	return z
}

// Clone returns a copy, nil of nil.
func (z *Normalizer) Clone() *Normalizer {
	if z == nil {
		return nil
	}
	return &Normalizer{z.Obs.Clone(), z.Returns.Clone(), z.Gamma}
}

// Copy overwrites the statistics by those of a Clone.
func (z *Normalizer) Copy(from *Normalizer) {
	if z.Obs != nil {
		z.Obs.Copy(from.Obs)
	}
	if z.Returns != nil {
		z.Returns.Copy(from.Returns)
	}
}

// numbers is the number of numbers of an observation.
func (z *Normalizer) numbers() int {
	if z.Obs == nil {
		return 0
	}
	return len(z.Obs.Mean)
}

var errOther = errors.New("statistics of other numbers than the run normalises")
