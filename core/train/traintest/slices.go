package traintest

import (
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/vec"
)

// falling returns a configuration with a learning rate that falls to 0 over a run. falls is false
// if the method has no such setting.
func (s *Subject) falling(t testing.TB) (c *train.Config, falls bool) {
	t.Helper()
	c = s.config(t)
	if _, err := c.Get("learning_rate_final"); err != nil {
		return c, false
	}
	check(t, c.Set("learning_rate_final", "0"))
	return c, true
}

// pushed returns a trainer of pushed environments, which round steps once. ok is false if the
// Subject's settings do not allow pushed environments.
func (s *Subject) pushed(t *testing.T, c *train.Config) (tr *train.Trainer, round func(), ok bool) {
	c = c.Clone()
	c.Common().ActionMasks = s.Masked
	if s.Settings["mid_batch_reset"] == "false" {
		e, err := s.walks(7)(0)
		check(t, err)
		if _, err := train.NewPushed(c, e.Spec()); err == nil || !strings.Contains(err.Error(), "mid_batch_reset: false, must be true") {
			t.Errorf("%v, must refuse mid_batch_reset", err)
		}
		return nil, nil, false
	}
	h := NewHost(t, c, vec.SameStep, s.walks(7))
	check(t, h.Vec.Reset(h.Rows, nil))
	return h.Trainer, func() { h.Round(t) }, true
}

// interrupted interrupts a run and continues it by Begin with the remaining steps, in the same
// trainer and in another one that loads the file. The results are those of a run without
// interruption.
func interrupted(t *testing.T, s Subject) {
	c, _ := s.falling(t)
	want := s.fullRun(t, c)
	for k, steps := range []int64{1, 48, total / 2, total - 4}[:Times(4, 3)] {
		tr := s.newTrainer(t, c, nil)
		check(t, tr.Begin(total, 0))
		check(t, tr.Run(steps, 0))
		if k%2 == 1 {
			tr.Stop()
			check(t, tr.Run(0, 0))
		}
		path := filepath.Join(t.TempDir(), "a")
		check(t, tr.Save(path, true))
		loaded := s.newTrainer(t, s.savedConfig(t, path), s.walks(99))
		check(t, loaded.Load(path))
		for name, other := range map[string]*train.Trainer{"same trainer": tr, "loaded": loaded} {
			check(t, other.Begin(total-other.Stats().Steps, 0))
			check(t, other.Run(0, 0))
			if got := s.digests(t, other); got != want {
				t.Errorf("%s, interrupted at %d: %s, in one run %s", name, steps, got, want)
			}
		}
	}
	if tr, round, ok := s.pushed(t, c); ok {
		check(t, tr.Begin(total, 0))
		for tr.Stats().Steps < total/2 {
			round()
		}
		check(t, tr.Begin(total-tr.Stats().Steps, 0))
		for tr.Stats().Steps < total {
			round()
		}
		if got := s.digests(t, tr); got != want && !s.Alone {
			t.Errorf("pushed: %s, in one run %s", got, want)
		}
	}
}

// inSlices runs a run in slices, each begun with its own number of steps. In every slice the
// learning rate falls to 0 and parameters change. The results do not depend on how a slice is
// begun, on saves and loads between slices, and on who steps the environments.
func inSlices(t *testing.T, s Subject) {
	const slice = total / 3
	c, falls := s.falling(t)
	rate := func(tr *train.Trainer) {
		t.Helper()
		text, err := c.Get("learning_rate")
		check(t, err)
		first, err := strconv.ParseFloat(text, 64)
		check(t, err)
		st := tr.Stats()
		want := first
		if falls {
			want *= max(0, 1-float64(st.Steps)/float64(st.Total))
		}
		if got := Metric(t, tr, "train/learning_rate"); math.Abs(got-want) > 1e-12 && !s.Alone && !s.ByUpdates {
			t.Errorf("learning rate %v at step %d of %d, want %v", got, st.Steps, st.Total, want)
		}
	}
	tr, want := s.newTrainer(t, c, nil), ""
	for k := range int64(3) {
		check(t, tr.Begin((k+1)*slice-tr.Stats().Steps, 0))
		before, err := tr.Hash(s.Set)
		check(t, err)
		check(t, tr.Run(slice/2, 0))
		rate(tr)
		check(t, tr.Run(0, 0))
		rate(tr)
		if after, err := tr.Hash(s.Set); err != nil || after == before {
			t.Errorf("slice %d: the parameters did not change, %v", k, err)
		}
		want = s.digests(t, tr)
	}
	if texts := notices(t, tr, "learning_rate"); texts != nil {
		t.Errorf("%q: the rate is 0 at the end only", texts)
	}

	numGroups := "2"
	if s.refusesGroups() {
		numGroups = "1"
	}
	for name, begin := range map[string]func(tr *train.Trainer, n int64) error{
		"begun by run":         func(tr *train.Trainer, n int64) error { return tr.Run(n, 0) },
		"begun, in two groups": func(tr *train.Trainer, n int64) error { return tr.Begin(n, 0) },
	} {
		c := c.Clone()
		if name != "begun by run" {
			check(t, c.Set("groups", numGroups))
		}
		now := s.newTrainer(t, c, nil)
		for k := range int64(3) {
			check(t, begin(now, (k+1)*slice-now.Stats().Steps))
			check(t, now.Run(0, 0))
			path := filepath.Join(t.TempDir(), "a")
			check(t, now.Save(path, true))
			now = s.newTrainer(t, s.savedConfig(t, path), s.walks(99))
			check(t, now.Load(path))
		}
		if got := s.digests(t, now); got != want {
			t.Errorf("%s, saved and loaded: %s, want %s", name, got, want)
		}
	}
	if tr, round, ok := s.pushed(t, c); ok {
		for k := range int64(3) {
			check(t, tr.Begin((k+1)*slice-tr.Stats().Steps, 0))
			for tr.Stats().Steps < (k+1)*slice {
				round()
			}
		}
		if got := s.digests(t, tr); got != want && !s.Alone {
			t.Errorf("pushed: %s, want %s", got, want)
		}
	}
}

// zeroRate tests that a trainer with a learning rate of 0 gives one notice about it.
func zeroRate(t *testing.T, s Subject) {
	c, falls := s.falling(t)
	if falls {
		check(t, c.Set("learning_rate_final", ""))
	}
	check(t, c.Set("learning_rate", "0"))
	tr := s.newTrainer(t, c, nil)
	for run := range 2 {
		check(t, tr.Begin(total/2, 0))
		check(t, tr.Run(0, 0))
		texts := notices(t, tr, "learning_rate")
		if len(texts) != 1-run || run == 0 && !strings.HasPrefix(texts[0], "learning_rate: 0 from the first update of this run (step ") {
			t.Errorf("run %d: %q", run, texts)
		}
	}
}

// unusedConvolutions tests that a trainer with MlpPolicy gives one notice about a cnn other than
// the default.
func unusedConvolutions(t *testing.T, s Subject) {
	c := s.config(t)
	usual, err := c.Get("cnn")
	if err != nil {
		return // the method has no convolutions
	}
	for cnn, want := range map[string][]string{usual: nil, "minatar": {"cnn: minatar is not used where policy is MlpPolicy"}} {
		check(t, c.Set("cnn", cnn))
		if texts := notices(t, s.newTrainer(t, c, nil), "cnn"); !slices.Equal(texts, want) {
			t.Errorf("%q, want %q", texts, want)
		}
	}
}

// autoInSmallGame tests that policy auto chooses layers for images of 10x10, and that a trainer
// with the resolved settings loads a checkpoint.
func autoInSmallGame(t *testing.T, s Subject) {
	c := s.config(t, "env", "Mini-Breakout-v0", "policy", "auto")
	if _, err := c.Get("cnn"); err != nil || s.Settings["normalize_obs"] == "true" {
		return // the method has no convolutions, or the settings are not for images
	}
	open := func(c *train.Config) *train.Trainer {
		tr, err := train.New(c, nil)
		check(t, err)
		t.Cleanup(func() { check(t, tr.Close()) })
		return tr
	}
	tr := open(c)
	resolved := tr.Config()
	policy, cnn := Must(resolved.Get("policy"))(t), Must(resolved.Get("cnn"))(t)
	if policy != train.PolicyCNN || cnn != "minatar" {
		t.Errorf("policy %s, cnn %s", policy, cnn)
	}
	if texts := notices(t, tr, "cnn"); texts != nil {
		t.Errorf("%q", texts)
	}
	file := filepath.Join(t.TempDir(), "game.paceline")
	check(t, tr.Save(file, false))
	check(t, open(resolved).Load(file))
	spec := *tr.Spec()
	spec.Obs.Shape = []int{4, 4, 5}
	pushed := c.Clone()
	check(t, pushed.Set("env", ""))
	_, err := train.NewPushed(pushed, spec)
	if err == nil || !strings.Contains(err.Error(), "of at least 5x5 for minatar_cnn") {
		t.Errorf("%v", err)
	}
	check(t, c.Set("cnn", "small"))
	_, err = train.New(c, nil)
	if err == nil || !strings.Contains(err.Error(), "of at least 20x20 for small_cnn") {
		t.Errorf("%v", err)
	}
}

// notices reads all notices and returns those about a setting.
func notices(t testing.TB, tr *train.Trainer, setting string) (list []string) {
	t.Helper()
	for {
		text, err := tr.Notice()
		check(t, err)
		if text == "" {
			return list
		}
		if strings.HasPrefix(text, setting+": ") {
			list = append(list, text)
		}
	}
}

// Metric returns the value of a metric.
func Metric(t testing.TB, tr *train.Trainer, name string) float64 {
	t.Helper()
	m, _ := tr.Metric(Must(tr.MetricIndex(name))(t))
	return m.Value
}
