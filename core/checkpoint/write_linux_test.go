package checkpoint

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	check(t, err)
	return info.Mode()
}

func TestFailureLeavesTheOldFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.paceline")
	save(t, path, []byte("old"))
	full := errors.New("no space left on device")
	failing := (&memory{}).part("data")
	failing.Write = func(w io.Writer) error { w.Write(make([]byte, 1e6)); return full }
	if err := Save(path, "run", content{}, []Part{failing}); !errors.Is(err, full) {
		t.Fatal(err)
	}
	if _, data, err := read(path); err != nil || string(data) != "old" {
		t.Fatalf("%q, %v", data, err)
	}
	if names := files(t, filepath.Dir(path)); len(names) != 1 {
		t.Fatalf("files after a failed Save: %v", names)
	}
}

func TestModes(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		umask     int
		old, want fs.FileMode // old 0: no file
	}{{0o077, 0, 0o600}, {0o022, 0, 0o644}, {0, 0, 0o666}, {0o022, 0o600, 0o600}, {0o022, 0o400, 0o400}, {0o077, 0o666, 0o666}} {
		path := filepath.Join(dir, "a")
		os.Remove(path)
		if c.old != 0 {
			check(t, os.WriteFile(path, nil, 0o600))
			check(t, os.Chmod(path, c.old))
		}
		before := syscall.Umask(c.umask)
		err := Save(path, "run", nil, nil)
		syscall.Umask(before)
		check(t, err)
		if got := mode(t, path); got != c.want {
			t.Errorf("umask %03o, old mode %v: %v, want %v", c.umask, c.old, got, c.want)
		}
	}
}

func TestSaveFollowsLinks(t *testing.T) {
	dir := t.TempDir()
	sub := filepath.Join(dir, "sub", "deep")
	check(t, os.MkdirAll(sub, 0o700))
	link := func(to, name string) string {
		path := filepath.Join(dir, name)
		check(t, os.Symlink(to, path))
		return path
	}
	link("sub/deep", "folder")
	for _, c := range []struct{ link, target string }{
		{link("real", "link"), "real"},                              // dangling
		{link("link", "link2"), "real"},                             // through another link, to a file
		{link(filepath.Join(dir, "abs"), "link3"), "abs"},           // absolute, dangling
		{link("folder/in", "link4"), "sub/deep/in"},                 // through a linked folder
		{link("folder/../sibling", "link5"), "sub/sibling"},         // ".." of the linked folder
		{filepath.Join(dir, "folder") + "/plain", "sub/deep/plain"}, // no link at the end
	} {
		for _, text := range []string{"one", "two"} {
			save(t, c.link, []byte(text))
			if _, data, err := read(filepath.Join(dir, c.target)); err != nil || string(data) != text {
				t.Fatalf("%s: %s has %q, %v", c.link, c.target, data, err)
			}
		}
		if info, err := os.Lstat(c.link); err != nil || c.target != "sub/deep/plain" && info.Mode()&fs.ModeSymlink == 0 {
			t.Errorf("%s was replaced", c.link)
		}
	}
	a := link("b", "a")
	link("a", "b")
	if err := Save(a, "run", nil, nil); err == nil {
		t.Error("a link to itself")
	}
	if err := Save(link("nowhere/x", "link6"), "run", nil, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a link into no folder: %v", err)
	}
}

func TestOnlyFilesAreAccepted(t *testing.T) {
	dir := t.TempDir()
	pipe, device, socket := filepath.Join(dir, "pipe"), filepath.Join(dir, "device"), filepath.Join(dir, "socket")
	check(t, unix.Mkfifo(pipe, 0o600))
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	check(t, err)
	defer unix.Close(fd)
	check(t, unix.Bind(fd, &unix.SockaddrUnix{Name: socket}))
	link := filepath.Join(dir, "link")
	check(t, os.Symlink("pipe", link))
	cases := map[string]string{pipe: "a named pipe", link: "a named pipe", socket: "a socket", dir: "a directory"}
	if err := unix.Mknod(device, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))); err == nil { // as /dev/null
		cases[device] = "a device"
	} else {
		t.Logf("no device could be made: %v", err)
	}
	for path, is := range cases {
		before := mode(t, path)
		want := map[string]string{
			"Save": "path: " + path + " is " + is + ", must be a file",
			"Open": "open " + path + ": is " + is + ", must be a file",
		}
		done := make(chan error, 2)
		go func() {
			done <- Save(path, "run", nil, nil)
			r, err := Open(path)
			if err == nil {
				r.Close()
			}
			done <- err
		}()
		for _, call := range []string{"Save", "Open"} {
			select {
			case err := <-done:
				if err == nil || err.Error() != want[call] {
					t.Errorf("%s: %v, want %q", call, err, want[call])
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("%s of %s blocks", call, path)
			}
		}
		if mode(t, path) != before {
			t.Errorf("%s was replaced", path)
		}
	}
	for path, want := range map[string]string{
		dir + "/":                 "is a directory",
		dir + "/none/":            "must name a file",
		"":                        "must name a file",
		dir + "/no/such/a":        "no such file or directory",
		dir + "/pipe/a":           "not a directory",
		dir + "/" + longName(256): "file name too long",
	} {
		if err := Save(path, "run", nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.50s: %.200v, want %q", path, err, want)
		}
	}
	if _, err := Open(dir + "/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func longName(n int) string { return strings.Repeat("n", n) }

func TestLongNames(t *testing.T) {
	dir := t.TempDir()
	for _, n := range []int{1, 250, 255} {
		save(t, filepath.Join(dir, longName(n)), []byte("data"))
		if _, data, err := read(filepath.Join(dir, longName(n))); err != nil || string(data) != "data" {
			t.Errorf("%d: %v", n, err)
		}
	}
	t.Chdir(dir) // and names without a folder
	save(t, "bare", []byte("data"))
	if names := files(t, "."); len(names) != 4 {
		t.Errorf("%.300v", names)
	}
}

// A process that is killed while it saves leaves at most a temporary file, which the next Save
// removes. Temporary files of other processes remain.
func TestKilledWhileSaving(t *testing.T) {
	if path := os.Getenv("PACELINE_TEST_KILLED"); path != "" {
		waiting := (&memory{}).part("data")
		waiting.Write = func(w io.Writer) error {
			w.Write(make([]byte, 1e6))
			os.Stdout.WriteString("writing\n")
			select {}
		}
		Save(path, "run", nil, []Part{waiting})
		return
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	save(t, path, []byte("old"))
	child := exec.Command(os.Args[0], "-test.run=^TestKilledWhileSaving$")
	child.Env = append(os.Environ(), "PACELINE_TEST_KILLED="+path)
	out, err := child.StdoutPipe()
	check(t, err)
	check(t, child.Start())
	_, err = out.Read(make([]byte, 8))
	check(t, err)
	save(t, filepath.Join(dir, "b"), []byte("while another process saves"))
	check(t, child.Process.Kill())
	child.Wait()
	if names := files(t, dir); len(names) > 3 {
		t.Errorf("files after the kill: %v", names)
	}
	// The same on a file system that needs a temporary name.
	abandoned, temp, err := openNamed(dir+"/", path, 0o600)
	check(t, err)
	locked, other, err := openNamed(dir+"/", path, 0o600)
	check(t, err)
	abandoned.Close() // releases the lock, as a kill does
	check(t, unix.Mkfifo(filepath.Join(dir, tempPrefix+"x"+tempSuffix), 0o600))
	check(t, os.Symlink("a", filepath.Join(dir, tempPrefix+"y"+tempSuffix)))
	check(t, os.WriteFile(filepath.Join(dir, "mine.tmp"), nil, 0o600))
	save(t, path, []byte("new"))
	if _, err := os.Stat(temp); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the abandoned file is still there: %v", err)
	}
	if _, err := os.Stat(other); err != nil {
		t.Errorf("the locked file: %v", err)
	}
	locked.Close()
	save(t, path, []byte("newest"))
	if names := files(t, dir); len(names) != 5 {
		t.Errorf("%v, must be a, b, mine.tmp, a pipe and a link", names)
	}
	if _, data, err := read(path); err != nil || string(data) != "newest" {
		t.Errorf("%q, %v", data, err)
	}
}

// commit and abort of a temporary file with a name.
func TestNamedTemporaryFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	for i, commit := range []bool{true, false, true} {
		file, temp, err := openNamed(dir+"/", path, 0o666)
		check(t, err)
		f := &newFile{File: file, target: path, temp: temp}
		check(t, write(f, "run", content{i}, nil))
		if commit {
			check(t, f.commit())
		} else {
			check(t, f.abort())
		}
		r, err := Open(path)
		check(t, err)
		var c content
		check(t, r.Content(&c))
		check(t, r.Close())
		if want := []int{0, 0, 2}[i]; c.Steps != want || len(files(t, dir)) != 1 {
			t.Errorf("%d: content %d, files %v", i, c.Steps, files(t, dir))
		}
	}
	if _, _, err := openNamed(filepath.Join(dir, "none")+"/", "the/path", 0o666); err == nil || err.Error() != "create the/path: no such file or directory" {
		t.Error(err)
	}
}

// If several goroutines save in one folder, each file is always complete.
func TestConcurrentSaves(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			own, shared := filepath.Join(dir, string(rune('a'+g))), filepath.Join(dir, "shared")
			for range 10 {
				data := []byte(strings.Repeat(string(rune('a'+g)), 1000))
				part := []Part{(&memory{now: data}).part("data")}
				if err := errors.Join(Save(own, "run", content{1}, part), Save(shared, "run", content{1}, part)); err != nil {
					t.Error(err)
				}
				if _, got, err := read(shared); err != nil || len(got) != 1000 || strings.Trim(string(got), string(got[:1])) != "" {
					t.Errorf("%d bytes, %v", len(got), err)
				}
				if _, got, err := read(own); err != nil || !bytes.Equal(got, data) {
					t.Errorf("%d bytes, %v", len(got), err)
				}
			}
		})
	}
	wg.Wait()
	if names := files(t, dir); len(names) != 5 {
		t.Errorf("files after the saves: %v", names)
	}
}

// A full disk is simulated by the limit on file sizes, in a process of its own.
func TestFullDisk(t *testing.T) {
	if path := os.Getenv("PACELINE_TEST_FULL"); path != "" {
		signal.Ignore(syscall.SIGXFSZ)
		check(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 20_000, Max: 20_000}))
		err := Save(path, "run", content{}, []Part{(&memory{now: make([]byte, 100_000)}).part("data")})
		var perr *os.PathError
		if !errors.As(err, &perr) || perr.Path != path || !errors.Is(err, syscall.EFBIG) {
			t.Errorf("%v, must name the file and the reason", err)
		}
		return
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	save(t, path, []byte("the old one"))
	child := exec.Command(os.Args[0], "-test.run=^TestFullDisk$")
	child.Env = append(os.Environ(), "PACELINE_TEST_FULL="+path)
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if _, data, err := read(path); err != nil || string(data) != "the old one" {
		t.Errorf("%q, %v", data, err)
	}
	if names := files(t, dir); len(names) != 1 {
		t.Errorf("files after a full disk: %v", names)
	}
}
