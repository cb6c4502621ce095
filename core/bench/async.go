package bench

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/paceline-rl/paceline/core/cpu"
	"github.com/paceline-rl/paceline/core/threads"
	"github.com/paceline-rl/paceline/core/train"
)

// AsyncOptions are the options of the benchmark of asynchronous learners.
type AsyncOptions struct {
	Env        string            `json:"env"`
	Learners   []int             `json:"learners"`
	Envs       []int             `json:"envs"`        // of a learner
	NumThreads int               `json:"num_threads"` // 0: one per core
	Seconds    float64           `json:"seconds"`     // of a turn
	Turns      int               `json:"turns"`
	Settings   map[string]string `json:"settings"` // of A3C
}

// AsyncResult has the turns of the schedules with a number of learners and of environments. Ratios
// are medians of the turns' ratios.
type AsyncResult struct {
	Learners int `json:"learners"`
	Envs     int `json:"envs"`
	// Rates are steps per second of every turn, by schedule: race, unrecorded, lognormal, measured.
	Rates   map[string][]float64 `json:"rates"`
	Medians map[string]float64   `json:"medians"`
	// Recording is the rate of a race over that of an unrecorded one. Lognormal and Measured are
	// rates over those of a race.
	Recording float64 `json:"recording"`
	Lognormal float64 `json:"lognormal"`
	Measured  float64 `json:"measured"`
	// Overhead is the share of the cores' time of the races that went into recording and waiting
	// for locks.
	Overhead float64 `json:"overhead"`
	Lag      float64 `json:"lag"` // of the races
}

// AsyncReport compares the schedules of A3C.
type AsyncReport struct {
	Options AsyncOptions  `json:"options"`
	ISA     string        `json:"isa"`
	Threads int           `json:"threads"`
	Results []AsyncResult `json:"results"`
}

// asyncSchedules are the contenders, in the order of odd turns. Even turns have the reverse order.
var asyncSchedules = []string{"race", "unrecorded", "lognormal", "measured"}

// benchAsync times the schedules in turns.
func benchAsync(decode func(any) error) (any, error) {
	o := AsyncOptions{Env: "CartPole-v1", Learners: []int{4, 64}, Envs: []int{1, 4, 16}, Seconds: 1, Turns: 10}
	if err := decode(&o); err != nil {
		return nil, err
	}
	if !(o.Seconds > 0 && o.Seconds <= 3600) || o.Turns < 1 {
		return nil, fmt.Errorf("options: seconds %v, turns %d, must be above 0", o.Seconds, o.Turns)
	}
	r := &AsyncReport{Options: o, ISA: cpu.Chosen(), Threads: o.NumThreads}
	if r.Threads == 0 {
		r.Threads = threads.Cores
	}
	for _, learners := range o.Learners {
		for _, envs := range o.Envs {
			c, err := compareSchedules(&o, r.Threads, learners, envs)
			if err != nil {
				return nil, fmt.Errorf("learners %d, %d environments each: %w", learners, envs, err)
			}
			r.Results = append(r.Results, c)
		}
	}
	return r, nil
}

// compareSchedules is the comparison with a number of learners.
func compareSchedules(o *AsyncOptions, cores, learners, envs int) (c AsyncResult, err error) {
	c = AsyncResult{Learners: learners, Envs: envs, Rates: map[string][]float64{}, Medians: map[string]float64{}}
	folder, err := os.MkdirTemp("", "paceline-async")
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	file := filepath.Join(folder, "latency.json")
	if err := writeLatencies(file, &LatencyOptions{Method: "a3c", Env: o.Env, NumEnvs: envs, Steps: int64(1000 * envs), Settings: o.Settings}); err != nil {
		return c, err
	}
	trainers := map[string]*train.Trainer{}
	defer func() {
		for _, t := range trainers {
			err = errors.Join(err, t.Close())
		}
	}()
	for _, name := range asyncSchedules {
		settings := map[string]string{
			"env": o.Env, "learners": strconv.Itoa(learners), "num_envs": strconv.Itoa(learners * envs), "num_threads": strconv.Itoa(o.NumThreads), "schedule": "race",
		}
		switch name {
		case "lognormal":
			settings["schedule"] = "virtual"
		case "measured":
			settings["schedule"], settings["latency_file"] = "virtual", file
		}
		maps.Copy(settings, o.Settings)
		t, err := newTrainer("a3c", settings, nil)
		if err != nil {
			return c, err
		}
		trainers[name] = t
		if name == "unrecorded" {
			m, ok := t.Method().(interface{ Unrecord() })
			if !ok {
				return c, errors.New("a3c has no races without a record")
			}
			m.Unrecord()
		}
		if err := t.Begin(1<<50, 0); err != nil {
			return c, err
		}
	}
	var ran time.Duration // of the races
	before, err := overhead(trainers["race"])
	for turn := range o.Turns + 1 { // the first one warms up
		for k := range asyncSchedules {
			if turn%2 == 0 {
				k = len(asyncSchedules) - 1 - k
			}
			name := asyncSchedules[k]
			t := trainers[name]
			from, began := t.Stats().Steps, time.Now()
			if rerr := t.Run(0, time.Duration(o.Seconds*float64(time.Second))); rerr != nil {
				return c, errors.Join(err, rerr)
			}
			took := time.Since(began)
			if turn > 0 {
				c.Rates[name] = append(c.Rates[name], float64(t.Stats().Steps-from)/took.Seconds())
			}
			if name == "race" {
				ran += took
			}
		}
	}
	spent, oerr := overhead(trainers["race"])
	lag, lerr := value(trainers["race"], "async/lag")
	c.Overhead, c.Lag = (spent-before)/(float64(cores)*ran.Seconds()), lag
	ratio := func(a, b string) float64 {
		list := make([]float64, o.Turns)
		for k := range list {
			list[k] = c.Rates[a][k] / c.Rates[b][k]
		}
		return median(list)
	}
	c.Recording, c.Lognormal, c.Measured = ratio("race", "unrecorded"), ratio("lognormal", "race"), ratio("measured", "race")
	for name, rates := range c.Rates {
		c.Medians[name] = median(rates)
	}
	return c, errors.Join(err, oerr, lerr)
}

// overhead returns the seconds of recording and of waiting for locks.
func overhead(t *train.Trainer) (float64, error) {
	recording, err := value(t, "async/recording")
	locks, lerr := value(t, "async/wait_lock")
	return recording + locks, errors.Join(err, lerr)
}

// writeLatencies measures durations into a latency file.
func writeLatencies(path string, o *LatencyOptions) error {
	durations, err := measureLearner(o, nil)
	if err != nil {
		return err
	}
	return writeDurations(path, durations)
}
