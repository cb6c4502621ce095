package gorila_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paceline-rl/paceline/core/agents/dqn"
	_ "github.com/paceline-rl/paceline/core/agents/gorila"
	"github.com/paceline-rl/paceline/core/env"
	_ "github.com/paceline-rl/paceline/core/env/builtin"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

var check = traintest.Check

func must[T any](v T, err error) func(testing.TB) T { return traintest.Must(v, err) }

// small are settings with which everything happens within a few hundred steps.
var small = []string{
	"env=CartPole-v1", "seed=3", "net_arch=16", "learning_starts=60", "batch_size=8", "buffer_size=2000", "train_freq=1", "optimizer=adagrad",
	"target_update_interval=64", "learning_rate=0.01", "exploration_steps=600", "max_staleness=0", "outliers=0",
}

// config returns settings of a method, each as name=value.
func config(t *testing.T, method string, edits ...string) *train.Config {
	t.Helper()
	cfg := must(train.NewConfig(method))(t)
	for _, edit := range edits {
		name, value, _ := strings.Cut(edit, "=")
		check(t, cfg.Set(name, value))
	}
	return cfg
}

// gorila are the settings of a small Gorila, with edits.
func gorila(t *testing.T, edits ...string) *train.Config {
	t.Helper()
	return config(t, "gorila", slices.Concat(small, []string{"num_envs=4", "bundles=4", "shards=3"}, edits)...)
}

// digest returns digests of the parameters and the replay memories, and counts.
func digest(t *testing.T, tr *train.Trainer) string {
	t.Helper()
	text := ""
	for _, part := range []string{"q_net", "replay", "q_net_target"} {
		text += must(tr.Hash(part))(t)[:12] + " "
	}
	s := tr.Stats()
	return text + fmt.Sprint(s.Steps, s.Episodes, s.MeanReturn)
}

// run trains in slices of steps. If path is not empty, it saves a checkpoint in the end.
func run(t *testing.T, cfg *train.Config, path string, steps ...int64) string {
	t.Helper()
	tr := must(train.New(cfg, nil))(t)
	defer tr.Close()
	total := int64(0)
	for _, n := range steps {
		total += n
	}
	check(t, tr.Begin(total, 0))
	for _, n := range steps {
		check(t, tr.Run(n, 0))
	}
	if path != "" {
		check(t, tr.Save(path, true))
	}
	return digest(t, tr)
}

// One bundle and one shard are bit-identical to DQN with AdaGrad that counts updates.
func TestOneBundleIsDQN(t *testing.T) {
	for _, edits := range [][]string{
		{},
		{"learning_rate_final=0", "exploration_steps=0", "exploration_fraction=0.4", "gradient_steps=2", "train_freq=3"},
		{"outliers=1", "double_q=true", "tau=0.5", "target_update_interval=10", "n_steps=3"},
		{"optimizer=adam", "learning_rate=0.001", "max_grad_norm=0.5", "distribution=quantile", "n_quantiles=5"},
	} {
		for _, envs := range []string{"num_envs=1", "num_envs=3"} {
			edits := append([]string{envs}, edits...)
			want := run(t, config(t, "dqn", slices.Concat(small[:len(small)-2], []string{"clock=updates", "concurrent=false"}, edits)...), "", 1500)
			for _, schedule := range []string{"virtual", "race"} {
				if got := run(t, config(t, "gorila", slices.Concat(small, []string{"shards=1", "schedule=" + schedule}, edits)...), "", 1500); got != want {
					t.Errorf("%s, %v: %s, want DQN's %s", schedule, edits, got, want)
				}
			}
		}
	}
}

// The virtual schedule has one result for any number of threads and any slices.
func TestVirtualRepeats(t *testing.T) {
	want := run(t, gorila(t, "num_threads=1"), "", 1200)
	for i, steps := range [][]int64{{2, 4, 2, 792, 400}, {1200}} {
		if got := run(t, gorila(t, fmt.Sprint("num_threads=", 2+2*i)), "", steps...); got != want {
			t.Errorf("slices %v: %s, want %s", steps, got, want)
		}
	}
}

// A race that was recorded can be repeated, bit for bit, also where gradients were refused and
// dropped.
func TestRaceRepeats(t *testing.T) {
	for _, edits := range [][]string{{}, {"max_staleness=2", "outliers=1"}} {
		path := filepath.Join(t.TempDir(), "race")
		want := run(t, gorila(t, append(edits, "schedule=race")...), path, 700, 500)
		for _, threads := range []string{"1", "2"} {
			if got := run(t, gorila(t, append(edits, "schedule=recorded", "order="+path, "num_threads="+threads)...), "", 700, 500); got != want {
				t.Errorf("%v, %s threads: %s, the race %s", edits, threads, got, want)
			}
		}
	}
}

// A run that is stopped anywhere, with gradients that are not pushed, and goes on in another
// trainer is bit-identical to a run that is not stopped. The order of such a race can be repeated.
func TestStopAndResumeInFlight(t *testing.T) {
	const total = 800
	stopped := func(path string, edits ...string) string {
		tr := must(train.New(gorila(t, edits...), nil))(t)
		defer func() { tr.Close() }()
		check(t, tr.Begin(total, 0))
		file := filepath.Join(t.TempDir(), "run")
		for i := 0; tr.Stats().Steps < total-200; i++ {
			stopper := time.AfterFunc(time.Duration(1+i%5)*time.Millisecond, tr.Stop)
			check(t, tr.Run(0, 0))
			stopper.Stop()
			if i%4 == 0 {
				check(t, tr.Save(file, true))
				check(t, tr.Close())
				tr = must(train.New(gorila(t, edits...), nil))(t)
				check(t, tr.Load(file))
			}
		}
		check(t, tr.Run(0, 0))
		if path != "" {
			check(t, tr.SaveOrder(path))
		}
		return digest(t, tr)
	}
	edits := []string{"max_staleness=3", "outliers=1", "learning_rate_final=0"}
	if got, want := stopped("", edits...), run(t, gorila(t, edits...), "", total); got != want {
		t.Errorf("stopped: %s, want %s", got, want)
	}
	path := filepath.Join(t.TempDir(), "race")
	want := stopped(path, append(edits, "schedule=race")...)
	if got := run(t, gorila(t, append(edits, "schedule=recorded", "order="+path)...), "", total); got != want {
		t.Errorf("repeated: %s, the race %s", got, want)
	}
}

// Every update of a bundle is applied, refused by the store, dropped because of its loss, or in
// flight.
func TestUpdatesAreAppliedRefusedOrDropped(t *testing.T) {
	tr := must(train.New(gorila(t, "shards=1", "max_staleness=2", "outliers=1.5"), nil))(t)
	defer tr.Close()
	check(t, tr.Begin(2000, 0))
	check(t, tr.Run(0, 0))
	made := 0.0
	for _, w := range workers(tr) {
		made += float64(w.Updates.Done())
	}
	applied, refused, dropped := traintest.Metric(t, tr, "async/pushes"), traintest.Metric(t, tr, "async/refused"), traintest.Metric(t, tr, "train/outliers")
	if flying := made - applied - refused - dropped; flying < 0 || flying > 4 {
		t.Errorf("%v updates made, %v applied, %v refused, %v dropped", made, applied, refused, dropped)
	}
	if refused < 100 || dropped < 10 || applied < 500 || applied != float64(tr.Stats().Updates) {
		t.Errorf("%v applied (%d updates), %v refused, %v dropped", applied, tr.Stats().Updates, refused, dropped)
	}
}

// workers are the bundles of a trainer.
func workers(tr *train.Trainer) (list []*dqn.DQN) {
	for _, w := range tr.Method().(interface{ Workers() []train.Learner }).Workers() {
		list = append(list, w.(*dqn.DQN))
	}
	return list
}

// spy calls before in front of every step.
type spy struct {
	env.Env
	before func()
}

func (s *spy) Step(action int32, obs []byte) (float32, env.End, error) {
	s.before()
	return s.Env.Step(action, obs)
}

// bundle is the naive twin of what a bundle's target and epsilon follow.
type bundle struct {
	copies int
	target string
	rounds int
	most   int
}

// At every step of a bundle the target network is theta as it was at the first round after N
// further updates of the server, as the bundle knew them, and epsilon is on its line by these
// updates.
func TestTargetAndEpsilonFollowUpdatesOfTheServer(t *testing.T) {
	const interval, line = 20, 300
	bundles := make([]bundle, 4)
	var of []*dqn.DQN
	look := func(k int) {
		b, w := &bundles[k], of[k]
		if b.rounds++; b.rounds <= 15 { // learning_starts / bundles
			return
		}
		updates := int(w.Theta.Updates)
		if b.target == "" || updates/interval > b.copies {
			b.copies, b.target = updates/interval, train.HashFloats(w.Theta.Host())
		}
		b.most = updates
		if got := train.HashFloats(w.ThetaMinus.Host()); got != b.target {
			t.Errorf("bundle %d, %d updates: target %.8s, want %.8s", k, updates, got, b.target)
		}
		want := 1 - 0.9*min(1, float64(updates)/line)
		if got := w.Exploration(w.Clock.T); got < want-1e-12 || got > want+1e-12 {
			t.Errorf("bundle %d, %d updates: epsilon %v, want %v", k, updates, got, want)
		}
	}
	mk := func(i int) (env.Env, error) {
		e, err := traintest.MakeWalk(7)(i)
		return &spy{e, func() { look(i) }}, err
	}
	cfg := gorila(t, "env=", fmt.Sprint("target_update_interval=", interval), fmt.Sprint("exploration_steps=", line), "exploration_final_eps=0.1", "max_staleness=4", "outliers=2")
	tr := must(train.New(cfg, mk))(t)
	defer tr.Close()
	of = workers(tr)
	check(t, tr.Begin(900, 0))
	check(t, tr.Run(0, 0))
	for k, b := range bundles {
		if b.rounds < 100 || b.most < line+20 {
			t.Errorf("bundle %d: %d rounds, %d updates", k, b.rounds, b.most)
		}
	}
}
