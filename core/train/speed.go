package train

import (
	"sync"
	"time"

	"github.com/paceline-rl/paceline/core/threads"
)

// speed measures where the time of a run goes, for Trainer.Proposal. It begins with the run's first
// update, because nothing is learned during the warm-up.
type speed struct {
	knobs *Knobs    // nil: Proposal has no rules for the method
	idle  stopwatch // how long the thread for updates waited for steps
	// The call in progress owns these.
	first   int64 // updates before the run
	started bool
	// own is the time of the goroutine that calls the method, by Activity.
	own [Waiting + 1]time.Duration
	// Monitor.mu guards these. from is when the measuring began, to is the latest look.
	from, to reading
}

// reading is a state of all counters, or the difference of two.
type reading struct {
	at             time.Time
	own            [Waiting + 1]time.Duration
	held           [Waiting]time.Duration // how long cores of num_threads were held, by Activity
	updating       time.Duration          // duration of all updates
	idle           time.Duration          // how long the thread for updates waited for steps
	steps, updates int64
	// computed and queued are threads.Usage, of the whole process; known says whether it tells.
	computed, queued time.Duration
	known            bool
}

// stopwatch adds up spans of time, also the one in progress. Any goroutine may read it.
type stopwatch struct {
	mu    sync.Mutex
	on    bool
	began time.Time
	total time.Duration
}

func (s *stopwatch) set(on bool, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.on {
		s.total += now.Sub(s.began)
	}
	s.on, s.began = on, now
}

func (s *stopwatch) read(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.on {
		return s.total + now.Sub(s.began)
	}
	return s.total
}

// lookEvery is the least time between two readings.
const lookEvery = 500 * time.Millisecond

// begin begins a run.
func (s *speed) begin(m *Monitor) {
	s.first, s.started = m.Updates.Load(), false
	m.mu.Lock()
	defer m.mu.Unlock()
	s.from, s.to = reading{}, reading{}
}

// spend adds time of the calling goroutine.
func (s *speed) spend(m *Monitor, a Activity, took time.Duration) {
	if s.knobs == nil {
		return
	}
	s.own[a] += took
	if !s.started && m.Updates.Load() > s.first {
		s.started = true
		m.mu.Lock()
		defer m.mu.Unlock()
		s.from = m.read(time.Now())
	}
}

// look reads the counters at the end of a call that takes steps. Other calls come later, and the
// time before them is not the run's.
func (s *speed) look(m *Monitor) {
	now := time.Now()
	if !s.started || now.Sub(s.from.at) < lookEvery || now.Sub(s.to.at) < lookEvery {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s.to = m.read(now)
}

func (m *Monitor) read(now time.Time) reading {
	r := reading{at: now, own: m.speed.own, updating: time.Duration(m.train.Load()), idle: m.speed.idle.read(now), steps: m.Steps.Load(), updates: m.Updates.Load()}
	for a := range r.held {
		r.held[a] = time.Duration(m.use.spent[a].Load())
	}
	r.computed, r.queued, r.known = threads.Usage()
	return r
}

// since returns the difference of two readings.
func (r *reading) since(from *reading) reading {
	d := reading{
		updating: r.updating - from.updating, idle: r.idle - from.idle, steps: r.steps - from.steps, updates: r.updates - from.updates,
		computed: r.computed - from.computed, queued: max(0, r.queued-from.queued), known: r.known && from.known,
	}
	for a := range d.own {
		d.own[a] = r.own[a] - from.own[a]
	}
	for a := range d.held {
		d.held[a] = r.held[a] - from.held[a]
	}
	return d
}

// Proposal says in one line which of the settings num_threads, groups, window and their neighbours
// would make this run faster, by what was measured since its first update; see proposal.go. It
// changes nothing. It may be called at any time, and shows the state of the latest call that ended.
func (t *Trainer) Proposal() string {
	m := t.monitor
	if m.speed.knobs == nil {
		return "nothing to propose for " + t.def.Name + ": there are no rules for methods whose learners or queues decide what waits; " +
			"the metrics time/utilisation_* say what the cores do"
	}
	m.mu.Lock()
	f := figures{
		Knobs: *m.speed.knobs, envs: t.common.NumEnvs, groups: t.common.Groups, cores: t.cores.Cores(), available: threads.Cores,
		hosted: t.source == nil, waits: t.spec.Waits, batched: t.source != nil && t.source.Batched(),
		wall: m.speed.to.at.Sub(m.speed.from.at), reading: m.speed.to.since(&m.speed.from),
	}
	m.mu.Unlock()
	return f.proposal()
}
