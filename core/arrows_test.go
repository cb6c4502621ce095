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

// layers lists the folders of Go packages, from the top layer down. A package belongs to the
// longest folder that contains it; * stands for any one name. A package may import packages of
// lower layers and of its own folder. A new package gets a place in this list: the highest that its
// importers allow.
var layers = []string{
	"examples/*",
	"capi",
	"core/bench",
	"core/agents/*",
	"core/train/async core/train/onpolicy core/train/offpolicy core/train/traintest",
	"core/train",
	"core/train/order",
	"core/actor",
	"core/param",
	"core/policy",
	"core/normalize",
	"core/replay",
	"core/queue",
	"core/rollout",
	"core/nn/devices",
	"core/nn/cpu core/nn/gpu",
	"core/nn/graph",
	"core/nn",
	"core/experience",
	"core/cuda",
	"core/kernel",
	"core/settings",
	// Environments; below them, packages that all others may import.
	"core/vec core/env/builtin",
	"core/env/classic core/env/mini core/env/pixel core/atari",
	"core/env",
	"core/threads core/checkpoint core/limits",
	"core/cpu core/rng core/nearest",
	"core/fault core/portable",
	"include",
	"gorgonia.org/*",
}

// rules forbid imports that the order of the layers allows.
var rules = []struct {
	text   string
	broken func(a arrow) bool
}{
	{"core imports nothing outside core", func(a arrow) bool {
		return in(a.from, "core") && !in(a.to, "core") && !in(a.to, "gorgonia.org")
	}},
	{"packages for tests are imported by tests only", func(a arrow) bool {
		return isForTests(a.to) && !isForTests(a.from)
	}},
	{"a method knows environments by their interface only", func(a arrow) bool {
		return in(a.from, "core/agents") && (in(a.to, "core/env/builtin") || in(a.to, "core/atari"))
	}},
	{"networks are values: only the devices import Gorgonia, the kernels and CUDA", func(a arrow) bool {
		return in(a.from, "core/nn") && !in(a.from, "core/nn/cpu") && !in(a.from, "core/nn/gpu") && !isForTests(a.from) &&
			(in(a.to, "core/kernel") || in(a.to, "core/cuda") || in(a.to, "gorgonia.org") && a.from != "core/nn/graph")
	}},
	{"CUDA belongs to core/nn/gpu", func(a arrow) bool {
		return in(a.to, "core/cuda") && !in(a.from, "core/cuda") && a.from != "core/nn/gpu" && !isForTests(a.from)
	}},
	{"the replay memory does not know networks", func(a arrow) bool {
		return in(a.from, "core/replay") && in(a.to, "core/nn")
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

// trainsWith are the packages that core/train uses and the C interface must not.
var trainsWith = []string{"core/actor", "core/replay", "core/rollout", "core/experience", "core/nn"}

// An arrow is an import by a file that is not a test, with any build constraints.
type arrow struct {
	from, to string // paths in the module
	file     string
}

func (a arrow) String() string { return a.from + " -> " + a.to }

// isForTests reports whether a package is for tests only.
func isForTests(pkg string) bool {
	return in(pkg, "core/train/traintest") || in(pkg, "core/env/envtest") || in(pkg, "core/nn/nntest")
}

// in reports whether a package lies in the folder or below it.
func in(pkg, folder string) bool { return pkg == folder || strings.HasPrefix(pkg, folder+"/") }

// place returns the layer of a package, as an index of layers, and the package's folder.
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

// check returns the rule that an import breaks, or "".
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
			return fmt.Sprintf("%s (%s): %s", a, a.file, rule.text)
		}
	}
	if to < from || to == from && fromFolder != toFolder {
		return fmt.Sprintf("%s (%s): imports must point down the list of layers", a, a.file)
	}
	return ""
}

// arrows returns the imports of all packages of the module, and the packages that have files other
// than tests.
func arrows(t *testing.T) (all []arrow, packages []string) {
	t.Helper()
	list := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,CgoFiles,IgnoredGoFiles", "./...")
	list.Dir = ".."
	list.Env = append(os.Environ(), "CGO_ENABLED=1") // go list omits capi without cgo
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
				if to, ok := strings.CutPrefix(imported, module+"/"); ok || in(imported, "gorgonia.org") {
					all = append(all, arrow{from, to, name})
				}
			}
		}
	}
}

// Imports point down the list of layers and break no rule. Imports of tests are free.
func TestImportsPointDown(t *testing.T) {
	all, packages := arrows(t)
	if len(packages) < 10 || len(all) < 10 {
		t.Fatalf("%d packages, %d imports: go list did not read the module", len(packages), len(all))
	}
	for _, pkg := range packages {
		if _, _, err := place(pkg); err != nil {
			t.Error(err)
		}
	}
	for _, a := range all {
		if broken := check(a); broken != "" {
			t.Error(broken)
		}
	}
}

func TestForbiddenImportsAreFound(t *testing.T) {
	for _, c := range []struct {
		from, to string
		broken   string // part of the broken rule; "": allowed
	}{
		{"core/train", "core/nn", ""},
		{"core/nn", "core/train", "point down"},
		{"core/nn/cpu", "core/nn", ""},
		{"core/nn", "core/nn/cpu", "point down"},
		{"core/nn/gpu", "core/nn/cpu", "point down"},
		{"core/nn/cpu", "core/kernel", ""},
		{"core/nn", "core/kernel", "are values"},
		{"core/nn/graph", "gorgonia.org/gorgonia", ""},
		{"core/nn", "gorgonia.org/gorgonia", "are values"},
		{"core/nn/gpu", "core/cuda", ""},
		{"core/nn/devices", "core/cuda", "are values"},
		{"core/train", "core/cuda", "belongs"},
		{"core/nn", "core/experience", ""},
		{"core/replay", "core/nn", "networks"},
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
		{"core/agents/dqn", "core/train/offpolicy", ""},
		{"core/train/onpolicy", "core/train", ""},
		{"core/train/async", "core/param", ""},
		{"core/train/async", "core/train/order", ""},
		{"core/param", "core/nn", ""},
		{"core/param", "core/train", "point down"},
		{"core/train", "core/train/onpolicy", "point down"},
		{"core/train/onpolicy", "core/train/offpolicy", "point down"},
		{"core/agents/a2c", "core/train/traintest", "tests only"},
		{"capi", "core/train/traintest", "tests only"},
		{"core/env/builtin", "core/env/envtest", "tests only"},
		{"core/train/traintest", "core/train/onpolicy", "point down"},
		{"examples/go", "core/agents/reinforce", ""},
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
		broken := check(arrow{c.from, c.to, "x.go"})
		if (broken == "") != (c.broken == "") || !strings.Contains(broken, c.broken) {
			t.Errorf("%s -> %s: %q, must contain %q", c.from, c.to, broken, c.broken)
		}
	}
}
