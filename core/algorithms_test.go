package core_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// declared are the names of one package: "Run" and, for fields and methods, "Run.Advance". Embedded
// are the types that a type embeds, "Run" or "offpolicy.Run".
type declared struct {
	names    map[string]bool
	embedded map[string][]string
}

// declarations returns those of every package of core by the package's name, without tests.
func declarations(t *testing.T) map[string]*declared {
	t.Helper()
	all := map[string]*declared{}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "testdata") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if all[f.Name.Name] == nil {
			all[f.Name.Name] = &declared{map[string]bool{}, map[string][]string{}}
		}
		for _, d := range f.Decls {
			all[f.Name.Name].add(d)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (p *declared) add(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			name = typeName(d.Recv.List[0].Type) + "." + name
		}
		p.names[name] = true
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.ValueSpec:
				for _, name := range s.Names {
					p.names[name.Name] = true
				}
			case *ast.TypeSpec:
				p.addType(s)
			}
		}
	}
}

func (p *declared) addType(s *ast.TypeSpec) {
	p.names[s.Name.Name] = true
	var fields *ast.FieldList
	switch of := s.Type.(type) {
	case *ast.StructType:
		fields = of.Fields
	case *ast.InterfaceType:
		fields = of.Methods
	default:
		return
	}
	for _, f := range fields.List {
		for _, name := range f.Names {
			p.names[s.Name.Name+"."+name.Name] = true
		}
		if embedded := typeName(f.Type); len(f.Names) == 0 && embedded != "" {
			p.embedded[s.Name.Name] = append(p.embedded[s.Name.Name], embedded)
		}
	}
}

// typeName returns the name of a type, of which e may be a pointer or an instance; "" of others.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return typeName(e.X) + "." + e.Sel.Name
	}
	return ""
}

// exists reports whether a name is declared: package.Name, package.Type.member or Type.member.
func exists(all map[string]*declared, name string) bool {
	if pkg, rest, _ := strings.Cut(name, "."); all[pkg] != nil {
		typ, member, ok := strings.Cut(rest, ".")
		return all[pkg].names[rest] || ok && promoted(all, pkg, typ, member)
	}
	typ, member, _ := strings.Cut(name, ".")
	for pkg, p := range all {
		if p.names[name] || promoted(all, pkg, typ, member) {
			return true
		}
	}
	return false
}

// promoted reports whether a type has the member of a type that it embeds.
func promoted(all map[string]*declared, pkg, typ, member string) bool {
	for _, of := range all[pkg].embedded[typ] {
		from, embedded, ok := strings.Cut(of, ".")
		if !ok {
			from, embedded = pkg, of
		}
		if p := all[from]; p != nil && (p.names[embedded+"."+member] || promoted(all, from, embedded, member)) {
			return true
		}
	}
	return false
}

var (
	dotted = regexp.MustCompile(`[A-Za-z]\w*(\.[A-Za-z]\w*)+`)
	right  = regexp.MustCompile(`^\t.*\S {2,}(\S.*)$`) // the column beside the paper's lines
	bare   = regexp.MustCompile(`\b[A-Z][a-z]\w*`)
)

// unknownNames returns what a comment of a package in a folder names that does not exist.
func unknownNames(all map[string]*declared, folder, comment string) (unknown []string) {
	for _, name := range dotted.FindAllString(comment, -1) {
		if strings.HasSuffix(name, ".go") {
			if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
				unknown = append(unknown, name)
			}
		} else if !exists(all, name) {
			unknown = append(unknown, name)
		}
	}
	for line := range strings.Lines(comment) {
		column := right.FindStringSubmatch(strings.TrimRight(strings.TrimPrefix(line, "//"), "\n"))
		if column == nil {
			continue
		}
		for _, name := range bare.FindAllString(dotted.ReplaceAllString(column[1], ""), -1) {
			known := false
			for _, p := range all {
				for declared := range p.names {
					known = known || declared == name || strings.HasSuffix(declared, "."+name)
				}
			}
			if !known {
				unknown = append(unknown, name)
			}
		}
	}
	return unknown
}

// A reader of algorithm.go finds what its comments name.
func TestAlgorithmsNameWhatExists(t *testing.T) {
	all := declarations(t)
	files, err := filepath.Glob("agents/*/algorithm.go")
	if err != nil || len(files) < 9 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, path := range files {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range f.Comments {
			for _, comment := range group.List {
				for _, name := range unknownNames(all, filepath.Dir(path), comment.Text) {
					t.Errorf("%s: %s does not exist: %s", path, name, comment.Text)
				}
			}
		}
	}
	for comment, want := range map[string]string{
		"// async.link.Apply, DQN.updateTarget of dqn.go": "",
		"//\tReceive r_t    Run.Exploration: Flush":       "",
		"// async.Turns":                "async.Turns",
		"// learner.take":               "learner.take",
		"// nothing.go":                 "nothing.go",
		"//\tfor t = 1    ppo: Missing": "Missing",
		"//\tMissing    ppo: Round":     "",
	} {
		if got := strings.Join(unknownNames(all, "agents/dqn", comment), " "); got != want {
			t.Errorf("%s: %q, want %q", comment, got, want)
		}
	}
}
