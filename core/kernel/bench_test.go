package kernel

import (
	"math/rand/v2"
	"testing"
)

// natureCNN is the network of Mnih et al. 2015 with buffers for one minibatch.
type natureCNN struct {
	n       int
	conv    [3]Conv
	obs     []uint8
	w, b    [3][]float32
	dw, db  [3][]float32
	fw, fb  [2][]float32
	dfw     [2][]float32
	dfb     [2][]float32
	act, da [4][]float32 // outputs of the three convolutions and of the hidden layer
	q, dq   []float32
	ws      []float32
	theta   []float32 // everything that w, b, fw, fb are views of
	grad    []float32
	avg, sq []float32
}

const hidden, actions = 512, 6

func newNatureCNN(n int) *natureCNN {
	r := rand.New(rand.NewPCG(1, 2))
	net := &natureCNN{n: n, conv: [3]Conv{{4, 84, 84, 32, 8, 4}, {32, 20, 20, 64, 4, 2}, {64, 9, 9, 64, 3, 1}}}
	flat := net.conv[2].OutLen()
	size, ws := 0, max(DenseWorkspace(n, flat, hidden), DenseWorkspace(n, hidden, actions))
	for _, c := range net.conv {
		size += c.WeightLen() + c.OutC
		ws = max(ws, c.Workspace())
	}
	size += hidden*flat + hidden + actions*hidden + actions
	net.theta, net.grad = make([]float32, size), make([]float32, size)
	net.avg, net.sq = make([]float32, size), make([]float32, size)
	net.ws = make([]float32, ws)
	at := 0
	cut := func(n int) (w, g []float32) {
		w, g = net.theta[at:at+n], net.grad[at:at+n]
		at += n
		return w, g
	}
	for i, c := range net.conv {
		net.w[i], net.dw[i] = cut(c.WeightLen())
		net.b[i], net.db[i] = cut(c.OutC)
		net.act[i], net.da[i] = make([]float32, n*c.OutLen()), make([]float32, n*c.OutLen())
	}
	net.act[3], net.da[3] = make([]float32, n*hidden), make([]float32, n*hidden)
	net.fw[0], net.dfw[0] = cut(hidden * flat)
	net.fb[0], net.dfb[0] = cut(hidden)
	net.fw[1], net.dfw[1] = cut(actions * hidden)
	net.fb[1], net.dfb[1] = cut(actions)
	net.q, net.dq = make([]float32, n*actions), make([]float32, n*actions)
	net.obs = make([]uint8, n*net.conv[0].InLen())
	for i := range net.theta {
		net.theta[i] = 0.1 * (r.Float32() - 0.5)
	}
	for i := range net.obs {
		net.obs[i] = uint8(r.Uint32())
	}
	for i := range net.dq {
		net.dq[i] = r.Float32() - 0.5
	}
	return net
}

func (net *natureCNN) forward() {
	n, flat := net.n, net.conv[2].OutLen()
	ConvForwardU8(net.act[0], net.obs, 1.0/255, net.w[0], net.b[0], n, net.conv[0], net.ws)
	ConvForward(net.act[1], net.act[0], net.w[1], net.b[1], n, net.conv[1], net.ws)
	ConvForward(net.act[2], net.act[1], net.w[2], net.b[2], n, net.conv[2], net.ws)
	DenseForward(net.act[3], net.act[2], net.fw[0], net.fb[0], n, flat, hidden, true)
	DenseForward(net.q, net.act[3], net.fw[1], net.fb[1], n, hidden, actions, false)
}

func (net *natureCNN) backward() {
	n, flat := net.n, net.conv[2].OutLen()
	DenseGradW(net.dfw[1], net.dfb[1], net.act[3], net.dq, n, hidden, actions, net.ws)
	DenseGradX(net.da[3], net.fw[1], net.dq, n, hidden, actions, net.ws)
	ReLUGrad(net.da[3], net.act[3], net.da[3])
	DenseGradW(net.dfw[0], net.dfb[0], net.act[2], net.da[3], n, flat, hidden, net.ws)
	DenseGradX(net.da[2], net.fw[0], net.da[3], n, flat, hidden, net.ws)
	for i := 2; i > 0; i-- {
		ReLUGrad(net.da[i], net.act[i], net.da[i])
		ConvGradW(net.dw[i], net.db[i], net.act[i-1], net.da[i], n, net.conv[i], net.ws)
		ConvGradX(net.da[i-1], net.w[i], net.da[i], n, net.conv[i], net.ws)
	}
	ReLUGrad(net.da[0], net.act[0], net.da[0])
	ConvGradWU8(net.dw[0], net.db[0], net.obs, 1.0/255, net.da[0], n, net.conv[0], net.ws)
}

func (net *natureCNN) update() {
	net.forward() // target network
	net.forward() // online network
	net.backward()
	RMSProp(net.theta, net.grad, net.avg, net.sq, 2.5e-5, 0.95, 0.01, true, true)
}

// flop counts the multiplications and additions of one forward pass, and of a
// backward pass, which forms two products of that size for every layer but the
// first, whose input needs no gradient.
func (net *natureCNN) flop() (forward, backward float64) {
	for i, c := range net.conv {
		f := 2 * float64(net.n*c.OutH()*c.OutW()*c.WeightLen())
		forward += f
		backward += f
		if i > 0 {
			backward += f
		}
	}
	dense := 2 * float64(net.n*hidden*(net.conv[2].OutLen()+actions))
	return forward + dense, backward + 2*dense
}

func onEachISA(b *testing.B, f func(b *testing.B)) {
	defer Use(ISA())
	for _, isa := range ISAs() {
		if isa == "go" && testing.Short() {
			continue
		}
		Use(isa)
		b.Run(isa, f)
	}
}

func report(b *testing.B, flop float64) {
	seconds := b.Elapsed().Seconds() / float64(b.N)
	b.ReportMetric(1000*seconds, "ms/op")
	if flop > 0 {
		b.ReportMetric(flop/seconds/1e9, "GFLOP/s")
	}
}

// BenchmarkNatureUpdate is all the kernels of one DQN update, batch 32.
func BenchmarkNatureUpdate(b *testing.B) {
	onEachISA(b, func(b *testing.B) {
		net := newNatureCNN(32)
		forward, backward := net.flop()
		net.update()
		for b.Loop() {
			net.update()
		}
		report(b, 2*forward+backward)
	})
}

// BenchmarkNatureForward is the pass that chooses one action, batch 1.
func BenchmarkNatureForward(b *testing.B) {
	onEachISA(b, func(b *testing.B) {
		net := newNatureCNN(1)
		forward, _ := net.flop()
		net.forward()
		for b.Loop() {
			net.forward()
		}
		report(b, forward)
	})
}

// BenchmarkNatureParts times the kernels of BenchmarkNatureUpdate one by one.
func BenchmarkNatureParts(b *testing.B) {
	net := newNatureCNN(32)
	net.forward()
	net.backward()
	n, flat := net.n, net.conv[2].OutLen()
	conv := func(i int) float64 {
		return 2 * float64(n*net.conv[i].OutH()*net.conv[i].OutW()*net.conv[i].WeightLen())
	}
	dense := 2 * float64(n*flat*hidden)
	for _, part := range []struct {
		name string
		flop float64
		call func()
	}{
		{"conv1", conv(0), func() {
			ConvForwardU8(net.act[0], net.obs, 1.0/255, net.w[0], net.b[0], n, net.conv[0], net.ws)
		}},
		{"conv2", conv(1), func() { ConvForward(net.act[1], net.act[0], net.w[1], net.b[1], n, net.conv[1], net.ws) }},
		{"conv3", conv(2), func() { ConvForward(net.act[2], net.act[1], net.w[2], net.b[2], n, net.conv[2], net.ws) }},
		{"fc1", dense, func() { DenseForward(net.act[3], net.act[2], net.fw[0], net.fb[0], n, flat, hidden, true) }},
		{"fc2", 2 * float64(n*hidden*actions), func() { DenseForward(net.q, net.act[3], net.fw[1], net.fb[1], n, hidden, actions, false) }},
		{"conv1GradW", conv(0), func() {
			ConvGradWU8(net.dw[0], net.db[0], net.obs, 1.0/255, net.da[0], n, net.conv[0], net.ws)
		}},
		{"conv2GradW", conv(1), func() { ConvGradW(net.dw[1], net.db[1], net.act[0], net.da[1], n, net.conv[1], net.ws) }},
		{"conv3GradW", conv(2), func() { ConvGradW(net.dw[2], net.db[2], net.act[1], net.da[2], n, net.conv[2], net.ws) }},
		{"conv2GradX", conv(1), func() { ConvGradX(net.da[0], net.w[1], net.da[1], n, net.conv[1], net.ws) }},
		{"conv3GradX", conv(2), func() { ConvGradX(net.da[1], net.w[2], net.da[2], n, net.conv[2], net.ws) }},
		{"fc1GradW", dense, func() { DenseGradW(net.dfw[0], net.dfb[0], net.act[2], net.da[3], n, flat, hidden, net.ws) }},
		{"fc1GradX", dense, func() { DenseGradX(net.da[2], net.fw[0], net.da[3], n, flat, hidden, net.ws) }},
		{"RMSProp", 0, func() { RMSProp(net.theta, net.grad, net.avg, net.sq, 2.5e-5, 0.95, 0.01, true, true) }},
		{"Adam", 0, func() { Adam(net.theta, net.grad, net.avg, net.sq, 2.5e-5, 0.9, 0.999, 1e-5, 3) }},
		{"SumSquares", 0, func() { SumSquares(net.grad) }},
	} {
		b.Run(part.name, func(b *testing.B) {
			for b.Loop() {
				part.call()
			}
			report(b, part.flop)
		})
	}
}
