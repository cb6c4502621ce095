package atari

import (
	"bytes"
	"crypto/md5"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/atari/games"
)

// The repository must not contain cartridges, parts of cartridges, or texts of the GPL, the licence
// of other emulators. If ROM files are available, every 48 bytes in the repository are compared
// with theirs.
func TestNoROMsAndNoGPL(t *testing.T) {
	const stretch = 48
	sums := map[string]string{}
	chunks := map[[stretch]byte]string{}
	for _, g := range games.All() {
		sums[g.MD5] = g.ID
		for _, folder := range searched() {
			data, err := os.ReadFile(filepath.Join(folder, g.File))
			if err != nil {
				continue
			}
			for at := 0; at+stretch <= len(data); at += stretch {
				chunk := [stretch]byte(data[at:])
				if varied(chunk[:]) {
					chunks[chunk] = g.ID
				}
			}
			break
		}
	}
	if len(chunks) == 0 {
		t.Log("no ROM files: only the MD5s of files were compared")
	}
	forbidden := []string{"GNU GENERAL " + "PUBLIC LICENSE", "SPDX-License-Identifier: " + "GPL", "GNU General " + "Public License"}
	files := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			switch d.Name() {
			case ".git", ".venv", "build", "dist", "lib", "__pycache__", ".pytest_cache", ".mypy_cache":
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || strings.HasSuffix(path, ".so") {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		sum := md5.Sum(data)
		if id := sums[hex.EncodeToString(sum[:])]; id != "" {
			t.Errorf("%s is the cartridge of %s", path, id)
		}
		for _, text := range forbidden {
			if bytes.Contains(data, []byte(text)) {
				t.Errorf("%s holds %q", path, text)
			}
		}
		for at := 0; len(chunks) > 0 && at+stretch <= len(data); at++ {
			if id := chunks[[stretch]byte(data[at:])]; id != "" {
				t.Errorf("%s, byte %d: bytes of the cartridge of %s", path, at, id)
				break
			}
		}
		return nil
	})
	if err != nil || files < 100 {
		t.Errorf("%d files checked, %v", files, err)
	}
}

// varied reports whether b is not mere padding.
func varied(b []byte) bool {
	var seen [256]bool
	n := 0
	for _, v := range b {
		if !seen[v] {
			seen[v] = true
			n++
		}
	}
	return n > 8
}
