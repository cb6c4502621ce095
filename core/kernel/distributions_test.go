package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// naiveSoftmax returns the probabilities of logits in float64.
func naiveSoftmax(logits []float32) []float64 {
	top, sum, p := float64(slices.Max(logits)), 0.0, make([]float64, len(logits))
	for k, x := range logits {
		p[k] = math.Exp(float64(x) - top)
		sum += p[k]
	}
	for k := range p {
		p[k] /= sum
	}
	return p
}

// sameOnPaths runs f on every path and compares its output with the Go path's, bit for bit.
func sameOnPaths(t *testing.T, f func(t *testing.T) []float32) {
	t.Helper()
	defer Use(ISA())
	Use("go")
	want := f(t)
	eachISA(t, func(t *testing.T) { sameBits(t, "result", f(t), want) })
}

func near(t *testing.T, what string, got float32, want, size float64) {
	t.Helper()
	if !(math.Abs(float64(got)-want) <= 1e-5*size) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func scaled(a *arena, name string, n int, by float32, r *rand.Rand) []float32 {
	x := a.random(name, n, r)
	for i := range x {
		x[i] *= by
	}
	return x
}

var supports = []Support{{51, -10, 10}, {2, 0, 1}, {17, -3, 100}, {MaxAtoms, -1, 1}}

func TestCategoricalMeansMatchFloat64(t *testing.T) {
	for _, s := range supports {
		sameOnPaths(t, func(t *testing.T) []float32 {
			r, a := rand.New(rand.NewPCG(1, uint64(s.Atoms))), newArena()
			const n = 9
			x, means := scaled(a, "logits", n*s.Atoms, 4, r), a.out("means", n)
			CategoricalMeans(means, x, s)
			a.check(t)
			for i, got := range means {
				want := 0.0
				for k, p := range naiveSoftmax(x[i*s.Atoms : (i+1)*s.Atoms]) {
					want += p * (s.Min + float64(k)*(s.Max-s.Min)/float64(s.Atoms-1))
				}
				near(t, fmt.Sprint("mean ", i), got, want, s.Max-s.Min)
			}
			return means
		})
	}
}

// A projection has the probability 1, and the mean of the clipped numbers. Rewards on an atom with
// discount 0 put everything there.
func TestProjectMatchesFloat64(t *testing.T) {
	for _, s := range supports {
		sameOnPaths(t, func(t *testing.T) []float32 {
			r, a := rand.New(rand.NewPCG(2, uint64(s.Atoms))), newArena()
			const n, width = 12, 3
			step := (s.Max - s.Min) / float64(s.Atoms-1)
			x, to := scaled(a, "logits", n*width*s.Atoms, 4, r), a.out("targets", n*s.Atoms)
			actions, rewards, discounts := make([]int32, n), make([]float32, n), make([]float32, n)
			for i := range n {
				actions[i], rewards[i], discounts[i] = int32(r.IntN(width)), float32((2*r.Float64()-1)*s.Max), r.Float32()
			}
			discounts[0], rewards[0] = 0, float32(s.Min+float64(s.Atoms/2)*step)
			discounts[1], rewards[1] = 0, float32(2*s.Max)
			discounts[2], rewards[2] = 1, 0
			Project(to, x, actions, rewards, discounts, width, s)
			a.check(t)
			for i, action := range actions {
				want := make([]float64, s.Atoms)
				for k, p := range naiveSoftmax(x[(i*width+int(action))*s.Atoms:][:s.Atoms]) {
					z := float64(rewards[i]) + float64(discounts[i])*(s.Min+float64(k)*step)
					z = math.Max(s.Min, math.Min(s.Max, z))
					for j := range want { // the form of rlax and Dopamine
						want[j] += p * math.Max(0, 1-math.Abs(z-(s.Min+float64(j)*step))/step)
					}
				}
				for j, w := range want {
					near(t, fmt.Sprintf("row %d, atom %d", i, j), to[i*s.Atoms+j], w, 1)
				}
			}
			near(t, "the end", to[s.Atoms+s.Atoms-1], 1, 1)
			if got := slices.Index(to[:s.Atoms], slices.Max(to[:s.Atoms])); got != s.Atoms/2 {
				t.Errorf("the atom of the reward is %d, want %d", got, s.Atoms/2)
			}
			return to
		})
	}
}

func distributionCase(r *rand.Rand, n, width, points int, weighted bool) (a *arena, b *DistributionBatch, dx, perRow []float32) {
	a = newArena()
	b = &DistributionBatch{X: scaled(a, "x", n*width*points, 3, r), Width: width, Points: points}
	for i := range n {
		b.Actions = append(b.Actions, int32(r.IntN(width)))
		if weighted {
			b.Weights = append(b.Weights, float32(i%3)*0.7)
		}
	}
	return a, b, a.out("dx", n*width*points), a.out("per_row", n)
}

func (b *DistributionBatch) row(i int) (weight float64) {
	if b.Weights == nil {
		return 1
	}
	return float64(b.Weights[i])
}

func TestCategoricalLossMatchesFloat64(t *testing.T) {
	for _, atoms := range []int{2, 51, 200} {
		for _, least := range []float32{0, 0.01} {
			sameOnPaths(t, func(t *testing.T) []float32 {
				const n, width = 11, 4
				r := rand.New(rand.NewPCG(3, uint64(atoms)))
				a, b, dx, perRow := distributionCase(r, n, width, atoms, least > 0)
				logits := randomFloats(n*atoms, r)
				for i := range n {
					p := naiveSoftmax(logits[i*atoms : (i+1)*atoms])
					p[1] += p[0] // an atom of probability 0
					p[0] = 0
					for _, x := range p {
						b.Targets = append(b.Targets, float32(x))
					}
				}
				var all []float32
				for _, divergence := range []bool{false, true} {
					loss, want, cut := CategoricalLoss(dx, perRow, b, least, divergence, 0.25), 0.0, 0
					a.check(t)
					for i, action := range b.Actions {
						p := naiveSoftmax(b.X[(i*width+int(action))*atoms:][:atoms])
						m, row, mass, entropy := b.Targets[i*atoms:(i+1)*atoms], 0.0, 0.0, 0.0
						for k := range m {
							row -= float64(m[k]) * math.Log(math.Max(p[k], float64(least)))
							if m[k] > 0 {
								entropy -= float64(m[k]) * math.Log(float64(m[k]))
							}
							if p[k] >= float64(least) {
								mass += float64(m[k])
							} else {
								cut++
							}
						}
						want += b.row(i) * row / 4
						if divergence {
							row -= entropy
						}
						near(t, fmt.Sprint("row ", i), perRow[i], row, 1+row)
						for k := range width * atoms {
							g := 0.0
							if k/atoms == int(action) {
								if g = p[k%atoms] * mass; p[k%atoms] >= float64(least) {
									g -= float64(m[k%atoms])
								}
							}
							near(t, fmt.Sprintf("gradient %d, %d", i, k), dx[i*width*atoms+k], b.row(i)*g/4, 1)
						}
					}
					near(t, "loss", float32(loss), want, 1+want)
					if (cut > 0) != (least > 0 && atoms > 2) {
						t.Errorf("%d probabilities below %v of %d atoms: the test shows little", cut, least, atoms)
					}
					all = slices.Concat(all, dx, perRow, []float32{float32(loss)})
				}
				return all
			})
		}
	}
}

// The logarithm of a denormal is -Inf, also where denormals are not flushed to zero.
func TestDenormalTargetsCountAsZero(t *testing.T) {
	sameOnPaths(t, func(t *testing.T) []float32 {
		b := &DistributionBatch{X: []float32{0, -1, -2}, Actions: []int32{0}, Targets: []float32{1, 0x1p-127, 0x1p-149}, Width: 1, Points: 3}
		dx, perRow, want := make([]float32, 3), []float32{0}, math.Log(1+math.Exp(-1)+math.Exp(-2))
		for _, divergence := range []bool{false, true} {
			loss := CategoricalLoss(dx, perRow, b, 0, divergence, 1)
			near(t, "loss", float32(loss), want, 1)
			near(t, "row", perRow[0], want, 1)
		}
		return slices.Concat(dx, perRow)
	})
}

func TestQuantileLossMatchesFloat64(t *testing.T) {
	for _, quantiles := range []int{1, 7, 32, 201} {
		for _, kappa := range []float32{1, 0.1} {
			testQuantileLoss(t, quantiles, quantiles, kappa, false)
		}
	}
}

// The quantiles have taus of their own, and as many targets as the batch says.
func TestLossOfDrawnQuantilesMatchesFloat64(t *testing.T) {
	for _, c := range [][2]int{{1, 1}, {5, 9}, {64, 64}, {33, 8}, {8, 33}} {
		for _, kappa := range []float32{1, 0.1} {
			testQuantileLoss(t, c[0], c[1], kappa, true)
		}
	}
}

func testQuantileLoss(t *testing.T, quantiles, goals int, kappa float32, drawn bool) {
	sameOnPaths(t, func(t *testing.T) []float32 {
		const n, width = 5, 3
		r := rand.New(rand.NewPCG(4, uint64(quantiles)))
		a, b, dx, perRow := distributionCase(r, n, width, quantiles, kappa < 1)
		b.Targets = scaled(a, "targets", n*goals, 3, r)
		if drawn {
			b.Goals = goals
			for range n * quantiles {
				b.Taus = append(b.Taus, r.Float32())
			}
		}
		loss, want := QuantileLoss(dx, perRow, b, kappa, 0.25), 0.0
		a.check(t)
		inside, outside := 0, 0
		for i, action := range b.Actions {
			row := 0.0
			for k := range width * quantiles {
				g := 0.0
				if j := k / width; k%width == int(action) {
					tau := (float64(j) + 0.5) / float64(quantiles)
					if drawn {
						tau = float64(b.Taus[i*quantiles+j])
					}
					for _, target := range b.Targets[i*goals : (i+1)*goals] {
						u, side := float64(target)-float64(b.X[i*width*quantiles+k]), tau
						if u < 0 {
							side = 1 - tau
						}
						if math.Abs(u) <= float64(kappa) {
							row += side * u * u / 2
							g -= side * u
							inside++
						} else {
							row += side * float64(kappa) * (math.Abs(u) - float64(kappa)/2)
							g -= side * math.Copysign(float64(kappa), u)
							outside++
						}
					}
				}
				near(t, fmt.Sprintf("gradient %d, %d", i, k), dx[i*width*quantiles+k], b.row(i)*g/4/float64(goals)/float64(kappa), 1)
			}
			row /= float64(goals) * float64(kappa)
			near(t, fmt.Sprint("row ", i), perRow[i], row, 1+row)
			want += b.row(i) * row / 4
		}
		near(t, "loss", float32(loss), want, 1+want)
		if quantiles > 1 && (inside == 0 || outside == 0) {
			t.Errorf("%d errors within kappa and %d beyond: the test shows little", inside, outside)
		}
		return slices.Concat(dx, perRow, []float32{float32(loss)})
	})
}

// A row of weight 0 changes nothing, even if it holds NaN; NaN in another row reaches the loss and
// the gradient of that row.
func TestNaNInDistributions(t *testing.T) {
	losses := map[string]func(dx, perRow []float32, b *DistributionBatch) float64{
		"categorical": func(dx, perRow []float32, b *DistributionBatch) float64 {
			return CategoricalLoss(dx, perRow, b, 0, false, 1)
		},
		"quantile": func(dx, perRow []float32, b *DistributionBatch) float64 { return QuantileLoss(dx, perRow, b, 1, 1) },
	}
	eachISA(t, func(t *testing.T) {
		for name, loss := range losses {
			for _, inX := range []bool{true, false} {
				a, b, dx, perRow := distributionCase(rand.New(rand.NewPCG(5, 6)), 3, 1, 20, true)
				b.Targets, b.Weights = a.random("targets", 60, rand.New(rand.NewPCG(7, 8))), []float32{1, 0, 1}
				for i := range b.Targets {
					b.Targets[i] = abs32(b.Targets[i])
				}
				want := loss(dx, perRow, b)
				clean := slices.Clone(dx)
				if inX {
					b.X[25] = nan
				} else {
					b.Targets[25] = nan
				}
				if got := loss(dx, perRow, b); got != want {
					t.Errorf("%s: NaN in a row of weight 0: loss %v, was %v", name, got, want)
				}
				sameBits(t, "gradient", dx, clean)
				b.Weights = nil
				if got := loss(dx, perRow, b); got == got || perRow[1] == perRow[1] || perRow[0] != perRow[0] {
					t.Errorf("%s: loss %v and rows %v, must be NaN", name, got, perRow)
				}
				if g := dx[25]; g == g {
					t.Errorf("%s: gradient %v, must be NaN", name, g)
				}
			}
		}
		to, s := make([]float32, 4), Support{4, 0, 3}
		for _, c := range [][3]float32{{nan, 1, 0}, {1, nan, 0}, {1, 1, nan}} {
			Project(to, []float32{0, c[2], 1, 2}, []int32{0}, c[:1], c[1:2], 1, s)
			if !slices.ContainsFunc(to, func(v float32) bool { return v != v }) {
				t.Errorf("rewards, discounts and logits %v: target %v, must hold NaN", c, to)
			}
		}
		means := []float32{0}
		if CategoricalMeans(means, []float32{0, nan, 1, 2}, s); means[0] == means[0] {
			t.Errorf("mean %v, must be NaN", means[0])
		}
	})
}

func abs32(x float32) float32 { return max(x, -x) }

// Quantiles of one action are strided; sums of many actions are cut into blocks.
func TestQuantileMeansAndTargets(t *testing.T) {
	for _, width := range []int{1, 3, 16, 18, 37} {
		const n, quantiles = 4, 13
		r, a := rand.New(rand.NewPCG(9, 10)), newArena()
		x, means, to := a.random("x", n*width*quantiles, r), a.out("means", n*width), a.out("targets", n*quantiles)
		rewards, discounts, actions := a.random("rewards", n, r), a.random("discounts", n, r), make([]int32, n)
		for i := range actions {
			actions[i] = int32(r.IntN(width))
		}
		QuantileMeans(means, x, width, quantiles)
		QuantileTargets(to, x, actions, rewards, discounts, width, quantiles)
		a.check(t)
		for i := range n {
			sums := make([]float64, width)
			for k := range quantiles {
				for action := range width {
					v := x[(i*quantiles+k)*width+action]
					sums[action] += float64(v) / quantiles
					if action == int(actions[i]) {
						if got, want := to[i*quantiles+k], rewards[i]+float32(discounts[i]*v); got != want {
							t.Errorf("width %d: target %d, %d is %v, want %v", width, i, k, got, want)
						}
					}
				}
			}
			for action, want := range sums {
				near(t, "mean", means[i*width+action], want, 1)
			}
		}
	}
}

// BenchmarkDistributions times the losses, targets and means of an update, batch 32 and 6 actions.
func BenchmarkDistributions(b *testing.B) {
	const n, width, quantiles = 32, 6, 200
	r, s := rand.New(rand.NewPCG(1, 2)), Support{51, -10, 10}
	discounts, rewards := randomFloats(n, r), randomFloats(n, r)
	for _, isa := range ISAs() {
		for _, c := range []struct {
			name   string
			points int
			run    func(d *DistributionBatch, dx []float32)
		}{
			{"categorical loss", s.Atoms, func(d *DistributionBatch, dx []float32) { CategoricalLoss(dx, nil, d, 0, false, 1) }},
			{"project", s.Atoms, func(d *DistributionBatch, dx []float32) {
				Project(d.Targets, d.X, d.Actions, rewards, discounts, width, s)
			}},
			{"categorical means", s.Atoms, func(d *DistributionBatch, dx []float32) { CategoricalMeans(dx[:n*width], d.X, s) }},
			{"quantile loss", quantiles, func(d *DistributionBatch, dx []float32) { QuantileLoss(dx, nil, d, 1, 1) }},
			{"quantile means", quantiles, func(d *DistributionBatch, dx []float32) { QuantileMeans(dx[:n*width], d.X, width, quantiles) }},
			{"duel", quantiles, func(d *DistributionBatch, dx []float32) { Duel(dx, d.Targets, d.X, width, quantiles, false) }},
		} {
			b.Run(isa+"/"+c.name, func(b *testing.B) {
				defer Use(ISA())
				Use(isa)
				_, d, dx, _ := distributionCase(r, n, width, c.points, false)
				d.Targets = randomFloats(n*c.points, r)
				for i := range d.Targets {
					d.Targets[i] = abs32(d.Targets[i])
				}
				for b.Loop() {
					c.run(d, dx)
				}
			})
		}
	}
}
