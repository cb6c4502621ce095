package vec

import (
	"errors"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
)

func TestSaveAndRenderAreOptional(t *testing.T) {
	v, _, _ := counters(t, NextStep, 1, 3)
	_, err := v.Save(0)
	for _, err := range []error{err, v.Restore(0, nil)} {
		if err == nil || err.Error() != "environment 0: Counter-v0 has no save and restore" {
			t.Error(err)
		}
	}
	if _, _, _, err := v.Render(0); err == nil || err.Error() != "environment 0: Counter-v0 cannot be rendered" {
		t.Error(err)
	}
}

func TestRestoreRefuses(t *testing.T) {
	v, rows := newVec(t, func(int) (env.Env, error) { return env.Make("CartPole-v1", nil) }, 2, 1, SameStep)
	if err := v.Reset(rows, nil); err != nil {
		t.Fatal(err)
	}
	good, err := v.Save(1)
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string][]byte{
		"empty":         nil,
		"header only":   good[:2],
		"newer":         append([]byte{saveVersion + 1}, good[1:]...),
		"unknown phase": append([]byte{saveVersion, 3}, good[2:]...),
		"phase ended":   append([]byte{saveVersion, byte(ended)}, good[2:]...), // SameStep has none
	} {
		if err := v.Restore(1, bad); err == nil || !strings.HasPrefix(err.Error(), "environment 1: ") {
			t.Errorf("%s: %v", name, err)
		}
		if err := v.Step(Actions{Discrete: []int32{0, 0}}, rows); err == nil || err.Error() != "environment 1: step before reset" {
			t.Errorf("%s: stepped on: %v", name, err)
		}
	}
	if err := errors.Join(v.Restore(1, good), v.Step(Actions{Discrete: []int32{0, 0}}, rows)); err != nil {
		t.Error(err)
	}
	if _, err := v.Save(2); err == nil {
		t.Error("Save(2) of two environments")
	}
}
