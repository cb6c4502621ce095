package nntest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rng"
)

func (on *suite) testForwardAgainstDefinition(t *testing.T) {
	bytesMLP := QSpec(env.ObsSpec{Shape: []int{3, 5, 4}}, 2, nn.Trunk{Arch: "mlp"})
	linear := QSpec(env.ObsSpec{DType: env.Float32, Shape: []int{4}}, 1, nn.Trunk{Arch: "mlp", Hidden: []int{}})
	on.eachPath(t, func(t *testing.T) {
		for _, s := range slices.Concat(Norms(SmallNature(), SmallMLP(), bytesMLP, linear, TwoMLPs(), OneCNN()), Policies(), []nn.Spec{SmallNature(), SmallMLP(), bytesMLP, linear, TwoMLPs(), OneCNN(), Tiny()}, on.distributions(t)) {
			n := on.network(t, s, 5)
			r := rng.New(1, "test", 0)
			for seed, rows := range []int{5, 1, 3, 5, 2} { // another set each time: nothing may linger
				p, obs := Init(t, s, uint64(seed)), RandomObs(s, r, rows)
				StirNorms(p, r)
				out, err := n.Forward(p, obs, rows)
				if err != nil {
					t.Fatal(err)
				}
				for h, want := range naiveOutputs(s, p, obs, rows) {
					got := out.Values[h]
					if len(got) != len(want) || out.Rows != rows {
						t.Fatalf("%d values of %d rows, want %d of %d", len(got), out.Rows, len(want), rows)
					}
					for i := range got {
						if math.Abs(float64(got[i])-want[i]) > 1e-5 {
							t.Errorf("%s, %d rows: %s[%d] = %v, want %v", Name(s), rows, s.Heads[h].Name, i, got[i], want[i])
						}
					}
					if last := out.Row(h, rows-1); !slices.Equal(last, got[len(got)-s.Heads[h].Out:]) {
						t.Errorf("%s: the last row is %v of %v", Name(s), last, got)
					}
				}
			}
		}
	})
}

// The values of a row have the same bits alone, anywhere in a batch of any size, and in a network
// of any capacity.
func (on *suite) testRowsAreIndependent(t *testing.T) {
	on.eachPath(t, func(t *testing.T) {
		for _, s := range slices.Concat(Norms(OneCNN(), SmallMLP()), Policies(), []nn.Spec{SmallNature(), SmallMLP(), TwoMLPs(), OneCNN()}, on.distributions(t)) {
			const most = 19
			p, obs := Init(t, s, 1), RandomObs(s, rng.New(1, "test", 0), most)
			one := on.network(t, s, 1)
			want := make([][]float32, len(s.Heads))
			size := s.Obs.Bytes()
			for i := range most {
				q, err := one.Forward(p, obs[i*size:(i+1)*size], 1)
				if err != nil {
					t.Fatal(err)
				}
				for h := range want {
					want[h] = append(want[h], q.Values[h]...)
				}
			}
			n := on.network(t, s, most)
			for rows := 1; rows <= most; rows++ {
				for _, from := range []int{0, most - rows} {
					q, err := n.Forward(p, obs[from*size:(from+rows)*size], rows)
					if err != nil {
						t.Fatal(err)
					}
					for h, w := range want {
						width := s.Heads[h].Out
						if !slices.Equal(q.Values[h], w[from*width:(from+rows)*width]) {
							t.Fatalf("%s: rows %d to %d differ from the same rows alone", Name(s), from, from+rows)
						}
					}
				}
			}
		}
	})
}

func (on *suite) testNetworksShareParams(t *testing.T) {
	s := SmallNature()
	p, obs := Init(t, s, 1), RandomObs(s, rng.New(1, "test", 0), 4)
	q, err := on.network(t, s, 4).Forward(p, obs, 4)
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Clone(q.Values[0])
	device, loss := on.device(t, 1), LossOf(s)
	b := RandomBatch(s, loss, rng.New(2, "test", 0), 2)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			n, err := device.Network(s, 4) // construction is concurrent too
			if err != nil {
				t.Error(err)
				return
			}
			for range 5 {
				q, err := n.Forward(p, obs, 4)
				if err != nil || !slices.Equal(q.Values[0], want) {
					t.Errorf("outputs %v, error %v", q, err)
				}
			}
		})
	}
	wg.Go(func() { // a learner reads the same parameters
		l, err := device.Learner(s, 2, loss)
		if err != nil {
			t.Error(err)
			return
		}
		grad := make([]float32, len(p.Host()))
		for range 5 {
			if err := l.Gradient(p, b, grad, &nn.Report{}); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
}

func (on *suite) testForwardErrors(t *testing.T) {
	s := SmallMLP()
	n := on.network(t, s, 3)
	p := Init(t, s, 1)
	other := SmallMLP()
	other.Heads[0].Out = 4
	obs := RandomObs(s, rng.New(1, "test", 0), 4)
	for _, c := range []struct {
		want string
		p    *nn.Params
		obs  []byte
		rows int
	}{
		{"rows: 0, must be 1 to 3", p, nil, 0},
		{"rows: 4, must be 1 to 3", p, obs, 4},
		{"obs: 80 bytes, must be 60 for 3 rows of float32 [5]", p, obs, 3},
		{"obs: 0 bytes, must be 20 for 1 rows", p, nil, 1},
		{"must be a multiple of 4", p, obs[1:21], 1},
		{"parameters: of another network: 118 floats, must be this one's 111", Init(t, other, 1), obs[:20], 1},
		{"of another network", &nn.Params{Layout: p.Layout}, obs[:20], 1},
	} {
		if _, err := n.Forward(c.p, c.obs, c.rows); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
	for _, rows := range []int{0, -1, nn.MaxRows + 1} {
		if _, err := on.device(t, 1).Network(s, rows); err == nil || err.Error() != fmt.Sprintf("rows: %d, must be 1 to 65536", rows) {
			t.Errorf("capacity %d: %v", rows, err)
		}
	}
}
