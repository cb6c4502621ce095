package rollout

import (
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
)

// endKind returns the kind of an end and its position in a rollout, as text.
func endKind(end env.End, round, horizon int) string {
	kind, position := "", "middle"
	switch {
	case end&env.Terminated != 0:
		kind = "terminated"
	case end == env.Truncated:
		kind = "truncated"
	default:
		return "other"
	}
	switch round {
	case horizon - 1:
		position = "last"
	case 0:
		position = "first"
	}
	return kind + " " + position
}

// wantAllEnds fails the test unless ends has both kinds at a first, a middle and a last step.
func wantAllEnds(t *testing.T, ends map[string]int) {
	t.Helper()
	for _, kind := range []string{"terminated", "truncated"} {
		for _, position := range []string{"first", "middle", "last"} {
			if ends[kind+" "+position] == 0 {
				t.Errorf("no episode was %s at a %s step: %v", kind, position, ends)
			}
		}
	}
}

// An end belongs to the step that returned it. Computed by hand with gamma = 1/2, V(obs k) = k,
// rewards 1, 2, 4, and the pending observation 9.
func TestEndsBelongToTheirStep(t *testing.T) {
	const none, term, trunc = env.End(0), env.Terminated, env.Truncated
	for _, c := range []struct {
		ends    [3]env.End
		lambda  float64
		returns [3]float32
	}{
		{[3]env.End{none, none, none}, 1, [3]float32{1 + 1 + 1 + 9./8, 2 + 2 + 9./4, 4 + 9./2}},
		{[3]env.End{term, none, none}, 1, [3]float32{1, 2 + 2 + 9./4, 4 + 9./2}},
		{[3]env.End{none, term, none}, 1, [3]float32{1 + 1, 2, 4 + 9./2}},
		{[3]env.End{none, none, term}, 1, [3]float32{1 + 1 + 1, 2 + 2, 4}},
		{[3]env.End{trunc, none, none}, 1, [3]float32{1 + 10./2, 2 + 2 + 9./4, 4 + 9./2}},
		{[3]env.End{none, trunc, none}, 1, [3]float32{1 + 1 + 10./4, 2 + 10./2, 4 + 9./2}},
		{[3]env.End{none, none, trunc}, 1, [3]float32{1 + 1 + 1 + 10./8, 2 + 2 + 10./4, 4 + 10./2}},
		{[3]env.End{none, term | trunc, none}, 1, [3]float32{1 + 1, 2, 4 + 9./2}},
		{[3]env.End{none, env.Lost, none}, 1, [3]float32{1 + 1, 2, 4 + 9./2}},
		{[3]env.End{term, term, term}, 1, [3]float32{1, 2, 4}},
		// One step each: r + V(next)/2.
		{[3]env.End{none, none, none}, 0, [3]float32{1 + 2./2, 2 + 3./2, 4 + 9./2}},
		{[3]env.End{none, term, none}, 0, [3]float32{1 + 2./2, 2, 4 + 9./2}},
		// delta = 1, 1.5, 5.5 (V 1, 2, 3 before the steps, 2, 3, 9 after); factor 1/4.
		{[3]env.End{none, none, none}, .5, [3]float32{1 + 1 + (1.5+5.5/4)/4, 2 + 1.5 + 5.5/4, 3 + 5.5}},
		// In the form of Q(lambda): R = r + (R' + V')/4 with R' = V' = 0 after a termination.
		{[3]env.End{term, none, none}, .5, [3]float32{1, 2 + (8.5+3)/4, 8.5}},
		{[3]env.End{none, term, none}, .5, [3]float32{1 + (2.+2)/4, 2, 8.5}},
		{[3]env.End{none, none, term}, .5, [3]float32{1 + (3.75+2)/4, 2 + (4.+3)/4, 4}},
		{[3]env.End{trunc, none, none}, .5, [3]float32{1 + 10./2, 2 + (8.5+3)/4, 8.5}},
		{[3]env.End{none, trunc, none}, .5, [3]float32{1 + (7.+2)/4, 2 + 10./2, 8.5}},
		{[3]env.End{none, none, trunc}, .5, [3]float32{1 + (5.+2)/4, 2 + (9.+3)/4, 4 + 10./2}},
	} {
		r := newRollout(t, 3, 1)
		check(t, r.Begin(0, observation(1)))
		for k, end := range c.ends {
			next := observation(k + 2)
			if k == 2 {
				next = observation(9)
			}
			if end == trunc { // the true last observation, of value 10
				next = observation(10)
			}
			check(t, r.Add(0, &experience.Step{Action: []int32{0}, Reward: float32(int(1) << k), End: end, Columns: []float32{0, float32(k + 1)}}, next))
			if end.Over() {
				check(t, r.Begin(0, observation([]int{2, 3, 9}[k])))
			}
			check(t, r.EndRound())
		}
		check(t, r.Finish(.5, c.lambda, func(obs []byte, rows int) ([]float32, error) {
			return []float32{float32(idOf(obs))}, nil
		}))
		if got := r.Batch().Returns; !slices.Equal(got, c.returns[:]) {
			t.Errorf("ends %v, lambda %g: returns %v, want %v", c.ends, c.lambda, got, c.returns)
		}
		for k, a := range r.Batch().Advantages { // V is 1, 2, 3
			if want := c.returns[k] - float32(k+1); a != want {
				t.Errorf("ends %v, lambda %g: advantage %d is %g, want %g", c.ends, c.lambda, k, a, want)
			}
		}
	}
}
