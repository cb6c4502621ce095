package cuda

import (
	"archive/zip"
	"bytes"
	"slices"
	"testing"
)

func TestBestImageComesFirst(t *testing.T) {
	have := []string{"hash", "sm_75.cubin", "sm_80.cubin", "sm_86.cubin", "sm_90.cubin", "sm_100.cubin", "sm_120.cubin", "compute_80.ptx"}
	for _, c := range []struct {
		chip         string
		major, minor int
		want         []string
	}{
		{"Turing", 7, 5, []string{"sm_75.cubin"}},
		{"A100", 8, 0, []string{"sm_80.cubin", "compute_80.ptx"}},
		{"RTX 4090", 8, 9, []string{"sm_86.cubin", "sm_80.cubin", "compute_80.ptx"}},
		{"H200", 9, 0, []string{"sm_90.cubin", "compute_80.ptx"}},
		{"B300", 10, 3, []string{"sm_100.cubin", "compute_80.ptx"}},
		{"RTX 5090", 12, 0, []string{"sm_120.cubin", "compute_80.ptx"}},
		{"a later one", 15, 2, []string{"compute_80.ptx"}},
		{"Volta", 7, 0, nil},
	} {
		if got := imagesFor(have, c.major, c.minor); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.chip, got, c.want)
		}
	}
}

// archive returns a kernels.zip with these entries.
func archive(t testing.TB, names ...string) []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, name := range names {
		f, err := w.Create(name)
		if err == nil {
			_, err = f.Write([]byte("of " + name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestArchiveIsRead(t *testing.T) {
	names, entry, err := readArchive(archive(t, "sm_90.cubin", "hash"))
	if err != nil || !slices.Equal(names, []string{"sm_90.cubin", "hash"}) {
		t.Fatalf("%v, %v", names, err)
	}
	if text, err := entry("sm_90.cubin"); string(text) != "of sm_90.cubin" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := entry("sm_80.cubin"); err == nil {
		t.Error("an entry that does not exist was read")
	}
	if _, _, err := readArchive([]byte("no archive")); err == nil {
		t.Error("bytes that are not an archive were read")
	}
}
