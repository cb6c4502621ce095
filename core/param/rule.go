package param

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paceline-rl/paceline/core/limits"
	"github.com/paceline-rl/paceline/core/nn"
)

// The names of the rules.
const (
	RuleGradient      = "gradient"
	RuleOverwrite     = "overwrite"
	RuleMultiStepAdam = "multi_step_adam"
	RuleMean          = "mean"
)

var rules = []string{RuleGradient, RuleOverwrite, RuleMultiStepAdam, RuleMean}

// Rule says how pushes change the central parameters. The package documentation describes the
// rules.
type Rule struct {
	Name      string
	Optimizer nn.OptimizerConfig // "adam" for multi_step_adam
	// LocalSteps makes Adam's t the learner's own count of steps, as in Stooke & Abbeel's code.
	// Otherwise t is the number of steps that all learners have pushed. Optimisers other than adam
	// and radam do not use t. mean has one count.
	LocalSteps bool
	// EpsCorrected (multi_step_adam) adds eps after the bias correction, as the optimiser "adam":
	// the root is sqrt(v/(1-β2^t)) + eps. Otherwise it is sqrt(v) + eps, as in appendix A.
	EpsCorrected bool
	// MaxStaleness is the largest lag of a gradient that a shard accepts. 0: there is no limit.
	MaxStaleness int64
}

// complete checks the rule and fills in the defaults of the optimiser.
func (r *Rule) complete() error {
	if !slices.Contains(rules, r.Name) {
		return fmt.Errorf("rule: %q, must be one of %s", r.Name, strings.Join(rules, ", "))
	}
	if _, err := r.Optimizer.Complete(); err != nil {
		return err
	}
	switch {
	case r.MaxStaleness < 0:
		return fmt.Errorf("max_staleness: %d, must be at least 0", r.MaxStaleness)
	case r.Name == RuleMultiStepAdam && r.Optimizer.Name != "adam":
		return fmt.Errorf("optimizer.name: %q, must be adam with the rule %s", r.Optimizer.Name, r.Name)
	case r.Name != RuleMultiStepAdam && r.EpsCorrected:
		return fmt.Errorf("eps_corrected: true, the rule %s has no such setting", r.Name)
	case r.Name == RuleMean && r.LocalSteps:
		return fmt.Errorf("local_steps: true, the rule %s has no such setting", r.Name)
	case r.Name == RuleMean && r.MaxStaleness != 0:
		return fmt.Errorf("max_staleness: %d, the rule %s has no such setting", r.MaxStaleness, r.Name)
	}
	return nil
}

const (
	localArrays = 5   // of a Local
	shardBytes  = 128 // of a shard
)

// Memory lists what New, NewLocal for each learner and NewMean allocate for size parameters. The
// central parameters are memory of New's caller.
func (r Rule) Memory(size, shards, learners int) ([]limits.Part, error) {
	if err := r.complete(); err != nil {
		return nil, err
	}
	state, _ := r.Optimizer.Complete()
	array := 4 * int64(size)
	list := []limits.Part{
		{Setting: "optimizer: " + r.Optimizer.Name, Bytes: int64(len(state)) * array},
		{Setting: fmt.Sprintf("shards: %d", shards), Bytes: int64(shards) * shardBytes},
	}
	switch r.Name {
	case RuleMultiStepAdam:
		list = append(list, limits.Part{Setting: fmt.Sprintf("learners: %d", learners), Bytes: int64(learners) * (localArrays*array + 8*int64(shards))})
	case RuleMean:
		list = append(list, limits.Part{Setting: "rule: " + r.Name, Bytes: array})
	}
	return list, nil
}
