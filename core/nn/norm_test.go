package nn

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/rng"
)

// naiveNorm normalises a row [channel, position] by the definition.
func (l *layer) naiveNorm(y, x []float64, scale, bias []float32) {
	positions := l.norm.Positions
	for p := range positions {
		var group []int
		for k := range x {
			if l.norm.All || k%positions == p {
				group = append(group, k)
			}
		}
		mean, variance := 0.0, 0.0
		for _, k := range group {
			mean += x[k] / float64(len(group))
		}
		for _, k := range group {
			variance += (x[k] - mean) * (x[k] - mean) / float64(len(group))
		}
		for j, k := range group {
			y[k] = (x[k]-mean)/math.Sqrt(variance+float64(l.norm.Eps))*float64(scale[j]) + float64(bias[j])
		}
		if l.norm.All {
			return
		}
	}
}

// A trunk without a norm is saved as before there were norms; one with a norm says which.
func TestSavedTrunks(t *testing.T) {
	for _, c := range []struct {
		trunk Trunk
		want  string
	}{
		{Trunk{Arch: "mlp", Hidden: []int{3}, Activation: "tanh"}, `{"Arch":"mlp","Hidden":[3],"Activation":"tanh"}`},
		{Trunk{Arch: "nature_cnn", Norm: "layer_all", NormEps: 1e-4}, `{"Arch":"nature_cnn","Hidden":null,"Activation":"","Norm":"layer_all","NormEps":0.0001}`},
	} {
		got, err := json.Marshal(c.trunk)
		if err != nil || string(got) != c.want {
			t.Errorf("%s, %v, want %s", got, err, c.want)
		}
		var back Trunk
		if err := json.Unmarshal(got, &back); err != nil || back.Norm != c.trunk.Norm || back.NormEps != c.trunk.NormEps {
			t.Errorf("%+v, %v, want %+v", back, err, c.trunk)
		}
	}
}

// NormEps is what is added to the variance, 0 the default of the code that a norm is of.
func TestNormEps(t *testing.T) {
	for _, c := range []struct {
		norm string
		eps  float64
		want float32
	}{{"layer_channels", 0, 1e-6}, {"layer_all", 0, 1e-5}, {"layer_channels", 1e-5, 1e-5}, {"layer_all", 1e-3, 1e-3}} {
		s := withNorm(oneCNN(), c.norm)
		s.Trunks[0].NormEps = c.eps
		layers, err := s.layers()
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, l := range layers {
			if l.norm != nil {
				found++
				if l.norm.Eps != c.want {
					t.Errorf("%s, eps %g: %s adds %g, want %g", c.norm, c.eps, l.name, l.norm.Eps, c.want)
				}
			}
		}
		if found != 3 {
			t.Errorf("%d norms, want 3", found)
		}
	}
}

// A portable network with norms has the same bits on every path of C.
func TestPortableNorms(t *testing.T) {
	if !kernel.HasPortable() {
		t.Skip("this build has no C")
	}
	var want []float32
	onEveryISA(t, func(t *testing.T) {
		var got []float32
		for _, s := range norms(smallNature(), twoMLPs()) {
			s.ISA = "portable"
			p, loss := mustInit(t, s, 1), lossOf(s)
			d := mustCPU(t, 1)
			l, err := d.Learner(s, 5, loss)
			if err != nil {
				t.Fatal(err)
			}
			grad := make([]float32, len(p.Host()))
			if err := l.Gradient(p, randomBatch(s, loss, rng.New(1, "test", 0), 5), grad, &Report{}); err != nil {
				t.Fatal(err)
			}
			got = append(got, grad...)
		}
		if want == nil {
			want = got
		}
		if !slices.Equal(got, want) {
			t.Error("not the bits of the first path")
		}
	})
}

// BenchmarkNorms is a forward pass and a gradient of the Nature CNN with every norm, in
// turns, on one thread.
func BenchmarkNorms(b *testing.B) {
	specs := append([]Spec{atari()}, norms(atari())...)
	for _, precision := range precisions {
		for _, rows := range []int{1, 32, 256} {
			b.Run(fmt.Sprintf("%s/rows=%d", precision, rows), func(b *testing.B) {
				type subject struct{ forward, gradient func() }
				var subjects []subject
				for _, s := range specs {
					s.Precision = precision
					p, loss := mustInit(b, s, 1), lossOf(s)
					net, l, batch := mustNetwork(b, s, rows), mustLearner(b, s, rows, loss), randomBatch(s, loss, rng.New(1, "test", 0), rows)
					grad := make([]float32, len(p.Host()))
					subjects = append(subjects, subject{
						func() {
							if _, err := net.Forward(p, batch.Obs, rows); err != nil {
								b.Fatal(err)
							}
						},
						func() {
							if err := l.Gradient(p, batch, grad, &Report{}); err != nil {
								b.Fatal(err)
							}
						},
					})
				}
				times := make([][2][]float64, len(subjects))
				for b.Loop() {
					for i, s := range subjects {
						for k, f := range []func(){s.forward, s.gradient} {
							began := time.Now()
							f()
							times[i][k] = append(times[i][k], time.Since(began).Seconds()*1000)
						}
					}
				}
				for i, s := range specs {
					name := s.Trunks[0].Norm
					if name == "" {
						name = "none"
					}
					for k, pass := range []string{"forward", "gradient"} {
						slices.Sort(times[i][k])
						b.ReportMetric(times[i][k][len(times[i][k])/2], name+"-"+pass+"-ms")
					}
				}
			})
		}
	}
}
