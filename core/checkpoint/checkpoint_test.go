package checkpoint

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/fault"
)

// has reports whether the file has a part called name.
func (r *Reader) has(name string) bool {
	return slices.ContainsFunc(r.manifest.Parts, func(e entry) bool { return e.Name == name })
}

// others returns the names of the file's parts that are not in parts, in order.
func (r *Reader) others(parts []Part) (names []string) {
	for _, e := range r.manifest.Parts {
		if !slices.ContainsFunc(parts, func(p Part) bool { return p.Name == e.Name }) {
			names = append(names, e.Name)
		}
	}
	return names
}

type content struct{ Steps int }

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// memory is a part that holds bytes.
type memory struct {
	now, staged []byte
	discarded   int
}

func (m *memory) part(name string) Part {
	return Part{Name: name, Version: 1,
		Write: func(w io.Writer) error { _, err := w.Write(m.now); return err },
		Read: func(r io.Reader, n int64) (func(), error) {
			if r == nil {
				return func() { m.now = nil }, nil
			}
			m.staged = make([]byte, n)
			if _, err := io.ReadFull(r, m.staged); err != nil {
				return nil, err
			}
			return func() { m.now = m.staged }, nil
		},
		Discard: func() { m.staged = nil; m.discarded++ },
	}
}

func save(t testing.TB, path string, data []byte) {
	t.Helper()
	check(t, Save(path, "run", content{42}, []Part{(&memory{now: data}).part("data")}))
}

// read returns the content and the data of a file that save wrote.
func read(path string) (c content, data []byte, err error) {
	r, err := Open(path)
	if err != nil {
		return c, nil, err
	}
	defer r.Close()
	return readAll(r)
}

func readAll(r *Reader) (c content, data []byte, err error) {
	if err := r.Content(&c); err != nil {
		return c, nil, err
	}
	var m memory
	adopt, err := r.Load([]Part{m.part("data")})
	if err != nil {
		return c, nil, err
	}
	adopt()
	if others := r.others([]Part{{Name: "data"}}); others != nil {
		return c, nil, fmt.Errorf("others: %v", others)
	}
	return c, m.now, nil
}

func files(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	check(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestSaveAndLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.paceline")
	r := rand.New(rand.NewPCG(1, 1))
	parts := make([]memory, 5)
	var list []Part
	for i := range parts {
		parts[i].now = make([]byte, r.IntN(5000))
		for j := range parts[i].now {
			parts[i].now[j] = byte(r.Uint32())
		}
		list = append(list, parts[i].part(fmt.Sprintf("part-%d.bin", i)))
	}
	left := Part{Name: "left-out", Version: 3, Optional: true}
	check(t, Save(path, "policy", content{42}, append(slices.Clone(list), left)))
	if names := files(t, filepath.Dir(path)); len(names) != 1 {
		t.Fatalf("files after Save: %v", names)
	}
	whole, err := os.ReadFile(path)
	check(t, err)
	again, err := SaveBytes("policy", content{42}, list)
	if err != nil || !bytes.Equal(again, whole) {
		t.Errorf("SaveBytes gave %d bytes, %v, Save %d", len(again), err, len(whole))
	}
	one, err := Open(path)
	check(t, err)
	two, err := OpenBytes(whole)
	check(t, err)
	for _, in := range []*Reader{one, two} {
		var c content
		check(t, in.Content(&c))
		if in.Kind() != "policy" || c.Steps != 42 || !in.has("part-3.bin") || in.has("left-out") || in.has(manifestName) {
			t.Errorf("kind %q, content %v", in.Kind(), c)
		}
		got := make([]memory, 5)
		var order []Part
		for _, i := range []int{3, 0, 4} { // in any order, not all
			order = append(order, got[i].part(list[i].Name))
		}
		missing := memory{now: []byte("of the old run")}
		optional := missing.part("left-out")
		optional.Optional = true
		adopt, err := in.Load(append(order, optional))
		check(t, err)
		if got[3].now != nil || missing.now == nil {
			t.Error("Load has changed something")
		}
		adopt()
		for _, i := range []int{3, 0, 4} {
			if !bytes.Equal(got[i].now, parts[i].now) {
				t.Errorf("part %d differs", i)
			}
		}
		if missing.now != nil {
			t.Error("adopt of a part that the file does not have was not called")
		}
		if others := in.others(order); !slices.Equal(others, []string{"part-1.bin", "part-2.bin"}) {
			t.Errorf("others: %v", others)
		}
		check(t, in.Close())
		if got[3].discarded != 0 {
			t.Error("discarded after adopt")
		}
	}
}

func TestARefusedLoadChangesNothing(t *testing.T) {
	a, b, c := memory{now: []byte("a")}, memory{now: []byte("b")}, memory{now: []byte("c")}
	file, err := SaveBytes("run", nil, []Part{a.part("a"), b.part("b"), c.part("c")})
	check(t, err)
	r, err := OpenBytes(file)
	check(t, err)
	x, y, z := memory{now: []byte("old")}, memory{now: []byte("old")}, memory{now: []byte("old")}
	doesNotFit := errors.New("num_envs: saved with 4, must be 2")
	refusing := z.part("c")
	refusing.Read = func(io.Reader, int64) (func(), error) { return nil, doesNotFit }
	_, err = r.Load([]Part{x.part("a"), y.part("b"), refusing})
	if !errors.Is(err, doesNotFit) || errors.Is(err, ErrFormat) || err.Error() != `bytes: part "c": num_envs: saved with 4, must be 2` {
		t.Errorf("a valid part that does not fit: %v", err)
	}
	if string(x.now) != "old" || x.discarded != 1 || y.discarded != 1 || z.discarded != 0 {
		t.Errorf("%+v, %+v, %+v", x, y, z)
	}
	// Close discards parts that were read and not adopted. An adopt after Close does nothing.
	adopt, err := r.Load([]Part{x.part("a"), y.part("b")})
	check(t, err)
	check(t, r.Close())
	if adopt(); string(x.now) != "old" || x.discarded != 2 || y.discarded != 2 {
		t.Errorf("%+v, %+v", x, y)
	}
	// A part that is missing, and a Read that does not read the whole part.
	if _, err := r.Load([]Part{x.part("other")}); err == nil || err.Error() != `bytes: part "other" is missing` {
		t.Error(err)
	}
	lazy := x.part("a")
	lazy.Read = func(r io.Reader, n int64) (func(), error) { return nil, nil }
	if _, err := r.Load([]Part{lazy}); !errors.Is(err, ErrFormat) || x.discarded != 3 {
		t.Errorf("%v, discarded %d times", err, x.discarded)
	}
	passed := x.part("a")
	passed.Read = nil
	if _, err := r.Load([]Part{passed}); err != nil {
		t.Error(err)
	}
	for want, version := range map[string]int{"bytes: part \"a\": version 1, must be 2": 2, "this library reads 0": 0} {
		p := x.part("a")
		p.Version = version
		if _, err := r.Load([]Part{p}); err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, ErrVersion) != (version == 0) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// An error of too little memory is no damage, however it is wrapped.
func TestTooLittleMemoryIsNoDamage(t *testing.T) {
	refused := errors.New("first: -1")
	if err := Damaged(refused); !errors.Is(err, ErrFormat) || !errors.Is(err, refused) || err.Error() != ErrFormat.Error()+": first: -1" {
		t.Error(err)
	}
	memory := fmt.Errorf("order: %w", &fault.Memory{Text: "too large"})
	if err := Damaged(memory); err != memory {
		t.Error(err)
	}
}

func TestReadOfDamagedBytesIsIgnored(t *testing.T) {
	m := memory{now: []byte(strings.Repeat("x", 1000))}
	file, err := SaveBytes("run", nil, []Part{m.part("data")})
	check(t, err)
	file[bytes.Index(file, []byte("xxxx"))+500] ^= 1
	r, err := OpenBytes(file)
	check(t, err)
	for _, says := range []error{nil, errors.New("buffer_size: must be 7")} {
		p := m.part("data")
		p.Read = func(in io.Reader, n int64) (func(), error) { in.Read(make([]byte, 3)); return nil, says }
		if _, err := r.Load([]Part{p}); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "checksum") {
			t.Errorf("Read returned %v: %v", says, err)
		}
	}
}

func TestSaveRefusesInvalidParts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	good := (&memory{}).part("a")
	for want, parts := range map[string][]Part{
		`part "a": given twice`:                             {good, good},
		`part "", version 1: must have a name`:              {(&memory{}).part("")},
		`part "paceline.json", version 1: must have a name`: {(&memory{}).part(manifestName)},
		`part "a/../b", version 1: must have a name`:        {(&memory{}).part("a/../b")},
		`part "b", version 0: must have a name`:             {{Name: "b", Write: good.Write}},
		`part "b": has no Write and is not optional`:        {{Name: "b", Version: 1}},
	} {
		if err := Save(path, "run", nil, parts); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := Save(path, "run", strings.Repeat("x", maxManifest), nil); err == nil || !strings.HasPrefix(err.Error(), "manifest: 16777") {
		t.Error(err)
	}
	if err := Save(path, "run", make(chan int), nil); err == nil {
		t.Error("a content that is no JSON")
	}
	if names := files(t, filepath.Dir(path)); names != nil {
		t.Errorf("files after refused saves: %v", names)
	}
}

// Every truncation is an error. Every flipped bit is an error, or does not change what is read
// (such as a bit of a time stamp).
func TestEveryTruncationAndBitIsNoticed(t *testing.T) {
	const text = "some data worth keeping"
	save3 := func() []byte {
		one, two := &memory{now: []byte(text)}, &memory{now: []byte("environments")}
		b, err := SaveBytes("run", content{42}, []Part{one.part("data"), two.part("acting.json")})
		check(t, err)
		return b
	}
	whole := save3()
	load := func(b []byte) (string, error) {
		r, err := OpenBytes(b)
		if err != nil {
			return "", err
		}
		defer r.Close()
		var c content
		if err := r.Content(&c); err != nil {
			return "", err
		}
		one, two, three := &memory{}, &memory{}, &memory{now: []byte("none")}
		parts := []Part{one.part("data"), two.part("acting.json"), three.part("replay.bin")}
		for i := range parts {
			parts[i].Optional = true
		}
		adopt, err := r.Load(parts)
		if err != nil {
			return "", err
		}
		adopt()
		return fmt.Sprintf("%s %v %s %s %s %v", r.Kind(), c, one.now, two.now, three.now, r.others(parts)), nil
	}
	want, err := load(whole)
	check(t, err)
	for n := range whole {
		if _, err := load(whole[:n]); !errors.Is(err, ErrFormat) {
			t.Fatalf("first %d of %d bytes: %v", n, len(whole), err)
		}
	}
	directory := bytes.Index(whole, []byte("PK\x01\x02"))
	accepted := 0
	for bit := range 8 * len(whole) {
		damaged := bytes.Clone(whole)
		damaged[bit/8] ^= 1 << (bit % 8)
		got, err := load(damaged)
		switch {
		case err == nil && got != want:
			t.Fatalf("bit %d of byte %d (directory at %d): loads as %q", bit%8, bit/8, directory, got)
		case err != nil && !errors.Is(err, ErrFormat) && !errors.Is(err, ErrVersion):
			t.Fatalf("bit %d of byte %d: %v", bit%8, bit/8, err)
		case err == nil:
			accepted++
		}
	}
	t.Logf("%d bytes, the directory from %d; %d of %d bits have no meaning", len(whole), directory, accepted, 8*len(whole))
}

// pack returns an archive with entries of the text "x" and the given manifest.
func pack(t testing.TB, method uint16, names []string, manifest string) []byte {
	t.Helper()
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	for _, name := range names {
		f, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: method})
		check(t, err)
		text := "x"
		if name == manifestName {
			text = manifest
		}
		io.WriteString(f, text)
	}
	check(t, z.Close())
	return buf.Bytes()
}

func TestForeignForgedAndNewer(t *testing.T) {
	x := crc32.Checksum([]byte("x"), castagnoli)
	part := func(name string) string {
		return fmt.Sprintf(`{"name": %q, "version": 1, "length": 1, "crc32c": %d}`, name, x)
	}
	manifest := func(parts ...string) string {
		return `{"what": "paceline checkpoint", "format": 2, "kind": "run", "content": {}, "parts": [` + strings.Join(parts, ",") + "]}"
	}
	// A forged archive with a correct manifest is accepted.
	r, err := OpenBytes(pack(t, zip.Store, []string{"a", "b", manifestName}, manifest(part("a"), part("b"))))
	check(t, err)
	if !r.has("a") || !r.has("b") {
		t.Error("parts are missing")
	}
	var many []string
	for i := range 5000 {
		many = append(many, part(fmt.Sprint("p", i)))
	}
	bomb := bytes.Repeat([]byte(" "), 1<<20)
	for name, c := range map[string]struct {
		file []byte
		is   error
		says string
	}{
		"no archive":            {[]byte("PK but not really"), ErrFormat, "cut off, or not a zip archive"},
		"empty":                 {nil, ErrFormat, "cut off"},
		"a zip of others":       {pack(t, zip.Store, []string{"data"}, ""), ErrFormat, "no paceline.json"},
		"a foreign manifest":    {pack(t, zip.Store, []string{manifestName}, `{"what": "other"}`), ErrFormat, "not the manifest"},
		"no JSON":               {pack(t, zip.Store, []string{manifestName}, `{`), ErrFormat, "not the manifest"},
		"newer":                 {pack(t, zip.Store, []string{"x", manifestName, "y"}, `{"what": "paceline checkpoint", "format": 99, "new": 1}`), ErrVersion, "format 99, this library reads 2"},
		"older":                 {pack(t, zip.Store, []string{manifestName, "y"}, `{"what": "paceline checkpoint", "format": 1}`), ErrOld, "of format 1, from before ABI 2"},
		"no format":             {pack(t, zip.Store, []string{manifestName}, `{"what": "paceline checkpoint"}`), ErrFormat, "format 0"},
		"a field too many":      {pack(t, zip.Store, []string{manifestName}, `{"what": "paceline checkpoint", "format": 2, "kinds": 1}`), ErrFormat, `unknown field "kinds"`},
		"two manifests in one":  {pack(t, zip.Store, []string{manifestName}, manifest()+"{}"), ErrFormat, "not the manifest"},
		"a part's field":        {pack(t, zip.Store, []string{"a", manifestName}, manifest(`{"name": "a", "size": 1}`)), ErrFormat, "unknown field"},
		"compressed":            {pack(t, zip.Deflate, []string{manifestName}, manifest()+string(bomb)), ErrFormat, "compressed"},
		"a part less":           {pack(t, zip.Store, []string{"a", manifestName}, manifest(part("a"), part("b"))), ErrFormat, "does not have the 2 parts"},
		"a part more":           {pack(t, zip.Store, []string{"a", "b", manifestName}, manifest(part("a"))), ErrFormat, "does not have the 1 parts"},
		"another name":          {pack(t, zip.Store, []string{"a", "c", manifestName}, manifest(part("a"), part("b"))), ErrFormat, `entry 1 of its directory is "c"`},
		"another order":         {pack(t, zip.Store, []string{"b", "a", manifestName}, manifest(part("a"), part("b"))), ErrFormat, "entry 0"},
		"the manifest first":    {pack(t, zip.Store, []string{manifestName, "a"}, manifest(part("a"))), ErrFormat, "does not have"},
		"a name twice":          {pack(t, zip.Store, []string{"a", "a", manifestName}, manifest(part("a"), part("a"))), ErrFormat, "part 1 of its manifest is not valid"},
		"two manifests":         {pack(t, zip.Store, []string{manifestName, manifestName}, manifest(part(manifestName))), ErrFormat, "part 0 of its manifest is not valid"},
		"another length":        {pack(t, zip.Store, []string{"a", manifestName}, manifest(strings.Replace(part("a"), `"length": 1`, `"length": 2`, 1))), ErrFormat, "of 1 bytes"},
		"a negative length":     {pack(t, zip.Store, []string{"a", manifestName}, manifest(strings.Replace(part("a"), `"length": 1`, `"length": -1`, 1))), ErrFormat, "entry 0"},
		"a version below 1":     {pack(t, zip.Store, []string{"a", manifestName}, manifest(strings.Replace(part("a"), `"version": 1`, `"version": 0`, 1))), ErrFormat, "part 0 of its manifest is not valid"},
		"a large manifest":      {pack(t, zip.Store, []string{manifestName}, strings.Repeat(" ", maxManifest)+manifest()), ErrFormat, "a manifest of "},
		"a list of parts alone": {pack(t, zip.Store, []string{manifestName}, manifest(many...)), ErrFormat, "must be at most 262144"},
	} {
		_, err := OpenBytes(c.file)
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), "bytes: ") {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
		for _, other := range []error{ErrFormat, ErrVersion, ErrOld} {
			if other != c.is && errors.Is(err, other) {
				t.Errorf("%s: %v is %v, too", name, err, other)
			}
		}
	}
	// Entries that overlap are together larger than the file.
	data := &memory{now: bytes.Repeat([]byte("y"), 1000)}
	file, err := SaveBytes("run", nil, []Part{data.part("a"), data.part("b")})
	check(t, err)
	first := bytes.Index(file, []byte("PK\x01\x02"))
	second := first + 4 + bytes.Index(file[first+4:], []byte("PK\x01\x02"))
	copy(file[second+42:second+46], file[first+42:first+46]) // b's data are a's
	copy(file[second+20:second+28], []byte{0xf0, 8, 0, 0, 0xf0, 8, 0, 0})
	copy(file[first+20:first+28], []byte{0xf0, 8, 0, 0, 0xf0, 8, 0, 0})
	if _, err := OpenBytes(file); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "larger than the file") {
		t.Error(err)
	}
	wrong, err := OpenBytes(pack(t, zip.Store, []string{manifestName}, strings.Replace(manifest(), "{}", `{"Steps": "many"}`, 1)))
	check(t, err)
	if err := wrong.Content(new(content)); !errors.Is(err, ErrFormat) {
		t.Errorf("a content of another type: %v", err)
	}
}

func TestElements(t *testing.T) {
	for text, want := range map[string]int{`1`: 0, `[1, "a,b[{", 2]`: 3, `{"a\",": [[{}]]}`: 4, `"\`: 0, ``: 0} {
		if n := elements([]byte(text)); n != want {
			t.Errorf("%s: %d, want %d", text, n, want)
		}
	}
}

// The error of a file of format 1 (commit 5d74e87: CartPole, 100 steps) is ErrOld.
func TestFilesOfFormat1(t *testing.T) {
	const path = "testdata/format1.paceline"
	_, err := Open(path)
	want := path + ": checkpoint of format 1, from before ABI 2: it cannot be loaded"
	if !errors.Is(err, ErrOld) || errors.Is(err, ErrFormat) || errors.Is(err, ErrVersion) || err.Error() != want {
		t.Errorf("%v, want %q", err, want)
	}
	whole, err := os.ReadFile(path)
	check(t, err)
	if _, err := OpenBytes(whole[:len(whole)/2]); !errors.Is(err, ErrFormat) {
		t.Errorf("half of one: %v", err)
	}
}

// The format does not change: this version and every later one read and write this file.
func TestGoldenFormat2(t *testing.T) {
	const path = "testdata/format2.paceline"
	one, two := &memory{now: []byte{0, 1, 2, 255}}, &memory{now: []byte(`{"a": 1}`)}
	if _, err := os.Stat(path); err != nil && os.Getenv("PACELINE_WRITE_GOLDEN") != "" { // written once
		check(t, Save(path, "run", content{42}, []Part{one.part("bytes.bin"), two.part("acting.json")}))
	}
	r, err := Open(path)
	check(t, err)
	defer r.Close()
	var c content
	check(t, r.Content(&c))
	var a memory
	var object map[string]int
	adopt, err := r.Load([]Part{a.part("bytes.bin"), {Name: "acting.json", Version: 1, Read: func(r io.Reader, n int64) (func(), error) {
		return nil, ReadJSON(r, n, 100, &object)
	}}})
	check(t, err)
	adopt()
	if r.Kind() != "run" || c.Steps != 42 || !bytes.Equal(a.now, one.now) || object["a"] != 1 {
		t.Errorf("%q, %v, %v, %v", r.Kind(), c, a.now, object)
	}
	whole, err := os.ReadFile(path)
	check(t, err)
	if again, err := SaveBytes("run", content{42}, []Part{one.part("bytes.bin"), two.part("acting.json")}); err != nil || !bytes.Equal(again, whole) {
		t.Errorf("today's file is not the golden one (%v)", err)
	}
}
