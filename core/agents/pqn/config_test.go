package pqn

import (
	"math"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

// Every preset runs without a notice, and has as many updates as its source.
func TestPresetsHaveTheUpdatesOfTheirSources(t *testing.T) {
	updates := map[string]int{"pqn": 2 * 32, "pqn_cleanrl": 4 * 4}
	for _, p := range Settings.Presets() {
		envs := p.Envs
		if envs == nil {
			envs = []string{"CartPole-v1", "atari/pong"}
		}
		for _, id := range envs {
			cfg := must(train.NewConfig("pqn"))(t)
			check(t, cfg.Preset(p.Name, id))
			c := cfg.Struct().(*Config)
			if notices, err := c.Resolve(); err != nil || notices != nil {
				t.Errorf("%s for %s: %v, %v", p.Name, id, notices, err)
			}
			c.Policy = train.PolicyMLP
			run := must(c.run(&train.Setup{Spec: (&traintest.Walk{}).Spec()}, &PQN{}))(t)
			if want := updates[p.Name]; want != 0 && run.Minibatches != want {
				t.Errorf("%s for %s: %d updates a rollout, want %d", p.Name, id, run.Minibatches, want)
			}
		}
	}
}

// The defaults are the authors' settings, except the number of environments.
func TestDefaultsEqualTheAuthorsSettings(t *testing.T) {
	cfg := must(train.NewConfig("pqn"))(t)
	for _, row := range authors {
		if got := must(cfg.Get(row[0]))(t); got != row[1] && row[0] != "num_envs" && row[0] != "layer_norm_eps" {
			t.Errorf("%s: %q, the authors have %q", row[0], got, row[1])
		}
	}
}

// The network has a norm after every layer except the head.
func TestEveryLayerExceptTheHeadHasANorm(t *testing.T) {
	image := env.Spec{Obs: env.ObsSpec{Shape: []int{4, 84, 84}}, Action: env.ActionSpec{N: 6}}
	for _, c := range []struct {
		norm    string
		eps     float64
		numbers int // of a Nature CNN with 6 actions
	}{
		{"none", 0, 1687206},
		{"none", 1e-3, 1687206}, // used only with layer_norm
		{"channels", 0, 1687206 + 2*(32+64+64+512)},
		{"all", 1e-5, 1687206 + 2*(32*20*20+64*9*9+64*7*7+512)},
	} {
		cfg := *Settings.Defaults().Struct().(*Config)
		cfg.Policy, cfg.LayerNorm, cfg.LayerNormEps = train.PolicyCNN, c.norm, c.eps
		net := must(cfg.network(image))(t)
		layout := must(net.Layout())(t)
		if layout.Size != c.numbers {
			t.Errorf("layer_norm %s: %d numbers, want %d", c.norm, layout.Size, c.numbers)
		}
	}
}

// Scale 0 of nn.TD stands for 1, so a setting of 0 is refused.
func TestLossCoefIsAboveZero(t *testing.T) {
	cfg := must(train.NewConfig("pqn"))(t)
	if err := cfg.Set("loss_coef", "0"); err == nil || err.Error() != "loss_coef: 0, must be 1e-06 to 1000" {
		t.Errorf("%v", err)
	}
	check(t, cfg.Set("loss_coef", "1e-6"))
}

// Epsilon falls over exploration_fraction of the steps up to the end of the latest Begin.
func TestEpsilonFollowsTheRemainingProgress(t *testing.T) {
	c := *Settings.Defaults().Struct().(*Config)
	c.NetArch, c.NSteps, c.BatchSize, c.NumEnvs = []int{8}, 4, 16, 4
	c.ExplorationInitial, c.ExplorationFinal, c.ExplorationFraction = 1, 0.2, 0.9
	tr := must(train.New(configOf(t, c), traintest.MakeWalk(1)))(t)
	defer tr.Close()
	for _, flags := range []train.Flags{0, 0, 0, train.ResetTimesteps} {
		check(t, tr.Begin(160, flags))
		check(t, tr.Run(80, 0))
		st := tr.Stats()
		want := 1 - 0.8*min(1, float64(st.Steps)/(0.9*float64(st.Total)))
		if got := tr.Method().(*PQN).Clock.Schedules[epsilon].At(st.Steps); math.Abs(got-want) > 1e-12 {
			t.Errorf("%v at step %d of %d, want %v", got, st.Steps, st.Total, want)
		}
		check(t, tr.Run(0, 0))
	}
}

func TestUnusedSettingsAreNoticed(t *testing.T) {
	traintest.Notices(t, "pqn", [][2][]string{
		{{"batch_size", "32", "layer_norm", "none", "layer_norm_eps", "0.1"}, {"layer_norm_eps: 0.1 is not used where layer_norm is none"}},
		{{"batch_size", "32", "layer_norm", "all", "layer_norm_eps", "0.1"}, nil},
	})
}
