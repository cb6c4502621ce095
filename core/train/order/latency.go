package order

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/settings"
)

// Latency is the model by which a virtual order gives events their durations.
type Latency struct {
	Step     Duration // a step of all environments of a learner
	Forward  Duration // the forward pass that chooses their actions
	Gradient Duration // from the last round to the first push
	Pull     Duration // of all shards, one after the other
	Push     Duration
	// File is the path of a file of measured durations, which take the place of those above: see
	// ReadLatencies. "": none.
	File string
}

// missing reports whether a duration is not given.
func (l *Latency) missing() bool {
	return min(l.Step.median, l.Forward.median, l.Gradient.median, l.Pull.median, l.Push.median) < 1
}

// Duration is the distribution of a duration: constant, lognormal or measured.
type Duration struct {
	median int64 // nanoseconds
	sigma  float64
	table  []int64 // measured; nil: none
	floor  int64   // of table
}

// Limits of a Duration.
const (
	maxMedian = time.Minute
	maxSigma  = 2
	// spread bounds a draw: it is at least a sixteenth of the median and at most 1024 times the
	// median. The lower bound tells other learners how soon a learner can be back.
	lowest, highest = 16, 1024
)

// Constant is a duration that is always the same, 1 nanosecond to a minute.
func Constant(d time.Duration) (Duration, error) { return Lognormal(d, 0) }

// Lognormal is a duration whose logarithm is normal with standard deviation sigma, 0 to 2.
func Lognormal(median time.Duration, sigma float64) (Duration, error) {
	if median < 1 || median > maxMedian || !(sigma >= 0 && sigma <= maxSigma) {
		return Duration{}, fmt.Errorf("%v with sigma %g, must be 1 nanosecond to %v with sigma 0 to %d", median, sigma, maxMedian, maxSigma)
	}
	return Duration{median: int64(median), sigma: sigma}, nil
}

// least returns the least duration that draw returns.
func (d *Duration) least() int64 {
	switch {
	case d.table != nil:
		return d.floor
	case d.sigma == 0:
		return d.median
	}
	return max(1, d.median/lowest)
}

// Draw draws a duration in nanoseconds. A constant takes no random number.
func (d *Duration) Draw(r *rng.Stream) int64 { return d.draw(r) }

// draw draws a duration in nanoseconds. A constant takes no random number.
func (d *Duration) draw(r *rng.Stream) int64 {
	switch {
	case d.table != nil:
		return max(d.floor, d.table[r.Intn(len(d.table))])
	case d.sigma == 0:
		return d.median
	}
	x := float64(d.median) * r.Lognormal(d.sigma)
	return min(max(d.least(), int64(x)), highest*d.median)
}

// String is the text that ParseDuration reads.
func (d Duration) String() string {
	seconds := strconv.FormatFloat(float64(d.median)/1e9, 'g', -1, 64)
	if d.sigma == 0 {
		return seconds
	}
	return seconds + ":" + strconv.FormatFloat(d.sigma, 'g', -1, 64)
}

// ParseDuration reads "median" or "median:sigma", the median in seconds.
func ParseDuration(text string) (Duration, error) {
	median, sigma, lognormal := strings.Cut(text, ":")
	m, err := strconv.ParseFloat(strings.TrimSpace(median), 64)
	s, serr := 0.0, error(nil)
	if lognormal {
		s, serr = strconv.ParseFloat(strings.TrimSpace(sigma), 64)
	}
	nanoseconds := math.Round(m * 1e9)
	if err != nil || serr != nil || !(nanoseconds >= 1 && nanoseconds <= float64(maxMedian)) || !(s >= 0 && s <= maxSigma) {
		return Duration{}, fmt.Errorf("%.80q, must be seconds, 1e-9 to %g, or median:sigma with sigma 0 to %d", text, maxMedian.Seconds(), maxSigma)
	}
	return Duration{median: int64(nanoseconds), sigma: s}, nil
}

// LatencySettings are the settings of a Latency.
var LatencySettings = []settings.Setting{
	latency("step", "0.0001:0.5", "a step of a learner's environments", func(l *Latency) *Duration { return &l.Step }),
	latency("forward", "0.0001:0.5", "a forward pass that chooses their actions", func(l *Latency) *Duration { return &l.Forward }),
	latency("gradient", "0.001:0.5", "a gradient", func(l *Latency) *Duration { return &l.Gradient }),
	latency("pull", "0.0001:0.5", "a pull of all shards", func(l *Latency) *Duration { return &l.Pull }),
	latency("push", "0.0001:0.5", "a push to all shards", func(l *Latency) *Duration { return &l.Push }),
	settings.Text("latency_file", "", "a JSON file of measured durations, which take the place of the settings latency_*; empty: none", nil,
		func(l *Latency) *string { return &l.File }),
}

func latency(name, def, doc string, field func(*Latency) *Duration) settings.Setting {
	return DurationSetting(name, def, doc, field)
}

// DurationSetting is the setting latency_NAME of a Duration of a virtual order. doc says of what.
func DurationSetting[C any](name, def, doc string, field func(*C) *Duration) settings.Setting {
	name = "latency_" + name
	doc = fmt.Sprintf("with schedule virtual, the duration of %s: median:sigma of a lognormal distribution, or a constant; seconds, 1e-9 to %g, sigma 0 to %d", doc, maxMedian.Seconds(), maxSigma)
	return settings.Other(name, "string", def, doc, Duration.String, func(text string) (Duration, error) {
		d, err := ParseDuration(text)
		if err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
		return d, err
	}, field)
}
