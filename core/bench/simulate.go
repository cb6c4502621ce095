package bench

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/train"
)

// still is an environment without an end that computes nothing.
type still struct{}

func (still) Spec() env.Spec {
	return env.Spec{ID: "still", Obs: env.ObsSpec{DType: env.Float32, Shape: []int{1}, Low: []float32{0}, High: []float32{1}}, Action: env.ActionSpec{N: 2}}
}
func (still) Seed(uint64) {}
func (still) Reset(obs []byte) error {
	clear(obs)
	return nil
}
func (still) Step(_ int32, obs []byte) (float32, env.End, error) {
	clear(obs)
	return 0, 0, nil
}
func (still) Close() error { return nil }

// numbers are NP, NT and NA.
type numbers struct {
	Predictors int `json:"predictors"`
	Trainers   int `json:"trainers"`
	Agents     int `json:"agents"`
}

// set puts the numbers into settings.
func (n numbers) set(to map[string]string) {
	to["predictors"], to["trainers"], to["num_envs"] = strconv.Itoa(n.Predictors), strconv.Itoa(n.Trainers), strconv.Itoa(n.Agents)
}

// simulation is a trainer of GA3C in virtual time. Its network has one unit and its environments
// compute nothing, so that it takes little real time.
type simulation struct{ *train.Trainer }

// newSimulation makes the trainer of a model of latencies.
func newSimulation(seed int, n numbers, settings ...map[string]string) (simulation, error) {
	all := map[string]string{
		"policy": "MlpPolicy", "net_arch_pi": "1", "net_arch_vf": "1", "learning_rate": "0", "n_steps": "5",
		"seed": strconv.Itoa(seed), "num_threads": "1",
	}
	for _, s := range settings {
		maps.Copy(all, s)
	}
	n.set(all)
	t, err := newTrainer("ga3c", all, func(int) (env.Env, error) { return still{}, nil })
	return simulation{t}, err
}

// newTrainer makes a trainer of a method with settings.
func newTrainer(method string, settings map[string]string, mk func(i int) (env.Env, error)) (*train.Trainer, error) {
	cfg, err := train.NewConfig(method)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if err := cfg.Set(name, settings[name]); err != nil {
			return nil, err
		}
	}
	return train.New(cfg, mk)
}

// value returns a metric.
func value(t *train.Trainer, name string) (float64, error) {
	i, err := t.MetricIndex(name)
	if err != nil {
		return 0, err
	}
	m, _ := t.Metric(i)
	return m.Value, nil
}

// values puts metrics into numbers.
func values(t *train.Trainer, to map[string]*float64) (err error) {
	for name, number := range to {
		v, verr := value(t, name)
		*number, err = v, errors.Join(err, verr)
	}
	return err
}

// Flow is what a run of GA3C did, without its first steps.
type Flow struct {
	numbers
	Seconds         float64 `json:"seconds"` // of the schedule
	PPS             float64 `json:"pps"`
	TPS             float64 `json:"tps"`
	PredictionBatch float64 `json:"prediction_batch"`
	TrainingBatch   float64 `json:"training_batch"`
	PredictionQueue float64 `json:"prediction_queue"`
	TrainingQueue   float64 `json:"training_queue"`
	Lag             float64 `json:"lag"`
	LagMost         float64 `json:"lag_most"`
	// Lags are shares of the rows whose lag was 0, 1, 2 to 3, 4 to 7, and so on; the last one is open.
	Lags []float64 `json:"lags"`
	// CycleMS is the mean time from one step of an agent to its next one. MostUpdateMS is the longest
	// time that an update can take on average with this number of trainers. Both follow from Little's
	// law.
	CycleMS      float64 `json:"cycle_ms"`
	MostUpdateMS float64 `json:"most_update_ms"`
}

// lagNames are the ends of the names of the lags' metrics.
var lagNames = []string{"0_to_0", "1_to_1", "2_to_3", "4_to_7", "8_to_15", "16_to_31", "32_to_63", "64_to_above"}

// take takes parts[0] steps, then parts[1], and so on. The trainer's means are then of the last
// part.
func take(t *train.Trainer, parts ...int64) error {
	for _, steps := range parts {
		if err := t.Begin(steps, 0); err != nil {
			return err
		}
		if err := t.Run(0, 0); err != nil {
			return err
		}
	}
	return nil
}

// flow takes warm and then steps steps.
func flow(t *train.Trainer, n numbers, warm, steps int64) (Flow, error) {
	f := Flow{numbers: n, Lags: make([]float64, len(lagNames))}
	if err := take(t, warm, steps); err != nil {
		return f, err
	}
	list := map[string]*float64{
		"ga3c/time": &f.Seconds, "ga3c/pps": &f.PPS, "ga3c/tps": &f.TPS, "ga3c/prediction_batch": &f.PredictionBatch, "ga3c/training_batch": &f.TrainingBatch,
		"ga3c/prediction_queue": &f.PredictionQueue, "ga3c/training_queue": &f.TrainingQueue, "ga3c/lag_mean": &f.Lag, "ga3c/lag_most": &f.LagMost,
	}
	for k, name := range lagNames {
		list["ga3c/lag_"+name] = &f.Lags[k]
	}
	if err := values(t, list); err != nil {
		return f, err
	}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if math.IsNaN(*list[name]) {
			return f, fmt.Errorf("options: steps %d (of a simulated machine those of its seconds), must be more: no update ended, so %s has no value", steps, name)
		}
	}
	f.CycleMS, f.MostUpdateMS = 1e3*float64(n.Agents)/f.PPS, 1e3*float64(n.Trainers)/f.TPS
	return f, nil
}

// simulate returns the flow of a machine with fixed numbers, over about `seconds` of virtual time.
func (m *machine) simulate(seed int, n numbers, seconds float64) (f Flow, err error) {
	s, err := newSimulation(seed, n, m.ga3c())
	if err != nil {
		return f, fmt.Errorf("%s: %w", m.Name, err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	// The rate is not known before: at most all agents step all the time. Perhaps no update ends in so
	// few steps.
	if err := take(s.Trainer, int64(8*n.Agents), int64(32*n.Agents)); err != nil {
		return f, err
	}
	pps, err := value(s.Trainer, "ga3c/pps")
	if err != nil {
		return f, err
	}
	return flow(s.Trainer, n, int64(max(1, seconds/4*pps)), int64(max(1, seconds*pps)))
}
