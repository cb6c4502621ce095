package policy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/rng"
)

// emulated is a game whose state is its number of frames, a byte. A step takes two frames and gives
// a point for each. The observation is CartPole's in shape.
type emulated struct {
	cartPoleSpec
	frames, limit int
}

type cartPoleSpec struct{ env.Env }

func newEmulated() env.Env {
	e, err := env.Make("CartPole-v1", nil)
	if err != nil {
		panic(err)
	}
	return &emulated{cartPoleSpec: cartPoleSpec{e}, limit: 40}
}

func (e *emulated) show(obs []byte) {
	binary.NativeEndian.PutUint32(obs, math.Float32bits(float32(e.frames)/100))
	clear(obs[4:])
}

func (e *emulated) Reset(obs []byte) error { e.frames = 0; e.show(obs); return nil }

func (e *emulated) StartAt(state, obs []byte) error {
	if len(state) != 1 {
		return fmt.Errorf("state: %d bytes, must be 1", len(state))
	}
	if state[0] == 255 {
		panic("a state that the game does not survive")
	}
	e.frames = int(state[0])
	e.show(obs)
	return nil
}

func (e *emulated) LimitFrames(frames int) { e.limit = frames }

func (e *emulated) Step(_ int32, obs []byte) (float32, env.End, error) {
	played := min(2, e.limit-e.frames)
	e.frames += played
	e.show(obs)
	if e.frames >= e.limit {
		return float32(played), env.Truncated, nil
	}
	return float32(played), 0, nil
}

func init() { env.RegisterPlain("Emulated-v0", newEmulated) }

// Episode i starts in state i mod n and counts the points after it. Episodes from a reset count
// all.
func TestEpisodesStartInGivenStates(t *testing.T) {
	p := cartPole(t, 1)
	starts := [][]byte{{10}, {31}, {0}}
	for _, c := range []struct {
		o       EvalOptions
		returns []float64
	}{
		{EvalOptions{Episodes: 3, Starts: starts}, []float64{30, 9, 40}},
		{EvalOptions{Episodes: 4, Starts: starts, MaxFrames: 33}, []float64{23, 2, 33, 23}},
		{EvalOptions{Episodes: 2, MaxFrames: 7}, []float64{7, 7}},
		{EvalOptions{Episodes: 2, Epsilon: 1}, []float64{40, 40}},
	} {
		got := must(p.Evaluate("Emulated-v0", nil, c.o))(t)
		if !slices.Equal(got.Returns, c.returns) || got.Lengths[0] != int64(c.returns[0]+1)/2 {
			t.Errorf("%+v: returns %v, lengths %v, want returns %v", c.o, got.Returns, got.Lengths, c.returns)
		}
	}
	// More than one batch of episodes.
	got := must(p.Evaluate("Emulated-v0", nil, EvalOptions{Episodes: 100, Starts: starts}))(t)
	for i, r := range got.Returns {
		if r != []float64{30, 9, 40}[i%3] {
			t.Fatalf("episode %d: return %v", i, r)
		}
	}
}

func TestStartsAreChecked(t *testing.T) {
	p := cartPole(t, 1)
	for _, c := range []struct {
		id, says string
		o        EvalOptions
	}{
		{"Emulated-v0", "starts[1]: state: 2 bytes, must be 1", EvalOptions{Episodes: 5, Starts: [][]byte{{1}, {2, 3}}}},
		{"Emulated-v0", "max_frames: -1, must be 0 to 1073741824", EvalOptions{Episodes: 1, MaxFrames: -1}},
		{"CartPole-v1", `max_frames: 9, must be 0 for "CartPole-v1", which has no frames`, EvalOptions{Episodes: 1, MaxFrames: 9}},
		{"CartPole-v1", `starts: 1, must be none for "CartPole-v1", which has no start states`, EvalOptions{Episodes: 1, Starts: [][]byte{{1}}}},
	} {
		if _, err := p.Evaluate(c.id, nil, c.o); err == nil || err.Error() != c.says {
			t.Errorf("%v, want %q", err, c.says)
		}
	}
	_, err := p.Evaluate("Emulated-v0", nil, EvalOptions{Episodes: 2, Starts: [][]byte{{1}, {255}}})
	var of *env.Error
	if !errors.As(err, &of) || of.Index != 1 || !strings.Contains(err.Error(), "does not survive") {
		t.Errorf("%v, want the panic of episode 1", err)
	}
}

// The actions of an agent that always acts at random follow from the seed alone.
func TestRandomEpisodesFollowFromTheSeed(t *testing.T) {
	a, b := cartPole(t, 1), cartPole(t, 2)
	o := EvalOptions{Episodes: 40, Epsilon: 1, Seed: 5}
	x, y := must(a.Evaluate("CartPole-v1", nil, o))(t), must(b.Evaluate("CartPole-v1", nil, o))(t)
	if !slices.Equal(x.Returns, y.Returns) {
		t.Error("the random agent's returns depend on the network")
	}
	e := must(env.Make("CartPole-v1", nil))(t)
	defer e.Close()
	r := rng.New(5, "eval", 0)
	e.Seed(r.Uint64())
	obs, total := make([]byte, 16), 0.0
	if err := e.Reset(obs); err != nil {
		t.Fatal(err)
	}
	for end := env.End(0); end == 0; {
		if r.Float64() >= 1 {
			t.Fatal("a draw of 1")
		}
		_, over, err := e.Step(int32(r.Intn(2)), obs)
		if err != nil {
			t.Fatal(err)
		}
		total, end = total+1, over
	}
	if x.Returns[0] != total {
		t.Errorf("return %v, want %v", x.Returns[0], total)
	}
}
