package vec

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paceline-rl/paceline/core/env"
)

// infoCounters makes an Async of infoCounters with episodes of 3 steps, every second one an
// env.Delayer. All are reset.
func infoCounters(t *testing.T, mode Autoreset, n, batch, threads int) (*Vec, *Async, []*infoCounter) {
	t.Helper()
	cs := make([]*infoCounter, n)
	v, rows := newVec(t, func(i int) (env.Env, error) {
		cs[i] = newInfoCounter(3, discrete)
		if i%2 == 1 {
			return delayedCounter{cs[i]}, nil
		}
		return cs[i], nil
	}, n, 1, mode)
	if err := v.Reset(rows, nil); err != nil {
		t.Fatal(err)
	}
	a, err := v.Async(batch, threads, -1)
	if err != nil {
		t.Fatal(err)
	}
	return v, a, cs
}

func offer(t *testing.T, v *Vec, a *Async, blocks int) {
	t.Helper()
	for range blocks {
		if err := a.Offer(newRows(v, a.batch)); err != nil {
			t.Fatal(err)
		}
	}
}

func send(t *testing.T, a *Async, ids ...int32) {
	t.Helper()
	if err := a.Send(ids, Actions{Discrete: make([]int32, len(ids))}); err != nil {
		t.Fatal(err)
	}
}

// describe returns the rows of a batch, or the error, as text. "1:2.1 0:1.3 2" is environment 1 in
// step 1 of episode 2, and environment 0 in step 3 of episode 1 with End 2.
func describe(r *Rows, err error) string {
	if err != nil {
		return err.Error()
	}
	var list []string
	for at, id := range r.IDs {
		s := fmt.Sprintf("%d:%s", id, show(r.Obs, at))
		if r.Ends[at] != 0 {
			s += fmt.Sprintf(" %d", r.Ends[at])
		}
		list = append(list, s)
	}
	return strings.Join(list, " ")
}

// One environment fails. The error comes before the rows of the others. A Recv that would wait for
// the failed environment is refused. The reset of the failed environment fills the batch.
func TestAsyncFailures(t *testing.T) {
	for want, spoil := range map[string]func(c *infoCounter){
		"environment 1: boom":                        func(c *infoCounter) { c.onStep = func(*counter) error { return errors.New("boom") } },
		"environment 1: panic: kaboom":               func(c *infoCounter) { c.onStep = func(*counter) error { panic("kaboom") } },
		"environment 1: reward: NaN, must be finite": func(c *infoCounter) { c.nanReward = true },
	} {
		for failed := range int32(2) { // 1 is a Delayer
			want := strings.Replace(want, "1", fmt.Sprint(failed), 1)
			for _, threads := range []int{1, 3} {
				v, a, cs := infoCounters(t, NextStep, 3, 3, threads)
				spoil(cs[failed])
				offer(t, v, a, 1)
				send(t, a, 0, 1, 2)
				_, err := a.Recv(-1)
				var e *env.Error
				if describe(nil, err) != want || !errors.As(err, &e) || e.Index != int(failed) {
					t.Fatalf("%v, want %q", err, want)
				}
				if got, want := describe(a.Recv(-1)), "recv: 2 environments are under way, batch_size is 3: must send more first"; got != want {
					t.Fatalf("%s, want %q", got, want)
				}
				cs[failed].onStep, cs[failed].nanReward = nil, false
				if err := a.Send([]int32{failed}, Actions{Discrete: []int32{0}}); err == nil || !strings.HasSuffix(err.Error(), "step before reset") {
					t.Errorf("%s: stepped on: %v", want, err)
				}
				if err := a.SendReset([]int32{failed}, nil); err != nil {
					t.Fatal(err)
				}
				got := describe(a.Recv(-1))
				if want := []string{"0:2.0 1:1.1 2:1.1", "0:1.1 1:2.0 2:1.1"}[failed]; got != want {
					t.Errorf("%s, want %s", got, want)
				}
			}
		}
	}
}

// An observation that is not finite is an error. A Delayer has claimed its row by then: the row
// comes after the error.
func TestAsyncNaN(t *testing.T) {
	v, a, cs := infoCounters(t, NextStep, 2, 1, 2)
	cs[0].nanObs, cs[1].nanObs = true, true
	offer(t, v, a, 2)
	for i := range int32(2) {
		send(t, a, i)
		want := fmt.Sprintf("environment %d: observation: component 1 is NaN, must be finite", i)
		if got := describe(a.Recv(-1)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if r, err := a.Recv(-1); err != nil || r.IDs[0] != 1 {
		t.Errorf("%s, want the Delayer's row", describe(r, err))
	}
}

// If several environments fail, their errors come one by one before the rows. No row is lost.
func TestAsyncManyFailures(t *testing.T) {
	const n = 9
	v, a, cs := infoCounters(t, NextStep, n, 2, 4)
	for _, i := range []int{1, 4, 6} {
		cs[i].onStep = func(*counter) error { panic("kaboom") }
	}
	offer(t, v, a, 5)
	send(t, a, 8, 7, 6, 5, 4, 3, 2, 1, 0)
	a.mu.Lock()
	for a.unfinished > 0 {
		a.idle.Wait()
	}
	a.mu.Unlock()
	var got []string
	for range 3 {
		got = append(got, describe(a.Recv(-1)))
	}
	slices.Sort(got)
	if s := strings.Join(got, ", "); s != "environment 1: panic: kaboom, environment 4: panic: kaboom, environment 6: panic: kaboom" {
		t.Error(s)
	}
	var ids []int32
	for range 3 {
		r, err := a.Recv(-1)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.IDs...)
	}
	slices.Sort(ids)
	if !slices.Equal(ids, []int32{0, 2, 3, 5, 7, 8}) {
		t.Errorf("rows of %v", ids)
	}
	if err := v.checkIdle(); err != nil {
		t.Errorf("after all rows were received: %v", err)
	}
}

// A reset that fails has no row. If an autoreset fails in SameStep, the error comes before the row
// of the step that ended the episode.
func TestAsyncResetFails(t *testing.T) {
	v, a, cs := infoCounters(t, NextStep, 2, 1, 2)
	cs[0].onReset = func(*counter) error { return errors.New("no reset") }
	offer(t, v, a, 2)
	if err := a.SendReset([]int32{0}, nil); err != nil {
		t.Fatal(err)
	}
	if got := describe(a.Recv(-1)); got != "environment 0: no reset" {
		t.Error(got)
	}
	send(t, a, 1)
	if got := describe(a.Recv(-1)); got != "1:1.1" {
		t.Error(got)
	}

	for failed := range int32(2) {
		v, a, cs := infoCounters(t, SameStep, 2, 2, 2)
		rows := make([]*Rows, 3)
		for k := range rows {
			rows[k] = newRows(v, 2)
			if err := a.Offer(rows[k]); err != nil {
				t.Fatal(err)
			}
		}
		for k := range 3 {
			if k == 2 {
				cs[failed].onReset = func(*counter) error { return errors.New("no reset") }
			}
			send(t, a, 0, 1)
			if k < 2 {
				if _, err := a.Recv(-1); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := describe(a.Recv(-1)); got != fmt.Sprintf("environment %d: no reset", failed) {
			t.Error(got)
		}
		r, err := a.Recv(-1)
		if err != nil || r != rows[2] {
			t.Fatal(err)
		}
		other := 1 - failed
		got := fmt.Sprint(r.Rewards, r.Ends, r.Starts[failed], r.Starts[other], show(r.FinalObs, 0), show(r.FinalObs, 1), show(r.Obs, int(other)))
		if want := "[13 13] [1 1] false true1.31.32.0"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if err := a.Send([]int32{failed}, Actions{Discrete: []int32{0}}); err == nil || !strings.Contains(err.Error(), "step before reset") && !strings.Contains(err.Error(), "free") {
			t.Errorf("stepped on: %v", err)
		}
	}
}

// seedHookCounter calls onSeed in its Seed.
type seedHookCounter struct {
	*infoCounter
	onSeed func()
}

func (s *seedHookCounter) Seed(seed uint64) {
	s.onSeed()
	s.infoCounter.Seed(seed)
}

// seedHookCounters makes two seedHookCounters and an Async of batch size 1 with two threads.
func seedHookCounters(t *testing.T) (*Vec, *Async, []*seedHookCounter) {
	t.Helper()
	var list []*seedHookCounter
	v, rows := newVec(t, func(int) (env.Env, error) {
		list = append(list, &seedHookCounter{newInfoCounter(3, discrete), func() {}})
		return list[len(list)-1], nil
	}, 2, 1, NextStep)
	if err := v.Reset(rows, nil); err != nil {
		t.Fatal(err)
	}
	a, err := v.Async(1, 2, -1)
	if err != nil {
		t.Fatal(err)
	}
	offer(t, v, a, 2)
	return v, a, list
}

// A slow Seed delays its own environment only. Other environments are sent and received meanwhile,
// and the limit of Recv holds.
func TestAsyncSlowSeedDelaysNoOther(t *testing.T) {
	_, a, list := seedHookCounters(t)
	goOn, others := make(chan bool), make(chan string)
	list[0].onSeed = func() { <-goOn }
	go func() {
		err := a.SendReset([]int32{0}, []uint64{5})
		if err == nil {
			err = a.Send([]int32{1}, Actions{Discrete: []int32{0}})
		}
		others <- describe(a.Recv(-1))
		others <- describe(a.Recv(10*time.Millisecond)) + fmt.Sprint(err)
	}()
	for _, want := range []string{"1:1.1", errTimedOut.Error() + "<nil>"} {
		select {
		case got := <-others:
			if got != want {
				t.Errorf("%s, want %s", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Error("a slow Seed delays other calls")
			close(goOn)
			<-others
			<-others
			return
		}
	}
	close(goOn)
	if got, want := describe(a.Recv(-1)), "0:5.0"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A panic in Seed is the environment's error. A later reset fills the batch.
func TestAsyncSeedPanics(t *testing.T) {
	_, a, list := seedHookCounters(t)
	list[0].onSeed = func() { panic("no such level") }
	if err := a.SendReset([]int32{0}, []uint64{5}); err != nil {
		t.Fatal(err)
	}
	if got, want := describe(a.Recv(-1)), "environment 0: panic: no such level"; got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	list[0].onSeed = func() {}
	if err := a.SendReset([]int32{0}, []uint64{6}); err != nil {
		t.Fatal(err)
	}
	if got, want := describe(a.Recv(-1)), "0:6.0"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
