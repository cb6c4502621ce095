package kernel

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/paceline-rl/paceline/core/cpu"
)

// Precision is the type of the factors in a layer's products. Sums, weights, gradients and
// everything outside the products are float32 in both precisions.
type Precision int

const (
	FP32 Precision = iota
	// BF16 rounds both factors of every product to bfloat16 (8 significant bits). The paths
	// "avx512bf16" and "amx" have instructions for it. "amx" and "go" compute direct convolutions,
	// the other C paths Winograd's.
	BF16
)

// table is one path: an implementation of every function below, called with checked arguments.
type table struct {
	name       string
	layers     [2]layers // by Precision
	rmsProp    func(t *Team, theta, grad []float32, factor float32, avg, sq []float32, lr float32, decay float64, eps float32, centered, epsInside bool)
	adam       func(t *Team, theta, grad []float32, factor float32, m, v []float32, lr float32, beta1, beta2 float64, eps float32, step int64)
	rAdam      func(t *Team, theta, grad []float32, factor float32, m, v []float32, size float32, beta1, beta2 float64, eps float32, rectified bool)
	adaGrad    func(t *Team, theta, grad []float32, factor float32, sq []float32, lr, eps float32)
	sumSquares func(t *Team, x []float32) float64
	average    func(t *Team, x, y []float32, weight float64)

	normForward  func(t *Team, y, statistics, x, scale, bias []float32, n int, c *Norm, ws []float32)
	normBackward func(t *Team, dscale, dbias, dx, statistics, x, y, dy, scale []float32, n int, c *Norm, ws []float32)
	add          func(x, y []float32)
	exp          func(y, x []float32)
	log          func(y, x []float32)
	tanh         func(y, x []float32)
	tanhBackward func(dx, y, dy []float32)
	tdTargets    func(targets, next, rewards, discounts []float32, width int)
	tdLoss       func(dq, q []float32, actions []int32, targets, weights []float32, width int, squared bool, order WeightOrder, weight float32) float64
	logSoftmax   func(y, x []float32, width int)
	actorCritic  func(d *ActorCriticGradients, b *ActorCriticBatch, n int, entropyCoef, valueCoef float32) ActorCriticParts

	gaussianLogProbs func(logProbs, means, logStd, x []float32)
	categoricalMeans func(means, logits []float32, s Support)
	project          func(targets, logits []float32, actions []int32, rewards, discounts []float32, width int, s Support)
	categoricalLoss  func(dx, perRow []float32, b *DistributionBatch, least float32, divergence bool, weight float32) float64
	quantileLoss     func(dx, perRow []float32, b *DistributionBatch, kappa, weight float32) float64
	modulate         func(t *Team, y, x, by []float32, n, times, width int)
	modulateBackward func(t *Team, dby, dx, x, by, dy []float32, n, times, width int)
}

type layers struct {
	convPack      func(t *Team, packed, w []float32, scale float32, c *Conv, ws []float32)
	convPackBack  func(t *Team, packed, w []float32, c *Conv, ws []float32)
	convForward   func(t *Team, y, x []float32, x8 []uint8, packed, b []float32, n int, c *Conv, ws []float32)
	convBackward  func(t *Team, dw, db, dx, x []float32, x8 []uint8, scale float32, packed, y, dy []float32, n int, c *Conv, ws []float32)
	densePack     func(t *Team, packed, w []float32, d Dense)
	denseForward  func(t *Team, y, x, w []float32, packed bool, b []float32, n int, d Dense, ws []float32)
	denseBackward func(t *Team, dw, db, dx, x, w, y, dy []float32, n int, d Dense, ws []float32)
	peak          func(rounds int) (flop float64)
	direct        bool // direct convolutions, not Winograd's
}

var (
	tables   = runnable(append(withPortable(nativeTables()), &reference)) // best first
	current  atomic.Pointer[table]
	portable *table // nil in a build without C
)

// withPortable appends the path "portable" to the C paths. It has the layers of generic, which is
// the last C path, and the other functions of the best path, whose bits are the same on all paths.
func withPortable(native []*table) []*table {
	if len(native) == 0 {
		return native
	}
	mixed := *runnable(slices.Clone(native))[0]
	mixed.name, mixed.layers = cpu.Portable, native[len(native)-1].layers
	portable = &mixed
	return append(native, portable)
}

// HasPortable reports whether layers can be Portable in this build.
func HasPortable() bool { return portable != nil }

// layersOf returns the functions for a layer. Where Linux refuses the tiles of "amx", "avx512bf16"
// takes their place.
func layersOf(p Precision, isPortable bool) *layers {
	if isPortable {
		if portable == nil {
			panic("kernel: a portable layer, in a build without C")
		}
		return &portable.layers[p]
	}
	t := current.Load()
	if t.name == cpu.AMX && p == BF16 && !cpu.AllowTiles() {
		t = tables[slices.IndexFunc(tables, func(t *table) bool { return t.name == cpu.AVX512BF16 })]
	}
	return &t.layers[p]
}

func init() {
	if err := Use(cpu.Chosen()); err != nil {
		panic("kernel: " + err.Error()) // core/cpu names a path that is not compiled
	}
}

// runnable removes the paths that this machine cannot run.
func runnable(all []*table) []*table {
	paths := cpu.Paths()
	return slices.DeleteFunc(all, func(t *table) bool { return !slices.Contains(paths, t.name) })
}

// ISA returns the name of the path in use.
func ISA() string { return current.Load().name }

// ISAs returns the names of the paths that this machine runs, best first.
func ISAs() []string {
	names := make([]string, len(tables))
	for i, t := range tables {
		names[i] = t.name
	}
	return names
}

// Use makes every later call of this package use the path named isa. It is for tests: results
// before and after differ by rounding.
func Use(isa string) error {
	for _, t := range tables {
		if t.name == isa {
			current.Store(t)
			return nil
		}
	}
	return fmt.Errorf("%q, must be one of %s on this machine", isa, strings.Join(ISAs(), ", "))
}

// RMSProp takes one step over the whole of theta, with g = factor*grad, rounded:
//
//	sq    = decay*sq + (1-decay)*g*g
//	avg   = decay*avg + (1-decay)*g     if centered; otherwise avg is 0, and may be nil
//	var   = max(sq - avg*avg, 0)
//	theta -= lr*g / sqrt(var + eps)      if epsInside (Mnih et al. 2015)
//	theta -= lr*g / (sqrt(var) + eps)    otherwise (PyTorch, Keras)
func RMSProp(t *Team, theta, grad []float32, factor float32, avg, sq []float32, lr float32, decay float64, eps float32, centered, epsInside bool) {
	atLeast("grad", len(grad), len(theta))
	atLeast("sq", len(sq), len(theta))
	if centered {
		atLeast("avg", len(avg), len(theta))
	}
	if len(theta) > 0 {
		current.Load().rmsProp(t, theta, grad, factor, avg, sq, lr, decay, eps, centered, epsInside)
	}
}

// Adam takes step number step (the first is 1) as PyTorch's Adam does, with g = factor*grad,
// rounded:
//
//	m = beta1*m + (1-beta1)*g
//	v = beta2*v + (1-beta2)*g*g
//	theta -= lr/(1-beta1^step) * m / (sqrt(v)/sqrt(1-beta2^step) + eps)
func Adam(t *Team, theta, grad []float32, factor float32, m, v []float32, lr float32, beta1, beta2 float64, eps float32, step int64) {
	atLeast("grad", len(grad), len(theta))
	atLeast("m", len(m), len(theta))
	atLeast("v", len(v), len(theta))
	if step < 1 {
		panic(fmt.Sprintf("kernel: step: %d, must be at least 1", step))
	}
	if len(theta) > 0 {
		current.Load().adam(t, theta, grad, factor, m, v, lr, beta1, beta2, eps, step)
	}
}

// RAdam takes step number step (the first is 1) as PyTorch's RAdam does, without weight decay, with
// g = factor*grad, rounded:
//
//	m = beta1*m + (1-beta1)*g
//	v = beta2*v + (1-beta2)*g*g
//	rhoInf = 2/(1-beta2) - 1
//	rho = rhoInf - 2*step*beta2^step/(1-beta2^step)
//	r = sqrt((rho-4)*(rho-2)*rhoInf / ((rhoInf-4)*(rhoInf-2)*rho))
//	theta -= lr/(1-beta1^step) * r*sqrt(1-beta2^step) * m / (sqrt(v) + eps)    if rho > 5
//	theta -= lr/(1-beta1^step) * m                                             otherwise
func RAdam(t *Team, theta, grad []float32, factor float32, m, v []float32, lr float32, beta1, beta2 float64, eps float32, step int64) {
	atLeast("grad", len(grad), len(theta))
	atLeast("m", len(m), len(theta))
	atLeast("v", len(v), len(theta))
	if step < 1 {
		panic(fmt.Sprintf("kernel: step: %d, must be at least 1", step))
	}
	if len(theta) > 0 {
		size, rectified := rectifiedStep(lr, beta1, beta2, step)
		current.Load().rAdam(t, theta, grad, factor, m, v, size, beta1, beta2, eps, rectified)
	}
}

// rectifiedStep returns RAdam's factor of m, and whether RAdam divides by the root of v.
func rectifiedStep(lr float32, beta1, beta2 float64, step int64) (size float32, rectified bool) {
	corrected := float64(lr) / (1 - Power(beta1, step))
	power2 := Power(beta2, step)
	rhoInf := 2/(1-beta2) - 1
	rho := rhoInf - float64(2*float64(step)*power2)/(1-power2)
	if !(rho > 5) {
		return float32(corrected), false
	}
	r := math.Sqrt(float64((rho-4)*(rho-2)) * rhoInf / (float64((rhoInf-4)*(rhoInf-2)) * rho))
	return float32(float64(corrected*r) * math.Sqrt(1-power2)), true
}

// AdaGrad takes one step as PyTorch's Adagrad does, with g = factor*grad, rounded:
// sq += g*g and theta -= lr*g / (sqrt(sq) + eps).
func AdaGrad(t *Team, theta, grad []float32, factor float32, sq []float32, lr, eps float32) {
	atLeast("grad", len(grad), len(theta))
	atLeast("sq", len(sq), len(theta))
	if len(theta) > 0 {
		current.Load().adaGrad(t, theta, grad, factor, sq, lr, eps)
	}
}

// SumSquares returns the sum of x[i]*x[i] in float64. On every path a long x is cut into up to 64
// parts of nearly equal length. Each part is summed in 16 interleaved sums; the sums of the parts
// are added in order.
func SumSquares(t *Team, x []float32) float64 {
	if len(x) == 0 {
		return 0
	}
	return current.Load().sumSquares(t, x)
}

// flatParts returns the number of parts of a flat array: four arrays of a part's length fit the L2
// cache.
func flatParts(n int) int { return (n + 1<<16 - 1) >> 16 }

// partSums holds a sum for each part of SumSquares.
type partSums [64]float64

// of returns one sum for each part of x.
func (s *partSums) of(x []float32) []float64 { return s[:min(len(s), flatParts(len(x)))] }

func (s *partSums) total() (sum float64) {
	for _, v := range s {
		sum += v
	}
	return sum
}

// Average moves x towards y: x = (1-weight)*x + weight*y, both products rounded.
func Average(t *Team, x, y []float32, weight float64) {
	atLeast("y", len(y), len(x))
	if len(x) > 0 {
		current.Load().average(t, x, y, weight)
	}
}

func atLeast(name string, have, want int) {
	if have < want {
		panic(fmt.Sprintf("kernel: %s: %d elements, must be at least %d", name, have, want))
	}
}
