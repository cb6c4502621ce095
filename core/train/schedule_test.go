package train

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/settings"
)

func TestLineHasItsValues(t *testing.T) {
	for _, c := range []struct {
		from, to float64
		steps    int64
		at       int64
		want     float64
	}{
		{1, 0, 100, 0, 1}, {1, 0, 100, 50, 0.5}, {1, 0, 100, 100, 0}, {1, 0, 100, 1 << 40, 0}, {1, 0, 100, -5, 1},
		{0.1, 0.9, 8, 2, 0.3}, {1, 0.5, 0, 0, 0.5}, {3, 3, 10, 7, 3}, {2, math.NaN(), 10, 7, 2}, {2, math.NaN(), 0, 0, 2},
	} {
		if got := Line(c.from, c.to, c.steps).At(c.at); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("Line(%v, %v, %d) at %d is %v, want %v", c.from, c.to, c.steps, c.at, got, c.want)
		}
	}
}

// At lies on the straight line between the two points around it.
func TestAtInterpolatesThePoints(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		s := Schedule{{int64(r.IntN(3)), r.Float64()}}
		for range r.IntN(6) {
			s = append(s, Point{s[len(s)-1].Step + 1 + int64(r.IntN(20)), r.Float64()})
		}
		if err := s.Check("s", 1); err != nil {
			t.Fatal(err)
		}
		for step := int64(-2); step < s[len(s)-1].Step+5; step++ {
			want := s[0].Value
			for k, p := range s {
				if step >= p.Step {
					want = p.Value
					if k+1 < len(s) {
						share := float64(step-p.Step) / float64(s[k+1].Step-p.Step)
						want = (1-share)*p.Value + share*s[k+1].Value
					}
				}
			}
			if got := s.At(step); math.Abs(got-want) > 1e-12 {
				t.Fatalf("%v at %d: %v, want %v", s, step, got, want)
			}
		}
	}
}

func TestZeroFromIsTheFirstStepOfZeros(t *testing.T) {
	for _, c := range []struct {
		s     Schedule
		first int64 // the first step from which all values are 0; -1: there is none
	}{
		{Line(1, 0, 10), 10}, {Line(0, 0, 10), 0}, {Line(1, 0.5, 10), -1}, {Line(0, 1, 10), -1},
		{Schedule{{0, 0}, {5, 0}, {6, 1}, {9, 0}}, 9}, {Schedule{{0, 1}, {4, 0}, {8, 0}}, 4},
	} {
		for step := range int64(12) {
			if got := c.s.zeroFrom(step); got != (c.first >= 0 && step >= c.first) {
				t.Errorf("%v at %d: %v", c.s, step, got)
			}
		}
	}
}

func TestBadSchedulesAreRefused(t *testing.T) {
	for says, s := range map[string]Schedule{
		"rate: 0 points, must be 1 to 65536":       {},
		"rate: point 1 is step 5, value 2":         {{5, 1}, {5, 2}},
		"rate: point 0 is step -1, value 0":        {{-1, 0}},
		"rate: point 1 is step 3, value +Inf":      {{0, 0}, {3, math.Inf(1)}},
		"rate: point 0 is step 0, value NaN":       {{0, math.NaN()}},
		"rate: point 0 is step 0, value -1e-09":    {{0, -1e-9}},
		"rate: point 1 is step 1, value 3.5":       {{0, 3}, {1, 3.5}},
		"rate: point 0 is step 4503599627370496, ": {{1 << 52, 0}},
	} {
		if err := s.Check("rate", 3); err == nil || !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

type rated struct{ Curve Curve }

var rates = settings.New[rated]("rated", []settings.Setting{CurveOf("learning_rate", 1e3, "none", func(c *rated) *Curve { return &c.Curve })}, nil)

// The learning rate at a step is the curve's value at that share of the run. This also holds if
// points lie between steps or two points bracket a jump of less than a step.
func TestRateFollowsTheCurve(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		total, points := int64(1+r.IntN(400)), 2+r.IntN(8)
		c := Curve{{0, r.Float64()}}
		for k := range points {
			share := (float64(k) + 0.01 + 0.98*r.Float64()) / float64(points)
			if r.IntN(2) == 0 { // on a step, except for rounding
				share = math.Round(share*float64(total)) / float64(total)
			}
			if share <= c[len(c)-1].Share {
				continue
			}
			c = append(c, curvePoint{share, r.Float64()})
			// The jump ends at most a step and a half later.
			width := []float64{0, 1e-9, 0x1p-52 * share, 0.3 / float64(total), 1.5 / float64(total)}[r.IntN(5)]
			if behind := share + width*(1-r.Float64()/2); behind > share && behind <= 1 {
				c = append(c, curvePoint{behind, r.Float64()})
			}
		}
		v := rates.Defaults()
		if err := v.Set("learning_rate_schedule", c.String()); err != nil {
			t.Fatal(err)
		}
		s := v.Struct().(*rated).Curve.Rate(5, 6, total)
		if err := s.Check("rate", 1); err != nil {
			t.Fatal(err)
		}
		for step := range total + 3 {
			// A jump may be as narrow as the precision of a share: the values of both sides are
			// accepted.
			at, near := float64(step)/float64(total), false
			for _, share := range []float64{at, at * (1 - 0x1p-51), at * (1 + 0x1p-51)} {
				near = near || math.Abs(s.At(step)-reference(c, share)) <= 1e-5
			}
			if !near {
				t.Fatalf("%v over %d at %d: %v, want %v", c, total, step, s.At(step), reference(c, at))
			}
		}
	}
	if got, want := (Curve{{0, 3}, {1, 1}}).Rate(5, 6, 77), Line(3, 1, 77); got[0] != want[0] || got[1] != want[1] || len(got) != 2 {
		t.Errorf("%v, want %v", got, want)
	}
	if got := (Curve)(nil).Rate(5, 6, 10).At(5); got != 5.5 {
		t.Errorf("%v without a curve, want 5.5", got)
	}
}

// reference returns the value of a curve at a share of the run.
func reference(c Curve, at float64) float64 {
	value := c[len(c)-1].Value
	for k := len(c) - 1; k > 0; k-- {
		if at <= c[k].Share {
			share := (at - c[k-1].Share) / (c[k].Share - c[k-1].Share)
			value = (1-share)*c[k-1].Value + share*c[k].Value
		}
	}
	return value
}

// A jump in a long run takes one step, and points that lie on steps do not change.
func TestAJumpOfALongRunTakesOneStep(t *testing.T) {
	c := Curve{{0, 1e-3}, {0.5, 1e-3}, {0.5000001, 1e-4}, {1, 1e-4}}
	s := c.Rate(5, 6, 1_000_000)
	for step, want := range map[int64]float64{0: 1e-3, 250_000: 1e-3, 500_000: 1e-3, 500_001: 1e-4, 750_000: 1e-4, 1_000_000: 1e-4} {
		if got := s.At(step); math.Abs(got-want) > 1e-12 {
			t.Errorf("step %d: %v, want %v", step, got, want)
		}
	}
	// The curve that Python makes of a function that is 1e-3 above a remaining progress of 0.75.
	c = Curve{{0, 1e-3}, {0.25 - 5e-10, 1e-3}, {0.25 + 2e-10, 1e-4}, {0.5, 1e-4}, {1, 1e-4}}
	s = c.Rate(5, 6, 50_001)
	for step, want := range map[int64]float64{12_500: 1e-3, 12_501: 1e-4, 20_000: 1e-4} {
		if got := s.At(step); math.Abs(got-want) > 1e-12 {
			t.Errorf("step %d: %v, want %v", step, got, want)
		}
	}
	kept := (Curve{{0.1, 3}, {0.29, 1}, {0.57, 2}, {1, 0.5}}).Rate(5, 6, 100) // 0.29 times 100 is a little below 29
	if want := (Schedule{{10, 3}, {29, 1}, {57, 2}, {100, 0.5}}); !slices.Equal(kept, want) {
		t.Errorf("%v, want %v", kept, want)
	}
}

func TestBadCurvesAreRefused(t *testing.T) {
	for _, text := range []string{"0.1", "0:1,0:2", "0.5:1,0.2:1", "-0.1:1", "0:1,1.5:1", "0:-1", "0:1001", "0:NaN", "x:1", "0:1,", "NaN:1", "0:Inf",
		"0:1" + strings.Repeat(",0.5:1", maxCurve)} {
		v := rates.Defaults()
		if err := v.Set("learning_rate_schedule", text); err == nil || !strings.HasPrefix(err.Error(), "learning_rate_schedule: \"") || len(err.Error()) > 300 {
			t.Errorf("%q: %v", text, err)
		}
	}
}
