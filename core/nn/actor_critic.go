package nn

import "fmt"

// ActorCritic is the loss of advantage actor-critic, on a head "pi" of logits and a
// head "v" of one value: over rows i of weight w_i, with H the entropy of pi(.|s_i),
//
//	sum of w_i (-advantage_i log pi(a_i|s_i) - EntropyCoef H_i + ValueCoef (v_i - return_i)²)
//
// divided by the sum of w_i. With all weights 1 and ValueCoef vf_coef it is that of
// Stable-Baselines3's A2C; Mnih et al. 2016 have a half of the squared error, Stooke
// & Abbeel a quarter. A row of weight 0 counts for nothing, whatever it holds. Actions
// that Batch.Masks forbids have no probability.
type ActorCritic struct {
	EntropyCoef float64 // 0 or above
	ValueCoef   float64 // 0 or above
}

// Columns returns "advantage", "return" and "weight".
func (l ActorCritic) Columns() []Column {
	return []Column{
		{"advantage", "how much better the action was than the value said"},
		{"return", "what the value should be"},
		{"weight", "what the row counts: 0 for a row that is no step"},
	}
}

// Parts returns "policy", "value" and "entropy": the weighted means of
// -advantage log pi, of the squared error without its coefficient, and of H.
func (l ActorCritic) Parts() []string { return []string{"policy", "value", "entropy"} }

func (l ActorCritic) Check(s *Spec) error { return checkActorCritic(s, l.EntropyCoef, l.ValueCoef) }

// PPO is the clipped loss of Schulman et al. 2017, on the heads of ActorCritic: that loss
// with, in place of -advantage_i log pi(a_i|s_i),
//
//	-min(ratio_i advantage_i, clamp(ratio_i, 1-range_i, 1+range_i) advantage_i)
//
// where ratio_i is pi(a_i|s_i) by that of the policy that acted, and with a squared error
// that may be clipped, too: of the value kept within value_range_i of what it was then
// (Stable-Baselines3's), or the larger of that one and the value's own (Largest; OpenAI
// Baselines' and CleanRL's).
type PPO struct {
	EntropyCoef float64 // 0 or above
	ValueCoef   float64 // 0 or above
	Largest     bool
}

// Columns returns those of ActorCritic and "log_prob", "clip_range", "old_value" and
// "clip_range_vf".
func (l PPO) Columns() []Column {
	return append(ActorCritic{}.Columns(),
		Column{"log_prob", "logarithm of the action's probability when it was taken"},
		Column{"clip_range", "how far from 1 the ratio of the probabilities counts"},
		Column{"old_value", "the state's value then"},
		Column{"clip_range_vf", "how far from it the value counts; +Inf: anywhere"})
}

// Parts returns those of ActorCritic, the first of the clipped ratios, and
// "approx_kl" and "clip_fraction": the weighted means of (ratio - 1) - log ratio and of
// how many ratios are out of their range, neither of which is part of the loss.
func (l PPO) Parts() []string {
	return append(ActorCritic{}.Parts(), "approx_kl", "clip_fraction")
}

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
	if _, err := s.need("pi"); err != nil {
		return err
	}
	one, err := s.need("v")
	if err == nil && one != 1 {
		err = fmt.Errorf("heads: \"v\" has %d outputs, must be 1", one)
	}
	return err
}
