package policy

import (
	"bytes"
	"encoding/binary"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/normalize"
)

// normalized returns cartPole with statistics, which the caller may change afterwards.
func normalized(t *testing.T) (*Policy, *normalize.Moments) {
	t.Helper()
	plain := cartPole(t, 1)
	m := normalize.NewMoments(4)
	for _, x := range []float32{4, 1, -3, 9} {
		var row []byte
		for k := range 4 {
			row = binary.NativeEndian.AppendUint32(row, math.Float32bits(x*float32(k+1)))
		}
		m.AddRow(row)
	}
	m.Refresh()
	spec := plain.spec
	spec.Normalizer = m
	return New(spec, plain.params), m
}

// A policy with statistics acts on an observation as one without acts on the normalised one, also
// in batches of more than a forward pass and after a round trip. Its statistics are frozen.
func TestNormalizesObservations(t *testing.T) {
	p, m := normalized(t)
	plain := cartPole(t, 1)
	const n = batch + 7
	obs := observations(p, n, 3)
	raw, scaled := slices.Clone(obs), make([]byte, len(obs))
	for i := range n {
		m.Scale(scaled[16*i:16*i+16], obs[16*i:16*i+16])
	}
	o := &Options{Sample: true, Seed: 5}
	wantActions, want := acted(t, plain, n, scaled, o)
	_, unscaled := acted(t, plain, n, obs, o)
	m.AddRow(obs[:16]) // the run goes on
	m.Refresh()
	back := must(FromBytes(must(p.Bytes())(t)))(t)
	for name, p := range map[string]*Policy{"policy": p, "loaded": back} {
		actions, got := acted(t, p, n, obs, o)
		if !slices.Equal(actions, wantActions) || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v and %v, want %v and %v", name, actions, got, wantActions, want)
		}
		if reflect.DeepEqual(got, unscaled) {
			t.Errorf("%s: the statistics change nothing", name)
		}
	}
	if !bytes.Equal(obs, raw) {
		t.Error("the caller's observations were changed")
	}
}

// Evaluate normalises observations, too, and neither rewards nor the statistics.
func TestEvaluatesWithFrozenStatistics(t *testing.T) {
	p, _ := normalized(t)
	o := EvalOptions{Episodes: 8, Sample: true, Seed: 3}
	before := must(p.Bytes())(t)
	got := must(p.Evaluate("CartPole-v1", nil, o))(t)
	for i, r := range got.Returns {
		if r != float64(got.Lengths[i]) {
			t.Errorf("episode %d: return %v of %d steps", i, r, got.Lengths[i])
		}
	}
	if !bytes.Equal(before, must(p.Bytes())(t)) {
		t.Error("the evaluation changed the policy")
	}
	if plain := must(cartPole(t, 1).Evaluate("CartPole-v1", nil, o))(t); slices.Equal(plain.Returns, got.Returns) {
		t.Error("the statistics change nothing")
	}
}

// Only files of policies that normalise have the part.
func TestOnlyNormalizingFilesHaveStatistics(t *testing.T) {
	p, _ := normalized(t)
	for want, p := range map[bool]*Policy{true: p, false: cartPole(t, 1)} {
		b := must(p.Bytes())(t)
		r := must(checkpoint.OpenBytes(b))(t)
		if r.Has("normalizer.json") != want || bytes.Contains(b, []byte("normalizer")) != want {
			t.Errorf("a policy that normalises (%v) has a file with statistics (%v)", want, !want)
		}
	}
}
