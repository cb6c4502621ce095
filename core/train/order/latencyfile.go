package order

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/paceline-rl/paceline/core/limits"
)

// Limits of a file of durations.
const (
	maxDurations    = 100_000 // of an operation
	maxDuration     = 3600.0  // seconds
	maxLatencyBytes = 32 << 20
)

// Open reads File, if there is one. The durations of the file take the place of the model's.
func (l *Latency) Open() error { return OpenDurations(l.File, l.named()) }

// NamedDuration is a duration with its name in a file.
type NamedDuration struct {
	Name string
	To   *Duration
}

func (l *Latency) named() []NamedDuration {
	return []NamedDuration{{"step", &l.Step}, {"forward", &l.Forward}, {"gradient", &l.Gradient}, {"pull", &l.Pull}, {"push", &l.Push}}
}

// OpenDurations reads a file of durations, if path is not empty. Durations of the file take the
// place of those in list. After an error list is unchanged.
func OpenDurations(path string, list []NamedDuration) error {
	if path == "" {
		return nil
	}
	text, err := ReadFile(path, maxLatencyBytes)
	if err != nil {
		return fmt.Errorf("latency_file: %w", err)
	}
	if err := readDurations(text, list); err != nil {
		return fmt.Errorf("latency_file: %s: %w", path, err)
	}
	return nil
}

// read reads the JSON text of a file.
func (l *Latency) read(text []byte) error { return readDurations(text, l.named()) }

// readDurations reads the JSON text of a file: an object that has lists of seconds under the names
// of list. Each draw is one of the list, with equal probability. Names that are missing leave their
// durations as they are.
func readDurations(text []byte, list []NamedDuration) error {
	if n, most := bytes.Count(text, []byte(",")), len(list)*maxDurations; n > most {
		return fmt.Errorf("%d values, must be at most %d", n+1, most)
	}
	var file map[string][]float64
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&file); err != nil {
		return fmt.Errorf("must be an object with lists of seconds: %.200s", err.Error())
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("must be one JSON object, has more after it")
	}
	to, names := make([]*Duration, len(list)), make([]string, len(list))
	read := 0
	for k, one := range list {
		names[k] = one.Name
		seconds := file[one.Name]
		delete(file, one.Name)
		if seconds == nil {
			continue
		}
		read++
		measured, err := Measured(seconds)
		if err != nil {
			return fmt.Errorf("%s: %w", one.Name, err)
		}
		to[k] = &measured
	}
	if unknown := slices.Sorted(maps.Keys(file)); len(unknown) > 0 {
		return fmt.Errorf("must be an object with lists of seconds: unknown field %.80q", unknown[0])
	}
	if read == 0 {
		return fmt.Errorf("has none of %s", strings.Join(names, ", "))
	}
	for k, measured := range to {
		if measured != nil {
			*list[k].To = *measured
		}
	}
	return nil
}

// Measured is a duration that is one of 1 to 100,000 measured ones, in seconds, with equal
// probability. Shorter ones than a sixteenth of the median are raised to that.
func Measured(seconds []float64) (Duration, error) {
	if len(seconds) < 1 || len(seconds) > maxDurations {
		return Duration{}, fmt.Errorf("%d durations, must be 1 to %d", len(seconds), maxDurations)
	}
	d := Duration{table: make([]int64, len(seconds))}
	for i, s := range seconds {
		if !(s >= 1e-9 && s <= maxDuration) {
			return Duration{}, fmt.Errorf("duration %d is %g seconds, must be 1e-9 to %g", i, s, maxDuration)
		}
		d.table[i] = int64(math.Round(s * 1e9))
	}
	sorted := slices.Clone(d.table)
	slices.Sort(sorted)
	d.median = sorted[len(sorted)/2]
	d.floor = max(1, sorted[0], d.median/lowest)
	return d, nil
}

// ReadFile reads a file of at most a number of bytes. A directory, a pipe or a device is an error.
func ReadFile(path string, most int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	switch {
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: must be a file", path)
	case info.Size() > most:
		return nil, fmt.Errorf("%s: %d bytes, must be at most %d", path, info.Size(), most)
	}
	if err := limits.Admit(limits.Part{Setting: fmt.Sprintf("%s: a file of %d bytes", path, info.Size()), Bytes: 2 * info.Size()}); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(text)) > most {
		return nil, fmt.Errorf("%s: grows while it is read, must be at most %d bytes", path, most)
	}
	return text, nil
}
