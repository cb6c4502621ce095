package cluster

import (
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

// Simulate runs a cluster until each bundle has made about `rounds` updates. Its result is a function
// of its arguments.
func Simulate(c Cluster, k Costs, rounds int, seed uint64) Result {
	s := newSimulation(c, k, rounds, seed)
	s.run()
	return s.result()
}

// Visits returns the visits of all shards that Simulate simulates.
func (c *Cluster) Visits(rounds int) int64 {
	return int64(c.Bundles) * int64(c.Shards) * int64(c.updates(rounds))
}

// updates returns the updates of a bundle on average: first ones, those that count, and further ones
// so that all bundles still work when the last of these is visited.
func (c *Cluster) updates(rounds int) int { return warmRounds + c.Delay + rounds + c.Delay + 1 }

type simulation struct {
	Cluster
	k        Costs
	calls    float64 // of a bundle for an update, seconds
	now      float64
	events   queue
	pool     *pool // nil: each part has a machine of its own
	bundles  []bundle
	shards   []shard
	keepers  [Keepers]keeper
	started  int // updates
	stop     int // updates after which no bundle starts another one
	from, to int // visits of the last shard that count: after from, until to
	began    float64
	ended    float64
	lags     [LagBuckets]int
	lagSum   int
	lagMost  int
}

// slots is the number of updates of a bundle that the simulation remembers: those under way, the one
// whose answers the bundle has, and the one that it computes.
func (c *Cluster) slots() int { return c.Delay + 2 }

type bundle struct {
	draws   *rng.Stream
	made    int32 // updates
	waits   bool  // for answers
	out, in float64
	seen    []int32 // visits of others, by slot and shard, when the shard answered
	done    []answers
}

// answers are those to one update.
type answers struct {
	visits, count int
	lag           int     // the largest so far
	at            float64 // when the last one was whole
}

type shard struct {
	visits  int32
	own     []int32 // visits by bundle
	push    float64 // of the bundle
	work    float64 // of a visit
	ray     float64
	wait    float64 // of a call, and of an answer
	bytes   float64 // of a message
	busy    bool
	waiting []event
	out, in float64 // when the links are free
	sending bool    // a copy, of the visit in progress
	copies  int     // under way
	copied  int
	left    int // copies left out
}

type keeper struct {
	busy    bool
	waiting []event
	in      float64
	copies  int
}

func newSimulation(c Cluster, k Costs, rounds int, seed uint64) *simulation {
	n := c.Bundles
	s := &simulation{Cluster: c, k: k, bundles: make([]bundle, n), shards: make([]shard, c.Shards), calls: k.calls(c.Shards)}
	s.from, s.to = n*(warmRounds+c.Delay), n*(warmRounds+c.Delay+rounds)
	s.stop = n * c.updates(rounds)
	if c.Cores > 0 {
		s.pool = &pool{cores: float64(c.Cores)}
	}
	for j := range s.shards {
		s.shards[j] = shard{
			own: make([]int32, n), push: k.of(k.Push, k.array(j, c.Shards)), work: k.visit(j, c.Shards),
			ray: k.of(k.Ray, k.array(j, c.Shards)), wait: k.of(k.Wait, k.array(j, c.Shards)) / 2, bytes: k.array(j, c.Shards) + k.Message,
		}
	}
	slots := c.slots()
	for i := range s.bundles {
		b := &s.bundles[i]
		*b = bundle{draws: rng.New(seed, "bundle", i), seen: make([]int32, slots*c.Shards), done: make([]answers, slots)}
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
	case pushHead:
		at := &s.shards[e.shard]
		s.whole(&at.in, at.bytes, pushWhole, e)
	case pushWhole:
		at := &s.shards[e.shard]
		at.waiting = append(at.waiting, e)
		if s.pool != nil {
			s.work(at.ray, event{kind: rayDone})
		}
		s.visit(e.shard)
	case shardDone:
		s.answer(e)
	case answerHead:
		s.answered(e)
	case copyHead:
		s.whole(&s.keepers[e.update].in, s.k.state(int(e.shard), s.Shards)+s.k.Message, copyWhole, e)
	case copyWhole:
		s.keepers[e.update].waiting = append(s.keepers[e.update].waiting, e)
		s.keep(e.update)
	case keeperDone:
		s.keepers[e.update].busy = false
		s.keepers[e.update].copies++
		s.shards[e.shard].copies--
		s.keep(e.update)
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

// start lets a bundle compute its next update.
func (s *simulation) start(i int32) {
	if s.started == s.stop {
		return
	}
	s.started++
	b := &s.bundles[i]
	b.made++
	b.done[s.slot(b.made)] = answers{}
	computing := s.k.compute(s.Steps)
	s.work(float64(computing*s.k.vary(b.draws))+s.calls, event{kind: bundleDone, bundle: i, update: b.made})
}

func (s *simulation) slot(update int32) int { return int(update) % s.slots() }

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
		push := event{pushHead, e.bundle, int32(j), e.update}
		if s.pool != nil {
			push.kind = pushWhole
			s.events.add(s.now+at.wait, push)
			continue
		}
		s.transmit(&b.out, s.now-left, at.bytes, at.wait, push)
	}
	needed := e.update - int32(s.Delay)
	if needed < 1 {
		s.start(e.bundle)
		return
	}
	if a := &b.done[s.slot(needed)]; a.count == len(s.shards) {
		s.events.add(max(s.now, a.at), event{kind: bundleGoes, bundle: e.bundle})
		return
	}
	b.waits = true
}

// transmit puts a message that is ready at a time onto an outgoing link.
func (s *simulation) transmit(free *float64, ready, bytes, wait float64, then event) {
	begins := max(ready, *free)
	*free = begins + bytes/s.Speed
	s.events.add(max(s.now, begins+s.Latency+wait), then)
}

// whole lets a message through an incoming link, at which its first byte is now.
func (s *simulation) whole(free *float64, bytes float64, kind kind, e event) {
	*free = max(s.now, *free) + bytes/s.Speed
	e.kind = kind
	s.events.add(*free, e)
}

// visit begins the next visit of a shard.
func (s *simulation) visit(j int32) {
	at := &s.shards[j]
	if at.busy || len(at.waiting) == 0 {
		return
	}
	e := at.waiting[0]
	at.waiting = at.waiting[1:]
	at.busy = true
	work := at.work
	if s.Keep > 0 && int(at.visits+1)%s.Keep == 0 {
		if at.sending = at.copies == 0; at.sending {
			copying, _ := s.k.copied(int(j), s.Shards)
			work += copying
			at.copied++
		} else {
			at.left++
		}
	}
	e.kind = shardDone
	s.work(work, e)
}

// answer ends a visit.
func (s *simulation) answer(e event) {
	at, b := &s.shards[e.shard], &s.bundles[e.bundle]
	at.busy = false
	if at.sending {
		at.sending, at.copies = false, Keepers
		for i := range s.keepers {
			copying := event{copyHead, e.bundle, e.shard, int32(i)}
			if s.pool != nil {
				copying.kind = copyWhole
				s.events.add(s.now+at.wait, copying)
				continue
			}
			s.transmit(&at.out, s.now, s.k.state(int(e.shard), s.Shards)+s.k.Message, at.wait, copying)
		}
	}
	others := at.visits - at.own[e.bundle]
	at.visits++
	at.own[e.bundle]++
	a := &b.done[s.slot(e.update)]
	if held := e.update - 1 - int32(s.Delay); held < 1 {
		a.lag = max(a.lag, int(others))
	} else {
		a.lag = max(a.lag, int(others-b.seen[s.slot(held)*s.Shards+int(e.shard)]))
	}
	b.seen[s.slot(e.update)*s.Shards+int(e.shard)] = others
	if int(e.shard) == len(s.shards)-1 {
		switch int(at.visits) {
		case s.from:
			s.began = s.now
		case s.to:
			s.ended = s.now
		}
	}
	if a.visits++; a.visits == len(s.shards) {
		s.count(a.lag)
	}
	answer := event{answerHead, e.bundle, e.shard, e.update}
	if s.pool != nil {
		s.events.add(s.now+at.wait, answer)
	} else {
		s.transmit(&at.out, s.now, at.bytes, at.wait, answer)
	}
	s.visit(e.shard)
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

// answered lets an answer through a bundle's link.
func (s *simulation) answered(e event) {
	b := &s.bundles[e.bundle]
	a := &b.done[s.slot(e.update)]
	if a.at = s.now; s.pool == nil {
		b.in = max(s.now, b.in) + s.shards[e.shard].bytes/s.Speed
		a.at = b.in
	}
	if a.count++; a.count == len(s.shards) && b.waits && e.update == b.made-int32(s.Delay) {
		b.waits = false
		s.events.add(a.at, event{kind: bundleGoes, bundle: e.bundle})
	}
}

// keep begins the next copy of a keeper.
func (s *simulation) keep(i int32) {
	at := &s.keepers[i]
	if at.busy || len(at.waiting) == 0 {
		return
	}
	e := at.waiting[0]
	at.waiting = at.waiting[1:]
	at.busy = true
	_, keeping := s.k.copied(int(e.shard), s.Shards)
	e.kind = keeperDone
	s.work(keeping, e)
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
	copied, left := 0, 0
	for j := range s.shards {
		copied, left = copied+s.shards[j].copied, left+s.shards[j].left
	}
	copies := 0.0
	if s.Keep > 0 {
		copies = 1 / float64(s.Keep)
		if left > 0 {
			copies *= float64(copied) / float64(copied+left)
		}
	}
	r.Resources = s.resources(&s.k, r.Updates, copies)
	most := 0.0
	for _, u := range r.Resources {
		if u.limits() && u.Used > most {
			most, r.Limit = u.Used, u.Name
		}
	}
	return r
}
