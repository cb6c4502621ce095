package ga3c_test

import (
	"math"
	"testing"

	"github.com/paceline-rl/paceline/core/train/traintest"
)

// Steps, predictions and updates that share one core take the sum of their times; with a device of
// their own, predictions and updates of one agent overlap with nothing but the next steps.
func TestPredictionsAndUpdatesShareTheCoresOfTheSteps(t *testing.T) {
	pps := func(device string) float64 {
		tr := walks(t, "net_arch_pi", "2", "net_arch_vf", "2", "n_steps", "5", "training_queue", "20", "learning_rate", "0",
			"latency_step", "0.004", "latency_predict", "0.0009", "latency_predict_row", "0.0001", "latency_update", "0.01", "latency_update_row", "0.001",
			"latency_device", device, "latency_cores", "1", "predictors", "1", "trainers", "1", "num_envs", "1")
		traintest.Check(t, tr.Run(2000, 0))
		return traintest.Metric(t, tr, "ga3c/pps")
	}
	// Segments of an episode's end are shorter: an update takes 10 ms and 1 ms for each row.
	if shared, most := pps("-1"), 5/(5*(0.004+0.001)+0.015); shared > most*1.01 || shared < 0.8*most {
		t.Errorf("%v predictions a second on one core, want about %v", shared, most)
	}
	if own, most := pps("0"), 1/(0.004+0.001); math.Abs(own/most-1) > 0.01 {
		t.Errorf("%v predictions a second with a device, want about %v", own, most)
	}
}
