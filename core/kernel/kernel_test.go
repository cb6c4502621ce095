package kernel

import (
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paceline-rl/paceline/core/cpu"
)

func TestUseSelectsEveryPath(t *testing.T) {
	names := ISAs()
	if !slices.Equal(names, cpu.Paths()) {
		t.Errorf("ISAs %v, must be those of core/cpu: %v", names, cpu.Paths())
	}
	before := ISA()
	defer Use(before)
	for _, isa := range names {
		if err := Use(isa); err != nil || ISA() != isa {
			t.Errorf("Use(%q): %v, in use %q", isa, err, ISA())
		}
	}
	if err := Use("mmx"); err == nil || !strings.Contains(err.Error(), `"mmx"`) || !strings.Contains(err.Error(), "go") {
		t.Errorf(`Use("mmx"): %v, want an error that names it and the choices`, err)
	}
}

// PACELINE_ISA is read when a program starts, so each value needs a process.
func TestEnvironmentVariable(t *testing.T) {
	if want, ok := os.LookupEnv("KERNEL_TEST_WANT"); ok {
		if got := ISA(); got != want {
			t.Fatalf("%q, want %q", got, want)
		}
		return
	}
	cases := map[string]string{"": ISAs()[0], "sse9": ISAs()[0]}
	for _, isa := range ISAs() {
		cases[isa] = isa
	}
	for value, want := range cases {
		cmd := exec.Command(os.Args[0], "-test.run=^TestEnvironmentVariable$")
		cmd.Env = append(os.Environ(), "PACELINE_ISA="+value, "KERNEL_TEST_WANT="+want)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("PACELINE_ISA=%q: %v\n%s", value, err, out)
		}
	}
}

// NaN reaches the output, so that a broken run shows. The gradient of ReLU is PyTorch's: 0 where y
// is 0.
func TestNaNPropagates(t *testing.T) {
	eachPath(t, func(t *testing.T, p Precision) {
		inf, minusZero := float32(math.Inf(1)), float32(math.Copysign(0, -1))
		for _, n := range []int{1, 20} {
			d := &Dense{In: 1, Out: 1, ReLU: true, Precision: p}
			y := make([]float32, n)
			x := make([]float32, n)
			x[n-1] = nan
			DenseForward(nil, y, x, []float32{1}, []float32{0}, n, d, make([]float32, d.Workspace(n, nil)))
			if v := y[n-1]; v == v {
				t.Errorf("dense: %v, want NaN", v)
			}

			c := &Conv{InC: 1, InH: 2, InW: 2, OutC: 1, Kernel: 2, Stride: 1, Precision: p}
			ws, packed := make([]float32, c.Workspace(n, nil)), make([]float32, c.PackLen())
			ConvPack(nil, packed, []float32{1, 1, 1, 1}, 1, c, ws)
			for i := range 4 {
				x := make([]float32, 4*n)
				x[4*(n-1)+i] = nan
				ConvForward(nil, y, x, packed, []float32{0}, n, c, ws)
				if v := y[n-1]; v == v {
					t.Errorf("convolution, input %d: %v, want NaN", i, v)
				}
			}
			if v := SumSquares(nil, x); v == v {
				t.Errorf("sum of squares: %v, want NaN", v)
			}
		}

		y := []float32{0, -1, 1, minusZero, 2, nan}
		dy := []float32{3, 4, nan, inf, inf, 5}
		const n = 6
		check := func(layer string, g []float32) {
			if g[0] != 0 || g[1] != 0 || g[2] == g[2] || g[3] != 0 || g[4] != inf || g[5] != 0 {
				t.Errorf("%s: gradient %v before the ReLU, want 0 0 NaN 0 +Inf 0", layer, g)
			}
		}
		d := &Dense{In: 1, Out: n, ReLU: true, Precision: p}
		db, ones := make([]float32, n), slices.Repeat([]float32{1}, n)
		DenseBackward(nil, make([]float32, n), db, nil, []float32{1}, ones, y, dy, 1, d, make([]float32, d.Workspace(1, nil)))
		check("dense", db)
		c := &Conv{InC: 1, InH: 2, InW: 2, OutC: n, Kernel: 2, Stride: 1, Precision: p}
		ConvBackwardU8(nil, make([]float32, c.WeightLen()), db, make([]uint8, 4), 1, y, dy, 1, c, make([]float32, c.Workspace(1, nil)))
		check("convolution", db)
	})
}

func TestCallsDoNotAllocate(t *testing.T) {
	team := newTeam(t, 2)
	eachPath(t, func(t *testing.T, p Precision) {
		r := rand.New(rand.NewPCG(17, 18))
		conv := newConvData(12, Conv{InC: 2, InH: 7, InW: 7, OutC: 40, Kernel: 2, Stride: 1}, r).with(true, true, p)
		patches := newConvData(12, Conv{InC: 2, InH: 7, InW: 7, OutC: 40, Kernel: 3, Stride: 3}, r).with(true, true, p)
		dense := newDenseCase(8, Dense{In: 170, Out: 200, ReLU: true, Precision: p}, r)
		arrays := updateArrays(70_000).slices(70_000)
		loss, actorCritic, hybrid := tdCase(r, 5, 3, 1), acCase(r, 7, 3, acOptions{clip: true}), acCase(r, 7, 0, acOptions{branches: []int32{3, 2}, size: 4})
		for _, team := range []*Team{nil, team} {
			conv.on(team)
			patches.on(team)
			dense.on(team)
			if n := testing.AllocsPerRun(3, func() {
				conv.run()
				patches.run()
				dense.run()
				loss.run(false)
				actorCritic.run(0.01, 0.5)
				hybrid.run(0.01, 0.5)
				Tanh(arrays["s2"], arrays["theta"])
				TanhBackward(arrays["s2"], arrays["theta"], arrays["grad"])
				SumSquares(team, arrays["theta"])
				RMSProp(team, arrays["theta"], arrays["grad"], 1, arrays["s1"], arrays["s2"], 0.01, 0.95, 0.01, true, true)
				Adam(team, arrays["theta"], arrays["grad"], 1, arrays["s1"], arrays["s2"], 0.01, 0.9, 0.999, 1e-8, 1)
				RAdam(team, arrays["theta"], arrays["grad"], 1, arrays["s1"], arrays["s2"], 0.01, 0.9, 0.999, 1e-8, 9)
				AdaGrad(team, arrays["theta"], arrays["grad"], 1, arrays["s2"], 0.01, 1e-10)
				Average(team, arrays["s1"], arrays["s2"], 0.3)
			}); n != 0 {
				t.Errorf("%v allocations", n)
			}
		}
	})
}

func TestPeakIsPlausible(t *testing.T) {
	eachPath(t, func(t *testing.T, p Precision) {
		// From a slow emulator to more than any core reaches.
		if rate := Peak(p, time.Millisecond); !(rate > 0.001 && rate < 1e5) {
			t.Errorf("%v GFLOP/s", rate)
		}
	})
}

// actorCriticOf calls ActorCritic with a valid batch after change.
func actorCriticOf(n, width int, floats func(n int) []float32, change func(b *ActorCriticBatch) (dlogits []float32)) {
	b := &ActorCriticBatch{Logits: floats(n * width), Values: floats(n), Width: width, Actions: make([]int32, n),
		Advantages: floats(n), Returns: floats(n), Weights: floats(n)}
	dlogits := change(b)
	ActorCritic(&ActorCriticGradients{Logits: dlogits, Values: floats(n)}, b, 0, 0)
}

// hybridOf calls ActorCritic with 2 rows of 2 branches and 2 numbers after change.
func hybridOf(change func(d *ActorCriticGradients, b *ActorCriticBatch)) {
	f := func(n int) []float32 { return make([]float32, n) }
	b := &ActorCriticBatch{Logits: f(10), Values: f(2), Width: 5, Branches: []int32{2, 3}, Actions: make([]int32, 4), Masks: []byte{1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
		Means: f(4), LogStd: f(2), Continuous: f(4), Advantages: f(2), Returns: f(2), Weights: []float32{1, 1}}
	d := &ActorCriticGradients{Logits: f(10), Means: f(4), LogStd: f(2), Values: f(2)}
	change(d, b)
	ActorCritic(d, b, 0, 0)
}

// A call with a short slice or a wrong number panics with its name, before it touches memory.
func TestShortSlicesPanic(t *testing.T) {
	// Images of 98 elements, outputs of 252, 56 weights.
	c := &Conv{InC: 2, InH: 7, InW: 7, OutC: 7, Kernel: 2, Stride: 1}
	d := &Dense{In: 3, Out: 4, ReLU: true}
	norm := &Norm{Channels: 3, Positions: 4, Eps: 1, ReLU: true}
	s := func(n int) []float32 { return make([]float32, n) }
	bytes := func(n int) []uint8 { return make([]uint8, n) }
	big := s(1_000_000)
	for _, p := range []struct {
		want string
		call func()
	}{
		{"ws: 3 elements", func() { ConvPack(nil, big, big, 1, c, s(3)) }},
		{"packed: 255 elements, must be at least", func() { ConvPack(nil, s(255), big, 1, c, big) }},
		{"w: 55 elements, must be at least 56", func() { ConvPack(nil, big, s(55), 1, c, big) }},
		{"ws: 3 elements", func() { ConvPackBack(nil, big, big, c, s(3)) }},
		{"packed: 223 elements, must be at least", func() { ConvPackBack(nil, s(223), big, c, big) }},
		{"w: 55 elements, must be at least 56", func() { ConvPackBack(nil, big, s(55), c, big) }},
		{"y: 503 elements, must be at least 504", func() { ConvForward(nil, s(503), big, big, big, 2, c, big) }},
		{"x: 195 elements, must be at least 196", func() { ConvForward(nil, big, s(195), big, big, 2, c, big) }},
		{"packed: 255 elements", func() { ConvForward(nil, big, big, s(255), big, 2, c, big) }},
		{"b: 6 elements, must be at least 7", func() { ConvForward(nil, big, big, big, s(6), 2, c, big) }},
		{"x: 195 elements, must be at least 196", func() { ConvForwardU8(nil, big, bytes(195), big, big, 2, c, big) }},
		{"ws: 3 elements", func() { ConvForwardU8(nil, big, bytes(196), big, big, 2, c, s(3)) }},
		{"dw: 55 elements, must be at least 56", func() { ConvBackward(nil, s(55), big, big, big, big, big, big, 2, c, big) }},
		{"db: 6 elements, must be at least 7", func() { ConvBackward(nil, big, s(6), big, big, big, big, big, 2, c, big) }},
		{"dx: 195 elements, must be at least 196", func() { ConvBackward(nil, big, big, s(195), big, big, big, big, 2, c, big) }},
		{"x: 195 elements, must be at least 196", func() { ConvBackward(nil, big, big, big, s(195), big, big, big, 2, c, big) }},
		{"packed: 223 elements", func() { ConvBackward(nil, big, big, big, big, s(223), big, big, 2, c, big) }},
		{"y: 503 elements, must be at least 504", func() { ConvBackward(nil, big, big, big, big, big, s(503), big, 2, c, big) }},
		{"dy: 503 elements, must be at least 504", func() { ConvBackward(nil, big, big, big, big, big, big, s(503), 2, c, big) }},
		{"ws: 3 elements", func() { ConvBackward(nil, big, big, big, big, big, big, big, 2, c, s(3)) }},
		{"x: 195 elements, must be at least 196", func() { ConvBackwardU8(nil, big, big, bytes(195), 1, big, big, 2, c, big) }},
		{"kernel: 0 images", func() { ConvForward(nil, big, big, big, big, 0, c, big) }},
		{"the kernel must fit the image", func() { ConvPack(nil, big, big, 1, &Conv{InC: 1, InH: 4, InW: 4, OutC: 1, Kernel: 6, Stride: 3}, big) }},
		{"every number must be at least 1", func() { ConvPack(nil, big, big, 1, &Conv{InC: 1, InH: 4, InW: 4, Kernel: 4, Stride: 2}, big) }},
		{"on 0 rows", func() { DenseForward(nil, big, big, big, big, 0, d, big) }},
		{"y: 7 elements, must be at least 8", func() { DenseForward(nil, s(7), big, big, big, 2, d, big) }},
		{"x: 5 elements, must be at least 6", func() { DenseForward(nil, big, s(5), big, big, 2, d, big) }},
		{"w: 11 elements, must be at least 12", func() { DenseForward(nil, big, big, s(11), big, 1, d, big) }},
		{"b: 3 elements, must be at least 4", func() { DenseForward(nil, big, big, big, s(3), 1, d, big) }},
		{"ws: 3 elements", func() { DenseForward(nil, big, big, big, big, 1, d, s(3)) }},
		{"dw: 11 elements, must be at least 12", func() { DenseBackward(nil, s(11), big, big, big, big, big, big, 2, d, big) }},
		{"packed: 11 elements, must be at least 12", func() { DensePack(nil, s(11), big, d) }},
		{"w: 11 elements, must be at least 12", func() { DenseForwardPacked(nil, big, big, s(11), big, 2, d, big) }},
		{"db: 3 elements, must be at least 4", func() { DenseBackward(nil, big, s(3), big, big, big, big, big, 2, d, big) }},
		{"dx: 5 elements, must be at least 6", func() { DenseBackward(nil, big, big, s(5), big, big, big, big, 2, d, big) }},
		{"x: 5 elements, must be at least 6", func() { DenseBackward(nil, big, big, nil, s(5), big, big, big, 2, d, big) }},
		{"w: 11 elements, must be at least 12", func() { DenseBackward(nil, big, big, nil, big, s(11), big, big, 2, d, big) }},
		{"y: 7 elements, must be at least 8", func() { DenseBackward(nil, big, big, nil, big, big, s(7), big, 2, d, big) }},
		{"dy: 7 elements, must be at least 8", func() { DenseBackward(nil, big, big, nil, big, big, big, s(7), 2, d, big) }},
		{"ws: 3 elements", func() { DenseBackward(nil, big, big, nil, big, big, big, big, 2, d, s(3)) }},
		{"avg: 0 elements, must be at least 3", func() { RMSProp(nil, s(3), s(3), 1, nil, s(3), 1, 1, 1, true, true) }},
		{"step: 0, must be at least 1", func() { Adam(nil, s(1), s(1), 1, s(1), s(1), 1, 0.9, 0.9, 1, 0) }},
		{"step: 0, must be at least 1", func() { RAdam(nil, s(1), s(1), 1, s(1), s(1), 1, 0.9, 0.9, 1, 0) }},
		{"m: 1 elements, must be at least 2", func() { RAdam(nil, s(2), s(2), 1, s(1), s(2), 1, 0.9, 0.9, 1, 1) }},
		{"of 0 rows", func() { NormForward(nil, big, big, big, big, big, 0, norm, big) }},
		{"eps above 0", func() { NormForward(nil, big, big, big, big, big, 1, &Norm{Channels: 1, Positions: 1}, big) }},
		{"y: 23 elements, must be at least 24", func() { NormForward(nil, s(23), nil, big, big, big, 2, norm, big) }},
		{"x: 23 elements, must be at least 24", func() { NormForward(nil, big, nil, s(23), big, big, 2, norm, big) }},
		{"statistics: 15 elements, must be at least 16", func() { NormForward(nil, big, s(15), big, big, big, 2, norm, big) }},
		{"scale: 2 elements, must be at least 3", func() { NormForward(nil, big, nil, big, s(2), big, 2, norm, big) }},
		{"bias: 2 elements, must be at least 3", func() { NormForward(nil, big, nil, big, big, s(2), 2, norm, big) }},
		{"ws: 3 elements", func() { NormForward(nil, big, nil, big, big, big, 2, norm, s(3)) }},
		{"dscale: 2 elements, must be at least 3", func() { NormBackward(nil, s(2), big, big, big, big, big, big, big, 2, norm, big) }},
		{"dbias: 2 elements, must be at least 3", func() { NormBackward(nil, big, s(2), big, big, big, big, big, big, 2, norm, big) }},
		{"dx: 23 elements, must be at least 24", func() { NormBackward(nil, big, big, s(23), big, big, big, big, big, 2, norm, big) }},
		{"statistics: 15 elements, must be at least 16", func() { NormBackward(nil, big, big, big, s(15), big, big, big, big, 2, norm, big) }},
		{"x: 23 elements, must be at least 24", func() { NormBackward(nil, big, big, big, big, s(23), big, big, big, 2, norm, big) }},
		{"y: 23 elements, must be at least 24", func() { NormBackward(nil, big, big, big, big, big, s(23), big, big, 2, norm, big) }},
		{"dy: 23 elements, must be at least 24", func() { NormBackward(nil, big, big, big, big, big, big, s(23), big, 2, norm, big) }},
		{"scale: 2 elements, must be at least 3", func() { NormBackward(nil, big, big, big, big, big, big, big, s(2), 2, norm, big) }},
		{"targets: 1 elements, must be at least 2", func() { TDTargets(s(1), big, s(2), big, 3) }},
		{"next: 5 elements, must be at least 6", func() { TDTargets(big, s(5), s(2), big, 3) }},
		{"discounts: 1 elements, must be at least 2", func() { TDTargets(big, big, s(2), s(1), 3) }},
		{"dq: 5 elements, must be at least 6", func() { TDLoss(s(5), big, make([]int32, 2), big, nil, 3, true, WeightLoss, 1) }},
		{"q: 5 elements, must be at least 6", func() { TDLoss(big, s(5), make([]int32, 2), big, nil, 3, true, WeightLoss, 1) }},
		{"targets: 1 elements, must be at least 2", func() { TDLoss(big, big, make([]int32, 2), s(1), nil, 3, true, WeightLoss, 1) }},
		{"weights: 1 elements, must be at least 2", func() { TDLoss(big, big, make([]int32, 2), big, s(1), 3, true, WeightLoss, 1) }},
		{"actions[1]: 3, must be 0 to 2", func() { TDLoss(big, big, []int32{2, 3}, big, nil, 3, true, WeightLoss, 1) }},
		{"actions[0]: -1, must be 0 to 2", func() { TDLoss(big, big, []int32{-1}, big, nil, 3, true, WeightLoss, 1) }},
		{"y: 1 elements, must be at least 2", func() { Exp(s(1), s(2)) }},
		{"y: 1 elements, must be at least 2", func() { Log(s(1), s(2)) }},
		{"y: 1 elements, must be at least 2", func() { Tanh(s(1), s(2)) }},
		{"y: 1 elements, must be at least 2", func() { TanhBackward(big, s(1), s(2)) }},
		{"dx: 1 elements, must be at least 2", func() { TanhBackward(s(1), big, s(2)) }},
		{"y: 1 elements, must be at least 2", func() { Add(s(2), s(1)) }},
		{"x: 5 elements, must be rows of 3", func() { LogSoftmax(big, s(5), 3) }},
		{"y: 5 elements, must be at least 6", func() { LogSoftmax(s(5), s(6), 3) }},
		{"dlogits: 5 elements, must be at least 6", func() { actorCriticOf(2, 3, s, func(b *ActorCriticBatch) []float32 { return s(5) }) }},
		{"logits: 5 elements, must be at least 6", func() { actorCriticOf(2, 3, s, func(b *ActorCriticBatch) []float32 { b.Logits = s(5); return big }) }},
		{"values: 1 elements, must be at least 2", func() { actorCriticOf(2, 3, s, func(b *ActorCriticBatch) []float32 { b.Values = s(1); return big }) }},
		{"advantages: 1 elements, must be", func() {
			actorCriticOf(2, 3, s, func(b *ActorCriticBatch) []float32 { b.Advantages = s(1); return big })
		}},
		{"returns: 1 elements, must be", func() { actorCriticOf(2, 3, s, func(b *ActorCriticBatch) []float32 { b.Returns = s(1); return big }) }},
		{"weights: 1 elements, must be", func() { actorCriticOf(2, 3, s, func(b *ActorCriticBatch) []float32 { b.Weights = s(1); return big }) }},
		{"actions[0]: 3, must be 0 to 2", func() { actorCriticOf(2, 3, s, func(b *ActorCriticBatch) []float32 { b.Actions[0] = 3; return big }) }},
		{"width: 0 and log_std: 0 elements", func() { actorCriticOf(2, 0, s, func(b *ActorCriticBatch) []float32 { return big }) }},
		{"dmeans: 3 elements, must be at least 4", func() { hybridOf(func(d *ActorCriticGradients, _ *ActorCriticBatch) { d.Means = s(3) }) }},
		{"dlog_std: 1 elements, must be at least 2", func() { hybridOf(func(d *ActorCriticGradients, _ *ActorCriticBatch) { d.LogStd = s(1) }) }},
		{"dvalues: 1 elements, must be at least 2", func() { hybridOf(func(d *ActorCriticGradients, _ *ActorCriticBatch) { d.Values = s(1) }) }},
		{"means: 3 elements, must be at least 4", func() { hybridOf(func(_ *ActorCriticGradients, b *ActorCriticBatch) { b.Means = s(3) }) }},
		{"continuous: 3 elements, must be at least 4", func() { hybridOf(func(_ *ActorCriticGradients, b *ActorCriticBatch) { b.Continuous = s(3) }) }},
		{"masks: 9 elements, must be at least 10", func() { hybridOf(func(_ *ActorCriticGradients, b *ActorCriticBatch) { b.Masks = b.Masks[:9] }) }},
		{"branches: [2 4], must add up to the width, 5", func() { hybridOf(func(_ *ActorCriticGradients, b *ActorCriticBatch) { b.Branches[1] = 4 }) }},
		{"branches: [5 0], must be at least 1 each", func() { hybridOf(func(_ *ActorCriticGradients, b *ActorCriticBatch) { b.Branches = []int32{5, 0} }) }},
		{"actions[1, 0]: 2, must be 0 to 1", func() { hybridOf(func(_ *ActorCriticGradients, b *ActorCriticBatch) { b.Actions[2] = 2 }) }},
		{"actions[0, 1]: -1, must be 0 to 2", func() { hybridOf(func(_ *ActorCriticGradients, b *ActorCriticBatch) { b.Actions[1] = -1 }) }},
		{"actions[1, 1]: 0, must be one that its mask allows", func() { hybridOf(func(_ *ActorCriticGradients, b *ActorCriticBatch) { b.Masks[7] = 0 }) }},
		{"means: 3 elements, must be at least 4", func() { GaussianLogProbs(s(2), s(3), s(2), s(4)) }},
		{"x: 3 elements, must be at least 4", func() { GaussianLogProbs(s(2), s(4), s(2), s(3)) }},
		{"grad: 1 elements, must be at least 2", func() { AdaGrad(nil, s(2), s(1), 1, s(2), 1, 1) }},
	} {
		func() {
			defer func() {
				if got, _ := recover().(string); !strings.Contains(got, p.want) {
					t.Errorf("panic %q, want %q", got, p.want)
				}
			}()
			p.call()
		}()
	}
}
