package queue

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
)

// twinStep is a step of the naive twin.
type twinStep struct {
	obs, next []byte
	action    []int32
	box       []float32
	mask      []byte
	reward    float32
	updates   uint64
	columns   []float32
	end       env.End
}

// twin holds steps in lists of lists.
type twin struct {
	steps, bound int
	now          [][]twinStep // of each environment, the segment in progress or ended
	over         []bool
	queue        [][]twinStep
	of           []int // the environment of each segment of queue
}

func (w *twin) inside(i int) bool {
	k := len(w.of) - 1
	for k >= 0 && w.of[k] != i {
		k--
	}
	return k < w.bound
}

func (w *twin) join(i int) {
	w.queue, w.of = append(w.queue, w.now[i]), append(w.of, i)
	w.now[i], w.over[i] = nil, false
}

func (w *twin) take(least int) (segments [][]twinStep, of []int) {
	rows, n := 0, 0
	for n < min(len(w.queue), w.bound) && rows < least {
		rows += len(w.queue[n])
		n++
	}
	segments, of = slices.Clone(w.queue[:n]), slices.Clone(w.of[:n])
	w.queue, w.of = w.queue[n:], w.of[n:]
	return segments, of
}

// random makes a random Config.
func random(r *rand.Rand) Config {
	c := Config{
		Obs: env.ObsSpec{DType: env.Uint8, Shape: []int{1 + r.IntN(4)}}, Action: env.ActionSpec{N: 2 + r.IntN(3)},
		Envs: 1 + r.IntN(4), Steps: 1 + r.IntN(5), Bound: 1 + r.IntN(6), Masks: r.IntN(2) == 0,
	}
	if r.IntN(3) == 0 {
		c.Action = env.ActionSpec{Branches: []int32{3, 2}, Low: []float32{-1}, High: []float32{1}}
	}
	c.Columns = []string{"log_prob", "value"}[:r.IntN(3)]
	return c
}

// numbers returns n numbers.
func numbers(r *rand.Rand, n int) []float32 {
	list := make([]float32, n)
	for k := range list {
		list[k] = r.Float32()
	}
	return list
}

func randomStep(r *rand.Rand, c *Config) (s experience.Step, next []byte) {
	s = experience.Step{Action: make([]int32, c.Action.Ints()), Continuous: numbers(r, c.Action.Floats()), Reward: r.Float32(), Updates: r.Uint64(), Columns: numbers(r, len(c.Columns))}
	for b := range s.Action {
		s.Action[b] = int32(r.IntN(c.Action.Branch(b)))
	}
	s.Mask = bytes.Repeat([]byte{1}, c.maskBytes())
	if r.IntN(5) == 0 {
		s.End = []env.End{env.Terminated, env.Truncated, env.Terminated | env.Truncated, env.Lost}[r.IntN(4)]
	}
	next = make([]byte, c.Obs.Bytes())
	for k := range next {
		next[k] = byte(r.Uint32())
	}
	return s, next
}

// compare compares a Batch with segments of the twin.
func compare(c *Config, b *Batch, segments [][]twinStep, of []int) error {
	rows, last := 0, []byte{}
	if len(b.Segments) != len(segments) {
		return fmt.Errorf("%d segments, want %d", len(b.Segments), len(segments))
	}
	size, ints, floats := c.Obs.Bytes(), c.Action.Ints(), c.Action.Floats()
	for k, segment := range segments {
		end := segment[len(segment)-1].end
		if got, want := b.Segments[k], (Segment{of[k], len(segment), end}); got != want {
			return fmt.Errorf("segment %d: %+v, want %+v", k, got, want)
		}
		for _, s := range segment {
			columns := []float32{}
			for _, column := range b.Columns {
				columns = append(columns, column[rows])
			}
			got := twinStep{
				obs: b.Obs[rows*size : (rows+1)*size], action: b.Actions[rows*ints : (rows+1)*ints], box: b.Continuous[rows*floats : (rows+1)*floats],
				reward: b.Rewards[rows], updates: b.Updates[rows], columns: columns,
			}
			got.mask = b.Masks[rows*c.maskBytes() : (rows+1)*c.maskBytes()]
			if want := s; fmt.Sprint(got) != fmt.Sprint(twinStep{want.obs, nil, want.action, want.box, want.mask, want.reward, want.updates, want.columns, 0}) {
				return fmt.Errorf("row %d: %v, want %v", rows, got, want)
			}
			rows++
		}
		if continues(end) {
			last = append(last, segment[len(segment)-1].next...)
		}
	}
	if b.Rows != rows || !bytes.Equal(b.Last, last) {
		return fmt.Errorf("%d rows, last %v, want %d, %v", b.Rows, b.Last, rows, last)
	}
	return nil
}

// operations are those of TestTwin.
var operations = []struct {
	below int // the share of each operation of 12: numbers from the bound before it to this one
	name  string
	do    func(p *player, i int)
}{
	{1, "cut", (*player).cut},
	{8, "step", (*player).step},
	{9, "join", (*player).join},
	{10, "take", (*player).take},
	{11, "save and load", (*player).saveAndLoad},
	{12, "discard", (*player).discard},
}

// player is Segments and their twin, on which operations run.
type player struct {
	*testing.T
	r     *rand.Rand
	c     Config
	s     *Segments
	w     *twin
	obs   [][]byte // the observation of each environment's next step; nil: not open
	least int      // rows of a take
	b     *Batch
	seen  map[string]int // how often an operation ran, or a join outside of the bound
}

func newPlayer(t *testing.T, seed uint64, seen map[string]int) *player {
	r := rand.New(rand.NewPCG(1, seed))
	c := random(r)
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	w := &twin{steps: c.Steps, bound: c.Bound, now: make([][]twinStep, c.Envs), over: make([]bool, c.Envs)}
	least := 1 + r.IntN(8)
	return &player{T: t, r: r, c: c, s: s, w: w, obs: make([][]byte, c.Envs), least: least, b: s.NewBatch(least), seen: seen}
}

func (p *player) cut(i int) {
	p.s.Cut(i)
	if n := len(p.w.now[i]); n > 0 && !p.w.over[i] {
		p.w.over[i], p.w.now[i][n-1].end = true, env.Truncated
	}
	p.obs[i] = nil
}

// step adds a step, or the first observation of a segment.
func (p *player) step(i int) {
	s, w, obs := p.s, p.w, p.obs
	step, next := randomStep(p.r, &p.c)
	switch {
	case w.over[i]:
		if obs[i] != nil && s.Add(i, &step, next) == nil {
			p.Fatal("a step after the end of a segment")
		}
	case obs[i] == nil:
		if s.Open(i) || s.Add(i, &step, next) == nil {
			p.Fatal("a step without a first observation")
		}
		p.begin(i, next)
	default:
		if err := s.Add(i, &step, next); err != nil {
			p.Fatal(err)
		}
		w.now[i] = append(w.now[i], twinStep{obs[i], next, step.Action, step.Continuous, step.Mask, step.Reward, step.Updates, step.Columns, step.End})
		w.over[i] = step.End != 0 || len(w.now[i]) == p.c.Steps
		if obs[i] = next; step.End.Over() { // a lost life alone does not end the episode
			obs[i] = nil
			if p.r.IntN(2) == 0 { // the reset comes before the segment joins
				p.begin(i, next)
			}
		}
	}
}

func (p *player) begin(i int, obs []byte) {
	if err := p.s.Begin(i, obs); err != nil || !p.s.Open(i) {
		p.Fatalf("begin: %v, open: %v", err, p.s.Open(i))
	}
	p.obs[i] = obs
}

func (p *player) join(i int) {
	may := p.w.over[i] && p.w.inside(i)
	if !p.w.inside(i) {
		p.seen["outside"]++
	}
	if err := p.s.Join(i); (err == nil) != may {
		p.Fatalf("join: %v, want %v", err, may)
	}
	if may {
		p.w.join(i)
	}
}

func (p *player) take(int) {
	p.s.Take(p.least, p.b)
	segments, of := p.w.take(p.least)
	if err := compare(&p.c, p.b, segments, of); err != nil {
		p.Fatal(err)
	}
	first := p.b.First(p.b.Rows)
	if err := compare(&p.c, &first, segments, of); err != nil || len(first.Rewards) != p.b.Rows {
		p.Fatalf("the first %d rows: %v", p.b.Rows, err)
	}
}

func (p *player) saveAndLoad(int) { p.s = reloaded(p.T, p.s) }

// discard discards everything, once in 8 times.
func (p *player) discard(int) {
	if p.r.IntN(8) == 0 {
		p.s.Discard()
		p.w.queue, p.w.of = nil, nil
		clear(p.w.now)
		clear(p.w.over)
	}
}

// compare compares the queue, and environment i's segment, with the twin's.
func (p *player) compare(i int) {
	s, w, rows := p.s, p.w, 0
	for _, g := range w.queue[:min(len(w.queue), p.c.Bound)] {
		rows += len(g)
	}
	if s.Len() != min(len(w.queue), p.c.Bound) || s.Rows() != rows || s.Enough(p.least) != (rows >= p.least) || s.Ended(i) != w.over[i] || s.Inside(i) != w.inside(i) || s.Open(i) != (p.obs[i] != nil) {
		p.Fatalf("%d segments of %d rows, want %d of %d", s.Len(), s.Rows(), len(w.queue), rows)
	}
}

// Random steps, cuts, joins, takes, saves and loads, against lists of lists.
func TestTwin(t *testing.T) {
	seen := map[string]int{}
	for seed := range 300 {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			p := newPlayer(t, uint64(seed), seen)
			for range 400 {
				i, k := p.r.IntN(p.c.Envs), p.r.IntN(12)
				for _, o := range operations {
					if k < o.below {
						seen[o.name]++
						o.do(p, i)
						break
					}
				}
				p.compare(i)
			}
		})
	}
	if seen["take"] < 1000 || seen["save and load"] < 1000 || seen["outside"] < 100 {
		t.Errorf("the test shows nothing: %v", seen)
	}
}

// reloaded saves segments and loads them into others, whose saved form is the same.
func reloaded(t *testing.T, s *Segments) *Segments {
	t.Helper()
	var file, again bytes.Buffer
	next, err := New(s.cfg)
	if err == nil {
		err = s.Save(&file)
	}
	if err != nil {
		t.Fatal(err)
	}
	text := bytes.Clone(file.Bytes())
	adopt, err := next.Load(&file, int64(file.Len()))
	if err != nil {
		t.Fatal(err)
	}
	adopt()
	if err := next.Save(&again); err != nil || !bytes.Equal(text, again.Bytes()) {
		t.Fatalf("saved again with other bytes, %v", err)
	}
	return next
}

// Files that are cut off, of another Config, or damaged are refused, or load as something that can
// be used.
func TestLoadRefuses(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	c := Config{Obs: env.ObsSpec{DType: env.Float32, Shape: []int{2}}, Action: env.ActionSpec{N: 3}, Envs: 2, Steps: 3, Bound: 2, Masks: true, Columns: []string{"value"}}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		for range 7 {
			step, _ := randomStep(r, &c)
			step.End = 0
			if !s.Open(i) {
				err = s.Begin(i, make([]byte, 8))
			}
			if err = errors.Join(err, s.Add(i, &step, make([]byte, 8))); s.Ended(i) {
				err = errors.Join(err, s.Join(i))
			}
			if err != nil {
				t.Fatal(err)
			}
			if !s.Inside(i) {
				break
			}
		}
	}
	var file bytes.Buffer
	if err := s.Save(&file); err != nil {
		t.Fatal(err)
	}
	text := file.Bytes()
	load := func(text []byte) error {
		_, err := s.Load(bytes.NewReader(text), int64(len(text)))
		return err
	}
	for n := range text {
		if load(text[:n]) == nil {
			t.Fatalf("%d bytes of %d were accepted", n, len(text))
		}
	}
	if err := load(append(bytes.Clone(text), 0)); !errors.Is(err, checkpoint.ErrFormat) {
		t.Errorf("a byte too many: %v", err)
	}
	other := c
	other.Steps = 4
	if o, err := New(other); err != nil {
		t.Fatal(err)
	} else if _, err := o.Load(bytes.NewReader(text), int64(len(text))); err == nil {
		t.Error("another Config was accepted")
	}
	refused := 0
	for at := range text {
		for _, bit := range []byte{1, 0x80} {
			forged := bytes.Clone(text)
			forged[at] ^= bit
			next, _ := New(c)
			adopt, err := next.Load(bytes.NewReader(forged), int64(len(forged)))
			if err != nil {
				refused++
				continue
			}
			adopt()
			b := next.NewBatch(4)
			for next.Take(4, b) > 0 {
			}
			for i := range c.Envs {
				step, _ := randomStep(r, &c)
				next.Cut(i)
				if err := next.Begin(i, make([]byte, 8)); err != nil {
					t.Fatal(err)
				}
				if next.Ended(i) {
					err = next.Join(i)
				}
				if err = errors.Join(err, next.Add(i, &step, make([]byte, 8))); err != nil {
					t.Fatalf("byte %d: %v", at, err)
				}
			}
		}
	}
	if refused < 100 {
		t.Errorf("%d forgeries were refused", refused)
	}
}

func TestRequests(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for range 100 {
		bound := 1 + r.IntN(5)
		q, want := NewRequests(bound), []int{}
		for range 100 {
			switch i := r.IntN(8); {
			case r.IntN(3) == 0:
				most := 1 + r.IntN(4)
				n := min(most, bound, len(want))
				if got := q.Take(most, nil); !slices.Equal(got, want[:n]) {
					t.Fatalf("%v, want %v", got, want[:n])
				}
				want = want[n:]
			case slices.Contains(want, i):
				q.Remove(i)
				want = slices.DeleteFunc(want, func(j int) bool { return j == i })
			default:
				q.Join(i)
				want = append(want, i)
			}
			list := q.List()
			if q.Len() != min(bound, len(want)) || !reflect.DeepEqual(list, append([]int{}, want...)) || CheckList(list, 8) != nil {
				t.Fatalf("%v, want %v", list, want)
			}
			q.Set(list)
		}
	}
	for _, list := range [][]int{{-1}, {3}, {1, 1}} {
		if CheckList(list, 3) == nil {
			t.Errorf("%v was accepted", list)
		}
	}
}
