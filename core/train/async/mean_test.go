package async

import "testing"

// Moments that a learner has given count as no gradient. Else a learner that has ended the last
// update of a run would begin a rollout, if an interrupt comes between the moments and the
// gradients of the others.
func TestMomentsAreNoGradient(t *testing.T) {
	for _, c := range []struct {
		given       contribution
		due, absent bool
		want        int64
	}{
		{moments, false, false, 3}, {moments, true, false, 3}, {moments, true, true, 4},
		{gradient, false, false, 3}, {gradient, true, false, 4}, {gradient, true, true, 4},
	} {
		k := link{flight: flight{Due: c.due, Rounds: 3, given: given{Round: c.given, Absent: c.absent}}}
		if n := k.begun(); n != c.want {
			t.Errorf("%s, due %v, absent %v: %d rounds of gradients, want %d", c.given, c.due, c.absent, n, c.want)
		}
	}
}
