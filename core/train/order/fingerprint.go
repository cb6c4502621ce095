package order

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Fingerprint lists what the bits of a run depend on, besides the order of its events: the method,
// the settings that decide results and the environments. A record of an order begins with that of
// its run.
type Fingerprint []Field

// Field is a setting, or a property of the environments.
type Field struct{ Name, Value string }

// The bytes of a Fingerprint are the number of fields, and of each field the length of its name,
// its name, the length of its value and its value.
const (
	maxFields = 1000
	maxName   = 64
)

// append appends the bytes.
func (f Fingerprint) append(to []byte) []byte {
	to = binary.AppendUvarint(to, uint64(len(f)))
	for _, field := range f {
		for _, text := range []string{field.Name, field.Value} {
			to = append(binary.AppendUvarint(to, uint64(len(text))), text...)
		}
	}
	return to
}

// Header returns the beginning of a record: its magic, which ends with the version, and the
// fingerprint.
func (f Fingerprint) Header(magic string) []byte { return f.append([]byte(magic)) }

// CutHeader reads what Header has written, and returns the rest of the record.
func CutHeader(record []byte, magic string) (f Fingerprint, rest []byte, err error) {
	if rest, ok := bytes.CutPrefix(record, []byte(magic)); ok {
		return readFingerprint(rest)
	}
	at := strings.LastIndex(magic, " ") + 1
	line, _, whole := bytes.Cut(record[:min(len(record), len(magic)+8)], []byte("\n"))
	version, named := strings.CutPrefix(string(line), magic[:at])
	if _, err := strconv.ParseUint(version, 10, 32); named && whole && err == nil {
		return nil, nil, fmt.Errorf("version %s, must be %s; the race must be recorded again", version, strings.TrimSpace(magic[at:]))
	}
	return nil, nil, fmt.Errorf("not an order: must begin with %q", magic)
}

func readFingerprint(data []byte) (f Fingerprint, rest []byte, err error) {
	cut := errors.New("the settings are cut off")
	n, size := binary.Uvarint(data)
	if size <= 0 {
		return nil, nil, cut
	}
	if n > maxFields {
		return nil, nil, fmt.Errorf("%d settings, must be at most %d", n, maxFields)
	}
	data = data[size:]
	for range n {
		var field Field
		for _, to := range []*string{&field.Name, &field.Value} {
			n, size := binary.Uvarint(data)
			if size <= 0 || n > uint64(len(data)-size) {
				return nil, nil, cut
			}
			*to, data = string(data[size:size+int(n)]), data[size+int(n):]
		}
		if len(field.Name) > maxName || strings.Trim(field.Name, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" || field.Name == "" || f.has(field.Name) {
			return nil, nil, fmt.Errorf("%.64q, must be the name of a setting that did not come before", field.Name)
		}
		f = append(f, field)
	}
	return f, data, nil
}

func (f Fingerprint) index(name string) int {
	return slices.IndexFunc(f, func(field Field) bool { return field.Name == name })
}

func (f Fingerprint) has(name string) bool { return f.index(name) >= 0 }

// Only returns the fields with names.
func (f Fingerprint) Only(names ...string) Fingerprint {
	return slices.DeleteFunc(slices.Clone(f), func(field Field) bool { return !slices.Contains(names, field.Name) })
}

// Fits returns an error that names the first field in which a record differs from the run of f.
func (f Fingerprint) Fits(record Fingerprint) error {
	for _, own := range f {
		i := record.index(own.Name)
		if i < 0 {
			return fmt.Errorf("%s: the record has none, this run has %.100q", own.Name, own.Value)
		}
		if record[i].Value != own.Value {
			return differs(own.Name, record[i].Value, own.Value)
		}
	}
	for _, other := range record {
		if !f.has(other.Name) {
			return fmt.Errorf("%s: the record has %.100q, this run has none", other.Name, other.Value)
		}
	}
	return nil
}

func differs(name, recorded, own string) error {
	return fmt.Errorf("%s: the record has %.100q, this run has %.100q", name, recorded, own)
}

// then is between the values of a field that a race had before and after it was loaded.
const then = ", then "

// Continued returns the fingerprint of a record that a race with fingerprint f continues. Where the
// two differ it has both values, so that no run fits it.
func (f Fingerprint) Continued(record Fingerprint) Fingerprint {
	var all Fingerprint
	for _, own := range f {
		before := "none"
		if i := record.index(own.Name); i >= 0 {
			before = record[i].Value
		}
		if before != own.Value && !strings.HasSuffix(before, then+own.Value) {
			own.Value = before + then + own.Value
		} else {
			own.Value = before
		}
		all = append(all, own)
	}
	for _, other := range record {
		if !f.has(other.Name) {
			all = append(all, Field{other.Name, strings.TrimSuffix(other.Value, then+"none") + then + "none"})
		}
	}
	return all
}
