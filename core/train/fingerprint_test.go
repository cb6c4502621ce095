package train

import "testing"

// Two texts of the same options are equal in a fingerprint. The option waits does not count.
func TestOptionsOfFingerprints(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "",
		" {} ":                                "",
		`{"waits": true}`:                     "",
		` { "b" : [1, 2], "a": "x y" }`:       `{"a":"x y","b":[1,2]}`,
		`{"a":"x y","waits":false,"b":[1,2]}`: `{"a":"x y","b":[1,2]}`,
		"{":                                   "{",
	} {
		if got := normalOptions(text); got != want {
			t.Errorf("%q: %q, must be %q", text, got, want)
		}
	}
}
