package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/paceline-rl/paceline/core/kernel"
)

// rowCounts returns numbers of rows below, at and above the rows of a block.
func rowCounts() []int {
	if sanitizer() == "thread" {
		return []int{2}
	}
	return []int{1, 32, 128, 300}
}

func actionsOf(n, width int, r *rand.Rand) []int32 {
	a := make([]int32, n)
	for i := range a {
		a[i] = int32(r.IntN(width))
	}
	return a
}

// lossSum allocates the outputs of a loss.
func lossSum(d *device, rows, terms int, entropyCoef, valueCoef float64) LossSumArgs {
	return LossSumArgs{Terms: int32(terms), EntropyCoef: entropyCoef, ValueCoef: valueCoef,
		Parts: put(d, make([]float64, LossTerms*Loss(rows).Grid[0])), Arrived: put(d, []uint32{0}), Loss: put(d, make([]float64, 1+terms))}
}

func close64(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-6*max(1e-3, math.Abs(want))) {
		t.Errorf("%s: %v, must be %v", what, got, want)
	}
}

func TestTD(t *testing.T) {
	d := open(t)
	for _, n := range rowCounts() {
		for _, width := range []int{1, 6} {
			r := rand.New(rand.NewPCG(uint64(n), uint64(width)))
			q, next, rewards, discounts := random(n*width, r), random(n*width, r), random(n, r), random(n, r)
			for i := range q {
				q[i] *= 4
			}
			actions, weights := actionsOf(n, width, r), random(n, r)
			for i, w := range weights {
				weights[i] = float32(math.Abs(float64(w)))
			}
			want := make([]float32, n)
			targets := TDTargetsArgs{Rows: int32(n), Width: int32(width), Next: put(d, next), Rewards: put(d, rewards), Discounts: put(d, discounts), Targets: d.outputs(n)}
			kernel.TDTargets(want, next, rewards, discounts, width)
			d.launch("td_targets", Loss(n), &targets)
			same(t, "targets", d.result("targets", targets.Targets, n), want)
			targets.Actions, targets.Targets = put(d, actions), d.outputs(n)
			at := make([]float32, n)
			for i, a := range actions {
				at[i] = rewards[i] + float32(discounts[i]*next[i*width+int(a)])
			}
			d.launch("td_targets", Loss(n), &targets)
			same(t, "targets of actions", d.result("targets", targets.Targets, n), at)

			errors := make([]float32, n)
			for i, a := range actions {
				errors[i] = float32(math.Abs(float64(q[i*width+int(a)] - want[i])))
			}
			for kind := range 20 {
				squared, mean, weights := kind&1 != 0, kind&2 != 0, weights
				importance, order := int32(0), kernel.WeightLoss
				switch kind / 4 {
				case 0:
					weights = nil
				case 2:
					importance = ImportanceLoss
				case 3:
					importance, order = ImportanceGradient, kernel.WeightGradient
				case 4:
					importance, order = ImportanceError, kernel.WeightError
				}
				if squared && importance == ImportanceGradient { // which needs huber
					continue
				}
				scale, flag := float32(.5), map[bool]int32{true: 1}
				args := TDLossArgs{Rows: int32(n), Width: int32(width), Squared: flag[squared], Mean: flag[mean], Importance: importance, Scale: scale,
					Q: put(d, q), Actions: targets.Actions, Targets: put(d, want), DQ: d.outputs(n * width), Errors: d.outputs(n), Sum: lossSum(d, n, 1, 0, 0)}
				total := float64(n)
				if weights != nil {
					args.Weights = put(d, weights)
				}
				if weights != nil && importance == 0 {
					total = 0
					for _, w := range weights {
						total += float64(w)
					}
				}
				weight := scale
				if mean {
					if weight = 0; total != 0 {
						weight = scale / float32(total)
					}
				}
				dq := make([]float32, n*width)
				loss := kernel.TDLoss(dq, q, actions, want, weights, width, squared, order, weight)
				d.launch("td_loss", Loss(n), &args)
				near(t, "dq", d.result("dq", args.DQ, n*width), dq, 1e-6)
				if kind == 0 { // the third place of errors
					args.Update = put(d, []Step{{Update: 2}})
					args.Errors = d.outputs(3 * n)
					d.launch("td_loss", Loss(n), &args)
					args.Errors += uint64(4 * 2 * n)
				}
				same(t, "errors", d.result("errors", args.Errors, n), errors)
				got := get[float64](d, args.Sum.Loss, 2)
				close64(t, "loss", got[0], loss)
			}
		}
	}
}

// The actions equal those of core/nn's Argmax, for ties, infinities, NaN and denormals, and with
// masks that allow all, some or no actions.
func TestArgmax(t *testing.T) {
	d := open(t)
	tiny := math.Float32frombits(1)
	kinds := []float32{0, float32(math.Copysign(0, -1)), 1, 1, -1, -2, tiny, 2 * tiny, -tiny, -2 * tiny, 1e38, -1e38,
		float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), -float32(math.NaN())}
	for _, n := range rowCounts() {
		for _, width := range []int{1, 2, 6, 18} {
			r := rand.New(rand.NewPCG(uint64(n), uint64(width)))
			values, masks := random(n*width, r), make([]byte, n*width)
			for i := range values {
				if i/width%4 != 0 {
					values[i] = kinds[r.IntN(len(kinds))]
				}
				if r.IntN(3) > 0 {
					masks[i] = byte(1 + r.IntN(255))
				}
			}
			for _, masked := range []bool{false, true} {
				args := ArgmaxArgs{Rows: int32(n), Width: int32(width), Values: put(d, values), Actions: d.outputs(n)}
				if masked {
					args.Masks = put(d, masks)
				}
				want := make([]int32, n)
				for i := range want {
					best := -1
					for a := range width {
						if (!masked || masks[i*width+a] != 0) && (best < 0 || values[i*width+a] > values[i*width+best]) {
							best = a
						}
					}
					want[i] = int32(best)
				}
				d.launch("argmax", Loss(n), &args)
				d.result("actions", args.Actions, n)
				same(t, fmt.Sprint("actions ", n, width, masked), get[int32](d, args.Actions, n), want)
			}
		}
	}
}

// actionKind is what the actions of a batch are: branches, and numbers with Gaussians.
type actionKind struct {
	branches []int32
	size     int
}

func TestActorCritic(t *testing.T) {
	d := open(t)
	kinds := []actionKind{{branches: []int32{5}}, {branches: []int32{3, 1, 4}}, {size: 1}, {size: 7}, {branches: []int32{2, 3}, size: 2}}
	if sanitizer() == "" {
		kinds = append(kinds, actionKind{size: 150}) // more than the threads of a block
	}
	for _, n := range rowCounts() {
		for option := range 8 {
			clip, masked, largest := option&1 != 0, option&2 != 0, option&4 != 0
			for _, kind := range kinds {
				t.Run(fmt.Sprint(n, clip, masked, largest, kind), func(t *testing.T) {
					d.t = t
					testActorCritic(t, d, n, kind, clip, masked, largest, nil)
				})
			}
			if clip || largest {
				continue
			}
			for _, form := range []kernel.Regulariser{{Eps: 1e-6}, {Eps: 0.1}, {Max: true, Eps: 1e-6}, {Max: true, Eps: 0.1}} {
				for _, kind := range kinds {
					t.Run(fmt.Sprint(n, masked, kind, form), func(t *testing.T) {
						d.t = t
						testActorCritic(t, d, n, kind, false, masked, false, &form)
					})
				}
			}
		}
	}
}

// testActorCritic compares actor_critic_product with core/kernel, and, for one branch, actor_critic
// with actor_critic_product, bit for bit. form nil: without a regulariser.
func testActorCritic(t *testing.T, d *device, n int, kind actionKind, clip, masked, largest bool, form *kernel.Regulariser) {
	const entropyCoef, valueCoef = .02, .4
	r := rand.New(rand.NewPCG(uint64(n), 11))
	width, size, branches := 0, kind.size, len(kind.branches)
	for _, choices := range kind.branches {
		width += int(choices)
	}
	b := kernel.ActorCriticBatch{Logits: random(n*width, r), Values: random(n, r), Width: width, Branches: kind.branches,
		Means: random(n*size, r), LogStd: random(size, r), Continuous: random(n*size, r),
		Advantages: random(n, r), Returns: random(n, r), Weights: random(n, r)}
	for i := range b.Weights {
		b.Weights[i] = float32(math.Abs(float64(b.Weights[i])))
	}
	for i := range b.Logits {
		b.Logits[i] *= 6
	}
	if masked {
		b.Masks = make([]byte, n*width)
		for i := range b.Masks {
			b.Masks[i] = byte(r.IntN(2))
		}
	}
	for i := range n {
		at := i * width
		for _, choices := range kind.branches {
			a := r.IntN(int(choices))
			if b.Actions = append(b.Actions, int32(a)); masked {
				b.Masks[at+a] = 1
			}
			at += int(choices)
		}
	}
	args := ActorCriticArgs{Rows: int32(n), Width: int32(width), EntropyCoef: entropyCoef, ValueCoef: valueCoef,
		Logits: put(d, b.Logits), Values: put(d, b.Values), Actions: put(d, b.Actions), Advantages: put(d, b.Advantages), Returns: put(d, b.Returns), Weights: put(d, b.Weights)}
	if masked {
		args.Masks = put(d, b.Masks)
	}
	if form != nil {
		args.Regulariser, args.LogEps = RegulariserPlus, form.Eps
		if form.Max {
			args.Regulariser = RegulariserMax
		}
	}
	if clip {
		c := &kernel.ClipBatch{LogProbs: random(n, r), Ranges: random(n, r), Values: random(n, r), ValueRanges: random(n, r), Largest: largest}
		for i := range n {
			c.LogProbs[i] -= 1.5 * float32(branches+size)
			c.Ranges[i] = .1 + .1*float32(math.Abs(float64(c.Ranges[i])))
			if c.ValueRanges[i] = float32(math.Abs(float64(c.ValueRanges[i]))); i%5 == 0 {
				c.ValueRanges[i] = float32(math.Inf(1))
			}
		}
		b.Clip = c
		args.LogProbs, args.Clips, args.OldValues, args.ValueClips = put(d, c.LogProbs), put(d, c.Ranges), put(d, c.Values), put(d, c.ValueRanges)
		if largest {
			args.LargestError = 1
		}
	}
	g := kernel.ActorCriticGradients{Logits: make([]float32, n*width), Means: make([]float32, n*size), LogStd: make([]float32, size), Values: make([]float32, n)}
	want := kernel.ActorCritic(&g, &b, entropyCoef, valueCoef)
	if form != nil && width > 0 {
		form.Apply(&g, &b, entropyCoef, &want)
	}
	outputs := func() {
		args.DLogits, args.DValues, args.Sum = d.outputs(n*width), d.outputs(n), lossSum(d, n, LossTerms, entropyCoef, valueCoef)
	}
	outputs()
	product := ActorCriticProductArgs{Loss: args, BranchesCount: int32(branches), Size: int32(size), Branches: put(d, kind.branches),
		Means: put(d, b.Means), LogStd: put(d, b.LogStd), Continuous: put(d, b.Continuous),
		DMeans: d.outputs(n * size), DLogStd: d.outputs(size), LogStdParts: put(d, make([]float64, size*int(Loss(n).Grid[0])))}
	d.launch("actor_critic_product", Loss(n), &product)
	dlogits, dvalues := d.result("dlogits", args.DLogits, n*width), d.result("dvalues", args.DValues, n)
	near(t, "dlogits", dlogits, g.Logits, 1e-6)
	near(t, "dmeans", d.result("dmeans", product.DMeans, n*size), g.Means, 1e-6)
	near(t, "dlog_std", d.result("dlog_std", product.DLogStd, size), g.LogStd, 1e-6)
	near(t, "dvalues", dvalues, g.Values, 1e-6)
	got := get[float64](d, args.Sum.Loss, 1+LossTerms)
	for i, part := range []float64{want.Policy - entropyCoef*want.Entropy + valueCoef*want.Value, want.Policy, want.Value, want.Entropy, want.Divergence, want.Outside} {
		close64(t, fmt.Sprintf("part %d", i), got[i], part)
	}
	if branches != 1 || size != 0 {
		return
	}
	outputs()
	d.launch("actor_critic", Loss(n), &args)
	same(t, "dlogits of actor_critic", d.result("dlogits", args.DLogits, n*width), dlogits)
	same(t, "dvalues of actor_critic", d.result("dvalues", args.DValues, n), dvalues)
	same(t, "parts of actor_critic", get[float64](d, args.Sum.Loss, 1+LossTerms), got)
}

func TestNorm(t *testing.T) {
	d := open(t)
	all := []kernel.Norm{{Channels: 3, Positions: 1}, {Channels: 5, Positions: 6}}
	if sanitizer() != "thread" {
		all = append(all, kernel.Norm{Channels: 512, Positions: 1}, kernel.Norm{Channels: 33, Positions: 49}, kernel.Norm{Channels: 16, Positions: 81})
	}
	for _, c := range all {
		for _, n := range []int{1, 3, 70} {
			for kind := range 4 {
				if c.Planar, c.Eps, c.All, c.ReLU = true, 1e-5, kind&1 != 0, kind&2 != 0; sanitizer() == "thread" && n > 3 {
					continue
				}
				t.Run(fmt.Sprintf("%d,%d,%d,%v,%v", n, c.Channels, c.Positions, c.All, c.ReLU), func(t *testing.T) {
					d.t = t
					testNorm(t, d, n, c)
				})
			}
		}
	}
}

func testNorm(t *testing.T, d *device, n int, c kernel.Norm) {
	r := rand.New(rand.NewPCG(uint64(n), uint64(c.Channels)))
	size, params := n*c.RowLen(), c.ParamLen()
	x, dy, scale, bias := random(size, r), random(size, r), random(params, r), random(params, r)
	ws := make([]float32, c.Workspace(n, nil))
	y, statistics := make([]float32, size), make([]float32, 2*n*c.Groups())
	kernel.NormForward(nil, y, statistics, x, scale, bias, n, &c, ws)
	dscale, dbias, dx := make([]float32, params), make([]float32, params), make([]float32, size)
	kernel.NormBackward(nil, dscale, dbias, dx, statistics, x, y, dy, scale, n, &c, ws)

	form, kind := NormForm{n, c.Channels, c.Positions, c.All || c.Positions == 1}, "norm_positions_"
	if form.ByRow {
		kind = "norm_rows_"
	}
	args := NormArgs{Rows: int32(n), Channels: int32(c.Channels), Positions: int32(c.Positions), ReLU: map[bool]int32{true: 1}[c.ReLU], Eps: c.Eps,
		X: put(d, x), Scale: put(d, scale), Bias: put(d, bias), Y: d.outputs(size), Statistics: d.outputs(len(statistics)),
		DY: put(d, dy), DX: d.outputs(size), DScale: d.outputs(params), DBias: d.outputs(params)}
	d.launch(kind+"forward", form.Forward(), &args)
	near(t, "y", d.result("y", args.Y, size), y, 1e-5)
	near(t, "statistics", d.result("statistics", args.Statistics, len(statistics)), statistics, 1e-5)
	args.Y, args.Statistics = put(d, y), put(d, statistics) // the reference's, so that both mask the same gradients
	d.launch(kind+"input_gradient", form.Forward(), &args)
	near(t, "dx", d.result("dx", args.DX, size), dx, 1e-5)
	g, parts, partRows := form.ParameterGradient()
	if args.PartRows = int32(partRows); parts > 1 {
		args.Parts = d.outputs(parts * 2 * params)
	}
	d.launch(kind+"parameter_gradient", g, &args)
	if parts > 1 {
		d.launch("weight_gradient_sum", Elements(2*params), &WeightGradientSumArgs{Weights: int32(params), Biases: int32(params), PartsCount: int32(parts), Scale: 1, Parts: args.Parts, DW: args.DScale, DB: args.DBias})
	}
	near(t, "dscale", d.result("dscale", args.DScale, params), dscale, 1e-5)
	near(t, "dbias", d.result("dbias", args.DBias, params), dbias, 1e-5)
}
