package traintest

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// mutant is a changed file.
type mutant struct {
	kind  string // row of the table of outcomes
	where string // the changed field: "clock.json:clock.t"; "" if a checksum is wrong
	what  string // description of the change
	file  []byte
}

// archive is a checkpoint as a list of entries.
type archive struct {
	whole []byte
	names []string
	data  map[string][]byte
}

const manifestName = "paceline.json"

func parseArchive(t testing.TB, file []byte) *archive {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(file), int64(len(file)))
	check(t, err)
	f := &archive{whole: file, data: map[string][]byte{}}
	for _, entry := range z.File {
		in, err := entry.Open()
		check(t, err)
		data, err := io.ReadAll(in)
		check(t, err)
		f.data[entry.Name] = data
		f.names = append(f.names, entry.Name)
	}
	return f
}

// build returns a file of these entries with their checksums and lengths in the manifest.
func build(names []string, data map[string][]byte) []byte {
	manifest := decode(data[manifestName])
	if o, ok := manifest.(object); ok {
		parts, _ := o.get("parts").([]any)
		for _, p := range parts {
			entry, _ := p.(object)
			if d, ok := data[fmt.Sprint(entry.get("name"))]; ok {
				entry.set("length", len(d))
				entry.set("crc32c", crc32.Checksum(d, crc32.MakeTable(crc32.Castagnoli)))
			}
		}
	}
	data = maps.Clone(data)
	data[manifestName] = encode(manifest)
	return zipped(names, data)
}

func zipped(names []string, data map[string][]byte) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range names {
		out, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		if err == nil {
			_, err = out.Write(data[name])
		}
		if err != nil {
			panic(err) // never: the archive is in memory
		}
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// object is a JSON object that keeps the order and the duplicates of its fields.
type object []member

type member struct {
	key   string
	value any
}

// get returns the value of a field, nil if the field is missing.
func (o object) get(key string) any {
	for _, m := range o {
		if m.key == key {
			return m.value
		}
	}
	return nil
}

// set overwrites an existing field.
func (o object) set(key string, value any) {
	for i := range o {
		if o[i].key == key {
			o[i].value = value
		}
	}
}

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	text := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(append(append(text, encode(m.key)...), ':'), encode(m.value)...)
	}
	return append(text, '}'), nil
}

// decode returns the value of a valid JSON text: object, []any, json.Number, string, bool or nil.
func decode(text []byte) any {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var value func() any
	token := func() json.Token {
		t, err := d.Token()
		if err != nil {
			panic(err) // never: the text is valid
		}
		return t
	}
	value = func() any {
		switch t := token(); t {
		case json.Delim('['):
			list := []any{}
			for d.More() {
				list = append(list, value())
			}
			token()
			return list
		case json.Delim('{'):
			o := object{}
			for d.More() {
				o = append(o, member{token().(string), value()})
			}
			token()
			return o
		default:
			return t
		}
	}
	return value()
}

func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // never: v was decoded
	}
	return text
}

// mutate returns the archive with one random change.
func (f *archive) mutate(r *rand.Rand) mutant {
	switch r.IntN(10) {
	case 0:
		return f.damage(r)
	case 1:
		return f.entries(r)
	case 2, 3:
		return f.field(r, manifestName)
	}
	for {
		name := f.names[r.IntN(len(f.names))]
		switch {
		case name == manifestName:
		case strings.HasSuffix(name, ".json"):
			return f.field(r, name)
		case strings.HasSuffix(name, ".safetensors") && r.IntN(2) == 0:
			return f.header(r, name)
		default:
			return f.numbers(r, name)
		}
	}
}

// damage changes bytes without changing the checksums.
func (f *archive) damage(r *rand.Rand) mutant {
	b := bytes.Clone(f.whole)
	at := r.IntN(len(b))
	switch r.IntN(5) {
	case 0:
		b[at] ^= 1 << r.IntN(8)
		return mutant{"bit", "", fmt.Sprintf("byte %d", at), b}
	case 1:
		directory := bytes.Index(b, []byte("PK\x01\x02"))
		at = directory + r.IntN(len(b)-directory)
		b[at] ^= 1 << r.IntN(8)
		return mutant{"bit of the directory", "", fmt.Sprintf("byte %d", at), b}
	case 2:
		return mutant{"cut off", "", fmt.Sprintf("%d bytes", at), b[:at]}
	case 3:
		return mutant{"bytes inserted", "", fmt.Sprintf("at %d", at), slices.Insert(b, at, b[r.IntN(len(b)):][:1]...)}
	}
	end := min(len(b), at+1+r.IntN(100))
	return mutant{"bytes removed", "", fmt.Sprintf("%d to %d", at, end), slices.Delete(b, at, end)}
}

// entries changes the list of entries, with or without the manifest.
func (f *archive) entries(r *rand.Rand) mutant {
	names, data := slices.Clone(f.names), maps.Clone(f.data)
	manifest := decode(data[manifestName]).(object)
	parts := manifest.get("parts").([]any)
	i := r.IntN(len(parts))
	listed := r.IntN(2) == 0 // change the manifest, too
	what := names[i]
	switch r.IntN(4) {
	case 0:
		what += " missing"
		names, parts = slices.Delete(names, i, i+1), slices.Delete(parts, i, i+1)
	case 1:
		what += " doubled"
		names, parts = slices.Insert(names, i, names[i]), slices.Insert(parts, i, parts[i])
	case 2:
		j := r.IntN(len(parts))
		what += " changes places with " + names[j]
		names[i], names[j] = names[j], names[i]
		parts[i], parts[j] = parts[j], parts[i]
	case 3:
		j := r.IntN(len(parts))
		what += " is " + names[j]
		data[names[i]] = data[names[j]]
	}
	if !listed {
		return mutant{"entries", "", what, zipped(names, data)}
	}
	manifest.set("parts", parts)
	data[manifestName] = encode(manifest)
	return mutant{"entries, with the manifest", "entries, " + what, what, build(names, data)}
}

// field changes a field of a JSON part.
func (f *archive) field(r *rand.Rand, name string) mutant {
	data := maps.Clone(f.data)
	where, what, text := mutateJSON(r, data[name])
	data[name] = text
	kind := "field of " + name
	if name == manifestName && r.IntN(8) > 0 && !strings.HasPrefix(where, "parts") {
		return mutant{kind, name + ":" + where, what, build(f.names, data)}
	}
	if name == manifestName {
		return mutant{kind, name + ":" + where, what, zipped(f.names, data)}
	}
	return mutant{kind, name + ":" + where, what, build(f.names, data)}
}

// header changes a field of the header of a safetensors part.
func (f *archive) header(r *rand.Rand, name string) mutant {
	data := maps.Clone(f.data)
	old := data[name]
	size := binary.LittleEndian.Uint64(old)
	where, what, text := mutateJSON(r, old[8:8+size])
	length := uint64(len(text))
	if r.IntN(10) == 0 {
		length = edgeValue(r)
		where, what = "length", fmt.Sprint(length)
	}
	data[name] = slices.Concat(binary.LittleEndian.AppendUint64(nil, length), text, old[8+size:])
	return mutant{"tensors' header", name + ":header " + where, what, build(f.names, data)}
}

// numbers changes one number, or the length, of a binary part.
func (f *archive) numbers(r *rand.Rand, name string) mutant {
	data := maps.Clone(f.data)
	b := slices.Clip(bytes.Clone(data[name]))
	where := name
	head := 0
	if strings.HasSuffix(name, ".safetensors") {
		head = 8 + int(binary.LittleEndian.Uint64(b))
	} else if r.IntN(2) == 0 { // the first bytes have sizes and counts
		where, b = name+":beginning", b[:min(len(b), 300)]
	}
	at := head + r.IntN(len(b)-head)
	what := fmt.Sprintf("byte %d of %d: ", at, len(b))
	at -= (at - head) % 4
	kind := "numbers of " + name
	switch r.IntN(8) {
	case 0:
		b[at] ^= 1 << r.IntN(8)
		what += "a bit"
	case 1:
		b = b[:at]
		data[name] = b
		return mutant{kind, name + ":length", what + "cut off", build(f.names, data)}
	case 2:
		data[name] = append(b[:cap(b):cap(b)], make([]byte, 1+r.IntN(64))...)
		return mutant{kind, name + ":length", what + "longer", build(f.names, data)}
	default:
		value := edgeValue(r)
		size := 4 << r.IntN(2)
		if at+size > len(b) {
			size = len(b) - at
		}
		var bytes [8]byte
		if r.IntN(3) == 0 {
			copy(bytes[:], b[at:at+size])
			value = binary.LittleEndian.Uint64(bytes[:]) + 1 - 2*uint64(r.IntN(2))
		}
		binary.LittleEndian.PutUint64(bytes[:], value)
		copy(b[at:at+size], bytes[:])
		what += fmt.Sprintf("%d bytes of %#x", size, value)
	}
	data[name] = b[:len(data[name])]
	return mutant{kind, where, what, build(f.names, data)}
}

// edgeValue returns a number at the edge of a number format, or a random one.
func edgeValue(r *rand.Rand) uint64 {
	list := []uint64{0, 1, 2, 1<<64 - 1, 1 << 63, 1<<63 - 1, 1 << 31, 1<<31 - 1, 1 << 32, 1 << 40, 1 << 52,
		0x7fc00000, 0x7f800000, 0xff800000, 0x7f7fffff, 0x80000000, 0x7ff8000000000000, 0x7ff0000000000000, 0x7fc000007fc00000, 0x7fefffffffffffff}
	if i := r.IntN(len(list) + 2); i < len(list) {
		return list[i]
	}
	return r.Uint64()
}

// jsonValue is a value in a JSON text.
type jsonValue struct {
	path string // with [] for any index of a list
	old  any
	set  func(v any)
}

// walkJSON calls add for v and all values in v. path and set are those of v.
func walkJSON(path string, v any, set func(any), add func(jsonValue)) {
	add(jsonValue{path, v, set})
	switch v := v.(type) {
	case object:
		for i, m := range v {
			next := m.key
			if path != "" {
				next = path + "." + m.key
			}
			walkJSON(next, m.value, func(to any) { v[i].value = to }, add)
		}
	case []any:
		for i := range v {
			walkJSON(path+"[]", v[i], func(to any) { v[i] = to }, add)
		}
	}
}

// mutateJSON changes one value of a text. Every path has the same probability.
func mutateJSON(r *rand.Rand, text []byte) (where, what string, changed []byte) {
	root := decode(text)
	byPath := map[string][]jsonValue{}
	walkJSON("", root, func(v any) { root = v }, func(v jsonValue) { byPath[v.path] = append(byPath[v.path], v) })
	paths := slices.Sorted(maps.Keys(byPath))
	where = paths[r.IntN(len(paths))]
	v := byPath[where][r.IntN(len(byPath[where]))]
	to := otherJSON(r, v.old)
	v.set(to)
	return where, fmt.Sprintf("%.60s -> %.60s", encode(v.old), encode(to)), encode(root)
}

// otherJSON returns a JSON value other than v, often of the same type.
func otherJSON(r *rand.Rand, v any) any {
	wrong := []any{nil, true, false, "", "text", json.Number("0"), json.Number("-1"), json.Number("1e300"), []any{}, object{}, []any{json.Number("1")}}
	if r.IntN(6) == 0 {
		return wrong[r.IntN(len(wrong))]
	}
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil && r.IntN(2) == 0 {
			return json.Number(fmt.Sprint([]int64{n + 1, n - 1, 2 * n, n / 2, -n, n + 1000}[r.IntN(6)]))
		}
		return json.Number([]string{"0", "1", "-1", "7", "2147483648", "9007199254740993", "9223372036854775807", "-9223372036854775808",
			"18446744073709551615", "1e300", "-1e300", "1e999", "0.5", "1e-320", "4294967296", "1099511627776"}[r.IntN(16)])
	case bool:
		return !v
	case string:
		if b, err := base64.StdEncoding.DecodeString(v); err == nil && len(b) > 8 && r.IntN(4) > 0 {
			at := r.IntN(len(b))
			switch r.IntN(3) {
			case 0:
				b = b[:at]
			case 1:
				var word [8]byte
				binary.LittleEndian.PutUint64(word[:], edgeValue(r))
				copy(b[at:], word[:])
			default:
				b[at] ^= 1 << r.IntN(8)
			}
			return base64.StdEncoding.EncodeToString(b)
		}
		return []string{"", v + "x", v + v, "-1", "0", "1e300", "NaN", "99999999999999999999", "1000000", "\x00", "../../etc/passwd", "true", "7"}[r.IntN(13)]
	case []any:
		if len(v) == 0 {
			return []any{json.Number("1")}
		}
		i := r.IntN(len(v))
		switch r.IntN(3) {
		case 0:
			return slices.Delete(slices.Clone(v), i, i+1)
		case 1:
			return slices.Insert(slices.Clone(v), i, v[i])
		}
		return []any{}
	case object:
		if len(v) == 0 || r.IntN(3) == 0 {
			return append(slices.Clone(v), member{"unknown", json.Number("1")})
		}
		i := r.IntN(len(v))
		if r.IntN(3) == 0 {
			return slices.Insert(slices.Clone(v), i, v[i])
		}
		return slices.Delete(slices.Clone(v), i, i+1)
	}
	return "text"
}

func (m mutant) String() string { return fmt.Sprintf("%s, %s %s", m.kind, m.where, m.what) }
