package traintest

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/paceline-rl/paceline/core/env"
)

// blockingSteps tests walks with Spec.Waits, of which some steps are slow. The results are those of
// steps that do not block. It also tests stops, failing environments and panics with such walks.
func blockingSteps(t *testing.T, s Subject) {
	want := s.fullRun(t, s.config(t))
	s.waits = true
	for _, n := range []string{"1", "2", "3"} {
		c := s.config(t, "num_threads", n)
		tr := s.newTrainer(t, c, func(i int) (env.Env, error) {
			return s.slowWalk(c.Common().Seed, i)
		})
		check(t, tr.Begin(total, 0))
		check(t, tr.Run(0, 0))
		if got := s.digests(t, tr); got != want {
			t.Errorf("%s threads: %s, steps that do not block: %s", n, got, want)
		}
	}
	stopAndContinue(t, s)
	environmentFails(t, s)
	panicBreaksOneTrainer(t, s)
}

// slowWalk makes walk i. One of its steps in eight takes longer than the others.
func (s Subject) slowWalk(seed, i int) (env.Env, error) {
	e, err := s.walks(seed)(i)
	if err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(1, uint64(i)))
	e.(*Walk).BeforeStep = func() error {
		if r.IntN(8) == 0 { // the shortest sleep takes about a millisecond
			time.Sleep(time.Microsecond)
		} else {
			runtime.Gosched()
		}
		return nil
	}
	return e, nil
}
