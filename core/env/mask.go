package env

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/rng"
)

// A mask has one byte for each action, with branches one for each action of each branch; 0: the
// action is not allowed. A nil mask allows all actions. The functions that do not take an
// ActionSpec are about the mask of one branch.

// Masker is an Env that knows which actions its state allows. The caller asks for masks only if
// the Spec says Masks.
type Masker interface {
	Env
	// Mask writes the mask of the state after the latest Reset or Step. The mask allows at least
	// one action of every branch. Mask is not called after a termination.
	Mask(mask []byte) error
}

// ReadMask writes the mask of e, which must be a Masker with actions as spec says. It returns an
// error if the mask allows no action of one branch.
func ReadMask(e Env, spec *ActionSpec, mask []byte) error {
	if err := e.(Masker).Mask(mask); err != nil {
		return err
	}
	return spec.CheckMask(mask)
}

// CheckMask returns an error if a mask allows no action.
func CheckMask(mask []byte) error {
	if mask == nil || Allowed(mask) > 0 {
		return nil
	}
	return fmt.Errorf("action mask: allows none of %d actions, %w", len(mask), fault.ErrNoneAllowed)
}

// Allowed returns how many actions mask allows. The mask must not be nil.
func Allowed(mask []byte) int {
	n := 0
	for _, allowed := range mask {
		if allowed != 0 {
			n++
		}
	}
	return n
}

// NthAllowed returns the action with index k, from 0, among the actions that mask allows.
func NthAllowed(mask []byte, k int) int32 {
	if mask == nil {
		return int32(k)
	}
	a := 0
	for ; k > 0 || mask[a] == 0; a++ {
		if mask[a] != 0 {
			k--
		}
	}
	return int32(a)
}

// RandomAction draws one of n actions, or one of the actions that mask allows, uniformly. It calls
// r.Intn once.
func RandomAction(n int, mask []byte, r *rng.Stream) int32 {
	if mask != nil {
		n = Allowed(mask)
	}
	return NthAllowed(mask, r.Intn(n))
}
