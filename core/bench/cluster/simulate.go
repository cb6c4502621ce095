package cluster

import (
	"maps"
	"math"
	"slices"

	"github.com/paceline-rl/paceline/core/rng"
)

// Result is what a cluster did, without its first updates.
type Result struct {
	Updates   float64    `json:"updates_per_second"` // of the server
	Steps     float64    `json:"steps_per_second"`   // of all environments
	Lag       float64    `json:"lag"`                // mean
	LagMost   int        `json:"lag_most"`
	Lags      []Lags     `json:"lags"` // from the smallest to the largest
	Resources []Resource `json:"resources"`
	Limit     string     `json:"limit"` // of the resources that limit the rate, the one that is used most
}

// Lags is the share of the gradients with one of some neighbouring lags.
type Lags struct {
	From  int     `json:"from"`
	To    int     `json:"to"`
	Share float64 `json:"share"`
}

// mostLags is the largest number of Lags of a result. Each has as many lags as the others; the last
// one may have fewer.
const mostLags = 12

// warmRounds is the number of updates of each bundle before those that count.
const warmRounds = 4

// leastRounds is the smallest number of updates of each bundle that count.
const leastRounds = 4

// Simulate runs a cluster for a number of server updates that count, and at least 4 of each bundle.
// Its result is a function of its arguments.
func Simulate(c Cluster, k Costs, updates int, seed uint64) Result {
	s := newSimulation(c, k, updates, seed)
	s.run()
	return s.result()
}

// Visits returns the visits of all shards that Simulate simulates.
func (c *Cluster) Visits(updates int) int64 {
	_, _, stop := c.window(updates)
	return int64(stop) * int64(c.Shards)
}

// window returns the server updates after which the others count, those up to which they count, and
// those after which no bundle starts another one: later, so that all bundles work in the window.
func (c *Cluster) window(updates int) (from, to, stop int) {
	n := c.Bundles
	from = n * (warmRounds + c.Delay)
	to = from + max(updates, leastRounds*n)
	return from, to, to + n*(c.Delay+1)
}

type simulation struct {
	Cluster
	k        Costs
	now      float64
	events   queue
	pool     *pool // nil: each part has a machine of its own
	bundles  []bundle
	shards   []shard
	keepers  [Keepers]keeper
	started  int // updates
	from, to int // visits of the last shard that count: after from, until to
	stop     int // updates after which no bundle starts another one
	began    float64
	ended    float64
	lags     map[int]int // gradients by lag
}

type bundle struct {
	draws   *rng.Stream
	made    int32     // updates
	waits   bool      // the learner, for answers
	out, in float64   // when the links are free
	seen    []int32   // visits of others when a shard answered, by slot and shard
	answers []answers // by slot
	sender  caller
	reader  caller
}

// caller is a thread that makes one call for each shard and update, in order.
type caller struct {
	done int     // calls, of all updates
	due  int     // calls that can be made: of gradients that are computed
	busy bool    // where cores are shared
	free float64 // when all calls that were due are done, on a machine of its own
}

// answers are those to one update.
type answers struct {
	count int       // that were given
	lag   int       // the largest so far
	whole []float64 // by shard: when an answer was at the bundle; NaN: not yet
	read  int
	at    float64 // when all were read; known if they are
}

// slots is the number of updates of a bundle that the simulation remembers: those under way, the
// one whose answers the bundle has, and the one that it computes.
func (c *Cluster) slots() int { return c.Delay + 2 }

func newSimulation(c Cluster, k Costs, updates int, seed uint64) *simulation {
	n := c.Bundles
	s := &simulation{Cluster: c, k: k, bundles: make([]bundle, n), shards: make([]shard, c.Shards), lags: map[int]int{}}
	s.from, s.to, s.stop = c.window(updates)
	if c.Cores > 0 {
		s.pool = &pool{cores: c.Cores}
	}
	for j := range s.shards {
		s.shards[j] = newShard(&c, &k, j)
	}
	for i := range s.bundles {
		b := &s.bundles[i]
		*b = bundle{draws: rng.New(seed, "bundle", i), seen: make([]int32, c.slots()*c.Shards), answers: make([]answers, c.slots())}
		for slot := range b.answers {
			b.answers[slot].whole = make([]float64, c.Shards)
		}
		// The bundles do not begin at the same time.
		s.events.add(float64(b.draws.Float64()*k.compute(c.Steps)), event{kind: learnerGoes, bundle: int32(i)})
	}
	return s
}

func (s *simulation) run() {
	for len(s.events.items) > 0 {
		next := s.events.take()
		s.now = next.key
		s.happen(next.event)
	}
}

func (s *simulation) happen(e event) {
	switch e.kind {
	case learnerGoes:
		s.start(e.bundle)
	case learnerWorks:
		s.compute(e)
	case learnerDone:
		s.computed(e)
	case pushDone:
		s.pushed(e)
	case pushComes:
		s.comes(e)
	case answerComes:
		s.answerComes(e)
	case getDone:
		s.got(e)
	case shardDone:
		at := &s.shards[e.shard]
		at.busy = false
		s.answer(e, s.now)
		s.visit(at)
	case copyComes:
		s.copyComes(e)
	case keeperDone:
		s.kept(e)
	case poolDone:
		s.finish(e)
	}
}

// work lets a thread compute.
func (s *simulation) work(seconds float64, then event) {
	if s.pool == nil {
		s.events.add(s.now+seconds, then)
		return
	}
	s.pool.advance(s.now)
	s.pool.jobs.add(s.pool.clock+seconds, then)
	s.expect()
}

// expect adds the end of the next job of the pool.
func (s *simulation) expect() {
	p := s.pool
	p.next++
	if len(p.jobs.items) > 0 {
		left := p.jobs.items[0].key - p.clock
		s.events.add(s.now+max(0, left/p.speed()), event{kind: poolDone, update: p.next})
	}
}

// finish ends a job of the pool, if no job came or went since e was added.
func (s *simulation) finish(e event) {
	p := s.pool
	if e.update != p.next {
		return
	}
	done := p.jobs.items[0]
	p.at, p.clock = s.now, done.key
	p.jobs.take()
	s.expect()
	s.happen(done.event)
}

func (s *simulation) slot(update int32) int { return int(update) % s.slots() }

// start lets a learner compute its next update.
func (s *simulation) start(i int32) {
	if s.started == s.stop {
		return
	}
	s.started++
	b := &s.bundles[i]
	b.made++
	a := &b.answers[s.slot(b.made)]
	a.count, a.lag, a.read = 0, 0, 0
	for j := range a.whole {
		a.whole[j] = math.NaN()
	}
	e := event{kind: learnerWorks, bundle: i, update: b.made}
	if s.pool == nil {
		s.compute(e)
		return
	}
	s.events.add(s.now+s.k.Pause, e)
}

// compute lets a learner take its steps and compute its gradient.
func (s *simulation) compute(e event) {
	computing := s.k.compute(s.Steps)
	e.kind = learnerDone
	s.work(float64(computing*s.k.vary(s.bundles[e.bundle].draws)), e)
}

// computed gives a gradient to the sender, and lets the learner go on if it has the answers that it
// needs.
func (s *simulation) computed(e event) {
	b := &s.bundles[e.bundle]
	b.sender.due += len(s.shards)
	s.push(e.bundle)
	needed := e.update - int32(s.Delay)
	if needed < 1 {
		s.start(e.bundle)
		return
	}
	if a := &b.answers[s.slot(needed)]; a.read == len(s.shards) {
		s.events.add(max(s.now, a.at), event{kind: learnerGoes, bundle: e.bundle})
		return
	}
	b.waits = true
}

// call returns the event of a caller's next call.
func (s *simulation) call(kind kind, i int32, c *caller) event {
	return event{kind, i, int32(c.done % len(s.shards)), int32(c.done/len(s.shards)) + 1}
}

// push lets a sender push what is due.
func (s *simulation) push(i int32) {
	b := &s.bundles[i]
	c := &b.sender
	if s.pool == nil {
		for ; c.done < c.due; c.done++ {
			e := s.call(pushComes, i, c)
			at := &s.shards[e.shard]
			c.free = max(c.free, s.now) + at.push
			s.events.add(max(s.now, s.transmit(&b.out, c.free, at.bytes)+at.wait), e)
		}
		return
	}
	if !c.busy && c.done < c.due {
		c.busy = true
		e := s.call(pushDone, i, c)
		s.work(s.shards[e.shard].push, e)
	}
}

// pushed ends a call of a sender.
func (s *simulation) pushed(e event) {
	c := &s.bundles[e.bundle].sender
	c.done++
	c.busy = false
	s.push(e.bundle)
	e.kind = pushComes
	s.work(s.shards[e.shard].wait, e)
}

// answerComes receives an answer.
func (s *simulation) answerComes(e event) {
	b := &s.bundles[e.bundle]
	b.answers[s.slot(e.update)].whole[e.shard] = s.receive(&b.in, s.shards[e.shard].bytes)
	s.get(e.bundle)
}

// get lets a reader get the answers that are there. It waits for each in turn.
func (s *simulation) get(i int32) {
	c := &s.bundles[i].reader
	for !c.busy && c.done < s.bundles[i].sender.done {
		e := s.call(getDone, i, c)
		whole := s.bundles[i].answers[s.slot(e.update)].whole[e.shard]
		switch {
		case math.IsNaN(whole):
			return
		case s.pool == nil:
			c.free = max(c.free, whole) + s.shards[e.shard].get
			s.read(e, c.free)
		default:
			c.busy = true
			s.work(s.shards[e.shard].get, e)
		}
	}
}

// got ends a call of a reader.
func (s *simulation) got(e event) {
	s.bundles[e.bundle].reader.busy = false
	s.read(e, s.now)
	s.get(e.bundle)
}

// read counts an answer that is read at a time. The last one of an update lets a learner go on that
// waits for it.
func (s *simulation) read(e event, at float64) {
	b := &s.bundles[e.bundle]
	a := &b.answers[s.slot(e.update)]
	b.reader.done++
	a.read++
	a.at = at
	if a.read == len(s.shards) && b.waits && e.update == b.made-int32(s.Delay) {
		b.waits = false
		s.events.add(at, event{kind: learnerGoes, bundle: e.bundle})
	}
}

// transmit puts a message that is ready at a time onto an outgoing link that is free at a time. It
// returns when the first byte is at the link of the receiver.
func (s *simulation) transmit(free *float64, ready, bytes float64) float64 {
	begins := max(ready, *free)
	*free = begins + bytes/s.Speed
	return begins + s.Latency
}

// receive lets a message through an incoming link, at which its first byte is now. It returns when
// the message is whole.
func (s *simulation) receive(free *float64, bytes float64) float64 {
	if s.pool == nil {
		*free = max(s.now, *free) + bytes/s.Speed
	} else {
		*free = s.now
	}
	return *free
}

// given sends an answer, which leaves the shard `at` at a time.
func (s *simulation) given(e event, at *shard, left float64) {
	a := &s.bundles[e.bundle].answers[s.slot(e.update)]
	if a.count++; a.count == len(s.shards) {
		s.count(a.lag)
	}
	e.kind = answerComes
	if s.pool == nil {
		s.events.add(s.transmit(&at.out, left, at.bytes)+at.wait, e)
		return
	}
	s.work(at.wait, e)
}

// count counts the lag of a gradient, after the first ones.
func (s *simulation) count(lag int) {
	if s.began == 0 || s.ended > 0 {
		return
	}
	s.lags[lag]++
}

func (s *simulation) result() Result {
	r := Result{Updates: float64(s.to-s.from) / (s.ended - s.began)}
	r.Steps = r.Updates * float64(s.Steps)
	s.histogram(&r)
	r.Resources = s.resources(&s.k, r.Updates)
	most := 0.0
	for _, u := range r.Resources {
		if u.limits() && u.Used > most {
			most, r.Limit = u.Used, u.Name
		}
	}
	return r
}

// histogram sets what a result says of the lags.
func (s *simulation) histogram(r *Result) {
	if len(s.lags) == 0 {
		return
	}
	lags := slices.Sorted(maps.Keys(s.lags))
	least, most := lags[0], lags[len(lags)-1]
	width := (most - least + mostLags) / mostLags
	for from := least; from <= most; from += width {
		r.Lags = append(r.Lags, Lags{From: from, To: min(from+width-1, most)})
	}
	counted, sum := 0, 0
	for _, lag := range lags {
		counted += s.lags[lag]
		sum += lag * s.lags[lag]
	}
	for _, lag := range lags {
		r.Lags[(lag-least)/width].Share += float64(s.lags[lag]) / float64(counted)
	}
	r.Lag, r.LagMost = float64(sum)/float64(counted), most
}
