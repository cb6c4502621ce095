package param

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/limits"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/nntest"
	"github.com/paceline-rl/paceline/core/rng"
)

// used returns a Range that learners have used.
func used(t testing.TB) *Range {
	const size = 30
	r := newRangeOf(t, random(rng.New(1, "parameters", 0), size).Host(), RangeOptions{First: 3, Optimizer: nn.OptimizerConfig{Name: "adam"}, MaxStaleness: 1})
	draws := rng.New(2, "grad", 0)
	for step := int64(1); step <= 5; step++ {
		for k := range int64(2) {
			grad := floats(draws, size)
			for range 2 {
				if _, err := r.Push(grad, 0.01, uint64(step-1), Key{Learner: k, Life: k, Step: step}); err != nil && !errors.Is(err, ErrStale) {
					t.Fatal(err)
				}
			}
		}
	}
	if d := r.Describe(); d.Refused == 0 || d.Duplicates == 0 {
		t.Fatalf("%+v", d)
	}
	return r
}

// A loaded Range goes on bit-identically to the saved one, with the same answers.
func TestRangeIsSaved(t *testing.T) {
	r, path := used(t), filepath.Join(t.TempDir(), "range.paceline")
	nntest.Check(t, r.Save(path))
	loaded := nntest.Must(LoadRange(path))(t)
	draws := rng.New(5, "grad", 0)
	for step := int64(3); step <= 9; step++ { // the first ones are duplicates
		grad := floats(draws, r.Size())
		a, err := r.Push(grad, 0.01, r.Describe().Version, Key{Learner: 1, Life: 1, Step: step})
		b, again := loaded.Push(grad, 0.01, loaded.Describe().Version, Key{Learner: 1, Life: 1, Step: step})
		if a != b || (err == nil) != (again == nil) {
			t.Fatalf("step %d: %+v, %v and %+v, %v", step, a, err, b, again)
		}
	}
	if !bytes.Equal(nntest.Must(r.Bytes())(t), nntest.Must(loaded.Bytes())(t)) {
		t.Error("the bytes differ")
	}
	if _, err := LoadRange(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// Files that are damaged, forged or of another kind are refused.
func TestRangeFilesRefused(t *testing.T) {
	whole := nntest.Must(used(t).Bytes())(t)
	for n := 0; n < len(whole); n += 13 {
		if _, err := RangeFromBytes(whole[:n]); !errors.Is(err, checkpoint.ErrFormat) {
			t.Fatalf("%d bytes of %d: %v", n, len(whole), err)
		}
	}
	for bit := 0; bit < 8*len(whole); bit += 37 {
		damaged := bytes.Clone(whole)
		damaged[bit/8] ^= 1 << (bit % 8)
		if r, err := RangeFromBytes(damaged); err == nil { // such as a time stamp
			if !bytes.Equal(nntest.Must(r.Bytes())(t), whole) {
				t.Fatalf("bit %d: another range is loaded", bit)
			}
		}
	}
	// With valid checksums.
	forged := func(change func(c *rangeContent), edit func(name, text string) string) error {
		r := used(t)
		c, parts := r.content(), r.parts()
		change(&c)
		for i := range parts {
			text := edit(parts[i].Name, string(write(t, parts[i])))
			parts[i].Write = func(w io.Writer) error { _, err := io.WriteString(w, text); return err }
		}
		_, err := RangeFromBytes(nntest.Must(checkpoint.SaveBytes(kindRange, c, parts))(t))
		return err
	}
	none := func(*rangeContent) {}
	same := func(_, text string) string { return text }
	nntest.Check(t, forged(none, same))
	for want, change := range map[string]func(c *rangeContent){
		"1099511627776 parameters in a part of": func(c *rangeContent) { c.Size = 1 << 40 },
		"0 parameters in a part of":             func(c *rangeContent) { c.Size = 0 },
		"shape [30], must be [29]":              func(c *rangeContent) { c.Size-- },
		"first: -1, must be 0 to":               func(c *rangeContent) { c.First = -1 },
		`optimizer.name: "sgd", must be one of`: func(c *rangeContent) { c.Optimizer.Name = "sgd" },
		`tensor "sum": missing`:                 func(c *rangeContent) { c.Optimizer = optimizerOf{Name: "adagrad"} },
		"max_staleness: -3, must be at least 0": func(c *rangeContent) { c.MaxStaleness = -3 },
	} {
		if err := forged(change, same); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	for _, c := range []struct{ name, from, to, want string }{
		{"store.json", `"versions":[`, `"versions":[1,`, "2 shards, must be 1"},
		{"ledgers.json", `"learner":1`, `"learner":0`, "learner 0 comes after learner 0"},
		{"ledgers.json", `"learner":1`, `"learner":5000`, "key.learner: 5000, must be 0 to 4095"},
		{"ledgers.json", `"life":1`, `"life":-1`, "key.life: -1"},
		{"ledgers.json", `"step":5`, `"step":4`, "which no push was given"},
		{"ledgers.json", `"step":5`, `"step":500`, "which no push was given"},
		{"ledgers.json", `[5,`, `[4,`, "which no push was given"},
		{"ledgers.json", `[1,1,0,0]`, `[1,1000,0,0]`, "which no push was given"},
		{"ledgers.json", `[1,1,0,0]`, `[1,1,0,2]`, "which no push was given"},
		{"ledgers.json", `[1,1,0,0]`, `[1,1,0]`, "a field is missing"},
		{"ledgers.json", `"applied":`, `"applied":9`, "pushes applied"},
		{"ledgers.json", `"learners":[`, `"learners":[` + strings.Repeat("{},", MaxLearners), "learners, must be at most 4096"},
	} {
		found := false
		err := forged(none, func(name, text string) string {
			if name != c.name {
				return text
			}
			found = strings.Contains(text, c.from)
			return strings.Replace(text, c.from, c.to, 1)
		})
		if !found || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s to %.40s: found %v, error %v, want %q", c.from, c.to, found, err, c.want)
		}
	}
	other := nntest.Must(checkpoint.SaveBytes("run", nil, nil))(t)
	if _, err := RangeFromBytes(other); err == nil || err.Error() != `bytes: kind: "run", must be "store"` {
		t.Error(err)
	}
}

// Too little memory is no damage of the file.
func TestRangeFileWithoutMemory(t *testing.T) {
	whole := nntest.Must(used(t).Bytes())(t)
	path := filepath.Join(t.TempDir(), "range")
	nntest.Check(t, os.WriteFile(path, whole, 0o600))
	defer func(before func(...limits.Part) error) { admit = before }(admit)
	admit = func(...limits.Part) error { return &fault.Memory{Text: "refused"} }
	for name, load := range map[string]func() (*Range, error){
		path:    func() (*Range, error) { return LoadRange(path) },
		"bytes": func() (*Range, error) { return RangeFromBytes(whole) },
	} {
		_, err := load()
		var memory *fault.Memory
		if !errors.As(err, &memory) || errors.Is(err, checkpoint.ErrFormat) || err.Error() != name+": refused" {
			t.Errorf("%v, must be a *fault.Memory alone", err)
		}
	}
}

// FuzzRange loads any bytes. Reading needs memory by the size of the bytes, and what loads is saved
// as the same bytes.
func FuzzRange(f *testing.F) {
	r := used(f)
	whole := nntest.Must(r.Bytes())(f)
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add(nntest.Must(newRangeOf(f, []float32{1}, RangeOptions{Optimizer: nn.OptimizerConfig{Name: "adagrad"}}).Bytes())(f))
	f.Fuzz(func(t *testing.T, file []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, err := RangeFromBytes(file)
		runtime.ReadMemStats(&after)
		if taken := after.TotalAlloc - before.TotalAlloc; taken > 10<<20+100*uint64(len(file)) {
			t.Fatalf("%d bytes for a file of %d", taken, len(file))
		}
		if err != nil {
			return
		}
		again := nntest.Must(r.Bytes())(t)
		twice := nntest.Must(RangeFromBytes(again))(t)
		if !bytes.Equal(nntest.Must(twice.Bytes())(t), again) {
			t.Fatal("what was loaded is not what was saved")
		}
	})
}
