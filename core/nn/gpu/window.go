package gpu

import (
	"fmt"
	"unsafe"

	"github.com/paceline-rl/paceline/core/cuda"
	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/nn"
)

// window is the state of a qStepper as nn.StackStepper: frames in GPU memory, and the minibatches
// that refer to these frames. An update of a window is the graph of Update with another beginning:
// its first kernels gather the minibatch in GPU memory. The kernels count the updates in a
// cuda.Step, and use the minibatch and the learning rate of that number.
type window struct {
	frames        *cuda.Memory // nil: none
	width         int          // of a frame, in bytes
	all           *block       // everything that is uploaded for the minibatches
	obs, next     piece        // cuda.Stack
	numbers       piece        // actions, rewards, discounts and masks of each minibatch
	stride        int          // bytes of a minibatch's numbers
	rates         piece
	records       *block
	record        piece // doubles: loss and norm of each update
	errors        piece // floats: nn.Report.Rows of each update; empty: the loss has no importance weights
	minibatches   []experience.Transitions
	reports       []nn.Report
	theta         *nn.Params
	done          *cuda.Event // a wait for it sleeps, because a window takes long
	uploaded      *cuda.Event
	first         int // minibatch of the updates in progress
	updates, rows int
	programs      programs[windowKey]

	// The updates in progress: key is that of their graph, left of them are not enqueued. An event
	// of marks follows each enqueued batch; turn is the index of the next event, and pending events
	// are recorded and not known to be done.
	key           windowKey
	left          int
	marks         [2]*cuda.Event
	turn, pending int
}

// updatesAtOnce is the number of updates in a batch that is enqueued at once. At most two batches
// wait for the GPU: all streams share CUDA's launch queues, and a launch into a full queue would
// block acting. A batch takes some milliseconds, longer than a sleeping thread needs to enqueue the
// next one.
const updatesAtOnce = 32

// The kernels read a Stack as a cuda.Stack: the conversion compiles while both have the same
// fields.
var _ = cuda.Stack(experience.Stack{})

type windowKey struct {
	learningKey
	frames uint64
	width  int
}

// A window has defaultMinibatches minibatches, or the number that the caller asks for. Fewer fit if
// they need more than windowBytes of host memory and of GPU memory, but never fewer than
// fewestMinibatches.
const (
	defaultMinibatches = 1024
	fewestMinibatches  = 64
	windowBytes        = 32 << 20
)

// newWindow makes the window of q, with n minibatches if they fit; 0: the default.
func (q *qStepper) newWindow(n int) (err error) {
	rows := q.graph.Rows
	w := &window{all: &block{}, records: &block{}, rows: rows, stride: q.masks.from + (q.masks.bytes+15)&^15 - q.actions.from}
	stacks := rows * int(unsafe.Sizeof(experience.Stack{}))
	if n == 0 {
		n = defaultMinibatches
	}
	errors := 0
	if q.weights() != nil {
		errors = 4 * rows
	}
	n = min(n, max(fewestMinibatches, windowBytes/(2*stacks+w.stride+errors)))
	w.obs, w.next = w.all.add(n*stacks), w.all.add(n*stacks)
	w.numbers, w.rates = w.all.add(n*w.stride), w.all.add(4*n)
	w.record, w.errors = w.records.add(16*n), w.records.add(n*errors)
	if err := w.all.allocate(q.gpu); err != nil {
		return err
	}
	if err := w.records.allocate(q.gpu); err != nil {
		return err
	}
	width := q.masks.bytes / rows
	for k := range n {
		part := func(p piece, bytes int) piece {
			return piece{w.all, w.numbers.from + k*w.stride + p.from - q.actions.from, bytes}
		}
		b := experience.Transitions{
			Stacks: view[experience.Stack](w.obs)[k*rows : (k+1)*rows], NextStacks: view[experience.Stack](w.next)[k*rows : (k+1)*rows],
			Actions: view[int32](part(q.actions, 4*rows)), Rewards: view[float32](part(q.rewards, 4*rows)),
			Discounts: view[float32](part(q.discounts, 4*rows)), NextMasks: part(q.masks, rows*width).host(),
		}
		if q.weights() != nil {
			b.Weights = view[float32](part(q.columns[1], 4*rows))
		}
		w.minibatches = append(w.minibatches, b)
	}
	for _, e := range []**cuda.Event{&w.done, &w.uploaded, &w.marks[0], &w.marks[1]} {
		if *e, err = q.gpu.event(true); err != nil {
			return err
		}
	}
	w.reports = make([]nn.Report, n)
	w.programs = newPrograms[windowKey](q.gpu, q.lanes.main)
	q.window = w
	return nil
}

func (q *qStepper) Resize(slots, width int) error {
	if q.graph.Spec.Obs.Bytes()%width != 0 {
		return fmt.Errorf("frames: %d bytes, must divide the %d of an observation", width, q.graph.Spec.Obs.Bytes())
	}
	w := q.window
	if w.frames != nil {
		w.frames.Free()
		w.frames = nil
	}
	frames, err := q.gpu.Alloc(int64(slots) * int64(width))
	if err != nil {
		return fmt.Errorf("replay_device: %w", err)
	}
	q.gpu.own(frames.Free)
	w.frames, w.width = frames, width
	return nil
}

func (q *qStepper) FreeBytes() (int64, error) {
	free, _, err := q.gpu.MemInfo()
	return free, err
}

func (q *qStepper) Put(slot int, frames []byte) error {
	w := q.window
	return q.lanes.main.Upload(w.frames.Ptr+uint64(slot)*uint64(w.width), frames)
}

func (q *qStepper) Minibatches() []experience.Transitions { return q.window.minibatches }

func (q *qStepper) Upload(first, n int) error {
	w := q.window
	for _, p := range []piece{w.obs, w.next, w.numbers} {
		each := p.bytes / len(w.minibatches)
		if err := q.lanes.main.Upload(p.at()+uint64(first*each), p.host()[first*each:(first+n)*each]); err != nil {
			return err
		}
	}
	if err := q.lanes.main.Record(w.uploaded); err != nil {
		return err
	}
	return q.feed(false)
}

func (q *qStepper) Uploaded() error { return q.window.uploaded.Wait() }

func (q *qStepper) Register(memory []byte) (release func(), err error) {
	p, err := q.gpu.Register(memory)
	if err != nil {
		return nil, err
	}
	q.gpu.own(p.Free)
	return func() {
		q.lanes.main.Synchronize() // the next call returns the same error
		p.Free()
	}, nil
}

func (q *qStepper) Start(theta, target *nn.Params, first int, rates []float64, masked bool) error {
	w, n := q.window, len(rates)
	at, err := q.gpu.address(theta)
	if err != nil {
		return err
	}
	key := windowKey{learningKey{what: learning | stepping, params: at, masked: masked}, w.frames.Ptr, w.width}
	if key.target, err = q.gpu.address(target); err != nil {
		return err
	}
	o := q.optimizer
	if err := o.prepare(0); err != nil {
		return err
	}
	for k, r := range rates {
		view[float32](w.rates)[first+k] = float32(r)
	}
	s, own := q.lanes.main, piece{w.all, w.rates.from + 4*first, 4 * n}
	if err := s.Upload(own.at(), own.host()); err != nil {
		return err
	}
	// The kernels count updates from `first`, and use the minibatch of that number.
	view[cuda.Step](o.at)[0].Update = int64(first)
	if err := o.clock.upload(s); err != nil {
		return err
	}
	w.theta, w.first, w.updates = theta, first, n
	w.key, w.left, w.turn, w.pending = key, n, 0, 0
	return q.feed(false)
}

// feed enqueues batches of the updates in progress while fewer than two batches wait for the GPU.
// After the last batch it enqueues the downloads that Finish waits for. With wait it returns after
// everything is enqueued.
func (q *qStepper) feed(wait bool) error {
	w, s := q.window, q.lanes.main
	if w.left == 0 {
		return nil
	}
	for w.left > 0 {
		if w.pending == len(w.marks) {
			oldest := w.marks[w.turn]
			if over, err := oldest.Done(); err != nil || !over && !wait {
				return err
			}
			if err := oldest.Wait(); err != nil {
				return err
			}
			w.pending--
		}
		n, key := min(w.left, updatesAtOnce), w.key
		if err := w.programs.run(key, n, func() error { return q.recordWindow(key) }, func() error { return q.lanes.play(q.recorder.list) }); err != nil {
			return err
		}
		if w.left -= n; w.left > 0 {
			if err := s.Record(w.marks[w.turn]); err != nil {
				return err
			}
			w.turn = 1 - w.turn
			w.pending++
		}
	}
	if err := q.optimizer.clock.download(s); err != nil {
		return err
	}
	for _, p := range []piece{w.record, w.errors} {
		each := p.bytes / len(w.minibatches)
		if err := s.Download(p.host()[each*w.first:each*(w.first+w.updates)], p.at()+uint64(each*w.first)); err != nil {
			return err
		}
	}
	return s.Record(w.done)
}

// recordWindow lists the kernels of an update of a window.
func (q *qStepper) recordWindow(key windowKey) error {
	w, r := q.window, q.recorder
	r.list = nil
	update := q.optimizer.at.at() // the first field of cuda.Step is the number of the update
	words := w.stride / 4
	if err := enqueue(r, "select", cuda.Elements(words), cuda.SelectArgs{Words: int64(words), Update: update, From: w.numbers.at(), To: q.actions.at()}); err != nil {
		return err
	}
	frames := q.graph.Spec.Obs.Bytes() / w.width
	gather := func(stacks, to piece) error {
		return enqueue(r, "gather", cuda.Gather(w.rows, frames), cuda.GatherArgs{Rows: int32(w.rows), Frames: int32(frames), Width: int32(w.width),
			Arena: w.frames.Ptr, Stacks: stacks.at(), Update: update, To: to.at()})
	}
	err := r.forkSide(func() error {
		if err := gather(w.next, q.next); err != nil {
			return err
		}
		return q.targets(key.learningKey)
	})
	if err != nil {
		return err
	}
	if err := gather(w.obs, q.obs); err != nil {
		return err
	}
	if w.errors.bytes > 0 {
		defer func(errors uint64) { r.errors, r.update = errors, 0 }(r.errors)
		r.errors, r.update = w.errors.at(), update
	}
	if err := q.learner.record(key.params, false); err != nil {
		return err
	}
	return q.optimizer.record(r, stepOf{params: key.params, grad: q.grad, loss: q.loss.at(), rates: w.rates.at(), record: w.record.at(), maxNorm: q.maxNorm})
}

func (q *qStepper) Finish() ([]nn.Report, error) {
	w := q.window
	if err := q.feed(true); err != nil {
		return nil, err
	}
	if err := w.done.Wait(); err != nil {
		return nil, err
	}
	step := &view[cuda.Step](q.optimizer.at)[0]
	step.Update -= int64(w.first)
	reports := w.reports[:min(int(step.Update)+1, w.updates)]
	for k := range reports {
		numbers := view[float64](w.record)[2*(w.first+k):]
		reports[k] = nn.Report{Loss: numbers[0], Parts: reports[k].Parts[:0], Norm: numbers[1]}
		if w.errors.bytes > 0 {
			reports[k].Rows = view[float32](w.errors)[(w.first+k)*w.rows:][:w.rows]
		}
	}
	return reports, q.optimizer.stepped(w.theta, &reports[len(reports)-1])
}

func (q *qStepper) OwnTransitions() *experience.Transitions {
	return &experience.Transitions{Obs: q.obs.host(), NextObs: q.next.host(), Actions: view[int32](q.actions), Rewards: view[float32](q.rewards),
		Discounts: view[float32](q.discounts), NextMasks: q.masks.host(), Weights: q.weights()}
}
