package order

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/checkpoint"
)

// Damaged settings of a record, and records of other versions, are refused with a sentence.
func TestHeadersOfRecords(t *testing.T) {
	const magic = "a record 12\n"
	want := Fingerprint{{"seed", "1"}, {"env_options", "{\"a\": \"\\n\"}"}, {"env", ""}}
	header := want.Header(magic)
	f, rest, err := CutHeader(append(header, "rest"...), magic)
	if err != nil || !slices.Equal(f, want) || string(rest) != "rest" {
		t.Errorf("%v, %v, %q", err, f, rest)
	}
	for n := range header {
		if _, _, err := CutHeader(header[:n], magic); err == nil {
			t.Errorf("%d bytes are read", n)
		} else {
			oneSentence(t, err)
		}
	}
	after := func(bytes ...byte) []byte { return append([]byte(magic), bytes...) }
	for _, c := range []struct {
		record []byte
		says   string
	}{
		{[]byte("a record 11\nrest"), "version 11, must be 12; the race must be recorded again"},
		{[]byte("a record 1\n"), "version 1, must be 12"},
		{[]byte("a record x\n"), `not an order: must begin with "a record 12\n"`},
		{[]byte("another\n"), "not an order"},
		{nil, "not an order"},
		{after(0xe9, 7), "1001 settings, must be at most 1000"},
		{after(1, 0, 0), `"", must be the name of a setting`},
		{after(1, 2, 'a', '\n', 0), `"a\n", must be the name of a setting`},
		{after(2, 1, 'a', 0, 1, 'a', 0), `"a", must be the name of a setting that did not come before`},
		{after(1, 1, 'a', 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 'x'), "the settings are cut off"},
		{after(append([]byte{1, 65}, append(bytes.Repeat([]byte{'a'}, 65), 0)...)...), "must be the name of a setting"},
	} {
		if _, _, err := CutHeader(c.record, magic); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v, must say %q", c.record, err, c.says)
		} else {
			oneSentence(t, err)
		}
	}
}

// An order is repeated by a run with the same fingerprint. A race with another one may continue it;
// no run repeats what comes of that.
func TestFingerprints(t *testing.T) {
	p := programme{rounds: 3, updates: 1}
	run := Fingerprint{{"seed", "1"}, {"learning_rate", "0.1"}}
	make := func(schedule Schedule, o *Order, f Fingerprint) (*world, *Turns, error) {
		w := newWorld(p, 3, 2, 4, false)
		turns, err := New(Config{Schedule: schedule, Order: o, Learners: 3, Shards: 2, Steps: 4, Fingerprint: f})
		return w, turns, err
	}
	w, race, err := make(Race, nil, run)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.run(race, 100, nil); err != nil {
		t.Fatal(err)
	}
	o, err := ParseOrder(race.Order())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := make(Recorded, o, run); err != nil {
		t.Error(err)
	}
	long := strings.Repeat("1", 1000)
	for _, c := range []struct {
		f    Fingerprint
		says string
	}{
		{Fingerprint{{"seed", "2"}, {"learning_rate", "0.2"}}, `order: seed: the record has "1", this run has "2"`},
		{Fingerprint{{"seed", "1"}, {"learning_rate", "0.2"}}, `order: learning_rate: the record has "0.1", this run has "0.2"`},
		{Fingerprint{{"seed", "1"}}, `order: learning_rate: the record has "0.1", this run has none`},
		{append(run[:2:2], Field{"gamma", "1"}), `order: gamma: the record has none, this run has "1"`},
		{Fingerprint{{"seed", long}}, `order: seed: the record has "1", this run has "` + long[:100] + `"`},
		{nil, `order: seed: the record has "1", this run has none`},
	} {
		if _, _, err := make(Recorded, o, c.f); err == nil || err.Error() != c.says {
			t.Errorf("%v: %v, must be %q", c.f, err, c.says)
		}
	}
	// A checkpoint of the race is loaded by races with other settings, back and forth.
	other := Fingerprint{{"seed", "1"}, {"learning_rate", "0.2"}, {"gamma", "1"}}
	for _, f := range []Fingerprint{other, other, run} {
		_, next, err := make(Race, nil, f)
		if err != nil {
			t.Fatal(err)
		}
		if err := read(next, written(t, race)); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := w.run(next, next.Steps()+50, nil); err != nil {
				t.Fatal(err)
			}
			if err := w.run(next, next.Steps()+8, nil); err != nil { // replaces a stop
				t.Fatal(err)
			}
		}
		race = next
	}
	if o, err = ParseOrder(race.Order()); err != nil {
		t.Fatal(err)
	}
	want := Fingerprint{{"seed", "1"}, {"learning_rate", "0.1, then 0.2, then 0.1"}, {"gamma", "none, then 1, then none"}}
	if !slices.Equal(o.Fingerprint, want) {
		t.Errorf("%q, must be %q", o.Fingerprint, want)
	}
	for _, f := range []Fingerprint{run, other} {
		if _, _, err := make(Recorded, o, f); err == nil || !strings.Contains(err.Error(), "learning_rate: the record has ") {
			t.Errorf("%v", err)
		}
	}
	// The order that a recorded run saves is its own.
	o, _ = ParseOrder(written(t, race)[1])
	_, repeated, err := make(Recorded, o, o.Fingerprint)
	if err != nil {
		t.Fatal(err)
	}
	parts := written(t, repeated)
	parts[1] = bytes.Replace(parts[1], []byte("0.1, then"), []byte("0.3, then"), 1)
	parts[1] = withSum(parts[1][:len(parts[1])-4])
	if err := read(repeated, parts); !errors.Is(err, checkpoint.ErrFormat) || !strings.Contains(err.Error(), "learning_rate: the record has ") {
		t.Errorf("%v", err)
	}
}
