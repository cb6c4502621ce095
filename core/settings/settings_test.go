package settings

import (
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// common is the shared part of several configurations. toy embeds it.
type common struct {
	Env, EnvOptions string
	Seed            int
	Rate            float64
}

type toy struct {
	common
	BatchSize  int
	Window     int
	Gamma      float64
	Norm       float64
	RateFinal  float64
	Concurrent bool
	Groups     Switch
	Actor      string
	NetArch    []int
	Line       []float64
	private    int // no setting
}

var commonSettings = []Setting{
	Text("env", "", "name of the environment", nil, func(c *common) *string { return &c.Env }),
	Text("env_options", "", "its options", nil, func(c *common) *string { return &c.EnvOptions }),
	Int("seed", 0, 0, math.MaxInt64, "the one seed", func(c *common) *int { return &c.Seed }),
	Float("learning_rate", 1e-4, 0, 1e3, "step size", func(c *common) *float64 { return &c.Rate }),
}

func line(s string) ([]float64, error) {
	var v []float64
	for part := range strings.SplitSeq(s, " ") {
		f, err := strconv.ParseFloat(part, 64)
		if err != nil {
			return nil, errors.New("line: must be numbers")
		}
		v = append(v, f)
	}
	return v, nil
}

func lineText(v []float64) string {
	var parts []string
	for _, f := range v {
		parts = append(parts, formatFloat(f))
	}
	return strings.Join(parts, " ")
}

var toyTable = New[toy]("toy", slices.Concat(
	Within(func(c *toy) *common { return &c.common }, commonSettings),
	[]Setting{
		Int("batch_size", 32, 1, 65536, "transitions in a minibatch", func(c *toy) *int { return &c.BatchSize }),
		Int("window", 0, 0, 1<<40, "steps between two flushes; 0: as long as it takes", func(c *toy) *int { return &c.Window }),
		Float("gamma", 0.99, 0, 1, "discount factor", func(c *toy) *float64 { return &c.Gamma }),
		Float("max_grad_norm", 10, 0, math.MaxFloat64, "largest norm", func(c *toy) *float64 { return &c.Norm }),
		OptionalFloat("learning_rate_final", 0, 1e3, "empty: constant", func(c *toy) *float64 { return &c.RateFinal }),
		Bool("concurrent", true, "updates run concurrently with the workers", func(c *toy) *bool { return &c.Concurrent }),
		AutoBool("groups", "two groups take turns", func(c *toy) *Switch { return &c.Groups }),
		Text("actor", "auto", "network that acts", []string{"auto", "online", "target"}, func(c *toy) *string { return &c.Actor }),
		Ints("net_arch", "64,64", 1, 65536, "widths", "widths of hidden layers, each 1 to 65536", func(c *toy) *[]int { return &c.NetArch }),
		Other("line", "line", "0 1", "numbers with spaces between", lineText, line, func(c *toy) *[]float64 { return &c.Line }),
	}), []Preset{
	{Name: "tuned", Doc: "solves it", Envs: []string{"Catch-v0", "Bricks-v0"}, Rows: func(env string) ([]Row, error) {
		if env == "Bricks-v0" {
			return []Row{{"gamma", "0.5"}, {"batch_size", "64"}, {"gamma", "0.9"}}, nil
		}
		return []Row{{"net_arch", "16"}, {"gamma", "0.5"}}, nil
	}},
	{Name: "recipe", Doc: "has options", Rows: Fixed(Row{"env_options", `{"recipe": "mnih2015"}`}, Row{"seed", "7"})},
	{Name: "bad", Doc: "its last row is refused", Rows: Fixed(Row{"gamma", "0.1"}, Row{"net_arch", "1,2,3"}, Row{"batch_size", "0"})},
	{Name: "unknown", Doc: "names a setting that is not there", Rows: Fixed(Row{"gamma", "0.1"}, Row{"bacth_size", "1"})},
	{Name: "failing", Doc: "has no rows today", Rows: func(string) ([]Row, error) { return nil, errors.New("not today") }},
})

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestSetAcceptsWhatGetReturns(t *testing.T) {
	v := toyTable.Defaults()
	for i := range toyTable.Len() {
		s, err := toyTable.At(i)
		check(t, err)
		got, err := v.Get(s.Name)
		if err != nil || got != s.Default {
			t.Errorf("%s: %q, %v, want its default %q", s.Name, got, err, s.Default)
		}
		if err := v.Set(s.Name, got); err != nil {
			t.Errorf("%s: its own value %q: %v", s.Name, got, err)
		}
	}
	c := v.Struct().(*toy)
	if !math.IsNaN(c.RateFinal) || c.BatchSize != 32 || !c.Concurrent || !slices.Equal(c.NetArch, []int{64, 64}) || c.Rate != 1e-4 || c.Env != "" {
		t.Errorf("%+v", c)
	}
	check(t, v.Set("window", "1e6"))
	check(t, v.Set("net_arch", "128, 32"))
	check(t, v.Set("env", " Catch-v0 "))
	check(t, v.Set("learning_rate_final", "0"))
	check(t, v.Set("concurrent", "False"))
	for text, want := range map[string]Switch{"False": Off, "true": On, "auto": Auto} {
		check(t, v.Set("groups", text))
		if c.Groups != want {
			t.Errorf("groups %s: %v", text, c.Groups)
		}
	}
	if c.Window != 1_000_000 || !slices.Equal(c.NetArch, []int{128, 32}) || c.Env != "Catch-v0" || c.RateFinal != 0 || c.Concurrent {
		t.Errorf("%+v", c)
	}
	check(t, v.Set("net_arch", ""))
	check(t, v.Set("learning_rate_final", ""))
	if len(c.NetArch) != 0 || !math.IsNaN(c.RateFinal) {
		t.Errorf("%+v", c)
	}
	if _, err := toyTable.At(14); err == nil || err.Error() != "setting: 14, must be 0 to 13" {
		t.Error(err)
	}
	if _, err := toyTable.At(-1); err == nil {
		t.Error("setting -1")
	}
}

func TestDocsEndWithWhatIsAllowed(t *testing.T) {
	for name, want := range map[string]string{
		"env":                 "name of the environment",
		"seed":                "the one seed (at least 0)",
		"learning_rate":       "step size (0 to 1000)",
		"batch_size":          "transitions in a minibatch (1 to 65536)",
		"window":              "steps between two flushes; 0: as long as it takes (at least 0)",
		"max_grad_norm":       "largest norm (at least 0)",
		"learning_rate_final": "empty: constant (0 to 1000, or empty)",
		"concurrent":          "updates run concurrently with the workers (true or false)",
		"groups":              "two groups take turns (true, false or auto)",
		"actor":               "network that acts (auto, online, target)",
		"net_arch":            "widths of hidden layers, each 1 to 65536",
	} {
		s, err := toyTable.find(name)
		check(t, err)
		if s.Doc != want {
			t.Errorf("%s: %q, want %q", name, s.Doc, want)
		}
	}
	s := Text("a", "x", "x (the one) or y (the other)", []string{"x", "y"}, func(c *toy) *string { return &c.Actor })
	if s.Doc != "x (the one) or y (the other)" {
		t.Error(s.Doc)
	}
}

func TestErrorsNameFieldValueAndRange(t *testing.T) {
	for _, x := range []struct{ name, value, want string }{
		{"batch_size", "0", "batch_size: 0, must be 1 to 65536"},
		{"batch_size", "many", `batch_size: "many", must be a whole number`},
		{"batch_size", "1.5", `batch_size: "1.5", must be a whole number`},
		{"batch_size", "1e300", `batch_size: "1e300", must be a whole number`},
		{"gamma", "1.5", "gamma: 1.5, must be 0 to 1"},
		{"gamma", "nan", `gamma: "nan", must be a finite number`},
		{"gamma", "", `gamma: "", must be a finite number`},
		{"learning_rate", "-1", "learning_rate: -1, must be 0 to 1000"},
		{"learning_rate_final", "1001", "learning_rate_final: 1001, must be 0 to 1000"},
		{"concurrent", "perhaps", `concurrent: "perhaps", must be true or false`},
		{"groups", "perhaps", `groups: "perhaps", must be true, false or auto`},
		{"actor", "critic", `actor: "critic", must be auto, online, target`},
		{"net_arch", "64,-1", `net_arch: "64,-1", must be widths of 1 to 65536 with commas between, or none`},
		{"net_arch", "none,64", `net_arch: "none,64", must be widths of 1 to 65536 with commas between, or none`},
		{"net_arch", "1" + strings.Repeat(",1", 1000), `net_arch: 1001 widths, must be at most 1000`},
		{"line", "a", `line: must be numbers`},
		{"bacth_size", "1", `setting "bacth_size" is not known; did you mean batch_size?`},
		{"zzzzzzzzzzzzz", "1", `setting "zzzzzzzzzzzzz" is not known`},
	} {
		v := toyTable.Defaults()
		before := v.Map()
		if err := v.Set(x.name, x.value); err == nil || err.Error() != x.want {
			t.Errorf("%s = %q: %v, want %q", x.name, x.value, err, x.want)
		}
		if !maps.Equal(v.Map(), before) {
			t.Errorf("%s = %q: changed %v", x.name, x.value, v.Map())
		}
	}
	if _, err := toyTable.Defaults().Get("gama"); err == nil || err.Error() != `setting "gama" is not known; did you mean gamma?` {
		t.Error(err)
	}
	if err := toyTable.Defaults().Set(strings.Repeat("x", 10_000_000), ""); err == nil || len(err.Error()) > 300 {
		t.Errorf("a name of 10 MB: error of %d letters", len(err.Error()))
	}
}

func TestPresets(t *testing.T) {
	v := toyTable.Defaults()
	c := v.Struct().(*toy)
	check(t, v.Set("seed", "3"))
	check(t, v.Preset("tuned", "Bricks-v0"))
	if c.Env != "Bricks-v0" || c.Gamma != 0.9 || c.BatchSize != 64 || c.Seed != 3 || v.Struct() != any(c) {
		t.Errorf("%+v", c)
	}
	check(t, v.Preset("tuned", "Catch-v0"))
	if c.Env != "Catch-v0" || c.Gamma != 0.5 || c.BatchSize != 64 || !slices.Equal(c.NetArch, []int{16}) {
		t.Errorf("%+v", c)
	}
	check(t, v.Preset("recipe", "atari/pong"))
	if c.Env != "atari/pong" || c.EnvOptions != `{"recipe": "mnih2015"}` || c.Seed != 7 {
		t.Errorf("%+v", c)
	}
	check(t, v.Preset("tuned", "Catch-v0"))
	if c.EnvOptions != "" {
		t.Errorf("env_options of an earlier preset remain: %q", c.EnvOptions)
	}
	v = toyTable.Defaults()
	before := v.Map()
	for _, x := range []struct{ preset, env, want string }{
		{"tuned", "Acrobot-v1", `env: "Acrobot-v1", preset tuned exists for Bricks-v0, Catch-v0`},
		{"best", "Catch-v0", `preset: "best", must be tuned, recipe, bad, unknown, failing`},
		{"bad", "Catch-v0", "preset bad: batch_size: 0, must be 1 to 65536"},
		{"unknown", "Catch-v0", `preset unknown: setting "bacth_size" is not known; did you mean batch_size?`},
		{"failing", "Catch-v0", "preset failing: not today"},
	} {
		if err := v.Preset(x.preset, x.env); err == nil || err.Error() != x.want {
			t.Errorf("%s: %v, want %q", x.preset, err, x.want)
		}
		if !maps.Equal(v.Map(), before) {
			t.Errorf("%s: a refused preset changed %v", x.preset, v.Map())
		}
	}
	bare := New[common]("bare", commonSettings, nil).Defaults()
	if err := bare.Preset("tuned", "x"); err == nil || err.Error() != `preset: "tuned", bare has none` {
		t.Error(err)
	}
}

func TestCloneIsDeep(t *testing.T) {
	a := toyTable.Defaults()
	a.Struct().(*toy).private = 9
	b := a.Clone()
	x, y := a.Struct().(*toy), b.Struct().(*toy)
	if y.private != 9 || !maps.Equal(a.Map(), b.Map()) {
		t.Errorf("%+v cloned from %+v", y, x)
	}
	x.NetArch[0], x.Line[1], x.Seed = 5, 5, 5
	if y.NetArch[0] != 64 || y.Line[1] != 1 || y.Seed != 0 {
		t.Errorf("the clone changed: %+v", y)
	}
}

// fromMap returns a struct with the values in m.
func fromMap(t *testing.T, m map[string]string) *Values {
	t.Helper()
	v := toyTable.Defaults()
	for name, value := range m {
		check(t, v.Set(name, value))
	}
	return v
}

func TestMapIsTheWholeConfiguration(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		v := toyTable.Defaults()
		c := v.Struct().(*toy)
		*c = toy{
			common:    common{Env: strconv.Itoa(r.Int()), Seed: r.Int(), Rate: r.Float64() * 1000},
			BatchSize: 1 + r.IntN(65536), Window: r.IntN(1 << 40), Gamma: r.Float64(), Norm: math.Abs(r.NormFloat64()) * math.Pow(10, float64(r.IntN(300))),
			RateFinal: r.Float64(), Concurrent: r.IntN(2) == 0, Actor: "target", NetArch: []int{1 + r.IntN(9), 1 + r.IntN(65536)}, Line: []float64{r.NormFloat64()},
		}
		check(t, v.Check())
		next := fromMap(t, v.Map())
		n := next.Struct().(*toy)
		if !slices.Equal(n.NetArch, c.NetArch) || n.Line[0] != c.Line[0] {
			t.Fatalf("%+v, want %+v", n, c)
		}
		n.NetArch, n.Line = c.NetArch, c.Line
		if a, b := *n, *c; a.common != b.common || a.BatchSize != b.BatchSize || a.Window != b.Window || a.Gamma != b.Gamma ||
			a.Norm != b.Norm || a.RateFinal != b.RateFinal || a.Concurrent != b.Concurrent || a.Actor != b.Actor {
			t.Fatalf("%+v, want %+v", a, b)
		}
	}
}

func TestOverWorksOnTheCallersStruct(t *testing.T) {
	c := &toy{common: common{Rate: 1}, BatchSize: 70000}
	v := toyTable.Over(c)
	if err := v.Check(); err == nil || err.Error() != "batch_size: 70000, must be 1 to 65536" {
		t.Error(err)
	}
	check(t, v.Set("batch_size", "64"))
	if c.BatchSize != 64 {
		t.Errorf("%+v", c)
	}
	c.BatchSize = 0 // a preset does not check the settings that it does not set
	check(t, v.Preset("recipe", "x"))
	if c.BatchSize != 0 || c.Seed != 7 {
		t.Errorf("%+v", c)
	}
}

func TestNewPanicsOnInvalidTables(t *testing.T) {
	size := func(c *toy) *int { return &c.BatchSize }
	for name, list := range map[string][]Setting{
		"default":        {Int("a", 0, 1, 2, "doc", size)},
		"twice":          {Int("a", 1, 1, 2, "doc", size), Int("a", 1, 1, 2, "doc", size)},
		"another struct": commonSettings,
		"no name":        {Int("", 1, 1, 2, "doc", size)},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			New[toy]("toy", list, nil)
		}()
	}
}

// After an accepted Set, the text of Get gives the same text again. A refused Set changes nothing,
// and its error has one line.
func FuzzSet(f *testing.F) {
	for i := range toyTable.Len() {
		s, _ := toyTable.At(i)
		f.Add(s.Name, s.Default)
		f.Add(s.Name, "1e3")
		f.Add(s.Name, "-0")
	}
	f.Add("net_arch", "1, 2,,3")
	f.Add("bacth_size", "0x10")
	f.Add("gamma", "0x1p-2")
	f.Fuzz(func(t *testing.T, name, value string) {
		v := toyTable.Defaults()
		before := v.Map()
		if err := v.Set(name, value); err != nil {
			if strings.ContainsRune(name+value, '\n') == false && strings.ContainsRune(err.Error(), '\n') {
				t.Fatalf("two lines: %q", err)
			}
			if !maps.Equal(v.Map(), before) {
				t.Fatalf("%q = %q was refused and changed %v", name, value, v.Map())
			}
			return
		}
		got, err := v.Get(name)
		check(t, err)
		next := fromMap(t, v.Map())
		if then, _ := next.Get(name); then != got {
			t.Fatalf("%q = %q: %q, then %q", name, value, got, then)
		}
	})
}

// A changed table has other defaults, fixed values and settings on the same struct.
func TestChange(t *testing.T) {
	table := New[toy]("toy", Within(func(c *toy) *common { return &c.common }, commonSettings), nil)
	to := table.Change(Change{
		Name: "other", Fixed: []Row{{"env", "here"}}, Defaults: []Row{{"seed", "5"}},
		Init:    func(c any) { c.(*toy).private = 7 },
		More:    Of(func(c any) *toy { return c.(*toy) }, []Setting{Int("window", 3, 1, 9, "its length", func(c *toy) *int { return &c.Window })}),
		Presets: []Preset{{Name: "fast", Doc: "a preset", Rows: Fixed(Row{"window", "8"})}},
	})
	v := to.Defaults()
	if c := v.Struct().(*toy); c.Env != "here" || c.Seed != 5 || c.Window != 3 || c.private != 7 || c.Rate != 1e-4 {
		t.Errorf("%+v", c)
	}
	if err := v.Set("env", "there"); err == nil {
		t.Error("a fixed setting was set")
	}
	if err := v.Set("window", "0"); err == nil || err.Error() != "window: 0, must be 1 to 9" {
		t.Error(err)
	}
	if err := v.Preset("fast", ""); err != nil || v.Struct().(*toy).Window != 8 {
		t.Error(err, v.Struct())
	}
	if c := v.Clone().Struct().(*toy); c.Env != "here" || c.Window != 8 || c.private != 7 {
		t.Errorf("a copy: %+v", c)
	}
	if before := table.Defaults().Struct().(*toy); before.Seed != 0 || before.Env != "" || before.private != 0 {
		t.Errorf("the other table has changed: %+v", before)
	}
	for name, c := range map[string]Change{
		"fixed":   {Fixed: []Row{{"nothing", "1"}}},
		"default": {Defaults: []Row{{"seed", "-1"}}},
		"unknown": {Defaults: []Row{{"nothing", "1"}}},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			table.Change(c)
		}()
	}
}
