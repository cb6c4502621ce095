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

// Options are the settings of an environment, by name. They come from a JSON object: a keyword in
// Python, a string in C.
type Options map[string]json.RawMessage

// ParseOptions reads a JSON object, in which no name is given twice. "" means no options.
func ParseOptions(text string) (Options, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var o Options
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return nil, fmt.Errorf("options: %.200q, must be a JSON object (%v)", text, err)
	}
	if o == nil {
		return nil, fmt.Errorf("options: %.200q, must be a JSON object", text)
	}
	pairs, seen := json.NewDecoder(strings.NewReader(text)), make(map[json.Token]bool)
	pairs.Token() // {
	for pairs.More() {
		name, _ := pairs.Token()
		var value json.RawMessage
		if pairs.Decode(&value); seen[name] {
			return nil, fmt.Errorf("options: %q is given twice, must be given once", name)
		}
		seen[name] = true
	}
	return o, nil
}

// Field is an option that an environment has: its name, its variable and its allowed values. To
// points to the variable, an int, a float64, a bool or a string, which holds the default.
type Field struct {
	Name     string
	To       any
	Min, Max float64  // limits of an int or a float64
	Words    []string // allowed values of a string
}

// Read stores the options in the variables of fields, in the order of the options' names. Read
// returns an error at the first unknown option or value that is not allowed; the options before it
// are stored. id is the environment's name in errors.
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
		return fmt.Errorf("option %q: %s has no such option; did you mean %s?", name, id, strings.Join(near, " or "))
	}
	return fmt.Errorf("option %q: %s has no such option; its options are %s", name, id, strings.Join(names, ", "))
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
