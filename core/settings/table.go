package settings

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paceline-rl/paceline/core/nearest"
)

// Row is one line of a preset: the name and the value, as text, of a setting.
type Row [2]string

// Preset is a documented list of settings that are set together. Other settings are unchanged.
type Preset struct {
	Name, Doc string
	// Envs are the environments of the preset; nil: any environment.
	Envs []string
	// Rows returns the lines for an environment of Envs. A later line overwrites an earlier one of
	// the same name.
	Rows func(env string) ([]Row, error)
	// Steps is the intended length of a run; 0: not specified.
	Steps int64
}

// Fixed returns Rows that are the same for every environment.
func Fixed(rows ...Row) func(env string) ([]Row, error) {
	return func(string) ([]Row, error) { return rows, nil }
}

// Table has the settings of one struct, in the order of the documentation, and its presets. It
// never changes.
type Table struct {
	name    string
	list    []Setting
	presets []Preset
	make    func() any         // a new *C, with the values that Change has fixed
	assign  func(to, from any) // *to = *from of two *C
}

// New returns the table of settings of the struct C. name is the name of the method ("dqn"). New
// panics if the table is not valid: a duplicate name, a setting of another struct, a default that
// is not allowed. That is a bug of the program, and every test that imports the table finds it.
func New[C any](name string, list []Setting, presets []Preset) *Table {
	t := &Table{name: name, list: slices.Clone(list), presets: slices.Clone(presets),
		make:   func() any { return new(C) },
		assign: func(to, from any) { *to.(*C) = *from.(*C) },
	}
	t.check()
	return t
}

// Change says how a Table differs from another one of the same struct.
type Change struct {
	Name string
	// Fixed are values that the settings of the other table always have. The table does not list these
	// settings.
	Fixed []Row
	// Defaults are other defaults of settings that stay.
	Defaults []Row
	// Init changes a new struct in ways for which there is no setting; nil: it does not.
	Init func(c any)
	// More are settings that come after those of the other table.
	More    []Setting
	Presets []Preset
}

// Change returns a table of the same struct. It panics as New does.
func (t *Table) Change(c Change) *Table {
	fixed := func(name string) bool {
		return slices.ContainsFunc(c.Fixed, func(r Row) bool { return r[0] == name })
	}
	to := &Table{name: c.Name, presets: slices.Clone(c.Presets), assign: t.assign}
	to.make = func() any {
		made := t.make()
		for _, r := range c.Fixed {
			s, err := t.find(r[0])
			if err == nil {
				err = s.set(made, r[1])
			}
			if err != nil {
				panic(fmt.Sprintf("settings: %s: fixed value of %v", c.Name, err))
			}
		}
		if c.Init != nil {
			c.Init(made)
		}
		return made
	}
	to.list = append(slices.DeleteFunc(slices.Clone(t.list), func(s Setting) bool { return fixed(s.Name) }), c.More...)
	for _, r := range c.Defaults {
		s, err := to.find(r[0])
		if err != nil {
			panic(fmt.Sprintf("settings: %s: default of %v", c.Name, err))
		}
		s.Default = r[1]
	}
	to.check()
	return to
}

// check panics if the table is not valid.
func (t *Table) check() {
	name, c := t.name, t.make()
	for i, s := range t.list {
		switch {
		case s.Name == "" || s.Doc == "" || s.Type == "":
			panic(fmt.Sprintf("settings: %s: setting %d: no name, doc or type", name, i))
		case slices.ContainsFunc(t.list[:i], func(o Setting) bool { return o.Name == s.Name }):
			panic(fmt.Sprintf("settings: %s: two settings %s", name, s.Name))
		}
		if err := s.set(c, s.Default); err != nil {
			panic(fmt.Sprintf("settings: %s: default of %v", name, err))
		}
	}
	for i, p := range t.presets {
		if p.Name == "" || p.Rows == nil || slices.ContainsFunc(t.presets[:i], func(o Preset) bool { return o.Name == p.Name }) {
			panic(fmt.Sprintf("settings: %s: preset %d: no name, no rows, or a duplicate name", name, i))
		}
	}
}

// Len returns the number of settings.
func (t *Table) Len() int { return len(t.list) }

// At returns setting i, 0 to Len()-1.
func (t *Table) At(i int) (Setting, error) {
	if i < 0 || i >= len(t.list) {
		return Setting{}, fmt.Errorf("setting: %d, must be 0 to %d", i, len(t.list)-1)
	}
	return t.list[i], nil
}

// Presets returns the presets in the order of New. The slice is the caller's.
func (t *Table) Presets() []Preset { return slices.Clone(t.presets) }

// Defaults returns a new struct with every setting at its default.
func (t *Table) Defaults() *Values {
	v := &Values{table: t, c: t.make()}
	for _, s := range t.list {
		if err := s.set(v.c, s.Default); err != nil {
			panic(fmt.Sprintf("settings: %s: default of %v", t.name, err)) // never: New has set all defaults
		}
	}
	return v
}

// Over returns the settings of the struct that c points to, without a copy: Values.Set changes the
// caller's struct. c is a *C; Over panics on another type.
func (t *Table) Over(c any) *Values {
	t.assign(t.make(), c) // checks the type
	return &Values{table: t, c: c}
}

// find returns the setting called name, or an error that suggests similar names.
func (t *Table) find(name string) (*Setting, error) {
	names := make([]string, len(t.list))
	for i := range t.list {
		if t.list[i].Name == name {
			return &t.list[i], nil
		}
		names[i] = t.list[i].Name
	}
	if len(name) > 200 { // no name is similar, and the comparison would take long
		return nil, fmt.Errorf("setting %.200q... is not known", name)
	}
	if near := nearest.Names(name, names, 3, nil); near != nil {
		return nil, fmt.Errorf("setting %q is not known; did you mean %s?", name, strings.Join(near, " or "))
	}
	return nil, fmt.Errorf("setting %q is not known", name)
}

// Values are the settings of one struct, by name.
type Values struct {
	table *Table
	c     any
}

// Table returns the table of the settings.
func (v *Values) Table() *Table { return v.table }

// Struct returns the struct itself, a *C of New's C, not a copy.
func (v *Values) Struct() any { return v.c }

// Set sets the setting called name to the value of text. It ignores spaces around text.
func (v *Values) Set(name, text string) error {
	s, err := v.table.find(name)
	if err != nil {
		return err
	}
	return s.set(v.c, strings.TrimSpace(text))
}

// Get returns the value of a setting as text that Set accepts.
func (v *Values) Get(name string) (string, error) {
	s, err := v.table.find(name)
	if err != nil {
		return "", err
	}
	return s.get(v.c), nil
}

// Preset sets the lines of a preset for an environment. If the table has settings called env and
// env_options, Preset first sets them to env and to the empty text, so that no options of an
// earlier preset remain.
func (v *Values) Preset(preset, env string) error {
	t := v.table
	i := slices.IndexFunc(t.presets, func(p Preset) bool { return p.Name == preset })
	if i < 0 {
		if len(t.presets) == 0 {
			return fmt.Errorf("preset: %q, %s has none", preset, t.name)
		}
		names := make([]string, len(t.presets))
		for i, p := range t.presets {
			names[i] = p.Name
		}
		return fmt.Errorf("preset: %q, must be %s", preset, strings.Join(names, ", "))
	}
	p := &t.presets[i]
	if p.Envs != nil && !slices.Contains(p.Envs, env) {
		return fmt.Errorf("env: %q, preset %s exists for %s", env, preset, strings.Join(slices.Sorted(slices.Values(p.Envs)), ", "))
	}
	rows, err := p.Rows(env)
	if err != nil {
		return fmt.Errorf("preset %s: %w", preset, err)
	}
	next := v.Clone()
	for _, r := range []Row{{"env", env}, {"env_options", ""}} {
		if s, err := t.find(r[0]); err == nil {
			if err := s.set(next.c, r[1]); err != nil {
				return err
			}
		}
	}
	for _, r := range rows {
		if err := next.Set(r[0], r[1]); err != nil {
			return fmt.Errorf("preset %s: %w", preset, err)
		}
	}
	t.assign(v.c, next.c)
	return nil
}

// Check returns the error of the first setting with a value that Set would not accept. Fields that
// were assigned directly may have such values.
func (v *Values) Check() error {
	c := v.table.make()
	for _, s := range v.table.list {
		if err := s.set(c, s.get(v.c)); err != nil {
			return err
		}
	}
	return nil
}

// Clone returns a deep copy of all settings. Other fields of the struct are copied by assignment.
func (v *Values) Clone() *Values {
	next := &Values{table: v.table, c: v.table.make()}
	v.table.assign(next.c, v.c)
	for _, s := range v.table.list {
		_ = s.set(next.c, s.get(next.c)) // parse makes a new value; Check finds values that are not valid
	}
	return next
}

// Map returns the values of all settings by name, for a file.
func (v *Values) Map() map[string]string {
	m := make(map[string]string, len(v.table.list))
	for _, s := range v.table.list {
		m[s.Name] = s.get(v.c)
	}
	return m
}
