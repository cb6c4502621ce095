package capi

/*
#include "bridge.h"
*/
import "C"

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/vec"
)

// trainer is a train.Trainer, which itself refuses concurrent calls, and the data that calls
// of the host need.
type trainer struct {
	*train.Trainer
	spec          *env.Spec
	sets          []train.SetInfo
	numEnvs       int
	needsFinalObs bool // observe needs rows.final_obs

	family *family // nil: the environments are not functions of the host

	rowsMu  sync.Mutex // held while rows is in use
	rows    hostRows
	actions hostActions // of the call that holds rowsMu
}

var trainers = newTable[*trainer](kindTrainer)

// createTrainer writes the handle of the trainer that f makes with a copy of the settings. f also
// returns the family of its environments, or nil.
func createTrainer(out *C.uint64_t, cfgID C.uint64_t, why *C.pl_error, f func(*train.Config) (*train.Trainer, *family, error)) C.int {
	return create(out, trainers, why, func() (*trainer, error) {
		cfg, err := configOf(cfgID)
		if err != nil {
			return nil, err
		}
		t, of, err := f(cfg)
		if err != nil {
			return nil, err
		}
		c := cfg.Common()
		return &trainer{Trainer: t, family: of, spec: t.Spec(), sets: t.ParameterSets(), numEnvs: c.NumEnvs, needsFinalObs: c.Autoreset == "same_step"}, nil
	})
}

//export pacelineGoTrainerNew
func pacelineGoTrainerNew(out *C.uint64_t, cfgID C.uint64_t, why *C.pl_error) C.int {
	return createTrainer(out, cfgID, why, func(cfg *train.Config) (*train.Trainer, *family, error) {
		t, err := train.New(cfg, nil)
		return t, familyOf(cfg.Common().Env), err
	})
}

//export pacelineGoTrainerNewTable
func pacelineGoTrainerNewTable(out *C.uint64_t, cfgID C.uint64_t, table *C.pl_family, why *C.pl_error) C.int {
	f := &family{c: table}
	f.refs.Store(1) // this function's, until the environments have their own
	defer f.unref()
	return createTrainer(out, cfgID, why, func(cfg *train.Config) (*train.Trainer, *family, error) {
		if err := checkTable(&table.table); err != nil {
			return nil, nil, err
		}
		if err := f.readSpec(); err != nil {
			return nil, nil, err
		}
		seed := uint64(cfg.Common().Seed)
		t, err := train.New(cfg, func(i int) (env.Env, error) { return f.make(i, vec.SeedFor(seed, i)) })
		return t, f, err
	})
}

//export pacelineGoTrainerNewPush
func pacelineGoTrainerNewPush(out *C.uint64_t, cfgID C.uint64_t, obs, action *C.paceline_spec, why *C.pl_error) C.int {
	return createTrainer(out, cfgID, why, func(cfg *train.Config) (*train.Trainer, *family, error) {
		spec, err := specOf(obs, action)
		if err != nil {
			return nil, nil, err
		}
		t, err := train.NewPushed(cfg, spec)
		return t, nil, err
	})
}

//export pacelineGoTrainerConfig
func pacelineGoTrainerConfig(out *C.uint64_t, id C.uint64_t, why *C.pl_error) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		*out = C.uint64_t(configs.put(&config{cfg: t.Config()}))
		return nil
	}), why)
}

//export pacelineGoTrainerSpec
func pacelineGoTrainerSpec(obs, action *C.paceline_spec, id C.uint64_t, why *C.pl_error) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error { return putSpec(t.spec, obs, action) }), why)
}

//export pacelineGoTrainerDescribe
func pacelineGoTrainerDescribe(out **C.char, id C.uint64_t, why *C.pl_error) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		name, recipe, hash := t.Env()
		sets := []map[string]any{}
		for _, s := range t.sets {
			sets = append(sets, map[string]any{"name": s.Name, "size": s.Size, "writable": s.Writable})
		}
		return putJSON(out, map[string]any{
			"method": t.Config().Method(), "env": name, "recipe": recipe, "recipe_hash": hash, "sets": sets, "infos": columnsOf(t.Infos()),
		})
	}), why)
}

//export pacelineGoTrainerBegin
func pacelineGoTrainerBegin(id C.uint64_t, total C.int64_t, flags C.uint32_t, why *C.pl_error) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		if flags&^(C.PACELINE_RESET_TIMESTEPS|C.PACELINE_RESET_ENVS) != 0 {
			return fmt.Errorf("flags: %d, must be a sum of PACELINE_RESET_TIMESTEPS (1) and PACELINE_RESET_ENVS (2)", flags)
		}
		var f train.Flags
		if flags&C.PACELINE_RESET_TIMESTEPS != 0 {
			f |= train.ResetTimesteps
		}
		if flags&C.PACELINE_RESET_ENVS != 0 {
			f |= train.ResetEnvs
		}
		return t.Begin(int64(total), f)
	}), why)
}

// limitOf converts max_ms to a duration; 0 is no limit.
func limitOf(maxMS C.int64_t) (time.Duration, error) {
	if maxMS < 0 {
		return 0, fmt.Errorf("max_ms: %d, must be at least 0", maxMS)
	}
	return time.Duration(min(int64(maxMS), math.MaxInt64/int64(time.Millisecond))) * time.Millisecond, nil
}

//export pacelineGoTrainerRun
func pacelineGoTrainerRun(out *C.paceline_stats, id C.uint64_t, maxRollouts, maxSteps, maxMS C.int64_t, why *C.pl_error) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		limit, err := limitOf(maxMS)
		if err != nil {
			return err
		}
		err = t.RunRollouts(int64(maxRollouts), int64(maxSteps), limit)
		if err == nil && out != nil {
			putStats(t.Stats(), out)
		}
		return err
	}), why)
}

//export pacelineGoTrainerStop
func pacelineGoTrainerStop(id C.uint64_t, why *C.pl_error) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error { t.Stop(); return nil }), why)
}

//export pacelineGoTrainerStats
func pacelineGoTrainerStats(out *C.paceline_stats, id C.uint64_t, why *C.pl_error) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error { putStats(t.Stats(), out); return nil }), why)
}

func putStats(s train.Stats, out *C.paceline_stats) {
	out.num_timesteps = C.int64_t(s.Steps)
	out.total_timesteps = C.int64_t(s.Total)
	out.updates = C.int64_t(s.Updates)
	out.updates_due = C.int64_t(s.UpdatesDue)
	out.episodes = C.int64_t(s.Episodes)
	out.mean_return = C.double(s.MeanReturn)
	out.mean_length = C.double(s.MeanLength)
	out.seconds_env = C.double(s.Env.Seconds())
	out.seconds_act = C.double(s.Act.Seconds())
	out.seconds_train = C.double(s.Train.Seconds())
	out.seconds_wait = C.double(s.Wait.Seconds())
}

//export pacelineGoTrainerMetric
func pacelineGoTrainerMetric(out *C.paceline_metric, id C.uint64_t, i C.size_t, why *C.pl_error) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		m, ok := t.Metric(int(min(i, 1<<31)))
		if !ok {
			return fmt.Errorf("metric: %d, this trainer has fewer metrics", i)
		}
		out.name, out.unit, out.doc = intern(m.Name), intern(m.Unit), intern(m.Doc)
		out.value = C.double(m.Value)
		return nil
	}), why)
}

//export pacelineGoTrainerMetricIndex
func pacelineGoTrainerMetricIndex(out *C.size_t, id C.uint64_t, name *C.char, why *C.pl_error) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		i, err := t.MetricIndex(C.GoString(name))
		if err == nil {
			*out = C.size_t(i)
		}
		return err
	}), why)
}

//export pacelineGoTrainerNotice
func pacelineGoTrainerNotice(out **C.char, id C.uint64_t, why *C.pl_error) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		notice, err := t.Notice()
		if err == nil && notice == "" {
			*out = nil
			return nil
		}
		return putText(out, notice, err)
	}), why)
}

//export pacelineGoTrainerProposal
func pacelineGoTrainerProposal(out **C.char, id C.uint64_t, why *C.pl_error) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error { return putText(out, t.Proposal(), nil) }), why)
}

//export pacelineGoTrainerSettle
func pacelineGoTrainerSettle(id C.uint64_t, maxMS C.int64_t, why *C.pl_error) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		limit, err := limitOf(maxMS)
		if err != nil {
			return err
		}
		return t.Settle(limit)
	}), why)
}

// set returns the set of parameters of the host's name.
func (t *trainer) set(name *C.char) (*train.SetInfo, error) {
	var names []string
	for i := range t.sets {
		if t.sets[i].Name == C.GoString(name) {
			return &t.sets[i], nil
		}
		names = append(names, t.sets[i].Name)
	}
	return nil, fmt.Errorf("set: %q, must be %s", C.GoString(name), strings.Join(names, " or "))
}

//export pacelineGoTrainerParameter
func pacelineGoTrainerParameter(out *C.paceline_parameter, id C.uint64_t, set *C.char, i C.size_t, why *C.pl_error) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		s, err := t.set(set)
		if err != nil {
			return err
		}
		if uint64(i) >= uint64(len(s.Params)) {
			return fmt.Errorf("parameter: %d, must be 0 to %d", i, len(s.Params)-1)
		}
		p := &s.Params[i]
		out.ndim = C.uint32_t(len(p.Shape))
		for k, d := range p.Shape {
			out.shape[k] = C.int64_t(d)
		}
		out.offset, out.size = C.size_t(p.Offset), C.size_t(p.Size)
		out.name = intern(p.Name)
		return nil
	}), why)
}

// hostParameters returns the name of a set and the host's array for its n parameters.
func (t *trainer) hostParameters(set *C.char, p *C.float, n C.size_t) (string, []float32, error) {
	s, err := t.set(set)
	if err != nil {
		return "", nil, err
	}
	array, err := hostSet(s, p, n)
	return s.Name, array, err
}

// hostSet returns the host's array for the n parameters of a set.
func hostSet(s *train.SetInfo, p *C.float, n C.size_t) ([]float32, error) {
	if uint64(n) != uint64(s.Size) {
		return nil, fmt.Errorf("n: %d, must be %d, the number of parameters of %s", n, s.Size, s.Name)
	}
	return unsafe.Slice((*float32)(p), int(n)), nil
}

//export pacelineGoTrainerGetParameters
func pacelineGoTrainerGetParameters(out *C.float, n C.size_t, updates *C.int64_t, id C.uint64_t, set *C.char, why *C.pl_error) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		name, to, err := t.hostParameters(set, out, n)
		if err != nil {
			return err
		}
		seen, err := t.GetParameters(name, to)
		if err == nil && updates != nil {
			*updates = C.int64_t(seen)
		}
		return err
	}), why)
}

//export pacelineGoTrainerSetParameters
func pacelineGoTrainerSetParameters(id C.uint64_t, set *C.char, in *C.float, n C.size_t, why *C.pl_error) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		name, from, err := t.hostParameters(set, in, n)
		if err != nil {
			return err
		}
		return t.SetParameters(name, from)
	}), why)
}

//export pacelineGoTrainerHash
func pacelineGoTrainerHash(out **C.char, id C.uint64_t, part *C.char, why *C.pl_error) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		hash, err := t.Hash(C.GoString(part))
		return putText(out, hash, err)
	}), why)
}

//export pacelineGoTrainerSave
func pacelineGoTrainerSave(id C.uint64_t, file *C.char, flags C.uint32_t, why *C.pl_error) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		if flags&^C.PACELINE_SAVE_EXPERIENCE != 0 {
			return fmt.Errorf("flags: %d, must be 0 or PACELINE_SAVE_EXPERIENCE (1)", flags)
		}
		return t.Save(C.GoString(file), flags&C.PACELINE_SAVE_EXPERIENCE != 0)
	}), why)
}

//export pacelineGoTrainerSaveOrder
func pacelineGoTrainerSaveOrder(id C.uint64_t, file *C.char, why *C.pl_error) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		return t.SaveOrder(C.GoString(file))
	}), why)
}

//export pacelineGoTrainerSaveTrace
func pacelineGoTrainerSaveTrace(id C.uint64_t, file *C.char, why *C.pl_error) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		return t.SaveTrace(C.GoString(file))
	}), why)
}

//export pacelineGoTrainerLoad
func pacelineGoTrainerLoad(id C.uint64_t, file *C.char, why *C.pl_error) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		return t.Load(C.GoString(file))
	}), why)
}

//export pacelineGoTrainerLoadExperience
func pacelineGoTrainerLoadExperience(id C.uint64_t, file *C.char, why *C.pl_error) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		return t.LoadExperience(C.GoString(file))
	}), why)
}

//export pacelineGoTrainerEpisodes
func pacelineGoTrainerEpisodes(returns *C.double, lengths *C.int64_t, n *C.size_t, id C.uint64_t, why *C.pl_error) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		list := t.Episodes()
		list = list[len(list)-int(min(*n, C.size_t(len(list)))):]
		for i, e := range list {
			unsafe.Slice(returns, len(list))[i] = C.double(e.Return)
			unsafe.Slice(lengths, len(list))[i] = C.int64_t(e.Length)
		}
		*n = C.size_t(len(list))
		return nil
	}), why)
}

//export pacelineGoTrainerRows
func pacelineGoTrainerRows(rows *C.paceline_rows, actions unsafe.Pointer, id C.uint64_t, why *C.pl_error) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		return t.withRows(rows, 0, func(time.Duration) error {
			if err := t.rows.bindInfos(t.Infos(), t.numEnvs); err != nil {
				return err
			}
			t.actions.bind(&t.spec.Action, actions, t.numEnvs)
			err := t.Latest(&t.rows.vec, t.actions.vec)
			if err == nil {
				t.rows.write(nil)
				t.actions.write()
			}
			return err
		})
	}), why)
}

// withRows calls f with the host's rows bound to t.rows. It refuses concurrent calls.
func (t *trainer) withRows(rows *C.paceline_rows, maxMS C.int64_t, f func(limit time.Duration) error) error {
	if !t.rowsMu.TryLock() {
		return fault.ErrBusy
	}
	defer t.rowsMu.Unlock()
	limit, err := limitOf(maxMS)
	if err != nil {
		return err
	}
	if err := t.rows.bind(t.spec, t.numEnvs, rows); err != nil {
		return err
	}
	return f(limit)
}

// withMasks is withRows for rows that must have masks if actions have masks.
func (t *trainer) withMasks(rows *C.paceline_rows, maxMS C.int64_t, f func(limit time.Duration) error) error {
	if t.spec.Masks && rows.action_masks == nil {
		return fmt.Errorf("rows.action_masks: NULL, must point to %d rows of %d bytes where action_masks is true", t.numEnvs, t.spec.Action.Logits())
	}
	return t.withRows(rows, maxMS, f)
}

//export pacelineGoTrainerAct
func pacelineGoTrainerAct(id C.uint64_t, rows *C.paceline_rows, actions unsafe.Pointer, maxMS C.int64_t, why *C.pl_error) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		return t.withMasks(rows, maxMS, func(limit time.Duration) error {
			t.actions.bind(&t.spec.Action, actions, t.numEnvs)
			err := t.Act(&t.rows.vec, t.actions.vec, limit)
			if err == nil {
				t.actions.write()
			}
			return err
		})
	}), why)
}

//export pacelineGoTrainerObserve
func pacelineGoTrainerObserve(id C.uint64_t, rows *C.paceline_rows, maxMS C.int64_t, why *C.pl_error) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		return t.withMasks(rows, maxMS, func(limit time.Duration) error {
			if t.needsFinalObs && t.rows.vec.FinalObs == nil {
				return fmt.Errorf("rows.final_obs: NULL, must point to %d observations where autoreset is same_step", t.numEnvs)
			}
			if t.needsFinalObs && t.spec.Masks && rows.final_action_masks == nil {
				return fmt.Errorf("rows.final_action_masks: NULL, must point to %d rows of %d bytes where action_masks is true and autoreset is same_step", t.numEnvs, t.spec.Action.Logits())
			}
			if err := t.rows.read(); err != nil {
				return err
			}
			return t.Observe(&t.rows.vec, limit)
		})
	}), why)
}

//export pacelineGoTrainerFree
func pacelineGoTrainerFree(id C.uint64_t, why *C.pl_error) C.int {
	if err := trainers.checkKind(uint64(id)); err != nil {
		return report(err, why)
	}
	if t, ok := trainers.find(uint64(id)); ok && t.family.inside() && t.Busy() {
		return report(errInside, why)
	}
	if t, ok := trainers.remove(uint64(id)); ok {
		guarded(func() error { return t.Close() })
	}
	return C.PACELINE_OK
}
