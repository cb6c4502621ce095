package vec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/rng"
)

// infoCounter is a counter with infos: its step, its last action, and whether the step is odd.
type infoCounter struct {
	*counter
	given [4]float32 // the integers, then the box
}

// The four kinds of actions.
var (
	discrete = env.ActionSpec{N: 3}
	branches = env.ActionSpec{Branches: []int32{3, 5}}
	box      = env.ActionSpec{Low: []float32{-1, 0}, High: []float32{1, 5}}
	hybrid   = env.ActionSpec{Branches: []int32{4, 2}, Low: []float32{-1, 0}, High: []float32{1, 5}}
)

func newInfoCounter(length int, action env.ActionSpec) *infoCounter {
	s := &infoCounter{counter: newCounter(length, env.Terminated)}
	s.spec.Action = action
	return s
}

func (s *infoCounter) Reset(obs []byte) error {
	s.given = [4]float32{}
	return s.counter.Reset(obs)
}

func (s *infoCounter) Step(action int32, obs []byte) (float32, env.End, error) {
	s.given[0] = float32(action)
	return s.counter.Step(action, obs)
}

func (s *infoCounter) StepAction(branches []int32, box []float32, obs []byte) (float32, env.End, error) {
	for b, a := range branches {
		s.given[b] = float32(a)
	}
	copy(s.given[len(branches):], box)
	return s.counter.Step(0, obs)
}

func (s *infoCounter) Infos() []env.InfoSpec {
	return []env.InfoSpec{{Name: "step", DType: env.Int32}, {Name: "given", DType: env.Float32, Len: 4}, {Name: "odd", DType: env.Bool}}
}

func (s *infoCounter) Inform(columns [][]byte, i int) {
	binary.NativeEndian.PutUint32(columns[0][4*i:], uint32(s.step))
	for k, x := range s.given {
		binary.NativeEndian.PutUint32(columns[1][16*i+4*k:], math.Float32bits(x))
	}
	columns[2][i] = byte(s.step % 2)
}

// delayedCounter is an env.Delayer: it takes a step before it gets the memory for the observation.
type delayedCounter struct{ *infoCounter }

func (s delayedCounter) Advance(branches []int32, box []float32) (float32, env.End, error) {
	var unseen [8]byte
	return s.StepAction(branches, box, unseen[:])
}

func (s delayedCounter) Observe(obs []byte) { s.show(obs) }

// newRows returns rows for a batch, filled with values that no step writes.
func newRows(v *Vec, batch int) *Rows {
	r := NewRows(v.Spec().Obs, batch)
	r.AddInfos(v.Infos())
	r.IDs = make([]int32, batch)
	for _, b := range append(append([][]byte{r.Obs, r.FinalObs}, r.Infos...), r.FinalInfos...) {
		for k := range b {
			b[k] = 0xEE
		}
	}
	for k := range batch {
		r.IDs[k], r.Rewards[k], r.Ends[k] = -1, -1, 0xEE
	}
	return r
}

// rowRecord returns the whole content of a row.
func rowRecord(v *Vec, r *Rows, at int) (b []byte) {
	b = append(b, row(r.Obs, at, v.bytes)...)
	b = binary.LittleEndian.AppendUint32(b, math.Float32bits(r.Rewards[at]))
	b = fmt.Appendf(b, " %d %v ", r.Ends[at], r.Starts[at])
	for k, s := range v.infos {
		b = append(b, row(r.Infos[k], at, s.Bytes())...)
	}
	if v.mode == SameStep && r.Ends[at].Over() {
		b = append(b, row(r.FinalObs, at, v.bytes)...)
		for k, s := range v.infos {
			b = append(b, row(r.FinalInfos[k], at, s.Bytes())...)
		}
	}
	return b
}

// drawAction draws a random action.
func drawAction(s *rng.Stream, spec env.ActionSpec) (a Action) {
	for k := range spec.Low {
		a.Box = append(a.Box, float32(s.Uniform(float64(spec.Low[k]), float64(spec.High[k]))))
	}
	for b := range spec.Ints() {
		a.Discrete = append(a.Discrete, int32(s.Intn(spec.Branch(b))))
	}
	return a
}

// serialRecords plays a single environment in a plain loop and returns the expected rows of its
// jobs: the first reset, then a step or, after an end, the reset of the mode.
func serialRecords(t *testing.T, v *Vec, e env.Env, i, jobs int) (records [][]byte) {
	t.Helper()
	r := newRows(v, 1)
	e.Seed(SeedFor(3, i))
	actions := rng.New(3, "explore", i)
	inform := func(columns [][]byte) {
		if e, ok := e.(env.Informer); ok {
			e.Inform(columns, 0)
		}
	}
	over := true
	for range jobs {
		var err error
		action := drawAction(actions, e.Spec().Action)
		r.Rewards[0], r.Ends[0], r.Starts[0] = 0, 0, over
		switch {
		case over:
			err = e.Reset(r.Obs)
		case e.Spec().Action.N == 0:
			r.Rewards[0], r.Ends[0], err = e.(env.ActionEnv).StepAction(action.Discrete, action.Box, r.Obs)
		default:
			r.Rewards[0], r.Ends[0], err = e.Step(action.Discrete[0], r.Obs)
		}
		over = r.Ends[0].Over()
		if over && v.mode == SameStep {
			over = false
			copy(r.FinalObs, r.Obs)
			inform(r.FinalInfos)
			err = errors.Join(err, e.Reset(r.Obs))
			r.Starts[0] = true
		}
		if err != nil {
			t.Fatal(err)
		}
		inform(r.Infos)
		records = append(records, rowRecord(v, r, 0))
	}
	return records
}

// player sends to an Async in random order and records the rows of each environment.
type player struct {
	v       *Vec
	a       *Async
	random  *rand.Rand
	streams []*rng.Stream
	over    []bool // the next send is a reset
	ready   []int32
	offered []*Rows
	records [][][]byte
}

func newPlayer(t *testing.T, v *Vec, batch, threads int, random *rand.Rand) *player {
	t.Helper()
	a, err := v.Async(batch, threads, -1)
	if err != nil {
		t.Fatal(err)
	}
	n := v.Len()
	p := &player{v: v, a: a, random: random, over: make([]bool, n), records: make([][][]byte, n)}
	seeds := make([]uint64, n)
	for i := range n {
		p.streams = append(p.streams, rng.New(3, "explore", i))
		drawAction(p.streams[i], v.Spec().Action) // serialRecords draws an action for the reset, too
		p.ready = append(p.ready, int32(i))
		seeds[i] = SeedFor(3, i)
	}
	p.offer(t, n)
	if err := a.SendReset(p.ready, seeds); err != nil {
		t.Fatal(err)
	}
	p.ready = p.ready[:0]
	return p
}

// offer offers rows for n more environments, and sometimes more than that.
func (p *player) offer(t *testing.T, n int) {
	t.Helper()
	for len(p.offered)*p.a.batch < p.a.sent+n || p.random.IntN(9) == 0 && len(p.offered) < 9 {
		r := newRows(p.v, p.a.batch)
		if err := p.a.Offer(r); err != nil {
			t.Fatal(err)
		}
		p.offered = append(p.offered, r)
	}
}

// send sends to some of the environments that are ready, in random order.
func (p *player) send(t *testing.T) {
	t.Helper()
	p.random.Shuffle(len(p.ready), func(i, j int) { p.ready[i], p.ready[j] = p.ready[j], p.ready[i] })
	n := p.random.IntN(len(p.ready) + 1)
	p.offer(t, n)
	var ids, resets []int32
	var actions Actions
	for _, id := range p.ready[:n] {
		action := drawAction(p.streams[id], p.v.Spec().Action)
		if p.v.mode == Disabled && p.over[id] {
			resets = append(resets, id)
			continue
		}
		ids = append(ids, id)
		actions.Discrete = append(actions.Discrete, action.Discrete...)
		actions.Box = append(actions.Box, action.Box...)
	}
	p.ready = slices.Delete(p.ready, 0, n)
	if err := errors.Join(p.a.SendReset(resets, nil), p.a.Send(ids, actions)); err != nil {
		t.Fatal(err)
	}
}

// recv receives a batch and records its rows.
func (p *player) recv(t *testing.T) {
	t.Helper()
	r, err := p.a.Recv(10 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if r != p.offered[0] {
		t.Fatal("rows are not those that were offered first")
	}
	p.offered = p.offered[1:]
	for at, id := range r.IDs {
		if len(r.IDs) == p.v.Len() && int(id) != at {
			t.Fatalf("row %d is environment %d's", at, id)
		}
		p.over[id] = r.Ends[at].Over()
		p.records[id] = append(p.records[id], rowRecord(p.v, r, at))
		if slices.Contains(p.ready, id) {
			t.Fatalf("environment %d has two rows", id)
		}
		p.ready = append(p.ready, id)
	}
}

// The rows of an environment do not depend on the order of the sends, the batch size and the number
// of threads. They equal those of an environment that is played in a plain loop.
func TestAsyncEqualsSingles(t *testing.T) {
	const n = 11
	for name, mk := range map[string]func(i int) (env.Env, error){
		"counters":      func(i int) (env.Env, error) { return newInfoCounter(1+i%4, discrete), nil },
		"late counters": func(i int) (env.Env, error) { return delayedCounter{newInfoCounter(1+i%4, discrete)}, nil },
		"boxes":         func(i int) (env.Env, error) { return newInfoCounter(1+i%4, box), nil },
		"late boxes":    func(i int) (env.Env, error) { return delayedCounter{newInfoCounter(1+i%4, box)}, nil },
		"branches":      func(i int) (env.Env, error) { return newInfoCounter(1+i%4, branches), nil },
		"late branches": func(i int) (env.Env, error) { return delayedCounter{newInfoCounter(1+i%4, branches)}, nil },
		"hybrids":       func(i int) (env.Env, error) { return newInfoCounter(1+i%4, hybrid), nil },
		"late hybrids":  func(i int) (env.Env, error) { return delayedCounter{newInfoCounter(1+i%4, hybrid)}, nil },
		"CartPole":      func(int) (env.Env, error) { return env.Make("CartPole-v1", nil) },
		"Catch":         func(int) (env.Env, error) { return env.Make("Catch-v0", nil) },
	} {
		for _, mode := range []Autoreset{NextStep, SameStep, Disabled} {
			for k, batch := range []int{1, 3, 7, n} {
				threads := 1 + (k+int(mode)+len(name))%5
				v, _ := newVec(t, mk, n, 1, mode)
				p := newPlayer(t, v, batch, threads, rand.New(rand.NewPCG(uint64(batch), uint64(threads))))
				for received := 0; received < 30*n; {
					p.send(t)
					if p.a.sent >= batch {
						p.recv(t)
						received += batch
					}
				}
				for i, got := range p.records {
					e, err := mk(i)
					if err != nil {
						t.Fatal(err)
					}
					for k, want := range serialRecords(t, v, e, i, len(got)) {
						if !bytes.Equal(got[k], want) {
							t.Fatalf("%s, %v, batch %d, %d threads: row %d of environment %d is\n%q, must be\n%q", name, mode, batch, threads, k, i, got[k], want)
						}
					}
				}
			}
		}
	}
}

// Many threads send and receive, and environments fail now and then. Meant for -race.
func TestAsyncHammer(t *testing.T) {
	rounds := 3000
	if testing.Short() {
		rounds = 300
	}
	const n, batch = 23, 5
	var fails sync.Map
	v, _ := newVec(t, func(i int) (env.Env, error) {
		s := newInfoCounter(1+i%5, discrete)
		hook := func(c *counter) error {
			if c.step == 3 && c.episode%4 == 0 {
				fails.Store(i, true)
				panic("kaboom")
			}
			return nil
		}
		s.onStep = hook
		if i%2 == 0 {
			return delayedCounter{s}, nil
		}
		return s, nil
	}, n, 1, SameStep)
	a, err := v.Async(batch, 5, -1)
	if err != nil {
		t.Fatal(err)
	}
	// One goroutine receives, two send, one offers.
	ready, reset, offered := make(chan int32, n), make(chan int32, n), make(chan *Rows, 100)
	freeRows := make(chan struct{}, 1000) // a token for each row offered
	var senders sync.WaitGroup
	senders.Go(func() {
		for r := range offered {
			if err := a.Offer(r); err != nil {
				t.Error(err)
			}
			for range batch {
				freeRows <- struct{}{}
			}
		}
	})
	for range 2 {
		senders.Go(func() {
			for ready, reset := ready, reset; ready != nil || reset != nil; {
				var err error
				select {
				case id, ok := <-ready:
					if !ok {
						ready = nil
						continue
					}
					<-freeRows
					err = a.Send([]int32{id}, Actions{Discrete: []int32{id % 3}})
				case id, ok := <-reset:
					if !ok {
						reset = nil
						continue
					}
					<-freeRows
					err = a.SendReset([]int32{id}, nil)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 3 * n / batch {
		offered <- newRows(v, batch)
	}
	for i := range int32(n) {
		reset <- i
	}
	for got, failures := 0, 0; got < rounds; {
		r, err := a.Recv(10 * time.Second)
		var e *env.Error
		switch {
		case errors.As(err, &e):
			failures++
			freeRows <- struct{}{} // the failed environment has no row
			reset <- int32(e.Index)
		case err != nil && strings.HasPrefix(err.Error(), "recv: "):
			time.Sleep(10 * time.Microsecond) // the senders are late
		case err != nil:
			t.Fatal(err)
		default:
			got++
			for _, id := range slices.Clone(r.IDs) {
				ready <- id
			}
			offered <- r
		}
		if got == rounds && failures == 0 {
			t.Error("no environment failed")
		}
	}
	close(ready)
	close(reset)
	close(offered)
	senders.Wait()
	if err := v.Close(); err != nil {
		t.Error(err)
	}
}

// A batch allocates a block, its channel and the list of blocks, independent of the batch size. A
// step allocates nothing.
func TestAsyncAllocates(t *testing.T) {
	const n, batch = 8, 4
	v, rows := newVec(t, func(int) (env.Env, error) { return env.Make("Catch-v0", nil) }, n, 1, SameStep)
	if err := v.Reset(rows, nil); err != nil {
		t.Fatal(err)
	}
	a, err := v.Async(batch, 2, -1)
	if err != nil {
		t.Fatal(err)
	}
	offer(t, v, a, 2)
	ids, actions := []int32{0, 1, 2, 3, 4, 5, 6, 7}, make([]int32, batch)
	if err := errors.Join(a.Send(ids[:4], Actions{Discrete: actions}), a.Send(ids[4:], Actions{Discrete: actions})); err != nil {
		t.Fatal(err)
	}
	got := testing.AllocsPerRun(500, func() {
		r, err := a.Recv(-1)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(a.Offer(r), a.Send(r.IDs, Actions{Discrete: actions})); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("%v allocations a batch of %d steps", got, batch)
	if got > 3 {
		t.Errorf("%v allocations a batch, want at most 3", got)
	}
}
