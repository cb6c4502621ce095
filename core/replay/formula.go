package replay

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/paceline-rl/paceline/core/portable"
)

// Formula says how errors become priorities and draws, as the code of one publication does. The
// numbers stand in checkpoints.
//
// A weight is (N P)^-beta over the largest weight of the minibatch, where N is the number of
// transitions that can be drawn and P the probability of the transition; Dopamine has p in the
// place of N P. e is the error of a transition, as Error has it, p its priority.
type Formula uint32

const (
	// StookeAbbeel (accel_rl): p = clip(e)^alpha, and 1 for a transition that was never drawn. The
	// transitions of a minibatch differ. accel_rl sorts 1.05 times as many draws as it needs and
	// discards the last ones, so that the last environments are drawn too rarely; here a draw is
	// repeated instead.
	StookeAbbeel Formula = iota
	// DQNZoo (dqn_zoo): p = e^alpha, and the largest p so far, from 1 on, for a transition that was
	// never drawn. One draw in 1,000 ignores p.
	DQNZoo
	// Dopamine (Dopamine's full Rainbow): p = (e + 1e-10)^alpha with alpha 1/2, stratified draws,
	// transitions that were never drawn as in DQNZoo. The weight is (p + 1e-10)^-beta with beta 1/2.
	Dopamine
	// Kaixhin (Kaixhin's Rainbow): p = e^alpha, stratified draws, transitions that were never drawn as
	// in DQNZoo.
	Kaixhin
	// CuLE (CuLE's Rainbow): P is in proportion to rank^-alpha, where the transition of the largest e
	// has rank 1, after those that were never drawn. Draws are stratified. CuLE draws ranks of a
	// stratum with equal probabilities, but weights them by their own; here P is the probability.
	CuLE
)

// FormulaNames are the names of Formulas, as settings have them.
var FormulaNames = []string{StookeAbbeel: "stooke_abbeel", DQNZoo: "dqn_zoo", Dopamine: "dopamine", Kaixhin: "kaixhin", CuLE: "cule"}

func (f Formula) String() string { return FormulaNames[f] }

// ParseFormula returns the Formula of a name.
func ParseFormula(name string) (Formula, error) {
	i := slices.Index(FormulaNames, name)
	if i < 0 {
		return 0, fmt.Errorf("prioritized: %q, must be one of %s", name, strings.Join(FormulaNames, ", "))
	}
	return Formula(i), nil
}

// Error is the error of a transition, from which a Formula makes its priority.
type Error uint8

const (
	AbsoluteTD Error = iota // |target - Q|, not clipped
	RowLoss                 // the loss of the row before its weight: a cross-entropy, a quantile loss, the Huber loss of |target - Q|
	Divergence              // of probabilities the Kullback-Leibler divergence of the target from the prediction, of quantiles the RowLoss
)

// Error returns the error that the formula takes where Q-values are means of distributions, and
// where they are not.
func (f Formula) Error(distributions bool) Error {
	switch {
	case distributions && f == StookeAbbeel:
		return Divergence
	case distributions || f == Dopamine:
		return RowLoss
	}
	return AbsoluteTD
}

// clip returns the limits of errors, where Q-values are means of distributions and where they are
// not.
func (f Formula) clip(distributions bool) (low, high float64) {
	switch {
	case f == StookeAbbeel && distributions:
		return 1e-6, 1e6
	case f == StookeAbbeel:
		return 0, 1
	case f == DQNZoo && distributions:
		return 0, 100
	}
	return 0, math.Inf(1)
}

// rule is what the code of a Formula depends on.
type rule struct {
	offset     float64 // is added to errors, and for weights to priorities
	mix        float64 // share of draws with equal probabilities
	fresh      float64 // priority of transitions that were never drawn; 0: the largest so far
	distinct   bool    // the transitions of a minibatch differ
	stratified bool    // draw i of n is from the i-th of n equal parts of the total
	ranked     bool    // by rank
}

var rules = [...]rule{
	StookeAbbeel: {fresh: 1, distinct: true},
	DQNZoo:       {mix: 1e-3},
	Dopamine:     {offset: 1e-10, stratified: true},
	Kaixhin:      {stratified: true},
	CuLE:         {fresh: math.MaxFloat32, stratified: true, ranked: true},
}

// Priorities configures a Prioritised.
type Priorities struct {
	Formula Formula
	Alpha   float64 // exponent of errors, 0 to 2
	// Distributions says that Q-values are means of distributions, so that the errors of Update are
	// those of Formula.Error; else they are target - Q.
	Distributions bool
	N             int // steps of a transition, 1 to Capacity/Envs
	Tails         Tails
	// Deferred: priorities change at the next Flushed only, by the last error of each transition.
	Deferred bool
}

func (c *Priorities) check() error {
	switch {
	case int(c.Formula) >= len(FormulaNames):
		return fmt.Errorf("prioritized: %d, must be 0 to %d", c.Formula, len(FormulaNames)-1)
	case !(c.Alpha >= 0 && c.Alpha <= 2):
		return fmt.Errorf("priority_alpha: %v, must be 0 to 2", c.Alpha)
	case int(c.Tails) >= len(TailNames):
		return fmt.Errorf("n_step_tails: %d, must be 0 to %d", c.Tails, len(TailNames)-1)
	}
	return nil
}

// checkError panics if an error is not finite.
func checkError(err float32) {
	if !(math.Abs(float64(err)) <= math.MaxFloat32) {
		panic(fmt.Sprintf("replay: Update with an error of %v", err))
	}
}

// priority returns the priority of an error.
func (c *Priorities) priority(err float32) float64 {
	checkError(err)
	e, rule := float64(err), &rules[c.Formula]
	if !c.Distributions {
		e = math.Abs(e)
		if c.Formula.Error(false) == RowLoss {
			e = huber(e)
		}
	}
	low, high := c.Formula.clip(c.Distributions)
	e = min(max(e, low), high)
	if rule.ranked {
		return e // the exponent is that of ranks
	}
	if e > 0 || rule.offset > 0 {
		return portable.Pow(e+rule.offset, c.Alpha)
	}
	return 0 // also where alpha is 0, as in dqn_zoo
}

// huber is the Huber loss of the magnitude of an error.
func huber(e float64) float64 {
	if e <= 1 {
		return e * e / 2
	}
	return e - 0.5
}
