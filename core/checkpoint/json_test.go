package checkpoint

import (
	"errors"
	"strings"
	"testing"
)

// A JSON part must be the text that it was written as. Fields with omitempty may be missing.
func TestJSON(t *testing.T) {
	type counts struct {
		Steps int  `json:"steps"`
		Added *int `json:"added,omitempty"`
	}
	now := counts{Steps: 42}
	part := JSON("counts.json", 100, func() (counts, error) { return now, nil }, func(c counts) (func(), error) {
		if c.Steps < 0 {
			return nil, errors.New("steps below 0")
		}
		return func() { now = c }, nil
	})
	for text, want := range map[string]string{
		"{\"steps\":7}\n": "", `{"steps":7,"added":1}`: "", `{}`: "missing or given twice", `{"steps":7,"steps":7}`: "missing or given twice",
		`{"steps":null}`: "missing or given twice", `{"Steps":7}`: "missing or given twice", `{"steps":7,"more":1}`: "unknown field", `{"steps":-1}`: "steps below 0",
	} {
		adopt, err := part.Read(strings.NewReader(text), int64(len(text)))
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) || now.Steps != 42 {
				t.Errorf("%s: %v, want %q", text, err, want)
			}
			continue
		}
		check(t, err)
		if adopt(); now.Steps != 7 {
			t.Errorf("%s: %+v", text, now)
		}
		now = counts{Steps: 42}
	}
}

func TestReadJSON(t *testing.T) {
	for text, want := range map[string]string{
		`{"Steps": 3}`:             "",
		`{"Steps": 3, "More": 1}`:  "unknown field",
		`{"Steps": 3} 4`:           "more than one JSON value",
		`{"Steps": 3`:              "unexpected EOF",
		`{"Steps":            33}`: "24 bytes, must be at most 23",
	} {
		var c content
		err := ReadJSON(strings.NewReader(text), int64(len(text)), 23, &c)
		if want == "" && (err != nil || c.Steps != 3) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
