package normalize

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/checkpoint"
)

func row(numbers ...float32) (b []byte) {
	for _, x := range numbers {
		b = binary.NativeEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

// After many rows far from 0 the statistics are those of all rows, and scaled rows are clipped.
func TestMomentsOfManyRows(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	m := NewMoments(2)
	var xs [2][]float64
	for range 200_000 {
		x := []float32{float32(1e4 + r.NormFloat64()), float32(1e-3 * r.NormFloat64())}
		m.AddRow(row(x...))
		for k, v := range x {
			xs[k] = append(xs[k], float64(v))
		}
	}
	m.Refresh()
	for k, list := range xs {
		mean, variance := 0.0, 0.0
		for _, x := range list {
			mean += x / float64(len(list))
		}
		for _, x := range list {
			variance += (x - mean) * (x - mean) / float64(len(list))
		}
		// The first statistics count as a ten-thousandth of a row, at 0 with variance 1.
		share := 1e-4 / (float64(len(list)) + 1e-4)
		variance = (1-share)*variance + share + share*(1-share)*mean*mean
		mean *= 1 - share
		if math.Abs(m.Mean[k]-mean) > 1e-9*math.Abs(mean)+1e-12 || math.Abs(m.Var[k]-variance) > 1e-9*variance {
			t.Errorf("number %d: mean %v, variance %v, want %v and %v", k, m.Mean[k], m.Var[k], mean, variance)
		}
	}
	to := row(0, 0)
	m.Scale(to, row(2e4, -1))
	if !bytes.Equal(to, row(10, -10)) || m.ScaleReward(-1e30) != -10 {
		t.Errorf("%x and %v are not clipped", to, m.ScaleReward(-1e30))
	}
}

// written returns the bytes of a part.
func written(t *testing.T, p checkpoint.Part) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A run's part has every bit of the statistics. Others are refused.
func TestPart(t *testing.T) {
	made := func() *Normalizer {
		z := New(2, true, true, 0.99)
		for _, x := range []float32{1, 3, -7.1} {
			z.Obs.AddRow(row(x, x*x))
			z.Returns.Add(float64(x))
		}
		z.Obs.Refresh()
		z.Returns.Refresh()
		return z
	}
	z, other := made(), New(2, true, true, 0.99)
	text := written(t, z.Part())
	adopt, err := other.Part().Read(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		t.Fatal(err)
	}
	if slices.Equal(other.Obs.Mean, z.Obs.Mean) {
		t.Fatal("adopted before adopt")
	}
	adopt()
	for _, x := range [][2]*Moments{{z.Obs, other.Obs}, {z.Returns, other.Returns}} {
		if !slices.Equal(x[0].Mean, x[1].Mean) || !slices.Equal(x[0].Var, x[1].Var) || x[0].Count != x[1].Count || !slices.Equal(x[0].deviations, x[1].deviations) {
			t.Errorf("%+v, want %+v", x[1], x[0])
		}
	}
	for what, bad := range map[string][]byte{
		"other numbers":   written(t, New(3, true, true, 0).Part()),
		"no rewards":      written(t, New(2, true, false, 0).Part()),
		"no observations": written(t, New(2, false, true, 0).Part()),
		"a variance":      bytes.Replace(text, []byte(`"var":[`), []byte(`"var":[-`), 1),
		"a mean":          bytes.Replace(text, []byte(`"mean":[`), []byte(`"mean":[1e200,`), 1),
		"a count":         bytes.Replace(text, []byte(`"count":`), []byte(`"count":-`), 1),
		"a field":         bytes.Replace(text, []byte(`"count"`), []byte(`"counts"`), 1),
		"cut":             text[:len(text)/2],
	} {
		before := written(t, other.Part())
		if _, err := other.Part().Read(bytes.NewReader(bad), int64(len(bad))); err == nil {
			t.Errorf("%s was read", what)
		} else if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %q", what, err)
		}
		if !bytes.Equal(before, written(t, other.Part())) {
			t.Errorf("%s changed the statistics", what)
		}
	}
}
