//go:build gpu && cgo && linux

package cuda_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"runtime"
	"testing"

	"github.com/paceline-rl/paceline/core/cuda/cudatest"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/devices"
	"github.com/paceline-rl/paceline/core/rng"
)

// Tolerances of a GPU's fp32 results against the CPU's.
const (
	maxGradientError = 1e-5
	maxWeightsError  = 1e-4
	maxLossError     = 0.01
)

// agreement is the difference between a GPU's results and the CPU's fp32 results.
type agreement struct {
	Precision string  `json:"precision"`
	Gradient  float64 `json:"gradient"` // largest error of the first gradient / its largest element
	Weights   float64 `json:"weights"`  // norm of the error / norm of the change, after the early updates
	Loss      float64 `json:"loss"`     // relative error of the mean loss of all updates
}

// task is Q-learning with the paper's settings. Minibatches are drawn from a fixed set of images.
type task struct {
	spec          nn.Spec
	rows          int
	early, all    int // updates before the weights are compared, and before the loss is
	frames        [][]byte
	optimizer     nn.OptimizerConfig
	rate          float64
	targetEvery   int
	theta, target *nn.Params
}

// outcome is the result of a task on one device.
type outcome struct {
	gradient, weights []float32
	loss              float64
}

func newTask(t *testing.T, full bool) *task {
	// The paper's optimiser: its eps is larger than the gradients. Adam's steps have the same
	// length even if a gradient consists of rounding errors only. The weights are compared early:
	// rounding soon tips a maximum or a ReLU, so after 100 updates two of the CPU's own
	// instruction sets differ by 2 percent of the change.
	q := &task{rows: 32, early: 10, all: 1000, optimizer: nn.OptimizerConfig{Name: "rmsprop_keras"}, rate: 2.5e-4, targetEvery: 250}
	shape := []int{4, 84, 84}
	if !full { // the software device needs a second for a full-size update
		q.rows, q.early, q.all, q.targetEvery, shape = 4, 4, 8, 5, []int{2, 44, 40}
	}
	q.spec = nn.Spec{Obs: env.ObsSpec{Shape: shape}, Trunks: []nn.Trunk{{Arch: "nature_cnn"}}, Heads: []nn.Head{{Name: "q", Out: 6}}}
	r := rng.New(1, "images", 0)
	for range 512 {
		q.frames = append(q.frames, image(r, shape))
	}
	var err error
	if q.theta, err = q.spec.InitialParams(rng.New(1, "weights", 0)); err != nil {
		t.Fatal(err)
	}
	if q.target, err = q.spec.InitialParams(rng.New(1, "weights", 1)); err != nil {
		t.Fatal(err)
	}
	return q
}

// image returns frames of random gray squares on black.
func image(r *rng.Stream, shape []int) []byte {
	height, width := shape[1], shape[2]
	x := make([]byte, shape[0]*height*width)
	for plane := range shape[0] {
		for range 8 {
			top, left, bright := r.Intn(height-8), r.Intn(width-8), byte(64+r.Intn(192))
			for i := top; i < top+8; i++ {
				for j := left; j < left+8; j++ {
					x[(plane*height+i)*width+j] = bright
				}
			}
		}
	}
	return x
}

// draw fills b with a random minibatch.
func (q *task) draw(r *rng.Stream, b *experience.Transitions) {
	size := q.spec.Obs.Bytes()
	for i := range q.rows {
		at := r.Intn(len(q.frames))
		copy(b.Obs[i*size:], q.frames[at])
		copy(b.NextObs[i*size:], q.frames[(at+1)%len(q.frames)])
		b.Actions[i], b.Rewards[i], b.Discounts[i] = int32(r.Intn(6)), float32(r.Intn(3)-1), 0.99
		if r.Intn(20) == 0 {
			b.Discounts[i] = 0
		}
	}
}

func (q *task) run(t *testing.T, name string, precision nn.Precision) *outcome {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	d, err := devices.Open(name, min(4, runtime.NumCPU()), nil)
	check(err)
	defer d.Close()
	spec := q.spec
	spec.Precision = precision
	loss := nn.TD{Kind: "huber", Reduction: "mean"}
	size := q.rows * spec.Obs.Bytes()
	b := &experience.Transitions{Obs: make([]byte, size), NextObs: make([]byte, size), Actions: make([]int32, q.rows),
		Rewards: make([]float32, q.rows), Discounts: make([]float32, q.rows)}
	theta, target, draws := q.theta.Clone(), q.target.Clone(), rng.New(1, "draws", 0)
	o, r := &outcome{}, nn.Report{}

	// The first gradient uses the rewards as targets.
	learner, err := d.Learner(spec, q.rows, loss)
	check(err)
	q.draw(rng.New(1, "draws", 0), b)
	o.gradient = make([]float32, theta.Layout.Size)
	check(learner.Gradient(theta, nn.Batch{Obs: b.Obs, Actions: b.Actions, Columns: [][]float32{b.Rewards}}, o.gradient, &r))

	stepper, err := d.QStepper(nn.StepperConfig{Net: spec, Rows: q.rows, Loss: loss, Optimizer: q.optimizer, MaxGradNorm: 10}, nn.MaxQ{})
	check(err)
	for k := range q.all {
		if k%q.targetEvery == 0 && k > 0 {
			target.CopyFrom(theta)
		}
		q.draw(draws, b)
		check(stepper.Update(theta, target, b, q.rate, &r))
		o.loss += r.Loss / float64(q.all)
		if k+1 == q.early {
			o.weights = append(o.weights, theta.Host()...)
		}
	}
	return o
}

// compare returns the error of b against a. Both started with weights w.
func compare(a, b *outcome, w []float32) agreement {
	var largest, apart, difference, change float64
	for i, x := range a.gradient {
		largest = max(largest, math.Abs(float64(x)))
		apart = max(apart, math.Abs(float64(x)-float64(b.gradient[i])))
	}
	for i, x := range a.weights {
		difference += square(float64(x) - float64(b.weights[i]))
		change += square(float64(x) - float64(w[i]))
	}
	return agreement{Gradient: apart / largest, Weights: math.Sqrt(difference / change), Loss: math.Abs(b.loss-a.loss) / a.loss}
}

func square(x float64) float64 { return x * x }

// TestAgreement compares a GPU's gradient, weights and losses with the CPU's in fp32. It only logs
// tf32 and bf16. If PACELINE_FIGURES names a file, the file gets all results as JSON.
func TestAgreement(t *testing.T) {
	cudatest.Need(t)
	if os.Getenv(cudatest.Emulator) != "" {
		t.Skip("left out: tested without an emulator")
	}
	defer kernel.Use(kernel.ISA())
	if err := kernel.Use(kernel.ISAs()[0]); err != nil {
		t.Fatal(err)
	}
	q := newTask(t, os.Getenv(cudatest.Mode) == "gpu")
	cpu := q.run(t, "cpu", nn.FP32)
	var all []agreement
	for _, precision := range []nn.Precision{nn.FP32, nn.TF32, nn.BF16} {
		a := compare(cpu, q.run(t, "cuda", precision), q.theta.Host())
		a.Precision = string(precision)
		all = append(all, a)
		t.Logf("%s: first gradient %.1e of its largest element, weights after %d updates %.1e of the change, mean loss of %d updates %.4f %%",
			precision, a.Gradient, q.early, a.Weights, q.all, 100*a.Loss)
	}
	if a := all[0]; !(a.Gradient <= maxGradientError && a.Weights <= maxWeightsError && a.Loss <= maxLossError) {
		t.Errorf("fp32: %+v, must be at most %v, %v and %v", a, maxGradientError, maxWeightsError, maxLossError)
	}
	if !(all[1].Gradient > all[0].Gradient) {
		t.Error("tf32 is as close as fp32: the test does not distinguish precisions")
	}
	if file := os.Getenv("PACELINE_FIGURES"); file != "" {
		text, err := json.Marshal(map[string]any{"early": q.early, "updates": q.all, "rows": q.rows, "shape": fmt.Sprint(q.spec.Obs.Shape), "agreement": all})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
