// Package bench has the benchmarks that the library runs by name. Their results are the tables of
// the documentation. Options and reports are JSON.
package bench

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Bench runs the benchmark `name` and returns its report, a JSON object. options is a JSON object,
// or "" for the defaults.
func Bench(name, options string) (report string, err error) {
	benches := map[string]func(decode func(any) error) (any, error){
		"alternate": benchAlternate,
		"async":     benchAsync,
		"forward":   benchForward,
		"ga3c":      benchGA3C,
		"gorila":    benchGorila,
		"latency":   benchLatency,
		"modes":     benchModes,
		"tuner":     benchTuner,
		"update":    benchUpdate,
	}
	run, ok := benches[name]
	if !ok {
		return "", fmt.Errorf("bench: %q, must be alternate, async, forward, ga3c, gorila, latency, modes, tuner or update", name)
	}
	decode := func(to any) error {
		if options == "" {
			return nil
		}
		d := json.NewDecoder(strings.NewReader(options))
		d.DisallowUnknownFields()
		if err := d.Decode(to); err != nil {
			return fmt.Errorf("options: %s: %w", options, err)
		}
		return nil
	}
	result, err := run(decode)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(result)
	return string(text), err
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
