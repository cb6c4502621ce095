package order

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
)

// Shape is what an order and a run must agree in.
type Shape struct {
	Learners, Shards int
	Steps            int // of a round of one learner
	Barrier          bool
}

// The bytes of an order: see docs/pages/reference/order-files.md.
//
//	magic, fingerprint, learners, shards, steps of a round, flags, entries, CRC-32C of all before it (4 bytes)
//
// Numbers are unsigned varints of encoding/binary. An entry begins with a number: 0 is a stop,
// k+1 a visit of learner k, learners+1 forgotten visits. The shard of a visit, and whether it is a
// push, follow from the visits of the same learner before it.
const (
	orderMagic  = "paceline order 2\n"
	flagBarrier = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// visitLog is what a learner notes of its visits in a slice of a race.
type visitLog struct {
	numbers []int64
	heads   []uint64 // of each first visit of a leg: rounds before it, twice, plus 1 for pulls alone
	steps   []int64  // T, of each pull of shard 0
}

func (g *visitLog) clear() { g.numbers, g.heads, g.steps = g.numbers[:0], g.heads[:0], g.steps[:0] }

func (g *visitLog) add(number int64, l *learner, v Visit) {
	g.numbers = append(g.numbers, number)
	if l.done == 0 {
		g.heads = append(g.heads, head(l.since, l.then))
	}
	if !v.Push && v.Shard == 0 {
		g.steps = append(g.steps, v.Steps)
	}
}

func head(rounds int64, s Visits) uint64 {
	h := 2 * uint64(rounds)
	if s == PullAll {
		h++
	}
	return h
}

// recorder writes an order.
type recorder struct {
	shape  Shape
	data   []byte // header and entries
	header int    // bytes of it
	visits int64
	steps  int64 // T of the latest pull of shard 0 or stop
	places []place
	// latestStop is where the last entry begins, if it is a stop that another one may replace; else 0.
	latestStop  int
	stepsBefore int64   // steps before it
	rounds      []int64 // of the latest stop
	reached     bool    // the latest stop was not interrupted
	beyond      bool    // its T is above its until
	visited     bool    // visits came in its slice
	kept        bool    // see Turns.KeepStop
	merged      []int32 // scratch
}

// place is where a learner is in its visits.
type place struct{ done, all int }

func newRecorder(f Fingerprint, s Shape) recorder {
	r := recorder{shape: s, data: f.Header(orderMagic), places: make([]place, s.Learners)}
	flags := uint64(0)
	if s.Barrier {
		flags |= flagBarrier
	}
	for _, n := range []uint64{uint64(s.Learners), uint64(s.Shards), uint64(s.Steps), flags} {
		r.put(n)
	}
	r.header = len(r.data)
	return r
}

// continued returns the recorder for a race with another fingerprint, which continues the order.
func (r recorder) continued(f Fingerprint) recorder {
	next := newRecorder(f, r.shape)
	r.data = append(next.data, r.data[r.header:]...)
	if r.latestStop > 0 {
		r.latestStop += next.header - r.header
	}
	r.header = next.header
	return r
}

func (r *recorder) put(n uint64) { r.data = binary.AppendUvarint(r.data, n) }

// merge writes the logs of a slice, n visits, in the order of their numbers.
func (r *recorder) merge(learners []learner, n int) {
	if n == 0 {
		return
	}
	r.latestStop = 0
	r.merged = slices.Grow(r.merged[:0], n)[:n]
	for k := range learners {
		for _, number := range learners[k].log.numbers {
			r.merged[number-r.visits] = int32(k)
		}
	}
	heads, pulls := make([]int, len(learners)), make([]int, len(learners))
	for _, k := range r.merged {
		p, g := &r.places[k], &learners[k].log
		r.put(uint64(k) + 1)
		if p.done == 0 {
			h := g.heads[heads[k]]
			heads[k]++
			r.put(h)
			p.all = r.shape.visits(h)
		}
		if r.shape.firstPull(*p) {
			r.put(uint64(g.steps[pulls[k]] - r.steps))
			r.steps = g.steps[pulls[k]]
			pulls[k]++
		}
		p.next()
	}
	r.visits += int64(n)
}

// visits returns the number of visits of a leg with a head.
func (s Shape) visits(head uint64) int {
	if head%2 == 1 {
		return s.Shards
	}
	return 2 * s.Shards
}

// firstPull reports whether the next visit is a pull of shard 0.
func (s Shape) firstPull(p place) bool { return p.done == p.all-s.Shards }

// next counts a visit.
func (p *place) next() {
	if p.done++; p.done == p.all {
		*p = place{}
	}
}

// stop writes the end of a slice: its until, T, and each learner's rounds since its latest visit.
// An until above T says that the slice was interrupted. A slice with visits keeps its stop, and so
// does one that went beyond its until, because the next slice began at that T, and one that
// Turns.KeepStop names. Any other stop is replaced by the next one, unless visits or a set T come
// between. A slice without a round has the stop of the slice before it.
func (r *recorder) stop(until, steps int64, rounds []int64, set bool) {
	if r.latestStop > 0 && !set {
		if steps == r.steps && slices.Equal(rounds, r.rounds) && r.reached {
			return
		}
		if !r.beyond && !r.visited && !r.kept {
			r.data, r.steps = r.data[:r.latestStop], r.stepsBefore
		}
	}
	r.visited, r.kept = r.latestStop == 0, false
	r.latestStop, r.stepsBefore = len(r.data), r.steps
	if set {
		r.latestStop = 0
	}
	r.put(0)
	r.put(uint64(steps))
	r.reached, r.beyond = until <= steps, until < steps
	r.put(uint64(max(0, steps-until+1)))
	for _, n := range rounds {
		r.put(uint64(n))
	}
	r.steps, r.rounds = steps, rounds
}

// forget writes that learner k discards the rest of its visits.
func (r *recorder) forget(k int) {
	r.latestStop = 0
	r.put(uint64(r.shape.Learners) + 1)
	r.put(uint64(k))
	r.places[k] = place{}
}

// file returns the order as a file.
func (r *recorder) file() []byte {
	return binary.LittleEndian.AppendUint32(slices.Clone(r.data), crc32.Checksum(r.data, castagnoli))
}
