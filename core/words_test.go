package core_test

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// oldWords are what the code once called things that every engineer of the field
// knows by another word, and that word.
var oldWords = []struct {
	old  *regexp.Regexp
	word string
}{
	{regexp.MustCompile(`(?i)\bcourses?\b`), "run"},
	{regexp.MustCompile(`(?i)\bpictures?\b`), "image or frame"},
	{regexp.MustCompile(`(?i)\bcoins?\b`), "exploration RNG"},
	{regexp.MustCompile(`(?i)\bapart from one another\b`), "asynchronous"},
	{regexp.MustCompile(`(?i)\bpointer's clothing\b`), "an opaque 64-bit id, typed as a pointer"},
	{regexp.MustCompile(`(?i)\bmade up for\b`), "run later"},
	{regexp.MustCompile(`(?i)\b(tells?|telling|told)\b`), "notify, report"},
	{regexp.MustCompile(`(?i)\brooms?\b`), "free, capacity"},
	{regexp.MustCompile(`(?i)\b(give|gives|gave|take|takes|took) (up |back )?(a |the |its |their )?cores?\b`), "acquire, release cores"},
	{regexp.MustCompile(`(?i)\b(given|taken) back\b`), "released, acquired"},
	{regexp.MustCompile(`(?i)\b(all|actors|environments|everybody) in step\b`), "in lockstep"},
	{regexp.MustCompile(`(?i)\blooks? (again|for news)\b|\bwhoever looks\b`), "spin; what reads"},
}

// longest is how many lines a file may have; the two headers are each a manual, and older copies of them are frozen.
const longest = 500

var longer = regexp.MustCompile(`^(include|capi/ctest/frozen)/|/testdata/`)

// TestWords keeps the old words out of what people read: code, comments, messages
// and documents; and files short enough to be read at once.
func TestWords(t *testing.T) {
	out, err := exec.Command("git", "-C", "..", "ls-files", "core", "capi", "include", "python", "README.md", "pyproject.toml").Output()
	if err != nil {
		t.Skipf("left out: not a git checkout (%v)", err)
	}
	text := map[string]bool{".go": true, ".c": true, ".h": true, ".hpp": true, ".cpp": true, ".py": true, ".md": true, ".map": true,
		".sh": true, ".cu": true, ".cuh": true, ".S": true, ".s": true, ".txt": true, ".toml": true}
	seen := 0
	for name := range bytes.Lines(out) {
		path := string(bytes.TrimSpace(name))
		if !text[filepath.Ext(path)] || path == "core/words_test.go" {
			continue
		}
		file, err := os.ReadFile(filepath.Join("..", path))
		if err != nil {
			t.Fatal(err)
		}
		seen++
		lines := bufio.NewScanner(bytes.NewReader(file))
		lines.Buffer(nil, len(file)+1)
		n := 1
		for ; lines.Scan(); n++ {
			for _, w := range oldWords {
				if found := w.old.Find(lines.Bytes()); found != nil {
					t.Errorf("%s:%d: %q, must be said with: %s", path, n, found, w.word)
				}
			}
		}
		if err := lines.Err(); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if n > longest+1 && filepath.Ext(path) != ".md" && !longer.MatchString(path) {
			t.Errorf("%s: %d lines, must be at most %d", path, n-1, longest)
		}
	}
	if seen < 200 {
		t.Errorf("%d files were read: the list does not see the project", seen)
	}
}
