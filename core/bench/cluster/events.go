package cluster

// An event is something that happens to a part: kind says what, to whom is in the other fields.
type event struct {
	kind          kind
	bundle, shard int32
	update        int32 // of the bundle, from 1 on; a keeper's number; a generation of the pool
}

type kind uint8

const (
	learnerGoes  kind = iota // a learner starts an update
	learnerWorks             // its pause has ended, where cores are shared
	learnerDone              // a learner has computed a gradient
	pushDone                 // a sender has pushed, where cores are shared
	pushComes                // the first byte of a push is at the shard's link
	shardDone                // a visit has ended, where cores are shared
	answerComes              // the first byte of an answer is at the bundle's link
	getDone                  // a reader has got an answer, where cores are shared
	copyComes                // the first byte of a copy is at the keeper's link
	keeperDone
	poolDone // a job of the shared cores is done
	rayDone
)

// item is an event with its place in an order: by key, and by the order of adding where keys are
// equal.
type item struct {
	key    float64
	number uint64
	event  event
}

func (a *item) before(b *item) bool {
	return a.key < b.key || a.key == b.key && a.number < b.number
}

// queue is a heap of items.
type queue struct {
	items []item
	added uint64
}

func (q *queue) add(key float64, e event) {
	q.added++
	q.items = append(q.items, item{})
	x, i := item{key, q.added, e}, len(q.items)-1
	for i > 0 {
		up := (i - 1) / 2
		if !x.before(&q.items[up]) {
			break
		}
		q.items[i] = q.items[up]
		i = up
	}
	q.items[i] = x
}

// take removes the first item of a queue that is not empty.
func (q *queue) take() item {
	first, end := q.items[0], len(q.items)-1
	x := q.items[end]
	q.items = q.items[:end]
	if end == 0 {
		return first
	}
	i := 0
	for {
		down := 2*i + 1
		if down >= end {
			break
		}
		if right := down + 1; right < end && q.items[right].before(&q.items[down]) {
			down = right
		}
		if !q.items[down].before(&x) {
			break
		}
		q.items[i] = q.items[down]
		i = down
	}
	q.items[i] = x
	return first
}

// pool is a machine whose cores all runnable threads share equally. Its clock counts the seconds of
// work that each runnable thread has done, so a job ends at a reading of this clock that does not
// change when other jobs come and go.
type pool struct {
	cores float64
	clock float64
	at    float64 // virtual time of the reading
	jobs  queue   // by the reading at their ends
	next  int32   // generation of the poolDone that counts
}

// advance sets the clock to virtual time `now`.
func (p *pool) advance(now float64) {
	p.clock += float64((now - p.at) * p.speed())
	p.at = now
}

// speed is the share of a core that a thread has.
func (p *pool) speed() float64 {
	if n := float64(len(p.jobs.items)); n > p.cores {
		return p.cores / n
	}
	return 1
}
