package bench

import (
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// TunerOptions are the options of the benchmark of GA3C's tuner.
type TunerOptions struct {
	Machines []string `json:"machines"`
	Forms    []string `json:"forms"`
	Seeds    int      `json:"seeds"`
	Periods  int      `json:"periods"`
	Period   float64  `json:"period_s"` // of the tuner, virtual time
	Seconds  float64  `json:"seconds"`  // of virtual time, for a point of the grid
	Grid     [3][]int `json:"grid"`     // predictors, trainers, agents
	Start    [3]int   `json:"start"`    // predictors, trainers, agents
	Within   float64  `json:"within"`   // of the best of the grid
	Test     float64  `json:"tuner_test"`
	Pairs    int      `json:"tuner_pairs"`

	Here LatencyOptions `json:"here"` // what is measured for the machine of this name
}

// TunerPoint has the updates a second of fixed numbers.
type TunerPoint struct {
	numbers
	TPS float64 `json:"tps"`
}

// TunerRun is what a tuner found with a seed.
type TunerRun struct {
	Seed  int        `json:"seed"`
	Found TunerPoint `json:"found"` // the numbers after the last period, with the rate of a run with them
	Share float64    `json:"share"` // of the best of the grid
	// Within is the first period after which the kept numbers were within the bound; 0: none was.
	Within int `json:"within"`
	// Trace has the kept numbers after each period, from before the first one on.
	Trace []numbers `json:"trace"`
}

// TunerForm has the runs of a form of the tuner.
type TunerForm struct {
	Form   string     `json:"form"`
	Within int        `json:"within"` // runs that were within the bound at their end
	Runs   []TunerRun `json:"runs"`
}

// TunerMachine is the part of a machine.
type TunerMachine struct {
	Machine machine           `json:"machine"`
	Model   map[string]string `json:"model"`
	Grid    []TunerPoint      `json:"grid"` // the best first
	Start   TunerPoint        `json:"start"`
	Forms   []TunerForm       `json:"forms"`
}

// TunerReport has the best of a grid, and what the tuner's forms found.
type TunerReport struct {
	Options  TunerOptions   `json:"options"`
	Machines []TunerMachine `json:"machines"`
}

// benchTuner compares the numbers that GA3C's tuner finds in virtual time with the best of a grid.
// A period is shorter than the paper's minute, because that takes a third of the time. A window of
// such a period is 26 times as long as a cycle of an agent.
func benchTuner(decode func(any) error) (result any, err error) {
	o := TunerOptions{
		Machines: machineNames(), Forms: []string{"ladder", "paper", "authors"}, Seeds: 20, Periods: 60, Period: 20, Seconds: 20,
		Grid:  [3][]int{{1, 2, 4, 8, 16}, {1, 2, 4, 8, 16}, {16, 32, 64, 128}}, // section 5.1's
		Start: [3]int{1, 1, 1}, Within: 0.95, Test: 1, Pairs: 4,
		Here: LatencyOptions{Method: "ga3c", Env: "Pong", NumEnvs: 32, Steps: 20000, Settings: map[string]string{"cnn": "small", "n_steps": "5"}},
	}
	if err := decode(&o); err != nil {
		return nil, err
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	report := &TunerReport{Options: o}
	folder, err := os.MkdirTemp("", "paceline-tuner")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	var list []machine
	for _, name := range o.Machines {
		m, err := machineNamed(name)
		if name == hereName {
			m, err = measureHere(filepath.Join(folder, "latency.json"), &o.Here)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	for _, m := range list {
		x := tunerBench{o: &o, machine: m, rates: map[numbers]float64{}}
		part, err := x.run()
		if err != nil {
			return nil, err
		}
		report.Machines = append(report.Machines, part)
	}
	return report, nil
}

func (o *TunerOptions) check() error {
	if o.Seeds < 1 || o.Periods < 1 || !(o.Period > 0) || !(o.Seconds > 0) {
		return fmt.Errorf("options: seeds %d, periods %d, period_s %v, seconds %v, must be above 0", o.Seeds, o.Periods, o.Period, o.Seconds)
	}
	for k, list := range o.Grid {
		if len(list) == 0 || slices.Min(list) < 1 {
			return fmt.Errorf("options: grid %v, must have three lists of numbers above 0", o.Grid)
		}
		if o.Start[k] < 1 || o.Start[k] > slices.Max(list) {
			return fmt.Errorf("options: start %v, must be 1 to the largest of the grid %v", o.Start, o.Grid)
		}
	}
	return nil
}

// tunerBench is the benchmark on a machine.
type tunerBench struct {
	o       *TunerOptions
	machine machine
	rates   map[numbers]float64 // of fixed numbers
}

func (x *tunerBench) run() (TunerMachine, error) {
	r := TunerMachine{Machine: x.machine, Model: x.machine.ga3c()}
	for _, predictors := range x.o.Grid[0] {
		for _, trainers := range x.o.Grid[1] {
			for _, agents := range x.o.Grid[2] {
				point, err := x.point(numbers{predictors, trainers, agents})
				if err != nil {
					return r, err
				}
				r.Grid = append(r.Grid, point)
			}
		}
	}
	slices.SortStableFunc(r.Grid, func(a, b TunerPoint) int {
		switch {
		case a.TPS > b.TPS:
			return -1
		case a.TPS < b.TPS:
			return 1
		}
		return 0
	})
	var err error
	if r.Start, err = x.point(numbers{x.o.Start[0], x.o.Start[1], x.o.Start[2]}); err != nil {
		return r, err
	}
	for _, form := range x.o.Forms {
		f := TunerForm{Form: form}
		for seed := range x.o.Seeds {
			one, err := x.tune(form, seed, r.Grid[0].TPS)
			if err != nil {
				return r, fmt.Errorf("%s, tuner %s, seed %d: %w", x.machine.Name, form, seed, err)
			}
			if one.Share >= x.o.Within {
				f.Within++
			}
			f.Runs = append(f.Runs, one)
		}
		r.Forms = append(r.Forms, f)
	}
	return r, nil
}

// point measures fixed numbers, once.
func (x *tunerBench) point(n numbers) (TunerPoint, error) {
	rate, ok := x.rates[n]
	if !ok {
		f, err := x.machine.simulate(1, n, x.o.Seconds)
		if err != nil {
			return TunerPoint{}, err
		}
		rate = f.TPS
		x.rates[n] = rate
	}
	return TunerPoint{n, rate}, nil
}

// tune runs a tuner with a seed.
func (x *tunerBench) tune(form string, seed int, best float64) (r TunerRun, err error) {
	most := numbers{slices.Max(x.o.Grid[0]), slices.Max(x.o.Grid[1]), slices.Max(x.o.Grid[2])}
	start := fmt.Sprintf("%d,%d,%d", x.o.Start[0], x.o.Start[1], x.o.Start[2])
	s, err := newSimulation(seed, most, x.machine.ga3c(), map[string]string{
		"tuner": form, "tuner_start": start, "tuner_period": fmt.Sprint(x.o.Period),
		"tuner_test": fmt.Sprint(x.o.Test), "tuner_pairs": strconv.Itoa(x.o.Pairs),
	})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for periods := 0.0; periods < float64(x.o.Periods); {
		if err := s.Run(1000, 0); err != nil {
			return r, err
		}
		if periods, err = value(s.Trainer, "ga3c/tuner_periods"); err != nil {
			return r, err
		}
	}
	traced, ok := s.Method().(interface{ Trace() []byte })
	if !ok {
		return r, errors.New("the method has no trace")
	}
	r.Seed = seed
	if r.Trace, err = keptNumbers(string(traced.Trace()), numbers{x.o.Start[0], x.o.Start[1], x.o.Start[2]}, x.o.Periods); err != nil {
		return r, err
	}
	for period, n := range r.Trace {
		p, err := x.point(n)
		if err != nil {
			return r, err
		}
		r.Found, r.Share = p, p.TPS/best
		if r.Within == 0 && period > 0 && r.Share >= x.o.Within {
			r.Within = period
		}
	}
	return r, nil
}

// keptNumbers returns the kept numbers before the first period and after each of the first ones of
// a trace.
func keptNumbers(text string, start numbers, periods int) ([]numbers, error) {
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(rows) < 1+periods {
		return nil, fmt.Errorf("trace: %d periods, must be at least %d", len(rows)-1, periods)
	}
	list := []numbers{start}
	for _, row := range rows[1 : 1+periods] {
		n := list[len(list)-1]
		if row[8] == "true" {
			for k, to := range []*int{&n.Predictors, &n.Trainers, &n.Agents} {
				if *to, err = strconv.Atoi(row[2+k]); err != nil {
					return nil, fmt.Errorf("trace: %w", err)
				}
			}
		}
		list = append(list, n)
	}
	return list, nil
}
