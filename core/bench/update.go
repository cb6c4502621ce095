package bench

import (
	"fmt"
	"slices"
	"time"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/limits"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/replay"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/threads"
)

// UpdateOptions are those of the benchmark of minibatch updates and of acting.
type UpdateOptions struct {
	Device     string   `json:"device"` // "cpu", "cuda", "cuda:1" ...
	Batch      int      `json:"batch"`
	Act        []int    `json:"act"`        // rows of the forward passes
	Precisions []string `json:"precisions"` // default: all that the device has
	Threads    []int    `json:"threads"`    // default: 1, and on the CPU one per core as well
	Trials     int      `json:"trials"`
	Row        int      `json:"row"` // updates in a row; default: 1,000 on a GPU, none on the CPU
}

// UpdateResult is one kind of work with one precision and number of threads.
// Trial i of all results was measured before trial i+1 of any.
type UpdateResult struct {
	// Work is "update", "row" (one of Row updates in a row), "act", or "sample": drawing and
	// unstacking a batch, which is the host's work on any device.
	Work      string `json:"work"`
	Batch     int    `json:"batch"`
	Precision string `json:"precision"`
	Threads   int    `json:"threads"`
	// Flop is the floating-point operations that the textbook's convolutions and
	// products would do; Done those of the products that the kernels do.
	Flop float64 `json:"flop"`
	Done float64 `json:"flop_done"`
	// Milliseconds, one a trial.
	Ms []float64 `json:"ms"`
	// Peak is the rate of multiply-adds on registers, measured in a burst on the
	// same threads right after each trial, in GFLOP/s. A GPU has none.
	Peak []float64 `json:"peak_gflops"`
}

// UpdateReport has the raw times; whoever prints them takes medians.
type UpdateReport struct {
	ISA    string `json:"isa"`
	Device string `json:"device"` // its name: "cpu", or "cuda:0 (NVIDIA ...)"
	Row    int    `json:"row"`
	// Enqueued is how many of a row are enqueued before the device is waited for; 0: each is waited for.
	Enqueued int            `json:"enqueued"`
	Results  []UpdateResult `json:"results"`
}

// kernelPrecisions are those that the CPU has, and that its peak is measured with.
var kernelPrecisions = map[string]kernel.Precision{"fp32": kernel.FP32, "bf16": kernel.BF16}

// gpuPrecisions are those that a GPU has.
var gpuPrecisions = []string{"fp32", "tf32", "bf16"}

// updateCase is what an UpdateResult is measured with.
type updateCase struct {
	pool      *threads.Pool // for samples
	device    nn.Device     // for the rest
	precision kernel.Precision
	gpu       bool
	stepper   nn.QStepper
	net       nn.Network
	theta     *nn.Params
	minibatch *experience.Transitions
	picks     []int
	rates     []float64 // of as many updates as the stepper enqueues at a time
}

// row does n updates in a row, as training has them due all at once: on a GPU as many as it
// takes are enqueued one behind the other, of frames that it holds, and then waited for.
func (c *updateCase) row(n int, target *nn.Params, b *experience.Transitions, r *nn.Report) error {
	stacks, ok := c.stepper.(nn.StackStepper)
	if !ok {
		return c.updates(n, target, b, r)
	}
	for n > 0 {
		rates := c.rates[:min(n, len(c.rates))]
		if err := stacks.Start(c.theta, target, 0, rates, false); err != nil {
			return err
		}
		if _, err := stacks.Finish(); err != nil {
			return err
		}
		n -= len(rates)
	}
	return nil
}

// updates does n updates, and waits for each.
func (c *updateCase) updates(n int, target *nn.Params, b *experience.Transitions, r *nn.Report) error {
	for range n {
		if err := c.stepper.Update(c.theta, target, b, learningRate, r); err != nil {
			return err
		}
	}
	return nil
}

const learningRate = 1e-5

// heldFrames is more than caches hold.
const heldFrames = 10_000

// hold fills a device's memory with frames, and its minibatches with stacks of them.
func (c *updateCase) hold(obs env.ObsSpec, r *rng.Stream) error {
	stacks, ok := c.stepper.(nn.StackStepper)
	if !ok {
		return nil
	}
	deep := obs.Shape[0]
	width := obs.Bytes() / deep
	if err := stacks.Resize(heldFrames, width); err != nil {
		return err
	}
	frames := randomBytes(r, 100*width)
	for slot := 0; slot < heldFrames; slot += 100 {
		if err := stacks.Put(slot, frames); err != nil {
			return err
		}
	}
	for _, m := range stacks.Minibatches() {
		for i := range m.Stacks {
			first := r.Intn(heldFrames)
			m.Stacks[i] = experience.Stack{First: int32(first), Slots: heldFrames, Frames: int32(deep)}
			m.NextStacks[i] = experience.Stack{First: int32((first + 1) % heldFrames), Slots: heldFrames, Frames: int32(deep)}
			m.Actions[i], m.Rewards[i], m.Discounts[i] = int32(r.Intn(6)), 0, 0.99
		}
		c.rates = append(c.rates, learningRate)
	}
	return stacks.Upload(0, len(c.rates))
}

// benchUpdate times the Nature CNN on 84x84x4 with 6 actions: a whole update
// (target pass, forward, backward, gradient norm, Adam), the drawing of its batch
// from the replay memory, and forward passes.
func benchUpdate(decode func(any) error) (any, error) {
	o := UpdateOptions{Device: "cpu", Batch: 32, Act: []int{1, 8, 32}, Trials: 20, Row: -1}
	if err := decode(&o); err != nil {
		return nil, err
	}
	device, err := nn.NewDevice(o.Device, 1, nil)
	if err != nil {
		return nil, err
	}
	defer device.Close()
	gpu := device.Name() != "cpu"
	o.complete(gpu)
	most, err := o.check(gpu)
	if err != nil {
		return nil, err
	}
	spec := nn.Spec{Obs: env.ObsSpec{Shape: []int{4, 84, 84}}, Trunks: []nn.Trunk{{Arch: "nature_cnn"}}, Heads: []nn.Head{{Name: "q", Out: 6}}}
	if err := admitUpdate(device, spec, &o, most); err != nil {
		return nil, err
	}
	r := rng.New(0, "bench", 0)
	theta, err := spec.InitialParams(r)
	if err != nil {
		return nil, err
	}
	target, size := theta.Clone(), spec.Obs.Bytes()
	b := &experience.Transitions{
		Obs: randomBytes(r, o.Batch*size), NextObs: randomBytes(r, o.Batch*size),
		Actions: make([]int32, o.Batch), Rewards: make([]float32, o.Batch), Discounts: make([]float32, o.Batch),
	}
	var parts nn.Report
	states := randomBytes(r, most*size)

	memory, err := randomMemory(spec.Obs, r)
	if err != nil {
		return nil, err
	}
	defer memory.Close()
	report := &UpdateReport{ISA: kernel.ISA(), Device: device.Name(), Row: o.Row}
	var cases []*updateCase
	for _, precision := range o.Precisions {
		for _, n := range o.Threads {
			c := &updateCase{theta: theta.Clone(), precision: kernelPrecisions[precision], gpu: gpu}
			if c.pool, err = threads.NewPool(n, nil); err != nil {
				return nil, err
			}
			defer c.pool.Close()
			if c.device, err = device.Another(n, nil); err != nil {
				return nil, err
			}
			defer c.device.Close()
			spec.Precision = nn.Precision(precision)
			if c.stepper, err = c.device.QStepper(stepping(spec, o.Batch), false); err != nil {
				return nil, err
			}
			if c.net, err = c.device.Network(spec, most); err != nil {
				return nil, err
			}
			cases = append(cases, c)
			update := UpdateResult{Work: "update", Batch: o.Batch, Precision: precision, Threads: n}
			update.Flop, update.Done = spec.ForwardFlop(o.Batch)
			flop, done := spec.GradientFlop(o.Batch)
			update.Flop, update.Done = update.Flop+flop, update.Done+done
			c.minibatch, c.picks = memory.Minibatch(o.Batch), make([]int, o.Batch)
			sample := UpdateResult{Work: "sample", Batch: o.Batch, Precision: precision, Threads: n}
			report.Results = append(report.Results, update, sample)
			if o.Row > 0 {
				if err := c.hold(spec.Obs, r); err != nil {
					return nil, err
				}
				report.Enqueued = len(c.rates)
				row := update
				row.Work = "row"
				report.Results = append(report.Results, row)
			}
			for _, rows := range o.Act {
				act := UpdateResult{Work: "act", Batch: rows, Precision: precision, Threads: n}
				act.Flop, act.Done = spec.ForwardFlop(rows)
				report.Results = append(report.Results, act)
			}
		}
	}
	for trial := range o.Trials + 1 { // the first one warms up
		at := 0
		next := func(took time.Duration, c *updateCase) {
			report.Results[at].add(trial, took, c)
			at++
		}
		for _, c := range cases {
			var took time.Duration
			for range 2 { // the second one counts: in training, too, updates follow updates
				began := time.Now()
				if err := c.updates(1, target, b, &parts); err != nil {
					return nil, err
				}
				took = time.Since(began)
			}
			next(took, c)
			began := time.Now()
			replay.Uniform{Memory: memory}.Draw(r, c.picks)
			memory.Gather(c.picks, 0.99, c.minibatch, c.pool)
			next(time.Since(began), c)
			if o.Row > 0 {
				began := time.Now()
				if err := c.row(o.Row, target, b, &parts); err != nil {
					return nil, err
				}
				next(time.Since(began)/time.Duration(o.Row), c)
			}
			for _, rows := range o.Act {
				for range 3 { // the third one counts: the second one packs the weights of dense layers
					began := time.Now()
					if _, err := c.net.Forward(c.theta, states[:rows*size], rows); err != nil {
						return nil, err
					}
					took = time.Since(began)
				}
				next(took, c)
			}
		}
	}
	return report, nil
}

// complete fills in what was left out.
func (o *UpdateOptions) complete(gpu bool) {
	if o.Precisions == nil {
		if o.Precisions = []string{"fp32", "bf16"}; gpu {
			o.Precisions = gpuPrecisions
		}
	}
	if o.Threads == nil {
		o.Threads = []int{1}
		if n := threads.Cores; n > 1 && !gpu {
			o.Threads = append(o.Threads, n)
		}
	}
	if o.Row < 0 {
		if o.Row = 0; gpu {
			o.Row = 1000
		}
	}
}

// check returns the most rows of a forward pass.
func (o *UpdateOptions) check(gpu bool) (most int, err error) {
	if o.Batch < 1 || o.Trials < 1 {
		return 0, fmt.Errorf("options: batch %d, trials %d, must be at least 1", o.Batch, o.Trials)
	}
	if o.Batch > nn.MaxRows {
		return 0, fmt.Errorf("options: batch %d, must be at most %d", o.Batch, nn.MaxRows)
	}
	most = 1
	for _, rows := range o.Act {
		if rows < 1 || rows > nn.MaxRows {
			return 0, fmt.Errorf("options: act %d, must be 1 to %d", rows, nn.MaxRows)
		}
		most = max(most, rows)
	}
	for _, precision := range o.Precisions {
		if gpu && !slices.Contains(gpuPrecisions, precision) {
			return 0, fmt.Errorf("options: precisions %q, must be fp32, tf32 or bf16", precision)
		}
		if _, ok := kernelPrecisions[precision]; !gpu && !ok {
			return 0, fmt.Errorf("options: precisions %q, must be fp32 or bf16", precision)
		}
	}
	return most, nil
}

// stepping is what updates are measured with.
func stepping(net nn.Spec, rows int) nn.StepperConfig {
	return nn.StepperConfig{Net: net, Rows: rows, Loss: nn.TD{Kind: "huber", Reduction: "mean"}, Optimizer: nn.OptimizerConfig{Name: "adam"}, MaxGradNorm: 10}
}

// admitUpdate refuses what there is not memory enough for.
func admitUpdate(device nn.Device, spec nn.Spec, o *UpdateOptions, most int) error {
	each, err := device.Bytes(spec, nn.Needs{Sets: 3, NetworkRows: []int{o.Batch, most}, LearnerRows: []int{o.Batch}, Optimizer: nn.OptimizerConfig{Name: "adam"}})
	if err != nil {
		return err
	}
	size := int64(spec.Obs.Bytes())
	return limits.Admit(
		limits.Part{Setting: fmt.Sprintf("options: batch %d, act %v, %d precisions, %d threads", o.Batch, o.Act, len(o.Precisions), len(o.Threads)),
			Bytes: int64(len(o.Precisions)*len(o.Threads)) * (each + 2*int64(o.Batch)*size)},
		limits.Part{Setting: "options: rows", Bytes: (2*int64(o.Batch) + int64(most)) * size},
		limits.Part{Setting: "options: replay", Bytes: 10_000 * size / 2})
}

// add notes a trial that took so long, and measures the peak beside it.
func (r *UpdateResult) add(trial int, took time.Duration, c *updateCase) {
	if c.gpu {
		if trial > 0 {
			r.Ms = append(r.Ms, took.Seconds()*1e3)
		}
		return
	}
	peak := make([]float64, c.pool.Threads())
	c.pool.Do(len(peak), func(_, i int) error {
		peak[i] = kernel.Peak(c.precision, time.Millisecond)
		return nil
	})
	if trial == 0 {
		return
	}
	r.Ms = append(r.Ms, took.Seconds()*1e3)
	sum := 0.0
	for _, p := range peak {
		sum += p
	}
	r.Peak = append(r.Peak, sum)
}

// randomMemory is a replay of more transitions than caches hold.
func randomMemory(obs env.ObsSpec, r *rng.Stream) (*replay.Memory, error) {
	obs.FrameStack = obs.Shape[0]
	m, err := replay.New(replay.Config{Obs: obs, Envs: 1, Capacity: 10_000, Window: 10_000, Stack: replay.StackTrusted})
	if err != nil {
		return nil, err
	}
	frames := randomBytes(r, 64*obs.Bytes())
	err = m.Begin(0, frames[:obs.Bytes()])
	for i := 0; i < 10_000 && err == nil; i++ {
		at := i % 63 * obs.Bytes()
		err = m.Add(0, &experience.Step{Action: int32(i % 6)}, frames[at:at+obs.Bytes()])
	}
	m.Flush()
	return m, err
}

func randomBytes(r *rng.Stream, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Intn(256))
	}
	return b
}
