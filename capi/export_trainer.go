package main

/*
#include "bridge.h"
*/
import "C"

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"
	"unsafe"

	"github.com/paceline-rl/paceline/core/dqn"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/vec"
)

// trainer is a DQN, which answers "busy" by itself, and what the host sees of it.
type trainer struct {
	*dqn.DQN
	parameters []nn.Param
	shared     *arena // where the host steps the environments, else nil
}

var trainers = newTable[*trainer](kindTrainer)

func newTrainer(d *dqn.DQN, shared *arena) uint64 {
	return trainers.put(&trainer{DQN: d, parameters: d.Parameters(), shared: shared})
}

//export pacelineGoTrainerNew
func pacelineGoTrainerNew(out *C.uint64_t, cfgID C.uint64_t, why *C.char) C.int {
	return report(guarded(func() error {
		cfg, err := configOf(cfgID)
		if err != nil {
			return err
		}
		d, err := dqn.New(cfg, nil)
		if err == nil {
			*out = C.uint64_t(newTrainer(d, nil))
		}
		return err
	}), why)
}

//export pacelineGoTrainerNewTable
func pacelineGoTrainerNewTable(out *C.uint64_t, cfgID C.uint64_t, table *C.pl_family, why *C.char) C.int {
	return report(guarded(func() error {
		f := &family{c: table}
		f.refs.Store(1) // ours, until the environments have theirs
		defer f.drop()
		cfg, err := configOf(cfgID)
		if err != nil {
			return err
		}
		if err := f.readSpec(); err != nil {
			return err
		}
		d, err := dqn.New(cfg, func(i int) (env.Env, error) {
			return f.make(i, vec.SeedFor(uint64(cfg.Seed), i))
		})
		if err == nil {
			*out = C.uint64_t(newTrainer(d, nil))
		}
		return err
	}), why)
}

//export pacelineGoTrainerNewPush
func pacelineGoTrainerNewPush(out *C.uint64_t, cfgID C.uint64_t, obs, action *C.paceline_spec, why *C.char) C.int {
	return report(guarded(func() error {
		cfg, err := configOf(cfgID)
		if err != nil {
			return err
		}
		spec, err := specOf(obs, action)
		if err != nil {
			return err
		}
		shared, err := newArena(spec.Obs, cfg.NumEnvs)
		if err != nil {
			return err
		}
		d, err := dqn.NewPush(cfg, spec, shared.rows, shared.actions)
		if err != nil {
			shared.drop()
			return err
		}
		*out = C.uint64_t(newTrainer(d, shared))
		return nil
	}), why)
}

//export pacelineGoTrainerDescribe
func pacelineGoTrainerDescribe(out **C.char, id C.uint64_t, why *C.char) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		name, recipe, hash := t.Env()
		text, err := json.Marshal(map[string]string{"env": name, "recipe": recipe, "recipe_hash": hash})
		if err == nil {
			*out = C.CString(string(text))
		}
		return err
	}), why)
}

//export pacelineGoTrainerBegin
func pacelineGoTrainerBegin(id C.uint64_t, total C.int64_t, flags C.uint32_t, why *C.char) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		if flags&^(C.PACELINE_RESET_TIMESTEPS|C.PACELINE_RESET_ENVS) != 0 {
			return fmt.Errorf("flags: %d, must be a sum of PACELINE_RESET_TIMESTEPS (1) and PACELINE_RESET_ENVS (2)", flags)
		}
		return t.Begin(int64(total), uint32(flags))
	}), why)
}

//export pacelineGoTrainerRun
func pacelineGoTrainerRun(id C.uint64_t, maxSteps, maxMS C.int64_t, stats *C.paceline_stats, why *C.char) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		if maxMS < 0 {
			return fmt.Errorf("max_ms: %d, must be at least 0", maxMS)
		}
		limit := time.Duration(min(int64(maxMS), math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
		err := t.Run(int64(maxSteps), limit)
		if err == nil && stats != nil {
			putStats(t.Stats(), stats)
		}
		return err
	}), why)
}

//export pacelineGoTrainerStop
func pacelineGoTrainerStop(id C.uint64_t, why *C.char) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error { t.Stop(); return nil }), why)
}

//export pacelineGoTrainerStats
func pacelineGoTrainerStats(out *C.paceline_stats, id C.uint64_t, why *C.char) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error { putStats(t.Stats(), out); return nil }), why)
}

//export pacelineGoTrainerNotice
func pacelineGoTrainerNotice(out **C.char, id C.uint64_t, why *C.char) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		notice, err := t.Notice()
		switch {
		case err != nil:
			return err
		case notice == "":
			*out = nil
		default:
			*out = C.CString(notice)
		}
		return nil
	}), why)
}

//export pacelineGoTrainerSettle
func pacelineGoTrainerSettle(id C.uint64_t, why *C.char) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error { return t.Settle() }), why)
}

//export pacelineGoTrainerParameter
func pacelineGoTrainerParameter(out *C.paceline_parameter, id C.uint64_t, i C.size_t, why *C.char) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		if uint64(i) >= uint64(len(t.parameters)) {
			return fmt.Errorf("parameter: %d, must be 0 to %d", i, len(t.parameters)-1)
		}
		p := &t.parameters[i]
		out.ndim = C.uint32_t(len(p.Shape))
		for k, d := range p.Shape {
			out.shape[k] = C.int64_t(d)
		}
		out.offset, out.size = C.size_t(p.Offset), C.size_t(p.Size)
		out.name = intern(p.Name)
		return nil
	}), why)
}

// flat is the host's array of n parameters.
func (t *trainer) flat(p *C.float, n C.size_t) ([]float32, error) {
	last := t.parameters[len(t.parameters)-1]
	if want := last.Offset + last.Size; uint64(n) != uint64(want) {
		return nil, fmt.Errorf("n: %d, must be %d, the number of parameters", n, want)
	}
	return unsafe.Slice((*float32)(p), int(n)), nil
}

//export pacelineGoTrainerGetParameters
func pacelineGoTrainerGetParameters(id C.uint64_t, out *C.float, n C.size_t, why *C.char) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		to, err := t.flat(out, n)
		if err != nil {
			return err
		}
		return t.GetParameters(to)
	}), why)
}

//export pacelineGoTrainerSetParameters
func pacelineGoTrainerSetParameters(id C.uint64_t, in *C.float, n C.size_t, why *C.char) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		from, err := t.flat(in, n)
		if err != nil {
			return err
		}
		return t.SetParameters(from)
	}), why)
}

//export pacelineGoTrainerHash
func pacelineGoTrainerHash(out *C.paceline_hashes, id C.uint64_t, why *C.char) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		h, err := t.Hashes()
		if err != nil {
			return err
		}
		for _, d := range []struct {
			to   []C.char
			text string
		}{{out.replay[:], h.Replay}, {out.weights[:], h.Weights}, {out.target[:], h.Target}} {
			for i := range min(len(d.text), len(d.to)-1) {
				d.to[i] = C.char(d.text[i])
			}
		}
		return nil
	}), why)
}

//export pacelineGoTrainerSave
func pacelineGoTrainerSave(id C.uint64_t, file *C.char, flags C.uint32_t, why *C.char) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		if flags&^C.PACELINE_SAVE_REPLAY != 0 {
			return fmt.Errorf("flags: %d, must be 0 or PACELINE_SAVE_REPLAY (1)", flags)
		}
		p, err := path(file)
		if err != nil {
			return err
		}
		return t.Save(p, flags&C.PACELINE_SAVE_REPLAY != 0)
	}), why)
}

//export pacelineGoTrainerLoad
func pacelineGoTrainerLoad(id C.uint64_t, file *C.char, why *C.char) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		p, err := path(file)
		if err != nil {
			return err
		}
		return t.Load(p)
	}), why)
}

//export pacelineGoTrainerBuffers
func pacelineGoTrainerBuffers(out *C.paceline_buffers, id C.uint64_t, why *C.char) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		if t.shared == nil {
			return errors.New("buffers: this trainer steps its environments by itself; only one made by paceline_trainer_new_push has buffers")
		}
		t.shared.lease(out)
		return nil
	}), why)
}

//export pacelineGoTrainerAct
func pacelineGoTrainerAct(id C.uint64_t, why *C.char) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error { return t.Act() }), why)
}

//export pacelineGoTrainerObserve
func pacelineGoTrainerObserve(id C.uint64_t, stats *C.paceline_stats, why *C.char) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		err := t.Observe()
		if err == nil && stats != nil {
			putStats(t.Stats(), stats)
		}
		return err
	}), why)
}

//export pacelineGoTrainerFree
func pacelineGoTrainerFree(id C.uint64_t) {
	t, ok := trainers.take(uint64(id))
	if !ok {
		return
	}
	guarded(func() error {
		if t.shared != nil {
			defer t.shared.drop()
		}
		return t.Close()
	})
}
