package checkpoint

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
)

// A disk without room, as the limit on the size of a file: in a process of its
// own, which lives under that limit.
func TestNoRoomOnTheDisk(t *testing.T) {
	if path := os.Getenv("PACELINE_TEST_FULL"); path != "" {
		signal.Ignore(syscall.SIGXFSZ)
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 20_000, Max: 20_000}); err != nil {
			t.Fatal(err)
		}
		w, err := Create(path, "dqn", content{})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Abort()
		err = w.Part("data", func(out io.Writer) error { _, err := out.Write(make([]byte, 100_000)); return err })
		if err == nil {
			err = w.Commit()
		}
		var perr *os.PathError
		if !errors.As(err, &perr) || !errors.Is(err, syscall.EFBIG) {
			t.Errorf("%v, must name the file and the reason", err)
		}
		return
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	write(t, path, []byte("the old one"))
	child := exec.Command(os.Args[0], "-test.run=^TestNoRoomOnTheDisk$")
	child.Env = append(os.Environ(), "PACELINE_TEST_FULL="+path)
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if _, data, err := read(path); err != nil || string(data) != "the old one" {
		t.Errorf("%q, %v", data, err)
	}
	if left := files(t, dir); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}
