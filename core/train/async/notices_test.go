package async_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

// What Resolve says of the run's settings is said once, not again by its learners.
func TestLearnersRepeatNoNotice(t *testing.T) {
	small := []string{"net_arch", "12", "learning_starts", "60", "batch_size", "16", "buffer_size", "400", "n_quantiles", "5"}
	for _, c := range []struct {
		method   string
		settings []string
		about    []string // the settings that the notices name
	}{
		{"dqn", append(small, "learners", "1"), []string{"n_quantiles"}},
		{"dqn", append(small, "learners", "2", "window", "80", "target_update_interval", "20"), []string{"n_quantiles", "target_update_interval"}},
		{"gorila", append(small, "bundles", "2"), []string{"n_quantiles"}},
		{"appo", []string{"learners", "2", "n_steps", "8", "batch_size", "5"}, []string{"batch_size"}},
	} {
		cfg := must(train.NewConfig(c.method))(t)
		for list := slices.Concat(c.settings, []string{"env", "CartPole-v1", "num_envs", "4"}); len(list) > 0; list = list[2:] {
			check(t, cfg.Set(list[0], list[1]))
		}
		tr := traintest.NewTrainer(t, cfg, nil)
		var about []string
		read := func() {
			for text := must(tr.Notice())(t); text != ""; text = must(tr.Notice())(t) {
				name, _, _ := strings.Cut(text, ":")
				about = append(about, name)
			}
		}
		read()
		check(t, tr.Run(200, 0))
		read()
		if !slices.Equal(about, c.about) {
			t.Errorf("%s %v: notices about %v, must be about %v", c.method, c.settings, about, c.about)
		}
	}
}
