package cuda

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// A program that compiles with the tag gpu also compiles without it.
func TestBothBuildsHaveTheSameAPI(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	on, off := map[string]string{}, map[string]string{}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		text, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case bytes.Contains(text, []byte("//go:build gpu")):
			exported(t, f.Name(), on)
		case bytes.Contains(text, []byte("//go:build !gpu")):
			exported(t, f.Name(), off)
		}
	}
	if len(on) < 30 {
		t.Errorf("only %d functions and fields were found", len(on))
	}
	for _, name := range slices.Sorted(maps.Keys(on)) {
		if on[name] != off[name] {
			t.Errorf("%s: %q with the tag, %q without", name, on[name], off[name])
		}
	}
	for name := range off {
		if on[name] == "" {
			t.Errorf("%s: only without the tag", name)
		}
	}
}

// exported adds a file's exported functions and fields, with their types. String is left out: fmt
// finds it at run time.
func exported(t *testing.T, file string, into map[string]string) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	typed := func(node any) string {
		var b bytes.Buffer
		if err := printer.Fprint(&b, files, node); err != nil {
			t.Fatal(err)
		}
		return strings.Join(strings.Fields(b.String()), " ")
	}
	for _, d := range parsed.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if !d.Name.IsExported() || name == "String" {
				continue
			}
			if d.Recv != nil {
				receiver := typed(d.Recv.List[0].Type)
				if !ast.IsExported(strings.TrimPrefix(receiver, "*")) {
					continue
				}
				name = receiver + "." + name
			}
			into[name] = typed(d.Type)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				named, ok := spec.(*ast.TypeSpec)
				if !ok || !named.Name.IsExported() {
					continue
				}
				into[named.Name.Name] = "type"
				for _, field := range named.Type.(*ast.StructType).Fields.List {
					for _, name := range field.Names {
						if name.IsExported() {
							into[named.Name.Name+"."+name.Name] = typed(field.Type)
						}
					}
				}
			}
		}
	}
}
