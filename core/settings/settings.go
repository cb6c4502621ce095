// Package settings describes the fields of a configuration struct as a table of named settings.
// Hosts set and read settings as text, and files store them as text, without knowledge of the
// struct.
//
//	var Settings = settings.New[Config]("a2c", slices.Concat(
//		settings.Within(func(c *Config) *train.Common { return &c.Common }, train.CommonSettings),
//		[]settings.Setting{
//			settings.Int("n_steps", 5, 1, 1<<20, "steps of a rollout", func(c *Config) *int { return &c.NSteps }),
//		}), presets)
//
//	v := Settings.Defaults()
//	err := v.Set("n_steps", "8") // "n_steps: 0, must be 1 to 1048576" for "0"
//	cfg := v.Struct().(*Config)
//
// Invariants:
//
//   - Set accepts the text that Get returns, and the value is the same. Therefore a map of texts
//     (Map) is a complete copy of a configuration.
//   - A Set or Preset that fails changes nothing. Its error is one sentence that names the setting,
//     the value and the allowed values.
//   - A setting checks only its own value. The owner of the struct checks combinations of settings.
//     If fields were assigned directly, the owner calls Check first.
//   - A Setting and a Table never change after they are made, so goroutines may share them. Values
//     belong to one goroutine at a time.
package settings

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Setting describes one field of a struct. Int, Float, OptionalFloat, Bool, AutoBool, Text, Ints
// and Other make a Setting. Within makes it a Setting of an outer struct.
type Setting struct {
	Name    string
	Type    string // "int", "float", "bool", "string", "ints", or the type that Other was given
	Default string // as text
	Doc     string // for users; ends with the allowed values

	get func(c any) string
	set func(c any, text string) error
}

// Other returns a setting of any type T. format returns the text of a value. parse returns the
// value of a text, or an error of one sentence. parse must accept the texts of format, and its
// values must share no memory.
func Other[C, T any](name, typ, def, doc string, format func(T) string, parse func(string) (T, error), field func(*C) *T) Setting {
	return Setting{Name: name, Type: typ, Default: def, Doc: doc,
		get: func(c any) string { return format(*field(c.(*C))) },
		set: func(c any, s string) error {
			v, err := parse(s)
			if err != nil {
				return err
			}
			*field(c.(*C)) = v
			return nil
		},
	}
}

// Int returns a setting of a whole number of lo to hi. It accepts texts like 1e6, which Python and
// shells write.
func Int[C any](name string, def, lo, hi int, doc string, field func(*C) *int) Setting {
	allowed := fmt.Sprintf("%d to %d", lo, hi)
	if hi >= 1<<40 {
		allowed = fmt.Sprintf("at least %d", lo)
	}
	return Other(name, "int", strconv.Itoa(def), ending(doc, allowed), strconv.Itoa, func(s string) (int, error) {
		v, err := strconv.Atoi(s)
		if err != nil {
			f, ferr := strconv.ParseFloat(s, 64)
			if ferr != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
				return 0, fmt.Errorf("%s: %q, must be a whole number", name, s)
			}
			v = int(f)
		}
		if v < lo || v > hi {
			return 0, fmt.Errorf("%s: %d, must be %d to %d", name, v, lo, hi)
		}
		return v, nil
	}, field)
}

// Float returns a setting of a finite number of lo to hi.
func Float[C any](name string, def, lo, hi float64, doc string, field func(*C) *float64) Setting {
	return Other(name, "float", formatFloat(def), ending(doc, floatRange(lo, hi)), formatFloat, func(s string) (float64, error) {
		return parseFloat(name, s, lo, hi)
	}, field)
}

// OptionalFloat is a Float that may be absent and is absent by default. The text of an absent value
// is empty, its field is NaN.
func OptionalFloat[C any](name string, lo, hi float64, doc string, field func(*C) *float64) Setting {
	format := func(f float64) string {
		if math.IsNaN(f) {
			return ""
		}
		return formatFloat(f)
	}
	return Other(name, "float", "", ending(doc, floatRange(lo, hi)+", or empty"), format, func(s string) (float64, error) {
		if s == "" {
			return math.NaN(), nil
		}
		return parseFloat(name, s, lo, hi)
	}, field)
}

// Bool returns a setting of "true" or "false". It also accepts "1", "0", "True" and the like.
func Bool[C any](name string, def bool, doc string, field func(*C) *bool) Setting {
	return Other(name, "bool", strconv.FormatBool(def), ending(doc, "true or false"), strconv.FormatBool, func(s string) (bool, error) {
		v, err := strconv.ParseBool(s)
		if err != nil {
			return false, fmt.Errorf("%s: %q, must be true or false", name, s)
		}
		return v, nil
	}, field)
}

// Switch is a truth value, or Auto where the struct's owner chooses it by other settings.
type Switch uint8

const (
	Auto Switch = iota
	Off
	On
)

// SwitchOf returns On or Off.
func SwitchOf(on bool) Switch {
	if on {
		return On
	}
	return Off
}

// AutoBool is a Bool that may be "auto", and is by default.
func AutoBool[C any](name, doc string, field func(*C) *Switch) Setting {
	format := func(v Switch) string { return [...]string{"auto", "false", "true"}[v] }
	return Other(name, "bool", "auto", ending(doc, "true, false or auto"), format, func(s string) (Switch, error) {
		if s == "auto" {
			return Auto, nil
		}
		v, err := strconv.ParseBool(s)
		if err != nil {
			return Auto, fmt.Errorf("%s: %q, must be true, false or auto", name, s)
		}
		return SwitchOf(v), nil
	}, field)
}

// Text returns a setting of one of allowed, or of any text if allowed is nil.
func Text[C any](name, def, doc string, allowed []string, field func(*C) *string) Setting {
	// A doc that explains each choice needs no list of the choices.
	if slices.ContainsFunc(allowed, func(a string) bool { return !strings.Contains(doc, a) }) {
		doc = ending(doc, strings.Join(allowed, ", "))
	}
	return Other(name, "string", def, doc, func(s string) string { return s }, func(s string) (string, error) {
		if allowed != nil && !slices.Contains(allowed, s) {
			return "", fmt.Errorf("%s: %q, must be %s", name, s, strings.Join(allowed, ", "))
		}
		return s, nil
	}, field)
}

// maxInts is the largest length of a setting of Ints.
const maxInts = 1000

// Ints returns a setting of up to maxInts whole numbers of lo to hi, separated by commas. what
// names the numbers in errors ("widths"). The text "none" is the empty list, the text "" is nil.
func Ints[C any](name, def string, lo, hi int, what, doc string, field func(*C) *[]int) Setting {
	format := func(v []int) string {
		if v != nil && len(v) == 0 {
			return "none"
		}
		parts := make([]string, len(v))
		for i, x := range v {
			parts[i] = strconv.Itoa(x)
		}
		return strings.Join(parts, ",")
	}
	return Other(name, "ints", def, ending(doc, fmt.Sprintf("%d to %d", lo, hi)), format, func(s string) ([]int, error) {
		var v []int
		if s == "none" {
			v = []int{}
		} else if s != "" {
			for _, part := range strings.Split(s, ",") {
				x, err := strconv.Atoi(strings.TrimSpace(part))
				if err != nil || x < lo || x > hi {
					return nil, fmt.Errorf("%s: %q, must be %s of %d to %d with commas between, or none", name, s, what, lo, hi)
				}
				v = append(v, x)
			}
		}
		if len(v) > maxInts {
			return nil, fmt.Errorf("%s: %d %s, must be at most %d", name, len(v), what, maxInts)
		}
		return v, nil
	}, field)
}

// Within returns the settings of an inner struct as settings of the outer struct.
func Within[Outer, Inner any](part func(*Outer) *Inner, list []Setting) []Setting {
	return Of(func(c any) *Inner { return part(c.(*Outer)) }, list)
}

// Of returns the settings of an inner struct as settings of every struct in which part finds one.
func Of[Inner any](part func(outer any) *Inner, list []Setting) []Setting {
	outer := slices.Clone(list)
	for i, s := range list {
		outer[i].get = func(c any) string { return s.get(part(c)) }
		outer[i].set = func(c any, text string) error { return s.set(part(c), text) }
	}
	return outer
}

// ending returns doc with the allowed values at its end.
func ending(doc, allowed string) string {
	if strings.HasSuffix(strings.TrimSuffix(doc, ")"), allowed) {
		return doc
	}
	return doc + " (" + allowed + ")"
}

func parseFloat(name, s string, lo, hi float64) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%s: %q, must be a finite number", name, s)
	}
	if v < lo || v > hi {
		return 0, fmt.Errorf("%s: %s, must be %s to %s", name, formatFloat(v), formatFloat(lo), formatFloat(hi))
	}
	return v, nil
}

func floatRange(lo, hi float64) string {
	if hi == math.MaxFloat64 {
		return "at least " + formatFloat(lo)
	}
	return formatFloat(lo) + " to " + formatFloat(hi)
}

func formatFloat(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
