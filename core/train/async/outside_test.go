package async_test

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	_ "github.com/paceline-rl/paceline/core/agents/a2c"
	_ "github.com/paceline-rl/paceline/core/agents/dqn"
	_ "github.com/paceline-rl/paceline/core/agents/gorila"
	_ "github.com/paceline-rl/paceline/core/agents/ppo"
	_ "github.com/paceline-rl/paceline/core/agents/pqn"
	"github.com/paceline-rl/paceline/core/env"
	_ "github.com/paceline-rl/paceline/core/env/builtin"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/param"
	"github.com/paceline-rl/paceline/core/train"
	"github.com/paceline-rl/paceline/core/train/traintest"
	"github.com/paceline-rl/paceline/core/vec"
)

// applied is a run whose updates are made outside: by Ranges, and the optimiser that the settings
// stand for in one process.
type applied struct {
	name, method string
	settings     []string // name, value, ...
	optimizer    nn.OptimizerConfig
	steps        int64
}

var smallDQN = []string{"env", "CartPole-v1", "num_envs", "3", "seed", "7", "net_arch", "12", "learning_starts", "60", "batch_size", "8", "buffer_size", "300", "window", "40", "target_update_interval", "50", "learning_rate", "0.01", "exploration_steps", "200"}
var smallActorCritic = []string{"env", "CartPole-v1", "num_envs", "3", "seed", "7", "net_arch_pi", "12", "net_arch_vf", "12", "learning_rate", "0.01", "learning_rate_final", "0"}

func runsApplied() []applied {
	dqn := func(name string, o nn.OptimizerConfig, more ...string) applied {
		return applied{"dqn " + name, "dqn", slices.Concat(smallDQN, []string{"optimizer", o.Name}, more), o, 500}
	}
	adagrad, rmsprop := nn.OptimizerConfig{Name: "adagrad"}, nn.OptimizerConfig{Name: "rmsprop"}
	adam := nn.OptimizerConfig{Name: "adam", Eps: 1e-5}
	return []applied{
		dqn("concurrent adagrad", adagrad, "learning_rate_final", "0"),
		dqn("standard rmsprop", rmsprop, "concurrent", "false", "gradient_steps", "3", "train_freq", "5", "tau", "0.5"),
		dqn("adam", nn.OptimizerConfig{Name: "adam"}, "double_q", "true", "max_grad_norm", "0.3", "actor", "target", "window", "0"),
		dqn("prioritised", adagrad, "prioritized", "dopamine", "concurrent", "false"),
		dqn("noisy", adagrad, "noisy", "true"),
		dqn("clock updates", adagrad, "clock", "updates", "exploration_steps", "60", "target_update_interval", "10", "learning_rate_final", "0", "concurrent", "false"),
		{"a2c rmsprop", "a2c", append(slices.Clone(smallActorCritic), "max_grad_norm", "0.1", "rms_prop_first", "1", "rms_prop_eps_inside", "true"), nn.OptimizerConfig{Name: "rmsprop", Eps: 1e-5, EpsInside: true, FirstAverage: 1}, 300},
		{"a2c late resets", "a2c", append(slices.Clone(smallActorCritic), "use_rms_prop", "false", "mid_batch_reset", "false", "normalize_obs", "true", "n_steps", "20"), adam, 400},
		{"ppo", "ppo", append(slices.Clone(smallActorCritic), "n_steps", "16", "batch_size", "20", "n_epochs", "3"), adam, 300},
		{"ppo target_kl", "ppo", append(slices.Clone(smallActorCritic), "n_steps", "16", "batch_size", "12", "n_epochs", "4", "target_kl", "0.001", "learning_rate", "0.05"), adam, 300},
		dqn("deferred", adagrad, "prioritized", "kaixhin", "priority_update", "window", "concurrent", "false", "gradient_steps", "4"),
		dqn("concurrent deferred", adagrad, "prioritized", "kaixhin", "priority_update", "window", "n_steps", "2"),
	}
}

func configOfRun(t testing.TB, a applied, more ...string) *train.Config {
	t.Helper()
	c := traintest.Must(train.NewConfig(a.method))(t)
	for list := slices.Concat(a.settings, []string{"num_threads", "2"}, more); len(list) > 0; list = list[2:] {
		traintest.Check(t, c.Set(list[0], list[1]))
	}
	return c
}

// server is a parameter server: Ranges that cover a trainer's parameters.
type server struct {
	t      testing.TB
	ranges []*param.Range
	theta  []float32
	first  []int
	seen   []uint64
}

func newServer(t testing.TB, tr *train.Trainer, o nn.OptimizerConfig) *server {
	t.Helper()
	set := tr.ParameterSets()[0]
	s := &server{t: t, theta: make([]float32, set.Size), first: []int{0, set.Size / 3, set.Size}, seen: make([]uint64, 2)}
	traintest.Must(tr.GetParameters(set.Name, s.theta))(t)
	for i := range s.seen {
		s.ranges = append(s.ranges, traintest.Must(param.NewRange(s.theta[s.first[i]:s.first[i+1]], param.RangeOptions{First: int64(s.first[i]), Optimizer: o}))(t))
	}
	return s
}

func (s *server) push(grad []float32, info train.GradientInfo) {
	for i, r := range s.ranges {
		traintest.Must(r.Push(grad[s.first[i]:s.first[i+1]], info.Rate, s.seen[i], param.Key{Step: info.Number}))(s.t)
	}
}

// pull returns the number of updates, which is the version of the last range.
func (s *server) pull() int64 {
	for i, r := range s.ranges {
		s.seen[i] = traintest.Must(r.Pull(s.theta[s.first[i]:s.first[i+1]]))(s.t)
	}
	return int64(s.seen[len(s.seen)-1])
}

// apply does updates until the run ends, or until `most` of them are done, and returns how many.
func (s *server) apply(tr *train.Trainer, most int) (updates int) {
	s.t.Helper()
	grad := make([]float32, len(s.theta))
	for ; updates < most; updates++ {
		info, err := tr.Gradient(grad, 0)
		traintest.Check(s.t, err)
		if info.State == train.GradientNone {
			return updates
		}
		if info.State != train.GradientReady || info.Rows < 1 || info.Loss != info.Loss || info.Updates != int64(s.seen[1]) || info.Steps != tr.Stats().Steps {
			s.t.Fatalf("%+v", info)
		}
		s.push(grad, info)
		traintest.Check(s.t, tr.Adopt(s.theta, s.pull(), -1))
	}
	return updates
}

// toEndOfRollout takes the steps of a run, and those after them that end a rollout.
func toEndOfRollout(t testing.TB, tr *train.Trainer) {
	t.Helper()
	traintest.Check(t, tr.Run(0, 0))
	if r, ok := tr.Method().(train.Rolling); ok && r.InRollout() {
		traintest.Check(t, tr.RunRollouts(1, 1<<20, 0))
		traintest.Check(t, tr.Settle(0))
	}
}

// digest is what a run has led to.
func digest(t testing.TB, tr *train.Trainer) string {
	t.Helper()
	s := tr.Stats()
	text := fmt.Sprintf("%d steps, %d updates, %d episodes, %v", s.Steps, s.Updates, s.Episodes, s.MeanReturn)
	for _, set := range tr.ParameterSets() {
		text += fmt.Sprintf(" %s %.12s", set.Name, traintest.Must(tr.Hash(set.Name))(t))
	}
	for _, part := range []string{"replay", "rollout"} {
		if sum, err := tr.Hash(part); err == nil {
			text += fmt.Sprintf(" %s %.12s", part, sum)
		}
	}
	return text
}

// One trainer whose gradients are applied outside, without delay, is bit-identical to a trainer
// that applies them itself; also where it is saved and loaded on the way.
func TestOutsideHasTheBitsOfOwn(t *testing.T) {
	for _, a := range runsApplied() {
		t.Run(a.name, func(t *testing.T) {
			own := traintest.NewTrainer(t, configOfRun(t, a), nil)
			traintest.Check(t, own.Begin(a.steps, 0))
			toEndOfRollout(t, own)
			want := digest(t, own)
			tr := traintest.NewTrainer(t, configOfRun(t, a, "updates", "outside"), nil)
			s := newServer(t, tr, a.optimizer)
			traintest.Check(t, tr.Begin(a.steps, 0))
			done := 0
			for piece := range 3 {
				done += s.apply(tr, 7+5*piece)
				traintest.Check(t, tr.Settle(time.Hour)) // an update that comes from outside is not waited for
				path := filepath.Join(t.TempDir(), "mid.paceline")
				traintest.Check(t, tr.Save(path, true))
				next := traintest.NewTrainer(t, traintest.Must(train.LoadConfig(path))(t), nil)
				traintest.Check(t, next.Load(path))
				traintest.Check(t, tr.Close())
				tr = next
			}
			done += s.apply(tr, math.MaxInt)
			if got := digest(t, tr); got != want {
				t.Errorf("%s\nwant %s", got, want)
			}
			if done == 0 || int64(done) != own.Stats().Updates || int64(done) != tr.Stats().Updates {
				t.Errorf("%d gradients, %d updates, own %d", done, tr.Stats().Updates, own.Stats().Updates)
			}
			for _, each := range []*train.Trainer{own, tr} { // a further run
				traintest.Check(t, each.Begin(100, 0))
			}
			toEndOfRollout(t, own)
			s.apply(tr, math.MaxInt)
			if got, want := digest(t, tr), digest(t, own); got != want {
				t.Errorf("a further run: %s\nwant %s", got, want)
			}
		})
	}
}

// A second gradient before an Adopt is that of the next update at the same parameters.
func TestOutsideWithADelay(t *testing.T) {
	for _, a := range runsApplied() {
		run := func() string {
			tr := traintest.NewTrainer(t, configOfRun(t, a, "updates", "outside"), nil)
			s := newServer(t, tr, a.optimizer)
			traintest.Check(t, tr.Begin(a.steps, 0))
			var grads [2][]float32
			var infos [2]train.GradientInfo
			for n := 0; ; n++ {
				now := n % 2
				grads[now] = make([]float32, len(s.theta))
				info, err := tr.Gradient(grads[now], 0)
				traintest.Check(t, err)
				if info.State == train.GradientNone {
					break
				}
				if want := max(0, n-1); info.Number != int64(n+1) || info.Updates != int64(want) {
					t.Fatalf("%s: gradient %d: %+v", a.name, n, info)
				}
				infos[now] = info
				if n > 0 {
					s.push(grads[1-now], infos[1-now])
					traintest.Check(t, tr.Adopt(s.theta, s.pull(), -1))
				}
			}
			return digest(t, tr)
		}
		if first, second := run(), run(); first != second {
			t.Errorf("%s: %s\n%s", a.name, first, second)
		}
	}
}

// Environments that the host steps give the same bits as those that the library steps.
func TestOutsideWhereTheHostSteps(t *testing.T) {
	for _, a := range runsApplied() {
		if slices.Contains(a.settings, "mid_batch_reset") { // the host resets environments itself
			continue
		}
		own := traintest.NewTrainer(t, configOfRun(t, a), nil)
		traintest.Check(t, own.Begin(a.steps, 0))
		toEndOfRollout(t, own)
		mk := func(i int) (env.Env, error) {
			e, err := env.Make("CartPole-v1", nil)
			if err == nil {
				e.Seed(vec.SeedFor(7, i))
			}
			return e, err
		}
		h := traintest.NewHost(t, configOfRun(t, a, "updates", "outside"), vec.SameStep, mk)
		s := newServer(t, h.Trainer, a.optimizer)
		h.Begin(t, a.steps)
		grad, state := make([]float32, len(s.theta)), train.GradientLater
		for state != train.GradientNone {
			info := traintest.Must(h.Trainer.Gradient(grad, 0))(t)
			switch state = info.State; state {
			case train.GradientReady:
				s.push(grad, info)
				traintest.Check(t, h.Trainer.Adopt(s.theta, s.pull(), -1))
			case train.GradientLater:
				traintest.Check(t, h.Act())
				if _, err := h.Trainer.Gradient(grad, 0); err == nil || err.Error() != "gradient: must not be called between act and observe" {
					t.Fatal(err)
				}
				traintest.Check(t, h.Vec.Step(h.Actions, h.Rows))
				traintest.Check(t, h.Observe())
				if n := h.Trainer.Stats().Steps; info.Steps+3 != n {
					t.Fatalf("%+v, %d steps", info, n)
				}
				if h.Trainer.Method().(train.Learner).RoundsToUpdate() == 0 {
					if err := h.Act(); err == nil || err.Error() != "act: an update is due; call gradient before" {
						t.Fatal(err)
					}
				}
			}
		}
		if got, want := digest(t, h.Trainer), digest(t, own); got != want {
			t.Errorf("%s: %s\nwant %s", a.name, got, want)
		}
	}
}

func TestOutsideRefuses(t *testing.T) {
	says := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	refused := func(want string, a applied, more ...string) {
		t.Helper()
		_, err := train.New(configOfRun(t, a, more...), nil)
		says(err, want)
	}
	runs := runsApplied()
	dqn, a2c := runs[0], runs[6]
	refused("updates: outside, must be own where learners is 3", dqn, "updates", "outside", "learners", "3")
	refused("synchronized: false, must be true where updates is outside", dqn, "updates", "outside", "synchronized", "false")
	refused("outside_learner: 2, must be below outside_learners (2)", dqn, "updates", "outside", "outside_learner", "2", "outside_learners", "2")
	refused("outside_learners: 2, must be 1 where updates is own", a2c, "outside_learners", "2")
	refused("device: cuda, must be auto or cpu where updates is outside", a2c, "updates", "outside", "device", "cuda")
	refused("outside_learners: 2, must be 1 with normalize_obs", a2c, "updates", "outside", "outside_learners", "2", "normalize_obs", "true")

	own := traintest.NewTrainer(t, configOfRun(t, dqn), nil)
	_, err := own.Gradient(nil, 0)
	says(err, "gradient: updates is own, must be outside")
	says(own.Adopt(nil, 0, -1), "adopt: updates is own, must be outside")
	other := applied{method: "pqn", settings: []string{"env", "CartPole-v1"}}
	_, err = traintest.NewTrainer(t, configOfRun(t, other), nil).Gradient(nil, 0)
	says(err, "gradient: the updates of pqn are its own, must be a method with the setting updates")

	tr := traintest.NewTrainer(t, configOfRun(t, dqn, "updates", "outside"), nil)
	size := tr.ParameterSets()[0].Size
	grad, theta := make([]float32, size), make([]float32, size)
	_, err = tr.Gradient(grad, 0)
	says(err, "gradient: no run was begun")
	says(tr.Run(100, 0), "run: the updates of this trainer come from outside; use gradient and adopt")
	traintest.Check(t, tr.Begin(400, 0))
	_, err = tr.Gradient(grad[1:], 0)
	says(err, fmt.Sprintf("gradient: %d numbers, must be %d", size-1, size))
	says(tr.Adopt(theta[1:], 0, -1), fmt.Sprintf("parameters: %d numbers, must be %d", size-1, size))
	says(tr.Adopt(theta, -1, -1), "updates: -1, must be 0 to")
	says(tr.Adopt(theta, 0, -2), "steps: -2, must be -1 to")
	before := digest(t, tr)
	theta[5] = float32(math.NaN())
	if err := tr.Adopt(theta, 0, -1); !errors.Is(err, fault.ErrNotFinite) {
		t.Error(err)
	}
	// A limit and a Stop lose nothing, and every call gets on.
	tr.Stop()
	if _, err := tr.Gradient(grad, 0); !errors.Is(err, fault.ErrStopped) {
		t.Error(err)
	}
	if now := digest(t, tr); now != before {
		t.Errorf("%s, before refused calls %s", now, before)
	}
	for calls := 0; ; calls++ {
		info, err := tr.Gradient(grad, time.Nanosecond)
		if info.State == train.GradientReady {
			break
		}
		if !errors.Is(err, fault.ErrTimedOut) || calls > 100 {
			t.Fatal(err)
		}
	}
	// A file of a trainer that takes its own steps is of another optimiser.
	path := filepath.Join(t.TempDir(), "own.paceline")
	traintest.Check(t, own.Save(path, false))
	says(tr.Load(path), `updates: the checkpoint has "own", this trainer has "outside"`)
}

// A gradient whose loss is far above the others is dropped: it counts as an update of the trainer,
// and as none of the parameters.
func TestOutsideDropsOutliers(t *testing.T) {
	a := runsApplied()[5]
	a.settings = append(a.settings, "outliers", "1.5", "train_freq", "1")
	own := traintest.NewTrainer(t, configOfRun(t, a), nil)
	traintest.Check(t, own.Begin(a.steps, 0))
	traintest.Check(t, own.Run(0, 0))
	tr := traintest.NewTrainer(t, configOfRun(t, a, "updates", "outside"), nil)
	s := newServer(t, tr, a.optimizer)
	traintest.Check(t, tr.Begin(a.steps, 0))
	grad, dropped, number := make([]float32, len(s.theta)), 0, int64(0)
	for {
		info, err := tr.Gradient(grad, 0)
		traintest.Check(t, err)
		if info.State == train.GradientNone {
			break
		}
		if info.State == train.GradientDropped {
			dropped++
			continue
		}
		if number++; info.Number != number {
			t.Fatalf("%+v, must have number %d", info, number)
		}
		s.push(grad, info)
		traintest.Check(t, tr.Adopt(s.theta, s.pull(), -1))
	}
	if got, want := digest(t, tr), digest(t, own); got != want || dropped == 0 {
		t.Errorf("%d dropped: %s\nwant %s", dropped, got, want)
	}
}

// A loss that is not finite ends training, without a gradient, until parameters are adopted.
func TestOutsideAfterALossThatIsNotFinite(t *testing.T) {
	for _, a := range []applied{runsApplied()[1], runsApplied()[6]} {
		tr := traintest.NewTrainer(t, configOfRun(t, a, "updates", "outside"), nil)
		s := newServer(t, tr, a.optimizer)
		start := slices.Clone(s.theta)
		traintest.Check(t, tr.Begin(a.steps, 0))
		s.apply(tr, 3)
		wild := slices.Clone(start)
		for i := range wild {
			wild[i] = 1e30
		}
		traintest.Check(t, tr.Adopt(wild, 3, -1))
		grad := slices.Clone(start)
		for range 2 {
			if info, err := tr.Gradient(grad, 0); info.State != train.GradientNone || !errors.Is(err, fault.ErrNotFinite) {
				t.Fatalf("%s: %v", a.name, err)
			}
		}
		if !slices.Equal(grad, start) {
			t.Errorf("%s: a gradient was written", a.name)
		}
		s.pull()
		traintest.Check(t, tr.Adopt(s.theta, 3, -1))
		if n := s.apply(tr, 5); n != 5 {
			t.Errorf("%s: %d gradients afterwards", a.name, n)
		}
	}
}

// Learner k of K has the environments and the random numbers of that learner in one process. The
// steps of all learners count in the end of the run and in the schedules.
func TestOutsideLearnersShareARun(t *testing.T) {
	a := runsApplied()[6]
	one := traintest.NewTrainer(t, configOfRun(t, a, "num_envs", "6", "n_steps", "1"), nil)
	traintest.Check(t, one.Begin(600, 0))
	traintest.Check(t, one.Run(6, 0))
	all, actions := latest(t, one, 6)
	for k := range 3 {
		tr := traintest.NewTrainer(t, configOfRun(t, a, "updates", "outside", "num_envs", "2", "n_steps", "1", "outside_learners", "3", "outside_learner", fmt.Sprint(k)), nil)
		s := newServer(t, tr, a.optimizer)
		traintest.Check(t, tr.Begin(600, 0))
		grad := make([]float32, len(s.theta))
		traintest.Must(tr.Gradient(grad, 0))(t)
		rows, chosen := latest(t, tr, 2)
		if n := len(rows.Obs) / 2; !slices.Equal(rows.Obs, all.Obs[2*k*n:2*(k+1)*n]) || !slices.Equal(chosen.Discrete, actions.Discrete[2*k:2*k+2]) {
			t.Errorf("learner %d has other environments or actions than environments %d and %d", k, 2*k, 2*k+1)
		}
		traintest.Check(t, tr.Adopt(s.theta, 4, 596))
		info := traintest.Must(tr.Gradient(grad, 0))(t)
		if want := 0.01 * (1 - 598.0/600); math.Abs(info.Rate-want) > 1e-9 || info.Updates != 4 || info.Steps != 4 {
			t.Errorf("%+v, must have a rate of %v", info, want)
		}
		traintest.Check(t, tr.Adopt(s.theta, 2, -1)) // a server that has lost updates
		if info := traintest.Must(tr.Gradient(grad, 0))(t); info.Updates != 4 || info.Steps != 6 {
			t.Errorf("%+v", info)
		}
		if info := traintest.Must(tr.Gradient(grad, 0))(t); info.State != train.GradientNone {
			t.Errorf("the run has not ended: %+v", info)
		}
	}
}

func latest(t testing.TB, tr *train.Trainer, envs int) (*vec.Rows, vec.Actions) {
	t.Helper()
	rows, actions := vec.NewRows(tr.Spec().Obs, envs), vec.Actions{Discrete: make([]int32, envs)}
	traintest.Check(t, tr.Latest(rows, actions))
	return rows, actions
}

// A bundle of Gorila, alone with one shard, is bit-identical to DQN whose gradients go to a Range.
func TestOneBundleIsATrainerOutside(t *testing.T) {
	one := applied{method: "gorila", steps: 400, settings: []string{"env", "CartPole-v1", "num_envs", "1", "seed", "5", "net_arch", "12", "learning_starts", "40", "batch_size", "8", "buffer_size", "300", "target_update_interval", "30", "exploration_steps", "200", "outliers", "2", "bundles", "1", "shards", "1"}}
	gorila := traintest.NewTrainer(t, configOfRun(t, one), nil)
	traintest.Check(t, gorila.Begin(one.steps, 0))
	traintest.Check(t, gorila.Run(0, 0))
	// The settings of a bundle are those of Gorila that DQN has, and those that Gorila fixes.
	c, all := traintest.Must(train.NewConfig("dqn"))(t), gorila.Config().Map()
	for name, value := range all {
		if _, err := c.Get(name); err == nil {
			traintest.Check(t, c.Set(name, value))
		}
	}
	for _, pair := range [][2]string{{"clock", "updates"}, {"concurrent", "false"}, {"actor", "online"}, {"updates", "outside"}, {"learners", "0"}} {
		traintest.Check(t, c.Set(pair[0], pair[1]))
	}
	tr := traintest.NewTrainer(t, c, nil)
	s := newServer(t, tr, nn.OptimizerConfig{Name: "adagrad"})
	traintest.Check(t, tr.Begin(one.steps, 0))
	grad, dropped := make([]float32, len(s.theta)), 0
	for {
		info, err := tr.Gradient(grad, 0)
		traintest.Check(t, err)
		if info.State == train.GradientNone {
			break
		}
		if info.State == train.GradientDropped {
			dropped++
		} else {
			s.push(grad, info)
		}
		traintest.Check(t, tr.Adopt(s.theta, s.pull(), -1))
	}
	for _, part := range []string{"q_net", "q_net_target", "replay"} {
		if got, want := traintest.Must(tr.Hash(part))(t), traintest.Must(gorila.Hash(part))(t); got != want {
			t.Errorf("%s: %.12s, Gorila has %.12s", part, got, want)
		}
	}
	if dropped == 0 || tr.Stats().Steps != gorila.Stats().Steps {
		t.Errorf("%d dropped, %d and %d steps", dropped, tr.Stats().Steps, gorila.Stats().Steps)
	}
}
