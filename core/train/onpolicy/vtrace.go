package onpolicy

import (
	"fmt"
	"slices"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/rollout"
	"github.com/paceline-rl/paceline/core/settings"
)

// VTraceSettings are the settings of V-trace (Espeholt et al. 2018, "IMPALA"), for rollouts that
// were taken with older parameters.
type VTraceSettings struct {
	VTrace    bool
	VTraceRho float64
	VTraceC   float64
}

// VTraceOfRollouts is the doc of vtrace in PPO and APPO.
const VTraceOfRollouts = "compute advantages and returns by V-trace (Espeholt et al. 2018) with the parameters that learn, instead of by generalised advantage estimation with those that acted: for rollouts inside which parameters were pulled"

// VTraceSettingsOf describes VTraceSettings for a method whose struct is C. doc describes vtrace,
// and more are settings that come after it.
func VTraceSettingsOf[C any](doc string, part func(*C) *VTraceSettings, more ...settings.Setting) []settings.Setting {
	type v = VTraceSettings
	list := settings.Within(part, []settings.Setting{
		settings.Bool("vtrace", false, doc, func(c *v) *bool { return &c.VTrace }),
		settings.Float("vtrace_rho", 1, 0, 1e6, "limit of the ratios of probabilities in temporal differences", func(c *v) *float64 { return &c.VTraceRho }),
		settings.Float("vtrace_c", 1, 0, 1e6, "limit of the ratios of probabilities in the trace", func(c *v) *float64 { return &c.VTraceC }),
	})
	return slices.Concat(list[:1], more, list[1:])
}

// Switched lists the settings that are used with some values of another setting only.
func (s *VTraceSettings) Switched() []settings.Switched {
	return []settings.Switched{{Names: "vtrace_rho vtrace_c", By: "vtrace", Used: s.VTrace}}
}

// VTraceByGroups are the settings of updates with V-trace by groups of environments, as in Dalton
// et al. 2020 (CuLE), section 5.2.
type VTraceByGroups struct {
	VTraceSettings
	VTraceGroups int
	VTraceSteps  int
}

// Check refuses groups that do not fit rollouts of a number of rounds and environments. name is
// what the number of environments is called.
func (g *VTraceByGroups) Check(nSteps, envs int, name string) error {
	switch {
	case !g.VTrace:
		return nil
	case envs%g.VTraceGroups != 0:
		return fmt.Errorf("vtrace_groups: %d, must divide %s (%d)", g.VTraceGroups, name, envs)
	case g.VTraceSteps > nSteps || nSteps%(g.VTraceGroups*g.VTraceSteps) != 0:
		return fmt.Errorf("vtrace_groups: %d, must times vtrace_steps (%d) divide n_steps (%d)", g.VTraceGroups, g.VTraceSteps, nSteps)
	}
	return nil
}

// Switched lists the settings that are used with some values of another setting only.
func (g *VTraceByGroups) Switched() []settings.Switched {
	return append(g.VTraceSettings.Switched(), settings.Switched{Names: "vtrace_groups vtrace_steps", By: "vtrace", Used: g.VTrace})
}

// VTraceByGroupsSettings describes VTraceByGroups for a method whose struct is C.
func VTraceByGroupsSettings[C any](part func(*C) *VTraceByGroups) []settings.Setting {
	return settings.Within(part, VTraceSettingsOf("learn from a window of the latest n_steps rounds, one group of environments at a time, with V-trace (Espeholt et al. 2018), as in Dalton et al. 2020", func(c *VTraceByGroups) *VTraceSettings { return &c.VTraceSettings },
		settings.Int("vtrace_groups", 1, 1, 65536, "groups of environments; must divide num_envs", func(c *VTraceByGroups) *int { return &c.VTraceGroups }),
		settings.Int("vtrace_steps", 1, 1, nn.MaxRows, "rounds between two updates, each of one group; vtrace_groups * vtrace_steps must divide n_steps, and the quotient is the number of updates that learn from a step", func(c *VTraceByGroups) *int { return &c.VTraceSteps }),
	))
}

// VTrace computes the advantages and returns of a window that is full, by V-trace. The rows are
// those of neighbouring environments, round by round.
type VTrace struct {
	// Batch has the rows of the latest Gather: Rows, actions, masks. The caller owns its columns.
	Batch nn.Batch
	// Values are V of the rows by Theta, after Target.
	Values []float32

	worker       *Worker
	constants    rollout.VTrace
	distribution *policy.Distribution
	envs         int      // of the rows
	chunk        nn.Batch // of the Stepper's size
	logPi        []float32
}

// NewVTrace returns a VTrace of the rows of a number of environments. The batch gets columns. The
// Config of w says what the policy is.
func NewVTrace(w *Worker, spec env.Spec, s *VTraceSettings, gamma, lambda float64, envs, columns int) *VTrace {
	rows := w.cfg.Horizon * envs
	return &VTrace{
		Batch: NewBatch(spec, rows, columns), Values: make([]float32, rows), logPi: make([]float32, rows),
		worker: w, envs: envs, chunk: nn.Batch{Rows: make([]int32, w.cfg.Batch)},
		distribution: w.cfg.Chooser.(*policy.Sampler).Distribution,
		constants:    rollout.VTrace{Gamma: gamma, Lambda: lambda, Rho: s.VTraceRho, C: s.VTraceC, LogProb: ColumnLogProb},
	}
}

// VTraceBytes is the memory of NewVTrace.
func VTraceBytes(spec env.Spec, rows, columns int) int64 {
	return MinibatchesBytes(spec, rows, columns+2, 0)
}

// Gather fills in Batch and weights with the rows of environments from `first` on, and reports
// whether they have a step.
func (v *VTrace) Gather(first int, weights []float32) bool {
	b := &v.Batch
	v.worker.Rollout.Gather(first, v.envs, b.Rows, b.Actions, b.Continuous, b.Masks, weights)
	return slices.Contains(weights, 1)
}

// Target fills in the advantages and returns of the rows of the latest Gather, whose arguments were
// the same.
func (v *VTrace) Target(first int, weights, advantages, returns []float32) error {
	size := len(v.chunk.Rows)
	for at := 0; at < len(v.logPi); at += size {
		for i := copy(v.chunk.Rows, v.Batch.Rows[at:]); i < size; i++ {
			v.chunk.Rows[i] = -1
		}
		if err := v.evaluate(at, weights); err != nil {
			return err
		}
	}
	return v.constants.Target(v.worker.Rollout, first, v.envs, v.worker.Values, v.logPi, v.Values, advantages, returns)
}

// evaluate computes log pi(a|s) and V of the rows of the chunk, from row `at` on, by Theta.
func (v *VTrace) evaluate(at int, weights []float32) error {
	out, err := v.worker.Outputs(v.chunk)
	if err != nil {
		return err
	}
	b, spec := &v.Batch, &v.distribution.Action
	ints, floats, masks := spec.Ints(), spec.Floats(), len(b.Masks)/len(v.logPi)
	row := policy.BatchRow{Outputs: out, LogStds: v.worker.Theta.LogStd()}
	copy(v.Values[at:], out.Values[HeadV])
	for k := at; k < min(at+len(v.chunk.Rows), len(v.logPi)); k++ {
		if weights[k] == 0 {
			v.logPi[k] = 0 // no step: the mask may forbid the action
			continue
		}
		var mask []byte
		if masks > 0 {
			mask = b.Masks[k*masks : (k+1)*masks]
		}
		row.Index = k - at
		if v.logPi[k], err = v.distribution.LogProb(&row, mask, b.Actions[k*ints:(k+1)*ints], b.Continuous[k*floats:(k+1)*floats]); err != nil {
			return err
		}
	}
	return nil
}
