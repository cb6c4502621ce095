package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/paceline-rl/paceline/core/cpu"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/async"
)

// LatencyOptions are the options of the measurement of durations.
type LatencyOptions struct {
	Method   string            `json:"method"` // "a3c" or "ga3c"
	Env      string            `json:"env"`
	NumEnvs  int               `json:"num_envs"` // a3c: of one learner; ga3c: agents
	Steps    int64             `json:"steps"`
	Settings map[string]string `json:"settings"`
	// Machine is the name of a machine of the GA3C paper: the report has its model as settings.
	// "": this machine.
	Machine string `json:"machine"`
}

// LatencyReport has the durations of this machine, or a model of a machine.
type LatencyReport struct {
	Options   LatencyOptions       `json:"options"`
	ISA       string               `json:"isa"`
	Durations map[string][]float64 `json:"durations"` // seconds: the JSON object that latency_file reads
	Model     map[string]string    `json:"model"`     // settings
}

// mostDurations is the most durations of a name in a report.
const mostDurations = 10000

// benchLatency measures the durations of a model of latencies.
func benchLatency(decode func(any) error) (any, error) {
	o := LatencyOptions{Method: "ga3c", Env: "CartPole-v1", NumEnvs: 16, Steps: 20000}
	if err := decode(&o); err != nil {
		return nil, err
	}
	if o.NumEnvs < 1 || o.Steps < 1 {
		return nil, fmt.Errorf("options: num_envs %d, steps %d, must be at least 1", o.NumEnvs, o.Steps)
	}
	if o.Method != "a3c" && o.Method != "ga3c" {
		return nil, fmt.Errorf("options: method %q, must be a3c or ga3c", o.Method)
	}
	r := &LatencyReport{Options: o, ISA: cpu.Chosen()}
	if o.Machine != "" {
		m, err := machineNamed(o.Machine)
		if r.Model = m.ga3c(); o.Method == "a3c" {
			r.Model = m.a3c()
		}
		return r, err
	}
	var err error
	if o.Method == "a3c" {
		r.Durations, err = measureLearner(&o, nil)
	} else {
		r.Durations, err = measureGA3C(&o)
	}
	return r, err
}

// measureLearner measures a race of one learner, which nothing disturbs. see may look at the
// trainer.
func measureLearner(o *LatencyOptions, see func(*train.Trainer)) (map[string][]float64, error) {
	var mu sync.Mutex
	list := map[string][]float64{}
	err := measured(o, map[string]string{"learners": "1"}, func(t *train.Trainer) error {
		m, ok := t.Method().(interface{ Measure(async.DurationFunc) })
		if !ok {
			return fmt.Errorf("method: %s, cannot be measured", o.Method)
		}
		if see != nil {
			see(t)
		}
		m.Measure(func(what string, took time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			if len(list[what]) < mostDurations {
				list[what] = append(list[what], max(1e-9, took.Seconds()))
			}
		})
		return nil
	})
	return list, err
}

// measureGA3C measures a race on one thread. A prediction or an update of n rows takes a + b n: b
// is that of the least squares over all batches, and a is what is left of each.
func measureGA3C(o *LatencyOptions) (map[string][]float64, error) {
	type one struct{ rows, seconds float64 }
	all := map[string][]one{}
	err := measured(o, map[string]string{"predictors": "2", "trainers": "2"}, func(t *train.Trainer) error {
		m, ok := t.Method().(interface {
			Measure(func(what string, rows int, took time.Duration))
		})
		if !ok {
			return fmt.Errorf("method: %s, cannot be measured", o.Method)
		}
		m.Measure(func(what string, rows int, took time.Duration) {
			if len(all[what]) < mostDurations {
				all[what] = append(all[what], one{float64(rows), took.Seconds()})
			}
		})
		return nil
	})
	list := map[string][]float64{}
	for what, done := range all {
		rows, seconds := make([]float64, len(done)), make([]float64, len(done))
		for k, d := range done {
			rows[k], seconds[k] = d.rows, d.seconds
		}
		slope := 0.0
		if what != "step" {
			slope = slopeOf(rows, seconds)
			list[what+"_row"] = []float64{max(1e-9, slope)}
		}
		for k := range done {
			list[what] = append(list[what], max(1e-9, seconds[k]-float64(slope*rows[k])))
		}
	}
	return list, err
}

// slopeOf returns the slope, at least 0, of a line of least squares through medians of y at each x.
func slopeOf(x, y []float64) float64 {
	at := map[float64][]float64{}
	for k := range x {
		at[x[k]] = append(at[x[k]], y[k])
	}
	n, meanX, meanY := float64(len(x)), 0.0, 0.0
	for v, list := range at {
		meanX += float64(v*float64(len(list))) / n
		meanY += float64(median(list)*float64(len(list))) / n
	}
	xy, xx := 0.0, 0.0
	for v, list := range at {
		xy += float64((v - meanX) * (median(list) - meanY) * float64(len(list)))
		xx += float64((v - meanX) * (v - meanX) * float64(len(list)))
	}
	if xx == 0 {
		return 0
	}
	return max(0, xy/xx)
}

// measured runs a race on one thread, the first eighth of it before prepare.
func measured(o *LatencyOptions, settings map[string]string, prepare func(*train.Trainer) error) (err error) {
	maps.Copy(settings, map[string]string{"env": o.Env, "num_envs": strconv.Itoa(o.NumEnvs), "num_threads": "1", "schedule": "race"})
	maps.Copy(settings, o.Settings)
	t, err := newTrainer(o.Method, settings, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	if err := t.Begin(o.Steps+o.Steps/8+1, 0); err != nil {
		return err
	}
	if err := errors.Join(t.Run(o.Steps/8+1, 0), prepare(t)); err != nil {
		return err
	}
	return t.Run(0, 0)
}

// writeDurations writes a latency file.
func writeDurations(path string, durations map[string][]float64) error {
	text, err := json.Marshal(durations)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}
