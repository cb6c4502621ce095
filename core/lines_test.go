package core_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"unicode/utf8"
)

// maxLines is how many lines a file may have. The two headers are manuals of their own, and the
// frozen ones are copies of earlier headers.
const maxLines = 500

// maxComment is how many characters a line of a Go comment may have, tables and listings excepted.
const maxComment = 100

var comment = regexp.MustCompile(`(?m)^\t*// .*$`)

var exempt = regexp.MustCompile(`^(include|capi/ctest/frozen)/|/testdata/`)

func TestFilesAreShort(t *testing.T) {
	out, err := exec.Command("git", "-C", "..", "ls-files", "core", "capi", "include", "python", "examples", "docs").Output()
	if err != nil {
		t.Skipf("left out: not a git checkout (%v)", err)
	}
	source := map[string]bool{".go": true, ".c": true, ".h": true, ".hpp": true, ".cpp": true, ".py": true, ".map": true,
		".sh": true, ".cu": true, ".cuh": true, ".S": true, ".s": true, ".txt": true, ".toml": true}
	seen := 0
	for name := range bytes.Lines(out) {
		path := string(bytes.TrimSpace(name))
		if !source[filepath.Ext(path)] || exempt.MatchString(path) {
			continue
		}
		text, err := os.ReadFile(filepath.Join("..", path))
		if os.IsNotExist(err) {
			continue // removed, and the removal is not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		seen++
		if n := bytes.Count(text, []byte("\n")); n > maxLines {
			t.Errorf("%s: %d lines, must be at most %d", path, n, maxLines)
		}
		if filepath.Ext(path) != ".go" {
			continue
		}
		for _, line := range comment.FindAll(text, -1) {
			if n := utf8.RuneCount(line); n > maxComment {
				t.Errorf("%s: a comment of %d characters, must be at most %d: %s", path, n, maxComment, line)
			}
		}
	}
	if seen < 200 {
		t.Errorf("%d files were read: the list does not see the project", seen)
	}
}
