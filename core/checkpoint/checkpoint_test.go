package checkpoint

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type content struct{ Steps int }

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	w, err := Create(path, "dqn", content{42})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Part("data", func(out io.Writer) error { _, err := out.Write(data); return err }); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	w.Abort() // does nothing any more
}

func read(path string) (c content, data []byte, err error) {
	r, err := Open(path)
	if err != nil {
		return c, nil, err
	}
	defer r.Close()
	if err := r.Content(&c); err != nil {
		return c, nil, err
	}
	err = r.Part("data", func(in io.Reader) error { data, err = io.ReadAll(in); return err })
	return c, data, err
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestWriteRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.paceline")
	data := bytes.Repeat([]byte("frames"), 1000)
	write(t, path, data)
	c, got, err := read(path)
	if err != nil || c.Steps != 42 || !bytes.Equal(got, data) {
		t.Fatalf("%v, %d bytes, %v", c, len(got), err)
	}
	if names := files(t, filepath.Dir(path)); len(names) != 1 {
		t.Fatalf("left behind: %v", names)
	}
}

func TestFailureLeavesTheOldFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.paceline")
	write(t, path, []byte("old"))
	w, err := Create(path, "dqn", content{})
	if err != nil {
		t.Fatal(err)
	}
	full := errors.New("no space left on device")
	if err := w.Part("data", func(io.Writer) error { return full }); !errors.Is(err, full) {
		t.Fatal(err)
	}
	w.Abort()
	if _, data, err := read(path); err != nil || string(data) != "old" {
		t.Fatalf("%q, %v", data, err)
	}
	if names := files(t, filepath.Dir(path)); len(names) != 1 {
		t.Fatalf("left behind: %v", names)
	}
}

func TestSymbolicLinkStays(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "real"), []byte("old"))
	link := filepath.Join(dir, "link")
	if err := os.Symlink("real", link); err != nil {
		t.Skip(err)
	}
	write(t, link, []byte("new"))
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Fatal("the link was replaced")
	}
	if _, data, err := read(filepath.Join(dir, "real")); err != nil || string(data) != "new" {
		t.Fatalf("%q, %v", data, err)
	}
}

func TestEveryTruncationAndBitIsNoticed(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.paceline")
	write(t, path, []byte("some data worth keeping"))
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(dir, "bad")
	for n := range whole {
		if err := os.WriteFile(bad, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := read(bad); !errors.Is(err, ErrFormat) {
			t.Fatalf("first %d of %d bytes: %v", n, len(whole), err)
		}
	}
	for i := range whole {
		damaged := bytes.Clone(whole)
		damaged[i] ^= 0x10
		if err := os.WriteFile(bad, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		// Damage may hit a byte that means nothing (a time stamp); what is read
		// must be right all the same.
		c, data, err := read(bad)
		if err == nil && (c.Steps != 42 || string(data) != "some data worth keeping") {
			t.Fatalf("byte %d: wrong content without an error", i)
		}
	}
}

func TestForeignAndNewer(t *testing.T) {
	dir := t.TempDir()
	archive := func(name, text string) string {
		path := filepath.Join(dir, "z.zip")
		var buf bytes.Buffer
		z := zip.NewWriter(&buf)
		f, _ := z.Create(name)
		io.WriteString(f, text)
		z.Close()
		os.WriteFile(path, buf.Bytes(), 0o600)
		return path
	}
	if _, err := Open(archive("data", "x")); !errors.Is(err, ErrFormat) {
		t.Errorf("a zip of something else: %v", err)
	}
	if _, err := Open(archive(manifestName, `{"what": "other"}`)); !errors.Is(err, ErrFormat) {
		t.Errorf("a foreign manifest: %v", err)
	}
	_, err := Open(archive(manifestName, `{"what": "paceline checkpoint", "format": 99}`))
	if !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), "99") {
		t.Errorf("a newer format: %v", err)
	}
	if _, err := Open(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := Create(dir, "dqn", nil); err == nil || !strings.Contains(err.Error(), "directory") {
		t.Errorf("a directory: %v", err)
	}
	if _, err := Create(filepath.Join(dir, "no", "a"), "dqn", nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such folder: %v", err)
	}
}
