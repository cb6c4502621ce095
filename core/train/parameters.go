package train

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/limits"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/policy"
)

// SetInfo describes a set of parameters.
type SetInfo struct {
	Name     string
	Params   []nn.Param // the parts of the flat array of GetParameters
	Size     int        // of the flat array
	Writable bool
}

// ParameterSets lists the method's parameter sets. They never change.
func (t *Trainer) ParameterSets() []SetInfo {
	var list []SetInfo
	for _, s := range t.method.Sets() {
		list = append(list, SetInfo{s.Name, s.Params.Layout.Params, s.Params.Layout.Size, s.Writable})
	}
	return list
}

func (t *Trainer) set(name string) (*nn.Set, error) {
	sets := t.method.Sets()
	var names []string
	for i := range sets {
		if sets[i].Name == name {
			return &sets[i], nil
		}
		names = append(names, sets[i].Name)
	}
	return nil, fmt.Errorf("parameter set: %q, must be %s", name, strings.Join(names, ", "))
}

// GetParameters copies a set, after the updates that are due at this step, and returns how many
// updates it has seen.
func (t *Trainer) GetParameters(set string, to []float32) (updates uint64, err error) {
	if err := t.enter(); err != nil {
		return 0, err
	}
	defer t.leave(&err)
	s, err := t.set(set)
	if err != nil {
		return 0, err
	}
	if n := s.Params.Layout.Size; len(to) != n {
		return 0, fmt.Errorf("parameters: %d numbers, must be %d", len(to), n)
	}
	if err := t.settleToRead(); err != nil {
		return 0, err
	}
	return s.Params.Updates, s.Params.Read(to)
}

// SetParameters overwrites a set, after the updates that are due at this step. Training that had
// failed may continue then.
func (t *Trainer) SetParameters(set string, from []float32) (err error) {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.leave(&err)
	s, err := t.set(set)
	switch {
	case err != nil:
		return err
	case !s.Writable:
		return fmt.Errorf("parameter set: %q, follows others and cannot be written", set)
	case len(from) != s.Params.Layout.Size:
		return fmt.Errorf("parameters: %d numbers, must be %d", len(from), s.Params.Layout.Size)
	}
	if k := slices.IndexFunc(from, func(v float32) bool { return v-v != 0 }); k >= 0 {
		return fmt.Errorf("parameters: number %d is %v, %w", k, from[k], fault.ErrNotFinite)
	}
	if err := t.settleToRead(); err != nil {
		return err
	}
	if err := s.Params.Write(from); err != nil {
		return err
	}
	t.method.Wrote(set)
	return nil
}

// Hash returns the SHA-256, in hexadecimal, of a parameter set or of another part of the method
// ("replay"), after the updates that are due at this step. With the same settings and seed it is
// the same for any number of threads.
func (t *Trainer) Hash(part string) (sum string, err error) {
	if err := t.enter(); err != nil {
		return "", err
	}
	defer t.leave(&err)
	if err := t.settleToRead(); err != nil {
		return "", err
	}
	return t.hash(part)
}

func (t *Trainer) hash(part string) (string, error) {
	var names []string
	if t.digested != nil {
		for _, d := range t.digested.Digests() {
			if d.Name == part {
				sum := d.Sum()
				return hex.EncodeToString(sum[:]), nil
			}
			names = append(names, d.Name)
		}
	}
	for _, s := range t.method.Sets() {
		if s.Name == part {
			return HashFloats(s.Params.Host()), nil
		}
		names = append(names, s.Name)
	}
	return "", fmt.Errorf("part: %q, must be %s", part, strings.Join(names, ", "))
}

// HashFloats returns the SHA-256 of numbers in little-endian order, in hexadecimal.
func HashFloats(data []float32) string {
	sum := SumFloats(data)
	return hex.EncodeToString(sum[:])
}

// SumFloats is HashFloats in binary.
func SumFloats(data []float32) [32]byte {
	h := sha256.New()
	buf := make([]byte, 0, 4096)
	for i, v := range data {
		buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(v))
		if len(buf) == cap(buf) || i == len(data)-1 {
			h.Write(buf)
			buf = buf[:0]
		}
	}
	return [32]byte(h.Sum(nil))
}

// policy is the method's policy, with the setting host_data.
func (t *Trainer) policy() policy.Spec {
	spec := t.method.Policy()
	spec.HostData = t.common.HostData
	return spec
}

// Policy returns a frozen copy of the network that acts, after the updates that are due at this
// step.
func (t *Trainer) Policy() (p *policy.Policy, err error) {
	if err := t.enter(); err != nil {
		return nil, err
	}
	defer t.leave(&err)
	if err := t.settleToRead(); err != nil {
		return nil, err
	}
	spec := t.policy()
	s, err := t.set(spec.Set)
	if err != nil {
		return nil, err
	}
	if err := limits.Admit(limits.Part{Setting: "a copy of " + s.Name, Bytes: 4 * int64(len(s.Params.Host()))}); err != nil {
		return nil, err
	}
	return policy.New(spec, s.Params.Clone()), nil
}
