package train_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/limits"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/policy"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/settings"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
	"github.com/paceline-rl/paceline/core/vec"
)

// counting is a Method without a network to train: a round is num_envs steps, after which an update
// is due, which Settle does. It records its calls.
type counting struct {
	monitor *train.Monitor
	spec    env.Spec
	net     nn.Spec
	theta   *nn.Params
	envs    int
	calls   []string
	failed  error
	round   func() error // before each
	// interrupted is why the latest Settle ended early, latest the Interrupt of the latest Advance.
	interrupted error
	latest      *train.Interrupt
	closed      atomic.Int64
}

type countingConfig struct {
	train.Common
	Bytes int
}

func (c *countingConfig) Resolve() ([]string, error) { return []string{"said once"}, nil }

var made *counting // the latest one

func init() {
	train.Register(&train.Definition{
		Name: "counting", Doc: "counts",
		Settings: settings.New[countingConfig]("counting", append(train.CommonSettings(func(c *countingConfig) *train.Common { return &c.Common }),
			settings.Int("bytes", 0, 0, math.MaxInt64, "memory that New says it takes", func(c *countingConfig) *int { return &c.Bytes })), nil),
		Shape: []string{"num_envs"},
		Memory: func(s *train.Setup) ([]limits.Part, error) {
			n := int64(s.Config.(*countingConfig).Bytes)
			return []limits.Part{{Setting: "small", Bytes: 1}, {Setting: fmt.Sprintf("bytes: %d", n), Bytes: n}}, nil
		},
		New: func(s *train.Setup) (train.Method, error) {
			net := nn.Spec{Obs: s.Spec.Obs, Trunks: []nn.Trunk{{Arch: "mlp", Hidden: []int{4}}}, Heads: []nn.Head{{Name: "q", Out: s.Spec.Action.N}}}
			theta, err := net.InitialParams(rng.New(1, "weights", 0))
			made = &counting{monitor: s.Monitor, spec: s.Spec, net: net, theta: theta, envs: s.Common.NumEnvs}
			return made, err
		},
	})
}

func (m *counting) say(format string, args ...any) {
	m.calls = append(m.calls, fmt.Sprintf(format, args...))
}

func (m *counting) Begin(total int64, flags train.Flags) error {
	m.say("begin %d %d", total, flags)
	if flags&train.ResetTimesteps != 0 {
		m.monitor.Steps.Store(0)
		m.failed = nil
	}
	return nil
}

func (m *counting) Advance(until int64, interrupt *train.Interrupt) error {
	m.latest = interrupt
	for m.monitor.Steps.Load() < until && !interrupt.Raised(time.Now()) {
		if m.round != nil {
			if err := m.round(); err != nil {
				return err
			}
		}
		n := m.monitor.Steps.Add(int64(m.envs))
		m.monitor.Ended(train.Episode{Return: float64(n), Length: n})
	}
	return nil
}

func (m *counting) Settle(interrupt *train.Interrupt) error {
	for m.monitor.Updates.Load() < m.monitor.Steps.Load()/int64(m.envs) {
		if m.interrupted = interrupt.Err(time.Now()); m.interrupted != nil {
			return m.interrupted
		}
		m.theta.Updates = uint64(m.monitor.Updates.Add(1))
	}
	m.say("settled")
	return m.failed
}

func (m *counting) Halt()         { m.say("halt") }
func (m *counting) Wake()         {}
func (m *counting) Failed() error { return m.failed }
func (m *counting) Wrote(set string) {
	m.say("wrote %s", set)
	m.failed = nil
}
func (m *counting) Sets() []nn.Set {
	return []nn.Set{{Name: "q_net", Params: m.theta, Writable: true}, {Name: "copy", Params: m.theta}}
}
func (m *counting) Parts(bool) []checkpoint.Part {
	return []checkpoint.Part{policy.SetPart("q_net", m.theta)}
}
func (m *counting) Policy() policy.Spec {
	return policy.Spec{Set: "q_net", Env: m.spec, Net: m.net, Kind: policy.Greedy}
}
func (m *counting) Digests() []train.Digest {
	return []train.Digest{{Name: "replay", Sum: func() [32]byte { return [32]byte{1} }}}
}
func (m *counting) Latest() (*vec.Rows, vec.Actions) {
	return vec.NewRows(m.spec.Obs, m.envs), vec.Actions{Discrete: make([]int32, m.envs)}
}
func (m *counting) Metrics(to *train.Metrics) {
	to.Due(m.monitor.Steps.Load() / int64(m.envs))
	to.Add("train/loss", "", "none", math.NaN())
	to.Add("rounds", "rounds", "of all", float64(m.monitor.Steps.Load()/int64(m.envs)))
}
func (m *counting) Close() error {
	m.closed.Add(1)
	return nil
}

var check = traintest.Check

func says(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("%v, must say %q", err, text)
	}
}

func start(t *testing.T, set ...string) (*train.Trainer, *counting) {
	t.Helper()
	cfg, err := train.NewConfig("counting")
	check(t, err)
	for _, s := range append([]string{"num_envs=4"}, set...) {
		name, value, _ := strings.Cut(s, "=")
		check(t, cfg.Set(name, value))
	}
	tr, err := train.New(cfg, traintest.MakeWalk(1))
	check(t, err)
	t.Cleanup(func() { tr.Close() })
	return tr, made
}

func TestARunEndsAfterItsUpdates(t *testing.T) {
	tr, m := start(t)
	says(t, tr.Run(0, 0), "max_steps: 0, must be at least 1 where no run was begun")
	says(t, tr.Run(-1, 0), "max_steps: -1, must be at least 0")
	says(t, tr.Begin(0, 0), "total_timesteps: 0, must be 1 to 1125899906842624")
	check(t, tr.Begin(18, 0)) // the first Begin acts as with both flags
	if want := []string{"settled", "begin 18 3"}; !slices.Equal(m.calls, want) {
		t.Errorf("%q, want %q", m.calls, want)
	}
	check(t, tr.Run(5, 0))
	if s := tr.Stats(); s.Steps != 8 || s.Total != 18 || s.Updates != 0 || s.UpdatesDue != 2 {
		t.Errorf("in mid-run %+v", s)
	}
	check(t, tr.Run(0, 0)) // the end of a run waits for its updates
	if s := tr.Stats(); s.Steps != 20 || s.Updates != 5 || s.UpdatesDue != 5 || s.Episodes != 5 || s.MeanReturn != 12 || s.MeanLength != 12 {
		t.Errorf("at the end of the run %+v", s)
	}
	check(t, tr.Begin(4, 0))
	if s := tr.Stats(); s.Total != 24 || s.Episodes != 5 || len(tr.Episodes()) != 5 {
		t.Errorf("continued: %+v", s)
	}
	check(t, tr.Begin(4, train.ResetTimesteps))
	if s := tr.Stats(); s.Steps != 0 || s.Total != 4 || s.Episodes != 0 || !math.IsNaN(s.MeanReturn) || len(tr.Episodes()) != 0 {
		t.Errorf("restarted: %+v", s)
	}
	check(t, tr.Run(0, 0))
	if s := tr.Stats(); s.Episodes != 1 || s.MeanReturn != 4 {
		t.Errorf("at the end of the new run %+v", s)
	}
}

// Reads settle first. After Stop nothing is settled until the next step.
func TestReadsSettleFirst(t *testing.T) {
	tr, m := start(t)
	check(t, tr.Begin(1000, 0))
	check(t, tr.Run(8, 0))
	n, err := tr.GetParameters("q_net", make([]float32, tr.ParameterSets()[0].Size))
	if check(t, err); n != 2 {
		t.Errorf("the parameters have seen %d updates, want 2", n)
	}
	tr.Stop()
	check(t, tr.Run(8, 0)) // Stop without a Run in progress ends the next Run at once
	if s := tr.Stats(); s.Steps != 8 {
		t.Errorf("%+v after a Stop", s)
	}
	check(t, tr.Run(8, 0))
	m.round = func() error { tr.Stop(); return nil }
	check(t, tr.Run(8, 0))
	before := tr.Stats().Updates
	if _, err := tr.Hash("q_net"); err != nil || tr.Stats().Updates != before {
		t.Errorf("%v; %d updates after a Stop, %d before", err, tr.Stats().Updates, before)
	}
	m.round = nil
	check(t, tr.Run(4, 0))
	check(t, tr.Settle(0))
	if s := tr.Stats(); s.Updates != s.UpdatesDue {
		t.Errorf("%+v after the next step", s)
	}
}

// errors.Is tells Stop and a time limit apart, wherever an Interrupt ends a call.
func TestStopIsNoTimeLimit(t *testing.T) {
	tr, m := start(t)
	check(t, tr.Begin(1000, 0))
	check(t, tr.Run(8, 0))
	if err := tr.Settle(1); !errors.Is(err, fault.ErrTimedOut) || errors.Is(err, fault.ErrStopped) { // a limit of one nanosecond
		t.Errorf("%v, must be fault.ErrTimedOut alone", err)
	}
	if err := m.interrupted; !errors.Is(err, train.ErrInterrupted) || !errors.Is(err, fault.ErrTimedOut) || errors.Is(err, fault.ErrStopped) {
		t.Errorf("a deadline has passed: %v", err)
	}
	m.round = func() error { tr.Stop(); return m.Settle(m.latest) }
	check(t, tr.Run(8, 0))
	if err := m.interrupted; !errors.Is(err, train.ErrInterrupted) || !errors.Is(err, fault.ErrStopped) || errors.Is(err, fault.ErrTimedOut) {
		t.Errorf("Stop was called: %v", err)
	}
}

// One call at a time; Stop, Stats, Metric and Close at any time.
func TestASecondCallIsRefused(t *testing.T) {
	tr, m := start(t)
	inside, goOn := make(chan bool), make(chan bool)
	var once sync.Once
	m.round = func() error {
		once.Do(func() { inside <- true; <-goOn })
		return nil
	}
	ended := make(chan error)
	go func() { ended <- tr.Run(1_000_000_000, 0) }()
	<-inside
	for name, call := range map[string]func() error{
		"run": func() error { return tr.Run(1, 0) }, "begin": func() error { return tr.Begin(1, 0) },
		"settle": func() error { return tr.Settle(0) }, "save": func() error { return tr.Save("x", false) },
		"hash": func() error { _, err := tr.Hash("q_net"); return err }, "notice": func() error { _, err := tr.Notice(); return err },
	} {
		if err := call(); !errors.Is(err, fault.ErrBusy) {
			t.Errorf("%s: %v, must be fault.ErrBusy", name, err)
		}
	}
	tr.Stats()
	if _, ok := tr.Metric(0); !ok {
		t.Error("no metric while a call is in progress")
	}
	close(goOn)
	check(t, tr.Close()) // ends the Run
	if err := <-ended; err != nil {
		t.Errorf("the run that was closed: %v", err)
	}
	if err := tr.Run(1, 0); !errors.Is(err, fault.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	check(t, tr.Close())
	if n := m.closed.Load(); n != 1 {
		t.Errorf("the method was closed %d times", n)
	}
}

// A panic makes this Trainer unusable and no other; a panic of an environment makes none unusable.
func TestAPanicBreaksOneTrainer(t *testing.T) {
	tr, m := start(t)
	m.round = func() error { panic("out of luck") }
	var p *fault.Panic
	if err := tr.Run(4, 0); !errors.As(err, &p) || !strings.Contains(err.Error(), "out of luck") {
		t.Fatalf("%v", err)
	}
	m.round = nil
	if err := tr.Run(4, 0); !errors.As(err, &p) {
		t.Errorf("after a panic: %v", err)
	}
	tr.Stats()
	other, m := start(t)
	inEnvironment := &env.Error{Index: 2, Err: fault.Caught("in the environment")}
	m.round = func() error { return inEnvironment }
	if err := other.Run(4, 0); !errors.As(err, &p) {
		t.Errorf("%v", err)
	}
	m.round = nil
	check(t, other.Run(4, 0))
	m.round = func() error { return errors.Join(inEnvironment, fault.Caught("in the library")) }
	if err := other.Run(4, 0); !errors.As(err, &p) {
		t.Errorf("%v", err)
	}
	m.round = nil
	if err := other.Run(4, 0); !errors.As(err, &p) {
		t.Errorf("after a panic in the library, concurrently with an environment's: %v", err)
	}
}

// After a loss that is not finite the Trainer can be read, and training goes on after SetParameters
// or a Begin with ResetTimesteps.
func TestTrainingContinuesAfterALossThatIsNotFinite(t *testing.T) {
	for _, heal := range []string{"SetParameters", "Begin"} {
		tr, m := start(t)
		check(t, tr.Begin(100, 0))
		check(t, tr.Run(8, 0))
		m.failed = fmt.Errorf("loss: NaN at step 8, %w", fault.ErrNotFinite)
		if err := tr.Run(4, 0); !errors.Is(err, fault.ErrNotFinite) {
			t.Errorf("%v", err)
		}
		if _, err := tr.Hash("q_net"); err != nil {
			t.Errorf("reading: %v", err)
		}
		if err := tr.Begin(100, 0); !errors.Is(err, fault.ErrNotFinite) {
			t.Errorf("continuing: %v", err)
		}
		if heal == "Begin" {
			check(t, tr.Begin(100, train.ResetTimesteps))
		} else {
			check(t, tr.SetParameters("q_net", make([]float32, tr.ParameterSets()[0].Size)))
		}
		check(t, tr.Run(4, 0))
	}
}

func TestParameterSetsAreReadAndSet(t *testing.T) {
	tr, m := start(t)
	size := tr.ParameterSets()[0].Size
	_, err := tr.GetParameters("theta", make([]float32, size))
	says(t, err, `parameter set: "theta", must be q_net, copy`)
	_, err = tr.GetParameters("q_net", make([]float32, size-1))
	says(t, err, fmt.Sprintf("parameters: %d numbers, must be %d", size-1, size))
	says(t, tr.SetParameters("copy", make([]float32, size)), `parameter set: "copy", follows others and cannot be written`)
	from := make([]float32, size)
	from[3] = float32(math.Inf(-1))
	before, err := tr.Hash("q_net")
	check(t, err)
	says(t, tr.SetParameters("q_net", from), "parameters: number 3 is -Inf")
	if after, err := tr.Hash("q_net"); err != nil || after != before {
		t.Errorf("%v: a refused SetParameters changed %s to %s", err, before, after)
	}
	from[3] = 2
	check(t, tr.SetParameters("q_net", from))
	to := make([]float32, size)
	if _, err = tr.GetParameters("q_net", to); err != nil || !slices.Equal(to, from) || m.calls[len(m.calls)-2] != "wrote q_net" {
		t.Errorf("%v: %v, calls %q", err, to[:4], m.calls)
	}
	if got, err := tr.Hash("q_net"); err != nil || got != train.HashFloats(from) {
		t.Errorf("%v: hash %s", err, got)
	}
	_, err = tr.Hash("weights")
	says(t, err, `part: "weights", must be replay, q_net, copy`)
}

func TestNoticesAreReturnedOnce(t *testing.T) {
	tr, m := start(t)
	m.monitor.Notify("%d lines", 2)
	for _, want := range []string{"said once", "2 lines", ""} {
		if got, err := tr.Notice(); err != nil || got != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	check(t, tr.Run(8, 0))
	if got, ok := tr.Metric(1); !ok || got.Name != "rounds" || got.Unit != "rounds" || got.Value != 2 {
		t.Errorf("%+v", got)
	}
	if i, err := tr.MetricIndex("rounds"); err != nil || i != 1 {
		t.Errorf("%d, %v, want 1", i, err)
	}
	_, err := tr.MetricIndex("round")
	says(t, err, `metric: "round", counting reports none of that name; did you mean rounds?`)
	_, err = tr.MetricIndex("loss")
	says(t, err, `metric: "loss", counting reports none of that name`)
	rest := 1.0
	for k := 2; k < 6; k++ {
		got, ok := tr.Metric(k)
		if !ok || !strings.HasPrefix(got.Name, "time/utilisation_") || !(got.Value >= 0) {
			t.Errorf("%+v", got)
		}
		rest -= got.Value
	}
	if _, ok := tr.Metric(6); ok || math.Abs(rest) > 1e-9 {
		t.Errorf("a metric past the last one, or shares that add up to %v", 1-rest)
	}
	for n := range 250 { // the latest 100 are kept
		m.monitor.Ended(train.Episode{Return: float64(n), Length: int64(n)})
	}
	if s := tr.Stats(); s.Episodes != 252 || math.Abs(s.MeanReturn-199.5) > 1e-9 || math.Abs(s.MeanLength-199.5) > 1e-9 {
		t.Errorf("%+v", s)
	}
}

// The means are over the latest stats_window_size episodes. After a load with another
// stats_window_size they are over the episodes that the file has.
func TestMeansCoverTheStatsWindow(t *testing.T) {
	trainer := func(window int) *train.Trainer {
		cfg, err := train.NewConfig("counting")
		check(t, err)
		check(t, cfg.Set("stats_window_size", fmt.Sprint(window)))
		tr, err := train.New(cfg, traintest.MakeWalk(1))
		check(t, err)
		check(t, tr.Begin(1000, 0))
		t.Cleanup(func() { check(t, tr.Close()) })
		return tr
	}
	path := filepath.Join(t.TempDir(), "run")
	r := rand.New(rand.NewPCG(5, 6))
	for _, window := range []int{1, 3, 7, 10_000} {
		tr, m, all := trainer(window), made, []train.Episode(nil)
		verify := func(tr *train.Trainer, most int) {
			t.Helper()
			want, mean := all[max(0, len(all)-most):], 0.0
			for _, e := range want {
				mean += e.Return
			}
			mean /= float64(len(want)) // NaN without episodes
			s := tr.Stats()
			if got := tr.Episodes(); !slices.Equal(got, want) || s.Episodes != int64(len(all)) || s.MeanReturn != mean && mean == mean {
				t.Fatalf("window %d: %v, mean %v of %d, want %v, mean %v of %d", window, got, s.MeanReturn, s.Episodes, want, mean, len(all))
			}
		}
		for range 60 {
			if r.IntN(4) == 0 {
				check(t, tr.Save(path, true))
				for _, other := range []int{2, 7, 500} {
					loaded := trainer(other)
					host, saved := made.monitor, all
					check(t, loaded.Load(path))
					verify(loaded, min(window, other))
					all = append(slices.Clone(all), train.Episode{Return: 0.1, Length: 1})
					host.Ended(all[len(all)-1])
					verify(loaded, min(min(window, len(saved))+1, other))
					all = saved
				}
			}
			all = append(all, train.Episode{Return: r.NormFloat64(), Length: 1 + int64(len(all))})
			m.monitor.Ended(all[len(all)-1])
			verify(tr, window)
		}
	}
	cfg, err := train.NewConfig("counting")
	check(t, err)
	says(t, cfg.Set("stats_window_size", "0"), "stats_window_size: 0, must be 1 to 10000")
}
