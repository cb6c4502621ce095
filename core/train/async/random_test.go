package async_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	_ "github.com/paceline-rl/paceline/core/agents/a2c"
	_ "github.com/paceline-rl/paceline/core/agents/a3c"
	_ "github.com/paceline-rl/paceline/core/agents/appo"
	_ "github.com/paceline-rl/paceline/core/agents/dqn"
	_ "github.com/paceline-rl/paceline/core/agents/ga3c"
	_ "github.com/paceline-rl/paceline/core/agents/ppo"
	_ "github.com/paceline-rl/paceline/core/env/builtin"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

var check = traintest.Check

func must[T any](v T, err error) func(testing.TB) T { return traintest.Must(v, err) }

// setup is a run with random settings.
type setup struct {
	method   string
	settings map[string]string
	envs     int64 // of a learner
	rounds   int64 // of one learner; slices end at its rounds
	digests  []string
}

// randomSetup draws the settings of a small run.
func randomSetup(r *rng.Stream) setup {
	s := setup{method: pick(r, "a3c", "appo", "dqn", "ga3c"), digests: []string{"policy", "rollout"}}
	s.envs = int64(1 + r.Intn(3))
	s.rounds = 100 + int64(r.Intn(300))/s.envs
	number := func(lo, hi int) string { return strconv.Itoa(lo + r.Intn(hi-lo+1)) }
	learners, envs := 1+r.Intn(7), int(s.envs)
	s.settings = map[string]string{
		"env": pick(r, "CartPole-v1", "Acrobot-v1"), "policy": "MlpPolicy", "seed": number(0, 1<<20), "num_envs": strconv.Itoa(learners * envs),
		"learners": strconv.Itoa(learners), "shards": number(1, 9), "learning_rate": pick(r, "0.001", "0.01"), "learning_rate_final": pick(r, "", "0"),
		"rule": pick(r, "gradient", "overwrite", "mean", "multi_step_adam"), "max_grad_norm": pick(r, "0", "0.5"),
		"stats_window_size": number(1, 3), // the mean depends on the order in which episodes are reported
	}
	for _, name := range []string{"step", "forward", "gradient", "pull", "push"} {
		s.settings["latency_"+name] = fmt.Sprintf("%g:%s", r.Uniform(1e-6, 1e-3), pick(r, "0", "0.5", "1.5"))
	}
	set := func(own map[string]string) { maps.Copy(s.settings, own) }
	rule := s.settings["rule"]
	if rule == "multi_step_adam" {
		set(map[string]string{"sync_period": number(1, 4)})
	}
	if rule != "mean" {
		set(map[string]string{"adam_time": pick(r, "global", "local"), "max_staleness": pick(r, "0", "0", "1", "3")})
	}
	if s.method == "ga3c" {
		s.digests = []string{"policy", "segments"}
		s.settings = map[string]string{
			"env": pick(r, "CartPole-v1", "Pendulum-v1"), "seed": number(0, 1<<20), "num_envs": number(1, 8), "predictors": number(1, 3), "trainers": number(1, 3),
			"n_steps": number(1, 8), "min_training_batch": number(1, 12), "training_queue": number(12, 20), "prediction_queue": number(0, 4),
			"prediction_batch_max": number(1, 8), "wait_for_update": pick(r, "false", "true"), "regulariser": pick(r, "paper", "authors", "exact"),
			"loss_reduction": pick(r, "sum", "mean"), "vtrace": pick(r, "false", "true"), "net_arch_pi": "5", "net_arch_vf": "6", "learning_rate": "0.001",
			"max_grad_norm": pick(r, "0", "0.5"), "latency_step": pick(r, "0.0002:1", "0.0001"), "latency_predict": "0.0002:0.5", "latency_update": pick(r, "0.0002:1", "0.003"),
			"stats_window_size": number(1, 3),
		}
		return s
	}
	if s.method == "dqn" {
		s.digests = []string{"q_net", "replay"}
		set(map[string]string{
			"net_arch": "6,5", "batch_size": "4", "learning_starts": number(0, 100), "buffer_size": number(200, 600), "train_freq": number(1, 9),
			"gradient_steps": number(1, 3), "target_update_interval": number(8, 200), "window": number(learners*envs, 100),
			"concurrent": pick(r, "true", "false"), "double_q": pick(r, "true", "false"), "exploration_steps": number(1, 600),
			"tau": pick(r, "1", "0.5"), "loss_reduction": pick(r, "mean", "sum"), "clock": pick(r, "steps", "updates"),
			"distribution": pick(r, "none", "categorical", "quantile", "implicit"), "n_atoms": "5", "n_quantiles": "3", "n_tau": "3", "n_tau_target": "2", "n_tau_act": "4", "dueling": pick(r, "true", "false"),
		})
		if rule == "gradient" || rule == "overwrite" {
			set(map[string]string{"outliers": pick(r, "0", "1")})
		}
		return s
	}
	steps := 2 + r.Intn(9)
	set(map[string]string{
		"env": pick(r, "CartPole-v1", "Pendulum-v1"), "net_arch_pi": "5", "net_arch_vf": "6", "n_steps": strconv.Itoa(steps),
		"mid_batch_reset": pick(r, "true", "false"), "normalize_advantage": pick(r, "true", "false"), "gae_lambda": pick(r, "0.9", "1"),
	})
	set(map[string]string{"pull_period": "0"})
	if r.Intn(3) == 0 {
		set(map[string]string{"normalize_obs": pick(r, "true", "false"), "normalize_reward": "true"})
	}
	if rule != "mean" {
		set(map[string]string{"pull_period": pick(r, "0", number(1, 9))})
	}
	if s.method == "a3c" {
		set(map[string]string{"use_rms_prop": strconv.FormatBool(rule != "multi_step_adam" && r.Intn(2) == 0)})
		if r.Intn(4) == 0 {
			set(map[string]string{"vtrace": "true", "n_steps": "6", "vtrace_steps": pick(r, "1", "2", "3")})
		}
		return s
	}
	set(map[string]string{"batch_size": number(2, steps*envs), "n_epochs": number(1, 3), "vtrace": pick(r, "false", "true")})
	if rule != "mean" {
		set(map[string]string{"target_kl": pick(r, "", "0.01")})
	}
	return s
}

func pick(r *rng.Stream, from ...string) string { return from[r.Intn(len(from))] }

// trainer makes a trainer of the run, with further settings.
func (s *setup) trainer(t *testing.T, edits map[string]string) *train.Trainer {
	t.Helper()
	cfg := must(train.NewConfig(s.method))(t)
	for _, list := range []map[string]string{s.settings, edits} {
		for name, value := range list {
			check(t, cfg.Set(name, value))
		}
	}
	return must(train.New(cfg, nil))(t)
}

// reloaded saves the run and loads it into a new trainer.
func (s *setup) reloaded(t *testing.T, tr *train.Trainer, edits map[string]string) *train.Trainer {
	t.Helper()
	file := filepath.Join(t.TempDir(), "a")
	check(t, tr.Save(file, true))
	check(t, tr.Close())
	tr = s.trainer(t, edits)
	check(t, tr.Load(file))
	return tr
}

// result returns digests and counts of a run, and closes it. If path is not empty, the run is saved
// there.
func (s *setup) result(t *testing.T, tr *train.Trainer, path string) string {
	t.Helper()
	var text string
	for _, name := range s.digests {
		text += must(tr.Hash(name))(t)[:12] + " "
	}
	if path != "" {
		check(t, tr.Save(path, true))
	}
	now := tr.Stats()
	check(t, tr.Close())
	return fmt.Sprintf("%s%d steps, %d updates, %d episodes, mean %g", text, now.Steps, now.Updates, now.Episodes, now.MeanReturn)
}

// run trains in slices of rounds. After the slices in reload a new trainer goes on.
func (s *setup) run(t *testing.T, path string, cuts []int64, reload []bool, edits map[string]string) string {
	t.Helper()
	tr := s.trainer(t, edits)
	check(t, tr.Begin(s.rounds*s.envs, 0))
	for i, n := range cuts {
		if tr.Stats().Steps >= s.rounds*s.envs { // the slices before went beyond their ends
			break
		}
		check(t, tr.Run(n*s.envs, 0))
		if reload != nil && reload[i] {
			tr = s.reloaded(t, tr, edits)
		}
	}
	return s.result(t, tr, path)
}

// stopped trains in one run that is stopped at random times and goes on, in the same trainer or in
// a new one.
func (s *setup) stopped(t *testing.T, path string, r *rng.Stream, edits map[string]string) string {
	t.Helper()
	tr := s.trainer(t, edits)
	check(t, tr.Begin(s.rounds*s.envs, 0))
	late := false
	for tr.Stats().Steps < s.rounds*s.envs {
		later := time.Duration(r.Intn(int(4 * time.Millisecond)))
		stopper := time.AfterFunc(later, tr.Stop)
		check(t, tr.Run(0, 0))
		late = !stopper.Stop()
		if r.Intn(3) == 0 {
			tr = s.reloaded(t, tr, edits)
		}
	}
	if late { // the last updates may wait for a further step
		check(t, tr.Close())
		return s.stopped(t, path, r, edits)
	}
	return s.result(t, tr, path)
}

// Random runs: the virtual schedule has one result for any number of threads, any slices and any
// reloads. A race that was recorded, also across a reload, can be repeated.
func TestRandomRuns(t *testing.T) {
	for i := range traintest.Times(1000, 20) {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			r := rng.New(uint64(i), "random runs", 0)
			s := randomSetup(r)
			var cuts []int64
			var reload []bool
			for left := s.rounds; left > 0; {
				n := min(left, 1+int64(r.Intn(int(s.rounds))))
				cuts, reload = append(cuts, n), append(reload, r.Intn(2) == 0)
				left -= n
			}
			defer func() {
				if t.Failed() {
					t.Logf("%s %v, slices %v", s.method, s.settings, cuts)
				}
			}()
			threads := func(n string, more ...string) map[string]string {
				edits := map[string]string{"num_threads": n}
				for pair := range slices.Chunk(more, 2) {
					edits[pair[0]] = pair[1]
				}
				return edits
			}
			whole := []int64{s.rounds}
			if s.settings["mid_batch_reset"] == "false" || s.method == "ga3c" {
				whole = cuts // slices end later: rounds have fewer steps while environments wait, or end with a prediction
			}
			want := s.run(t, "", whole, nil, threads("1"))
			if got := s.run(t, "", cuts, nil, threads("2")); got != want {
				t.Errorf("two threads, in slices: %s, want %s", got, want)
			}
			if got := s.run(t, "", cuts, reload, threads("4")); got != want {
				t.Errorf("four threads, loaded: %s, want %s", got, want)
			}
			path := filepath.Join(t.TempDir(), "race")
			want = s.run(t, path, cuts, reload, threads("2", "schedule", "race"))
			if got := s.run(t, "", cuts, nil, threads("1", "schedule", "recorded", "order", path)); got != want {
				t.Errorf("repeated: %s, the race %s", got, want)
			}
		})
	}
}

// A run that is stopped at random times is bit-identical to one that never was, also in a new
// trainer. The record of such a race can be repeated.
func TestRandomStops(t *testing.T) {
	for i := range traintest.Times(300, 10) {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			r := rng.New(uint64(i), "random stops", 0)
			s := randomSetup(r)
			defer func() {
				if t.Failed() {
					t.Logf("%s %v, %d rounds", s.method, s.settings, s.rounds)
				}
			}()
			threads := map[string]string{"num_threads": "2"}
			want := s.run(t, "", []int64{s.rounds}, nil, threads)
			if got := s.stopped(t, "", r, threads); got != want {
				t.Errorf("stopped: %s, want %s", got, want)
			}
			path := filepath.Join(t.TempDir(), "race")
			want = s.stopped(t, path, r, map[string]string{"num_threads": "2", "schedule": "race"})
			if got := s.run(t, "", []int64{s.rounds}, nil, map[string]string{"num_threads": "1", "schedule": "recorded", "order": path}); got != want {
				t.Errorf("repeated: %s, the race %s", got, want)
			}
		})
	}
}

// A run of local steps continues from a checkpoint without experience, also where it was saved
// between the visits of a push.
func TestLocalStepsContinueWithoutExperience(t *testing.T) {
	for method, settings := range map[string]map[string]string{
		"a3c":  {"use_rms_prop": "false"},
		"appo": {"n_steps": "32", "batch_size": "16", "n_epochs": "2"},
		"dqn":  {"net_arch": "8", "learning_starts": "60", "batch_size": "8", "buffer_size": "400", "target_update_interval": "50", "window": "40"},
	} {
		s := setup{method: method, settings: map[string]string{"env": "CartPole-v1", "policy": "MlpPolicy", "num_envs": "8", "learners": "4", "shards": "4", "rule": "multi_step_adam", "sync_period": "2"}}
		maps.Copy(s.settings, settings)
		for seed := range 12 {
			edits := map[string]string{"seed": strconv.Itoa(seed)}
			file := filepath.Join(t.TempDir(), "a")
			tr := s.trainer(t, edits)
			check(t, tr.Begin(1000, 0))
			check(t, tr.Run(int64(300+7*seed), 0))
			check(t, tr.Save(file, false))
			check(t, tr.Close())
			tr = s.trainer(t, edits)
			check(t, tr.Load(file))
			before := tr.Stats().Updates
			if err := tr.Run(600, 0); err != nil || tr.Stats().Updates <= before {
				t.Errorf("%s, seed %d: %v, %d updates, %d before", method, seed, err, tr.Stats().Updates, before)
			}
			check(t, tr.Close())
		}
	}
}
