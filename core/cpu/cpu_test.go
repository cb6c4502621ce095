package cpu

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestPathsAreOrdered(t *testing.T) {
	list := Paths()
	if list[len(list)-1] != Go {
		t.Errorf("paths %v: must end with go", list)
	}
	if withC != slices.Contains(list, Generic) {
		t.Errorf("paths %v, with C: %v", list, withC)
	}
	for i, path := range list {
		if at := slices.Index(names, path); at < 0 || i > 0 && at <= slices.Index(names, list[i-1]) {
			t.Errorf("paths %v: %q is out of order", list, path)
		}
	}
	list[0] = "changed"
	if Paths()[0] == "changed" {
		t.Error("a caller changed the paths through the result of Paths")
	}
}

func TestChooseTakesTheNamedPathOrTheBest(t *testing.T) {
	machine := []string{AVX2, Generic, Go}
	for value, want := range map[string]string{"": AVX2, "avx2": AVX2, "generic": Generic, "go": Go} {
		if got, err := choose(value, machine); got != want || err != nil {
			t.Errorf("%q: %q, %v, want %q", value, got, err, want)
		}
	}
	for _, value := range []string{"avx512", "AVX2", "sse9", " "} {
		got, err := choose(value, machine)
		if got != AVX2 || err == nil || !strings.Contains(err.Error(), "PACELINE_ISA: \""+value+"\", must be one of avx2, generic, go on this machine") {
			t.Errorf("%q: %q, %v", value, got, err)
		}
	}
}

// The program reads PACELINE_ISA when it starts, so each value needs a process. AtLeast is compared
// with the order of the paths, written out.
func TestEnvironmentVariable(t *testing.T) {
	above := map[string][]string{
		AMX: {AMX}, AVX512BF16: {AMX, AVX512BF16}, AVX512: {AMX, AVX512BF16, AVX512}, AVX2: {AMX, AVX512BF16, AVX512, AVX2},
		Generic: {AMX, AVX512BF16, AVX512, AVX2, Generic}, Go: {AMX, AVX512BF16, AVX512, AVX2, Generic, Go},
	}
	if want, ok := os.LookupEnv("CPU_TEST_WANT"); ok {
		if Chosen() != want {
			t.Fatalf("%q, want %q", Chosen(), want)
		}
		if bad := os.Getenv("PACELINE_ISA") == "sse9"; bad != (Err() != nil) {
			t.Fatalf("error %v", Err())
		}
		for path, list := range above {
			units := want
			if want == Portable { // portable changes the order of sums, not the vector units
				units = Paths()[0]
			}
			if got := AtLeast(path); got != slices.Contains(list, units) {
				t.Errorf("%s chosen: AtLeast(%s) = %v", want, path, got)
			}
		}
		return
	}
	cases := map[string]string{"": Paths()[0], "sse9": Paths()[0]}
	for _, path := range Paths() {
		cases[path] = path
	}
	for value, want := range cases {
		cmd := exec.Command(os.Args[0], "-test.run=^TestEnvironmentVariable$")
		cmd.Env = append(os.Environ(), "PACELINE_ISA="+value, "CPU_TEST_WANT="+want)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("PACELINE_ISA=%q: %v\n%s", value, err, out)
		}
	}
}
