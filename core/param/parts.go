package param

import (
	"fmt"
	"slices"

	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/nn"
)

// most is the largest count in a checkpoint.
const most = 1 << 51

// partBytes is the largest size of a part of JSON with a few counts for each shard.
func partBytes(shards int) int64 { return 1<<10 + 100*int64(shards) }

// saved is the part "store" of a checkpoint.
type saved struct {
	Rule     string   `json:"rule"`
	Versions []uint64 `json:"versions"`
	Steps    []int64  `json:"steps"`
	Refused  []uint64 `json:"refused"`
	Pulls    []uint64 `json:"pulls"`
}

// Parts lists the parts of a checkpoint: the central parameters as name.safetensors, the state of
// the optimiser, the versions and the counts. No visit may be in progress when a part is written or
// adopted. A Store with another rule, other parameters or another number of shards refuses the
// parts.
func (s *Store) Parts(name string) []checkpoint.Part {
	return []checkpoint.Part{
		nn.ParamsPart(name+".safetensors", s.params),
		nn.TensorsPart("optimizer.safetensors", s.state),
		checkpoint.JSON("store.json", partBytes(len(s.shards)), s.save, func(from saved) (func(), error) {
			return func() { s.adopt(&from) }, s.checkSaved(&from)
		}),
	}
}

func (s *Store) save() (saved, error) {
	to := saved{Rule: s.rule.Name}
	for i := range s.shards {
		at := &s.shards[i]
		to.Versions, to.Steps = append(to.Versions, at.version), append(to.Steps, at.steps)
		to.Refused, to.Pulls = append(to.Refused, at.refused), append(to.Pulls, at.pulls)
	}
	return to, nil
}

func (s *Store) adopt(from *saved) {
	for i := range s.shards {
		at := &s.shards[i]
		at.version, at.steps, at.refused, at.pulls = from.Versions[i], from.Steps[i], from.Refused[i], from.Pulls[i]
	}
	s.params.Updates = from.Versions[len(s.shards)-1]
}

// checkSaved refuses counts that no Store with this rule has.
func (s *Store) checkSaved(from *saved) error {
	n := len(s.shards)
	if from.Rule != s.rule.Name {
		return fmt.Errorf("store: rule %q, must be %q", from.Rule, s.rule.Name)
	}
	if len(from.Versions) != n || len(from.Steps) != n || len(from.Refused) != n || len(from.Pulls) != n {
		return fmt.Errorf("store: %d shards, must be %d", len(from.Versions), n)
	}
	if largest := max(slices.Max(from.Versions), slices.Max(from.Refused), slices.Max(from.Pulls)); largest > most {
		return fmt.Errorf("store: a count of %d, must be at most %d", largest, uint64(most))
	}
	for i, version := range from.Versions {
		steps := from.Steps[i]
		if steps < int64(version) || steps > most || s.rule.Name != RuleMultiStepAdam && steps != int64(version) {
			return fmt.Errorf("store: version %d of shard %d has %d steps", version, i, steps)
		}
	}
	return nil
}
