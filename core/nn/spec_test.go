package nn

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/rng"
)

func TestLayouts(t *testing.T) {
	for _, c := range []struct {
		spec Spec
		want string
		size int
	}{
		{atari(), `features_extractor.cnn.0.weight [32 4 8 8]
features_extractor.cnn.0.bias [32]
features_extractor.cnn.2.weight [64 32 4 4]
features_extractor.cnn.2.bias [64]
features_extractor.cnn.4.weight [64 64 3 3]
features_extractor.cnn.4.bias [64]
features_extractor.linear.0.weight [512 3136]
features_extractor.linear.0.bias [512]
q_net.0.weight [6 512]
q_net.0.bias [6]
`, 1687206},
		{Spec{Arch: "mlp", Obs: env.ObsSpec{DType: env.Float32, Shape: []int{4}}, Actions: 2}, `q_net.0.weight [64 4]
q_net.0.bias [64]
q_net.2.weight [64 64]
q_net.2.bias [64]
q_net.4.weight [2 64]
q_net.4.bias [2]
`, 4610},
		{Spec{Arch: "mlp", Obs: env.ObsSpec{Shape: []int{2, 3}}, Actions: 2, Hidden: []int{}}, `q_net.0.weight [2 6]
q_net.0.bias [2]
`, 14},
	} {
		l, err := c.spec.Layout()
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		at := 0
		for _, p := range l.Params {
			fmt.Fprintf(&got, "%s %v\n", p.Name, p.Shape)
			if p.Offset != at || p.Size != elements(p.Shape) {
				t.Errorf("%s: floats %d to %d, must start at %d", p.Name, p.Offset, p.Offset+p.Size, at)
			}
			at += p.Size
		}
		if got.String() != c.want || l.Size != c.size || at != c.size {
			t.Errorf("%d floats:\n%swant %d:\n%s", l.Size, got.String(), c.size, c.want)
		}
		again, _ := c.spec.Layout()
		if !l.Equal(again) {
			t.Error("a layout differs from itself")
		}
		again.Params[0].Shape = slices.Clone(again.Params[0].Shape)
		slices.Reverse(again.Params[0].Shape)
		if l.Equal(again) {
			t.Error("another shape passes as equal")
		}
	}
}

func TestImpossibleSpecs(t *testing.T) {
	f32 := func(shape ...int) env.ObsSpec { return env.ObsSpec{DType: env.Float32, Shape: shape} }
	u8 := func(shape ...int) env.ObsSpec { return env.ObsSpec{Shape: shape} }
	for _, c := range []struct {
		spec Spec
		want string
	}{
		{Spec{Arch: "cnn", Obs: u8(4, 84, 84), Actions: 1}, `arch: "cnn", must be "nature_cnn" or "mlp"`},
		{Spec{Arch: "mlp", Obs: f32(4)}, "actions: 0, must be 1 to 65536"},
		{Spec{Arch: "mlp", Obs: f32(4), Actions: 65537}, "actions: 65537, must be 1 to 65536"},
		{Spec{Arch: "mlp", Obs: f32(), Actions: 1}, "obs.shape: [], must have at least one axis"},
		{Spec{Arch: "mlp", Obs: f32(4, 0), Actions: 1}, "obs.shape: [4 0], axes must be at least 1 and the product at most 268435456"},
		{Spec{Arch: "mlp", Obs: f32(1<<20, 1<<20, 1<<40), Actions: 1}, "obs.shape: [1048576 1048576 1099511627776], axes must be"},
		{Spec{Arch: "mlp", Obs: f32(1 << 27), Actions: 1}, "hidden[0]: 64, must be 1 to 2 behind a layer of 134217728"},
		{Spec{Arch: "mlp", Obs: f32(4), Actions: 1, Hidden: []int{8, 0}}, "hidden[1]: 0, must be 1 to "},
		{Spec{Arch: "mlp", Obs: f32(4), Actions: 1, Hidden: []int{1 << 14, 1 << 14, 1 << 14}}, "hidden: [16384 16384 16384]: more than 268435456 parameters"},
		{Spec{Arch: "nature_cnn", Obs: f32(4, 84, 84), Actions: 1}, "obs.dtype: float32, must be uint8 for nature_cnn"},
		{Spec{Arch: "nature_cnn", Obs: u8(84, 84), Actions: 1}, "obs.shape: [84 84], must be [channels, height, width] of at least 36x36 for nature_cnn"},
		{Spec{Arch: "nature_cnn", Obs: u8(1, 36, 35), Actions: 1}, "obs.shape: [1 36 35], must be [channels, height, width] of at least 36x36 for nature_cnn"},
		{Spec{Arch: "nature_cnn", Obs: u8(84, 84, 4), Actions: 1}, "obs.shape: [84 84 4], must be [channels, height, width] of at least 36x36 for nature_cnn"},
		{Spec{Arch: "nature_cnn", Obs: u8(4, 1<<13, 1<<13), Actions: 1}, "obs.shape: [4 8192 8192]: more than 268435456 parameters"},
		{Spec{Arch: "nature_cnn", Obs: u8(4, 84, 84), Actions: 1, Hidden: []int{64}}, "hidden: [64], must be empty for nature_cnn"},
	} {
		_, layoutErr := c.spec.Layout()
		_, initErr := c.spec.Init(rng.New(1, "weights", 0))
		_, netErr := NewNetwork(c.spec, 1, nil)
		_, learnErr := NewLearner(c.spec, 1, Loss{"huber", "mean"}, nil)
		for _, err := range []error{layoutErr, initErr, netErr, learnErr} {
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		}
	}
	smallest := Spec{Arch: "nature_cnn", Obs: u8(1, 36, 36), Actions: 1}
	if _, err := smallest.Layout(); err != nil {
		t.Error(err)
	}
}

func TestInit(t *testing.T) {
	s := smallCNN()
	p, same, other := mustInit(t, s, 1), mustInit(t, s, 1), mustInit(t, s, 2)
	if !slices.Equal(p.Data, same.Data) || slices.Equal(p.Data, other.Data) {
		t.Error("parameters must depend on the stream and on nothing else")
	}
	fanIn := 0
	for _, part := range p.Layout.Params {
		if len(part.Shape) > 1 {
			fanIn = part.Size / part.Shape[0]
		}
		bound := 1 / math.Sqrt(float64(fanIn))
		var largest, sum, squares float64
		for _, v := range p.view(part) {
			largest = max(largest, math.Abs(float64(v)))
			sum += float64(v)
			squares += float64(v) * float64(v)
		}
		n := float64(part.Size)
		if largest > bound*1.000001 {
			t.Errorf("%s: %v beyond ±%v", part.Name, largest, bound)
		}
		// Four standard deviations of the mean and of the mean square of a uniform.
		if math.Abs(sum/n) > 4*bound/math.Sqrt(3*n) || math.Abs(squares/n/(bound*bound)-1.0/3) > 4*math.Sqrt(4.0/45/n) {
			t.Errorf("%s: mean %v, mean square %v: not uniform in ±%v", part.Name, sum/n, squares/n, bound)
		}
	}
}

func TestParams(t *testing.T) {
	s := smallMLP()
	p := mustInit(t, s, 1)
	p.Version = 7
	part := p.Layout.Params[3]
	v := p.View(part.Name)
	v[0] = 42
	if p.Data[part.Offset] != 42 || len(v) != part.Size || cap(v) != part.Size {
		t.Error("a view must be the piece itself and no more")
	}
	if p.View("q_net.1.weight") != nil {
		t.Error("a view of nothing")
	}
	q := NewParams(p.Layout)
	q.CopyFrom(p)
	if !slices.Equal(q.Data, p.Data) || q.Version != 7 {
		t.Error("CopyFrom: not equal")
	}
	q = mustInit(t, s, 2)
	ts := p.Tensors("online.")
	if err := q.SetTensors("online.", append(slices.Clone(ts), Tensor{Name: "other.x", Shape: []int{1}, Data: []float32{1}})); err != nil || !slices.Equal(q.Data, p.Data) {
		t.Errorf("SetTensors: %v", err)
	}
	q = mustInit(t, s, 2)
	before := slices.Clone(q.Data)
	change := func(f func(ts []Tensor) []Tensor) []Tensor { return f(slices.Clone(ts)) }
	for want, bad := range map[string][]Tensor{
		`tensor "online.q_net.4.bias": missing`:                         ts[:len(ts)-1],
		`tensor "online.q_net.0.weight": shape [5 7], must be [7 5]`:    change(func(ts []Tensor) []Tensor { ts[0].Shape = []int{5, 7}; return ts }),
		`tensor "online.q_net.0.bias": []int32, must be []float32 of 7`: change(func(ts []Tensor) []Tensor { ts[1].Data = make([]int32, 7); return ts }),
		`tensor "online.x": the network has no such parameter`:          change(func(ts []Tensor) []Tensor { ts[5].Name = "online.x"; return ts }),
		`tensor "online.q_net.0.weight": given twice`:                   append(slices.Clone(ts), ts[0]),
	} {
		if err := q.SetTensors("online.", bad); err == nil || err.Error() != want {
			t.Errorf("error %v, want %q", err, want)
		}
		if !slices.Equal(q.Data, before) {
			t.Fatal("a refused set of tensors changed the parameters")
		}
	}
}
