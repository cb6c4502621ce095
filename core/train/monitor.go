package train

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paceline-rl/paceline/core/actor"
	"github.com/paceline-rl/paceline/core/nearest"
)

// Monitor collects what a method reports: steps, updates, episodes, times, notices.
type Monitor struct {
	// Steps is num_timesteps: agent steps of all environments, warm-up included. Updates is the
	// number of updates done. Both may be read at any time.
	Steps, Updates atomic.Int64

	train atomic.Int64 // nanoseconds spent in updates
	// env and act are the times spent stepping environments and computing outputs for acting, added
	// over threads; wait is the time that the caller waited for updates or for a core. They belong
	// to the call in progress.
	env, act, wait time.Duration
	use            utilisation
	speed          speed

	// Loading is the num_envs of the checkpoint that Load reads.
	Loading int

	ended  func(Episode) // of a learner: it gets the episodes
	firsts []firstUpdate // of a learner: calls of FirstUpdate

	began, mark time.Time
	notices     []string
	zero        []string // names of rates that FirstUpdate has reported as 0

	mu       sync.Mutex
	episodes int64
	recent   []Episode // the latest ones, oldest first
	window   int       // stats_window_size: the most episodes in recent
	now      Stats
	metrics  []Metric
}

// Episode is an episode that ended: its undiscounted return, of a whole game where rewards are
// clipped, and its length in steps.
type Episode struct {
	Return float64 `json:"return"`
	Length int64   `json:"length"`
}

func newMonitor(window int) *Monitor {
	return &Monitor{window: window, recent: make([]Episode, 0, window+1)}
}

// start begins to measure the time of a call.
func (m *Monitor) start() {
	m.began = time.Now()
	m.mark = m.began
}

// Mark returns the time of the latest lap.
func (m *Monitor) Mark() time.Time { return m.mark }

// Notify keeps a sentence that the user is told once. The call in progress calls it.
func (m *Monitor) Notify(format string, args ...any) {
	m.notices = append(m.notices, fmt.Sprintf(format, args...))
}

// FirstUpdate is called after the first update of a run, with its step. A rate that is 0 at that
// step and at all later ones is reported, once for each name.
func (m *Monitor) FirstUpdate(name string, rate Schedule, step int64) {
	if m.ended != nil {
		m.firsts = append(m.firsts, firstUpdate{name, rate, step})
		return
	}
	if rate.zeroFrom(step) && !slices.Contains(m.zero, name) {
		m.zero = append(m.zero, name)
		m.Notify("%s: 0 from the first update of this run (step %d) to its last, so the run learns next to nothing; "+
			"schedules end where the run ends, at num_timesteps + total_timesteps", name, step)
	}
}

// firstUpdate are the arguments of FirstUpdate.
type firstUpdate struct {
	name string
	rate Schedule
	step int64
}

// Add publishes further steps of a group, and its episodes that have ended since the last call.
// Goroutines with different groups may call it at the same time.
func (m *Monitor) Add(steps int64, g *actor.Group) {
	g.TakeFinished(func(e actor.Episode) { m.Ended(Episode{e.Return, e.Length}) })
	m.Steps.Add(steps)
}

// Ended records an episode that ended.
func (m *Monitor) Ended(e Episode) {
	if m.ended != nil {
		m.ended(e)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.recent = append(m.recent, e)
	m.recent = slices.Delete(m.recent, 0, max(0, len(m.recent)-m.window))
	m.episodes++
}

// forgetEpisodes counts episodes from 0, with an empty window.
func (m *Monitor) forgetEpisodes() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.episodes, m.recent = 0, m.recent[:0]
}

// UpdatesDue returns the number of updates that were due at the end of the latest call.
func (m *Monitor) UpdatesDue() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now.UpdatesDue
}

// Stats is the state of a Trainer in numbers. The caller computes rates from two of them.
type Stats struct {
	Steps      int64 // num_timesteps: agent steps, warm-up included
	Total      int64 // the step at which the run ends
	Updates    int64
	UpdatesDue int64
	Episodes   int64
	MeanReturn float64 // of the latest stats_window_size episodes, NaN before the first
	MeanLength float64
	// Times, added over threads, except Wait, in which the caller waited for updates or for a core.
	Env, Act, Train, Wait time.Duration
}

// Metric is one number that a method reports.
type Metric struct {
	Name  string  // "train/loss"
	Unit  string  // "steps", "bytes", "" for a plain number
	Doc   string  // one sentence
	Value float64 // NaN: there is none yet
}

// Metrics collects what a method reports.
type Metrics struct {
	list       []Metric
	updatesDue int64
}

// Add reports one number.
func (m *Metrics) Add(name, unit, doc string, value float64) {
	m.list = append(m.list, Metric{name, unit, doc, value})
}

// Sum adds the numbers that from reports under names to those of the same names.
func (m *Metrics) Sum(from *Metrics, names ...string) {
	for _, other := range from.list {
		i := slices.IndexFunc(m.list, func(own Metric) bool { return own.Name == other.Name })
		if i >= 0 && slices.Contains(names, other.Name) {
			m.list[i].Value += other.Value
		}
	}
}

// Due reports how many updates are due at this step, in all.
func (m *Metrics) Due(updates int64) { m.updatesDue = updates }

// publish refreshes the numbers that may be read at any time.
func (t *Trainer) publish() {
	var m Metrics
	t.method.Metrics(&m)
	mon := t.monitor
	mon.use.metrics(&m)
	mon.mu.Lock()
	defer mon.mu.Unlock()
	mon.metrics = m.list
	mon.now.Total, mon.now.UpdatesDue = t.end, m.updatesDue
	mon.now.Env, mon.now.Act, mon.now.Wait = mon.env, mon.act, mon.wait
}

// Stats may be called at any time. Steps, Updates, episodes and their means are current, the other
// numbers are those at the end of the latest call.
func (t *Trainer) Stats() Stats {
	m := t.monitor
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now
	now.Steps, now.Updates, now.Train = m.Steps.Load(), m.Updates.Load(), time.Duration(m.train.Load())
	now.Episodes = m.episodes
	now.MeanReturn, now.MeanLength = math.NaN(), math.NaN()
	if n := float64(len(m.recent)); n > 0 {
		now.MeanReturn, now.MeanLength = 0, 0
		for _, e := range m.recent {
			now.MeanReturn += e.Return
			now.MeanLength += float64(e.Length)
		}
		now.MeanReturn /= n
		now.MeanLength /= n
	}
	return now
}

// Metric returns metric i of the method, as it was at the end of the latest call, or false past the
// last one. It may be called at any time.
func (t *Trainer) Metric(i int) (Metric, bool) {
	m := t.monitor
	m.mu.Lock()
	defer m.mu.Unlock()
	if i < 0 || i >= len(m.metrics) {
		return Metric{}, false
	}
	return m.metrics[i], true
}

// MetricIndex returns the number of the metric called name, which stays the same while the
// Trainer lives. It may be called at any time.
func (t *Trainer) MetricIndex(name string) (int, error) {
	mon := t.monitor
	mon.mu.Lock()
	defer mon.mu.Unlock()
	var names []string
	for i, m := range mon.metrics {
		if m.Name == name {
			return i, nil
		}
		names = append(names, m.Name)
	}
	if near := nearest.Names(name, names, 3, nil); near != nil {
		return 0, fmt.Errorf("metric: %q, %s reports none of that name; did you mean %s?", name, t.def.Name, strings.Join(near, " or "))
	}
	return 0, fmt.Errorf("metric: %q, %s reports none of that name", name, t.def.Name)
}

// Notice returns the next sentence that the user is told once, or "".
func (t *Trainer) Notice() (text string, err error) {
	if err := t.lock(); err != nil {
		return "", err
	}
	defer t.calls.Unlock()
	if n := t.monitor.notices; len(n) > 0 {
		text, t.monitor.notices = n[0], n[1:]
	}
	return text, nil
}
