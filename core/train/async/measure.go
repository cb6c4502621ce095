package async

import (
	"time"

	"github.com/paceline-rl/paceline/core/train/order"
)

// DurationFunc gets the durations of what a learner does, by the names of a file of durations:
// step, forward, gradient, pull and push.
type DurationFunc func(what string, took time.Duration)

// Measure makes all learners report to f, which learners call concurrently, for benchmarks.
// Gradients are measured of methods whose update has one.
func (m *Method) Measure(f DurationFunc) { m.measure = f }

// Unrecord makes the run's races unrecorded, for benchmarks. It is called before the first slice.
func (m *Method) Unrecord() { m.turns.Unrecord() }

// measureRound reports a round, before which the learner had spent these times.
func (l *learner) measureRound(acted, stepped time.Duration) {
	if f := l.m.measure; f != nil {
		acting, stepping := l.monitor.Spent()
		f("forward", acting-acted)
		f("step", stepping-stepped)
	}
}

// measureGradient reports a gradient.
func (l *learner) measureGradient(began time.Time) {
	if f := l.m.measure; f != nil {
		f("gradient", time.Since(began))
	}
}

// measureVisits returns do, which reports pushes and pulls of all shards.
func (l *learner) measureVisits(do func(order.Visit) error) func(order.Visit) error {
	f := l.m.measure
	if f == nil {
		return do
	}
	var pushing, pulling time.Duration
	return func(v order.Visit) error {
		began, total, what := time.Now(), &pulling, "pull"
		if v.Push {
			total, what = &pushing, "push"
		}
		err := do(v)
		if *total += time.Since(began); v.Shard == l.m.store.Shards()-1 {
			f(what, *total)
		}
		return err
	}
}
