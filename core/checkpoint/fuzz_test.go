package checkpoint

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"runtime"
	"slices"
	"testing"
)

// bounded runs f and fails if it allocated more than 200 MB.
func bounded(t *testing.T, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 200 {
		t.Fatalf("%d MB", mb)
	}
}

// Reading any bytes needs little memory. The data of a part that loads agree with the manifest.
func FuzzLoad(f *testing.F) {
	one, two := &memory{now: []byte("some data worth keeping")}, &memory{now: []byte("[1, 2, 3]")}
	file, err := SaveBytes("run", content{42}, []Part{one.part("data"), two.part("list.json")})
	check(f, err)
	f.Add(file)
	f.Add(file[:len(file)/2])
	f.Add(pack(f, zip.Deflate, []string{"data", manifestName}, `{"what": "paceline checkpoint", "format": 2}`))
	old, err := os.ReadFile("testdata/format1.paceline")
	check(f, err)
	f.Add(old)
	f.Fuzz(func(t *testing.T, file []byte) {
		bounded(t, func() {
			r, err := OpenBytes(file)
			if err != nil {
				return
			}
			defer r.Close()
			var c content
			r.Content(&c)
			data := &memory{}
			var list []int
			adopt, err := r.Load([]Part{data.part("data"), {Name: "list.json", Version: 1, Optional: true, Read: func(r io.Reader, n int64) (func(), error) {
				if r == nil {
					return nil, nil
				}
				return nil, ReadJSON(r, n, 1<<20, &list)
			}}})
			if err != nil {
				return
			}
			adopt()
			text, _ := json.Marshal(r.manifest)
			i := slices.IndexFunc(r.manifest.Parts, func(e entry) bool { return e.Name == "data" })
			if e := r.manifest.Parts[i]; int64(len(data.now)) != e.Length || crc32.Checksum(data.now, castagnoli) != e.CRC32C {
				t.Fatalf("%q is not what %s says", data.now, text)
			}
		})
	})
}

// The same for any manifest in a valid archive.
func FuzzManifest(f *testing.F) {
	f.Add(fmt.Sprintf(`{"what": "paceline checkpoint", "format": 2, "kind": "run", "content": {"Steps": 3}, "parts": [{"name": "a", "version": 1, "length": 1, "crc32c": %d}]}`,
		crc32.Checksum([]byte("x"), castagnoli)))
	f.Add(`{"what": "paceline checkpoint", "format": 2, "kind": "", "content": null, "parts": [{"name": "a", "version": -1, "length": 1e300, "crc32c": -1}]}`)
	f.Add(`{"what": "paceline checkpoint", "format": 1}`)
	f.Add(`{"what": "paceline checkpoint", "format": 3, "parts": 3}`)
	f.Fuzz(func(t *testing.T, manifest string) {
		file := pack(t, zip.Store, []string{"a", manifestName}, manifest)
		bounded(t, func() {
			r, err := OpenBytes(file)
			if err != nil {
				return
			}
			defer r.Close()
			r.Content(new(content))
			m := &memory{}
			adopt, err := r.Load([]Part{m.part("a")})
			if err != nil {
				return
			}
			if adopt(); string(m.now) != "x" {
				t.Fatalf("%q loads %q", manifest, m.now)
			}
		})
	})
}
