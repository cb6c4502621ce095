package kernel

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
)

// natureCNN is the network of Mnih et al. 2015 with buffers for one minibatch.
type natureCNN struct {
	n       int
	team    *Team
	conv    [3]*Conv
	dense   [2]*Dense
	obs     []uint8
	w, b    [5][]float32 // of the convolutions, then of the dense layers
	dw, db  [5][]float32
	y, dy   [5][]float32
	packed  [3][]float32
	back    [3][]float32
	ws      []float32
	theta   []float32 // holds w and b
	grad    []float32
	avg, sq []float32
}

const hidden, actions = 512, 6

func newNatureCNN(n int, p Precision, team *Team) *natureCNN {
	r := rand.New(rand.NewPCG(1, 2))
	net := &natureCNN{n: n, team: team, conv: [3]*Conv{
		{InC: 4, InH: 84, InW: 84, OutC: 32, Kernel: 8, Stride: 4, PlanarIn: true, Precision: p},
		{InC: 32, InH: 20, InW: 20, OutC: 64, Kernel: 4, Stride: 2, Precision: p},
		{InC: 64, InH: 9, InW: 9, OutC: 64, Kernel: 3, Stride: 1, PlanarOut: true, Precision: p},
	}}
	net.dense = [2]*Dense{
		{In: net.conv[2].OutLen(), Out: hidden, ReLU: true, Precision: p},
		{In: hidden, Out: actions, Precision: p},
	}
	var weights, outputs [5]int
	size, ws := 0, 0
	for i, c := range net.conv {
		weights[i], outputs[i] = c.WeightLen(), c.OutC
		ws = max(ws, c.Workspace(n, team))
		net.y[i], net.dy[i] = make([]float32, n*c.OutLen()), make([]float32, n*c.OutLen())
		net.packed[i], net.back[i] = make([]float32, c.PackLen()), make([]float32, c.PackBackLen())
	}
	for i, d := range net.dense {
		weights[3+i], outputs[3+i] = d.In*d.Out, d.Out
		ws = max(ws, d.Workspace(n, team))
		net.y[3+i], net.dy[3+i] = make([]float32, n*d.Out), make([]float32, n*d.Out)
	}
	for i := range weights {
		size += weights[i] + outputs[i]
	}
	net.theta, net.grad = make([]float32, size), make([]float32, size)
	net.avg, net.sq, net.ws = make([]float32, size), make([]float32, size), make([]float32, ws)
	at := 0
	cut := func(n int) (w, g []float32) {
		at += n
		return net.theta[at-n : at], net.grad[at-n : at]
	}
	for i := range weights {
		net.w[i], net.dw[i] = cut(weights[i])
		net.b[i], net.db[i] = cut(outputs[i])
	}
	net.obs = make([]uint8, n*net.conv[0].InLen())
	for i := range net.theta {
		net.theta[i] = 0.1 * (r.Float32() - 0.5)
	}
	for i := range net.obs {
		net.obs[i] = uint8(r.Uint32())
	}
	for i := range net.dy[4] {
		net.dy[4][i] = r.Float32() - 0.5
	}
	return net
}

func (net *natureCNN) pack(i int) {
	scale := float32(1)
	if i == 0 {
		scale = byteScale
	}
	ConvPack(net.team, net.packed[i], net.w[i], scale, net.conv[i], net.ws)
}

func (net *natureCNN) packBack(i int) {
	ConvPackBack(net.team, net.back[i], net.w[i], net.conv[i], net.ws)
}

func (net *natureCNN) convForward(i int) {
	if i == 0 {
		ConvForwardU8(net.team, net.y[0], net.obs, net.packed[0], net.b[0], net.n, net.conv[0], net.ws)
	} else {
		ConvForward(net.team, net.y[i], net.y[i-1], net.packed[i], net.b[i], net.n, net.conv[i], net.ws)
	}
}

func (net *natureCNN) convBackward(i int) {
	if i == 0 {
		ConvBackwardU8(net.team, net.dw[0], net.db[0], net.obs, byteScale, net.y[0], net.dy[0], net.n, net.conv[0], net.ws)
	} else {
		ConvBackward(net.team, net.dw[i], net.db[i], net.dy[i-1], net.y[i-1], net.back[i], net.y[i], net.dy[i], net.n, net.conv[i], net.ws)
	}
}

func (net *natureCNN) denseForward(i int) {
	DenseForward(net.team, net.y[3+i], net.y[2+i], net.w[3+i], net.b[3+i], net.n, net.dense[i], net.ws)
}

func (net *natureCNN) denseBackward(i int) {
	DenseBackward(net.team, net.dw[3+i], net.db[3+i], net.dy[2+i], net.y[2+i], net.w[3+i], net.y[3+i], net.dy[3+i], net.n, net.dense[i], net.ws)
}

// forward needs packed weights.
func (net *natureCNN) forward() {
	for i := range net.conv {
		net.convForward(i)
	}
	for i := range net.dense {
		net.denseForward(i)
	}
}

func (net *natureCNN) backward() {
	net.denseBackward(1)
	net.denseBackward(0)
	for i := 2; i >= 0; i-- {
		if i > 0 {
			net.packBack(i)
		}
		net.convBackward(i)
	}
}

// update packs the weights of the online network only: the target's seldom change.
func (net *natureCNN) update() {
	net.forward() // target network
	for i := range net.conv {
		net.pack(i)
	}
	net.forward() // online network
	net.backward()
	RMSProp(net.team, net.theta, net.grad, 1, net.avg, net.sq, 2.5e-5, 0.95, 0.01, true, true)
}

// flop returns the multiplications and additions of one product of layer i with the batch, by
// direct convolution. Winograd's convolutions do fewer.
func (net *natureCNN) flop(i int) float64 {
	if i < 3 {
		direct, _ := net.conv[i].Flop()
		return float64(net.n) * direct
	}
	return 2 * float64(net.n*len(net.w[i]))
}

// passes returns the operations of both passes. A backward pass computes two products for every
// layer but the first, whose input needs no gradient.
func (net *natureCNN) passes() (forward, backward float64) {
	for i := range net.w {
		forward += net.flop(i)
		backward += 2 * net.flop(i)
	}
	return forward, backward - net.flop(0)
}

// onEachPath runs f on each path in each precision; -short skips the Go path.
func onEachPath(b *testing.B, f func(b *testing.B, p Precision)) {
	defer Use(ISA())
	for _, isa := range ISAs() {
		if isa == "go" && testing.Short() {
			continue
		}
		for p, precision := range precisions {
			b.Run(isa+"/"+precision, func(b *testing.B) {
				Use(isa)
				f(b, Precision(p))
			})
		}
	}
}

func report(b *testing.B, flop float64) {
	seconds := b.Elapsed().Seconds() / float64(b.N)
	b.ReportMetric(1000*seconds, "ms/op")
	if flop > 0 {
		b.ReportMetric(flop/seconds/1e9, "GFLOP/s-direct")
	}
}

// BenchmarkNatureUpdate times all kernels of one DQN update, batch 32.
func BenchmarkNatureUpdate(b *testing.B) {
	for n := 1; n <= runtime.GOMAXPROCS(0); n *= 2 {
		b.Run(fmt.Sprintf("%dthreads", n), func(b *testing.B) {
			team := newTeam(b, n)
			onEachPath(b, func(b *testing.B, p Precision) {
				net := newNatureCNN(32, p, team)
				forward, backward := net.passes()
				net.update()
				for b.Loop() {
					net.update()
				}
				report(b, 2*forward+backward)
			})
		})
	}
}

// BenchmarkNatureForward times the forward pass that chooses actions.
func BenchmarkNatureForward(b *testing.B) {
	for _, batch := range []struct {
		name string
		n    int
	}{{"1", 1}, {"8", 8}, {"32", 32}} {
		b.Run(batch.name, func(b *testing.B) {
			onEachPath(b, func(b *testing.B, p Precision) {
				net := newNatureCNN(batch.n, p, nil)
				forward, _ := net.passes()
				for i := range net.conv {
					net.pack(i)
				}
				net.forward()
				for b.Loop() {
					net.forward()
				}
				report(b, forward)
			})
		})
	}
}

// BenchmarkNatureParts times the kernels of BenchmarkNatureUpdate one by one, on the minibatches of
// DQN (32) and PPO (256).
func BenchmarkNatureParts(b *testing.B) {
	for _, n := range []int{32, 256} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { benchmarkParts(b, n) })
	}
}

func benchmarkParts(b *testing.B, n int) {
	onEachPath(b, func(b *testing.B, p Precision) {
		net := newNatureCNN(n, p, nil)
		for i := range net.conv {
			net.pack(i)
		}
		net.forward()
		net.backward()
		for _, part := range []struct {
			name string
			flop float64
			call func()
		}{
			{"conv1Pack", 0, func() { net.pack(0) }},
			{"conv2Pack", 0, func() { net.pack(1) }},
			{"conv3Pack", 0, func() { net.pack(2) }},
			{"conv2PackBack", 0, func() { net.packBack(1) }},
			{"conv3PackBack", 0, func() { net.packBack(2) }},
			{"conv1Forward", net.flop(0), func() { net.convForward(0) }},
			{"conv2Forward", net.flop(1), func() { net.convForward(1) }},
			{"conv3Forward", net.flop(2), func() { net.convForward(2) }},
			{"fc1Forward", net.flop(3), func() { net.denseForward(0) }},
			{"fc2Forward", net.flop(4), func() { net.denseForward(1) }},
			{"conv1Backward", net.flop(0), func() { net.convBackward(0) }},
			{"conv2Backward", 2 * net.flop(1), func() { net.convBackward(1) }},
			{"conv3Backward", 2 * net.flop(2), func() { net.convBackward(2) }},
			{"fc1Backward", 2 * net.flop(3), func() { net.denseBackward(0) }},
			{"fc2Backward", 2 * net.flop(4), func() { net.denseBackward(1) }},
			{"RMSProp", 0, func() { RMSProp(net.team, net.theta, net.grad, 1, net.avg, net.sq, 2.5e-5, 0.95, 0.01, true, true) }},
			{"Adam", 0, func() { Adam(net.team, net.theta, net.grad, 1, net.avg, net.sq, 2.5e-5, 0.9, 0.999, 1e-5, 3) }},
			{"SumSquares", 0, func() { SumSquares(net.team, net.grad) }},
		} {
			b.Run(part.name, func(b *testing.B) {
				for b.Loop() {
					part.call()
				}
				report(b, part.flop)
			})
		}
	})
}
