package pqn

import (
	"testing"

	_ "github.com/paceline-rl/paceline/core/env/builtin"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

// One seed gives one result on every processor.
func TestPortable(t *testing.T) {
	s := traintest.Subject{Method: "pqn", Digests: subject(nil).Digests, Settings: map[string]string{
		"env": "CartPole-v1", "num_envs": "4", "seed": "11", "n_steps": "16", "batch_size": "16", "n_epochs": "4"}}
	catch := map[string]string{"env": "Catch-v0", "num_envs": "2"}
	traintest.Portable(t, s, []traintest.PortableRun{
		{Name: "CartPole, 1008 updates", Steps: 63 * 64, Updates: 1008},
		{Name: "Catch, Nature CNN, 16 updates", Settings: catch, Steps: 64, Updates: 16},
		{Name: "Catch, norm over all, 8 updates", Settings: map[string]string{"env": "Catch-v0", "num_envs": "2", "layer_norm": "all", "init": "orthogonal"}, Steps: 32, Updates: 8},
	})
}
