package checkpoint

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Save writes a file of the given kind ("run", "policy") at path: content as JSON, and the parts in
// their order. It follows a symbolic link, also to a file that does not exist yet. It replaces an
// existing file and keeps its mode. Anything else at path (a directory, a pipe, a device) is an
// error. The mode of a new file is 0o666 less the umask. After an error path is unchanged.
func Save(path, kind string, content any, parts []Part) error {
	return replace(path, func(w io.Writer) error { return write(w, kind, content, parts) })
}

// WriteFile writes a file of another format at path, as Save does.
func WriteFile(path string, data []byte) error {
	return replace(path, func(w io.Writer) error { _, err := w.Write(data); return err })
}

func replace(path string, write func(io.Writer) error) error {
	f, err := create(path)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		return errors.Join(err, f.abort())
	}
	return f.commit()
}

// SaveBytes is Save into memory.
func SaveBytes(kind string, content any, parts []Part) ([]byte, error) {
	var b bytes.Buffer
	err := write(&b, kind, content, parts)
	return b.Bytes(), err
}

func write(w io.Writer, kind string, content any, parts []Part) error {
	m := manifest{What: magic, Format: Format, Kind: kind, Parts: partList{}}
	var err error
	if m.Content, err = json.Marshal(content); err != nil {
		return err
	}
	archive := zip.NewWriter(w)
	for _, p := range parts {
		switch {
		case !validName(p.Name) || p.Version < 1:
			return fmt.Errorf("part %q, version %d: must have a name of a-z 0-9 . _ - and a version of at least 1", p.Name, p.Version)
		case p.Write == nil && !p.Optional:
			return fmt.Errorf("part %q: has no Write and is not optional", p.Name)
		case p.Write == nil:
			continue
		case slices.ContainsFunc(m.Parts, func(e entry) bool { return e.Name == p.Name }):
			return fmt.Errorf("part %q: given twice", p.Name)
		}
		// No compression: weights do not shrink, and compressing a replay memory of gigabytes would
		// take minutes.
		out, err := archive.CreateHeader(&zip.FileHeader{Name: p.Name, Method: zip.Store})
		if err != nil {
			return err
		}
		sum := &checksumWriter{w: out}
		if err := p.Write(sum); err != nil {
			return err
		}
		m.Parts = append(m.Parts, entry{p.Name, p.Version, sum.n, sum.crc})
	}
	text, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return err
	}
	if len(text) > maxManifest || len(m.Parts) > maxParts {
		return fmt.Errorf("manifest: %d bytes and %d parts, must be at most %d and %d", len(text), len(m.Parts), maxManifest, maxParts)
	}
	out, err := archive.CreateHeader(&zip.FileHeader{Name: manifestName, Method: zip.Store})
	if err == nil {
		_, err = out.Write(text)
	}
	if err != nil {
		return err
	}
	return archive.Close()
}

// checksumWriter counts the bytes that it writes to w and computes their CRC-32C.
type checksumWriter struct {
	w   io.Writer
	n   int64
	crc uint32
}

func (s *checksumWriter) Write(b []byte) (int, error) {
	n, err := s.w.Write(b)
	s.n += int64(n)
	s.crc = crc32.Update(s.crc, castagnoli, b[:n])
	return n, err
}

// newFile is a temporary file that commit renames to target. Its Name, which the file system's
// errors have, is the path that Save was given.
type newFile struct {
	*os.File
	target string
	mode   fs.FileMode // of the old file
	old    bool        // target is an existing file
	temp   string      // path of the temporary file; "": it has no name yet
}

// create opens a new file for path.
func create(path string) (*newFile, error) {
	target, old, err := resolve(path)
	if err != nil {
		return nil, err
	}
	f := &newFile{target: target}
	perm := fs.FileMode(0o666) // the kernel applies the umask
	if old != nil {
		f.old, f.mode = true, old.Mode().Perm()
		perm = f.mode
	}
	dir, _ := filepath.Split(target)
	removeAbandoned(dir)
	if f.File, f.temp, err = openNew(dir, path, perm); err != nil {
		return nil, err
	}
	return f, nil
}

// commit flushes the file to the disk and renames it to its target.
func (f *newFile) commit() error {
	var err error
	if f.old {
		err = f.Chmod(f.mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil && f.temp == "" {
		f.temp, err = linkTemp(f.File, f.target)
	}
	if err == nil {
		err = os.Rename(f.temp, f.target)
	}
	if err != nil {
		return errors.Join(err, f.abort())
	}
	err = f.Close()
	dir, _ := filepath.Split(f.target)
	if d, err := os.Open(dir + "."); err == nil {
		d.Sync() // best effort: the rename has succeeded
		d.Close()
	}
	return err
}

// abort closes and removes the file.
func (f *newFile) abort() error {
	f.Close() // an error does not matter: the file is removed
	if f.temp == "" {
		return nil
	}
	return os.Remove(f.temp)
}

// resolve follows the links from path to the file to be written. old is the existing file, or nil.
func resolve(path string) (target string, old fs.FileInfo, err error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return "", nil, notAFile(path, info)
	}
	target = path
	for range 40 { // as many links as the kernel follows
		if _, base := filepath.Split(target); base == "" {
			return "", nil, fmt.Errorf("path: %q, must name a file", path)
		}
		info, err := os.Lstat(target)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return target, nil, nil
		case err != nil:
			return "", nil, err
		case info.Mode().IsRegular():
			return target, info, nil
		case info.Mode()&fs.ModeSymlink == 0:
			return "", nil, notAFile(path, info)
		}
		to, err := os.Readlink(target)
		if err != nil {
			return "", nil, err
		}
		if !filepath.IsAbs(to) {
			// Join would remove "link/..", which is not the folder of link if link is a symbolic
			// link.
			dir, _ := filepath.Split(target)
			to = dir + to
		}
		target = to
	}
	return "", nil, fmt.Errorf("path: %s follows too many symbolic links", path)
}

func notAFile(path string, info fs.FileInfo) error {
	return fmt.Errorf("path: %s is %s, must be a file", path, typeName(info))
}

// typeName returns the type of a file that is not a regular file, for errors.
func typeName(info fs.FileInfo) string {
	switch info.Mode().Type() {
	case fs.ModeDir:
		return "a directory"
	case fs.ModeNamedPipe:
		return "a named pipe"
	case fs.ModeSocket:
		return "a socket"
	}
	return "a device"
}
