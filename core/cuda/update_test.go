package cuda

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/paceline-rl/paceline/core/kernel"
)

// sizes returns lengths of flat arrays: smaller than a block, several blocks, and a partial block.
func sizes() []int {
	if sanitizer() == "thread" {
		return []int{3}
	}
	return []int{1, 255, 4096, 10001}
}

func TestElementwise(t *testing.T) {
	d := open(t)
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range sizes() {
		x, y, want := random(n, r), random(n, r), make([]float32, n)
		for i := range x {
			if i%3 == 0 {
				x[i] *= 20
			}
		}
		x[0] = float32(math.NaN())
		run := func(name string, args ElementsArgs) {
			t.Helper()
			args.N, args.To = int64(n), d.outputs(n)
			d.launch(name, Elements(n), &args)
			same(t, name, canonical(d.result(name, args.To, n)), canonical(want))
		}
		atX, atY := put(d, x), put(d, y)
		kernel.Tanh(want, x)
		run("tanh_forward", ElementsArgs{X: atX})
		kernel.TanhBackward(want, x, y)
		run("tanh_backward", ElementsArgs{X: atX, Y: atY})
		copy(want, x)
		kernel.Add(want, y)
		run("add", ElementsArgs{X: atX, Y: atY})
		copy(want, x)
		kernel.Average(nil, want, y, .25)
		run("average", ElementsArgs{X: atX, Y: atY, Decay: .75, Factor: .25})
		for i := range want {
			if want[i] = 0; x[i] > 0 {
				want[i] = y[i]
			}
		}
		run("relu_backward", ElementsArgs{X: atX, Y: atY})
		bytes := randomBytes(n, r)
		for i, b := range bytes {
			want[i] = float32(1.0/255) * float32(b)
		}
		run("convert_bytes", ElementsArgs{X: put(d, bytes), Factor: 1.0 / 255})
	}
}

// optimizer is an optimiser's kernel with its reference.
type optimizer struct {
	name string
	rule int32
	args OptimizerArgs
	step func(theta, grad []float32, by float32, first, second []float32, lr float32, step int64)
}

const (
	beta1, beta2, decay = .9, .999, .95
	eps                 = 1e-2
)

func optimizers() []optimizer {
	rms := func(name string, centered, inside bool) optimizer {
		flag := map[bool]int32{true: 1}
		args := OptimizerArgs{Decay2: float32(decay), Eps: eps, Centered: flag[centered], EpsInside: flag[inside]}
		rest := 1 - float64(decay)
		args.Weight2 = float32(rest)
		return optimizer{name, RulePlain, args, func(theta, grad []float32, by float32, first, second []float32, lr float32, _ int64) {
			kernel.RMSProp(nil, theta, grad, by, first, second, lr, decay, eps, centered, inside)
		}}
	}
	b1, b2 := float64(beta1), float64(beta2)
	moments := OptimizerArgs{Decay1: float32(b1), Weight1: float32(1 - b1), Decay2: float32(b2), Weight2: float32(1 - b2), Eps: 1e-8}
	return []optimizer{
		rms("rmsprop", false, false), rms("rmsprop", true, true), rms("rmsprop", true, false), rms("rmsprop", false, true),
		{"adam", RuleAdam, moments, func(theta, grad []float32, by float32, first, second []float32, lr float32, step int64) {
			kernel.Adam(nil, theta, grad, by, first, second, lr, beta1, beta2, 1e-8, step)
		}},
		{"radam", RuleRAdam, moments, func(theta, grad []float32, by float32, first, second []float32, lr float32, step int64) {
			kernel.RAdam(nil, theta, grad, by, first, second, lr, beta1, beta2, 1e-8, step)
		}},
		{"adagrad", RulePlain, OptimizerArgs{Eps: 1e-10}, func(theta, grad []float32, by float32, _, second []float32, lr float32, _ int64) {
			kernel.AdaGrad(nil, theta, grad, by, second, lr, 1e-10)
		}},
	}
}

// Eight updates, with and without clipping, give the same bits as core/kernel.
func TestOptimizers(t *testing.T) {
	d := open(t)
	for k, o := range optimizers() {
		for _, maxNorm := range []float64{0, .5} {
			if sanitizer() == "thread" && maxNorm == 0 && k > 0 { // one optimiser is enough for advance
				continue
			}
			for _, n := range sizes() {
				testOptimizer(t, d, o, n, maxNorm)
			}
		}
	}
}

func testOptimizer(t *testing.T, d *device, o optimizer, n int, maxNorm float64) {
	updates := 8
	if sanitizer() == "thread" {
		updates = 2
	}
	r := rand.New(rand.NewPCG(uint64(n), 5))
	theta, first, second := random(n, r), make([]float32, n), make([]float32, n)
	rates := make([]float32, 3+updates)
	for i := range rates {
		rates[i] = .1 / float32(i+1)
	}
	squares := SumSquares(n)
	parts := put(d, make([]float64, squares.Grid[0]))
	state := put(d, []Step{{Step: 4}})
	arrived, loss, record := put(d, []uint32{0}), put(d, []float64{.5}), put(d, make([]float64, 2*updates))
	args := o.args
	args.N, args.Step = int32(n), state
	args.Theta, args.First, args.Second = put(d, theta), put(d, first), put(d, second)
	for k := range updates {
		grad := random(n, r)
		args.Grad = put(d, grad)
		advance := AdvanceArgs{Step: state, Loss: loss, Rates: put(d, rates), First: 3, Record: record, MaxNorm: maxNorm, Beta1: beta1, Beta2: beta2, Rule: o.rule}
		if maxNorm > 0 {
			advance.Parts, advance.PartsCount = parts, int32(squares.Grid[0])
			d.launch("sum_squares", squares, &SumSquaresArgs{N: int64(n), X: args.Grad, Parts: parts, Arrived: arrived, Advance: advance})
		} else {
			d.launch("advance", Advance, &advance)
		}
		d.launch(o.name, Elements(n), &args)
		by := float32(1)
		if maxNorm > 0 {
			norm := math.Sqrt(kernel.SumSquares(nil, grad))
			if f := maxNorm / (norm + 1e-6); f < 1 {
				by = float32(f)
			}
			if s := get[Step](d, state, 1)[0]; math.Abs(s.Norm-norm) > 1e-12*norm {
				t.Errorf("%s: norm %v, must be %v", o.name, s.Norm, norm)
			}
		}
		o.step(theta, grad, by, first, second, rates[3+k], int64(5+k))
	}
	same(t, o.name+" theta", get[float32](d, args.Theta, n), theta)
	same(t, o.name+" second", get[float32](d, args.Second, n), second)
	if o.rule != RulePlain || o.args.Centered != 0 {
		same(t, o.name+" first", get[float32](d, args.First, n), first)
	}
	s := get[Step](d, state, 1)[0]
	if last := get[float64](d, record, 2*updates)[2*updates-2:]; last[0] != .5 || last[1] != s.Norm {
		t.Errorf("%s: the record of the last update is %v, must be .5 and %v", o.name, last, s.Norm)
	}
	if s.Update != int64(updates) || s.Step != int64(4+updates) || s.Refused != 0 || s.LossSum != .5*float64(updates) {
		t.Errorf("%s: %+v after %d updates", o.name, s, updates)
	}
}

// An update with a loss or norm that is not finite, and all later updates, change nothing.
func TestNonFiniteUpdatesAreRefused(t *testing.T) {
	d := open(t)
	theta := []float32{1, 2, 3}
	for _, c := range []struct {
		loss float64
		grad float32
		says int32
	}{{math.NaN(), 1, RefusedLoss}, {math.Inf(1), 1, RefusedLoss}, {1, float32(math.Inf(-1)), RefusedNorm}, {1, float32(math.NaN()), RefusedNorm}} {
		state, parts := put(d, []Step{{}}), put(d, []float64{0})
		args := OptimizerArgs{N: 3, Step: state, Theta: put(d, theta), Second: put(d, []float32{0, 0, 0}), Eps: 1}
		for k, grad := range []float32{1, c.grad, 1} {
			loss := []float64{1, c.loss, 1}[k]
			args.Grad = put(d, []float32{0, grad, 0})
			d.launch("sum_squares", SumSquares(3), &SumSquaresArgs{N: 3, X: args.Grad, Parts: parts, Arrived: put(d, []uint32{0}),
				Advance: AdvanceArgs{Step: state, Loss: put(d, []float64{loss}), Parts: parts, Rates: put(d, []float32{1, 1, 1}), MaxNorm: 9, PartsCount: 1}})
			d.launch("adagrad", Elements(3), &args)
		}
		if got := get[float32](d, args.Theta, 3); got[0] != 1 || got[1] != 1.5 || got[2] != 3 {
			t.Errorf("loss %v, gradient %v: theta is %v", c.loss, c.grad, got)
		}
		if s := get[Step](d, state, 1)[0]; s.Refused != c.says || s.Update != 1 || s.Step != 1 {
			t.Errorf("loss %v, gradient %v: %+v", c.loss, c.grad, s)
		}
	}
}

// gather copies stacks from the arena, also across the end of a ring, with zeros for missing
// frames. The update counter selects the minibatch.
func TestGather(t *testing.T) {
	d := open(t)
	r := rand.New(rand.NewPCG(7, 7))
	const rows, frames, slots, updates = 3, 4, 11, 2
	for _, width := range []int{1, 4, 33, 48, 7056} {
		arena := randomBytes(2*slots*width, r)
		stacks := make([]Stack, rows*updates)
		for i := range stacks {
			base := int32(slots * r.IntN(2))
			stacks[i] = Stack{base + int32(r.IntN(slots)), base, slots, int32(r.IntN(frames + 1))}
		}
		state := put(d, []Step{{}})
		args := GatherArgs{Rows: rows, Frames: frames, Width: int32(width), Arena: put(d, arena), Stacks: put(d, stacks), Update: state}
		for u := range updates {
			d.must("upload", d.request(uint32(3), state, uint64(8), int64(u)))
			args.To = put(d, make([]byte, rows*frames*width))
			d.launch("gather", Gather(rows, frames), &args)
			var want []byte
			for _, s := range stacks[u*rows : (u+1)*rows] {
				for f := range int32(frames) {
					slot := int(s.Base + (s.First-s.Base+f)%s.Slots)
					frame := arena[slot*width : (slot+1)*width]
					if f < frames-s.Frames {
						frame = make([]byte, width)
					}
					want = append(want, frame...)
				}
			}
			same(t, "stacks", get[byte](d, args.To, len(want)), want)
			columns := put(d, []uint32{9, 9, 1, 2, 3, 4})
			selected := SelectArgs{Words: 2, First: 1, Update: state, From: columns, To: put(d, []uint32{0, 0})}
			d.launch("select", Elements(2), &selected)
			same(t, "columns", get[uint32](d, selected.To, 2), []uint32{uint32(2*u + 1), uint32(2*u + 2)})
		}
	}
}

// pick copies rows by their index at any alignment. The update counter selects the minibatch.
func TestPick(t *testing.T) {
	d := open(t)
	r := rand.New(rand.NewPCG(8, 8))
	const rows, of, first, updates = 5, 9, 2, 3
	widths := []int{1, 4, 6, 12, 33, 48, 28224}
	if sanitizer() == "thread" {
		widths = []int{4}
	}
	for _, width := range widths {
		for _, shift := range []int{0, 1, 4} { // address of the rows modulo 16
			from, index := randomBytes(shift+of*width, r), make([]int32, first+updates*rows)
			for i := range index {
				index[i] = int32(r.IntN(of))
			}
			state, atIndex := put(d, []Step{{}}), put(d, index)
			for u := range updates + 1 {
				args := PickArgs{Rows: rows, Width: int64(width), First: first, Index: atIndex, From: put(d, from) + uint64(shift), Update: state}
				chosen := index[first:]
				if u < updates {
					d.must("upload", d.request(uint32(3), state, uint64(8), int64(u)))
					chosen = chosen[u*rows:]
				} else {
					args.Update = 0
				}
				var want []byte
				for _, row := range chosen[:rows] {
					want = append(want, from[shift+int(row)*width:][:width]...)
				}
				to := put(d, make([]byte, 16+len(want)+16))
				args.To = to + 16
				d.launch("pick", Pick(rows, width), &args)
				same(t, "rows", get[byte](d, args.To, len(want)), want)
				same(t, "the bytes around the rows", append(get[byte](d, to, 16), get[byte](d, args.To+uint64(len(want)), 16)...), make([]byte, 32))
			}
		}
	}
}
