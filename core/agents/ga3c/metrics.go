package ga3c

import (
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/paceline-rl/paceline/core/actor"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/onpolicy"
)

// sums are what metrics are computed from, since the run began or was loaded.
type sums struct {
	since int64     // time of the schedule
	began time.Time // wall time

	predictions, predicted int64 // batches, and their rows
	updates, learned       int64 // updates, and their rows
	requests, segments     int64 // in the queues, at each prediction and each update
	lag                    int64 // updates between choosing a row and its own update, over all rows
	lagMost                uint64
	lagLatest              float64 // mean of the latest update
	lags                   [lagBuckets]int64
}

func newSums(now int64) sums { return sums{since: now, began: time.Now()} }

// lagBuckets is the number of ranges of lags: 0, 1, 2 to 3, 4 to 7 and so on; the last one is open.
const lagBuckets = 8

// update adds an update of a trainer's rows, which comes after a number of updates.
func (s *sums) update(t *trainer, updates uint64) {
	s.updates++
	s.learned += int64(t.rows)
	sum := uint64(0)
	for _, u := range t.updates {
		lag := updates - min(u, updates) // the host may have begun to count again
		sum += lag
		s.lagMost = max(s.lagMost, lag)
		s.lags[min(bits.Len64(lag), lagBuckets-1)]++
	}
	s.lag += int64(sum)
	s.lagLatest = float64(sum) / float64(t.rows)
}

// measure reports the time that tasks took since the latest call.
func (m *GA3C) measure() {
	acting, stepping, learning := m.tasks.measured()
	cores := stepping
	if m.waits {
		cores = 0
	}
	m.monitor.Ran(actor.Ran{Acting: acting, Stepping: stepping, Cores: cores})
	m.monitor.Learned(learning, 0)
}

// seconds returns the time of the schedule since the run began: virtual time, or of a race and of a
// recorded order the wall's.
func (m *GA3C) seconds() float64 {
	if _, ok := m.pace.(*virtual); ok {
		return float64(m.now-m.sums.since) / 1e9
	}
	return time.Since(m.sums.began).Seconds()
}

// Metrics reports the current numbers.
func (m *GA3C) Metrics(to *train.Metrics) {
	to.Due(m.clock.Updates)
	s, nan := &m.sums, math.NaN()
	loss, surrogate, value, entropy, norm, explained := nan, nan, nan, nan, nan, nan
	if r := &m.report; len(r.parts) > 0 {
		loss, surrogate, value, entropy, norm, explained = r.loss, r.parts[0], r.parts[1], r.parts[2], r.norm, r.explained
	}
	to.Add("train/learning_rate", "", "step size of the optimiser at this step", m.clock.Rate.At(m.clock.Steps))
	to.Add("train/loss", "", "of the latest update, mean over its rows", loss)
	to.Add("train/policy_loss", "", "mean of -advantage log pi over the latest update's rows", surrogate)
	to.Add("train/value_loss", "", "mean of the value's squared error over the latest update's rows", value)
	to.Add("train/entropy_loss", "nats", "minus the mean of the policy's entropy over the latest update's rows", -entropy)
	to.Add("train/explained_variance", "", "part of the returns' variance that the values explain, of the latest update's rows", explained)
	to.Add("train/grad_norm", "", "Euclidean norm of the latest update's gradient, before clipping", norm)
	onpolicy.AddStd(to, m.versions.now.Params)
	ratio := func(a, b float64) float64 {
		if b == 0 {
			return nan
		}
		return a / b
	}
	seconds := m.seconds()
	to.Add("ga3c/pps", "1/s", "predictions (of one agent each) a second of this run, in the time of the schedule", ratio(float64(s.predicted), seconds))
	to.Add("ga3c/tps", "1/s", "updates a second of this run, in the time of the schedule", ratio(float64(s.updates), seconds))
	to.Add("ga3c/time", "s", "time of the schedule: virtual, or of a race the wall's", seconds)
	to.Add("ga3c/prediction_batch", "rows", "mean batch of a prediction in this run", ratio(float64(s.predicted), float64(s.predictions)))
	to.Add("ga3c/training_batch", "rows", "mean batch of an update in this run", ratio(float64(s.learned), float64(s.updates)))
	to.Add("ga3c/prediction_queue", "rows", "agents inside the prediction queue when a predictor takes a batch, mean of this run", ratio(float64(s.requests), float64(s.predictions)))
	to.Add("ga3c/training_queue", "segments", "segments inside the training queue when a trainer takes a batch, mean of this run", ratio(float64(s.segments), float64(s.updates)))
	to.Add("ga3c/predictors", "", "active predictors", float64(m.active.Predictors))
	to.Add("ga3c/trainers", "", "active trainers", float64(m.active.Trainers))
	to.Add("ga3c/agents", "", "active agents", float64(m.active.Agents))
	periods, accepted := nan, nan
	if m.tuner != nil {
		periods, accepted = float64(m.tuner.Periods), float64(m.tuner.Accepted)
	}
	to.Add("ga3c/tuner_periods", "", "proposals of the tuner so far", periods)
	to.Add("ga3c/tuner_kept", "", "proposals of the tuner that were kept", accepted)
	to.Add("ga3c/lag", "updates", "updates between a step's action and the step's own update, mean over the rows of the latest update", s.lagLatest)
	to.Add("ga3c/lag_mean", "updates", "its mean over all rows of this run", ratio(float64(s.lag), float64(s.learned)))
	to.Add("ga3c/lag_most", "updates", "its largest value in this run", float64(s.lagMost))
	for k, n := range s.lags {
		low, name := 1<<max(0, k-1), "above"
		if k == 0 {
			low = 0
		}
		if k < lagBuckets-1 {
			name = fmt.Sprint(1<<k - 1)
		}
		to.Add(fmt.Sprintf("ga3c/lag_%d_to_%s", low, name), "", fmt.Sprintf("share of the rows of this run whose lag was %d to %s", low, name), ratio(float64(n), float64(s.learned)))
	}
	m.units.Metrics(to, m.monitor)
}
