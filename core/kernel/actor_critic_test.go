package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// actorCriticCase is one batch with its results.
type actorCriticCase struct {
	a                *arena
	b                ActorCriticBatch
	dlogits, dvalues []float32
	parts            ActorCriticParts
}

// acOptions say what a case has: masks, PPO's clipping, and ClipBatch.Largest.
type acOptions struct{ masks, clip, largest bool }

// acCase returns a batch in which about a third of the rows have weight 0. With clip, ratios and
// values lie well inside or well outside their ranges.
func acCase(r *rand.Rand, rows, width int, o acOptions) *actorCriticCase {
	a := newArena()
	c := &actorCriticCase{a: a, dlogits: a.out("dlogits", rows*width), dvalues: a.out("dvalues", rows), b: ActorCriticBatch{
		Logits: a.random("logits", rows*width, r), Values: a.random("values", rows, r), Width: width,
		Advantages: a.random("advantages", rows, r), Returns: a.random("returns", rows, r), Weights: a.out("weights", rows)}}
	for i := range c.b.Logits {
		c.b.Logits[i] *= 4
	}
	for i := range rows {
		c.b.Actions = append(c.b.Actions, int32(r.IntN(width)))
		c.b.Weights[i] = 1
		if i > 0 && r.IntN(3) == 0 {
			c.b.Weights[i] = 0
		}
	}
	if o.masks {
		c.b.Masks = make([]byte, rows*width)
		for k := range c.b.Masks {
			c.b.Masks[k] = byte(r.IntN(2))
			if c.b.Masks[k] == 0 {
				c.b.Logits[k] += 50 // would dominate if the mask were ignored
			}
		}
		for i, a := range c.b.Actions {
			if at := i*width + int(a); c.b.Masks[at] == 0 {
				c.b.Masks[at] = 7
				c.b.Logits[at] -= 50
			}
		}
	}
	if o.clip {
		k := &ClipBatch{LogProbs: a.out("log_probs", rows), Ranges: a.out("ranges", rows), Values: a.out("old_values", rows), ValueRanges: a.out("value_ranges", rows), Largest: o.largest}
		for i, action := range c.b.Actions {
			p, _ := c.b.probabilities(i)
			moves := []float32{-.5, -.05, 0, .05, .5}
			k.LogProbs[i] = float32(math.Log(p[action])) + moves[r.IntN(5)]
			k.Values[i] = c.b.Values[i] + moves[r.IntN(5)]
			c.b.Returns[i] = c.b.Values[i] + []float32{-1, 1}[r.IntN(2)]
			k.Ranges[i], k.ValueRanges[i] = .2, []float32{.2, float32(math.Inf(1))}[r.IntN(2)]
		}
		c.b.Clip = k
	}
	return c
}

// probabilities returns the probabilities of row i's actions and their entropy.
func (b *ActorCriticBatch) probabilities(i int) (p []float64, entropy float64) {
	p = make([]float64, b.Width)
	norm := 0.0
	for k := range p {
		if at := i*b.Width + k; b.Masks == nil || b.Masks[at] != 0 {
			p[k] = math.Exp(float64(b.Logits[at]))
		}
		norm += p[k]
	}
	for k := range p {
		if p[k] /= norm; p[k] > 0 {
			entropy -= p[k] * math.Log(p[k])
		}
	}
	return p, entropy
}

func (c *actorCriticCase) run(entropyCoef, valueCoef float32) {
	c.parts = ActorCritic(c.dlogits, c.dvalues, &c.b, entropyCoef, valueCoef)
}

// loss returns the loss by its definition, in float64.
func (b *ActorCriticBatch) loss(entropyCoef, valueCoef float64) (sum float64) {
	total := 0.0
	for i, a := range b.Actions {
		w := float64(b.Weights[i])
		total += w
		if w == 0 {
			continue
		}
		p, entropy := b.probabilities(i)
		advantage, err := float64(b.Advantages[i]), float64(b.Values[i])-float64(b.Returns[i])
		policy, squared := -advantage*math.Log(p[a]), err*err
		if k := b.Clip; k != nil {
			within := func(x, middle, distance float64) float64 { return max(middle-distance, min(middle+distance, x)) }
			ratio := math.Exp(math.Log(p[a]) - float64(k.LogProbs[i]))
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

// The loss matches its definition in float64, the gradients match finite differences, and every
// path gives the bits of the Go path.
func TestActorCriticMatchesItsDefinition(t *testing.T) {
	defer Use(ISA())
	r := rand.New(rand.NewPCG(41, 42))
	for _, rows := range []int{1, 2, 13, 40} {
		for _, width := range []int{1, 2, 3, 6, 18, 33} {
			for k, coef := range [][2]float32{{0, 0.5}, {0.01, 0.25}, {1, 1}, {0, 0.5}, {0.01, 0.25}, {1, 1}} {
				o := []acOptions{{}, {masks: true}, {clip: true}, {clip: true, largest: true}, {masks: true, clip: true}, {true, true, true}}[k]
				c := acCase(r, rows, width, o)
				entropyCoef, valueCoef := float64(coef[0]), float64(coef[1])
				want := c.b.loss(entropyCoef, valueCoef)
				slope := func(x *float32) float64 {
					const h = 1e-3
					was := *x
					*x = was + h
					hi, up := *x, c.b.loss(entropyCoef, valueCoef)
					*x = was - h
					lo, down := *x, c.b.loss(entropyCoef, valueCoef)
					*x = was
					return (up - down) / (float64(hi) - float64(lo))
				}
				var dlogits, dvalues []float64
				for i := range c.b.Logits {
					dlogits = append(dlogits, slope(&c.b.Logits[i]))
				}
				for i := range c.b.Values {
					dvalues = append(dvalues, slope(&c.b.Values[i]))
				}
				Use("go")
				c.run(coef[0], coef[1])
				plainLogits, plainValues, plainParts := slices.Clone(c.dlogits), slices.Clone(c.dvalues), c.parts
				eachISA(t, func(t *testing.T) {
					fill(c.dlogits, nan)
					fill(c.dvalues, nan)
					c.run(coef[0], coef[1])
					c.a.check(t)
					if got := c.parts.Policy - entropyCoef*c.parts.Entropy + valueCoef*c.parts.Value; math.Abs(got-want) > 1e-6*(1+math.Abs(want)) {
						t.Errorf("%d rows of %d: loss %v, want %v", rows, width, got, want)
					}
					for i, g := range c.dlogits {
						if math.Abs(float64(g)-dlogits[i]) > 1e-6 {
							t.Errorf("%d rows of %d: gradient of logit %d is %v, finite difference %v", rows, width, i, g, dlogits[i])
						}
					}
					for i, g := range c.dvalues {
						if math.Abs(float64(g)-dvalues[i]) > 1e-6 {
							t.Errorf("%d rows of %d: gradient of value %d is %v, finite difference %v", rows, width, i, g, dvalues[i])
						}
					}
					sameBits(t, "dlogits", c.dlogits, plainLogits)
					sameBits(t, "dvalues", c.dvalues, plainValues)
					if c.parts != plainParts {
						t.Errorf("%+v, the Go path's are %+v", c.parts, plainParts)
					}
				})
			}
		}
	}
}

// A batch gives the same bits with and without rows of weight 0, even if they hold NaN.
func TestActorCriticIgnoresRowsOfWeight0(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		const rows, width = 9, 5
		with := acCase(rand.New(rand.NewPCG(43, 44)), rows, width, acOptions{})
		without := acCase(rand.New(rand.NewPCG(43, 44)), rows, width, acOptions{})
		b := &without.b
		b.Logits, b.Values, b.Actions, b.Advantages, b.Returns, b.Weights = nil, nil, nil, nil, nil, nil
		var kept []int
		for i, w := range with.b.Weights {
			if w == 0 {
				fill(with.b.Logits[i*width:(i+1)*width], nan)
				with.b.Values[i], with.b.Advantages[i], with.b.Returns[i] = nan, nan, nan
				continue
			}
			kept = append(kept, i)
			b.Logits = append(b.Logits, with.b.Logits[i*width:(i+1)*width]...)
			b.Values, b.Actions = append(b.Values, with.b.Values[i]), append(b.Actions, with.b.Actions[i])
			b.Advantages, b.Returns = append(b.Advantages, with.b.Advantages[i]), append(b.Returns, with.b.Returns[i])
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
		for k, i := range kept {
			sameBits(t, "dlogits", with.dlogits[i*width:(i+1)*width], without.dlogits[k*width:(k+1)*width])
			sameBits(t, "dvalues", with.dvalues[i:i+1], without.dvalues[k:k+1])
			clear(with.dlogits[i*width : (i+1)*width])
			with.dvalues[i] = 0
		}
		for _, g := range append(slices.Clone(with.dlogits), with.dvalues...) {
			if g != 0 {
				t.Errorf("a row of weight 0 has gradient %v", g)
			}
		}
		clear(with.b.Weights)
		with.run(0.1, 0.5)
		if with.parts != (ActorCriticParts{}) || slices.ContainsFunc(with.dlogits, func(g float32) bool { return g != 0 }) {
			t.Errorf("all weights 0: %+v, %v", with.parts, with.dlogits)
		}
	})
}

// A NaN in a row of weight above 0 makes the loss NaN. An action of probability 0 adds nothing to
// the entropy.
func TestActorCriticPropagatesNaN(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		for place := range 10 {
			o := acOptions{clip: place >= 5}
			c := acCase(rand.New(rand.NewPCG(45, 46)), 4, 3, o)
			fill(c.b.Weights, 1)
			[]func(){
				func() { c.b.Logits[4] = nan },
				func() { c.b.Values[1] = nan },
				func() { c.b.Advantages[1] = nan },
				func() { c.b.Returns[1] = nan },
				func() { c.b.Weights[1] = nan },
				func() { c.b.Logits[4] = nan },
				func() { c.b.Values[1] = nan },
				func() { c.b.Advantages[1] = nan },
				func() { c.b.Clip.LogProbs[1] = nan },
				func() { c.b.Returns[1] = nan },
			}[place]()
			c.run(0.1, 0.5)
			if sum := c.parts.Policy + c.parts.Value + c.parts.Entropy; sum == sum {
				t.Errorf("case %d: %+v, want NaN", place, c.parts)
			}
		}
		c := acCase(rand.New(rand.NewPCG(47, 48)), 1, 3, acOptions{})
		copy(c.b.Logits, []float32{1, float32(math.Inf(-1)), 1})
		c.b.Actions[0] = 2
		c.run(0.1, 0.5)
		if math.Abs(c.parts.Entropy-math.Ln2) > 1e-6 || c.dlogits[1] != 0 || c.dlogits[0] != -c.dlogits[2] {
			t.Errorf("logits %v: entropy %v, gradient %v", c.b.Logits, c.parts.Entropy, c.dlogits)
		}
	})
}

// Divergence and Outside are means weighted by the rows' weights.
func TestDivergenceAndOutsideAreWeightedMeans(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		c := acCase(rand.New(rand.NewPCG(51, 52)), 200, 4, acOptions{masks: true, clip: true})
		c.run(0, 0)
		var divergence, outside, total float64
		for i, a := range c.b.Actions {
			w := float64(c.b.Weights[i])
			p, _ := c.b.probabilities(i)
			log := math.Log(p[a]) - float64(c.b.Clip.LogProbs[i])
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

// An action that its mask does not allow panics, unless its row has weight 0.
func TestActorCriticPanicsOnForbiddenAction(t *testing.T) {
	c := acCase(rand.New(rand.NewPCG(53, 54)), 3, 4, acOptions{masks: true})
	c.b.Masks[2*4+int(c.b.Actions[2])] = 0
	c.b.Weights[2] = 0
	c.run(0, 1) // a row of weight 0 may have any action
	c.b.Weights[2] = 1
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	c.run(0, 1)
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
