package cuda

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"slices"
)

// imagesFor returns the archive's entries that a chip can run, the best first: machine code for the
// chip, then for older chips of its generation, then PTX, which the driver compiles.
func imagesFor(have []string, major, minor int) []string {
	var names []string
	for m := minor; m >= 0; m-- {
		names = append(names, fmt.Sprintf("sm_%d%d.cubin", major, m))
	}
	for chip := 10*major + minor; chip > 0; chip-- {
		names = append(names, fmt.Sprintf("compute_%d.ptx", chip))
	}
	return slices.DeleteFunc(names, func(name string) bool { return !slices.Contains(have, name) })
}

// readArchive returns the names of the archive's entries, and a function that reads an entry.
func readArchive(archive []byte) (names []string, entry func(name string) ([]byte, error), err error) {
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
