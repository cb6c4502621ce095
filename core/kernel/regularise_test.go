package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// naiveRegularised is the policy's part of the loss, the formulas in float64.
func naiveRegularised(r Regulariser, b *ActorCriticBatch, logits []float64, entropyCoef float64) (policy, entropy, loss float64) {
	total, eps := 0.0, float64(r.Eps)
	for _, w := range b.Weights {
		total += float64(w)
	}
	branches, size := b.branches(), len(b.LogStd)
	for i, w := range b.Weights {
		if w == 0 {
			continue
		}
		logProb, h, at := 0.0, 0.0, i*b.Width
		for branch := range branches {
			choices := b.choices(branch)
			sum := 0.0
			for a := at; a < at+choices; a++ {
				if b.Masks == nil || b.Masks[a] != 0 {
					sum += math.Exp(logits[a])
				}
			}
			for a := at; a < at+choices; a++ {
				if b.Masks != nil && b.Masks[a] == 0 {
					continue
				}
				p := math.Exp(logits[a]) / sum
				of, log := p+eps, math.Log(p+eps)
				if r.Max {
					of, log = p, math.Log(math.Max(p, eps))
				}
				h -= float64(of * log)
				if a-at == int(b.Actions[i*branches+branch]) {
					logProb += log
				}
			}
			at += choices
		}
		for k, l := range b.LogStd {
			z := float64(b.Continuous[i*size+k]-b.Means[i*size+k]) / math.Exp(float64(l))
			logProb += -float64(z*z)/2 - float64(l) - math.Log(2*math.Pi)/2
			h += float64(l) + math.Log(2*math.Pi*math.E)/2
		}
		policy -= float64(float64(w)*float64(b.Advantages[i])) * logProb / total
		entropy += float64(w) * h / total
	}
	return policy, entropy, policy - float64(entropyCoef*entropy)
}

// The loss is that of the formulas, and the gradient that of their differences.
func TestRegulariser(t *testing.T) {
	const entropyCoef = 0.3
	below := 0
	for seed := range 200 {
		r := rand.New(rand.NewPCG(9, uint64(seed)))
		o := acOptions{masks: seed%3 == 0}
		if seed%4 == 1 {
			o.branches, o.size = []int32{3, 1, 4}, 2
		}
		c := acCase(r, 1+r.IntN(5), 1+r.IntN(6), o)
		reg := Regulariser{Max: seed%2 == 0, Eps: []float32{1e-6, 0.02, 0.3}[r.IntN(3)]}
		b := &c.b
		parts := ActorCritic(&c.d, b, entropyCoef, 0.5)
		value := parts.Value
		reg.Apply(&c.d, b, entropyCoef, &parts)
		x := make([]float64, len(b.Logits))
		for k, v := range b.Logits {
			x[k] = float64(v)
		}
		policy, entropy, _ := naiveRegularised(reg, b, x, entropyCoef)
		near := func(what string, got, want, within float64) {
			if math.Abs(got-want) > within*math.Max(1, math.Abs(want)) {
				t.Errorf("seed %d, %+v, %s: %v, want %v", seed, reg, what, got, want)
			}
		}
		near("policy", parts.Policy, policy, 1e-5)
		near("entropy", parts.Entropy, entropy, 1e-5)
		near("value", parts.Value, value, 0)
		for k := range x {
			const step = 1e-5
			at := x[k]
			x[k] = at + step
			_, _, above := naiveRegularised(reg, b, x, entropyCoef)
			x[k] = at - step
			_, _, under := naiveRegularised(reg, b, x, entropyCoef)
			x[k] = at
			near(fmt.Sprint("gradient ", k), float64(c.d.Logits[k]), (above-under)/(2*step), 2e-4)
			if b.Weights[k/b.Width] == 0 && c.d.Logits[k] != 0 {
				t.Errorf("seed %d: a row of weight 0 has the gradient %v", seed, c.d.Logits[k])
			}
		}
		for i := range b.Weights {
			if b.branches() == 1 && b.Weights[i] != 0 && reg.Max && b.Masks == nil {
				p := make([]float32, b.Width)
				LogSoftmax(p, b.Logits[i*b.Width:(i+1)*b.Width], b.Width)
				if math.Exp(float64(p[b.Actions[i]])) < float64(reg.Eps) {
					below++
				}
			}
		}
		if n := testing.AllocsPerRun(3, func() { reg.Apply(&c.d, b, entropyCoef, &parts) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
	if below < 20 {
		t.Errorf("%d actions had a probability below eps: the test shows nothing", below)
	}
}
