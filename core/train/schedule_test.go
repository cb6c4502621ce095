package train

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/settings"
)

func TestLine(t *testing.T) {
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
func TestAtAgainstALoopOverThePoints(t *testing.T) {
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

func TestSchedulesAreChecked(t *testing.T) {
	for says, s := range map[string]Schedule{
		"rate: 0 points, must be 1 to 65536":       {},
		"rate: point 1 is step 5, value 2":         {{5, 1}, {5, 2}},
		"rate: point 0 is step -1, value 0":        {{-1, 0}},
		"rate: point 1 is step 3, value +Inf":      {{0, 0}, {3, math.Inf(1)}},
		"rate: point 0 is step 0, value NaN":       {{0, math.NaN()}},
		"rate: point 0 is step 0, value -1e-09":    {{0, -1e-9}},
		"rate: point 1 is step 1, value 3.5":       {{0, 3}, {1, 3.5}},
		"rate: point 0 is step 2251799813685248, ": {{1 << 51, 0}},
	} {
		if err := s.Check("rate", 3); err == nil || !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

type rated struct{ Curve Curve }

var rates = settings.New[rated]("rated", []settings.Setting{CurveOf("learning_rate", 1e3, "none", func(c *rated) *Curve { return &c.Curve })}, nil)

// A learning rate at a step is the curve's at that share of the run, wherever its points
// lie between steps.
func TestRateAgainstTheCurve(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		total, points := int64(1+r.IntN(400)), 2+r.IntN(8)
		c := Curve{{0, r.Float64()}}
		for k := range points {
			c = append(c, CurvePoint{(float64(k) + 0.01 + 0.98*r.Float64()) / float64(points), r.Float64()})
		}
		v := rates.Defaults()
		if err := v.Set("learning_rate_schedule", c.String()); err != nil {
			t.Fatal(err)
		}
		s := v.Struct().(*rated).Curve.Rate(5, 6, total)
		if err := s.Check("rate", 1); err != nil {
			t.Fatal(err)
		}
		steepest := 0.0
		for k, p := range c[1:] {
			steepest = max(steepest, math.Abs(p.Value-c[k].Value)/(p.Share-c[k].Share))
		}
		for step := range total + 3 {
			at, want := float64(step)/float64(total), c[len(c)-1].Value
			for k := len(c) - 1; k > 0; k-- {
				if at <= c[k].Share {
					share := (at - c[k-1].Share) / (c[k].Share - c[k-1].Share)
					want = (1-share)*c[k-1].Value + share*c[k].Value
				}
			}
			// A point between two steps is moved to one of them, along the curve.
			if got := s.At(step); math.Abs(got-want) > steepest/float64(total) {
				t.Fatalf("%v over %d at %d: %v, want %v", c, total, step, got, want)
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

func TestCurvesThatAreRefused(t *testing.T) {
	for _, text := range []string{"0.1", "0:1,0:2", "0.5:1,0.2:1", "-0.1:1", "0:1,1.5:1", "0:-1", "0:1001", "0:NaN", "x:1", "0:1,", "NaN:1", "0:Inf",
		"0:1" + strings.Repeat(",0.5:1", maxCurve)} {
		v := rates.Defaults()
		if err := v.Set("learning_rate_schedule", text); err == nil || !strings.HasPrefix(err.Error(), "learning_rate_schedule: \"") || len(err.Error()) > 300 {
			t.Errorf("%q: %v", text, err)
		}
	}
}
