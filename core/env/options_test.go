package env

import (
	"strings"
	"testing"
)

func TestOptionsAreReadOrRefused(t *testing.T) {
	var n int
	var p float64
	var on bool
	word := "cached"
	fields := []Field{
		{Name: "frameskip", To: &n, Min: 1, Max: 60},
		{Name: "probability", To: &p, Max: 1},
		{Name: "on", To: &on},
		{Name: "reset", To: &word, Words: []string{"ale", "cached"}},
	}
	o, err := ParseOptions(`{"frameskip": 5, "probability": 0.25, "on": true, "reset": "ale"}`)
	if err == nil {
		err = o.Read("X-v0", fields)
	}
	if err != nil || n != 5 || p != 0.25 || !on || word != "ale" {
		t.Errorf("%v, %v, %v, %v, %v", n, p, on, word, err)
	}
	for text, want := range map[string]string{
		`{"frameskip": 0}`:          "frameskip: 0, must be a whole number of 1 to 60",
		`{"frameskip": 2.5}`:        "frameskip: 2.5, must be a whole number of 1 to 60",
		`{"frameskip": "4"}`:        `frameskip: "4", must be a whole number of 1 to 60`,
		`{"frameskip": null}`:       "frameskip: null, must be a whole number of 1 to 60",
		`{"probability": 1.5}`:      "probability: 1.5, must be a number of 0 to 1",
		`{"on": 1}`:                 "on: 1, must be true or false",
		`{"on": null}`:              "on: null, must be true or false",
		`{"reset": "none"}`:         `reset: "none", must be ale or cached`,
		`{"frame_skip": 4}`:         `option "frame_skip": X-v0 has no such option; did you mean frameskip?`,
		`{"what": 4}`:               `option "what": X-v0 has no such option; its options are frameskip, on, probability, reset`,
		`[1]`:                       `options: "[1]", must be a JSON object`,
		`{`:                         `options: "{", must be a JSON object`,
		`null`:                      `options: "null", must be a JSON object`,
		`{"on": true, "on": false}`: `options: "on" is given twice, must be given once`,
		`{"on": true, "onn": true}`: `option "onn": X-v0 has no such option; did you mean on?`,
	} {
		o, err := ParseOptions(text)
		if err == nil {
			err = o.Read("X-v0", fields)
		}
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if o, err := ParseOptions(" "); err != nil || o.Read("X-v0", nil) != nil {
		t.Errorf("no options: %v", err)
	}
	if o, _ := ParseOptions(`{"a": 1}`); o.Read("X-v0", nil).Error() != `option "a": X-v0 has no options of its own` {
		t.Error("an option for an environment without options was accepted")
	}
}
