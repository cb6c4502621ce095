package classic

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
)

// golden is a step recorded from Gymnasium by testdata/generate.py.
type golden struct {
	before, after []float64
	action        float32
	obs           []float32
	reward        float32
	end           env.End
	steps         int // of the episode, before this one
}

func readGolden(t *testing.T, id string, numbers, components int) []golden {
	t.Helper()
	text, err := os.ReadFile("testdata/" + id + ".csv")
	if err != nil {
		t.Fatal(err)
	}
	var rows []golden
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(strings.TrimSpace(line), ",")
		next := func() float64 {
			x, err := strconv.ParseFloat(fields[0], 64)
			if err != nil {
				t.Fatal(err)
			}
			fields = fields[1:]
			return x
		}
		var g golden
		for range numbers {
			g.before = append(g.before, next())
		}
		g.action = float32(next())
		for range numbers {
			g.after = append(g.after, next())
		}
		for range components {
			g.obs = append(g.obs, float32(next()))
		}
		g.reward = float32(next())
		if next() == 1 {
			g.end |= env.Terminated
		}
		if next() == 1 {
			g.end |= env.Truncated
		}
		g.steps = int(next())
		rows = append(rows, g)
	}
	if len(rows) < 500 {
		t.Fatalf("%s: %d rows", id, len(rows))
	}
	return rows
}

func floats(obs []byte) []float32 {
	x := make([]float32, len(obs)/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.NativeEndian.Uint32(obs[4*i:]))
	}
	return x
}

// tried is an environment, its common part and the length of its state.
type tried struct {
	env     env.Saver
	task    *task
	numbers int
}

// step takes an action: a number, or a box of one number.
func (x *tried) step(action float32, obs []byte) (float32, env.End, error) {
	s := &x.task.spec.Action
	if s.N > 0 {
		return x.env.Step(int32(action), obs)
	}
	return s.Step(x.env, nil, []float32{action}, obs)
}

// tasks lists all environments.
func tasks() []tried {
	c, a, m, p, b := NewCartPole(), NewAcrobot(), NewMountainCar(), NewPendulum(), NewContinuousCar()
	return []tried{{c, &c.task, 4}, {a, &a.task, 4}, {m, &m.task, 2}, {p, &p.task, 2}, {b, &b.task, 2}}
}

// One step from the same state equals Gymnasium's: rewards and ends exactly, numbers within a few
// units in the last place of a double.
func TestStepsEqualGymnasium(t *testing.T) {
	const tolerance = 1e-13 // relative to 1 or to the number, whichever is larger
	for _, x := range tasks() {
		spec := x.env.Spec()
		obs := make([]byte, spec.Obs.Bytes())
		var largest float64
		exact := 0
		rows := readGolden(t, spec.ID, x.numbers, spec.Obs.Len())
		for k, g := range rows {
			copy(x.task.state[:], g.before)
			x.task.steps, x.task.active = g.steps, true
			reward, end, err := x.step(g.action, obs)
			if err != nil {
				t.Fatal(err)
			}
			if reward != g.reward || end != g.end {
				t.Errorf("%s row %d: reward %v end %v, want %v %v", spec.ID, k, reward, end, g.reward, g.end)
			}
			var worst float64
			for i, want := range g.after {
				worst = max(worst, math.Abs(x.task.state[i]-want)/max(1, math.Abs(want)))
			}
			if worst == 0 {
				exact++
			}
			if largest = max(largest, worst); worst > tolerance {
				t.Errorf("%s row %d: state %v, want %v", spec.ID, k, x.task.state, g.after)
			}
			for i, got := range floats(obs) {
				if d := math.Abs(float64(got) - float64(g.obs[i])); d > 1.2e-7*max(1, math.Abs(float64(got))) {
					t.Errorf("%s row %d: observation %v, want %v", spec.ID, k, floats(obs), g.obs)
				}
			}
		}
		t.Logf("%s: %d of %d steps to the last bit, largest difference %.1e", spec.ID, exact, len(rows), largest)
	}
}

// Recorded episodes are followed from their first state. The dynamics amplify differences, but for
// a hundred steps the differences stay far below the precision of a float32.
func TestEpisodesFollowGymnasium(t *testing.T) {
	for _, x := range tasks() {
		spec := x.env.Spec()
		obs := make([]byte, spec.Obs.Bytes())
		followed := 0
		for k, g := range readGolden(t, spec.ID, x.numbers, spec.Obs.Len()) {
			if g.steps == 0 {
				copy(x.task.state[:], g.before)
				x.task.startEpisode()
			}
			if !x.task.active || x.task.steps != g.steps || g.steps >= 100 {
				continue // later steps, and edge cases that start in the middle of an episode
			}
			if _, end, _ := x.step(g.action, obs); end != g.end {
				t.Fatalf("%s row %d: end %v, want %v", spec.ID, k, end, g.end)
			}
			for i, want := range g.after {
				if d := math.Abs(x.task.state[i] - want); d > 1e-9 {
					t.Fatalf("%s row %d (step %d): off by %g", spec.ID, k, g.steps, d)
				}
			}
			followed++
		}
		if followed < 150 {
			t.Errorf("%s: only %d steps followed", spec.ID, followed)
		}
	}
}

func TestTimeLimitsTruncate(t *testing.T) {
	for _, x := range tasks() {
		spec := x.env.Spec()
		obs := make([]byte, spec.Obs.Bytes())
		if err := x.env.Reset(obs); err != nil {
			t.Fatal(err)
		}
		start := x.task.state
		for step := 1; ; step++ {
			x.task.state = start // no task terminates in its start state
			_, end, err := x.step(0, obs)
			if err != nil {
				t.Fatal(err)
			}
			if end == 0 {
				continue
			}
			if want := map[string]int{"CartPole-v1": 500, "Acrobot-v1": 500, "MountainCar-v0": 200, "Pendulum-v1": 200, "MountainCarContinuous-v0": 999}[spec.ID]; step != want || end != env.Truncated {
				t.Errorf("%s: end %v at step %d, want Truncated at %d", spec.ID, end, step, want)
			}
			break
		}
		if _, _, err := x.step(0, obs); err == nil {
			t.Errorf("%s: a step after the end was accepted", spec.ID)
		}
	}
}

func TestStartStatesCoverTheirRange(t *testing.T) {
	bounds := map[string][][2]float64{
		"CartPole-v1":              {{-.05, .05}, {-.05, .05}, {-.05, .05}, {-.05, .05}},
		"Acrobot-v1":               {{-.1, .1}, {-.1, .1}, {-.1, .1}, {-.1, .1}},
		"MountainCar-v0":           {{-.6, -.4}, {0, 0}},
		"Pendulum-v1":              {{-math.Pi, math.Pi}, {-1, 1}},
		"MountainCarContinuous-v0": {{-.6, -.4}, {0, 0}},
	}
	for _, x := range tasks() {
		id := x.env.Spec().ID
		obs := make([]byte, x.env.Spec().Obs.Bytes())
		low, high := [4]float64{9, 9, 9, 9}, [4]float64{-9, -9, -9, -9}
		for range 2000 {
			if err := x.env.Reset(obs); err != nil {
				t.Fatal(err)
			}
			for i, s := range x.task.state {
				low[i], high[i] = min(low[i], s), max(high[i], s)
			}
		}
		for i, b := range bounds[id] {
			width := b[1] - b[0]
			if low[i] < b[0] || high[i] > b[1] || low[i] > b[0]+.01*width || high[i] < b[1]-.01*width {
				t.Errorf("%s: number %d starts in [%g, %g], want [%g, %g)", id, i, low[i], high[i], b[0], b[1])
			}
		}
	}
}

func TestRestoreRefusesDamagedStates(t *testing.T) {
	for _, x := range tasks() {
		state, err := x.env.Save()
		if err != nil {
			t.Fatal(err)
		}
		for name, bad := range map[string][]byte{
			"empty":     nil,
			"truncated": state[:len(state)-1],
			"longer":    append(bytes.Clone(state), 0),
			"version":   append([]byte{2}, state[1:]...),
			"kind":      append([]byte{1, 0xfe}, state[2:]...),
			"steps":     append([]byte{1, state[1], 255, 255, 0, 0}, state[6:]...),
			"NaN":       binary.LittleEndian.AppendUint64(bytes.Clone(state[:len(state)-8]), math.Float64bits(math.NaN())),
			"overflow":  binary.LittleEndian.AppendUint64(bytes.Clone(state[:len(state)-8]), math.Float64bits(-1e38)),
		} {
			before := *x.task
			if err := x.env.Restore(bad); err == nil || !strings.Contains(err.Error(), x.env.Spec().ID) {
				t.Errorf("%s, %s: %v", x.env.Spec().ID, name, err)
			}
			if before.state != x.task.state || before.stream != x.task.stream {
				t.Errorf("%s, %s: changed by a refused Restore", x.env.Spec().ID, name)
			}
		}
	}
}

func TestRestoreRefusesOtherTasks(t *testing.T) {
	for _, from := range tasks() {
		state, err := from.env.Save()
		if err != nil {
			t.Fatal(err)
		}
		for _, to := range tasks() {
			same := to.env.Spec().ID == from.env.Spec().ID
			if err := to.env.Restore(state); (err == nil) != same || err != nil && !strings.Contains(err.Error(), "kind of task") {
				t.Errorf("a state of %s in %s: %v", from.env.Spec().ID, to.env.Spec().ID, err)
			}
		}
	}
}

// The first files have states without a kind: their byte only says whether an episode is in
// progress.
func TestRestoreOfAStateWithoutKind(t *testing.T) {
	for _, x := range tasks() {
		if err := x.env.Reset(make([]byte, x.env.Spec().Obs.Bytes())); err != nil {
			t.Fatal(err)
		}
		state, err := x.env.Save()
		if err != nil {
			t.Fatal(err)
		}
		old := append([]byte{1, 1}, state[2:]...)
		x.task.active = false
		if err := x.env.Restore(old); err != nil {
			t.Errorf("%s: %v", x.env.Spec().ID, err)
		}
		if again, err := x.env.Save(); err != nil || !bytes.Equal(again, state) {
			t.Errorf("%s: %v, %v after Restore, want %v", x.env.Spec().ID, err, again, state)
		}
	}
}

func BenchmarkStep(b *testing.B) {
	for _, x := range tasks() {
		b.Run(x.env.Spec().ID, func(b *testing.B) {
			obs := make([]byte, x.env.Spec().Obs.Bytes())
			b.ReportAllocs()
			for b.Loop() {
				if !x.task.active {
					_ = x.env.Reset(obs)
				}
				_, _, _ = x.step(0, obs)
			}
		})
	}
}
