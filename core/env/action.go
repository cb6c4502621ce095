package env

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/rng"
)

// ActionSpec describes an action. With N above 0 an action is one integer 0..N-1 (Gymnasium's
// Discrete). With N 0 an action has an integer 0..Branches[b]-1 for each entry of Branches
// (MultiDiscrete), a float32 within Low[k] and High[k] for each entry of Low (a Box with one axis),
// or both (hybrid). The integers come before the numbers of the box, wherever both are in a row.
type ActionSpec struct {
	N        int
	Branches []int32
	// Low and High have equal lengths. Their entries may be infinite. Entries of an action are
	// finite.
	Low, High []float32
	// Names holds the names of the N discrete actions; nil: the actions have no names.
	Names []string
}

// Ints returns the number of integers of an action.
func (s ActionSpec) Ints() int {
	if s.N > 0 {
		return 1
	}
	return len(s.Branches)
}

// Floats returns the number of float32 of an action.
func (s ActionSpec) Floats() int { return len(s.Low) }

// Logits returns N, or the sum of Branches. A mask has as many bytes.
func (s ActionSpec) Logits() int {
	n := s.N
	for _, b := range s.Branches {
		n += int(b)
	}
	return n
}

// Branch returns the number of values of integer b of an action.
func (s *ActionSpec) Branch(b int) int {
	if s.N > 0 {
		return s.N
	}
	return int(s.Branches[b])
}

// Bytes returns the size of an action in bytes.
func (s ActionSpec) Bytes() int { return 4 * (s.Ints() + s.Floats()) }

// EqualKind reports whether the actions of two specs have the same integers and as many float32.
// Their bounds may differ.
func (s ActionSpec) EqualKind(o ActionSpec) bool {
	return s.N == o.N && slices.Equal(s.Branches, o.Branches) && len(s.Low) == len(o.Low)
}

// EqualBounds reports whether the bounds of two specs are the same.
func (s ActionSpec) EqualBounds(o ActionSpec) bool {
	return slices.Equal(s.Low, o.Low) && slices.Equal(s.High, o.High)
}

// OtherBound returns the name of the first bound that differs from o's, such as "high[1]", and both
// values. The name is "" if no bound differs.
func (s ActionSpec) OtherBound(o ActionSpec) (name string, own, other float32) {
	for _, b := range []struct {
		name       string
		own, other []float32
	}{{"low", s.Low, o.Low}, {"high", s.High, o.High}} {
		for k := range min(len(b.own), len(b.other)) {
			if b.own[k] != b.other[k] {
				return fmt.Sprintf("%s[%d]", b.name, k), b.own[k], b.other[k]
			}
		}
	}
	return "", 0, 0
}

// String returns "5 discrete", "branches of [3 2]", "a box of 3" or "branches of [3 2] and a box of
// 3".
func (s ActionSpec) String() string {
	switch branches, box := fmt.Sprintf("branches of %v", s.Branches), fmt.Sprintf("a box of %d", len(s.Low)); {
	case s.N > 0 || len(s.Branches) == 0 && len(s.Low) == 0:
		return fmt.Sprintf("%d discrete", s.N)
	case len(s.Low) == 0:
		return branches
	case len(s.Branches) == 0:
		return box
	default:
		return branches + " and " + box
	}
}

const (
	maxActionBytes = 1 << 20 // a larger size is a mistake in the shape
	maxLogits      = math.MaxInt32
)

// Check returns the first mistake in an ActionSpec, as one sentence.
func (s *ActionSpec) Check() error {
	switch {
	case s.N < 0 || s.N == 0 && len(s.Branches) == 0 && len(s.Low) == 0 && len(s.High) == 0:
		return fmt.Errorf("actions: %d, must be at least 1", s.N)
	case s.N > 0 && (len(s.Branches) > 0 || len(s.Low) > 0 || len(s.High) > 0):
		return fmt.Errorf("actions: %d discrete, must be 0 where an action has branches or a box", s.N)
	case len(s.Low) != len(s.High):
		return fmt.Errorf("action low: %d entries, must be as many as those of high, %d", len(s.Low), len(s.High))
	case s.Bytes() > maxActionBytes:
		return fmt.Errorf("actions: %d branches and a box of %d, must be at most %d bytes", len(s.Branches), len(s.Low), maxActionBytes)
	}
	logits := s.N
	for b, n := range s.Branches {
		if n < 1 {
			return fmt.Errorf("action branches[%d]: %d, must be at least 1", b, n)
		}
		logits += int(n)
	}
	if logits > maxLogits {
		return fmt.Errorf("actions: %d of all branches, must be at most %d", logits, maxLogits)
	}
	for k, low := range s.Low {
		switch high := s.High[k]; {
		case low != low:
			return fmt.Errorf("action low[%d]: %v, must be a number or infinite", k, low)
		case high != high:
			return fmt.Errorf("action high[%d]: %v, must be a number or infinite", k, high)
		case low > high:
			return fmt.Errorf("action low[%d]: %v, must be at most high[%d], %v", k, low, k, high)
		case low > math.MaxFloat32 || high < -math.MaxFloat32:
			return fmt.Errorf("action low[%d]: %v, must be such that a finite number lies between it and high[%d], %v", k, low, k, high)
		}
	}
	return nil
}

// Bounded reports whether all bounds of the box are finite.
func (s ActionSpec) Bounded() bool {
	for k, low := range s.Low {
		if low < -math.MaxFloat32 || s.High[k] > math.MaxFloat32 {
			return false
		}
	}
	return true
}

// Clip writes a box action to `to`, each entry moved to the nearest number within its bounds. NaN
// remains NaN.
func (s *ActionSpec) Clip(to, box []float32) {
	for k, x := range box {
		to[k] = min(max(x, s.Low[k]), s.High[k])
	}
}

// CheckAction returns an error for an action that is not one of the spec, whose lengths the caller
// has checked.
func (s *ActionSpec) CheckAction(branches []int32, box []float32) error {
	for b, a := range branches {
		if n := s.Branch(b); a < 0 || int(a) >= n {
			if s.N > 0 {
				return fmt.Errorf("action: %d, must be 0 to %d", a, n-1)
			}
			return fmt.Errorf("action branch %d: %d, must be 0 to %d", b, a, n-1)
		}
	}
	for k, x := range box {
		low, high := s.Low[k], s.High[k]
		switch finite := x-x == 0; {
		case finite && x >= low && x <= high:
		case finite || low >= -math.MaxFloat32 && high <= math.MaxFloat32:
			return fmt.Errorf("action[%d]: %v, must be %v to %v", k, x, low, high)
		default:
			return fmt.Errorf("action[%d]: %v, must be finite", k, x)
		}
	}
	return nil
}

// CheckSize returns an error if branches and box are not n actions.
func (s *ActionSpec) CheckSize(branches []int32, box []float32, n int) error {
	ints, floats := s.Ints(), s.Floats()
	switch {
	case s.N > 0 && len(branches) != n:
		return fmt.Errorf("actions: %d, must be %d, one for each environment", len(branches), n)
	case len(branches) != n*ints:
		return fmt.Errorf("actions: %d integers, must be %d, %d for each environment", len(branches), n*ints, ints)
	case len(box) != n*floats:
		return fmt.Errorf("actions: %d numbers of a box, must be %d, %d for each environment", len(box), n*floats, floats)
	}
	return nil
}

// CheckMask returns an error if a mask allows no action of one branch.
func (s *ActionSpec) CheckMask(mask []byte) error {
	if mask == nil || s.N > 0 {
		return CheckMask(mask)
	}
	for b, n := range s.Branches {
		if Allowed(mask[:n]) == 0 {
			return fmt.Errorf("action mask: branch %d allows none of %d actions, %w", b, n, fault.ErrNoneAllowed)
		}
		mask = mask[n:]
	}
	return nil
}

// Random draws an action: an allowed value of each branch uniformly, by one call of r.Intn, and
// each entry of the box uniformly within its bounds, by one call of r.Uniform. An entry without
// bounds is drawn from [-1, 1]. An entry with one bound lies within 1 of it.
func (s *ActionSpec) Random(mask []byte, r *rng.Stream, branches []int32, box []float32) {
	for b := range branches {
		n := s.Branch(b)
		if mask == nil {
			branches[b] = RandomAction(n, nil, r)
			continue
		}
		branches[b] = RandomAction(n, mask[:n], r)
		mask = mask[n:]
	}
	for k := range box {
		low, high := float64(s.Low[k]), float64(s.High[k])
		switch below, above := low < -math.MaxFloat32, high > math.MaxFloat32; {
		case below && above:
			low, high = -1, 1
		case below:
			low = high - 1
		case above:
			high = low + 1
		}
		box[k] = float32(r.Uniform(low, high))
	}
}

// errNoStepAction is the error of environments whose actions need an ActionEnv.
var errNoStepAction = errors.New("must be discrete where the environment has no StepAction")

// CheckEnv returns an error if e cannot take the actions of its spec.
func (s *ActionSpec) CheckEnv(e Env) error {
	if _, ok := e.(ActionEnv); !ok && s.N == 0 {
		return fmt.Errorf("actions: %v, %w", s, errNoStepAction)
	}
	return nil
}

// Step takes an action of any kind in e.
func (s *ActionSpec) Step(e Env, branches []int32, box []float32, obs []byte) (reward float32, end End, err error) {
	if s.N > 0 {
		return e.Step(branches[0], obs)
	}
	return e.(ActionEnv).StepAction(branches, box, obs)
}
