package order

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"github.com/paceline-rl/paceline/core/limits"
)

// Limits of a file of durations.
const (
	maxDurations    = 100_000 // of an operation
	maxDuration     = 3600.0  // seconds
	maxLatencyBytes = 32 << 20
)

// Open reads File, if there is one. The durations of the file take the place of the model's.
func (l *Latency) Open() error {
	if l.File == "" {
		return nil
	}
	text, err := readFile(l.File, maxLatencyBytes)
	if err != nil {
		return fmt.Errorf("latency_file: %w", err)
	}
	if err := l.read(text); err != nil {
		return fmt.Errorf("latency_file: %s: %w", l.File, err)
	}
	return nil
}

// read reads the JSON text of a file: an object that has, under the names step, forward, gradient,
// pull and push, lists of seconds. Each draw is one of the list, with equal probability. Names that
// are missing leave the model's durations as they are.
func (l *Latency) read(text []byte) error {
	if n := bytes.Count(text, []byte(",")); n > 5*maxDurations {
		return fmt.Errorf("%d values, must be at most %d", n+1, 5*maxDurations)
	}
	var file struct {
		Step     []float64 `json:"step"`
		Forward  []float64 `json:"forward"`
		Gradient []float64 `json:"gradient"`
		Pull     []float64 `json:"pull"`
		Push     []float64 `json:"push"`
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		return fmt.Errorf("must be an object with lists of seconds: %.200s", err.Error())
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("must be one JSON object, has more after it")
	}
	to := *l
	read := 0
	for _, list := range []struct {
		name    string
		seconds []float64
		to      *Duration
	}{{"step", file.Step, &to.Step}, {"forward", file.Forward, &to.Forward}, {"gradient", file.Gradient, &to.Gradient}, {"pull", file.Pull, &to.Pull}, {"push", file.Push, &to.Push}} {
		if list.seconds == nil {
			continue
		}
		read++
		measured, err := Measured(list.seconds)
		if err != nil {
			return fmt.Errorf("%s: %w", list.name, err)
		}
		*list.to = measured
	}
	if read == 0 {
		return errors.New("has none of step, forward, gradient, pull, push")
	}
	*l = to
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

// readFile reads a file of at most a number of bytes. A directory, a pipe or a device is an error.
func readFile(path string, most int64) ([]byte, error) {
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
