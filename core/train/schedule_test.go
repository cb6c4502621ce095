package train

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
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
