package ppo

import (
	"testing"

	_ "github.com/paceline-rl/paceline/core/env/builtin"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

// One seed gives one result on every processor.
func TestPortable(t *testing.T) {
	s := traintest.Subject{Method: "ppo", Digests: subject(nil).Digests, Settings: map[string]string{
		"env": "CartPole-v1", "num_envs": "4", "seed": "11", "ent_coef": "0.01", "n_steps": "16", "batch_size": "16", "n_epochs": "4", "clip_range_vf": "0.2"}}
	catch := map[string]string{"env": "Catch-v0", "num_envs": "2"}
	traintest.Portable(t, s, []traintest.PortableRun{
		{Name: "CartPole, 1008 updates", Steps: 63 * 64, Updates: 1008},
		{Name: "Catch, Nature CNN, 16 updates", Settings: catch, Steps: 64, Updates: 16},
		{Name: "Pendulum, a box, 1008 updates", Settings: map[string]string{"env": "Pendulum-v1", "normalize_obs": "true", "normalize_reward": "true"}, Steps: 63 * 64, Updates: 1008},
		{Name: "Pendulum, squashed and scaled, 1008 updates", Settings: map[string]string{"env": "Pendulum-v1", "squashed": "true", "scaled": "true"}, Steps: 63 * 64, Updates: 1008},
		{Name: "Match, branches and a box, 1008 updates", Settings: map[string]string{"env": "MatchHybrid-v0"}, Steps: 63 * 64, Updates: 1008},
	})
}
