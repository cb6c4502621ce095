package env

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/paceline-rl/paceline/core/nearest"
)

// Options are what an environment is made with beside its name: values by the names of
// its fields. They come as a JSON object, from a keyword in Python or a text in C.
type Options map[string]json.RawMessage

// ParseOptions reads a JSON object; "" has no options.
func ParseOptions(text string) (Options, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var o Options
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return nil, fmt.Errorf("options: %.200q, must be a JSON object (%v)", text, err)
	}
	return o, nil
}

// Field is an option that an environment knows: where its value goes and what is
// allowed. To points to an int, a float64, a bool or a string, which holds the default.
type Field struct {
	Name     string
	To       any
	Min, Max float64  // of numbers
	Words    []string // of strings
}

// Read stores the values of options that fields know. One that none of them knows, and a
// value that is not allowed, is refused with a sentence, id being the environment's name;
// what came before it is stored then.
func (o Options) Read(id string, fields []Field) error {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Name
	}
	given := make([]string, 0, len(o))
	for name := range o {
		given = append(given, name)
	}
	slices.Sort(given)
	for _, name := range given {
		i := slices.Index(names, name)
		if i < 0 {
			return unknownOption(id, name, names)
		}
		if err := fields[i].read(o[name]); err != nil {
			return err
		}
	}
	return nil
}

func unknownOption(id, name string, names []string) error {
	if len(names) == 0 {
		return fmt.Errorf("option %q: %s has no options of its own", name, id)
	}
	slices.Sort(names)
	if near := nearest.Names(name, names, max(2, len(name)/3), nil); near != nil {
		return fmt.Errorf("option %q: %s has none of that name; did you mean %s?", name, id, strings.Join(near, " or "))
	}
	return fmt.Errorf("option %q: %s has none of that name, it has %s", name, id, strings.Join(names, ", "))
}

func (f *Field) read(value json.RawMessage) error {
	switch to := f.To.(type) {
	case *bool:
		if json.Unmarshal(value, to) != nil || isNull(value) {
			return fmt.Errorf("%s: %s, must be true or false", f.Name, value)
		}
	case *string:
		var s string
		if json.Unmarshal(value, &s) != nil || isNull(value) || !slices.Contains(f.Words, s) {
			return fmt.Errorf("%s: %s, must be %s", f.Name, value, strings.Join(f.Words, " or "))
		}
		*to = s
	case *int:
		x, ok := f.number(value)
		if !ok || x != math.Trunc(x) {
			return fmt.Errorf("%s: %s, must be a whole number of %.0f to %.0f", f.Name, value, f.Min, f.Max)
		}
		*to = int(x)
	case *float64:
		x, ok := f.number(value)
		if !ok {
			return fmt.Errorf("%s: %s, must be a number of %v to %v", f.Name, value, f.Min, f.Max)
		}
		*to = x
	default:
		panic(fmt.Sprintf("env: option %s goes to a %T", f.Name, f.To))
	}
	return nil
}

func (f *Field) number(value json.RawMessage) (x float64, ok bool) {
	err := json.Unmarshal(value, &x)
	return x, err == nil && !isNull(value) && x >= f.Min && x <= f.Max
}

func isNull(value json.RawMessage) bool { return bytes.Equal(bytes.TrimSpace(value), []byte("null")) }
