package bench

import (
	"fmt"
	"maps"
	"strconv"

	"github.com/paceline-rl/paceline/core/threads"
)

// A machine is a cost model of one of the systems of Babaeizadeh et al. 2017 ("GA3C"), Table 1,
// with the small network. Given is what the paper states. Its facts do not all fit together: with
// 128 agents and 1,361 predictions a second an agent's whole cycle takes 94 ms (Little's law), and
// the mean wait for a prediction of 108 ms is longer; two trainers with 272 updates a second take
// at most 7.3 ms an update, and the mean is given as 11.1 ms. So the model has the rates of Table
// 2, and the times on the GPU: 10 % of 108 ms for a prediction, 41 % of 11.1 ms for an update.
//
//	step         the CPU's time: utilisation x cores / PPS. The CPU's other work is counted in
//	update       4.55 ms on System I. On II and III fitted: times the GPU's time for a step
//	             (utilisation / PPS) over that of System I
//	predict      10.8 ms on System I. On II and III fitted as update is
//	predict_row  fitted to Table 2's PPS with the numbers of section 5.1, 128 agents, two predictors
//	             and two trainers
//	device       4: section 5.1 found no numbers better than two predictors and two trainers, so
//	             more than four threads do not compute at the same time
//	sigma        an assumption
//
// System IV has no rates in the paper.
type machine struct {
	Name        string  `json:"name"`
	Cores       int     `json:"cores"`       // Table 1
	A3C         float64 `json:"a3c_pps"`     // Table 2: predictions a second of A3C on the CPU
	GA3C        float64 `json:"ga3c_pps"`    // Table 2
	CPU         float64 `json:"cpu"`         // Table 2: utilisation
	GPU         float64 `json:"gpu"`         // Table 2: utilisation
	PredictWait float64 `json:"predict_ms"`  // section 5.1; 0: not given
	Update      float64 `json:"update_ms"`   // section 5.1; 0: not given
	RowMS       float64 `json:"fit_row_ms"`  // fitted: predict_row
	Fitted      string  `json:"fitted_what"` // which settings are fitted

	measured map[string]string // settings, of the machine at hand
}

// hereName is the name of the machine at hand. Its durations are measured, and there is no GPU:
// steps, predictions and updates share its cores.
const hereName = "here"

// measureHere measures the durations of GA3C's small network on Pong, and writes them to a file.
func measureHere(file string, o *LatencyOptions) (machine, error) {
	durations, err := measureGA3C(o)
	if err != nil {
		return machine{}, err
	}
	m := machine{Name: hereName, Cores: threads.Cores, measured: map[string]string{
		"latency_file": file, "latency_device": "-1", "latency_cores": strconv.Itoa(threads.Cores),
	}}
	return m, writeDurations(file, durations)
}

var machines = []machine{
	{Name: "System I", Cores: 16, A3C: 352, GA3C: 1361, CPU: 0.32, GPU: 0.56, PredictWait: 108, Update: 11.1, RowMS: 1.16, Fitted: "latency_step, latency_predict_row, latency_device"},
	{Name: "System II", Cores: 8, A3C: 116, GA3C: 728, CPU: 0.62, GPU: 0.33, RowMS: 2.28, Fitted: "all durations, latency_device"},
	{Name: "System III", Cores: 16, A3C: 300, GA3C: 1248, CPU: 0.31, GPU: 0.60, RowMS: 1.22, Fitted: "all durations, latency_device"},
}

// The numbers of section 5.1 with the most updates a second on System I.
const (
	bestPredictors, bestTrainers, bestAgents = 2, 2, 128
)

// Spread of a machine's durations: sigma of lognormal distributions.
const (
	stepSigma   = 0.3
	deviceSigma = 0.2
)

// machineNames are the names of all machines.
func machineNames() (names []string) {
	for _, m := range machines {
		names = append(names, m.Name)
	}
	return names
}

// machineNamed returns a machine.
func machineNamed(name string) (machine, error) {
	for _, m := range machines {
		if m.Name == name {
			return m, nil
		}
	}
	return machine{}, fmt.Errorf("options: machine %q, must be System I, System II, System III or, for the tuner, %s", name, hereName)
}

// onGPU is the GPU's time for a step in relation to that on System I.
func (m *machine) onGPU() float64 {
	first := &machines[0]
	return (m.GPU / m.GA3C) / (first.GPU / first.GA3C)
}

// ga3c is the model as settings of GA3C.
func (m *machine) ga3c() map[string]string {
	if m.measured != nil {
		return maps.Clone(m.measured)
	}
	seconds := func(ms, sigma float64) string {
		text := strconv.FormatFloat(ms/1e3, 'g', 4, 64)
		if sigma > 0 {
			text += fmt.Sprintf(":%g", sigma)
		}
		return text
	}
	first := &machines[0]
	return map[string]string{
		"latency_step":        seconds(1e3*m.CPU*float64(m.Cores)/m.GA3C, stepSigma),
		"latency_predict":     seconds(0.10*first.PredictWait*m.onGPU(), deviceSigma),
		"latency_predict_row": seconds(m.RowMS, 0),
		"latency_update":      seconds(0.41*first.Update*m.onGPU(), deviceSigma),
		"latency_update_row":  "1e-09", // the GPU's time hardly depends on the five rows of a segment
		"latency_device":      strconv.Itoa(bestPredictors + bestTrainers),
		"latency_cores":       strconv.Itoa(m.Cores),
	}
}

// a3c is the model of A3C on the CPU as settings of A3C: a learner of one environment on each core,
// and five steps between updates. A step takes as long as in ga3c. The rest of Table 2's time is
// fitted: forward and backward pass of a gradient take four times as long as the five forward
// passes before it, because a backward pass is two forward passes, and the values and the loss are
// another one. Pulls and pushes take 1 ms.
func (m *machine) a3c() map[string]string {
	const steps, visits = 5, 1e-3
	step := m.CPU * float64(m.Cores) / m.GA3C
	forward := (float64(float64(m.Cores)*steps)/m.A3C - float64(steps*step) - 2*visits) / (steps + 4*steps)
	text := func(s, sigma float64) string { return fmt.Sprintf("%.4g:%g", s, sigma) }
	return map[string]string{
		"learners": strconv.Itoa(m.Cores), "num_envs": strconv.Itoa(m.Cores), "n_steps": strconv.Itoa(steps),
		"latency_step": text(step, stepSigma), "latency_forward": text(forward, deviceSigma), "latency_gradient": text(4*steps*forward, deviceSigma),
		"latency_pull": text(visits, deviceSigma), "latency_push": text(visits, deviceSigma),
	}
}
