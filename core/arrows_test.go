package core_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/paceline-rl/paceline"

// layers lists the folders with Go packages, from the top down. A package belongs
// to the longest folder that it lies in; * stands for any one name. It may import
// what stands further down, and packages of its own folder. A new package gets a
// place here, the highest that those who import it allow.
var layers = []string{
	"examples/*",
	"capi",
	"core/bench",
	"core/agents/*",
	"core/train",
	"core/actor",
	"core/policy",
	"core/replay",
	"core/rollout",
	"core/experience",
	"core/nn",
	"core/cuda",
	"core/kernel",
	"core/settings",
	// Environments, and what everything may use.
	"core/vec core/env/builtin",
	"core/env/classic core/env/pixel core/atari",
	"core/env",
	"core/threads core/checkpoint core/limits",
	"core/cpu core/rng core/nearest",
	"core/fault",
	"include",
}

// rules forbid arrows that the order of the layers allows.
var rules = []struct {
	says   string
	broken func(a arrow) bool
}{
	{"core imports nothing outside core", func(a arrow) bool {
		return in(a.from, "core") && !in(a.to, "core")
	}},
	{"what is for tests is imported by tests only", func(a arrow) bool {
		return tests(a.to) && !tests(a.from)
	}},
	{"a method knows environments by their interface only", func(a arrow) bool {
		return in(a.from, "core/agents") && (in(a.to, "core/env/builtin") || in(a.to, "core/atari"))
	}},
	{"capi alone imports the benchmarks", func(a arrow) bool {
		return in(a.to, "core/bench") && !in(a.from, "core/bench") && a.from != "capi"
	}},
	{"capi trains with core/train only", func(a arrow) bool {
		return in(a.from, "capi") && slices.ContainsFunc(trainsWith, func(folder string) bool { return in(a.to, folder) })
	}},
	{"capi knows no method by name: capi/libpaceline imports them, and they register themselves", func(a arrow) bool {
		return a.from == "capi" && in(a.to, "core/agents")
	}},
}

// trainsWith are what core/train is made of, and a host has no business with.
var trainsWith = []string{"core/actor", "core/replay", "core/rollout", "core/experience", "core/nn"}

// An arrow is an import by a file that is no test, whatever its build constraints.
type arrow struct {
	from, to string // paths in the module
	file     string
}

func (a arrow) String() string { return a.from + " -> " + a.to }

// tests reports whether a package is there for tests.
func tests(pkg string) bool { return in(pkg, "core/train/traintest") || in(pkg, "core/env/envtest") }

// in reports whether a package is the folder's, or lies below it.
func in(pkg, folder string) bool { return pkg == folder || strings.HasPrefix(pkg, folder+"/") }

// place returns the number of a package's layer and the folder that it belongs to.
func place(pkg string) (layer int, folder string, err error) {
	elements, longest := strings.Split(pkg, "/"), 0
	for i, row := range layers {
		for pattern := range strings.FieldsSeq(row) {
			n := strings.Count(pattern, "/") + 1
			if n > len(elements) || n <= longest {
				continue
			}
			if head := strings.Join(elements[:n], "/"); matches(pattern, head) {
				layer, folder, longest = i, head, n
			}
		}
	}
	if longest == 0 {
		return 0, "", errors.New(pkg + ": in no layer, must be in the list of core/arrows_test.go")
	}
	return layer, folder, nil
}

func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// check returns what is wrong with an arrow, or "".
func check(a arrow) string {
	from, fromFolder, err := place(a.from)
	if err != nil {
		return err.Error()
	}
	to, toFolder, err := place(a.to)
	if err != nil {
		return err.Error()
	}
	for _, rule := range rules {
		if rule.broken(a) {
			return fmt.Sprintf("%s (%s): %s", a, a.file, rule.says)
		}
	}
	if to < from || to == from && fromFolder != toFolder {
		return fmt.Sprintf("%s (%s): imports must point down the list of layers", a, a.file)
	}
	return ""
}

// arrows reads the imports of all packages of the module that have more than tests.
func arrows(t *testing.T) (all []arrow, packages []string) {
	t.Helper()
	list := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,CgoFiles,IgnoredGoFiles", "./...")
	list.Dir = ".."
	list.Env = append(os.Environ(), "CGO_ENABLED=1") // or capi would not be listed
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath, Dir                   string
			GoFiles, CgoFiles, IgnoredGoFiles []string
		}
		if err := d.Decode(&p); err == io.EOF {
			return all, packages
		} else if err != nil {
			t.Fatal(err)
		}
		from := strings.TrimPrefix(p.ImportPath, module+"/")
		files := slices.DeleteFunc(slices.Concat(p.GoFiles, p.CgoFiles, p.IgnoredGoFiles), func(name string) bool {
			return strings.HasSuffix(name, "_test.go")
		})
		if len(files) > 0 {
			packages = append(packages, from)
		}
		for _, name := range files {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, spec := range f.Imports {
				imported, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					t.Fatal(err)
				}
				if to, ok := strings.CutPrefix(imported, module+"/"); ok {
					all = append(all, arrow{from, to, name})
				}
			}
		}
	}
}

// TestArrows keeps imports pointing one way. Tests may import more.
func TestArrows(t *testing.T) {
	all, packages := arrows(t)
	if len(packages) < 10 || len(all) < 10 {
		t.Fatalf("%d packages, %d imports: go list does not see the module", len(packages), len(all))
	}
	for _, pkg := range packages {
		if _, _, err := place(pkg); err != nil {
			t.Error(err)
		}
	}
	for _, a := range all {
		if says := check(a); says != "" {
			t.Error(says)
		}
	}
}

// TestCheck shows that arrows which must not be are found.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		from, to string
		says     string // "": allowed
	}{
		{"core/train", "core/nn", ""},
		{"core/nn", "core/train", "point down"},
		{"core/nn/gorgonia", "core/nn", ""},
		{"core/nn", "core/nn/gorgonia", ""},
		{"core/env/builtin", "core/atari/games", ""},
		{"core/atari/games", "core/env", ""},
		{"core/atari", "core/env/builtin", "point down"},
		{"core/threads", "core/env", "point down"},
		{"core/vec", "core/env/builtin", "point down"},
		{"core/agents/a2c", "core/agents/dqn", "point down"},
		{"core/agents/dqn/window", "core/agents/dqn", ""},
		{"core/agents/dqn", "core/train", ""},
		{"core/train", "core/agents/dqn", "point down"},
		{"core/agents/a2c", "core/atari/games", "interface"},
		{"core/agents/a2c", "core/env/builtin", "interface"},
		{"core/agents/a2c", "core/env", ""},
		{"core/agents/a2c", "core/train/onpolicy", ""},
		{"core/agents/a2c", "core/train/traintest", "tests only"},
		{"capi", "core/train/traintest/reinforce", "tests only"},
		{"core/env/builtin", "core/env/envtest", "tests only"},
		{"core/train/traintest/reinforce", "core/train/onpolicy", ""},
		{"capi", "core/bench", ""},
		{"core/bench", "core/agents/dqn", ""},
		{"core/bench/pong", "core/bench", ""},
		{"examples/go", "core/bench", "benchmarks"},
		{"core/fault", "capi", "outside"},
		{"core/fault", "include", "outside"},
		{"capi", "include", ""},
		{"capi", "core/agents/a2c", "by name"},
		{"capi/libpaceline", "core/agents/a2c", ""},
		{"capi", "core/nn", "core/train only"},
		{"capi", "core/actor", "core/train only"},
		{"capi/libpaceline", "core/replay", "core/train only"},
		{"capi", "core/rollout", "core/train only"},
		{"capi", "core/experience", "core/train only"},
		{"capi", "core/policy", ""},
		{"capi", "core/train", ""},
		{"core/novel", "core/fault", "core/novel: in no layer"},
		{"core/train", "core/novel", "core/novel: in no layer"},
		{"core/agents", "core/fault", "core/agents: in no layer"},
	} {
		says := check(arrow{c.from, c.to, "x.go"})
		if (says == "") != (c.says == "") || !strings.Contains(says, c.says) {
			t.Errorf("%s -> %s: %q, must contain %q", c.from, c.to, says, c.says)
		}
	}
}
