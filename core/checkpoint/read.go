package checkpoint

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
)

// Reader reads one file.
type Reader struct {
	name     string // for errors: the path
	file     io.Closer
	archive  *zip.Reader
	manifest manifest
	discards []func() // Discard of each part that was read; nil once it is adopted
}

// Open opens the file at path and checks its manifest. A directory, a pipe or a device is an error;
// Open does not wait for it.
func Open(path string) (*Reader, error) {
	noFile := func(info os.FileInfo) error {
		return &os.PathError{Op: "open", Path: path, Err: fmt.Errorf("is %s, must be a file", typeName(info))}
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, noFile(info) // opening a device can have effects
	}
	f, err := os.OpenFile(path, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = noFile(info)
	}
	var r *Reader
	if err == nil {
		r, err = open(path, f, info.Size())
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	r.file = f
	return r, nil
}

// OpenBytes opens the bytes of SaveBytes or of a file. b must not change until Close.
func OpenBytes(b []byte) (*Reader, error) { return open("bytes", bytes.NewReader(b), int64(len(b))) }

func open(name string, f io.ReaderAt, size int64) (*Reader, error) {
	r := &Reader{name: name}
	var err error
	if r.archive, err = zip.NewReader(f, size); err != nil {
		return nil, r.damaged("cut off, or not a zip archive (%v)", err)
	}
	left := uint64(size)
	for _, f := range r.archive.File {
		if f.Method != zip.Store || f.UncompressedSize64 != f.CompressedSize64 || f.UncompressedSize64 > left {
			return nil, r.damaged("entry %.100q is compressed, or larger than the file", f.Name)
		}
		left -= f.UncompressedSize64
	}
	text, err := r.manifestText()
	if err != nil {
		return nil, err
	}
	var m struct {
		What   string
		Format int
	}
	switch err := json.Unmarshal(text, &m); {
	case err != nil || m.What != magic:
		return nil, r.damaged("its %s is not the manifest of a checkpoint", manifestName)
	case m.Format == 1:
		return nil, fmt.Errorf("%s: %w", name, ErrOld)
	case m.Format > Format:
		return nil, fmt.Errorf("%s: %w: format %d, this library reads %d", name, ErrVersion, m.Format, Format)
	case m.Format != Format:
		return nil, r.damaged("format %d", m.Format)
	}
	if err := strictJSON(text, &r.manifest); err != nil {
		return nil, r.damaged("its manifest cannot be read (%v)", err)
	}
	return r, r.compare()
}

// manifestText returns the bytes of the manifest after comparing their checksum.
func (r *Reader) manifestText() ([]byte, error) {
	i := slices.IndexFunc(r.archive.File, func(f *zip.File) bool { return f.Name == manifestName })
	if i < 0 {
		return nil, r.damaged("it has no %s", manifestName)
	}
	f := r.archive.File[i]
	if f.UncompressedSize64 > maxManifest {
		return nil, r.damaged("a manifest of %d bytes, must be at most %d", f.UncompressedSize64, maxManifest)
	}
	in, err := f.Open()
	if err != nil {
		return nil, r.damaged("its manifest: %v", err)
	}
	defer in.Close()
	text, err := io.ReadAll(in)
	if err != nil {
		return nil, r.damaged("its manifest: %v", err)
	}
	return text, nil
}

// compare checks that the archive has exactly the parts of the manifest.
func (r *Reader) compare() error {
	parts, files := r.manifest.Parts, r.archive.File
	if len(files) != len(parts)+1 || files[len(parts)].Name != manifestName {
		return r.damaged("its directory does not have the %d parts that its manifest names", len(parts))
	}
	for i, p := range parts {
		switch {
		case !validName(p.Name) || p.Version < 1 || slices.ContainsFunc(parts[:i], func(e entry) bool { return e.Name == p.Name }):
			return r.damaged("part %d of its manifest is not valid", i)
		case files[i].Name != p.Name || files[i].UncompressedSize64 != uint64(p.Length):
			return r.damaged("entry %d of its directory is %.100q of %d bytes, must be %q of %d", i, files[i].Name, files[i].UncompressedSize64, p.Name, p.Length)
		}
	}
	return nil
}

func (r *Reader) damaged(format string, args ...any) error {
	return fmt.Errorf("%s: %w: %s", r.name, ErrFormat, fmt.Sprintf(format, args...))
}

// Kind returns the kind that Save was given.
func (r *Reader) Kind() string { return r.manifest.Kind }

// Has reports whether the file has a part of this name.
func (r *Reader) Has(part string) bool {
	return slices.ContainsFunc(r.manifest.Parts, func(e entry) bool { return e.Name == part })
}

// Length returns the number of bytes of a part; 0: the file has none of this name.
func (r *Reader) Length(part string) int64 {
	for _, p := range r.manifest.Parts {
		if p.Name == part {
			return p.Length
		}
	}
	return 0
}

// Content decodes the content that Save was given. It ignores fields that to does not have, so that
// a caller can first read one of them (the method's name).
func (r *Reader) Content(to any) error {
	if n := elements(r.manifest.Content); n > maxElements {
		return r.damaged("its content has %d values, must be at most %d", n, maxElements)
	}
	if err := json.Unmarshal(r.manifest.Content, to); err != nil {
		return r.damaged("its content cannot be read (%v)", err)
	}
	return nil
}

// elements returns an upper bound of the number of values in a JSON text, the number of commas and
// opening brackets. It bounds the memory of the decoded text: in a list of large structs a value of
// a few bytes becomes a large one.
func elements(text []byte) (n int) {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == '[' || c == '{'):
			n++
		}
	}
	return n
}

// Load reads parts in the given order. adopt adopts them in the same order. Load skips other parts
// of the file. After an error all parts are discarded, and nothing has changed. adopt must be
// called before Close, or not at all.
func (r *Reader) Load(parts []Part) (adopt func(), err error) {
	first := len(r.discards)
	var adopts []func()
	for i := range parts {
		p := &parts[i]
		if p.Read == nil {
			continue
		}
		adoptPart, err := r.readPart(p)
		if err != nil {
			r.discard(first)
			return nil, err
		}
		if adoptPart != nil {
			adopts = append(adopts, adoptPart)
		}
		r.discards = append(r.discards, p.Discard)
	}
	end := len(r.discards)
	return func() {
		if len(r.discards) < end { // closed
			return
		}
		clear(r.discards[first:end])
		for _, adoptPart := range adopts {
			adoptPart()
		}
	}, nil
}

func (r *Reader) readPart(p *Part) (adopt func(), err error) {
	i := slices.IndexFunc(r.manifest.Parts, func(e entry) bool { return e.Name == p.Name })
	if i < 0 {
		if !p.Optional {
			return nil, fmt.Errorf("%s: part %q is missing", r.name, p.Name)
		}
		if adopt, err = p.Read(nil, 0); err != nil {
			return nil, fmt.Errorf("%s: part %q: %w", r.name, p.Name, err)
		}
		return adopt, nil
	}
	e := r.manifest.Parts[i]
	switch {
	case e.Version > p.Version:
		return nil, fmt.Errorf("%s: %w: part %q of version %d, this library reads %d", r.name, ErrVersion, e.Name, e.Version, p.Version)
	case e.Version < p.Version:
		return nil, fmt.Errorf("%s: part %q: version %d, must be %d", r.name, e.Name, e.Version, p.Version)
	}
	in, err := r.archive.File[i].OpenRaw()
	if err != nil {
		return nil, r.damaged("part %q: %v", e.Name, err)
	}
	sum := crc32.New(castagnoli)
	limited := &io.LimitedReader{R: in, N: e.Length}
	all := io.TeeReader(limited, sum)
	adopt, readErr := p.Read(all, e.Length)
	unread := limited.N
	// Read the whole part: an error of Read counts only if the checksum is correct.
	_, err = io.Copy(io.Discard, all)
	switch {
	case err != nil: // of the file system
		err = fmt.Errorf("%s: part %q: %w", r.name, e.Name, err)
	case limited.N > 0 || sum.Sum32() != e.CRC32C:
		err = r.damaged("part %q does not have its checksum", e.Name)
	case readErr != nil:
		return nil, fmt.Errorf("%s: part %q: %w", r.name, e.Name, readErr)
	case unread > 0:
		err = r.damaged("part %q has %d bytes after its end", e.Name, unread)
	}
	if err != nil {
		if readErr == nil && p.Discard != nil {
			p.Discard()
		}
		return nil, err
	}
	return adopt, nil
}

// discard discards the parts from index first on.
func (r *Reader) discard(first int) {
	for i := len(r.discards) - 1; i >= first; i-- {
		if d := r.discards[i]; d != nil {
			d()
		}
	}
	r.discards = r.discards[:first]
}

// Close discards the parts that were read and not adopted, and closes the file.
func (r *Reader) Close() error {
	r.discard(0)
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

// JSON returns a part with a JSON value of type T of at most maxBytes bytes. The part has version 1
// and is not optional; the caller may change both. save returns the value to write. load checks a
// value and returns adopt, as Part.Read does; its errors become ErrFormat. The text must be equal
// to the text that T is written as, so that no field is missing or given twice. A field that older
// files do not have must be omitempty.
func JSON[T any](name string, maxBytes int64, save func() (T, error), load func(T) (adopt func(), err error)) Part {
	return Part{Name: name, Version: 1,
		Write: func(w io.Writer) error {
			v, err := save()
			if err != nil {
				return err
			}
			return json.NewEncoder(w).Encode(v)
		},
		Read: func(r io.Reader, n int64) (func(), error) {
			var v T
			var text bytes.Buffer
			if err := ReadJSON(io.TeeReader(r, &text), n, maxBytes, &v); err != nil {
				return nil, fmt.Errorf("%w: %v", ErrFormat, err)
			}
			if again, err := json.Marshal(v); err != nil || !bytes.Equal(again, bytes.TrimSpace(text.Bytes())) {
				return nil, fmt.Errorf("%w: a field is missing or given twice", ErrFormat)
			}
			adopt, err := load(v)
			if err != nil {
				return nil, fmt.Errorf("%w: %v", ErrFormat, err)
			}
			return adopt, nil
		},
	}
}

// ReadJSON decodes a part of n bytes that is one JSON value. n above maxBytes and fields that to
// does not have are errors.
func ReadJSON(r io.Reader, n, maxBytes int64, to any) error {
	if n > maxBytes {
		return fmt.Errorf("%d bytes, must be at most %d", n, maxBytes)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return err
	}
	return strictJSON(text, to)
}

func strictJSON(text []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("more than one JSON value")
	}
	return nil
}
