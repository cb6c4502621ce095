package traintest

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/paceline-rl/paceline/core/env"
)

// stepsThatWait gives every environment a thread, which takes its time at some steps: the
// results are those of steps that do not wait. What else may happen to a run happens to
// this one as it does to others.
func stepsThatWait(t *testing.T, s Subject) {
	want := s.whole(t, s.config(t))
	s.waits = true
	for _, n := range []string{"1", "2", "3"} {
		c := s.config(t, "num_threads", n)
		tr := s.start(t, c, func(i int) (env.Env, error) {
			return s.walkThatTakesItsTime(c.Common().Seed, i)
		})
		check(t, tr.Begin(total, 0))
		check(t, tr.Run(0, 0))
		if got := s.digests(t, tr); got != want {
			t.Errorf("%s threads: %s, steps that do not wait: %s", n, got, want)
		}
	}
	stopAndGoOn(t, s)
	environmentFails(t, s)
	panicSpoilsOne(t, s)
}

// walkThatTakesItsTime is walk i, one step in eight of which takes longer than the others.
func (s Subject) walkThatTakesItsTime(seed, i int) (env.Env, error) {
	e, err := s.walks(seed)(i)
	if err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(1, uint64(i)))
	e.(*Walk).BeforeStep = func() error {
		if r.IntN(8) == 0 { // the shortest sleep takes a millisecond
			time.Sleep(time.Microsecond)
		} else {
			runtime.Gosched()
		}
		return nil
	}
	return e, nil
}
