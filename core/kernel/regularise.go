package kernel

import "math"

// Regulariser keeps the logarithms of small probabilities finite, as GA3C does (Babaeizadeh et al.
// 2017, section 4.4), in the terms of each branch p of a policy:
//
//	        log p(a) becomes       H(p) becomes
//	plus    log(p(a) + Eps)        -sum of (p + Eps) log(p + Eps)    the paper's (5)
//	Max     log(max(p(a), Eps))    -sum of p log(max(p, Eps))        the authors' code
//
// With Max a probability below Eps has no gradient through its logarithm, as in TensorFlow.
type Regulariser struct {
	Max bool
	Eps float32 // above 0
}

// Apply overwrites the policy and the entropy in parts, and d.Logits, which ActorCritic computed
// for b without Clip, by those with the regulariser. The terms of the Gaussians stay exact. Only
// the first call with a d allocates.
func (r Regulariser) Apply(d *ActorCriticGradients, b *ActorCriticBatch, entropyCoef float32, parts *ActorCriticParts) {
	n, size, branches := b.rows(), len(b.LogStd), b.branches()
	if len(d.numbers) < 3*b.Width {
		d.numbers = make([]float32, 3*b.Width)
	}
	total, share, gaussians := 0.0, 0.0, 0.0
	for _, w := range b.Weights[:n] {
		total += float64(w)
	}
	if total != 0 {
		share = 1 / total
	}
	for _, l := range b.LogStd {
		gaussians += float64(l) + gaussianEntropy
	}
	parts.Policy, parts.Entropy = 0, 0
	for i := range n {
		weight := float64(b.Weights[i])
		if weight == 0 {
			continue
		}
		logProb := d.gaussian[:]
		logProb[0] = 0
		if size > 0 {
			GaussianLogProbs(logProb, b.Means[i*size:(i+1)*size], b.LogStd, b.Continuous[i*size:(i+1)*size])
		}
		rowShare, advantage, h := float32(weight*share), b.Advantages[i], gaussians
		for branch, at := 0, i*b.Width; branch < branches; branch++ {
			choices := b.choices(branch)
			var mask []byte
			if b.Masks != nil {
				mask = b.Masks[at : at+choices]
			}
			l, entropy := r.branch(d.numbers, d.Logits[at:at+choices], b.Logits[at:at+choices], mask, int(b.Actions[i*branches+branch]), advantage, rowShare, entropyCoef)
			logProb[0] += l
			h += entropy
			at += choices
		}
		parts.Policy += float64(weight * float64(float64(advantage)*-float64(logProb[0])))
		parts.Entropy += float64(weight * h)
	}
	parts.Policy *= share
	parts.Entropy *= share
}

// branch overwrites to with the gradient of a branch's logits x. It returns the logarithm of the
// action's probability, and the entropy. mask nil allows all.
func (r Regulariser) branch(numbers, to, x []float32, mask []byte, action int, advantage, rowShare, entropyCoef float32) (log float32, h float64) {
	n := len(x)
	p, logs, slopes := numbers[:n], numbers[n:2*n], numbers[2*n:3*n]
	allowed := func(a int) bool { return mask == nil || mask[a] != 0 }
	top := float32(math.Inf(-1))
	for a, v := range x {
		if allowed(a) {
			top = max(top, v)
		}
	}
	for a, v := range x {
		p[a] = v - top
	}
	Exp(p, p)
	sum := float32(0)
	for a := range p {
		if !allowed(a) {
			p[a] = 0
		}
		sum += p[a]
	}
	for a := range p {
		p[a] /= sum
		if r.Max {
			logs[a] = max(p[a], r.Eps)
		} else {
			logs[a] = p[a] + r.Eps
		}
	}
	Log(logs, logs)
	mean := float32(0) // of the slopes: softmax's gradient takes it away
	for a := range slopes {
		slopes[a] = 0
		if !allowed(a) {
			continue
		}
		slope := logs[a] // of -H; with plus, a further 1 of every choice cancels out
		of := p[a]
		switch {
		case !r.Max:
			of += r.Eps
		case p[a] >= r.Eps:
			slope++
		}
		h -= float64(float64(of) * float64(logs[a]))
		slopes[a] = float32(entropyCoef * slope)
		if a == action && (!r.Max || p[a] >= r.Eps) {
			slopes[a] -= advantage / of
		}
		mean += float32(p[a] * slopes[a])
	}
	for a := range to {
		to[a] = rowShare * float32(p[a]*(slopes[a]-mean))
	}
	return logs[action], h
}
