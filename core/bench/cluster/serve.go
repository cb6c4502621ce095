package cluster

// This file is what shards and keepers do. A thread on a machine of its own does one job after the
// other, in the order in which they come, so that its jobs end at times that are known when they
// come. Where parts share cores, jobs wait in a queue.

type shard struct {
	index  int32
	visits int32
	own    []int32 // visits by bundle
	push   float64 // of a sender, seconds
	get    float64 // of a reader
	work   float64 // of a visit
	ray    float64 // work of Ray's threads while no thread waits for them
	wait   float64 // of a call, and of an answer; on shared cores it is work of Ray's threads
	bytes  float64 // of a message

	free    float64 // when all visits that have come are done, on a machine of its own
	busy    bool    // where cores are shared
	waiting []event
	out, in float64 // when the links are free

	begun int32 // visits
}

type keeper struct {
	free    float64
	busy    bool
	waiting []event
	in      float64
	copies  int
}

func newShard(c *Cluster, k *Costs, j int) shard {
	array := k.array(j, c.Shards)
	return shard{
		index: int32(j), own: make([]int32, c.Bundles), push: k.of(k.Push, array), get: k.of(k.Get, array), work: k.visit(j, c.Shards),
		ray: k.besides(array), wait: k.of(k.Wait, array) / 2, bytes: array + k.Message,
	}
}

// comes receives a push.
func (s *simulation) comes(e event) {
	at := &s.shards[e.shard]
	whole := s.receive(&at.in, at.bytes)
	if s.pool == nil {
		at.free = max(whole, at.free) + s.begin(at)
		s.answer(e, at.free)
		return
	}
	s.work(at.ray, event{kind: rayDone})
	at.waiting = append(at.waiting, e)
	s.visit(at)
}

// visit begins the next visit of a shard.
func (s *simulation) visit(at *shard) {
	if at.busy || len(at.waiting) == 0 {
		return
	}
	e := at.waiting[0]
	at.waiting = at.waiting[1:]
	at.busy = true
	e.kind = shardDone
	s.work(s.begin(at), e)
}

// copies reports whether a shard sends a copy at the end of a visit.
func (s *simulation) copies(visit int32) bool { return s.Keep > 0 && int(visit)%s.Keep == 0 }

// begin returns the time of a shard for its next visit.
func (s *simulation) begin(at *shard) float64 {
	if at.begun++; !s.copies(at.begun) {
		return at.work
	}
	copying, _ := s.k.copied(int(at.index), s.Shards)
	return at.work + copying
}

// answer ends a visit at a time.
func (s *simulation) answer(e event, done float64) {
	at, b := &s.shards[e.shard], &s.bundles[e.bundle]
	others := at.visits - at.own[e.bundle]
	if at.visits++; s.copies(at.visits) {
		s.sendCopies(at, done)
	}
	at.own[e.bundle]++
	lag := others
	if held := e.update - 1 - int32(s.Delay); held > 0 {
		lag -= b.seen[s.slot(held)*s.Shards+int(e.shard)]
	}
	b.seen[s.slot(e.update)*s.Shards+int(e.shard)] = others
	a := &b.answers[s.slot(e.update)]
	a.lag = max(a.lag, int(lag))
	if int(e.shard) == len(s.shards)-1 {
		switch int(at.visits) {
		case s.from:
			s.began = done
		case s.to:
			s.ended = done
		}
	}
	s.given(e, at, done)
}

// sendCopies sends a copy to both keepers.
func (s *simulation) sendCopies(at *shard, left float64) {
	for i := range s.keepers {
		comes := left + at.wait
		if s.pool == nil {
			comes = s.transmit(&at.out, left, s.copyBytes(at.index)) + at.wait
		}
		s.events.add(comes, event{copyComes, 0, at.index, int32(i)})
	}
}

func (s *simulation) copyBytes(shard int32) float64 {
	return s.k.state(int(shard), s.Shards) + s.k.Message
}

// copyComes receives a copy.
func (s *simulation) copyComes(e event) {
	at := &s.keepers[e.update]
	whole := s.receive(&at.in, s.copyBytes(e.shard))
	if s.pool == nil {
		_, keeping := s.k.copied(int(e.shard), s.Shards)
		at.free = max(whole, at.free) + keeping
		e.kind = keeperDone
		s.events.add(at.free, e)
		return
	}
	at.waiting = append(at.waiting, e)
	s.keep(at)
}

// kept ends a copy.
func (s *simulation) kept(e event) {
	at := &s.keepers[e.update]
	at.busy = false
	at.copies++
	s.keep(at)
}

// keep begins the next copy of a keeper.
func (s *simulation) keep(at *keeper) {
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
