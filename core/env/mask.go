package env

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/rng"
)

// A mask has a byte for each action, 0 where it may not be taken. nil allows all.

// Masker is an Env that knows which actions may be taken, and is asked where its Spec says
// Masks.
type Masker interface {
	Env
	// Mask writes the mask of the state that the latest Reset or Step left. It allows one
	// action at least. Nobody asks after a termination.
	Mask(mask []byte) error
}

// ReadMask asks e, a Masker, and refuses a mask that allows nothing.
func ReadMask(e Env, mask []byte) error {
	if err := e.(Masker).Mask(mask); err != nil {
		return err
	}
	return CheckMask(mask)
}

// CheckMask refuses a mask that allows nothing.
func CheckMask(mask []byte) error {
	if mask == nil || Allowed(mask) > 0 {
		return nil
	}
	return fmt.Errorf("action mask: allows none of %d actions, %w", len(mask), fault.ErrNoneAllowed)
}

// Allowed returns how many actions a mask allows that is not nil.
func Allowed(mask []byte) int {
	n := 0
	for _, allowed := range mask {
		if allowed != 0 {
			n++
		}
	}
	return n
}

// NthAllowed returns number k, from 0, of the actions that mask allows.
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

// RandomAction draws one of n actions, or of those that mask allows, each with the same
// probability: one call of r.Intn.
func RandomAction(n int, mask []byte, r *rng.Stream) int32 {
	if mask != nil {
		n = Allowed(mask)
	}
	return NthAllowed(mask, r.Intn(n))
}
