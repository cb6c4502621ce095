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

// The file that travels with every copy of the library has the licence of each module
// that is linked in, with CUDA or without, and of Go. PACELINE_UPDATE=1 writes it anew.
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
		t.Error("THIRD_PARTY_LICENSES is not that of go.mod: PACELINE_UPDATE=1 go test -run TestThirdPartyLicences ./capi")
	}
}

func thirdParty(t *testing.T) string {
	goes := func(args ...string) string {
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
		for _, pattern := range []string{"LICEN[SC]E*", "NOTICE*", "PATENTS"} {
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
	add("Go", goes("env", "GOROOT"))
	// -e: kernels.zip, which the tag embeds, need not have been made.
	modules := strings.Split(goes("list", "-e", "-deps", "-tags", "gpu", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}", "./libpaceline"), "\n")
	slices.Sort(modules)
	for _, m := range slices.Compact(modules) {
		if name, folder, ok := strings.Cut(m, "\t"); ok {
			add(name, folder)
		}
	}
	return b.String()
}
