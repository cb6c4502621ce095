package capi

/*
#include "bridge.h"
*/
import "C"

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/paceline-rl/paceline/core/limits"
	"github.com/paceline-rl/paceline/core/param"
	"github.com/paceline-rl/paceline/core/train"
)

//export pacelineGoTrainerGradient
func pacelineGoTrainerGradient(out *C.float, n C.size_t, info *C.paceline_gradient, id C.uint64_t, maxMS C.int64_t, why *C.pl_error) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		to, err := hostSet(&t.sets[0], out, n)
		if err != nil {
			return err
		}
		limit, err := limitOf(maxMS)
		if err != nil {
			return err
		}
		g, err := t.Gradient(to, limit)
		if err != nil {
			return err
		}
		fillGradient(info, g)
		return nil
	}), why)
}

func fillGradient(info *C.paceline_gradient, g train.GradientInfo) {
	info.state = map[train.GradientState]C.uint32_t{
		train.GradientNone: C.PACELINE_GRADIENT_NONE, train.GradientReady: C.PACELINE_GRADIENT_READY,
		train.GradientDropped: C.PACELINE_GRADIENT_DROPPED, train.GradientLater: C.PACELINE_GRADIENT_LATER,
	}[g.State]
	info.number, info.updates, info.num_timesteps, info.rows = C.int64_t(g.Number), C.int64_t(g.Updates), C.int64_t(g.Steps), C.int64_t(g.Rows)
	info.loss, info.learning_rate = C.double(g.Loss), C.double(g.Rate)
}

//export pacelineGoTrainerAdopt
func pacelineGoTrainerAdopt(id C.uint64_t, in *C.float, n C.size_t, updates, steps C.int64_t, why *C.pl_error) C.int {
	return report(trainers.use(uint64(id), func(t *trainer) error {
		from, err := hostSet(&t.sets[0], in, n)
		if err != nil {
			return err
		}
		return t.Adopt(from, int64(updates), int64(steps))
	}), why)
}

var stores = newTable[*param.Range](kindStore)

// rangeOptions converts the host's options.
func rangeOptions(o *C.paceline_store_options) (to param.RangeOptions, err error) {
	if o.optimizer == nil {
		return to, fmt.Errorf("options.optimizer: NULL, must name an optimiser")
	}
	c := &to.Optimizer
	c.Name = C.GoString(o.optimizer)
	c.Eps, c.Decay, c.Beta1, c.Beta2 = float64(o.eps), float64(o.decay), float64(o.beta1), float64(o.beta2)
	c.FirstAverage = float64(o.first_average)
	if c.Centered, err = flag("options.centered", o.centered); err != nil {
		return to, err
	}
	c.EpsInside, err = flag("options.eps_inside", o.eps_inside)
	to.First, to.MaxStaleness = int64(o.first), int64(o.max_staleness)
	return to, err
}

//export pacelineGoStoreNew
func pacelineGoStoreNew(out *C.uint64_t, parameters *C.float, n C.size_t, o *C.paceline_store_options, why *C.pl_error) C.int {
	return create(out, stores, why, func() (*param.Range, error) {
		options, err := rangeOptions(o)
		if err != nil {
			return nil, err
		}
		if n < 1 || n > param.MaxRange {
			return nil, fmt.Errorf("n: %d, must be 1 to %d", n, int64(param.MaxRange))
		}
		return param.NewRange(unsafe.Slice((*float32)(parameters), int(n)), options)
	})
}

// hostRange returns the host's array of n floats, one for each parameter of a store.
func hostRange(r *param.Range, p *C.float, n C.size_t) ([]float32, error) {
	if size := r.Size(); uint64(n) != uint64(size) {
		return nil, fmt.Errorf("n: %d, must be %d, the number of parameters of the store", n, size)
	}
	return unsafe.Slice((*float32)(p), int(n)), nil
}

//export pacelineGoStorePush
func pacelineGoStorePush(out *C.paceline_answer, id C.uint64_t, grad *C.float, n C.size_t, p *C.paceline_push, why *C.pl_error) C.int {
	return report(stores.use(uint64(id), func(r *param.Range) error {
		from, err := hostRange(r, grad, n)
		if err != nil {
			return err
		}
		if p.seen < 0 {
			return fmt.Errorf("push.seen: %d, must be at least 0", p.seen)
		}
		key := param.Key{Learner: int64(p.learner), Life: int64(p.life), Step: int64(p.step)}
		a, err := r.Push(from, float64(p.learning_rate), uint64(p.seen), key)
		out.version, out.lag = C.int64_t(a.Version), C.int64_t(min(a.Lag, math.MaxInt64))
		if a.Duplicate {
			out.duplicate = 1
		}
		return err
	}), why)
}

//export pacelineGoStorePull
func pacelineGoStorePull(out *C.float, n C.size_t, version *C.int64_t, id C.uint64_t, why *C.pl_error) C.int {
	return report(stores.use(uint64(id), func(r *param.Range) error {
		to, err := hostRange(r, out, n)
		if err != nil {
			return err
		}
		at, err := r.Pull(to)
		if err == nil && version != nil {
			*version = C.int64_t(at)
		}
		return err
	}), why)
}

//export pacelineGoStoreDescribe
func pacelineGoStoreDescribe(out **C.char, id C.uint64_t, why *C.pl_error) C.int {
	return report(stores.use(uint64(id), func(r *param.Range) error { return putJSON(out, r.Describe()) }), why)
}

//export pacelineGoStoreSave
func pacelineGoStoreSave(id C.uint64_t, file *C.char, why *C.pl_error) C.int {
	return report(stores.use(uint64(id), func(r *param.Range) error { return r.Save(C.GoString(file)) }), why)
}

//export pacelineGoStoreLoad
func pacelineGoStoreLoad(out *C.uint64_t, file *C.char, why *C.pl_error) C.int {
	return create(out, stores, why, func() (*param.Range, error) { return param.LoadRange(C.GoString(file)) })
}

//export pacelineGoStoreToBytes
func pacelineGoStoreToBytes(out unsafe.Pointer, size *C.size_t, id C.uint64_t, why *C.pl_error) C.int {
	return report(stores.use(uint64(id), func(r *param.Range) error {
		b, err := r.Bytes()
		if err != nil {
			return err
		}
		return putBytes(out, size, b)
	}), why)
}

//export pacelineGoStoreFromBytes
func pacelineGoStoreFromBytes(out *C.uint64_t, from unsafe.Pointer, size C.size_t, why *C.pl_error) C.int {
	return create(out, stores, why, func() (*param.Range, error) {
		if size > maxBytes {
			return nil, fmt.Errorf("size: %d, must be at most %d", size, maxBytes)
		}
		if err := limits.Admit(limits.Part{Setting: fmt.Sprintf("size: %d", size), Bytes: int64(size)}); err != nil {
			return nil, err
		}
		return param.RangeFromBytes(unsafe.Slice((*byte)(from), int(size)))
	})
}

//export pacelineGoStoreFree
func pacelineGoStoreFree(id C.uint64_t) { stores.remove(uint64(id)) }
