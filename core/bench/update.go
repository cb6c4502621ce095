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
	"github.com/paceline-rl/paceline/core/nn/cpu"
	"github.com/paceline-rl/paceline/core/nn/devices"
	"github.com/paceline-rl/paceline/core/replay"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/threads"
)

// UpdateOptions are the options of the benchmark of minibatch updates and of acting.
type UpdateOptions struct {
	Device     string   `json:"device"` // "cpu", "cuda", "cuda:1" ...
	Batch      int      `json:"batch"`
	Act        []int    `json:"act"`        // rows of the forward passes
	Precisions []string `json:"precisions"` // default: all precisions of the device
	Threads    []int    `json:"threads"`    // default: 1, on the CPU also one per core
	Trials     int      `json:"trials"`
	Row        int      `json:"row"` // updates in a row; default: 1,000 on a GPU, none on the CPU
}

// UpdateResult has the times of one kind of work with one precision and one number of threads. All
// cases run trial i before any case runs trial i+1.
type UpdateResult struct {
	// Work is "update"; "row", the mean of Row updates in a row; "act"; or "sample", sampling and
	// unstacking a minibatch, which the host does for any device.
	Work      string `json:"work"`
	Batch     int    `json:"batch"`
	Precision string `json:"precision"`
	Threads   int    `json:"threads"`
	// Flop is the number of floating-point operations of textbook convolutions and matrix products.
	// Done is the number that the kernels' matrix products do.
	Flop float64 `json:"flop"`
	Done float64 `json:"flop_done"`
	// Ms has the milliseconds of each trial.
	Ms []float64 `json:"ms"`
	// Peak is the rate of multiply-adds on registers in GFLOP/s, measured for a millisecond on the
	// same threads right after each trial. Empty for a GPU.
	Peak []float64 `json:"peak_gflops"`
}

// UpdateReport has the times of all trials.
type UpdateReport struct {
	ISA    string `json:"isa"`
	Device string `json:"device"` // "cpu", or "cuda:0 (NVIDIA ...)"
	Row    int    `json:"row"`
	// Enqueued is the number of updates that are enqueued before a wait; 0: a wait after each
	// update.
	Enqueued int            `json:"enqueued"`
	Results  []UpdateResult `json:"results"`
}

// kernelPrecisions are the CPU's precisions.
var kernelPrecisions = map[string]kernel.Precision{"fp32": kernel.FP32, "bf16": kernel.BF16}

// gpuPrecisions are a GPU's precisions.
var gpuPrecisions = []string{"fp32", "tf32", "bf16"}

// updateCase measures the UpdateResults of one precision and one number of threads.
type updateCase struct {
	pool      *threads.Pool // for sampling
	device    nn.Device     // for the other work
	precision kernel.Precision
	gpu       bool
	stepper   nn.QStepper
	net       nn.Network
	theta     *nn.Params
	minibatch *experience.Transitions
	picks     []int
	rates     []float64 // learning rates, one per minibatch of the stepper
}

// row runs n updates in a row, as training does when they are all due. On a GPU it enqueues as many
// updates as the stepper has minibatches, with frames in GPU memory, and then waits for them.
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

// updates runs n updates and waits for each.
func (c *updateCase) updates(n int, target *nn.Params, b *experience.Transitions, r *nn.Report) error {
	for range n {
		if err := c.stepper.Update(c.theta, target, b, learningRate, r); err != nil {
			return err
		}
	}
	return nil
}

const learningRate = 1e-5

// frameCount is the number of frames in GPU memory, more than its caches hold.
const frameCount = 10_000

// fillFrames fills GPU memory with frames, and the stepper's minibatches with stacks of them.
func (c *updateCase) fillFrames(obs env.ObsSpec, r *rng.Stream) error {
	stacks, ok := c.stepper.(nn.StackStepper)
	if !ok {
		return nil
	}
	deep := obs.Shape[0]
	width := obs.Bytes() / deep
	if err := stacks.Resize(frameCount, width); err != nil {
		return err
	}
	frames := randomBytes(r, 100*width)
	for slot := 0; slot < frameCount; slot += 100 {
		if err := stacks.Put(slot, frames); err != nil {
			return err
		}
	}
	for _, m := range stacks.Minibatches() {
		for i := range m.Stacks {
			first := r.Intn(frameCount)
			m.Stacks[i] = experience.Stack{First: int32(first), Slots: frameCount, Frames: int32(deep)}
			m.NextStacks[i] = experience.Stack{First: int32((first + 1) % frameCount), Slots: frameCount, Frames: int32(deep)}
			m.Actions[i], m.Rewards[i], m.Discounts[i] = int32(r.Intn(6)), 0, 0.99
		}
		c.rates = append(c.rates, learningRate)
	}
	return stacks.Upload(0, len(c.rates))
}

// benchUpdate times the Nature CNN on 84x84x4 with 6 actions: whole updates (target pass, forward,
// backward, gradient norm, Adam), sampling minibatches from the replay memory, and forward passes.
func benchUpdate(decode func(any) error) (any, error) {
	o := UpdateOptions{Device: "cpu", Batch: 32, Act: []int{1, 8, 32}, Trials: 20, Row: -1}
	if err := decode(&o); err != nil {
		return nil, err
	}
	device, err := devices.Open(o.Device, 1, nil)
	if err != nil {
		return nil, err
	}
	defer device.Close()
	gpu := device.Name() != "cpu"
	o.setDefaults(gpu)
	maxRows, err := o.check(gpu)
	if err != nil {
		return nil, err
	}
	spec := nn.Spec{Obs: env.ObsSpec{Shape: []int{4, 84, 84}}, Trunks: []nn.Trunk{{Arch: "nature_cnn"}}, Heads: []nn.Head{{Name: "q", Out: 6}}}
	if err := admitUpdate(device, spec, &o, maxRows); err != nil {
		return nil, err
	}
	b := &updateBench{options: o, report: &UpdateReport{ISA: kernel.ISA(), Device: device.Name(), Row: o.Row}}
	defer b.close()
	if err := b.fill(spec, maxRows); err != nil {
		return nil, err
	}
	if err := b.newCases(device, spec, maxRows); err != nil {
		return nil, err
	}
	for trial := range o.Trials + 1 { // the first one warms up
		if err := b.runTrial(trial); err != nil {
			return nil, err
		}
	}
	return b.report, nil
}

// updateBench has the cases of benchUpdate, their results and the data that they share.
type updateBench struct {
	options     UpdateOptions
	r           *rng.Stream
	target      *nn.Params
	transitions *experience.Transitions // the minibatch of the updates
	parts       nn.Report
	states      []byte // the observations of the forward passes
	memory      *replay.Memory
	cases       []*updateCase
	report      *UpdateReport
}

// fill makes the data with random contents.
func (b *updateBench) fill(spec nn.Spec, maxRows int) (err error) {
	b.r = rng.New(0, "bench", 0)
	if b.target, err = spec.InitialParams(b.r); err != nil {
		return err
	}
	n, size := b.options.Batch, spec.Obs.Bytes()
	b.transitions = &experience.Transitions{
		Obs: randomBytes(b.r, n*size), NextObs: randomBytes(b.r, n*size),
		Actions: make([]int32, n), Rewards: make([]float32, n), Discounts: make([]float32, n),
	}
	b.states = randomBytes(b.r, maxRows*size)
	b.memory, err = randomMemory(spec.Obs, b.r)
	return err
}

// newCases makes a case of every precision and number of threads, and its results without times.
// close closes the cases, also those made before an error.
func (b *updateBench) newCases(device nn.Device, spec nn.Spec, maxRows int) (err error) {
	o := &b.options
	for _, precision := range o.Precisions {
		for _, n := range o.Threads {
			c := &updateCase{theta: b.target.Clone(), precision: kernelPrecisions[precision], gpu: device.Name() != "cpu"}
			b.cases = append(b.cases, c)
			if c.pool, err = threads.NewPool(n, nil); err != nil {
				return err
			}
			if c.device, err = device.Another(n, nil); err != nil {
				return err
			}
			spec.Precision = nn.Precision(precision)
			if c.stepper, err = c.device.QStepper(stepperConfig(spec, o.Batch), nn.MaxQ{}); err != nil {
				return err
			}
			if c.net, err = c.device.Network(spec, maxRows); err != nil {
				return err
			}
			c.minibatch, c.picks = b.memory.Minibatch(o.Batch), make([]int, o.Batch)
			if o.Row > 0 {
				if err := c.fillFrames(spec.Obs, b.r); err != nil {
					return err
				}
				b.report.Enqueued = len(c.rates)
			}
			b.addResults(spec, precision, n)
		}
	}
	return nil
}

// addResults adds the results of one case, in the order in which runTrial measures them.
func (b *updateBench) addResults(spec nn.Spec, precision string, n int) {
	o := &b.options
	add := func(work string, rows int, flop, done float64) {
		b.report.Results = append(b.report.Results, UpdateResult{Work: work, Batch: rows, Precision: precision, Threads: n, Flop: flop, Done: done})
	}
	flop, done := cpu.ForwardFlop(spec, o.Batch)
	gradient, gradientDone := cpu.GradientFlop(spec, o.Batch)
	flop, done = flop+gradient, done+gradientDone
	add("update", o.Batch, flop, done)
	add("sample", o.Batch, 0, 0)
	if o.Row > 0 {
		add("row", o.Batch, flop, done)
	}
	for _, rows := range o.Act {
		flop, done := cpu.ForwardFlop(spec, rows)
		add("act", rows, flop, done)
	}
}

// runTrial measures every case once.
func (b *updateBench) runTrial(trial int) error {
	o, at := &b.options, 0
	next := func(took time.Duration, c *updateCase) {
		b.report.Results[at].addTrial(trial, took, c)
		at++
	}
	for _, c := range b.cases {
		var took time.Duration
		for range 2 { // the second counts: in training, updates also follow updates
			began := time.Now()
			if err := c.updates(1, b.target, b.transitions, &b.parts); err != nil {
				return err
			}
			took = time.Since(began)
		}
		next(took, c)
		began := time.Now()
		replay.Uniform{Memory: b.memory}.Draw(b.r, c.picks)
		b.memory.Gather(c.picks, 1, 0.99, c.minibatch, c.pool)
		next(time.Since(began), c)
		if o.Row > 0 {
			began := time.Now()
			if err := c.row(o.Row, b.target, b.transitions, &b.parts); err != nil {
				return err
			}
			next(time.Since(began)/time.Duration(o.Row), c)
		}
		for _, rows := range o.Act {
			size := len(b.transitions.Obs) / o.Batch
			for range 3 { // the third counts: the second packs the weights of dense layers
				began := time.Now()
				if _, err := c.net.Forward(c.theta, b.states[:rows*size], rows); err != nil {
					return err
				}
				took = time.Since(began)
			}
			next(took, c)
		}
	}
	return nil
}

func (b *updateBench) close() {
	for _, c := range slices.Backward(b.cases) {
		if c.device != nil {
			c.device.Close()
		}
		if c.pool != nil {
			c.pool.Close()
		}
	}
	if b.memory != nil {
		b.memory.Close()
	}
}

// setDefaults sets the options that were left out.
func (o *UpdateOptions) setDefaults(gpu bool) {
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

// check checks the options and returns the most rows of a forward pass.
func (o *UpdateOptions) check(gpu bool) (maxRows int, err error) {
	if o.Batch < 1 || o.Trials < 1 {
		return 0, fmt.Errorf("options: batch %d, trials %d, must be at least 1", o.Batch, o.Trials)
	}
	if o.Batch > nn.MaxRows {
		return 0, fmt.Errorf("options: batch %d, must be at most %d", o.Batch, nn.MaxRows)
	}
	maxRows = 1
	for _, rows := range o.Act {
		if rows < 1 || rows > nn.MaxRows {
			return 0, fmt.Errorf("options: act %d, must be 1 to %d", rows, nn.MaxRows)
		}
		maxRows = max(maxRows, rows)
	}
	for _, precision := range o.Precisions {
		if gpu && !slices.Contains(gpuPrecisions, precision) {
			return 0, fmt.Errorf("options: precisions %q, must be fp32, tf32 or bf16", precision)
		}
		if _, ok := kernelPrecisions[precision]; !gpu && !ok {
			return 0, fmt.Errorf("options: precisions %q, must be fp32 or bf16", precision)
		}
	}
	return maxRows, nil
}

// stepperConfig returns the configuration of the updates.
func stepperConfig(net nn.Spec, rows int) nn.StepperConfig {
	return nn.StepperConfig{Net: net, Rows: rows, Loss: nn.TD{Kind: "huber", Reduction: "mean"}, Optimizer: nn.OptimizerConfig{Name: "adam"}, MaxGradNorm: 10}
}

// admitUpdate returns an error if the memory is not large enough for the options.
func admitUpdate(device nn.Device, spec nn.Spec, o *UpdateOptions, maxRows int) error {
	each, err := device.Bytes(spec, nn.Needs{Sets: 3, NetworkRows: []int{o.Batch, maxRows}, LearnerRows: []int{o.Batch}, Optimizer: nn.OptimizerConfig{Name: "adam"}})
	if err != nil {
		return err
	}
	size := int64(spec.Obs.Bytes())
	return limits.Admit(
		limits.Part{Setting: fmt.Sprintf("options: batch %d, act %v, %d precisions, %d threads", o.Batch, o.Act, len(o.Precisions), len(o.Threads)),
			Bytes: int64(len(o.Precisions)*len(o.Threads)) * (each + 2*int64(o.Batch)*size)},
		limits.Part{Setting: "options: rows", Bytes: (2*int64(o.Batch) + int64(maxRows)) * size},
		limits.Part{Setting: "options: replay", Bytes: 10_000 * size / 2})
}

// addTrial adds the time of a trial, except for the warm-up, and measures the CPU's peak.
func (r *UpdateResult) addTrial(trial int, took time.Duration, c *updateCase) {
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

// randomMemory returns a replay memory with more transitions than the caches hold.
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
		err = m.Add(0, &experience.Step{Action: []int32{int32(i % 6)}}, frames[at:at+obs.Bytes()])
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
