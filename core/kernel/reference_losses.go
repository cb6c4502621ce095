package kernel

import (
	"math"
	"slices"
)

// The plain Go counterpart of losses.h, operation by operation. An explicit float32 rounds every
// product before it is added, for the same bits on every path.

// The constants of losses.h.
const (
	log2E    = 0x1.715476p0
	ln2High  = 0x1.63p-1
	ln2Low   = -0x1.bd0106p-13
	expLeast = -0x1.5d589ep6
	expMost  = 0x1.62e42ep6

	rootHalfBits = 0x3F3504F3
	tanhNear     = 0.625
)

// The polynomials of losses.h, highest power first.
var (
	expPolynomial  = []float32{0x1.6a4f88p-10, 0x1.123988p-7, 0x1.5558aep-5, 0x1.555492p-3, 0x1.fffffcp-2}
	logPolynomial  = []float32{-0x1.38c9dep-4, 0x1.055ec6p-3, -0x1.0d8242p-3, 0x1.22d92ep-3, -0x1.54728ap-3, 0x1.99a01cp-3, -0x1.000226p-2, 0x1.555554p-2}
	tanhPolynomial = []float32{-0x1.750ce4p-8, 0x1.51f8cep-6, -0x1.b835a4p-5, 0x1.1106f6p-3, -0x1.555532p-2}
)

func polynomial(coefficients []float32, x float32) float32 {
	y := coefficients[0]
	for _, c := range coefficients[1:] {
		y = float32(y*x) + c
	}
	return y
}

var (
	inf32 = float32(math.Inf(1))
	nan32 = float32(math.NaN())
)

func exp32(x float32) float32 {
	switch {
	case x != x:
		return x
	case x < expLeast:
		return 0
	case x > expMost:
		return inf32
	}
	const whole = 0x1.8p23 // adding whole rounds to an integer
	t := float32(x*log2E) + whole
	n := t - whole
	r := (x - float32(n*ln2High)) - float32(n*ln2Low)
	p := (float32(float32(r*r)*polynomial(expPolynomial, r)) + r) + 1
	k := int32(n)
	half := k >> 1
	return float32(p*powerOfTwo(half)) * powerOfTwo(k-half)
}

// powerOfTwo returns 2 to the power of k, -126 to 127.
func powerOfTwo(k int32) float32 { return math.Float32frombits(uint32(k+127) << 23) }

func log32(x float32) float32 {
	b := math.Float32bits(x)
	switch {
	case x != x:
		return x
	case b&0x7F800000 == 0: // zero or denormal
		return -inf32
	case x < 0:
		return nan32
	case x == inf32:
		return x
	}
	fromRoot := b - rootHalfBits
	n := float32(int32(fromRoot) >> 23)
	f := math.Float32frombits(fromRoot&0x7FFFFF+rootHalfBits) - 1
	ff := float32(f * f)
	y := float32(float32(polynomial(logPolynomial, f)*f)*ff) + float32(n*ln2Low)
	y = f + (y - float32(0.5*ff))
	return y + float32(n*ln2High)
}

func tanh32(x float32) float32 {
	if x != x {
		return x
	}
	b := math.Float32bits(x)
	sign, a := b&0x80000000, math.Float32frombits(b&0x7FFFFFFF)
	if a < 0x1p-126 {
		a = 0
	}
	var y float32
	if a < tanhNear {
		aa := float32(a * a)
		y = float32(float32(polynomial(tanhPolynomial, aa)*aa)*a) + a
	} else {
		y = 1 - 2/(exp32(a+a)+1)
	}
	return math.Float32frombits(math.Float32bits(y) | sign)
}

func elementwise(f func(float32) float32) func(y, x []float32) {
	return func(y, x []float32) {
		for i, v := range x {
			y[i] = f(v)
		}
	}
}

func refTanhBackward(dx, y, dy []float32) {
	for i, g := range dy {
		dx[i] = g * (1 - float32(y[i]*y[i]))
	}
}

func refAdd(x, y []float32) {
	for i := range x {
		x[i] += y[i]
	}
}

// largest returns the largest number of a row, or its first NaN.
func largest(x []float32) float32 {
	best := x[0]
	for _, v := range x[1:] {
		if v > best || v != v {
			best = v
		}
	}
	return best
}

func refTDTargets(targets, next, rewards, discounts []float32, width int) {
	for i, r := range rewards {
		targets[i] = r + float32(discounts[i]*largest(next[i*width:(i+1)*width]))
	}
}

func refTDLoss(dq, q []float32, actions []int32, targets, weights []float32, width int, squared bool, order WeightOrder, weight float32) (sum float64) {
	clear(dq[:len(actions)*width])
	for i, a := range actions {
		at, w := i*width+int(a), float32(1)
		if weights != nil {
			w = weights[i]
		}
		if w == 0 {
			continue
		}
		d := q[at] - targets[i]
		var loss, slope float32
		switch order {
		case WeightGradient:
			_, slope = refLoss(float32(w*d), squared)
			loss = float32(0.5*d*d) * w
		case WeightError:
			loss, slope = refLoss(float32(w*d), squared)
			slope *= w
		default:
			loss, slope = refLoss(d, squared)
			slope *= w
			loss *= w
		}
		dq[at] = slope * weight
		sum += float64(loss)
	}
	return sum * float64(weight)
}

// refLoss returns the loss of one error and its derivative.
func refLoss(d float32, squared bool) (loss, slope float32) {
	switch {
	case squared:
		return d * d, 2 * d
	case d >= 1:
		return d - 0.5, 1
	case d <= -1:
		return -d - 0.5, -1
	}
	return 0.5 * d * d, d // also for NaN, which propagates
}

// exponentialsOfRow returns the largest x that mask allows, top, and the sum of e. It sets e[a] to
// exp(x[a] - top), or to 0 if mask does not allow a. A nil mask allows all.
func exponentialsOfRow(e, x []float32, mask []byte) (top, sum float32) {
	if mask == nil {
		top = largest(x)
	} else {
		first := slices.IndexFunc(mask, func(m byte) bool { return m != 0 })
		top = x[first]
		for a := first; a < len(x); a++ {
			if v := x[a]; mask[a] != 0 && (v > top || v != v) {
				top = v
			}
		}
	}
	var s float64
	for a, v := range x {
		if e[a] = 0; mask == nil || mask[a] != 0 {
			e[a] = exp32(v - top)
		}
		s += float64(e[a])
	}
	return top, float32(s)
}

func refLogSoftmax(y, x []float32, width int) {
	for ; len(x) > 0; x, y = x[width:], y[width:] {
		top, sum := exponentialsOfRow(y, x[:width], nil)
		logSum := log32(sum)
		for a, v := range x[:width] {
			y[a] = (v - top) - logSum
		}
	}
}

// The constants of losses.h for Gaussians.
const (
	logDensity0     = -0x1.d67f1cp-1       // -log sqrt(2 pi)
	gaussianEntropy = 0x1.6b3f8e4325f5ap+0 // of a standard deviation of 1
)

// gaussianLogProb returns the logarithm of a Gaussian's density, z standard deviations from its
// mean.
func gaussianLogProb(z, logStd float32) float32 {
	return (float32(-0.5*float32(z*z)) - logStd) + logDensity0
}

func refGaussianLogProbs(logProbs, means, logStd, x []float32) {
	for k, l := range logStd {
		inverse := exp32(-l)
		for i := range logProbs {
			at := i*len(logStd) + k
			logProbs[i] += gaussianLogProb(float32((x[at]-means[at])*inverse), l)
		}
	}
}

func refActorCritic(d *ActorCriticGradients, b *ActorCriticBatch, n int, entropyCoef, valueCoef float32) (parts ActorCriticParts) {
	var total, share, gaussians float64
	for _, w := range b.Weights[:n] {
		total += float64(w)
	}
	if total != 0 {
		share = 1 / total // of the mean, for a row of weight 1
	}
	size, branches := len(b.LogStd), b.branches()
	for k, l := range b.LogStd {
		d.inverse[k], d.logStdSum[k] = exp32(-l), 0
		gaussians += float64(l) + gaussianEntropy
	}
	for i := range n {
		logits, dlogits := b.Logits[i*b.Width:(i+1)*b.Width], d.Logits[i*b.Width:(i+1)*b.Width]
		dmeans := d.Means[i*size : (i+1)*size]
		d.Values[i] = 0
		weight := float64(b.Weights[i])
		if weight == 0 {
			clear(dlogits)
			clear(dmeans)
			continue
		}
		z := func(k int) float32 { return float32((b.Continuous[i*size+k] - b.Means[i*size+k]) * d.inverse[k]) }
		var logProb float32
		for branch, at := 0, 0; branch < branches; branch++ {
			choices := b.choices(branch)
			var mask []byte
			if b.Masks != nil {
				mask = b.Masks[i*b.Width+at:][:choices]
			}
			s := d.softmax[branch*softmaxNumbers:][:softmaxNumbers]
			s[0], s[1] = exponentialsOfRow(dlogits[at:at+choices], logits[at:at+choices], mask)
			s[2] = log32(s[1])
			logProb += (logits[at+int(b.Actions[i*branches+branch])] - s[0]) - s[2]
			at += choices
		}
		for k, l := range b.LogStd {
			logProb += gaussianLogProb(z(k), l)
		}
		rowShare, slope := float32(weight*share), b.Advantages[i]
		if b.Clip == nil {
			parts.Policy += float64(weight * float64(float64(slope)*-float64(logProb)))
		} else {
			slope = parts.clip(b.Clip, i, weight, slope, logProb)
		}
		h := 0.0
		for branch, at := 0, 0; branch < branches; branch++ {
			choices := b.choices(branch)
			h += branchGradient(dlogits[at:at+choices], logits[at:at+choices], d.softmax[branch*softmaxNumbers:],
				int(b.Actions[i*branches+branch]), slope, rowShare, entropyCoef)
			at += choices
		}
		for k := range dmeans {
			z := z(k)
			dmeans[k] = rowShare * float32(slope*-float32(z*d.inverse[k]))
			d.logStdSum[k] += float64(float32(rowShare * (float32(slope*(1-float32(z*z))) - entropyCoef)))
		}
		err, squared := refValueError(b, i)
		d.Values[i] = rowShare * float32(float32(2*valueCoef)*err)
		parts.Value += float64(weight * squared)
		parts.Entropy += float64(weight * (h + gaussians))
	}
	for k := range size {
		d.LogStd[k] = float32(d.logStdSum[k])
	}
	for _, mean := range []*float64{&parts.Policy, &parts.Value, &parts.Entropy, &parts.Divergence, &parts.Outside} {
		*mean *= share
	}
	return parts
}

// branchGradient overwrites d, the exponentials of a branch, with the gradient of its logits x. It
// returns the branch's entropy.
func branchGradient(d, x, softmax []float32, action int, slope, rowShare, entropyCoef float32) (h float64) {
	top, sum, logSum := softmax[0], softmax[1], softmax[2]
	of := func(a int) (p, logP float32) { return d[a] / sum, (x[a] - top) - logSum }
	for a := range x {
		if p, logP := of(a); p != 0 { // 0 log 0 is 0
			h -= float64(float64(p) * float64(logP))
		}
	}
	for a := range x {
		p, logP := of(a)
		var chosen, ofEntropy float32
		if a == action {
			chosen = 1
		}
		if p != 0 {
			ofEntropy = entropyCoef * float32(p*(logP+float32(h)))
		}
		d[a] = rowShare * (float32(slope*(p-chosen)) + ofEntropy)
	}
	return h
}

// clip adds row i to PPO's policy loss, the divergence and the share outside. It returns the slope
// of the loss with respect to -log(probability of the action).
func (parts *ActorCriticParts) clip(c *ClipBatch, i int, weight float64, advantage, logProb float32) (slope float32) {
	logRatio, within := logProb-c.LogProbs[i], c.Ranges[i]
	ratio := exp32(logRatio)
	inside := ratio
	if ratio > 1+within {
		inside = 1 + within
	} else if ratio < 1-within {
		inside = 1 - within
	}
	free, clipped := float32(advantage*ratio), float32(advantage*inside)
	loss := free
	if slope = free; clipped < free {
		loss, slope = clipped, 0
	}
	parts.Policy -= float64(weight * float64(loss))
	parts.Divergence += float64(weight * float64((ratio-1)-logRatio))
	if ratio-1 > within || 1-ratio > within {
		parts.Outside += weight
	}
	return slope
}

// refValueError returns row i's squared error of the value and half the derivative of the squared
// error.
func refValueError(b *ActorCriticBatch, i int) (slope float32, squared float64) {
	slope = b.Values[i] - b.Returns[i]
	squared = float64(slope) * float64(slope)
	c := b.Clip
	if c == nil {
		return slope, squared
	}
	old, within := c.Values[i], c.ValueRanges[i]
	var moved float32
	switch moves := b.Values[i] - old; {
	case moves > within:
		moved = old + within
	case moves < -within:
		moved = old - within
	default:
		return slope, squared
	}
	clipped := moved - b.Returns[i]
	if other := float64(clipped) * float64(clipped); !c.Largest || !(squared >= other) {
		return 0, other // the clipped value does not depend on the value
	}
	return slope, squared
}
