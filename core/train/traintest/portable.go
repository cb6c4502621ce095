package traintest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/cpu"
	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/train"
)

// PortableRun is a run with the same result on every processor.
type PortableRun struct {
	Name     string
	Settings map[string]string // in addition to the Subject's; without isa
	Steps    int64
	Updates  int64 // number of updates in Steps steps
	Slow     bool  // done only where PACELINE_LONG is set
}

// Portable does runs with isa "portable" on every instruction set with C kernels that this machine
// has. It compares the digests with those in testdata/portable.txt, which hold for every processor.
// With PACELINE_WRITE_GOLDEN set it adds missing runs to the file and never changes existing ones.
// With -short it uses only the best instruction set, and does only the first run. Slow runs need
// PACELINE_LONG (make test-portable).
func Portable(t *testing.T, s Subject, runs []PortableRun) {
	file := filepath.Join("testdata", "portable.txt")
	want := map[string]string{}
	if text, err := os.ReadFile(file); err == nil {
		for _, line := range strings.Split(string(text), "\n") {
			if name, digests, ok := strings.Cut(line, " | "); ok {
				want[name] = digests
			}
		}
	}
	before := kernel.ISA()
	defer func() { check(t, kernel.Use(before)) }()
	// amx and avx512bf16 differ from avx512 only in bf16, which portable layers do not use.
	paths := slices.DeleteFunc(kernel.ISAs(), func(isa string) bool {
		return slices.Contains([]string{cpu.Go, cpu.Portable, cpu.AMX, cpu.AVX512BF16}, isa)
	})
	if len(paths) == 0 {
		t.Skip("a build without C has no portable kernels")
	}
	for _, run := range runs[:Times(len(runs), 1)] {
		if run.Slow && os.Getenv("PACELINE_LONG") == "" {
			continue
		}
		for _, isa := range paths[:Times(len(paths), 1)] {
			t.Run(run.Name+"/"+isa, func(t *testing.T) {
				check(t, kernel.Use(isa))
				got := s.portable(t, run)
				if want[run.Name] == "" && os.Getenv("PACELINE_WRITE_GOLDEN") != "" {
					f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
					check(t, err)
					_, err = fmt.Fprintf(f, "%s | %s\n", run.Name, got)
					check(t, err)
					check(t, f.Close())
					want[run.Name] = got
				}
				if got != want[run.Name] {
					t.Errorf("%s, must be %s", got, want[run.Name])
				}
			})
		}
	}
}

// portable does one run and returns its digests.
func (s *Subject) portable(t *testing.T, run PortableRun) string {
	c, err := train.NewConfig(s.Method)
	check(t, err)
	check(t, c.Set("isa", "portable"))
	for _, settings := range []map[string]string{s.Settings, run.Settings} {
		for name, value := range settings {
			check(t, c.Set(name, value))
		}
	}
	tr, err := train.New(c, nil)
	check(t, err)
	defer tr.Close()
	check(t, tr.Begin(run.Steps, 0))
	check(t, tr.Run(0, 0))
	check(t, tr.Settle(0))
	if n := tr.Stats().Updates; n != run.Updates {
		t.Errorf("%d updates in %d steps, must be %d", n, run.Steps, run.Updates)
	}
	return s.digests(t, tr)
}
