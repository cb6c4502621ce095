package cuda

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"slices"
)

// images returns the names of the archive's entries that a chip can run, the best first: machine
// code for the chip, then for older ones of its generation, which it runs as well, then PTX,
// which the driver compiles.
func images(have []string, major, minor int) []string {
	var names []string
	for m := minor; m >= 0; m-- {
		names = append(names, fmt.Sprintf("sm_%d%d.cubin", major, m))
	}
	for chip := 10*major + minor; chip > 0; chip-- {
		names = append(names, fmt.Sprintf("compute_%d.ptx", chip))
	}
	return slices.DeleteFunc(names, func(name string) bool { return !slices.Contains(have, name) })
}

// read returns the names of an archive's entries, and what reads one of them.
func read(archive []byte) (names []string, entry func(name string) ([]byte, error), err error) {
	files, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return nil, nil, err
	}
	for _, f := range files.File {
		names = append(names, f.Name)
	}
	return names, func(name string) ([]byte, error) {
		f, err := files.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return io.ReadAll(f)
	}, nil
}
