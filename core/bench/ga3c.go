package bench

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/paceline-rl/paceline/core/cpu"
	"github.com/paceline-rl/paceline/core/threads"
	"github.com/paceline-rl/paceline/core/train"
)

// GA3COptions are the options of the benchmark of GA3C.
type GA3COptions struct {
	Machines   []string          `json:"machines"` // in virtual time
	Seconds    float64           `json:"seconds"`  // of virtual time
	Seed       int               `json:"seed"`
	Env        string            `json:"env"`         // of races on this machine; "": there are none
	NumThreads int               `json:"num_threads"` // of races; 0: one per core
	Steps      int64             `json:"steps"`       // of a race
	Trials     int               `json:"trials"`
	Settings   map[string]string `json:"settings"` // of races; those that A2C knows, without num_envs, are its, too
}

// GA3CMachine has what GA3C does on a machine of the paper, in virtual time, with the numbers of
// section 5.1. The paper's figures are those that its text and tables state.
type GA3CMachine struct {
	Machine machine           `json:"machine"`
	Model   map[string]string `json:"model"` // settings
	Flow    Flow              `json:"flow"`
}

// GA3CRace has the trials of a race on this machine, each with all of its computations. All cases
// run trial i before any case runs trial i+1.
type GA3CRace struct {
	Name      string    `json:"name"`   // "ga3c", or "a2c": A2C with 16 environments
	Joined    int       `json:"joined"` // min_training_batch: the steps that segments are joined to; 1 in the paper; 0 for A2C
	PerSecond []float64 `json:"steps_per_second"`
	Median    float64   `json:"median"`
	VsA2C     float64   `json:"vs_a2c"` // median of the trials' ratios
	Flow      *Flow     `json:"flow"`   // of the last trial; nil for A2C
}

// GA3CReport has machines in virtual time, and races.
type GA3CReport struct {
	Options  GA3COptions   `json:"options"`
	ISA      string        `json:"isa"`
	Threads  int           `json:"threads"`
	Machines []GA3CMachine `json:"machines"`
	Races    []GA3CRace    `json:"races"`
}

// benchGA3C runs the simulated machines, and then races.
func benchGA3C(decode func(any) error) (any, error) {
	o := GA3COptions{Machines: machineNames(), Seconds: 20, Seed: 1, Env: "Pong", Steps: 10000, Trials: 3}
	if err := decode(&o); err != nil {
		return nil, err
	}
	if !(o.Seconds > 0) || o.Steps < 1 || o.Trials < 1 {
		return nil, fmt.Errorf("options: seconds %v, steps %d, trials %d, must be above 0", o.Seconds, o.Steps, o.Trials)
	}
	if value, ok := o.Settings["min_training_batch"]; ok {
		return nil, fmt.Errorf("options: min_training_batch %q, must not be among the settings: each race has its own", value)
	}
	r := &GA3CReport{Options: o, ISA: cpu.Chosen(), Threads: o.NumThreads, Machines: []GA3CMachine{}, Races: []GA3CRace{}}
	if r.Threads == 0 {
		r.Threads = threads.Cores
	}
	for _, name := range o.Machines {
		m, err := machineNamed(name)
		if err != nil {
			return nil, err
		}
		f, err := m.simulate(o.Seed, numbers{bestPredictors, bestTrainers, bestAgents}, o.Seconds)
		if err != nil {
			return nil, err
		}
		r.Machines = append(r.Machines, GA3CMachine{m, m.ga3c(), f})
	}
	if o.Env != "" {
		r.Races = []GA3CRace{{Name: "ga3c", Joined: 1}, {Name: "ga3c", Joined: 20}, {Name: "ga3c", Joined: 40}, {Name: "a2c"}}
	}
	if len(r.Races) == 0 {
		return r, nil
	}
	for range o.Trials {
		for k := range r.Races {
			if err := r.Races[k].trial(&o); err != nil {
				return nil, fmt.Errorf("%s: %w", r.Races[k].Name, err)
			}
		}
	}
	a2c := r.Races[len(r.Races)-1].PerSecond
	for k := range r.Races {
		c := &r.Races[k]
		ratios := make([]float64, len(a2c))
		for i := range ratios {
			ratios[i] = c.PerSecond[i] / a2c[i]
		}
		c.Median, c.VsA2C = median(c.PerSecond), median(ratios)
	}
	return r, nil
}

// trial runs a trial of a race.
func (c *GA3CRace) trial(o *GA3COptions) (err error) {
	n, method := numbers{2, 2, 32}, "ga3c"
	settings := map[string]string{"env": o.Env, "seed": strconv.Itoa(o.Seed), "num_threads": strconv.Itoa(o.NumThreads), "cnn": "small", "n_steps": "5"}
	if c.Name == "a2c" {
		method, settings["num_envs"] = "a2c", "16"
	}
	if method == "a2c" {
		known, err := train.NewConfig(method)
		if err != nil {
			return err
		}
		for name, value := range o.Settings {
			if _, err := known.Get(name); err == nil && name != "num_envs" {
				settings[name] = value
			}
		}
	} else {
		settings["schedule"], settings["min_training_batch"] = "race", strconv.Itoa(c.Joined)
		n.set(settings)
		maps.Copy(settings, o.Settings)
		for name, to := range map[string]*int{"predictors": &n.Predictors, "trainers": &n.Trainers, "num_envs": &n.Agents} {
			if *to, err = strconv.Atoi(settings[name]); err != nil {
				return fmt.Errorf("options: %s %q, must be a number", name, settings[name])
			}
		}
	}
	t, err := newTrainer(method, settings, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	warm := max(1, o.Steps/8)
	if method == "ga3c" {
		f, err := flow(t, n, warm, o.Steps)
		if err != nil {
			return err
		}
		c.PerSecond, c.Flow = append(c.PerSecond, f.PPS), &f
		return nil
	}
	for _, steps := range []int64{warm, o.Steps} {
		from, began := t.Stats().Steps, time.Now()
		if err := errors.Join(t.Begin(steps, 0), t.Run(0, 0)); err != nil {
			return err
		}
		if steps == o.Steps {
			c.PerSecond = append(c.PerSecond, float64(t.Stats().Steps-from)/time.Since(began).Seconds())
		}
	}
	return nil
}
