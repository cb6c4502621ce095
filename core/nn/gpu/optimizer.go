package gpu

import (
	"errors"
	"fmt"

	"github.com/paceline-rl/paceline/core/cuda"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/graph"
)

// optimizer is an nn.Optimizer on a GPU, and takes the steps of the steppers. Host memory and GPU
// memory each have the arrays of its state.
type optimizer struct {
	cfg   nn.OptimizerConfig // defaults filled in
	gpu   *gpu
	lanes lanes
	size  int
	step  int64

	state     []nn.Tensor // in host memory
	onGPU     []uint64    // addresses of the arrays in GPU memory
	gpuStale  bool        // the arrays in GPU memory are older
	hostStale bool        // the arrays in host memory are older

	clock    *block
	at       piece // a cuda.Step
	rate     piece
	grad     uint64    // of Apply; 0 before its first call
	by       []float32 // grad times its factor
	sums     uint64    // sums of squares, one for each block of the kernel
	arrived  uint64    // counts these blocks, to find the last one
	programs programs[learningKey]
}

func (d *device) Optimizer(c nn.OptimizerConfig, size int) (nn.Optimizer, error) {
	on, err := d.gpu.stream(cuda.Normal)
	if err != nil {
		return nil, err
	}
	return d.optimizer(c, size, lanes{main: on})
}

// optimizer makes an optimiser that enqueues its steps on l.
func (d *device) optimizer(c nn.OptimizerConfig, size int, l lanes) (*optimizer, error) {
	state, err := c.NewState(size)
	if err != nil {
		return nil, err
	}
	o := &optimizer{cfg: c, gpu: d.gpu, lanes: l, size: size, state: state, clock: &block{}, gpuStale: c.FirstAverage != 0}
	for range state {
		at, err := d.gpu.memory(int64(4 * size))
		if err != nil {
			return nil, err
		}
		o.onGPU = append(o.onGPU, at)
	}
	o.at, o.rate = o.clock.add(stepBytes), o.clock.add(4)
	if err := o.clock.allocate(d.gpu); err != nil {
		return nil, err
	}
	if o.arrived, err = d.gpu.memory(4); err != nil {
		return nil, err
	}
	if o.sums, err = d.gpu.memory(int64(8 * cuda.SumSquares(size).Grid[0])); err != nil {
		return nil, err
	}
	o.programs = newPrograms[learningKey](d.gpu, o.lanes.main)
	return o, nil
}

func (o *optimizer) Step() int64        { return o.step }
func (o *optimizer) SetStep(step int64) { o.step = step }

// State downloads the arrays. The caller may change them: the next step uploads them. After the
// loss of the GPU the arrays are those of the latest download.
func (o *optimizer) State() []nn.Tensor {
	if o.hostStale && o.downloadState() == nil {
		o.hostStale = false
	}
	o.gpuStale = true
	return o.state
}

func (o *optimizer) downloadState() error {
	for i, t := range o.state {
		if err := o.lanes.main.Download(graph.BytesOf(t.Data), o.onGPU[i]); err != nil {
			return err
		}
	}
	return nil
}

// uploadState uploads the arrays if the host may have changed them.
func (o *optimizer) uploadState() error {
	if o.gpuStale {
		for i, t := range o.state {
			if err := o.lanes.main.Upload(o.onGPU[i], graph.BytesOf(t.Data)); err != nil {
				return err
			}
		}
		o.gpuStale = false
	}
	return nil
}

// prepare sets the number and the learning rate of the next step.
func (o *optimizer) prepare(lr float64) error {
	if err := o.uploadState(); err != nil {
		return err
	}
	view[cuda.Step](o.at)[0] = cuda.Step{Step: o.step}
	view[float32](o.rate)[0] = float32(lr)
	return nil
}

// stepped counts the steps that the GPU took of p, and returns the error of a step that the GPU
// refused.
func (o *optimizer) stepped(p *nn.Params, r *nn.Report) error {
	s := &view[cuda.Step](o.at)[0]
	if s.Update > 0 {
		o.step, o.hostStale = s.Step, true
		p.DeviceCopy().(*paramsCopy).wrote(p)
		p.Updates += uint64(s.Update)
	}
	r.Norm = s.Norm
	switch s.Refused {
	case cuda.RefusedLoss:
		r.Norm = 0
		return &nn.NotFinite{What: "loss", Value: r.Loss}
	case cuda.RefusedNorm:
		return &nn.NotFinite{What: "gradient norm", Value: r.Norm}
	}
	return nil
}

// stepOf holds the addresses that a step reads and writes, and the largest norm of its gradient.
type stepOf struct {
	params, grad uint64
	loss         uint64 // 0: a loss that is not finite does not refuse the step
	rates        uint64 // learning rates of the updates, in float32
	record       uint64 // loss and norm of each update are written here; 0: nowhere
	maxNorm      float64
}

// record lists the kernels of a step along a gradient.
func (o *optimizer) record(r *recorder, of stepOf) error {
	r.join()
	advance := cuda.AdvanceArgs{Step: o.at.at(), Loss: of.loss, Rates: of.rates, Record: of.record, MaxNorm: of.maxNorm,
		Beta1: o.cfg.Beta1, Beta2: o.cfg.Beta2}
	args := cuda.OptimizerArgs{N: int32(o.size), Eps: float32(o.cfg.Eps), Step: advance.Step, Grad: of.grad, Theta: of.params}
	name := o.cfg.Name
	switch name {
	case "adam", "radam":
		advance.Rule = cuda.RuleAdam
		if name == "radam" {
			advance.Rule = cuda.RuleRAdam
		}
		args.Decay1, args.Weight1 = float32(o.cfg.Beta1), float32(1-o.cfg.Beta1)
		args.Decay2, args.Weight2 = float32(o.cfg.Beta2), float32(1-o.cfg.Beta2)
		args.First, args.Second = o.onGPU[0], o.onGPU[1]
	case "adagrad":
		args.Second = o.onGPU[0]
	default:
		name = "rmsprop"
		args.Decay2, args.Weight2 = float32(o.cfg.Decay), float32(1-o.cfg.Decay)
		args.Centered, args.EpsInside = flag(o.cfg.Centered), flag(o.cfg.EpsInside)
		if args.Second = o.onGPU[0]; o.cfg.Centered {
			args.First = o.onGPU[1]
		}
	}
	var err error
	if of.maxNorm > 0 {
		squares := cuda.SumSquares(o.size)
		advance.Parts, advance.PartsCount = o.sums, int32(squares.Grid[0])
		err = enqueue(r, "sum_squares", squares, cuda.SumSquaresArgs{N: int64(o.size), X: of.grad, Parts: o.sums, Arrived: o.arrived, Advance: advance})
	} else {
		err = enqueue(r, "advance", cuda.Advance, advance)
	}
	if err != nil {
		return err
	}
	return enqueue(r, name, cuda.Elements(o.size), args)
}

func (o *optimizer) Apply(p *nn.Params, grad []float32, factor float32, lr float64) error {
	if len(p.Raw()) != o.size || len(grad) != o.size {
		return fmt.Errorf("optimizer: %d parameters and %d gradients, must be %d each", len(p.Raw()), len(grad), o.size)
	}
	at, err := o.gpu.address(p)
	if err != nil {
		return err
	}
	if o.grad == 0 {
		if o.grad, err = o.gpu.memory(int64(4 * o.size)); err != nil {
			return err
		}
		o.by = make([]float32, o.size)
	}
	for i, g := range grad {
		o.by[i] = factor * g
	}
	if err := o.prepare(lr); err != nil {
		return err
	}
	if err := o.lanes.main.Upload(o.grad, graph.BytesOf(o.by)); err != nil {
		return err
	}
	r := &recorder{gpu: o.gpu}
	record := func() error { return o.record(r, stepOf{params: at, grad: o.grad, rates: o.rate.at()}) }
	if err := o.programs.run(learningKey{what: stepping, params: at}, 1, record, func() error { return o.enqueue(&o.lanes, r.list) }); err != nil {
		return err
	}
	if err := o.lanes.main.Synchronize(); err != nil {
		return err
	}
	return o.stepped(p, &nn.Report{})
}

func (o *optimizer) ApplyRange(*nn.Params, int, []float32, float32, float64, int64) error {
	return errors.New("optimizer: a step of a range of the parameters needs an optimizer of the device cpu")
}

// enqueue enqueues an upload, the steps of a list and a download.
func (o *optimizer) enqueue(l *lanes, list []launch) error {
	if err := o.clock.upload(l.main); err != nil {
		return err
	}
	if err := l.play(list); err != nil {
		return err
	}
	return o.clock.download(l.main)
}
