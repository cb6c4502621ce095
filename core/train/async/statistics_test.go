package async_test

import (
	"fmt"
	"maps"
	"strconv"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
	"github.com/paceline-rl/paceline/core/vec"
)

// The policy has the statistics of all rollouts that are over, also after updates whose last
// minibatch takes no step: because rows only reset their environments, or because target_kl ended
// the update.
func TestUpdatesWithoutALastStepPublishStatistics(t *testing.T) {
	const envs, steps, rounds = 2, 64, 500
	for _, method := range []string{"appo", "a3c"} {
		for _, rule := range []string{"multi_step_adam", "overwrite", "gradient", "mean"} {
			for _, learners := range []int{1, 2} {
				for name, edit := range map[string]map[string]string{
					"next step":   nil,
					"late resets": {"mid_batch_reset": "false"},
					"target_kl":   {"target_kl": "1e-6", "learning_rate": "0.01"},
					"sync period": {"mid_batch_reset": "false", "sync_period": "2"},
				} {
					if name == "target_kl" && (method == "a3c" || rule == "mean" && learners > 1) || name == "sync period" && rule != "multi_step_adam" {
						continue // refused
					}
					t.Run(fmt.Sprintf("%s, %s, %d learners, %s", method, rule, learners, name), func(t *testing.T) {
						cfg := must(train.NewConfig(method))(t)
						settings := map[string]string{
							"env": "CartPole-v1", "num_envs": strconv.Itoa(envs * learners), "learners": strconv.Itoa(learners), "rule": rule, "n_steps": strconv.Itoa(steps),
							"net_arch_pi": "5", "net_arch_vf": "5", "normalize_obs": "true", "normalize_advantage": "true", "num_threads": "2", "learning_rate": "0.0001", "pull_period": "0",
						}
						if method == "appo" {
							settings["n_epochs"] = "2"
							settings["batch_size"] = strconv.Itoa(envs*steps - 2) // so that two resets leave the second one empty
						} else {
							settings["use_rms_prop"] = strconv.FormatBool(rule != "multi_step_adam")
						}
						maps.Copy(settings, edit)
						for name, value := range settings {
							check(t, cfg.Set(name, value))
						}
						var tr *train.Trainer
						if name == "next step" {
							h := traintest.NewHost(t, cfg, vec.NextStep, func(int) (env.Env, error) { return env.Make("CartPole-v1", nil) })
							h.Begin(t, rounds*envs*int64(learners))
							for range rounds {
								h.Round(t)
							}
							tr = h.Trainer
						} else {
							tr = traintest.NewTrainer(t, cfg, nil)
							check(t, tr.Begin(rounds*envs*int64(learners), 0))
							check(t, tr.Run(0, 0))
						}
						// A learner may have an unfinished rollout, and an update that comes later in the order.
						count, least := tr.Method().Policy().Normalizer.Count, tr.Stats().Steps-int64(2*envs*steps*learners)
						if count < float64(least) {
							t.Errorf("%d steps: the policy's statistics are of %v rows, must be at least %d", tr.Stats().Steps, count, least)
						}
					})
				}
			}
		}
	}
}
