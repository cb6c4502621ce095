package core_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Two tables of the documentation name tests: the embedding hazards and the promises of
// reproducibility. Every test that they name exists.
func TestNamedTestsExist(t *testing.T) {
	read := func(path ...string) string {
		text, err := os.ReadFile(filepath.Join(append([]string{".."}, path...)...))
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	runs, deep := read("capi", "ctest", "run.sh"), read("capi", "ctest", "deep.sh")
	exists := func(id string) bool {
		if name, ok := strings.CutPrefix(id, "ctest/"); ok { // an attempt, or a program, also of a loop
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
	for page, least := range map[string]int{"embedding-hazards.md": 38, "reproducibility.md": 11} {
		rows := 0
		for line := range strings.Lines(read("docs", "pages", "guides", page)) {
			cells := strings.Split(line, "|")
			if len(cells) != 4 || strings.HasPrefix(cells[2], " ---") || cells[2] == " tests " {
				continue
			}
			ids := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[2], -1)
			if !strings.HasPrefix(cells[2], " `") && !strings.HasPrefix(cells[2], " none: ") {
				continue // a row of another table
			}
			rows++
			for _, id := range ids {
				if !exists(id[1]) {
					t.Errorf("%s: %q: test %s does not exist", page, cells[1], id[1])
				}
			}
		}
		if rows < least {
			t.Errorf("%s: %d rows with tests, must be at least %d", page, rows, least)
		}
	}
}
