package gpu

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/cuda"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/graph"
	"gorgonia.org/tensor"
)

// gpuLearner is a Learner on a GPU, and the first half of the steppers there. Its minibatches
// lie in one block, so that they get there by one copy.
type gpuLearner struct {
	card    *card
	graph   *graph.Learner
	on      *recorder
	lanes   lanes
	known   programs[learningKey]
	grad    uint64      // of the parameters, flat
	outputs [][]float32 // of the heads

	batch   *block
	obs     piece
	index   piece // of the rows that a batch names
	kept    keptRows
	actions piece
	columns []piece
	masks   piece // nothing: the loss has none
	losses  *block
	loss    piece                       // doubles: the loss and its parts
	heads   *block                      // what the heads compute
	seen    map[*tensor.Dense][]float32 // what Look downloads: the outputs of hidden layers
}

// learningKey is what the launches of an update depend on.
type learningKey struct {
	what   updatePart
	params uint64
	target uint64 // of Q-learning
	masked bool
	kept   uint64 // the rows that a batch names; 0: it has observations of its own
}

type updatePart int

const (
	learning updatePart = 1 << iota
	stepping
	evaluating // a forward pass alone
)

func (d *gpu) Learner(s nn.Spec, rows int, loss nn.Loss) (nn.Learner, error) {
	return d.learner(s, rows, loss)
}

func (d *gpu) learner(s nn.Spec, rows int, loss nn.Loss) (*gpuLearner, error) {
	l := d.card.learner()
	if err := l.make(s, rows, loss); err != nil {
		return nil, err
	}
	return l, l.allocate()
}

func (c *card) learner() *gpuLearner {
	return &gpuLearner{card: c, batch: &block{}, losses: &block{}, heads: &block{}, seen: map[*tensor.Dense][]float32{}}
}

// make makes the graph, what records it, and the pieces of a minibatch.
func (l *gpuLearner) make(s nn.Spec, rows int, loss nn.Loss) (err error) {
	if l.graph, err = graph.NewLearner(s, rows, loss); err != nil {
		return err
	}
	if l.on, err = newRecorder(l.card, &s); err != nil {
		return err
	}
	l.obs = l.batch.add(rows * s.Obs.Bytes())
	l.index = l.batch.add(4 * rows)
	for range l.graph.Columns {
		l.columns = append(l.columns, l.batch.add(4*rows))
	}
	l.actions = l.batch.add(4 * rows)
	if pi := s.Head("pi"); pi >= 0 {
		l.masks = l.batch.add(rows * s.Heads[pi].Out)
	}
	l.loss = l.losses.add(8 * (1 + cuda.LossTerms))
	return nil
}

// placeHeads makes the heads' outputs come back in one copy.
func (l *gpuLearner) placeHeads() error {
	var pieces []piece
	for _, h := range l.graph.Spec.Heads {
		pieces = append(pieces, l.heads.add(4*l.graph.Rows*h.Out))
	}
	if err := l.heads.allocate(l.card); err != nil {
		return err
	}
	for i, y := range l.graph.Heads {
		l.on.at[y] = pieces[i].at()
		l.outputs = append(l.outputs, view[float32](pieces[i]))
	}
	return nil
}

// allocate allocates what make has laid out, and lets the recorder know where it is.
func (l *gpuLearner) allocate() (err error) {
	if err := l.batch.allocate(l.card); err != nil {
		return err
	}
	if err := l.losses.allocate(l.card); err != nil {
		return err
	}
	if err := l.placeHeads(); err != nil {
		return err
	}
	if l.grad, err = l.card.memory(int64(4 * l.graph.Layout.Size)); err != nil {
		return err
	}
	if l.lanes, err = l.card.lanes(); err != nil {
		return err
	}
	l.known = newPrograms[learningKey](l.card, l.lanes.main)
	l.on.at[l.graph.Obs], l.on.at[l.graph.Actions] = l.obs.at(), l.actions.at()
	for i, c := range l.columns {
		l.on.at[l.graph.Columns[i]] = c.at()
	}
	for i, part := range l.graph.Layout.Params {
		l.on.at[l.graph.Grads[i]] = l.grad + uint64(4*part.Offset)
	}
	l.on.loss = l.loss.at()
	return nil
}

// record lists the kernels of a gradient.
func (l *gpuLearner) record(params uint64, masked bool) error {
	l.on.put(&l.graph.Graph, params)
	l.on.masks = 0
	if masked {
		l.on.masks = l.masks.at()
	}
	return l.on.walk(l.graph.Order, &l.graph.Graph, l.graph.Rows)
}

// load checks a minibatch and copies it to where the GPU fetches it.
func (l *gpuLearner) load(p *nn.Params, b *nn.Batch) error {
	if err := l.graph.CheckBatch(p, b, l.kept.rows); err != nil {
		return err
	}
	if err := l.checkValues(b); err != nil {
		return err
	}
	l.loadObs(b)
	copy(l.actions.host(), graph.BytesOf(b.Actions))
	for i, c := range b.Columns {
		copy(l.columns[i].host(), graph.BytesOf(c))
	}
	if b.Masks != nil {
		copy(l.masks.host(), b.Masks)
	}
	return nil
}

// checkValues checks what an op on the CPU checks when it runs: actions, and masks that allow them.
func (l *gpuLearner) checkValues(b *nn.Batch) error {
	head := l.graph.Spec.Head("pi")
	if head < 0 {
		head = l.graph.Spec.Head("q")
	}
	width := l.graph.Spec.Heads[head].Out
	if err := graph.CheckActions(b.Actions, width); err != nil || b.Masks == nil {
		return err
	}
	return graph.CheckMasks(b.Masks, b.Actions, b.Columns[graph.WeightColumn], width)
}

func (l *gpuLearner) Layout() *nn.Layout { return l.graph.Layout }

func (l *gpuLearner) Gradient(p *nn.Params, b nn.Batch, grad []float32, r *nn.Report) error {
	if len(grad) != l.graph.Layout.Size {
		return fmt.Errorf("grad: %d floats, must be %d", len(grad), l.graph.Layout.Size)
	}
	if err := l.load(p, &b); err != nil {
		return err
	}
	at, err := l.card.address(p)
	if err != nil {
		return err
	}
	key := learningKey{what: learning, params: at, masked: b.Masks != nil, kept: l.keptFor(&b)}
	err = l.known.run(key, 1, func() error {
		l.on.list = nil
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

func (l *gpuLearner) Outputs(p *nn.Params, b nn.Batch) (nn.Outputs, error) {
	if err := l.graph.CheckInputs(p, &b, l.kept.rows); err != nil {
		return nn.Outputs{}, err
	}
	l.loadObs(&b)
	at, err := l.card.address(p)
	if err != nil {
		return nn.Outputs{}, err
	}
	key := learningKey{what: evaluating, params: at, kept: l.keptFor(&b)}
	if err := l.known.run(key, 1, func() error { return l.recordOutputs(key) }, func() error { return l.enqueueOutputs(key) }); err != nil {
		return nn.Outputs{}, err
	}
	if err := l.lanes.main.Synchronize(); err != nil {
		return nn.Outputs{}, err
	}
	return nn.Outputs{Rows: l.graph.Rows, Values: l.outputs}, nil
}

// recordOutputs lists the kernels of a forward pass.
func (l *gpuLearner) recordOutputs(key learningKey) error {
	l.on.list = nil
	if err := l.recordRows(key); err != nil {
		return err
	}
	l.on.put(&l.graph.Graph, key.params)
	return l.on.walk(l.graph.Forward, &l.graph.Graph, l.graph.Rows)
}

// enqueueOutputs enqueues a forward pass between the copies that it needs.
func (l *gpuLearner) enqueueOutputs(key learningKey) error {
	from := l.obs
	if key.kept != 0 {
		from = l.index
	}
	if err := l.lanes.main.Upload(from.at(), from.host()); err != nil {
		return err
	}
	if err := l.lanes.play(l.on.list); err != nil {
		return err
	}
	return l.heads.download(l.lanes.main)
}

// enqueue enqueues a gradient between the copies that it needs.
func (l *gpuLearner) enqueue(key learningKey) error {
	if err := l.fetch(key); err != nil {
		return err
	}
	if err := l.lanes.play(l.on.list); err != nil {
		return err
	}
	return l.losses.download(l.lanes.main)
}

// fetch enqueues the copy of a minibatch, whose observations are its first piece.
func (l *gpuLearner) fetch(key learningKey) error {
	first := 0
	if key.kept != 0 {
		first = l.index.from
	}
	return l.lanes.main.Upload(l.batch.at+uint64(first), l.batch.host[first:])
}

// report fills in what the GPU has left of the loss.
func (l *gpuLearner) report(r *nn.Report) {
	sums := view[float64](l.loss)
	r.Loss = sums[0]
	r.Parts = append(r.Parts[:0], sums[1:1+l.graph.Parts]...)
}

// Look fetches what the latest gradient computed. What a transfer leaves out is not seen as
// dead: a GPU that is lost says so in the next update.
func (l *gpuLearner) Look(a *nn.Activity) {
	k, rows := 0, l.graph.Rows
	for _, h := range l.graph.Hidden {
		if h.Layer.Activation != nn.ReLU {
			continue
		}
		y := l.seen[h.Y]
		if y == nil {
			y = make([]float32, rows*h.Layer.Out)
			l.seen[h.Y] = y
		}
		if l.lanes.main.Download(graph.BytesOf(y), l.on.at[h.Y]) == nil {
			graph.Look(a.Layers[k].Alive, h.Layer, y, rows, true)
		}
		k++
	}
	a.Flat = l.heads.download(l.lanes.main) == nil && l.lanes.main.Synchronize() == nil
	for i, values := range l.outputs {
		a.Flat = a.Flat && graph.Constant(values, l.graph.Spec.Heads[i].Out)
	}
}
