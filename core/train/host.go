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

// Host receives what a method reports during its work.
type Host struct {
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

func newHost(window int) *Host { return &Host{window: window, recent: make([]Episode, 0, window+1)} }

// start begins to measure the time of a call.
func (h *Host) start() {
	h.began = time.Now()
	h.mark = h.began
}

// Mark returns the time of the latest lap.
func (h *Host) Mark() time.Time { return h.mark }

// Notify keeps a sentence that the user is told once. The call in progress calls it.
func (h *Host) Notify(format string, args ...any) {
	h.notices = append(h.notices, fmt.Sprintf(format, args...))
}

// FirstUpdate is called after the first update of a run, with its step. A rate that is 0 at that
// step and at all later ones is reported, once for each name.
func (h *Host) FirstUpdate(name string, rate Schedule, step int64) {
	if h.ended != nil {
		h.firsts = append(h.firsts, firstUpdate{name, rate, step})
		return
	}
	if rate.zeroFrom(step) && !slices.Contains(h.zero, name) {
		h.zero = append(h.zero, name)
		h.Notify("%s: 0 from the first update of this run (step %d) to its last, so the run learns next to nothing; "+
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
func (h *Host) Add(steps int64, g *actor.Group) {
	g.TakeFinished(func(e actor.Episode) { h.Ended(Episode{e.Return, e.Length}) })
	h.Steps.Add(steps)
}

// Ended records an episode that ended.
func (h *Host) Ended(e Episode) {
	if h.ended != nil {
		h.ended(e)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.recent = append(h.recent, e)
	h.recent = slices.Delete(h.recent, 0, max(0, len(h.recent)-h.window))
	h.episodes++
}

// forgetEpisodes counts episodes from 0, with an empty window.
func (h *Host) forgetEpisodes() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.episodes, h.recent = 0, h.recent[:0]
}

// UpdatesDue returns the number of updates that were due at the end of the latest call.
func (h *Host) UpdatesDue() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now.UpdatesDue
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
	h := t.host
	h.use.metrics(&m)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.metrics = m.list
	h.now.Total, h.now.UpdatesDue = t.end, m.updatesDue
	h.now.Env, h.now.Act, h.now.Wait = h.env, h.act, h.wait
}

// Stats may be called at any time. Steps, Updates, episodes and their means are current, the other
// numbers are those at the end of the latest call.
func (t *Trainer) Stats() Stats {
	h := t.host
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now
	now.Steps, now.Updates, now.Train = h.Steps.Load(), h.Updates.Load(), time.Duration(h.train.Load())
	now.Episodes = h.episodes
	now.MeanReturn, now.MeanLength = math.NaN(), math.NaN()
	if n := float64(len(h.recent)); n > 0 {
		now.MeanReturn, now.MeanLength = 0, 0
		for _, e := range h.recent {
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
	h := t.host
	h.mu.Lock()
	defer h.mu.Unlock()
	if i < 0 || i >= len(h.metrics) {
		return Metric{}, false
	}
	return h.metrics[i], true
}

// MetricIndex returns the number of the metric called name, which stays the same while the
// Trainer lives. It may be called at any time.
func (t *Trainer) MetricIndex(name string) (int, error) {
	h := t.host
	h.mu.Lock()
	defer h.mu.Unlock()
	var names []string
	for i, m := range h.metrics {
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
	if n := t.host.notices; len(n) > 0 {
		text, t.host.notices = n[0], n[1:]
	}
	return text, nil
}
