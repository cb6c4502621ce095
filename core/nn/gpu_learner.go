package nn

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/cuda"
)

// gpuLearner is a Learner on a GPU, and the first half of the steppers there. Its minibatches
// lie in one block, so that they get there by one copy.
type gpuLearner struct {
	learner // checks; nothing is run with it
	card    *card
	on      *recorder
	lanes   lanes
	known   programs[learningKey]
	grad    uint64 // of the parameters, flat

	batch   *block
	obs     piece
	index   piece // of the rows that a batch names
	there   gpuKept
	actions piece
	columns []piece
	masks   piece // nothing: the loss has none
	losses  *block
	loss    piece  // doubles: the loss and its parts
	heads   *block // what the heads compute
	seen    map[*hidden][]float32
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

func (d *gpu) Learner(s Spec, rows int, loss Loss) (Learner, error) { return d.learner(s, rows, loss) }

func (d *gpu) learner(s Spec, rows int, loss Loss) (*gpuLearner, error) {
	l := d.card.learner()
	if err := l.make(s, rows, loss); err != nil {
		return nil, err
	}
	return l, l.allocate()
}

func (c *card) learner() *gpuLearner {
	return &gpuLearner{card: c, batch: &block{}, losses: &block{}, heads: &block{}, seen: map[*hidden][]float32{}}
}

// make makes the graph, what records it, and the pieces of a minibatch.
func (l *gpuLearner) make(s Spec, rows int, loss Loss) (err error) {
	building.Lock()
	defer building.Unlock()
	l.learner = learner{graph: newGraph(rows, nil), parts: make([]float64, len(loss.Parts()))}
	l.graph.learns = true
	if _, err = l.build(s, loss); err != nil {
		return err
	}
	if l.machine, err = sorted(l.graph.ExprGraph); err != nil {
		return err
	}
	l.forward = l.machine.part(l.graph.heads)
	if l.on, err = newRecorder(l.card, &s); err != nil {
		return err
	}
	l.obs = l.batch.add(rows * s.Obs.Bytes())
	l.index = l.batch.add(4 * rows)
	for range l.learner.columns {
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
	for _, h := range l.graph.spec.Heads {
		pieces = append(pieces, l.heads.add(4*l.graph.capacity*h.Out))
	}
	if err := l.heads.allocate(l.card); err != nil {
		return err
	}
	for i, h := range l.graph.heads {
		l.on.at[h.Op().(*layerOp).y] = pieces[i].at()
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
	if l.grad, err = l.card.memory(int64(4 * l.graph.layout.Size)); err != nil {
		return err
	}
	if l.lanes, err = l.card.lanes(); err != nil {
		return err
	}
	l.known = newPrograms[learningKey](l.card, l.lanes.main)
	l.on.at[l.graph.obs], l.on.at[l.learner.actions] = l.obs.at(), l.actions.at()
	for i, c := range l.columns {
		l.on.at[l.learner.columns[i]] = c.at()
	}
	for i, part := range l.graph.layout.Params {
		l.on.at[l.grads[i]] = l.grad + uint64(4*part.Offset)
	}
	l.on.loss = l.loss.at()
	return nil
}

// record lists the kernels of a gradient.
func (l *gpuLearner) record(params uint64, masked bool) error {
	l.on.put(l.graph, params)
	l.on.masks = 0
	if masked {
		l.on.masks = l.masks.at()
	}
	return l.on.walk(l.machine)
}

// load checks a minibatch and copies it to where the GPU fetches it.
func (l *gpuLearner) load(p *Params, b *Batch) error {
	if err := l.learner.check(p, b); err != nil {
		return err
	}
	if err := l.checkRows(b); err != nil {
		return err
	}
	l.loadObs(b)
	copy(l.actions.host(), bytesOf(b.Actions))
	for i, c := range b.Columns {
		copy(l.columns[i].host(), bytesOf(c))
	}
	if b.Masks != nil {
		copy(l.masks.host(), b.Masks)
	}
	return nil
}

// checkRows checks what an op on the CPU checks when it runs: actions, and masks that allow them.
func (l *gpuLearner) checkRows(b *Batch) error {
	width := 0
	for _, h := range []string{"pi", "q"} {
		if i := l.graph.spec.Head(h); i >= 0 {
			width = l.graph.spec.Heads[i].Out
			break
		}
	}
	if width == 0 {
		return nil // a loss of its own, whose ops have no kernels
	}
	if err := checkActions(b.Actions, width); err != nil || b.Masks == nil {
		return err
	}
	return checkMasks(b.Masks, b.Actions, b.Columns[columnWeight], width)
}

func (l *gpuLearner) Gradient(p *Params, b Batch, grad []float32, r *Report) error {
	if len(grad) != l.graph.layout.Size {
		return fmt.Errorf("grad: %d floats, must be %d", len(grad), l.graph.layout.Size)
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
	if err := l.lanes.main.Download(bytesOf(grad), l.grad); err != nil {
		return err
	}
	l.report(r)
	r.Norm = 0
	return nil
}

func (l *gpuLearner) Outputs(p *Params, b Batch) (Outputs, error) {
	if err := l.checkInputs(p, &b); err != nil {
		return Outputs{}, err
	}
	l.loadObs(&b)
	at, err := l.card.address(p)
	if err != nil {
		return Outputs{}, err
	}
	key := learningKey{what: evaluating, params: at, kept: l.keptFor(&b)}
	if err := l.known.run(key, 1, func() error { return l.recordOutputs(key) }, func() error { return l.enqueueOutputs(key) }); err != nil {
		return Outputs{}, err
	}
	if err := l.lanes.main.Synchronize(); err != nil {
		return Outputs{}, err
	}
	return Outputs{Rows: l.graph.capacity, Values: l.outputs}, nil
}

// recordOutputs lists the kernels of a forward pass.
func (l *gpuLearner) recordOutputs(key learningKey) error {
	l.on.list = nil
	if err := l.recordRows(key); err != nil {
		return err
	}
	l.on.put(l.graph, key.params)
	return l.on.walk(l.forward)
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
func (l *gpuLearner) report(r *Report) {
	sums := view[float64](l.loss)
	r.Loss = sums[0]
	r.Parts = append(r.Parts[:0], sums[1:1+len(l.parts)]...)
}

// Look fetches what the latest gradient computed. What a transfer leaves out is not seen as
// dead: a GPU that is lost says so in the next update.
func (l *gpuLearner) Look(a *Activity) {
	k, rows := 0, l.graph.capacity
	for i := range l.graph.hidden {
		h := &l.graph.hidden[i]
		if h.l.act != relu {
			continue
		}
		y := l.seen[h]
		if y == nil {
			y = make([]float32, rows*h.l.out)
			l.seen[h] = y
		}
		if l.lanes.main.Download(bytesOf(y), l.on.at[h.y]) == nil {
			h.look(a.Layers[k].Alive, y, rows, true)
		}
		k++
	}
	a.Flat = l.heads.download(l.lanes.main) == nil && l.lanes.main.Synchronize() == nil
	for i, values := range l.outputs {
		a.Flat = a.Flat && constant(values, l.graph.spec.Heads[i].Out)
	}
}
