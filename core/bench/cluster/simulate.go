package cluster

import (
	"math"
	"math/bits"

	"github.com/paceline-rl/paceline/core/rng"
)

// Result is what a cluster did, without its first updates.
type Result struct {
	Updates float64 `json:"updates_per_second"` // of the server
	Steps   float64 `json:"steps_per_second"`   // of all environments
	Lag     float64 `json:"lag"`                // mean
	LagMost int     `json:"lag_most"`
	// Lags are shares of the gradients whose lag was 0, 1, 2 to 3, 4 to 7, and so on; the last one is open.
	Lags      []float64  `json:"lags"`
	Resources []Resource `json:"resources"`
	Limit     string     `json:"limit"` // of the resources that limit the rate, the one that is used most
}

// LagBuckets is the number of shares of lags.
const LagBuckets = 13

// warmRounds is the number of updates of each bundle before those that count.
const warmRounds = 4

// leastRounds is the smallest number of updates of each bundle that count.
const leastRounds = 4

// Simulate runs a cluster for a number of server updates that count, and at least 4 of each bundle. Its
// result is a function of its arguments.
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
	calls    float64 // of a bundle for an update, seconds
	array    float64 // bytes of all messages with the parameters of all shards
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
	lags     [LagBuckets]int
	lagSum   int
	lagMost  int
}

type bundle struct {
	draws   *rng.Stream
	made    int32 // updates
	waits   bool  // for answers
	out, in float64
	seen    []int32   // visits of others when a shard answered, by slot and shard
	answers []answers // by slot
}

// answers are those to one update.
type answers struct {
	count       int
	lag         int     // the largest so far
	first, last float64 // when the first byte of all of them was at the bundle's link, and the last byte
	at          float64 // when the link has carried them all; known if all have been given
}

// slots is the number of updates of a bundle that the simulation remembers: those under way, the one
// whose answers the bundle has, and the one that it computes.
func (c *Cluster) slots() int { return c.Delay + 2 }

func newSimulation(c Cluster, k Costs, updates int, seed uint64) *simulation {
	n := c.Bundles
	s := &simulation{Cluster: c, k: k, bundles: make([]bundle, n), shards: make([]shard, c.Shards), calls: k.calls(c.Shards)}
	s.from, s.to, s.stop = c.window(updates)
	if c.Cores > 0 {
		s.pool = &pool{cores: c.Cores}
	}
	for j := range s.shards {
		s.shards[j] = newShard(&c, &k, j)
		s.array += s.shards[j].bytes
	}
	for i := range s.bundles {
		b := &s.bundles[i]
		*b = bundle{draws: rng.New(seed, "bundle", i), seen: make([]int32, c.slots()*c.Shards), answers: make([]answers, c.slots())}
		// The bundles do not begin at the same time.
		s.events.add(float64(b.draws.Float64()*(k.compute(c.Steps)+s.calls)), event{kind: bundleGoes, bundle: int32(i)})
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
	case bundleGoes:
		s.start(e.bundle)
	case bundleDone:
		s.send(e)
	case pushComes:
		s.comes(e)
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

// start lets a bundle compute its next update.
func (s *simulation) start(i int32) {
	if s.started == s.stop {
		return
	}
	s.started++
	b := &s.bundles[i]
	b.made++
	b.answers[s.slot(b.made)] = answers{first: math.Inf(1)}
	computing := s.k.compute(s.Steps)
	s.work(float64(computing*s.k.vary(b.draws))+s.calls, event{kind: bundleDone, bundle: i, update: b.made})
}

// send sends an update to all shards. The bundle has been sending since before, one push after the
// other, so the first pushes left it earlier than the last one.
func (s *simulation) send(e event) {
	b := &s.bundles[e.bundle]
	left := 0.0
	for j := range s.shards {
		left += s.shards[j].push
	}
	for j := range s.shards {
		at := &s.shards[j]
		left -= at.push
		comes := s.now + at.wait
		if s.pool == nil {
			comes = max(s.now, s.transmit(&b.out, s.now-left, at.bytes)+at.wait)
		}
		s.events.add(comes, event{pushComes, e.bundle, int32(j), e.update})
	}
	needed := e.update - int32(s.Delay)
	if needed < 1 {
		s.start(e.bundle)
		return
	}
	if a := &b.answers[s.slot(needed)]; a.count == len(s.shards) {
		s.events.add(max(s.now, a.at), event{kind: bundleGoes, bundle: e.bundle})
		return
	}
	b.waits = true
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

// given counts an answer, which left the shard `at` at a time.
func (s *simulation) given(e event, at *shard, left float64) {
	b := &s.bundles[e.bundle]
	a := &b.answers[s.slot(e.update)]
	if s.pool == nil {
		head := s.transmit(&at.out, left, at.bytes) + at.wait
		a.first, a.last = min(a.first, head), max(a.last, head+at.bytes/s.Speed)
	} else {
		a.last = max(a.last, left+at.wait)
	}
	if a.count++; a.count < len(s.shards) {
		return
	}
	s.count(a.lag)
	a.at = a.last
	if s.pool == nil {
		a.at = max(a.last, max(a.first, b.in)+s.array/s.Speed)
		b.in = a.at
	}
	if b.waits && e.update == b.made-int32(s.Delay) {
		b.waits = false
		s.events.add(a.at, event{kind: bundleGoes, bundle: e.bundle})
	}
}

// count counts the lag of a gradient, after the first ones.
func (s *simulation) count(lag int) {
	if s.began == 0 || s.ended > 0 {
		return
	}
	s.lags[min(bits.Len(uint(lag)), LagBuckets-1)]++
	s.lagSum += lag
	s.lagMost = max(s.lagMost, lag)
}

func (s *simulation) result() Result {
	r := Result{Lags: make([]float64, LagBuckets), LagMost: s.lagMost}
	r.Updates = float64(s.to-s.from) / (s.ended - s.began)
	r.Steps = r.Updates * float64(s.Steps)
	counted := 0
	for _, n := range s.lags {
		counted += n
	}
	for i, n := range s.lags {
		r.Lags[i] = float64(n) / float64(max(1, counted))
	}
	r.Lag = float64(s.lagSum) / float64(max(1, counted))
	r.Resources = s.resources(&s.k, r.Updates)
	most := 0.0
	for _, u := range r.Resources {
		if u.limits() && u.Used > most {
			most, r.Limit = u.Used, u.Name
		}
	}
	return r
}
