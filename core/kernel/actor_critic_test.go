package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// actorCriticCase is one batch with its results.
type actorCriticCase struct {
	a     *arena
	b     ActorCriticBatch
	d     ActorCriticGradients
	parts ActorCriticParts
}

// acOptions say what a case has: masks, PPO's clipping, ClipBatch.Largest, and which actions.
type acOptions struct {
	masks, clip, largest bool
	branches             []int32 // nil: one branch, of the width of the case
	size                 int     // Gaussians
}

// acCase returns a batch in which about a third of the rows have weight 0. With clip, ratios and
// values lie well inside or well outside their ranges.
func acCase(r *rand.Rand, rows, width int, o acOptions) *actorCriticCase {
	if o.branches != nil {
		width = 0
		for _, choices := range o.branches {
			width += int(choices)
		}
	}
	a := newArena()
	c := &actorCriticCase{a: a, d: ActorCriticGradients{Logits: a.out("dlogits", rows*width), Means: a.out("dmeans", rows*o.size), LogStd: a.out("dlog_std", o.size), Values: a.out("dvalues", rows)},
		b: ActorCriticBatch{
			Logits: a.random("logits", rows*width, r), Values: a.random("values", rows, r), Width: width, Branches: o.branches,
			Means: a.random("means", rows*o.size, r), LogStd: a.random("log_std", o.size, r), Continuous: a.random("continuous", rows*o.size, r),
			Advantages: a.random("advantages", rows, r), Returns: a.random("returns", rows, r), Weights: a.out("weights", rows)}}
	b := &c.b
	for i := range b.Logits {
		b.Logits[i] *= 4
	}
	for i := range rows {
		for branch := range b.branches() {
			b.Actions = append(b.Actions, int32(r.IntN(b.choices(branch))))
		}
		b.Weights[i] = 1
		if i > 0 && r.IntN(3) == 0 {
			b.Weights[i] = 0
		}
	}
	if o.masks {
		b.Masks = make([]byte, rows*width)
		for k := range b.Masks {
			b.Masks[k] = byte(r.IntN(2))
			if b.Masks[k] == 0 {
				b.Logits[k] += 50 // would dominate if the mask were ignored
			}
		}
		for i := range rows {
			for _, at := range b.chosen(i) {
				if b.Masks[at] == 0 {
					b.Masks[at] = 7
					b.Logits[at] -= 50
				}
			}
		}
	}
	if o.clip {
		k := &ClipBatch{LogProbs: a.out("log_probs", rows), Ranges: a.out("ranges", rows), Values: a.out("old_values", rows), ValueRanges: a.out("value_ranges", rows), Largest: o.largest}
		for i := range rows {
			logProb, _ := b.logProb(i)
			moves := []float32{-.5, -.05, 0, .05, .5}
			k.LogProbs[i] = float32(logProb) + moves[r.IntN(5)]
			k.Values[i] = b.Values[i] + moves[r.IntN(5)]
			b.Returns[i] = b.Values[i] + []float32{-1, 1}[r.IntN(2)]
			k.Ranges[i], k.ValueRanges[i] = .2, []float32{.2, float32(math.Inf(1))}[r.IntN(2)]
		}
		b.Clip = k
	}
	return c
}

// chosen returns the places of the chosen logits of row i.
func (b *ActorCriticBatch) chosen(i int) (places []int) {
	at := i * b.Width
	for branch := range b.branches() {
		places = append(places, at+int(b.Actions[i*b.branches()+branch]))
		at += b.choices(branch)
	}
	return places
}

// logProb returns the log-probability of row i's action and the entropy of its distribution, by
// their definitions in float64.
func (b *ActorCriticBatch) logProb(i int) (logProb, entropy float64) {
	at := i * b.Width
	for branch, chosen := range b.chosen(i) {
		norm := 0.0
		for k := at; k < at+b.choices(branch); k++ {
			if b.Masks == nil || b.Masks[k] != 0 {
				norm += math.Exp(float64(b.Logits[k]))
			}
		}
		for k := at; k < at+b.choices(branch); k++ {
			if p := math.Exp(float64(b.Logits[k])) / norm; p > 0 && (b.Masks == nil || b.Masks[k] != 0) {
				entropy -= p * math.Log(p)
			}
		}
		logProb += float64(b.Logits[chosen]) - math.Log(norm)
		at += b.choices(branch)
	}
	for k, logStd := range b.LogStd {
		std := math.Exp(float64(logStd))
		z := (float64(b.Continuous[i*len(b.LogStd)+k]) - float64(b.Means[i*len(b.LogStd)+k])) / std
		logProb += math.Log(math.Exp(-z*z/2) / (std * math.Sqrt(2*math.Pi)))
		entropy += math.Log(2*math.Pi*math.E*std*std) / 2
	}
	return logProb, entropy
}

func (c *actorCriticCase) run(entropyCoef, valueCoef float32) {
	c.parts = ActorCritic(&c.d, &c.b, entropyCoef, valueCoef)
}

// gradients returns the gradients by name.
func (c *actorCriticCase) gradients() map[string][]float32 {
	return map[string][]float32{"logits": c.d.Logits, "means": c.d.Means, "log_std": c.d.LogStd, "values": c.d.Values}
}

// inputs returns what the gradients are for, by name.
func (c *actorCriticCase) inputs() map[string][]float32 {
	return map[string][]float32{"logits": c.b.Logits, "means": c.b.Means, "log_std": c.b.LogStd, "values": c.b.Values}
}

// loss returns the loss by its definition, in float64.
func (b *ActorCriticBatch) loss(entropyCoef, valueCoef float64) (sum float64) {
	total := 0.0
	for i := range b.rows() {
		w := float64(b.Weights[i])
		total += w
		if w == 0 {
			continue
		}
		logProb, entropy := b.logProb(i)
		advantage, err := float64(b.Advantages[i]), float64(b.Values[i])-float64(b.Returns[i])
		policy, squared := -advantage*logProb, err*err
		if k := b.Clip; k != nil {
			within := func(x, middle, distance float64) float64 { return max(middle-distance, min(middle+distance, x)) }
			ratio := math.Exp(logProb - float64(k.LogProbs[i]))
			policy = -min(ratio*advantage, within(ratio, 1, float64(k.Ranges[i]))*advantage)
			moved := within(float64(b.Values[i]), float64(k.Values[i]), float64(k.ValueRanges[i])) - float64(b.Returns[i])
			if moved *= moved; !k.Largest || moved > squared {
				squared = moved
			}
		}
		sum += w * (policy - entropyCoef*entropy + valueCoef*squared)
	}
	return sum / total
}

// slope returns the derivative of loss with respect to x, by differences of two step sizes.
func (b *ActorCriticBatch) slope(x *float32, entropyCoef, valueCoef float64) float64 {
	was := *x
	difference := func(h float32) float64 {
		*x = was + h
		hi, up := *x, b.loss(entropyCoef, valueCoef)
		*x = was - h
		lo, down := *x, b.loss(entropyCoef, valueCoef)
		*x = was
		return (up - down) / (float64(hi) - float64(lo))
	}
	const h = 1e-3
	return (4*difference(h) - difference(2*h)) / 3
}

// everyKind are actions of every kind.
var everyKind = []acOptions{{branches: []int32{3, 1, 4, 2}}, {branches: []int32{19, 2}}, {branches: []int32{}, size: 1}, {branches: []int32{}, size: 3}, {branches: []int32{}, size: 17}, {branches: []int32{5}, size: 2}, {branches: []int32{2, 6}, size: 3}}

// The loss matches its definition in float64, the gradients match finite differences, and every
// path gives the same bits as the Go path.
func TestActorCriticMatchesItsDefinition(t *testing.T) {
	defer Use(ISA())
	r := rand.New(rand.NewPCG(41, 42))
	kinds := everyKind
	for _, width := range []int{1, 2, 3, 6, 18, 33} {
		kinds = append(kinds, acOptions{branches: []int32{int32(width)}})
	}
	for _, rows := range []int{13, 1, 2, 40} {
		if testing.Short() && rows != 13 {
			continue
		}
		for _, kind := range kinds {
			for k, coef := range [][2]float32{{0, 0.5}, {0.01, 0.25}, {1, 1}, {0, 0.5}, {0.01, 0.25}, {1, 1}} {
				o := []acOptions{{}, {masks: true}, {clip: true}, {clip: true, largest: true}, {masks: true, clip: true}, {masks: true, clip: true, largest: true}}[k]
				o.branches, o.size = kind.branches, kind.size
				c := acCase(r, rows, 0, o)
				entropyCoef, valueCoef := float64(coef[0]), float64(coef[1])
				want, slopes := c.b.loss(entropyCoef, valueCoef), map[string][]float64{}
				for name, x := range c.inputs() {
					for i := range x {
						slopes[name] = append(slopes[name], c.b.slope(&x[i], entropyCoef, valueCoef))
					}
				}
				Use("go")
				c.run(coef[0], coef[1])
				plain, plainParts := map[string][]float32{}, c.parts
				for name, d := range c.gradients() {
					plain[name] = slices.Clone(d)
				}
				eachISA(t, func(t *testing.T) {
					for _, d := range c.gradients() {
						if len(d) > 0 {
							fill(d, nan)
						}
					}
					c.run(coef[0], coef[1])
					c.a.check(t)
					if got := c.parts.Policy - entropyCoef*c.parts.Entropy + valueCoef*c.parts.Value; math.Abs(got-want) > 1e-6*(1+math.Abs(want)) {
						t.Errorf("%d rows, %+v: loss %v, want %v", rows, o, got, want)
					}
					within := 1e-6 * (1 + float64(o.size)/2) // the log-probability of many Gaussians is large, and so is its rounding
					for name, d := range c.gradients() {
						for i, g := range d {
							if math.Abs(float64(g)-slopes[name][i]) > within*(1+math.Abs(slopes[name][i])) {
								t.Errorf("%d rows, %+v: gradient of %s[%d] is %v, finite difference %v", rows, o, name, i, g, slopes[name][i])
							}
						}
						sameBits(t, "gradient of "+name, d, plain[name])
					}
					if c.parts != plainParts {
						t.Errorf("%+v, the Go path's are %+v", c.parts, plainParts)
					}
				})
			}
		}
	}
}

// Branches of one number give the same bits as Branches nil.
func TestOneBranchIsTheWidth(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		for _, o := range []acOptions{{masks: true}, {masks: true, clip: true}} {
			plain := acCase(rand.New(rand.NewPCG(61, 62)), 9, 5, o)
			o.branches = []int32{5}
			branched := acCase(rand.New(rand.NewPCG(61, 62)), 9, 0, o)
			if plain.b.Branches != nil {
				t.Fatal("both have branches: the test shows nothing")
			}
			plain.run(0.1, 0.5)
			branched.run(0.1, 0.5)
			if plain.parts != branched.parts {
				t.Errorf("%+v without branches, %+v with one", plain.parts, branched.parts)
			}
			sameBits(t, "dlogits", branched.d.Logits, plain.d.Logits)
			sameBits(t, "dvalues", branched.d.Values, plain.d.Values)
		}
	})
}

// LogSoftmax of each branch and GaussianLogProbs, added in order, are the log-probabilities of the
// loss, bit for bit: the policy that acted has the divergence 0 and the gradients of the plain
// loss.
func TestLogProbsOfTheActingPolicy(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		for _, o := range everyKind {
			const rows = 30
			c := acCase(rand.New(rand.NewPCG(63, 64)), rows, 0, o)
			logProbs := make([]float32, rows)
			for i := range rows {
				at := i * c.b.Width
				for branch, chosen := range c.b.chosen(i) {
					choices := c.b.choices(branch)
					logs := make([]float32, choices)
					LogSoftmax(logs, c.b.Logits[at:at+choices], choices)
					logProbs[i] += logs[chosen-at]
					at += choices
				}
			}
			GaussianLogProbs(logProbs, c.b.Means, c.b.LogStd, c.b.Continuous)
			for i, got := range logProbs {
				if want, _ := c.b.logProb(i); math.Abs(float64(got)-want) > 1e-6*(1+math.Abs(want)) {
					t.Errorf("%+v: log-probability %d: %v, want %v", o, i, got, want)
				}
			}
			c.run(0.1, 0.5)
			want := map[string][]float32{}
			for name, d := range c.gradients() {
				want[name] = slices.Clone(d)
			}
			c.b.Clip = &ClipBatch{LogProbs: logProbs, Ranges: slices.Repeat([]float32{.2}, rows), Values: c.b.Values, ValueRanges: slices.Repeat([]float32{1}, rows)}
			c.run(0.1, 0.5)
			if c.parts.Divergence != 0 || c.parts.Outside != 0 {
				t.Errorf("%+v: %+v, want no divergence", o, c.parts)
			}
			for name, d := range c.gradients() {
				sameBits(t, "gradient of "+name, d, want[name])
			}
		}
	})
}

// A batch gives the same bits with and without rows of weight 0, even if they hold NaN.
func TestActorCriticIgnoresRowsOfWeight0(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		const rows = 9
		o := acOptions{branches: []int32{3, 2}, size: 4}
		with := acCase(rand.New(rand.NewPCG(43, 44)), rows, 0, o)
		without := acCase(rand.New(rand.NewPCG(43, 44)), rows, 0, o)
		of, b := &with.b, &without.b
		b.Logits, b.Means, b.Values, b.Actions, b.Continuous, b.Advantages, b.Returns, b.Weights = nil, nil, nil, nil, nil, nil, nil, nil
		var kept []int
		for i, w := range of.Weights {
			logits, means, continuous := of.Logits[i*5:(i+1)*5], of.Means[i*4:(i+1)*4], of.Continuous[i*4:(i+1)*4]
			if w == 0 {
				fill(logits, nan)
				fill(means, nan)
				fill(continuous, nan)
				of.Values[i], of.Advantages[i], of.Returns[i] = nan, nan, nan
				continue
			}
			kept = append(kept, i)
			b.Logits, b.Means, b.Continuous = append(b.Logits, logits...), append(b.Means, means...), append(b.Continuous, continuous...)
			b.Values, b.Actions = append(b.Values, of.Values[i]), append(b.Actions, of.Actions[i*2:(i+1)*2]...)
			b.Advantages, b.Returns = append(b.Advantages, of.Advantages[i]), append(b.Returns, of.Returns[i])
			b.Weights = append(b.Weights, 1)
		}
		if len(kept) == rows || len(kept) < 3 {
			t.Fatalf("%d rows of %d kept: the test shows little", len(kept), rows)
		}
		with.run(0.1, 0.5)
		without.run(0.1, 0.5)
		if with.parts != without.parts {
			t.Errorf("%+v with rows of weight 0, %+v without", with.parts, without.parts)
		}
		sameBits(t, "dlog_std", with.d.LogStd, without.d.LogStd)
		for k, i := range kept {
			for _, c := range []struct {
				name      string
				got, want []float32
				width     int
			}{{"dlogits", with.d.Logits, without.d.Logits, 5}, {"dmeans", with.d.Means, without.d.Means, 4}, {"dvalues", with.d.Values, without.d.Values, 1}} {
				row := c.got[i*c.width : (i+1)*c.width]
				sameBits(t, c.name, row, c.want[k*c.width:(k+1)*c.width])
				clear(row)
			}
		}
		for _, g := range slices.Concat(with.d.Logits, with.d.Means, with.d.Values) {
			if g != 0 {
				t.Errorf("a row of weight 0 has gradient %v", g)
			}
		}
		clear(with.b.Weights)
		with.run(0.1, 0.5)
		all := slices.Concat(with.d.Logits, with.d.Means, with.d.LogStd, with.d.Values)
		if with.parts != (ActorCriticParts{}) || slices.ContainsFunc(all, func(g float32) bool { return g != 0 }) {
			t.Errorf("all weights 0: %+v, %v", with.parts, all)
		}
	})
}

// A NaN in a row of weight above 0 makes the loss NaN. An action of probability 0 adds nothing to
// the entropy.
func TestActorCriticPropagatesNaN(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		for _, clip := range []bool{false, true} {
			for place, spoil := range []func(b *ActorCriticBatch){
				func(b *ActorCriticBatch) { b.Logits[6] = nan },
				func(b *ActorCriticBatch) { b.Means[2] = nan },
				func(b *ActorCriticBatch) { b.LogStd[1] = nan },
				func(b *ActorCriticBatch) { b.Continuous[3] = nan },
				func(b *ActorCriticBatch) { b.Values[1] = nan },
				func(b *ActorCriticBatch) { b.Advantages[1] = nan },
				func(b *ActorCriticBatch) { b.Returns[1] = nan },
				func(b *ActorCriticBatch) { b.Weights[1] = nan },
				func(b *ActorCriticBatch) { b.Clip.LogProbs[1] = nan },
			} {
				if place == 8 && !clip {
					continue
				}
				c := acCase(rand.New(rand.NewPCG(45, 46)), 4, 0, acOptions{clip: clip, branches: []int32{3, 2}, size: 2})
				fill(c.b.Weights, 1)
				spoil(&c.b)
				c.run(0.1, 0.5)
				if sum := c.parts.Policy + c.parts.Value + c.parts.Entropy; sum == sum {
					t.Errorf("case %d, clip %v: %+v, want NaN", place, clip, c.parts)
				}
			}
		}
		c := acCase(rand.New(rand.NewPCG(47, 48)), 1, 3, acOptions{})
		copy(c.b.Logits, []float32{1, float32(math.Inf(-1)), 1})
		c.b.Actions[0] = 2
		c.run(0.1, 0.5)
		if d := c.d.Logits; math.Abs(c.parts.Entropy-math.Ln2) > 1e-6 || d[1] != 0 || d[0] != -d[2] {
			t.Errorf("logits %v: entropy %v, gradient %v", c.b.Logits, c.parts.Entropy, d)
		}
	})
}

// Divergence and Outside are means weighted by the rows' weights.
func TestDivergenceAndOutsideAreWeightedMeans(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		c := acCase(rand.New(rand.NewPCG(51, 52)), 200, 4, acOptions{masks: true, clip: true})
		c.run(0, 0)
		var divergence, outside, total float64
		for i := range c.b.rows() {
			w := float64(c.b.Weights[i])
			logProb, _ := c.b.logProb(i)
			log := logProb - float64(c.b.Clip.LogProbs[i])
			divergence += w * (math.Exp(log) - 1 - log)
			if math.Abs(math.Exp(log)-1) > .2 {
				outside += w
			}
			total += w
		}
		if got, want := c.parts.Divergence, divergence/total; math.Abs(got-want) > 1e-6 || want < .01 {
			t.Errorf("divergence %v, want %v", got, want)
		}
		if got, want := c.parts.Outside, outside/total; math.Abs(got-want) > 1e-12 || want == 0 || want == 1 {
			t.Errorf("share outside %v, want %v", got, want)
		}
	})
}

// An action that its mask does not allow, in any branch, panics, unless its row has weight 0.
func TestActorCriticPanicsOnForbiddenAction(t *testing.T) {
	for _, branches := range [][]int32{nil, {2, 4}} {
		for branch := range max(1, len(branches)) {
			c := acCase(rand.New(rand.NewPCG(53, 54)), 3, 4, acOptions{masks: true, branches: branches})
			c.b.Masks[c.b.chosen(2)[branch]] = 0
			c.b.Weights[2] = 0
			c.run(0, 1) // a row of weight 0 may have any action
			c.b.Weights[2] = 1
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("branches %v: no panic", branches)
					}
				}()
				c.run(0, 1)
			}()
		}
	}
}

func TestLogSoftmaxMatchesFloat64(t *testing.T) {
	defer Use(ISA())
	r := rand.New(rand.NewPCG(49, 50))
	for _, width := range []int{1, 2, 6, 17, 40} {
		const rows = 7
		a := newArena()
		x, y := a.random("x", rows*width, r), a.out("y", rows*width)
		for i := range x {
			x[i] *= 30
		}
		Use("go")
		LogSoftmax(y, x, width)
		plain := slices.Clone(y)
		eachISA(t, func(t *testing.T) {
			fill(y, nan)
			LogSoftmax(y, x, width)
			a.check(t)
			sameBits(t, "log softmax", y, plain)
			for i := range rows {
				top, sum := float64(slices.Max(x[i*width:(i+1)*width])), 0.0
				for _, v := range x[i*width : (i+1)*width] {
					sum += math.Exp(float64(v) - top)
				}
				for k := range width {
					want := float64(x[i*width+k]) - top - math.Log(sum)
					if got := float64(y[i*width+k]); math.Abs(got-want) > 3e-7*(1+math.Abs(want)) {
						t.Errorf("row %d of %d, %d: %v, want %v", i, width, k, got, want)
					}
				}
			}
		})
	}
}
