package train

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/paceline-rl/paceline/core/actor"
)

// Activity is a use of time.
type Activity int

const (
	Stepping Activity = iota // of environments
	Acting                   // computing outputs to act by
	Learning                 // in updates
	Waiting                  // of the caller, for updates or for a core; no core works
)

// utilisation adds up the time that the cores of a Trainer spent in a run: the time of its threads
// and of their helpers.
type utilisation struct {
	cores  int
	since  time.Time             // the run's beginning
	spent  [Waiting]atomic.Int64 // nanoseconds of one core
	device interface{ Busy() time.Duration }
	helped time.Duration // the latest device.Busy()
}

// begin begins to measure a run.
func (u *utilisation) begin() {
	u.since = time.Now()
	for a := range u.spent {
		u.spent[a].Store(0)
	}
}

func (u *utilisation) add(a Activity, took time.Duration) { u.spent[a].Add(int64(took)) }

// helpers returns how long helpers have worked for the device's caller since the last call.
func (u *utilisation) helpers() time.Duration {
	busy := u.device.Busy()
	defer func() { u.helped = busy }()
	return busy - u.helped
}

// metrics reports the shares of the cores' time since the run began.
func (u *utilisation) metrics(m *Metrics) {
	all, rest := math.NaN(), 1.0
	if !u.since.IsZero() {
		all = float64(time.Since(u.since)) * float64(u.cores)
	}
	share := func(name, doc string, a Activity) {
		v := min(float64(u.spent[a].Load())/all, rest)
		rest -= v
		m.Add("time/utilisation_"+name, "", doc, v)
	}
	share("step", "share of the cores' time in this run in which environments computed their steps", Stepping)
	share("act", "share of it in which outputs for acting were computed", Acting)
	share("learn", "share of it in which updates were computed", Learning)
	m.Add("time/utilisation_wait", "", "the rest of it: cores that waited, or that the host had", rest)
}

// Lap adds the caller's time since the last lap to an Activity, and returns the time of this lap.
func (m *Monitor) Lap(a Activity) time.Time {
	now := time.Now()
	took := now.Sub(m.mark)
	m.mark = now
	helped := m.use.helpers()
	m.speed.spend(m, a, took)
	switch a {
	case Acting:
		m.act += took
	case Learning:
		m.train.Add(int64(took))
	case Waiting:
		m.wait += took
	}
	if a != Waiting {
		m.use.add(a, took+helped)
	}
	return now
}

// Spent returns the times of acting and of stepping of the call in progress, added over threads.
func (m *Monitor) Spent() (acting, stepping time.Duration) { return m.act, m.env }

// Ran ends a lap in which a group took steps.
func (m *Monitor) Ran(r actor.Ran) {
	began := m.mark
	m.mark = time.Now()
	round, acting := m.mark.Sub(began), time.Duration(0)
	if all := r.Acting + r.Stepping; all > 0 { // added over threads, where these act alone
		acting = time.Duration(float64(round) * (float64(r.Acting) / float64(all)))
	}
	m.speed.spend(m, Acting, acting)
	m.speed.spend(m, Stepping, round-acting)
	m.act += r.Acting
	m.env += r.Stepping
	m.use.add(Acting, r.Acting+m.use.helpers())
	m.use.add(Stepping, r.Cores)
}

// Idle says when the thread for updates begins and ends to wait for steps. That thread calls it.
func (m *Monitor) Idle(idle bool) { m.speed.idle.set(idle, time.Now()) }

// Learned adds the time of an update on another thread than the caller's, and the time of its
// helpers. It may be called at any time.
func (m *Monitor) Learned(took, helped time.Duration) {
	m.train.Add(int64(took))
	m.use.add(Learning, took+helped)
}
