//go:build !linux

package checkpoint

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
)

const nonblock = 0

// openNew opens a new file in dir ("" or with a slash at its end) for writing. temp is its path.
// The temporary file of a killed process remains.
func openNew(dir, path string, perm fs.FileMode) (f *os.File, temp string, err error) {
	temp = fmt.Sprintf("%s.paceline-%016x.tmp", dir, rand.Uint64())
	f, err = os.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, perm)
	if perr, ok := err.(*os.PathError); ok {
		err = &os.PathError{Op: "create", Path: path, Err: perr.Err}
	}
	return f, temp, err
}

func linkTemp(f *os.File, _ string) (string, error) { return f.Name(), nil } // openNew gives a name

func removeAbandoned(string) {}
