package train_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

// Too much memory is refused before the method is made, with an error that names the largest part.
func TestMemoryIsAddedUpFirst(t *testing.T) {
	cfg, err := train.NewConfig("counting")
	check(t, err)
	check(t, cfg.Set("bytes", fmt.Sprint(int64(1)<<60)))
	made = nil
	_, err = train.New(cfg, traintest.MakeWalk(1))
	var memory *fault.Memory
	if !errors.As(err, &memory) || made != nil {
		t.Fatalf("%v, made %v", err, made)
	}
	says(t, err, "bytes: 1152921504606846976 needs ")
}

// A policy that was trained with frames of several planes is read from its file.
func TestPoliciesOfFramesOfSeveralPlanesAreRead(t *testing.T) {
	for _, frames := range []string{"1", "2", "4"} {
		cfg, err := train.NewConfig("counting")
		check(t, err)
		check(t, cfg.Set("frame_stack", frames))
		tr, err := train.New(cfg, func(int) (env.Env, error) {
			e, err := traintest.MakeWalk(1)(0)
			return fourNumbers{e}, err
		})
		check(t, err)
		p, err := tr.Policy()
		check(t, err)
		b, err := p.Bytes()
		check(t, err)
		if q, err := policy.FromBytes(b); err != nil || strconv.Itoa(q.Spec().Obs.FrameStack) != frames {
			t.Errorf("frame_stack %s: %v", frames, err)
		}
		check(t, tr.Close())
	}
}

// fourNumbers is an environment whose observations have four numbers, and that never steps.
type fourNumbers struct{ env.Env }

func (f fourNumbers) Spec() env.Spec {
	s := f.Env.Spec()
	s.Obs.Shape = []int{4}
	return s
}

func TestBadConfigsAreRefused(t *testing.T) {
	_, err := train.NewConfig("dqm")
	says(t, err, `method: "dqm", must be `)
	_, err = train.NewConfig("countin")
	says(t, err, `method "countin" is not known; did you mean counting?`)
	cfg, err := train.NewConfig("counting")
	check(t, err)
	_, err = train.New(cfg, nil)
	says(t, err, "env: empty, must name a built-in environment")
	e, err := traintest.MakeWalk(1)(0)
	check(t, err)
	_, err = train.NewPushed(cfg, e.Spec()) // it is not train.Pushed
	says(t, err, "method: counting, cannot learn in environments that the caller steps")
	spec := e.Spec()
	spec.Action = env.ActionSpec{Low: []float32{0}, High: []float32{1}}
	_, err = train.NewPushed(cfg, spec)
	says(t, err, "actions: a box of 1, must be discrete for counting")
	check(t, cfg.Set("frame_stack", "3"))
	for _, of := range []func() error{
		func() error { _, err := train.New(cfg, traintest.MakeWalk(1)); return err },
		func() error { _, err := train.NewPushed(cfg, e.Spec()); return err },
	} {
		says(t, of(), "frame_stack: 3, must be 0 or divide the first axis of the observation shape [2]")
	}
	defer func() {
		if r := recover(); r == nil || !strings.Contains(fmt.Sprint(r), "registered twice") {
			t.Errorf("%v", r)
		}
	}()
	train.Register(&train.Definition{Name: "counting"})
}
