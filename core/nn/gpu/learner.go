package gpu

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/cuda"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/graph"
	"gorgonia.org/tensor"
)

// learner is an nn.Learner on a GPU, and computes the gradients of the steppers. One copy uploads a
// minibatch, because all of its numbers are in one block.
type learner struct {
	gpu      *gpu
	graph    *graph.Learner
	recorder *recorder
	lanes    lanes
	programs programs[learningKey]
	grad     uint64      // of the parameters, flat
	outputs  [][]float32 // of the heads

	batch   *block
	obs     piece
	index   piece // Batch.Rows, counted from the row of zeros
	obsRows rowSet
	actions piece // empty: the actions have no integers
	columns []piece
	masks   piece // empty: the loss has no masks

	choices   []int32 // of each branch of the head "pi"
	gaussians int     // outputs of the head "mu"

	branches   piece // choices; no block: actor_critic computes the loss, or it is another
	continuous piece // empty: the actions have no numbers

	losses *block
	loss   piece                       // doubles: the loss and its parts
	errors piece                       // floats: Report.Rows; empty: the loss has no number of a row
	heads  *block                      // outputs of the heads
	hidden map[*tensor.Dense][]float32 // outputs of hidden layers, downloaded by Look
}

// learningKey holds everything that the launches of an update depend on.
type learningKey struct {
	what    updatePart
	params  uint64
	target  uint64 // of Q-learning
	masked  bool
	obsRows uint64 // address of the rows that Batch.Rows refers to; 0: the batch has Obs
}

type updatePart int

const (
	learning updatePart = 1 << iota
	stepping
	evaluating // a forward pass alone
)

func (d *device) Learner(s nn.Spec, rows int, loss nn.Loss) (nn.Learner, error) {
	return d.learner(s, rows, loss)
}

func (d *device) learner(s nn.Spec, rows int, loss nn.Loss) (*learner, error) {
	l := d.gpu.learner()
	if err := l.make(s, rows, loss); err != nil {
		return nil, err
	}
	return l, l.allocate()
}

func (c *gpu) learner() *learner {
	return &learner{gpu: c, batch: &block{}, losses: &block{}, heads: &block{}, hidden: map[*tensor.Dense][]float32{}}
}

// make makes the graph, the recorder and the pieces of a minibatch.
func (l *learner) make(s nn.Spec, rows int, loss nn.Loss) (err error) {
	if l.graph, err = graph.NewLearner(s, rows, loss); err != nil {
		return err
	}
	if l.recorder, err = newRecorder(l.gpu, &s); err != nil {
		return err
	}
	l.obs = l.batch.add(rows * s.Obs.Bytes())
	l.index = l.batch.add(4 * rows)
	for _, c := range l.graph.Columns {
		l.columns = append(l.columns, l.batch.add(4*c.Shape().TotalSize()))
	}
	l.choices, l.gaussians = s.Policy()
	if len(l.choices) > 1 || l.gaussians > 0 {
		l.branches = l.batch.add(4 * len(l.choices))
	}
	l.continuous = l.batch.add(4 * rows * l.graph.Gaussians)
	l.actions = l.batch.add(4 * rows * l.graph.Integers)
	if pi := s.Head("pi"); pi >= 0 {
		l.masks = l.batch.add(rows * s.Heads[pi].Out)
	}
	l.loss = l.losses.add(8 * (1 + cuda.LossTerms))
	if _, ok := loss.(nn.TD); ok {
		l.errors = l.losses.add(4 * rows)
	}
	return nil
}

// allocateHeads puts the outputs of all heads into one block, so that one copy downloads them.
func (l *learner) allocateHeads() error {
	var pieces []piece
	for _, h := range l.graph.Spec.Heads {
		pieces = append(pieces, l.heads.add(4*l.graph.Rows*h.Out))
	}
	if err := l.heads.allocate(l.gpu); err != nil {
		return err
	}
	for i, y := range l.graph.Heads {
		l.recorder.at[y] = pieces[i].at()
		l.outputs = append(l.outputs, view[float32](pieces[i]))
	}
	return nil
}

// allocate allocates the blocks and tells the recorder the addresses of their pieces.
func (l *learner) allocate() (err error) {
	if err := l.batch.allocate(l.gpu); err != nil {
		return err
	}
	if err := l.losses.allocate(l.gpu); err != nil {
		return err
	}
	if err := l.allocateHeads(); err != nil {
		return err
	}
	if l.grad, err = l.gpu.memory(int64(4 * l.graph.Layout.Size)); err != nil {
		return err
	}
	if l.lanes, err = l.gpu.lanes(); err != nil {
		return err
	}
	l.programs = newPrograms[learningKey](l.gpu, l.lanes.main)
	l.recorder.at[l.graph.Obs] = l.obs.at()
	if t := l.graph.Actions; t != nil {
		l.recorder.at[t] = l.actions.at()
	}
	if t := l.graph.Continuous; t != nil {
		l.recorder.at[t] = l.continuous.at()
	}
	if l.branches.block != nil {
		copy(l.branches.host(), graph.BytesOf(l.choices)) // uploaded with every minibatch
		l.recorder.branches = l.branches.at()
	}
	for i, c := range l.columns {
		l.recorder.at[l.graph.Columns[i]] = c.at()
	}
	for i, part := range l.graph.Layout.Params {
		l.recorder.at[l.graph.Grads[i]] = l.grad + uint64(4*part.Offset)
	}
	l.recorder.loss = l.loss.at()
	if l.errors.block != nil {
		l.recorder.errors = l.errors.at()
	}
	return nil
}

// record lists the kernels of a gradient.
func (l *learner) record(params uint64, masked bool) error {
	l.recorder.put(&l.graph.Graph, params)
	l.recorder.masks = 0
	if masked {
		l.recorder.masks = l.masks.at()
	}
	return l.recorder.walk(l.graph.Order, &l.graph.Graph, l.graph.Rows)
}

// load checks a minibatch and copies it to page-locked memory for the upload.
func (l *learner) load(p *nn.Params, b *nn.Batch) error {
	if err := l.graph.CheckBatch(p, b, l.obsRows.rows); err != nil {
		return err
	}
	if b.Complete != nil {
		out, err := l.Outputs(p, *b)
		if err == nil {
			err = b.Complete(out)
		}
		if err != nil {
			return err
		}
	}
	if err := l.checkValues(b); err != nil {
		return err
	}
	l.loadObs(b)
	copy(l.actions.host(), graph.BytesOf(b.Actions))
	copy(l.continuous.host(), graph.BytesOf(b.Continuous))
	for i, c := range b.Columns {
		copy(l.columns[i].host(), graph.BytesOf(c))
	}
	if b.Masks != nil {
		copy(l.masks.host(), b.Masks)
	}
	return nil
}

// checkValues checks actions and masks, as the ops on the CPU do when they run.
func (l *learner) checkValues(b *nn.Batch) error {
	if q := l.graph.Spec.Head("q"); q >= 0 {
		return graph.CheckActions(b.Actions, l.graph.Spec.Heads[q].Out)
	}
	weights := b.Columns[graph.WeightColumn]
	if err := graph.CheckChoices(b.Actions, l.choices, b.Masks, weights); err != nil {
		return err
	}
	return graph.CheckContinuous(b.Continuous, l.gaussians, weights)
}

func (l *learner) Layout() *nn.Layout { return l.graph.Layout }

func (l *learner) Gradient(p *nn.Params, b nn.Batch, grad []float32, r *nn.Report) error {
	if len(grad) != l.graph.Layout.Size {
		return fmt.Errorf("grad: %d floats, must be %d", len(grad), l.graph.Layout.Size)
	}
	if err := l.graph.CheckReport(r); err != nil {
		return err
	}
	if err := l.load(p, &b); err != nil {
		return err
	}
	at, err := l.gpu.address(p)
	if err != nil {
		return err
	}
	key := learningKey{what: learning, params: at, masked: b.Masks != nil, obsRows: l.rowsOf(&b)}
	err = l.programs.run(key, 1, func() error {
		l.recorder.list = nil
		return l.recordBatch(key)
	}, func() error { return l.enqueue(key) })
	if err != nil {
		return err
	}
	if err := l.lanes.main.Download(graph.BytesOf(grad), l.grad); err != nil {
		return err
	}
	l.report(r)
	r.Norm = 0
	return nil
}

func (l *learner) Outputs(p *nn.Params, b nn.Batch) (nn.Outputs, error) {
	if err := l.graph.CheckInputs(p, &b, l.obsRows.rows); err != nil {
		return nn.Outputs{}, err
	}
	l.loadObs(&b)
	at, err := l.gpu.address(p)
	if err != nil {
		return nn.Outputs{}, err
	}
	key := learningKey{what: evaluating, params: at, obsRows: l.rowsOf(&b)}
	if err := l.programs.run(key, 1, func() error { return l.recordOutputs(key) }, func() error { return l.enqueueOutputs(key) }); err != nil {
		return nn.Outputs{}, err
	}
	if err := l.lanes.main.Synchronize(); err != nil {
		return nn.Outputs{}, err
	}
	return nn.Outputs{Rows: l.graph.Rows, Values: l.outputs}, nil
}

func (l *learner) recordOutputs(key learningKey) error {
	l.recorder.list = nil
	if err := l.recordRows(key); err != nil {
		return err
	}
	l.recorder.put(&l.graph.Graph, key.params)
	return l.recorder.walk(l.graph.Forward, &l.graph.Graph, l.graph.Rows)
}

// enqueueOutputs enqueues an upload, a forward pass and a download.
func (l *learner) enqueueOutputs(key learningKey) error {
	from := l.obs
	if key.obsRows != 0 {
		from = l.index
	}
	if err := l.lanes.main.Upload(from.at(), from.host()); err != nil {
		return err
	}
	if err := l.lanes.play(l.recorder.list); err != nil {
		return err
	}
	return l.heads.download(l.lanes.main)
}

// enqueue enqueues an upload, a gradient and a download.
func (l *learner) enqueue(key learningKey) error {
	if err := l.fetch(key); err != nil {
		return err
	}
	if err := l.lanes.play(l.recorder.list); err != nil {
		return err
	}
	return l.losses.download(l.lanes.main)
}

// fetch enqueues the upload of a minibatch. Observations are the first piece, so that a batch with
// Rows leaves them out.
func (l *learner) fetch(key learningKey) error {
	first := 0
	if key.obsRows != 0 {
		first = l.index.from
	}
	return l.lanes.main.Upload(l.batch.at+uint64(first), l.batch.host[first:])
}

// report fills in the loss, its parts and the numbers of the rows, as they were downloaded.
func (l *learner) report(r *nn.Report) {
	sums := view[float64](l.loss)
	r.Loss = sums[0]
	r.Parts = append(r.Parts[:0], sums[1:1+l.graph.Parts]...)
	if r.Rows != nil {
		copy(r.Rows, view[float32](l.errors))
	}
}

// Look ignores a failed download: the next update returns the error of a lost GPU.
func (l *learner) Look(a *nn.Activity) {
	k, rows := 0, l.graph.Rows
	for _, h := range l.graph.Hidden {
		if h.Layer.Activation != nn.ReLU {
			continue
		}
		y := l.hidden[h.Y]
		if y == nil {
			y = make([]float32, rows*h.Layer.Out)
			l.hidden[h.Y] = y
		}
		if l.lanes.main.Download(graph.BytesOf(y), l.recorder.at[h.Y]) == nil {
			graph.Look(a.Layers[k].Alive, h.Layer, y, rows, true)
		}
		k++
	}
	a.Flat = l.heads.download(l.lanes.main) == nil && l.lanes.main.Synchronize() == nil
	for i, values := range l.outputs {
		a.Flat = a.Flat && graph.Constant(values, l.graph.Spec.Heads[i].Out)
	}
}
