package settings

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paceline-rl/paceline/core/nearest"
)

// Row is one line of a preset: a setting's name and its value as text.
type Row [2]string

// Preset is a documented table of settings that is set in one go, on top of the
// others.
type Preset struct {
	Name, Doc string
	// Envs are the environments that it exists for; nil: any.
	Envs []string
	// Rows returns the lines for an environment, which is one of Envs. A later
	// line of the same name goes over an earlier one.
	Rows func(env string) ([]Row, error)
	// Steps is how many a run is meant to take; 0: as many as one likes.
	Steps int64
}

// Fixed returns a Preset's Rows that are the same for every environment.
func Fixed(rows ...Row) func(env string) ([]Row, error) {
	return func(string) ([]Row, error) { return rows, nil }
}

// Table is the settings of one struct, in the order in which they are worth
// reading, and its presets. It never changes.
type Table struct {
	name    string
	list    []Setting
	presets []Preset
	make    func() any         // a new *C
	assign  func(to, from any) // *to = *from of two *C
}

// New returns the table of settings of the struct C; name says whose ("dqn"). A
// table that contradicts itself (a name twice, a setting of another struct, a
// default that is refused) panics: it is a mistake in the program, which every
// test that imports it finds.
func New[C any](name string, list []Setting, presets []Preset) *Table {
	t := &Table{name: name, list: slices.Clone(list), presets: slices.Clone(presets),
		make:   func() any { return new(C) },
		assign: func(to, from any) { *to.(*C) = *from.(*C) },
	}
	c := t.make()
	for i, s := range t.list {
		switch {
		case s.Name == "" || s.Doc == "" || s.Type == "":
			panic(fmt.Sprintf("settings: %s: setting %d: no name, doc or type", name, i))
		case slices.ContainsFunc(t.list[:i], func(o Setting) bool { return o.Name == s.Name }):
			panic(fmt.Sprintf("settings: %s: %s is there twice", name, s.Name))
		}
		if err := s.set(c, s.Default); err != nil {
			panic(fmt.Sprintf("settings: %s: default of %v", name, err))
		}
	}
	for i, p := range t.presets {
		if p.Name == "" || p.Rows == nil || slices.ContainsFunc(t.presets[:i], func(o Preset) bool { return o.Name == p.Name }) {
			panic(fmt.Sprintf("settings: %s: preset %d: no name, no rows, or there twice", name, i))
		}
	}
	return t
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

// Presets returns the presets, in their order. The slice is the caller's.
func (t *Table) Presets() []Preset { return slices.Clone(t.presets) }

// Defaults returns a new struct with every setting at its default.
func (t *Table) Defaults() *Values {
	v := &Values{table: t, c: t.make()}
	for _, s := range t.list {
		if err := s.set(v.c, s.Default); err != nil {
			panic(fmt.Sprintf("settings: %s: default of %v", t.name, err)) // New has tried them all
		}
	}
	return v
}

// Over returns the settings of the struct that c points to (a *C of New's C; a
// pointer to something else panics). It stays the caller's, and is not copied.
func (t *Table) Over(c any) *Values {
	t.assign(t.make(), c) // panics on another type
	return &Values{table: t, c: c}
}

// find returns the setting called name, or an error with the names that are near.
func (t *Table) find(name string) (*Setting, error) {
	names := make([]string, len(t.list))
	for i := range t.list {
		if t.list[i].Name == name {
			return &t.list[i], nil
		}
		names[i] = t.list[i].Name
	}
	if len(name) > 200 { // no name is near, and the comparison would take long
		return nil, fmt.Errorf("setting %.200q... is not known", name)
	}
	if near := nearest.Names(name, names, 3, nil); near != nil {
		return nil, fmt.Errorf("setting %q is not known; did you mean %s?", name, strings.Join(near, " or "))
	}
	return nil, fmt.Errorf("setting %q is not known", name)
}

// Values is one struct's settings, by name.
type Values struct {
	table *Table
	c     any
}

// Table returns the settings that there are.
func (v *Values) Table() *Table { return v.table }

// Struct returns the struct, a *C of New's C, in place.
func (v *Values) Struct() any { return v.c }

// Set sets the setting called name to the value of text, without the spaces around
// it.
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

// Preset sets a preset for an environment on top of the others. Where there are
// settings called env and env_options they become env and empty first: a preset
// may then set env_options, and what an earlier one set is gone.
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

// Check returns the sentence that refuses the first setting whose field holds
// what Set would not have accepted, because it was assigned directly.
func (v *Values) Check() error {
	c := v.table.make()
	for _, s := range v.table.list {
		if err := s.set(c, s.get(v.c)); err != nil {
			return err
		}
	}
	return nil
}

// Clone returns a copy that shares nothing that a setting speaks of. What else
// the struct holds is copied as an assignment would.
func (v *Values) Clone() *Values {
	next := &Values{table: v.table, c: v.table.make()}
	v.table.assign(next.c, v.c)
	for _, s := range v.table.list {
		_ = s.set(next.c, s.get(next.c)) // makes a value of its own; Check finds what is refused
	}
	return next
}

// Map returns every setting's value by its name: a copy for a file.
func (v *Values) Map() map[string]string {
	m := make(map[string]string, len(v.table.list))
	for _, s := range v.table.list {
		m[s.Name] = s.get(v.c)
	}
	return m
}
