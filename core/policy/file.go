package policy

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/limits"
	"github.com/paceline-rl/paceline/core/nn"
)

// kindPolicy is the kind of files that hold a policy alone, not a whole run.
const kindPolicy = "policy"

// Saved is a Spec in the format of files, the same for every method. It has no bounds of
// observations: they may be infinite, and acting does not need them.
type Saved struct {
	Set        string     `json:"set"`
	Env        string     `json:"env"`
	DType      string     `json:"dtype"`
	Axes       []int      `json:"shape"`
	FrameStack int        `json:"frame_stack"`
	Actions    int        `json:"actions"`
	Trunks     []nn.Trunk `json:"trunks"`
	Heads      []nn.Head  `json:"heads"`
	Precision  string     `json:"precision"`
	Head       int        `json:"head"`
	Kind       Kind       `json:"kind"`
	HostData   string     `json:"host_data,omitempty"`
	RawImages  bool       `json:"raw_images,omitempty"`
	ISA        string     `json:"isa,omitempty"`
}

// Saved returns s in the format of files.
func (s Spec) Saved() Saved {
	o, isa := s.Env.Obs, s.Net.ISA
	if isa == "auto" {
		isa = ""
	}
	return Saved{s.Set, s.Env.ID, o.DType.String(), o.Shape, o.FrameStack, s.Env.Action.N,
		s.Net.Trunks, s.Net.Heads, string(s.Net.Precision), s.Head, s.Kind, s.HostData, s.Net.RawImages, isa}
}

// Shape returns the observations and the number of actions as text, for errors and comparisons:
// "uint8 [4 84 84] and 3 actions".
func (s Saved) Shape() string { return fmt.Sprintf("%s %v and %d actions", s.DType, s.Axes, s.Actions) }

// Spec returns the Spec of s, or an error if s is invalid.
func (s Saved) Spec() (Spec, error) {
	spec := Spec{Set: s.Set, Head: s.Head, Kind: s.Kind, HostData: s.HostData}
	obs := env.ObsSpec{Shape: s.Axes, FrameStack: s.FrameStack, Low: []float32{0}, High: []float32{255}}
	switch s.DType {
	case env.Uint8.String():
	case env.Float32.String():
		obs.DType = env.Float32
	default:
		return spec, fmt.Errorf("policy.dtype: %q, must be uint8 or float32", s.DType)
	}
	spec.Env = env.Spec{ID: s.Env, Obs: obs, Action: env.ActionSpec{N: s.Actions}}
	spec.Net = nn.Spec{Obs: obs, Trunks: s.Trunks, Heads: s.Heads, Precision: nn.Precision(s.Precision), ISA: s.ISA, RawImages: s.RawImages}
	switch {
	case s.Kind != Greedy && s.Kind != Categorical:
		return spec, fmt.Errorf("policy.kind: %q, must be %s or %s", s.Kind, Greedy, Categorical)
	case s.Head < 0 || s.Head >= len(s.Heads):
		return spec, fmt.Errorf("policy.head: %d, must be 0 to %d", s.Head, len(s.Heads)-1)
	case s.Heads[s.Head].Out != s.Actions:
		return spec, fmt.Errorf("policy.actions: %d, must be the outputs of head %s, %d", s.Actions, s.Heads[s.Head].Name, s.Heads[s.Head].Out)
	}
	return spec, spec.Env.Check()
}

// content is the policy's part of a manifest, in files of a policy and in files of a run.
type content struct {
	Policy Saved `json:"policy"`
}

func setName(set string) string { return set + ".safetensors" }

// SetPart returns the part of a checkpoint for a parameter set, the same for every method.
func SetPart(name string, p *nn.Params) checkpoint.Part {
	part := nn.TensorsPart(setName(name), p.Tensors())
	read := part.Read
	part.Read = func(r io.Reader, n int64) (func(), error) {
		adopt, err := read(r, n)
		return func() { adopt(); p.Wrote() }, err
	}
	return part
}

// Load returns the policy of a file that Policy.Save or a trainer wrote.
func Load(path string) (*Policy, error) {
	r, err := checkpoint.Open(path)
	if err != nil {
		return nil, err
	}
	p, err := read(r)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return p, errors.Join(err, r.Close())
}

// FromBytes returns the policy of the result of Bytes, or of the bytes of a file.
func FromBytes(b []byte) (*Policy, error) {
	r, err := checkpoint.OpenBytes(b)
	if err != nil {
		return nil, err
	}
	return read(r)
}

func read(r *checkpoint.Reader) (*Policy, error) {
	var c content
	if err := r.Content(&c); err != nil {
		return nil, err
	}
	spec, err := c.Policy.Spec()
	if err != nil {
		return nil, err
	}
	layout, err := spec.Net.Layout()
	if err != nil {
		return nil, err
	}
	// ReadParams checks the tensors of the file before it allocates memory for them.
	var params *nn.Params
	part := checkpoint.Part{Name: setName(spec.Set), Version: 1, Read: func(r io.Reader, n int64) (_ func(), err error) {
		params, err = nn.ReadParams(r, n, layout)
		return nil, err
	}}
	adopt, err := r.Load([]checkpoint.Part{part})
	if err != nil {
		return nil, err
	}
	adopt()
	return New(spec, params), nil
}

func (p *Policy) parts() (content, []checkpoint.Part) {
	return content{p.spec.Saved()}, []checkpoint.Part{SetPart(p.spec.Set, p.params)}
}

// Save writes the policy alone, for Load. If it fails, an older file at path is unchanged.
func (p *Policy) Save(path string) error {
	c, parts := p.parts()
	return checkpoint.Save(path, kindPolicy, c, parts)
}

// Bytes returns the content of the file that Save writes.
func (p *Policy) Bytes() ([]byte, error) {
	// SaveBytes copies its buffer when the buffer grows, which takes up to three times its size.
	if err := limits.Admit(limits.Part{Setting: "bytes of " + p.spec.Set, Bytes: 3 * 4 * int64(len(p.params.Host()))}); err != nil {
		return nil, err
	}
	c, parts := p.parts()
	return checkpoint.SaveBytes(kindPolicy, c, slices.Clip(parts))
}
