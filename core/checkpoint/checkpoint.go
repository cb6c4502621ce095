// Package checkpoint is the file a run is kept in: a zip archive of named
// parts, so that other programs can look inside (the weights are safetensors).
//
//   - A file is either whole or not there: it is written beside its place under
//     another name, flushed to the disk and renamed. A failure (a full disk, a
//     power cut) leaves what stood there before.
//   - Every part carries a checksum, and a part is used only after its last
//     byte was read and found good.
//   - The first part, the manifest, says that the file is ours and of which
//     format. A file of a newer format is refused rather than half understood.
package checkpoint

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Format is the number of the format that this version writes, and the newest
// one it reads.
const Format = 1

const (
	manifestName = "paceline.json"
	magic        = "paceline checkpoint"
)

// Errors that callers tell apart, besides those of the file system.
var (
	ErrFormat  = errors.New("not a whole checkpoint")
	ErrVersion = errors.New("checkpoint of a newer version")
)

type manifest struct {
	What    string          `json:"what"`
	Format  int             `json:"format"`
	Kind    string          `json:"kind"`
	Content json.RawMessage `json:"content"`
}

// Writer writes one checkpoint. After an error, or before Commit, Abort leaves
// no trace of it.
type Writer struct {
	path string
	file *os.File
	zip  *zip.Writer
}

// Create begins a checkpoint of some kind ("dqn") that will stand at path. The
// content is what the manifest says, as JSON.
func Create(path, kind string, content any) (*Writer, error) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // a link goes on pointing to the file
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil, fmt.Errorf("path: %s is a directory, must be a file", path)
	}
	text, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".tmp*")
	if perr := (*os.PathError)(nil); errors.As(err, &perr) {
		return nil, &os.PathError{Op: "create", Path: path, Err: perr.Err} // in the name that was asked for
	} else if err != nil {
		return nil, err
	}
	w := &Writer{path: path, file: file, zip: zip.NewWriter(file)}
	text, err = json.MarshalIndent(manifest{What: magic, Format: Format, Kind: kind, Content: text}, "", " ")
	if err == nil {
		err = w.Part(manifestName, func(out io.Writer) error { _, err := out.Write(text); return err })
	}
	if err != nil {
		w.Abort()
		return nil, err
	}
	return w, nil
}

// Part writes one named part.
func (w *Writer) Part(name string, write func(io.Writer) error) error {
	// Uncompressed: weights do not shrink, and a replay memory of gigabytes
	// would take minutes.
	out, err := w.zip.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
	if err != nil {
		return err
	}
	return write(out)
}

// Commit puts the finished file in its place.
func (w *Writer) Commit() error {
	err := w.zip.Close()
	if err == nil {
		err = w.file.Sync()
	}
	if err == nil {
		err = w.file.Chmod(0o644)
	}
	if err = errors.Join(err, w.file.Close()); err == nil {
		err = os.Rename(w.file.Name(), w.path)
	}
	if err != nil {
		os.Remove(w.file.Name())
		return err
	}
	if dir, err := os.Open(filepath.Dir(w.path)); err == nil {
		dir.Sync() // best effort: the rename itself has succeeded
		dir.Close()
	}
	return nil
}

// Abort gives up the file being written. After Commit it does nothing.
func (w *Writer) Abort() {
	if w.file.Close() == nil {
		os.Remove(w.file.Name())
	}
}

// Reader reads one checkpoint.
type Reader struct {
	// Kind is what Create was given.
	Kind string

	path    string
	file    *zip.ReadCloser
	content json.RawMessage
}

// Open opens the checkpoint at path.
func Open(path string) (*Reader, error) {
	file, err := zip.OpenReader(path)
	if err != nil {
		var perr *os.PathError
		if errors.As(err, &perr) {
			return nil, err
		}
		return nil, fmt.Errorf("%s: %w, or cut off (%v)", path, ErrFormat, err)
	}
	r := &Reader{path: path, file: file}
	var m manifest
	var text bytes.Buffer
	err = r.Part(manifestName, func(in io.Reader) error {
		_, err := text.ReadFrom(io.LimitReader(in, 64<<20))
		return err
	})
	if err == nil {
		if jerr := json.Unmarshal(text.Bytes(), &m); jerr != nil || m.What != magic {
			err = fmt.Errorf("%s: %w of paceline", path, ErrFormat)
		} else if m.Format > Format {
			err = fmt.Errorf("%s: %w: format %d, this library reads up to %d", path, ErrVersion, m.Format, Format)
		}
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	r.Kind, r.content = m.Kind, m.Content
	return r, nil
}

// Content decodes what Create was given.
func (r *Reader) Content(to any) error {
	if err := json.Unmarshal(r.content, to); err != nil {
		return fmt.Errorf("%s: %w: its manifest cannot be read (%v)", r.path, ErrFormat, err)
	}
	return nil
}

// Has tells whether there is a part called name.
func (r *Reader) Has(name string) bool {
	for _, f := range r.file.File {
		if f.Name == name {
			return true
		}
	}
	return false
}

// Part hands a part to read, and then checks that all of it was there and
// whole: what read made of it may be used only if Part returns nil.
func (r *Reader) Part(name string, read func(io.Reader) error) error {
	in, err := r.file.Open(name)
	if err != nil {
		return fmt.Errorf("%s: %w of paceline: it has no part %s", r.path, ErrFormat, name)
	}
	defer in.Close()
	err = read(in)
	if err == nil {
		_, err = io.Copy(io.Discard, in) // the checksum is compared at the end
	}
	if err != nil {
		return fmt.Errorf("%s: %w: part %s: %w", r.path, ErrFormat, name, err)
	}
	return nil
}

// Close closes the file.
func (r *Reader) Close() error { return r.file.Close() }
