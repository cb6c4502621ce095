package policy

import (
	"reflect"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rng"
)

// A policy's file holds the normalisations of the trunks with eps and parameters.
func TestNormsAreSaved(t *testing.T) {
	e := must(env.Make("CartPole-v1", nil))(t)
	defer e.Close()
	outputs := map[float64]float32{}
	for _, eps := range []float64{0, 0.5} {
		net := nn.Spec{
			Obs: e.Spec().Obs, Trunks: []nn.Trunk{{Arch: "mlp", Hidden: []int{16, 8}, Norm: "layer_all", NormEps: eps}},
			Heads: []nn.Head{{Name: "q", Out: 2}},
		}
		params := must(net.InitialParams(rng.New(1, "weights", 0)))(t)
		for i, v := range params.Host() {
			params.Host()[i] = v + float32(i%7)/10
		}
		p := New(Spec{Set: "q_net", Env: e.Spec(), Net: net, Head: 0, Kind: Greedy}, params)
		back := must(FromBytes(must(p.Bytes())(t)))(t)
		if !reflect.DeepEqual(back.spec.Net.Trunks, net.Trunks) || !back.params.Layout.Equal(params.Layout) {
			t.Errorf("%+v, want %+v", back.spec.Net.Trunks, net.Trunks)
		}
		obs := observations(p, 5, 3)
		actions, want := acted(t, p, 5, obs, nil)
		again, got := acted(t, back, 5, obs, nil)
		if !reflect.DeepEqual(actions, again) || !reflect.DeepEqual(want, got) {
			t.Errorf("eps %g: %v and %v after a round trip, want %v and %v", eps, again, got, actions, want)
		}
		outputs[eps] = want[0][0]
	}
	if outputs[0] == outputs[0.5] {
		t.Error("eps changes nothing: the test shows little")
	}
}
