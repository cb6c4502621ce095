package order

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/settings"
)

func TestDurations(t *testing.T) {
	r := rng.New(1, "latency", 0)
	constant := mustDuration(t, "0.001")
	before, _ := r.MarshalBinary()
	if d := constant.draw(r); d != 1e6 || constant.least() != 1e6 {
		t.Errorf("a constant of 1 ms is %d ns", d)
	}
	if after, _ := r.MarshalBinary(); !slices.Equal(before, after) {
		t.Error("a constant takes a random number")
	}
	lognormal, err := Lognormal(time.Millisecond, 0.5)
	if err != nil || lognormal.least() != 62500 {
		t.Fatalf("%v, at least %d ns", err, lognormal.least())
	}
	var draws []int64
	square := 0.0
	for range 20_000 {
		d := lognormal.draw(r)
		draws = append(draws, d)
		square += math.Pow(math.Log(float64(d)/1e6), 2) / 20_000
	}
	slices.Sort(draws)
	if m := draws[10_000]; m < 0.98e6 || m > 1.02e6 || math.Abs(math.Sqrt(square)-0.5) > 0.02 {
		t.Errorf("median %d ns, deviation %v", m, math.Sqrt(square))
	}
	wide, _ := Lognormal(16, 2)
	for range 100_000 {
		if d := wide.draw(r); d < 1 || d > 16*highest {
			t.Fatalf("a draw of %d ns", d)
		}
	}
	measured, err := Measured([]float64{1e-3, 2e-3, 1e-9, 3e-3})
	if err != nil || measured.least() != 2e6/lowest {
		t.Fatalf("%v, at least %d ns", err, measured.least())
	}
	seen := map[int64]int{}
	for range 4000 {
		seen[measured.draw(r)]++
	}
	if len(seen) != 4 || seen[1e6] < 900 || seen[2e6] < 900 || seen[3e6] < 900 || seen[2e6/lowest] < 900 {
		t.Errorf("%v", seen)
	}
}

// The first draws of a seed, on every processor.
func TestDrawsAreTheSameEverywhere(t *testing.T) {
	r, d := rng.New(1, "latency", 3), mustDuration(t, "0.001:0.5")
	var list []int64
	for range 6 {
		list = append(list, d.draw(r))
	}
	if got, want := fmt.Sprint(list), "[893676 1407113 453156 743437 1579109 995298]"; got != want {
		t.Errorf("%s, must be %s", got, want)
	}
}

func TestTextsOfDurations(t *testing.T) {
	table := settings.New[Latency]("latency", LatencySettings, nil)
	v := table.Defaults()
	for text, want := range map[string]string{"1e-3": "0.001", "0.001:0.5": "0.001:0.5", " 60 : 2": "60:2", "1e-9:0": "1e-09", "0.000123456": "0.000123456"} {
		if err := v.Set("latency_step", text); err != nil {
			t.Error(err)
		}
		got, _ := v.Get("latency_step")
		if err := v.Set("latency_pull", got); err != nil || got != want {
			t.Errorf("%q: %q, must be %q (%v)", text, got, want, err)
		}
		if c := v.Struct().(*Latency); c.Step.String() != c.Pull.String() || c.Step.median != c.Pull.median {
			t.Errorf("%q: %v is read as %v", text, c.Step, c.Pull)
		}
	}
	for _, text := range []string{"", "0", "1e-10", "61", "-1", "1:3", "1:-1", "1:", ":1", "NaN", "Inf", "1:NaN", "1:1:1", "x"} {
		if err := v.Set("latency_step", text); err == nil || !strings.HasPrefix(err.Error(), "latency_step: ") || !strings.HasSuffix(err.Error(), "with sigma 0 to 2") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestLatencyFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "latency.json")
	read := func(text string) (Latency, error) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		l := Latency{Step: mustDuration(t, "1"), Push: mustDuration(t, "2"), File: path}
		return l, l.Open()
	}
	l, err := read(`{"step": [0.001, 0.002, 0.004], "gradient": [0.5]}`)
	if err != nil || l.Step.median != 2e6 || !slices.Equal(l.Step.table, []int64{1e6, 2e6, 4e6}) || l.Push.median != 2e9 || l.Gradient.least() != 5e8 {
		t.Errorf("%v: %+v", err, l)
	}
	for text, says := range map[string]string{
		``: "must be an object", `[]`: "must be an object", `{}`: "has none of step", `{"steps": [1]}`: `unknown field "steps"`,
		`{"step": []}`: "step: 0 durations, must be 1 to 100000", `{"step": [0]}`: "step: duration 0 is 0 seconds",
		`{"push": [1, 1e9]}`: "push: duration 1 is 1e+09 seconds, must be 1e-9 to 3600", `{"step": [1]} {}`: "more after it", `{"step": "1"}`: "must be an object",
		`{"step": [1` + strings.Repeat(",1", 5*maxDurations+1) + `]}`: "values, must be at most",
	} {
		l, err := read(text)
		if err == nil || !strings.HasPrefix(err.Error(), "latency_file: "+path) || !strings.Contains(err.Error(), says) {
			t.Errorf("%.40s: %v, must say %q", text, err, says)
		}
		if l.Step.table != nil || l.Step.median != 1e9 {
			t.Errorf("%.40s: the model is changed", text)
		}
	}
	none := Latency{File: filepath.Join(dir, "none")}
	if err := none.Open(); err == nil || !strings.HasPrefix(err.Error(), "latency_file: ") {
		t.Error(err)
	}
	if err := new(Latency).Open(); err != nil {
		t.Error(err)
	}
}

// Any text is a model or an error of one sentence.
func FuzzLatencyFile(f *testing.F) {
	for _, text := range []string{`{"step": [0.001, 2e-3], "push": [1]}`, `{"step": [1e999]}`, `{"step": [[1]]}`, `{"step": null}`, `{`, "{\"\n\": 1}"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var l Latency
		if err := l.read(text); err != nil {
			oneSentence(t, err)
			return
		}
		r := rng.New(1, "latency", 0)
		for _, d := range []*Duration{&l.Step, &l.Forward, &l.Gradient, &l.Pull, &l.Push} {
			if d.table != nil && (d.draw(r) < d.least() || d.least() < 1) {
				t.Fatalf("%q: %+v", text, d)
			}
		}
	})
}
