package vec

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/fault"
)

// A refused Send moves no environment: all of them can be sent after it.
func TestAsyncSendRefuses(t *testing.T) {
	v, a, cs := infoCounters(t, Disabled, 4, 2, 2)
	sendOne := func(ids []int32, actions ...int32) error { return a.Send(ids, Actions{Discrete: actions}) }
	if err := sendOne([]int32{0}, 0); err == nil || err.Error() != "rows: 1 are sent and 0 are free, must offer more first" {
		t.Error(err)
	}
	offer(t, v, a, 2)
	for want, err := range map[string]error{
		"env_id: 4, must be 0 to 3":                               sendOne([]int32{0, 4}, 0, 0),
		"env_id: -1, must be 0 to 3":                              sendOne([]int32{-1}, 0),
		"env_id: 2, is under way already, must be received first": sendOne([]int32{2, 1, 2}, 0, 0, 0),
		"env_id: 0, is under way already, must be received first": sendOne([]int32{0, 1, 2, 3, 0}, 0, 0, 0, 0, 0),
		"actions: 1, must be 2, one for each environment":         sendOne([]int32{0, 1}, 0),
		"actions: 3, must be 2, one for each environment":         sendOne([]int32{0, 1}, 0, 1, 2),
		"actions: 0, must be 1, one for each environment":         a.Send([]int32{0}, Actions{Box: make([]float32, 1)}),
		"environment 3: action: 3, must be 0 to 2":                sendOne([]int32{2, 3}, 0, 3),
		"environment 3: action: -1, must be 0 to 2":               sendOne([]int32{2, 3}, 0, -1),
		"seeds: 1, must be 2, one for each environment":           a.SendReset([]int32{0, 1}, []uint64{1}),
		"seeds: 3, must be 2, one for each environment":           a.SendReset([]int32{0, 1}, []uint64{1, 2, 3}),
		"env_id: 1, is under way already, must be received first": a.SendReset([]int32{1, 1}, []uint64{8, 9}),
	} {
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := v.checkIdle(); err != nil {
		t.Errorf("environments are under way after refused sends: %v", err)
	}
	for i, c := range cs {
		if c.step != 0 || c.episode != 1 {
			t.Errorf("environment %d moved", i)
		}
	}
	send(t, a, 2)
	for want, err := range map[string]error{
		"env_id: 2, is under way already, must be received first":         sendOne([]int32{1, 2}, 0, 0),
		"env_id: 2, is under way already, must be received first\x00":     a.SendReset([]int32{2}, nil),
		"env_id: 2, is under way already, must be received first\x00\x00": sendOne([]int32{0, 1, 3, 2}, 0, 0, 0, 0),
	} {
		if want = strings.TrimRight(want, "\x00"); err == nil || err.Error() != want {
			t.Errorf("%v, want %q", err, want)
		}
	}
	send(t, a, 3, 1, 0)
	for range 2 {
		if r, err := a.Recv(-1); err != nil || !strings.HasSuffix(show(r.Obs, 0), "1.1") {
			t.Errorf("%s", describe(r, err))
		}
	}
	if err := a.Send(nil, Actions{}); err != nil {
		t.Errorf("nothing to send: %v", err)
	}
	for range 2 { // to the end of environment 0's episode
		offer(t, v, a, 1)
		send(t, a, 0, 1)
		if _, err := a.Recv(-1); err != nil {
			t.Fatal(err)
		}
	}
	offer(t, v, a, 1)
	if err := sendOne([]int32{0}, 0); err == nil || !strings.HasPrefix(err.Error(), "environment 0: step after the episode ended") {
		t.Errorf("Disabled: %v", err)
	}
}

func TestAsyncBoxRefuses(t *testing.T) {
	v, rows := newVec(t, func(int) (env.Env, error) { return newInfoCounter(3, box), nil }, 2, 1, NextStep)
	if err := v.Reset(rows, nil); err != nil {
		t.Fatal(err)
	}
	a, err := v.Async(1, 1, -1)
	if err != nil {
		t.Fatal(err)
	}
	offer(t, v, a, 2)
	nan := float32(0)
	nan /= nan
	for want, box := range map[string][]float32{
		"actions: 3 numbers of a box, must be 4, 2 for each environment": {0, 0, 0},
		"environment 1: action[1]: -0.5, must be 0 to 5":                 {-1, 5, 1, -0.5},
		"environment 0: action[0]: 1.0000001, must be -1 to 1":           {1.0000001, 5, 1, 0},
		"environment 1: action[0]: NaN, must be -1 to 1":                 {-1, 5, nan, 0},
	} {
		for _, err := range []error{a.Send([]int32{0, 1}, Actions{Box: box}), v.Step(Actions{Box: box}, rows)} {
			if err == nil || err.Error() != want {
				t.Errorf("%v, want %q", err, want)
			}
		}
	}
	if err := v.StepOne(0, Action{}, rows); err == nil || err.Error() != "environment 0: actions: 0 numbers of a box, must be 2, 2 for each environment" {
		t.Errorf("StepOne: %v", err)
	}
	if err := v.Step(Actions{Box: []float32{-1, 5, 1, 0}}, rows); err != nil {
		t.Error(err)
	}
}

func TestAsyncRefuses(t *testing.T) {
	v, rows := newVec(t, func(int) (env.Env, error) { return newInfoCounter(3, discrete), nil }, 4, 1, SameStep)
	for _, c := range []struct {
		batch, threads int
		want           string
	}{
		{0, 1, "batch_size: 0, must be 1 to 4, and always the same"},
		{5, 1, "batch_size: 5, must be 1 to 4, and always the same"},
		{2, 0, "num_threads: 0, must be at least 1"},
	} {
		if _, err := v.Async(c.batch, c.threads, -1); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	a, err := v.Async(2, 2, -1)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := v.Async(2, 2, -1); b != a || err != nil {
		t.Errorf("asked again: another Async, %v", err)
	}
	if _, err := v.Async(3, 2, -1); err == nil || err.Error() != "batch_size: 3, must be 1 to 4, and always the same" {
		t.Error(err)
	}
	good := newRows(v, 2)
	for want, spoil := range map[string]func(r *Rows){
		"rows.Obs: 15 bytes, must be 16 (2 rows of 8)":      func(r *Rows) { r.Obs = r.Obs[1:] },
		"rows.FinalObs: 0 bytes, must be 16 (2 rows of 8)":  func(r *Rows) { r.FinalObs = nil },
		"rows.Rewards: 1 entries, must be 2":                func(r *Rows) { r.Rewards = r.Rewards[1:] },
		"rows.Ends: 1 entries, must be 2":                   func(r *Rows) { r.Ends = r.Ends[1:] },
		"rows.Starts: 1 entries, must be 2":                 func(r *Rows) { r.Starts = r.Starts[1:] },
		"rows.Infos: 2 columns, must be 3":                  func(r *Rows) { r.Infos = r.Infos[1:] },
		"rows.FinalInfos: 2 columns, must be 3":             func(r *Rows) { r.FinalInfos = r.FinalInfos[1:] },
		"rows.Infos[1]: 31 bytes, must be 32 (2 of given)":  func(r *Rows) { r.Infos = slices.Clone(r.Infos); r.Infos[1] = r.Infos[1][1:] },
		"rows.FinalInfos[2]: 0 bytes, must be 2 (2 of odd)": func(r *Rows) { r.FinalInfos = slices.Clone(r.FinalInfos); r.FinalInfos[2] = nil },
		"rows.IDs: 0 entries, must be 2":                    func(r *Rows) { r.IDs = nil },
	} {
		r := *good
		spoil(&r)
		if err := a.Offer(&r); err == nil || err.Error() != want {
			t.Errorf("%v, want %q", err, want)
		}
	}
	want := "recv: 0 environments are under way, batch_size is 2: must send more first"
	if got := describe(a.Recv(-1)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if err := v.Reset(rows, nil); err != nil {
		t.Fatal(err)
	}

	// All other methods refuse while environments are under way.
	offer(t, v, a, 1)
	send(t, a, 0)
	_, saved := v.Save(1)
	_, _, _, rendered := v.Render(1)
	for _, err := range []error{
		v.Step(Actions{Discrete: make([]int32, 4)}, rows), v.StepOne(1, Action{}, rows), v.Reset(rows, nil), saved, v.Restore(1, nil), rendered,
	} {
		if !errors.Is(err, errUnderWay) {
			t.Errorf("%v, want %v", err, errUnderWay)
		}
	}
	send(t, a, 1)
	if _, err := a.Recv(-1); err != nil {
		t.Fatal(err)
	}
	if err := v.Step(Actions{Discrete: make([]int32, 4)}, rows); err != nil {
		t.Errorf("after all rows were received: %v", err)
	}
}

// blocked makes an Async of environments whose steps send to entered and wait for goOn.
func blocked(t *testing.T, n, batch int) (v *Vec, a *Async, cs []*infoCounter, entered, goOn chan struct{}) {
	t.Helper()
	v, a, cs = infoCounters(t, NextStep, n, batch, 2)
	entered, goOn = make(chan struct{}, 1000), make(chan struct{})
	for _, c := range cs {
		c.onStep = func(*counter) error {
			entered <- struct{}{}
			<-goOn
			return nil
		}
	}
	return v, a, cs, entered, goOn
}

func TestRecvLimit(t *testing.T) {
	v, a, _, _, goOn := blocked(t, 2, 2)
	offer(t, v, a, 2)
	send(t, a, 0, 1)
	for _, limit := range []time.Duration{0, 5 * time.Millisecond} {
		began := time.Now()
		if _, err := a.Recv(limit); !errors.Is(err, fault.ErrTimedOut) || time.Since(began) < limit {
			t.Errorf("%v after %v, want %v after %v", err, time.Since(began), fault.ErrTimedOut, limit)
		}
	}
	close(goOn)
	if got := describe(a.Recv(10 * time.Second)); got != "0:1.1 1:1.1" {
		t.Error(got)
	}
	// A full batch is returned with a limit of 0.
	for range 150 {
		offer(t, v, a, 1)
		send(t, a, 0, 1)
		a.mu.Lock()
		for a.unfinished > 0 {
			a.idle.Wait()
		}
		a.mu.Unlock()
		if _, err := a.Recv(0); err != nil {
			t.Fatal(err)
		}
	}
}

// Drain discards jobs, errors and full batches. The next jobs fill the offered rows again.
func TestAsyncDrain(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	v, a, cs := infoCounters(t, NextStep, 6, 4, 3)
	a.Drain() // nothing is under way
	for range 200 {
		for len(a.blocks) < 2 {
			offer(t, v, a, 1)
		}
		cs[5].onStep = func(*counter) error { return errors.New("boom") }
		ids := []int32{0, 1, 2, 3, 4, 5}
		random.Shuffle(6, func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		send(t, a, ids[:random.IntN(7)]...)
		first := a.blocks[0].rows
		a.Drain()
		if err := v.checkIdle(); err != nil {
			t.Fatal(err)
		}
		cs[5].onStep = nil
		if err := a.SendReset(ids, nil); err != nil {
			t.Fatal(err)
		}
		r, err := a.Recv(10 * time.Second)
		if err != nil || r != first {
			t.Fatalf("%s, want the first rows that were offered", describe(r, err))
		}
		for at := range 4 {
			if !r.Starts[at] || !slices.Contains(ids, r.IDs[at]) {
				t.Fatalf("%s, want first observations", describe(r, nil))
			}
		}
		a.Drain()
	}
}

// Close ends a Recv that waits, waits for the steps in progress and discards the other jobs.
func TestAsyncClose(t *testing.T) {
	v, a, cs, entered, goOn := blocked(t, 6, 6)
	offer(t, v, a, 1)
	send(t, a, 0, 1, 2, 3, 4, 5) // the two threads run two of them
	received := make(chan error)
	go func() {
		_, err := a.Recv(-1)
		received <- err
	}()
	closed := make(chan error)
	<-entered
	<-entered
	go func() { closed <- v.Close() }()
	if err := <-received; !errors.Is(err, fault.ErrClosed) {
		t.Errorf("Recv: %v", err)
	}
	select {
	case <-closed:
		t.Error("closed while steps were running")
	case <-time.After(5 * time.Millisecond):
	}
	close(goOn)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	moved := 0
	for _, c := range cs {
		moved += c.step
	}
	if moved != 2 {
		t.Errorf("%d steps were taken, want the 2 in progress", moved)
	}
	_, recvErr := a.Recv(-1)
	_, asyncErr := v.Async(6, 1, -1)
	for _, err := range []error{
		recvErr, asyncErr, a.Send([]int32{0}, Actions{Discrete: []int32{0}}), a.SendReset([]int32{0}, nil), v.Reset(nil, nil),
	} {
		if !errors.Is(err, fault.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
	drained := make(chan struct{})
	go func() {
		a.Drain()
		close(drained)
	}()
	select {
	case <-drained:
	case <-time.After(5 * time.Second):
		t.Error("Drain waits for jobs that Close discarded")
	}
	if err := v.Close(); err != nil {
		t.Error(err)
	}
}
