package nn

import (
	"errors"
	"fmt"
)

// ActorCritic is the loss of advantage actor-critic, on heads "pi" and "mu" of a policy, or one of
// them, and a head "v" of one value. Row i has weight w_i, and H_i is the entropy of pi(.|s_i):
//
//	sum of w_i (-advantage_i log pi(a_i|s_i) - EntropyCoef H_i + ValueCoef (v_i - return_i)²)
//
// divided by the sum of w_i. With all weights 1 and ValueCoef vf_coef it is the loss of
// Stable-Baselines3's A2C. Mnih et al. 2016 halve the squared error, Stooke & Abbeel take a quarter
// of it. A row of weight 0 does not change the loss, whatever its numbers are. Actions that
// Batch.Masks forbids have probability 0.
//
// log pi(a|s) and H are sums over the branches of "pi" and the Gaussians of "mu".
type ActorCritic struct {
	EntropyCoef float64 // 0 or above
	ValueCoef   float64 // 0 or above
	// Regulariser keeps the logarithms of the branches finite: RegulariserPlus, with which log pi(a|s)
	// is log(pi + LogEps) and H is -sum of (pi + LogEps) log(pi + LogEps), or RegulariserMax, with
	// which they are log(max(pi, LogEps)) and -sum of pi log(max(pi, LogEps)), both of each branch.
	// "": the logarithms are exact.
	Regulariser string
	LogEps      float64 // above 0, at most 1, with a Regulariser
}

// Regularisers of ActorCritic.
const (
	RegulariserPlus = "plus"
	RegulariserMax  = "max"
)

// Columns returns "advantage", "return" and "weight".
func (l ActorCritic) Columns(*Spec) []Column {
	return []Column{
		{"advantage", 1, "return minus the value of the state"},
		{"return", 1, "target of the value"},
		{"weight", 1, "weight of the row; 0: the row is no step"},
	}
}

// Parts returns "policy", "value" and "entropy": the weighted means of -advantage log pi, of the
// squared error without its coefficient, and of H.
func (l ActorCritic) Parts() []string { return []string{"policy", "value", "entropy"} }

// PerRow returns "".
func (l ActorCritic) PerRow() string { return "" }

func (l ActorCritic) Check(s *Spec) error {
	switch l.Regulariser {
	case "":
	case RegulariserPlus, RegulariserMax:
		if !(float32(l.LogEps) > 0 && l.LogEps <= 1) {
			return fmt.Errorf("loss.log_eps: %v, must be above 0 and at most 1", l.LogEps)
		}
	default:
		return fmt.Errorf("loss.regulariser: %q, must be \"\", %q or %q", l.Regulariser, RegulariserPlus, RegulariserMax)
	}
	return checkActorCritic(s, l.EntropyCoef, l.ValueCoef)
}

// PPO is the clipped loss of Schulman et al. 2017, on the heads of ActorCritic. It is that loss
// with
//
//	-min(ratio_i advantage_i, clamp(ratio_i, 1-clip_range_i, 1+clip_range_i) advantage_i)
//
// in place of -advantage_i log pi(a_i|s_i), where ratio_i is pi(a_i|s_i) divided by the probability
// of a_i when it was taken. The squared error is that of the value clamped to clip_range_vf_i
// around old_value_i, as in Stable-Baselines3. With Largest it is the larger of this error and the
// unclamped one, as in OpenAI Baselines and CleanRL.
type PPO struct {
	EntropyCoef float64 // 0 or above
	ValueCoef   float64 // 0 or above
	Largest     bool
}

// Columns returns the columns of ActorCritic, then "log_prob", "clip_range", "old_value" and
// "clip_range_vf".
func (l PPO) Columns(s *Spec) []Column {
	return append(ActorCritic{}.Columns(s),
		Column{"log_prob", 1, "logarithm of the action's probability when it was taken"},
		Column{"clip_range", 1, "largest distance of the ratio from 1"},
		Column{"old_value", 1, "value of the state when the action was taken"},
		Column{"clip_range_vf", 1, "largest distance of the value from old_value; +Inf: no limit"})
}

// Parts returns the parts of ActorCritic, with the clipped policy loss, then "approx_kl" and
// "clip_fraction". approx_kl is the weighted mean of (ratio - 1) - log ratio, clip_fraction the
// weighted share of ratios outside their range. Neither is part of the loss.
func (l PPO) Parts() []string {
	return append(ActorCritic{}.Parts(), "approx_kl", "clip_fraction")
}

// PerRow returns "".
func (l PPO) PerRow() string { return "" }

func (l PPO) Check(s *Spec) error { return checkActorCritic(s, l.EntropyCoef, l.ValueCoef) }

func checkActorCritic(s *Spec, entropyCoef, valueCoef float64) error {
	for _, c := range []struct {
		name string
		of   float64
	}{{"entropy_coef", entropyCoef}, {"value_coef", valueCoef}} {
		if !(c.of >= 0 && c.of <= 1e6) {
			return fmt.Errorf("loss.%s: %v, must be 0 to 1e6", c.name, c.of)
		}
	}
	if s.Head("pi") < 0 && s.Head("mu") < 0 {
		return errors.New(`heads: none is called "pi" or "mu", which the loss needs`)
	}
	v, err := s.need("v")
	if err == nil && v.Out != 1 {
		err = fmt.Errorf("heads: \"v\" has %d outputs, must be 1", v.Out)
	}
	return err
}
