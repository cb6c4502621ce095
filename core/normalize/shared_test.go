package normalize

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/rng"
)

// numbersOf returns a row of random numbers.
func numbersOf(r *rng.Stream, n int, centre float64) []byte {
	var b []byte
	for range n {
		b = binary.NativeEndian.AppendUint32(b, math.Float32bits(float32(centre+r.Uniform(-1, 1))))
	}
	return b
}

// fileOf writes parts and reads them into others.
func fileOf(t *testing.T, from, to []checkpoint.Part) {
	t.Helper()
	for i, p := range from {
		var b bytes.Buffer
		if err := p.Write(&b); err != nil {
			t.Fatal(err)
		}
		adopt, err := to[i].Read(bytes.NewReader(b.Bytes()), int64(b.Len()))
		if err != nil {
			t.Fatal(err)
		}
		adopt()
	}
}

func equal(a, b *Normalizer) bool {
	return slices.Equal(a.Obs.Mean, b.Obs.Mean) && slices.Equal(a.Obs.Var, b.Obs.Var) && a.Obs.Count == b.Obs.Count &&
		slices.Equal(a.Returns.Mean, b.Returns.Mean) && slices.Equal(a.Returns.Var, b.Returns.Var) && a.Returns.Count == b.Returns.Count
}

// When all learners have pushed, the shared statistics are those of all rows, in whatever order
// they pushed and pulled. One learner is bit-identical to a Normalizer alone. A run that is saved
// and loaded goes on with the same bits.
func TestShared(t *testing.T) {
	const n = 3
	for learners := 1; learners <= 4; learners++ {
		r := rng.New(uint64(learners), "test", 0)
		all := New(n, true, true, 0.9)
		make := func() (s *Shared, shares []*Share) {
			s = NewShared(New(n, true, true, 0.9))
			for range learners {
				shares = append(shares, NewShare(New(n, true, true, 0.9)))
			}
			return s, shares
		}
		parts := func(s *Shared, shares []*Share) []checkpoint.Part {
			list := []checkpoint.Part{s.Part()}
			for _, x := range shares {
				list = append(list, x.own.Part(), x.Part())
			}
			return list
		}
		shared, shares := make()
		other, others := make()
		for step := range 2000 {
			k := r.Intn(learners)
			switch r.Intn(6) {
			case 0:
				shares[k].Push(shared)
				others[k].Push(other)
			case 1:
				shares[k].Pull(shared)
				others[k].Pull(other)
			default:
				x, y := numbersOf(r, n, float64(k)), r.Uniform(0, 5)
				for _, z := range []*Normalizer{all, shares[k].own, others[k].own} {
					z.Obs.AddRow(x)
					z.Returns.Add(y)
				}
			}
			if step%500 == 250 {
				again, list := make()
				fileOf(t, parts(other, others), parts(again, list))
				other, others = again, list
			}
			if learners == 1 && !equal(shares[0].own, all) {
				t.Fatalf("step %d: one learner has other statistics than without others", step)
			}
		}
		for k := range shares {
			shares[k].Push(shared)
			others[k].Push(other)
		}
		if !equal(&shared.Normalizer, &other.Normalizer) {
			t.Errorf("%d learners: a run that was saved and loaded has other statistics", learners)
		}
		for k := range n {
			if math.Abs(shared.Obs.Mean[k]-all.Obs.Mean[k]) > 1e-9 || math.Abs(shared.Obs.Var[k]-all.Obs.Var[k]) > 1e-9 {
				t.Errorf("%d learners, number %d: mean %v and variance %v, must be %v and %v", learners, k, shared.Obs.Mean[k], shared.Obs.Var[k], all.Obs.Mean[k], all.Obs.Var[k])
			}
		}
		if d := shared.Obs.Count - all.Obs.Count; math.Abs(d) > 1e-9 || math.Abs(shared.Returns.Var[0]-all.Returns.Var[0]) > 1e-9 {
			t.Errorf("%d learners: count %v, must be %v", learners, shared.Obs.Count, all.Obs.Count)
		}
	}
}

// Damaged statistics are refused.
func TestSharesThatNoRunHas(t *testing.T) {
	s := NewShare(New(2, true, false, 0.9))
	for _, text := range []string{
		`{"obs":{"mean":[0],"var":[0],"count":0},"seen":0}`, `{"seen":0}`, `{"obs":{"mean":[0,0],"var":[0,-1],"count":0},"seen":0}`,
		`{"obs":{"mean":[0,0],"var":[0,0],"count":-1},"seen":0}`, `{"obs":{"mean":[0,0],"var":[0,0],"count":0},"returns":{"mean":[0],"var":[0],"count":0},"seen":0}`,
	} {
		if _, err := s.Part().Read(bytes.NewReader([]byte(text)), int64(len(text))); err == nil {
			t.Errorf("%s was accepted", text)
		}
	}
}
