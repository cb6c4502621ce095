package gpu

import (
	"fmt"
	"math"

	"github.com/paceline-rl/paceline/core/cuda"
	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/graph"
)

// gpuOptimizer is an Optimizer on a GPU, and the second half of the steppers there. Its arrays
// are in both memories; State says when the one follows the other.
type gpuOptimizer struct {
	cfg   nn.OptimizerConfig // defaults filled in
	card  *card
	lanes lanes
	size  int
	step  int64

	state  []nn.Tensor // the host's
	there  []uint64
	behind bool // the GPU's are older
	ahead  bool // the host's are older

	clock *block
	at    piece // a cuda.Step
	rate  piece
	grad  uint64    // of Apply; 0: it was not called yet
	by    []float32 // grad times its factor
	sums  uint64    // of squares
	last  uint64    // which block is the last to have its own
	known programs[learningKey]
}

func (d *gpu) Optimizer(c nn.OptimizerConfig, size int) (nn.Optimizer, error) {
	on, err := d.card.stream(cuda.Normal)
	if err != nil {
		return nil, err
	}
	return d.optimizer(c, size, lanes{main: on})
}

// optimizer makes an optimiser whose steps are on l.
func (d *gpu) optimizer(c nn.OptimizerConfig, size int, l lanes) (*gpuOptimizer, error) {
	state, err := c.NewState(size)
	if err != nil {
		return nil, err
	}
	o := &gpuOptimizer{cfg: c, card: d.card, lanes: l, size: size, state: state, clock: &block{}, behind: c.FirstAverage != 0}
	for range state {
		at, err := d.card.memory(int64(4 * size))
		if err != nil {
			return nil, err
		}
		o.there = append(o.there, at)
	}
	o.at, o.rate = o.clock.add(stepBytes), o.clock.add(4)
	if err := o.clock.allocate(d.card); err != nil {
		return nil, err
	}
	if o.last, err = d.card.memory(4); err != nil {
		return nil, err
	}
	if o.sums, err = d.card.memory(int64(8 * cuda.SumSquares(size).Grid[0])); err != nil {
		return nil, err
	}
	o.known = newPrograms[learningKey](d.card, o.lanes.main)
	return o, nil
}

func (o *gpuOptimizer) Step() int64        { return o.step }
func (o *gpuOptimizer) SetStep(step int64) { o.step = step }

// State brings the arrays to the host's memory. The caller may change them: the next step
// takes them back. From a GPU that is lost nothing comes, and they are as they were last.
func (o *gpuOptimizer) State() []nn.Tensor {
	if o.ahead && o.fetch() == nil {
		o.ahead = false
	}
	o.behind = true
	return o.state
}

func (o *gpuOptimizer) fetch() error {
	for i, t := range o.state {
		if err := o.lanes.main.Download(graph.BytesOf(t.Data), o.there[i]); err != nil {
			return err
		}
	}
	return nil
}

// bring brings arrays that the host may have changed to the GPU.
func (o *gpuOptimizer) bring() error {
	if o.behind {
		for i, t := range o.state {
			if err := o.lanes.main.Upload(o.there[i], graph.BytesOf(t.Data)); err != nil {
				return err
			}
		}
		o.behind = false
	}
	return nil
}

// prepare says what the next step is.
func (o *gpuOptimizer) prepare(lr float64) error {
	if err := o.bring(); err != nil {
		return err
	}
	view[cuda.Step](o.at)[0] = cuda.Step{Step: o.step}
	view[float32](o.rate)[0] = float32(lr)
	return nil
}

// stepped takes over what the GPU says of steps along p: how many there were, and that they
// were refused.
func (o *gpuOptimizer) stepped(p *nn.Params, r *nn.Report) error {
	s := &view[cuda.Step](o.at)[0]
	if s.Update > 0 {
		o.step, o.ahead = s.Step, true
		p.DeviceCopy().(*gpuCopy).wrote(p)
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

// stepOf is what a step is recorded for: addresses, and what clips the gradient.
type stepOf struct {
	params, grad uint64
	loss         uint64 // 0: it is not looked at
	rates        uint64 // of the updates, in float32
	record       uint64 // gets loss and norm of each; 0: nothing does
	maxNorm      float64
}

// record lists the kernels of a step along a gradient.
func (o *gpuOptimizer) record(r *recorder, of stepOf) error {
	r.end()
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
		args.Keep1, args.Rest1 = float32(o.cfg.Beta1), float32(1-o.cfg.Beta1)
		args.Keep2, args.Rest2 = float32(o.cfg.Beta2), float32(1-o.cfg.Beta2)
		args.First, args.Second = o.there[0], o.there[1]
	case "adagrad":
		args.Second = o.there[0]
	default:
		name = "rmsprop"
		args.Keep2, args.Rest2 = float32(o.cfg.Decay), float32(1-o.cfg.Decay)
		args.Centered, args.EpsInside = flag(o.cfg.Centered), flag(o.cfg.EpsInside)
		if args.Second = o.there[0]; o.cfg.Centered {
			args.First = o.there[1]
		}
	}
	var err error
	if of.maxNorm > 0 {
		squares := cuda.SumSquares(o.size)
		advance.Parts, advance.PartsCount = o.sums, int32(squares.Grid[0])
		err = enqueue(r, "sum_squares", squares, cuda.SumSquaresArgs{N: int64(o.size), X: of.grad, Parts: o.sums, Arrived: o.last, Advance: advance})
	} else {
		err = enqueue(r, "advance", cuda.Advance, advance)
	}
	if err != nil {
		return err
	}
	return enqueue(r, name, cuda.Elements(o.size), args)
}

func (o *gpuOptimizer) Apply(p *nn.Params, grad []float32, factor float32, lr float64) error {
	if len(p.Raw()) != o.size || len(grad) != o.size {
		return fmt.Errorf("optimizer: %d parameters and %d gradients, must be %d each", len(p.Raw()), len(grad), o.size)
	}
	at, err := o.card.address(p)
	if err != nil {
		return err
	}
	if o.grad == 0 {
		if o.grad, err = o.card.memory(int64(4 * o.size)); err != nil {
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
	r := &recorder{card: o.card}
	record := func() error { return o.record(r, stepOf{params: at, grad: o.grad, rates: o.rate.at()}) }
	if err := o.known.run(learningKey{what: stepping, params: at}, 1, record, func() error { return o.enqueue(&o.lanes, r.list) }); err != nil {
		return err
	}
	if err := o.lanes.main.Synchronize(); err != nil {
		return err
	}
	return o.stepped(p, &nn.Report{})
}

// enqueue enqueues steps between the copies that they need.
func (o *gpuOptimizer) enqueue(l *lanes, list []launch) error {
	if err := o.clock.upload(l.main); err != nil {
		return err
	}
	if err := l.play(list); err != nil {
		return err
	}
	return o.clock.download(l.main)
}

func (o *gpuOptimizer) ClipGradNorm(grad []float32, max float64) (norm float64, factor float32) {
	norm = math.Sqrt(kernel.SumSquares(nil, grad))
	return norm, nn.ClipFactor(norm, max)
}
