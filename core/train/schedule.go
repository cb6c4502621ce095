package train

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/paceline-rl/paceline/core/settings"
)

// Schedule is a value that changes along straight lines between points, in ascending order of their
// steps. Before the first point and after the last one it is constant. Every Begin makes new
// schedules, from step 0 to the end of the run (num_timesteps + total_timesteps). A checkpoint
// holds them.
type Schedule []Point

// Point is a value at a step.
type Point struct {
	Step  int64   `json:"step"`
	Value float64 `json:"value"`
}

// Line is the schedule that goes from `from` to `to` in a number of steps. If `to` is NaN it stays
// at `from`.
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

// zeroFrom reports whether the value is 0 at a step and at all later ones.
func (s Schedule) zeroFrom(step int64) bool {
	if s.At(step) != 0 {
		return false
	}
	for _, p := range s {
		if p.Step > step && p.Value != 0 {
			return false
		}
	}
	return true
}

// Check refuses a Schedule without points, with steps that do not ascend or with values outside 0
// to most.
func (s Schedule) Check(name string, most float64) error {
	if len(s) == 0 || len(s) > 1<<16 {
		return fmt.Errorf("%s: %d points, must be 1 to %d", name, len(s), 1<<16)
	}
	for k, p := range s {
		if !(p.Value >= 0 && p.Value <= most) || p.Step < 0 || p.Step > maxEnd || k > 0 && p.Step <= s[k-1].Step {
			return fmt.Errorf("%s: point %d is step %d, value %v; steps must ascend from 0 to %d and values be 0 to %g", name, k, p.Step, p.Value, int64(maxEnd), most)
		}
	}
	return nil
}

// Curve is a schedule whose steps are shares of a run that has not begun: 0 is step 0, 1 is the end
// of the run. An empty Curve is none.
type Curve []curvePoint

// curvePoint is a value at a share of the run.
type curvePoint struct{ Share, Value float64 }

// maxCurve is the largest number of points of a Curve.
const maxCurve = 2048

// CurveOf is the setting of the Curve for another setting, of, with values up to most. otherwise
// ends its description, which says what an empty Curve means.
func CurveOf[C any](of string, most float64, otherwise string, field func(*C) *Curve) settings.Setting {
	name := of + "_schedule"
	doc := fmt.Sprintf("share:value,share:value ...: %s along straight lines between these points, share being that of the steps up to the end of the run, 0 to 1 and ascending, and value 0 to %g; empty: %s", of, most, otherwise)
	return settings.Other(name, "string", "", doc, Curve.String, func(text string) (Curve, error) {
		c, ok := parseCurve(text, most)
		if !ok {
			return nil, fmt.Errorf("%s: %.80q, must be share:value with commas between, up to %d of them, shares ascending from 0 to 1 and values 0 to %g", name, text, maxCurve, most)
		}
		return c, nil
	}, field)
}

func parseCurve(text string, most float64) (c Curve, ok bool) {
	if text == "" {
		return nil, true
	}
	parts := strings.SplitN(text, ",", maxCurve+1)
	before := math.Inf(-1)
	for _, part := range parts {
		share, value, _ := strings.Cut(part, ":")
		s, err := strconv.ParseFloat(strings.TrimSpace(share), 64)
		v, verr := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil || verr != nil || !(s >= 0 && s <= 1 && s > before && v >= 0 && v <= most) {
			return nil, false
		}
		c, before = append(c, curvePoint{s, v}), s
	}
	return c, len(c) <= maxCurve
}

// String is the text that CurveOf reads.
func (c Curve) String() string {
	var parts []string
	for _, p := range c {
		parts = append(parts, strconv.FormatFloat(p.Share, 'g', -1, 64)+":"+strconv.FormatFloat(p.Value, 'g', -1, 64))
	}
	return strings.Join(parts, ",")
}

// at returns the value at a share of the run.
func (c Curve) at(share float64) float64 {
	for k, b := range c {
		if share <= b.Share {
			if k == 0 || share == b.Share {
				return b.Value
			}
			a := c[k-1]
			return a.Value + (b.Value-a.Value)*(share-a.Share)/(b.Share-a.Share)
		}
	}
	return c[len(c)-1].Value
}

// Rate is the schedule of a run that ends at a step: along c or, if c is empty, Line(from, to,
// steps). At every step it has the value of c at that step. A point of c between two steps becomes
// a point at each of the two: a single point at one of them would turn a jump into a long ramp.
func (c Curve) Rate(from, to float64, steps int64) Schedule {
	if len(c) == 0 {
		return Line(from, to, steps)
	}
	var s Schedule
	for k := range c {
		first, last := c.around(k, steps)
		for step := first; step <= last; step++ {
			if n := len(s); n == 0 || s[n-1].Step < step {
				s = append(s, Point{step, c.at(float64(step) / float64(steps))})
			}
		}
	}
	return s
}

// around returns the first and the last step that become points for point k of c. They are the two
// steps before and after point k, or the step that it lies on. The product of a share and steps is
// exact only to about an ulp, so a point within an ulp of a step lies on it. If another point is
// less than a step away, the steps on both sides are returned, too.
func (c Curve) around(k int, steps int64) (first, last int64) {
	at := func(k int) float64 { return float64(c[k].Share * float64(steps)) }
	x := at(k)
	alone := (k == 0 || x-at(k-1) >= 1) && (k == len(c)-1 || at(k+1)-x >= 1)
	step := math.Round(x)
	switch {
	case math.Abs(x-step) > float64(0x1p-51*step):
		return int64(math.Floor(x)), int64(math.Ceil(x))
	case alone:
		return int64(step), int64(step)
	}
	return max(0, int64(step)-1), min(steps, int64(step)+1)
}
