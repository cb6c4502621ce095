package core_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The table of embedding hazards names a test for whatever a library can spoil in a host's
// process, and each of these tests exists.
func TestHazards(t *testing.T) {
	read := func(path ...string) string {
		text, err := os.ReadFile(filepath.Join(append([]string{".."}, path...)...))
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	table := read("docs", "pages", "guides", "embedding-hazards.md")
	runs, deep := read("capi", "ctest", "run.sh"), read("capi", "ctest", "deep.sh")
	exists := func(id string) bool {
		if name, ok := strings.CutPrefix(id, "ctest/"); ok { // an attempt, a program of its own, or one of a loop
			called := regexp.MustCompile(`(?m)(^ *|then |slow )attempt ` + name + ` |^ *(slow )?program ` + name + ` |^ *for test in .*\b` + name + `\b`)
			return called.MatchString(runs)
		}
		if name, ok := strings.CutPrefix(id, "deep/"); ok {
			return strings.Contains(deep, "\nattempt "+name+" ")
		}
		if file, name, ok := strings.Cut(id, "::"); ok {
			return strings.Contains(read("python", "tests", file), "\ndef "+name+"(")
		}
		folder, name, _ := strings.Cut(id, ".")
		files, _ := filepath.Glob(filepath.Join("..", folder, "*_test.go"))
		for _, file := range files {
			if strings.Contains(read(strings.TrimPrefix(file, "../")), "\nfunc "+name+"(") {
				return true
			}
		}
		return false
	}
	rows := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 || strings.HasPrefix(cells[2], " ---") || cells[2] == " tests " {
			continue
		}
		rows++
		ids := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[2], -1)
		if len(ids) == 0 && !strings.HasPrefix(cells[2], " none: ") {
			t.Errorf("%q names no test", cells[1])
		}
		for _, id := range ids {
			if !exists(id[1]) {
				t.Errorf("%q: there is no test %s", cells[1], id[1])
			}
		}
	}
	if rows < 29 {
		t.Errorf("the table has %d rows, must keep its 29", rows)
	}
}
