package builtin

import (
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
)

// FuzzOptions makes environments with arbitrary options. The result is an error of one line, or an
// environment that can be reset.
func FuzzOptions(f *testing.F) {
	for _, text := range []string{``, `{}`, `null`, `[]`, `{"recipe": "mnih2015"}`, `{"recipe": "sb3", "stack_num": 2, "img_height": 1}`, `{"obs_type": "ram"}`,
		`{"frameskip": 1000, "repeat_action_probability": 1}`, `{"continuous": true, "continuous_action_threshold": 0.5}`, `{"mode": 255, "difficulty": 3}`,
		`{"noop_min": 3, "noop_max": 2}`, `{"x": 1}`, `{"stack_num": 1e99}`, `{"stack_num": -1}`, `{"reset": "cached", "ram_info": true}`,
		`{"sticky_action_prob": 0.5, "ramping": false, "max_episode_steps": 1}`, `{"a`, "{\"\xff\": 1}"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		options, err := env.ParseOptions(text)
		if err != nil {
			checkOneLine(t, text, err)
			return
		}
		for _, id := range []string{"CartPole-v1", "Catch-v0", "Mini-Seaquest-v0", "atari/pong"} {
			e, err := env.Make(id, options)
			if err != nil {
				checkOneLine(t, text, err)
				continue
			}
			obs := make([]byte, e.Spec().Obs.Bytes())
			if err := e.Reset(obs); err != nil {
				t.Errorf("%s with %q: %v", id, text, err)
			}
			if err := e.Close(); err != nil {
				t.Errorf("%s with %q: %v", id, text, err)
			}
		}
	})
}

func checkOneLine(t *testing.T, text string, err error) {
	if s := err.Error(); s == "" || strings.ContainsAny(s, "\n\r") {
		t.Errorf("%q: %q, must be a sentence of one line", text, s)
	}
}
