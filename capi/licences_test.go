package capi

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const licences = "../THIRD_PARTY_LICENSES"

// THIRD_PARTY_LICENSES, which is distributed with the library, has the licences of Go and of all
// linked modules, with and without CUDA. PACELINE_UPDATE=1 rewrites the file.
func TestThirdPartyLicences(t *testing.T) {
	want := []byte(thirdParty(t))
	if os.Getenv("PACELINE_UPDATE") != "" {
		if err := os.WriteFile(licences, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(licences)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Error("THIRD_PARTY_LICENSES does not match go.mod; write it with PACELINE_UPDATE=1 go test -run TestThirdPartyLicences ./capi")
	}
}

func thirdParty(t *testing.T) string {
	runGo := func(args ...string) string {
		out, err := exec.Command("go", args...).Output()
		if err != nil {
			t.Fatalf("go %v: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	var b strings.Builder
	b.WriteString("Paceline is under the licence in LICENSE. libpaceline also contains the following, each under its own.\n")
	add := func(name, folder string) {
		var texts []string
		for _, pattern := range []string{"LICEN[SC]E*", "NOTICE*", "PATENTS", "THIRD_PARTY_LICENSES/*"} {
			found, err := filepath.Glob(filepath.Join(folder, pattern))
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, found...)
		}
		if len(texts) == 0 {
			t.Errorf("%s: no licence in %s", name, folder)
		}
		for _, path := range texts {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "\n%[1]s\n%[2]s: %[3]s\n%[1]s\n\n%[4]s\n", strings.Repeat("-", 80), name, filepath.Base(path), strings.TrimSpace(string(text)))
		}
	}
	add("Go", runGo("env", "GOROOT"))
	// -e: kernels.zip, which the tag gpu embeds, may be missing.
	modules := strings.Split(runGo("list", "-e", "-deps", "-tags", "gpu", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}", "./libpaceline"), "\n")
	slices.Sort(modules)
	for _, m := range slices.Compact(modules) {
		if name, folder, ok := strings.Cut(m, "\t"); ok {
			add(name, folder)
		}
	}
	return b.String()
}
