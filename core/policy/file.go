package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/limits"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/normalize"
)

// Kinds of files that hold a policy: a policy alone, and a whole run of core/train.
const (
	kindPolicy = "policy"
	kindRun    = "run"
)

// Saved is a Spec in the format of files, the same for every method. It has no bounds of
// observations: they may be infinite, and acting does not need them.
type Saved struct {
	Set        string     `json:"set"`
	Env        string     `json:"env"`
	DType      string     `json:"dtype"`
	Axes       []int      `json:"shape"`
	FrameStack int        `json:"frame_stack"`
	Actions    int        `json:"actions"` // discrete ones; 0: branches, a box or both
	Branches   []int32    `json:"branches,omitempty"`
	Low        []bound    `json:"low,omitempty"`
	High       []bound    `json:"high,omitempty"`
	Squash     bool       `json:"squash,omitempty"`
	Scaled     bool       `json:"scaled,omitempty"`
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
	a := s.Env.Action
	return Saved{
		Set: s.Set, Env: s.Env.ID, DType: o.DType.String(), Axes: o.Shape, FrameStack: o.FrameStack,
		Actions: a.N, Branches: a.Branches, Low: toBounds(a.Low), High: toBounds(a.High), Squash: s.Bounds.Squash, Scaled: s.Bounds.Scaled,
		Trunks: s.Net.Trunks, Heads: s.Net.Heads, Precision: string(s.Net.Precision), Head: s.Head, Kind: s.Kind,
		HostData: s.HostData, RawImages: s.Net.RawImages, ISA: isa,
	}
}

// bound is a bound of a box; null in JSON, which has no infinity, and NaN when read, if infinite.
type bound float32

func (b bound) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(b), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float32(b))
}

func (b *bound) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*b = bound(math.NaN())
		return nil
	}
	return json.Unmarshal(text, (*float32)(b))
}

func toBounds(numbers []float32) (list []bound) {
	for _, b := range numbers {
		list = append(list, bound(b))
	}
	return list
}

func fromBounds(list []bound, infinite float64) (numbers []float32) {
	for _, b := range list {
		if b != b {
			b = bound(infinite)
		}
		numbers = append(numbers, float32(b))
	}
	return numbers
}

// Shape returns the observations and the actions as text, for errors and comparisons: "uint8 [4 84
// 84] and 3 discrete actions".
func (s Saved) Shape() string {
	return fmt.Sprintf("%s %v and %v actions", s.DType, s.Axes, s.action())
}

// OtherBound compares the bounds of the actions; see env.ActionSpec.
func (s Saved) OtherBound(o Saved) (name string, own, other float32) {
	return s.action().OtherBound(o.action())
}

func (s Saved) action() env.ActionSpec {
	return env.ActionSpec{N: s.Actions, Branches: s.Branches, Low: fromBounds(s.Low, math.Inf(-1)), High: fromBounds(s.High, math.Inf(1))}
}

// Spec returns the Spec of s, or an error if s is invalid.
func (s Saved) Spec() (Spec, error) {
	spec := Spec{Set: s.Set, Head: s.Head, Kind: s.Kind, Bounds: Bounds{s.Squash, s.Scaled}, HostData: s.HostData}
	obs := env.ObsSpec{Shape: s.Axes, FrameStack: s.FrameStack, Low: []float32{0}, High: []float32{255}}
	switch s.DType {
	case env.Uint8.String():
	case env.Float32.String():
		obs.DType = env.Float32
	default:
		return spec, fmt.Errorf("policy.dtype: %q, must be uint8 or float32", s.DType)
	}
	spec.Env = env.Spec{ID: s.Env, Obs: obs, Action: s.action()}
	spec.Net = nn.Spec{Obs: obs, Trunks: s.Trunks, Heads: s.Heads, Precision: nn.Precision(s.Precision), ISA: s.ISA, RawImages: s.RawImages}
	if err := spec.Env.Check(); err != nil {
		return spec, err
	}
	return spec, spec.check()
}

// check checks that the network has the heads that the Kind needs.
func (s *Spec) check() error {
	if s.Head < 0 || s.Head >= len(s.Net.Heads) {
		return fmt.Errorf("policy.head: %d, must be 0 to %d", s.Head, len(s.Net.Heads)-1)
	}
	a := s.Env.Action
	type head struct {
		name    string
		outputs int
	}
	needs := []head{{"pi", a.Logits()}, {"mu", a.Floats()}}
	name := s.Net.Heads[s.Head].Name
	switch s.Kind {
	case Greedy:
		if a.N == 0 {
			return fmt.Errorf("policy.kind: %s, must be %s where actions are %v", s.Kind, KindOf(a), a)
		}
		needs = []head{{name, a.N}}
	case Categorical, Gaussian:
		if s.Kind != KindOf(a) {
			return fmt.Errorf("policy.kind: %s, must be %s where actions are %v", s.Kind, KindOf(a), a)
		}
		if name != "pi" && name != "mu" {
			return fmt.Errorf("policy.head: %d (%s), must be that of \"pi\" or \"mu\"", s.Head, name)
		}
	default:
		return fmt.Errorf("policy.kind: %q, must be %s, %s or %s", s.Kind, Greedy, Categorical, Gaussian)
	}
	for _, h := range needs {
		have := 0
		if k := s.Net.Head(h.name); k >= 0 {
			have = s.Net.Heads[k].Out
		}
		if have != h.outputs {
			return fmt.Errorf("policy.heads: head %q has %d outputs, must have %d where actions are %v", h.name, have, h.outputs, a)
		}
	}
	return s.Bounds.Check(a)
}

// content is the policy's part of a manifest, in files of a policy and in files of a run.
type content struct {
	Policy Saved `json:"policy"`
}

func setName(set string) string { return set + ".safetensors" }

// SetPart returns the part of a checkpoint for a parameter set, the same for every method.
func SetPart(name string, p *nn.Params) checkpoint.Part { return nn.ParamsPart(setName(name), p) }

// Load returns the policy of a file that Policy.Save or a trainer wrote. A file of another kind,
// such as that of a parameter store, is an error.
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
	if k := r.Kind(); k != kindPolicy && k != kindRun {
		return nil, fmt.Errorf("kind: %q, must be %q or %q", k, kindPolicy, kindRun)
	}
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
	statistics := normalizerPart(&spec, func(m *normalize.Moments) { spec.Normalizer = m })
	adopt, err := r.Load([]checkpoint.Part{part, statistics})
	if err != nil {
		return nil, err
	}
	adopt()
	if spec.Normalizer != nil && spec.Env.Obs.DType != env.Float32 {
		return nil, fmt.Errorf("%w: statistics of %v observations", checkpoint.ErrFormat, spec.Env.Obs.DType)
	}
	return New(spec, params), nil
}

func (p *Policy) parts() (content, []checkpoint.Part) {
	parts := []checkpoint.Part{SetPart(p.spec.Set, p.params)}
	if p.spec.Normalizer != nil {
		parts = append(parts, normalizerPart(&p.spec, nil))
	}
	return content{p.spec.Saved()}, parts
}

// normalizerPart is the part of the statistics of observations, which only policies have that
// normalise. read gets those of a file.
func normalizerPart(s *Spec, read func(*normalize.Moments)) checkpoint.Part {
	return normalize.ObsPart(s.Env.Obs.Len(), s.Normalizer, read)
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
