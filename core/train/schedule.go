package train

import (
	"fmt"
	"math"
)

// Schedule is a value that changes along straight lines between points, in
// ascending order of their steps. Before the first point and after the last one it
// is constant. It is part of a checkpoint.
type Schedule []Point

// Point is a value at a step.
type Point struct {
	Step  int64   `json:"step"`
	Value float64 `json:"value"`
}

// Line is the schedule that begins at from and is at to after so many steps, or
// stays at from where to is NaN.
func Line(from, to float64, steps int64) Schedule {
	if math.IsNaN(to) {
		to = from
	}
	if steps <= 0 || from == to {
		return Schedule{{0, to}}
	}
	return Schedule{{0, from}, {steps, to}}
}

// At returns the value at a step.
func (s Schedule) At(step int64) float64 {
	last := s[len(s)-1]
	if step >= last.Step {
		return last.Value
	}
	if step <= s[0].Step {
		return s[0].Value
	}
	for k := 1; ; k++ {
		if a, b := s[k-1], s[k]; step < b.Step {
			return a.Value + (b.Value-a.Value)*float64(step-a.Step)/float64(b.Step-a.Step)
		}
	}
}

// Check refuses what is no schedule of values from 0 to most: no point, steps that do
// not ascend, another value.
func (s Schedule) Check(name string, most float64) error {
	if len(s) == 0 || len(s) > 1<<16 {
		return fmt.Errorf("%s: %d points, must be 1 to %d", name, len(s), 1<<16)
	}
	for k, p := range s {
		if !(p.Value >= 0 && p.Value <= most) || p.Step < 0 || p.Step > maxSteps || k > 0 && p.Step <= s[k-1].Step {
			return fmt.Errorf("%s: point %d is step %d, value %v; steps must ascend from 0 to %d and values be 0 to %g", name, k, p.Step, p.Value, int64(maxSteps), most)
		}
	}
	return nil
}
