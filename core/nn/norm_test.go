package nn_test

import (
	"encoding/json"
	"testing"

	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/nntest"
)

// A trunk without a norm has the saved form from before norms existed. A trunk with a norm names
// it.
func TestSavedTrunksNameTheirNorm(t *testing.T) {
	for _, c := range []struct {
		trunk nn.Trunk
		want  string
	}{
		{nn.Trunk{Arch: "mlp", Hidden: []int{3}, Activation: "tanh"}, `{"Arch":"mlp","Hidden":[3],"Activation":"tanh"}`},
		{nn.Trunk{Arch: "nature_cnn", Norm: "layer_all", NormEps: 1e-4}, `{"Arch":"nature_cnn","Hidden":null,"Activation":"","Norm":"layer_all","NormEps":0.0001}`},
	} {
		got, err := json.Marshal(c.trunk)
		if err != nil || string(got) != c.want {
			t.Errorf("%s, %v, want %s", got, err, c.want)
		}
		var back nn.Trunk
		if err := json.Unmarshal(got, &back); err != nil || back.Norm != c.trunk.Norm || back.NormEps != c.trunk.NormEps {
			t.Errorf("%+v, %v, want %+v", back, err, c.trunk)
		}
	}
}

// NormEps is added to the variance. 0 selects the default of the library that the norm comes from.
func TestNormEpsHasADefaultPerNorm(t *testing.T) {
	for _, c := range []struct {
		norm string
		eps  float64
		want float32
	}{{"layer_channels", 0, 1e-6}, {"layer_all", 0, 1e-5}, {"layer_channels", 1e-5, 1e-5}, {"layer_all", 1e-3, 1e-3}} {
		s := nntest.WithNorm(nntest.OneCNN(), c.norm)
		s.Trunks[0].NormEps = c.eps
		layers, err := s.Layers()
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, l := range layers {
			if l.Norm != nil {
				found++
				if l.Norm.Eps != c.want {
					t.Errorf("%s, eps %g: %s adds %g, want %g", c.norm, c.eps, l.Name, l.Norm.Eps, c.want)
				}
			}
		}
		if found != 3 {
			t.Errorf("%d norms, want 3", found)
		}
	}
}
