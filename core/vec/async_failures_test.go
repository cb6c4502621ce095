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

// scouts makes an Async of counters whose episodes have 3 steps, all reset and received.
func scouts(t *testing.T, mode Autoreset, n, batch, threads int) (*Vec, *Async, []*scout) {
	t.Helper()
	cs := make([]*scout, n)
	v, rows := newVec(t, func(i int) (env.Env, error) {
		cs[i] = newScout(3, false)
		if i%2 == 1 {
			return lateScout{cs[i]}, nil
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

// says describes the rows of a batch, or the error: "1:2.1 0:1.3 2" is environment 1 in step 1 of
// episode 2 and environment 0 in step 3 of episode 1, which has ended by 2.
func says(r *Rows, err error) string {
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

// One environment fails in each way: the error comes first, then the rows of the others;
// what waits for the failed one is refused, and its reset fills the batch.
func TestAsyncFailures(t *testing.T) {
	for want, spoil := range map[string]func(c *scout){
		"environment 1: boom":                        func(c *scout) { c.onStep = func(*counter) error { return errors.New("boom") } },
		"environment 1: panic: kaboom":               func(c *scout) { c.onStep = func(*counter) error { panic("kaboom") } },
		"environment 1: reward: NaN, must be finite": func(c *scout) { c.nanReward = true },
	} {
		for failed := range int32(2) { // one that is a Delayer and one that is not
			want := strings.Replace(want, "1", fmt.Sprint(failed), 1)
			for _, threads := range []int{1, 3} {
				v, a, cs := scouts(t, NextStep, 3, 3, threads)
				spoil(cs[failed])
				offer(t, v, a, 1)
				send(t, a, 0, 1, 2)
				_, err := a.Recv(-1)
				var e *env.Error
				if says(nil, err) != want || !errors.As(err, &e) || e.Index != int(failed) {
					t.Fatalf("%v, want %q", err, want)
				}
				if got, want := says(a.Recv(-1)), "recv: 2 environments are under way, batch_size is 3: must send more first"; got != want {
					t.Fatalf("%s, want %q", got, want)
				}
				cs[failed].onStep, cs[failed].nanReward = nil, false
				if err := a.Send([]int32{failed}, Actions{Discrete: []int32{0}}); err == nil || !strings.HasSuffix(err.Error(), "step before reset") {
					t.Errorf("%s: stepped on: %v", want, err)
				}
				if err := a.SendReset([]int32{failed}, nil); err != nil {
					t.Fatal(err)
				}
				got := says(a.Recv(-1))
				if want := []string{"0:2.0 1:1.1 2:1.1", "0:1.1 1:2.0 2:1.1"}[failed]; got != want {
					t.Errorf("%s, want %s", got, want)
				}
			}
		}
	}
}

// An observation that is not finite is an error here too, for a Delayer after its row was
// given out, which comes all the same.
func TestAsyncNaN(t *testing.T) {
	v, a, cs := scouts(t, NextStep, 2, 1, 2)
	cs[0].nanObs, cs[1].nanObs = true, true
	offer(t, v, a, 2)
	for i := range int32(2) {
		send(t, a, i)
		want := fmt.Sprintf("environment %d: observation: component 1 is NaN, must be finite", i)
		if got := says(a.Recv(-1)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if r, err := a.Recv(-1); err != nil || r.IDs[0] != 1 {
		t.Errorf("%s, want the Delayer's row", says(r, err))
	}
}

// Errors of several come one by one before the rows, and no row is lost.
func TestAsyncManyFailures(t *testing.T) {
	const n = 9
	v, a, cs := scouts(t, NextStep, n, 2, 4)
	for _, i := range []int{1, 4, 6} {
		cs[i].onStep = func(*counter) error { panic("kaboom") }
	}
	offer(t, v, a, 5)
	send(t, a, 8, 7, 6, 5, 4, 3, 2, 1, 0)
	a.mu.Lock()
	for a.working > 0 {
		a.idle.Wait()
	}
	a.mu.Unlock()
	var got []string
	for range 3 {
		got = append(got, says(a.Recv(-1)))
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
	if err := v.idle(); err != nil {
		t.Errorf("all is received: %v", err)
	}
}

// A reset that fails takes no row; one behind the end of an episode, in SameStep, comes
// with that end's row, and before it.
func TestAsyncResetFails(t *testing.T) {
	v, a, cs := scouts(t, NextStep, 2, 1, 2)
	cs[0].onReset = func(*counter) error { return errors.New("no reset") }
	offer(t, v, a, 2)
	if err := a.SendReset([]int32{0}, nil); err != nil {
		t.Fatal(err)
	}
	if got := says(a.Recv(-1)); got != "environment 0: no reset" {
		t.Error(got)
	}
	send(t, a, 1)
	if got := says(a.Recv(-1)); got != "1:1.1" {
		t.Error(got)
	}

	for failed := range int32(2) {
		v, a, cs := scouts(t, SameStep, 2, 2, 2)
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
		if got := says(a.Recv(-1)); got != fmt.Sprintf("environment %d: no reset", failed) {
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

// seededScout does something in its Seed.
type seededScout struct {
	*scout
	onSeed func()
}

func (s *seededScout) Seed(seed uint64) {
	s.onSeed()
	s.scout.Seed(seed)
}

// seededScouts are two of them, with an Async of batches of one and two threads.
func seededScouts(t *testing.T) (*Vec, *Async, []*seededScout) {
	t.Helper()
	var list []*seededScout
	v, rows := newVec(t, func(int) (env.Env, error) {
		list = append(list, &seededScout{newScout(3, false), func() {}})
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

// A Seed that takes long holds up its own environment only: the others are sent and received
// meanwhile, and time limits count.
func TestAsyncSeedsThatTakeLong(t *testing.T) {
	_, a, list := seededScouts(t)
	goOn, others := make(chan bool), make(chan string)
	list[0].onSeed = func() { <-goOn }
	go func() {
		err := a.SendReset([]int32{0}, []uint64{5})
		if err == nil {
			err = a.Send([]int32{1}, Actions{Discrete: []int32{0}})
		}
		others <- says(a.Recv(-1))
		others <- says(a.Recv(10*time.Millisecond)) + fmt.Sprint(err)
	}()
	for _, want := range []string{"1:1.1", errTimedOut.Error() + "<nil>"} {
		select {
		case got := <-others:
			if got != want {
				t.Errorf("%s, want %s", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Error("a Seed holds up other calls")
			close(goOn)
			<-others
			<-others
			return
		}
	}
	close(goOn)
	if got, want := says(a.Recv(-1)), "0:5.0"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A panic in a Seed is the environment's error, and a later reset fills the batch.
func TestAsyncSeedPanics(t *testing.T) {
	_, a, list := seededScouts(t)
	list[0].onSeed = func() { panic("no such level") }
	if err := a.SendReset([]int32{0}, []uint64{5}); err != nil {
		t.Fatal(err)
	}
	if got, want := says(a.Recv(-1)), "environment 0: panic: no such level"; got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	list[0].onSeed = func() {}
	if err := a.SendReset([]int32{0}, []uint64{6}); err != nil {
		t.Fatal(err)
	}
	if got, want := says(a.Recv(-1)), "0:6.0"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
