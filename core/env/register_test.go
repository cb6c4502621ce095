package env

import (
	"slices"
	"strings"
	"testing"
)

type nothing struct{ Env }

func TestRegisteredNamesAreUnique(t *testing.T) {
	RegisterPlain("Zeta-v0", func() Env { return nothing{} })
	RegisterPlain("Alpha-v1", func() Env { return nothing{} })
	if got := IDs(); !slices.Equal(got, []string{"Alpha-v1", "Zeta-v0"}) {
		t.Errorf("IDs: %v", got)
	}
	if e, err := Make("Zeta-v0", nil); err != nil || e != (nothing{}) {
		t.Errorf("Make: %v, %v", e, err)
	}
	if _, err := Make("zeta-v1", nil); err == nil || err.Error() != `environment "zeta-v1" is not known; did you mean Zeta-v0?` {
		t.Errorf("Make of a near name: %v", err)
	}
	if _, err := Make("Zeta-v0", Options{"size": nil}); err == nil || !strings.Contains(err.Error(), "Zeta-v0 has no options") {
		t.Errorf("an option for an environment without options: %v", err)
	}
	if Add("Zeta-v0", func(Options) (Env, error) { return nothing{}, nil }) {
		t.Error("Add of a name that is taken")
	}
	for name, register := range map[string]func(){
		"taken": func() { RegisterPlain("Zeta-v0", func() Env { return nothing{} }) },
		"empty": func() { RegisterPlain("", func() Env { return nothing{} }) },
		"nil":   func() { Register("Eta-v0", nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			register()
		}()
	}
}

func TestUnknownNamesGetSuggestions(t *testing.T) {
	ids := []string{"Acrobot-v1", "Bricks-v0", "CartPole-v1", "Catch-v0", "MountainCar-v0", "atari/bowling", "atari/pong"}
	all := "known environments: Acrobot-v1, Bricks-v0, CartPole-v1, Catch-v0, MountainCar-v0, atari/<game>"
	for id, want := range map[string]string{
		"CartPole-v0":       "did you mean CartPole-v1?",
		"cart_pole":         "did you mean CartPole-v1?",
		"Cathc-v0":          "did you mean Catch-v0?",
		"Brick":             "did you mean Bricks-v0?",
		"MountainCar":       "did you mean MountainCar-v0?",
		"paceline/Brick-v0": "did you mean Bricks-v0?",
		"atari/pnog":        "did you mean atari/pong?",
		"ALE/Pnog-v5":       "did you mean atari/pong?",
		"Pnog":              "did you mean atari/pong?",
		"ALE/Brick-v5":      all, // no game
		"ALE/Combat-v5":     all,
		"Combat":            all,
		"LunarLander":       all,
		"":                  all,
		"\xff\xfe\x00":      all,
	} {
		if got := suggest(id, ids); got != want {
			t.Errorf("%q: %s, want %s", id, got, want)
		}
	}
	if got := suggest("x", nil); got != "none is registered" {
		t.Errorf("no ids: %s", got)
	}
}

func TestSpecCheckNamesTheMistake(t *testing.T) {
	good := Spec{
		Obs:    ObsSpec{DType: Uint8, Shape: []int{4, 84, 84}, Low: []float32{0}, High: []float32{255}, FrameStack: 4},
		Action: ActionSpec{N: 2},
	}
	for _, good.Obs.FrameStack = range []int{0, 1, 2, 4} { // 2: frames of two planes
		if err := good.Check(); err != nil {
			t.Errorf("a good spec: %v", err)
		}
	}
	for want, spoil := range map[string]func(s *Spec){
		"observation dtype: 7":                    func(s *Spec) { s.Obs.DType = 7 },
		"observation shape: []":                   func(s *Spec) { s.Obs.Shape = nil },
		"observation shape: [4 0 84]":             func(s *Spec) { s.Obs.Shape = []int{4, 0, 84} },
		"observation shape: [65536 65536 4]":      func(s *Spec) { s.Obs.Shape = []int{65536, 65536, 4} },
		"observation shape: [9223372036854775807": func(s *Spec) { s.Obs.Shape = []int{1<<63 - 1, 2} },
		"observation low: 0 entries":              func(s *Spec) { s.Obs.Low = nil },
		"observation high: 2 entries":             func(s *Spec) { s.Obs.High = []float32{1, 2} },
		"observation frame_stack: 3":              func(s *Spec) { s.Obs.FrameStack = 3 },
		"observation frame_stack: 8":              func(s *Spec) { s.Obs.FrameStack = 8 },
		"observation frame_stack: -1":             func(s *Spec) { s.Obs.FrameStack = -1 },
		"actions: 0":                              func(s *Spec) { s.Action.N = 0 },
		"max_steps: -1":                           func(s *Spec) { s.MaxSteps = -1 },
	} {
		s := good
		spoil(&s)
		if err := s.Check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
