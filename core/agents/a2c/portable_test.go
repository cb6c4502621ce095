package a2c

import (
	"testing"

	_ "github.com/paceline-rl/paceline/core/env/builtin"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

// One seed gives one result on every processor.
func TestPortable(t *testing.T) {
	s := traintest.Subject{Method: "a2c", Digests: subject(nil).Digests, Settings: map[string]string{
		"env": "CartPole-v1", "num_envs": "4", "seed": "11", "gae_lambda": "0.95", "ent_coef": "0.01", "normalize_advantage": "true"}}
	catch := map[string]string{"env": "Catch-v0", "num_envs": "2"}
	traintest.Portable(t, s, []traintest.PortableRun{
		{Name: "CartPole, RMSProp, 1000 updates", Steps: 20_000, Updates: 1000},
		{Name: "CartPole, Adam, 1000 updates", Settings: map[string]string{"use_rms_prop": "false", "activation_fn": "relu"}, Steps: 20_000, Updates: 1000},
		{Name: "Catch, Nature CNN, 20 updates", Settings: catch, Steps: 200, Updates: 20},
		{Name: "Pendulum, a box, 1000 updates", Settings: map[string]string{"env": "Pendulum-v1"}, Steps: 20_000, Updates: 1000},
		{Name: "Match, branches and a box, 1000 updates", Settings: map[string]string{"env": "MatchHybrid-v0"}, Steps: 20_000, Updates: 1000},
		{Name: "Catch, Nature CNN, 1000 updates", Settings: catch, Steps: 10_000, Updates: 1000, Slow: true},
	})
}
