package cpu

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/nntest"
	"github.com/paceline-rl/paceline/core/rng"
)

// A portable network with norms gives the same bits on every C path.
func TestPortableNormsAreEqualOnEveryPath(t *testing.T) {
	if !kernel.HasPortable() {
		t.Skip("this build has no C")
	}
	var want []float32
	nntest.OnEveryISA(t, func(t *testing.T) {
		var got []float32
		for _, s := range nntest.Norms(nntest.SmallNature(), nntest.TwoMLPs()) {
			s.ISA = "portable"
			p, loss := nntest.Init(t, s, 1), nntest.LossOf(s)
			d := mustCPU(t, 1)
			l, err := d.Learner(s, 5, loss)
			if err != nil {
				t.Fatal(err)
			}
			grad := make([]float32, len(p.Host()))
			if err := l.Gradient(p, nntest.RandomBatch(s, loss, rng.New(1, "test", 0), 5), grad, &nn.Report{}); err != nil {
				t.Fatal(err)
			}
			got = append(got, grad...)
		}
		if want == nil {
			want = got
		}
		if !slices.Equal(got, want) {
			t.Error("the bits differ from those of the first path")
		}
	})
}

// BenchmarkNorms measures a forward pass and a gradient of the Nature CNN with each norm,
// alternating, on one thread.
func BenchmarkNorms(b *testing.B) {
	specs := append([]nn.Spec{nntest.Atari()}, nntest.Norms(nntest.Atari())...)
	for _, precision := range precisions {
		for _, rows := range []int{1, 32, 256} {
			b.Run(fmt.Sprintf("%s/rows=%d", precision, rows), func(b *testing.B) {
				type subject struct{ forward, gradient func() }
				var subjects []subject
				for _, s := range specs {
					s.Precision = precision
					p, loss := nntest.Init(b, s, 1), nntest.LossOf(s)
					net, l, batch := mustNetwork(b, s, rows), mustLearner(b, s, rows, loss), nntest.RandomBatch(s, loss, rng.New(1, "test", 0), rows)
					grad := make([]float32, len(p.Host()))
					subjects = append(subjects, subject{
						func() {
							if _, err := net.Forward(p, batch.Obs, rows); err != nil {
								b.Fatal(err)
							}
						},
						func() {
							if err := l.Gradient(p, batch, grad, &nn.Report{}); err != nil {
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
