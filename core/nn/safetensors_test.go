package nn

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/paceline-rl/paceline/core/checkpoint"
)

var exampleTensors = []Tensor{
	{Name: "q_net.0.weight", Shape: []int{2, 3}, Data: []float32{1, -2, 3.5, 0, 1e-30, 6}},
	{Name: "a \"quoted\" näme", Shape: []int{}, Data: []int64{-1 << 62}},
	{Name: "bytes", Shape: []int{5}, Data: []uint8{1, 2, 3, 254, 255}},
	{Name: "empty", Shape: []int{0, 4}, Data: []float32{}},
	{Name: "steps", Shape: []int{2}, Data: []int32{-7, 1 << 30}},
}

var exampleMeta = map[string]string{"format": "pt", "b": "2", "a": "1"}

func written(t testing.TB, ts []Tensor, meta map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := WriteSafetensors(&b, ts, meta); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestSafetensorsRoundTrip(t *testing.T) {
	for _, meta := range []map[string]string{exampleMeta, nil} {
		file := written(t, exampleTensors, meta)
		if !bytes.Equal(file, written(t, exampleTensors, maps.Clone(meta))) {
			t.Error("the same tensors gave other bytes")
		}
		if n := binary.LittleEndian.Uint64(file); n%8 != 0 {
			t.Errorf("header of %d bytes: data would not be aligned", n)
		}
		ts, gotMeta, err := ReadSafetensors(iotest.OneByteReader(bytes.NewReader(file)), int64(len(file)))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(ts, exampleTensors) || !maps.Equal(gotMeta, meta) {
			t.Errorf("read %v, %v", ts, gotMeta)
		}
	}
}

// The bytes of a small file, to hold the format still.
func TestSafetensorsGolden(t *testing.T) {
	got := written(t, []Tensor{{"w", []int{2}, []float32{1, -2}}, {"n", nil, []uint8{9}}}, map[string]string{"k": "v"})
	header := `{"__metadata__":{"k":"v"},"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"n":{"dtype":"U8","shape":[],"data_offsets":[8,9]}}`
	header += strings.Repeat(" ", 136-len(header))
	want := "\x88\x00\x00\x00\x00\x00\x00\x00" + header + "\x00\x00\x80\x3f\x00\x00\x00\xc0\x09"
	if string(got) != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestSafetensorsTruncated(t *testing.T) {
	file := written(t, exampleTensors, exampleMeta)
	for n := range len(file) {
		for _, said := range []int{n, len(file)} { // what the reader was given
			if _, _, err := ReadSafetensors(bytes.NewReader(file[:n]), int64(said)); err == nil || !strings.HasPrefix(err.Error(), "safetensors: truncated in the ") {
				t.Fatalf("%d of %d bytes: error %v", n, len(file), err)
			}
		}
	}
	if _, _, err := ReadSafetensors(bytes.NewReader(append(file, 0)), int64(len(file)+1)); err == nil || err.Error() != "safetensors: the file goes on after its last tensor" {
		t.Errorf("one byte more: error %v", err)
	}
}

func TestSafetensorsBadHeaders(t *testing.T) {
	for _, c := range []struct{ header, data, want string }{
		{`[]`, "", "safetensors header: not a JSON object"},
		{`null`, "", "safetensors header: not a JSON object"},
		{`{"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}}`, "01234567", `tensor "a": dtype "F64", must be F32, U8, I32 or I64`},
		{`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}}`, "01234567", `tensor "a": bytes 0 to 8, must be 0 to 4`},
		{`{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,0]}}`, "", `tensor "a": shape [-1] is not one`},
		{`{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, "", `tensor "a": shape [4294967296 4294967296] is not one`},
		{`{"a":{"dtype":"F32","shape":[274877906944],"data_offsets":[0,1099511627776]}}`, "0123", `safetensors: truncated in the tensor "a"`},
		{`{"a":{"dtype":"F32","data_offsets":[0,0]}}`, "", `tensor "a": shape [] is not one`},
		{`{"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,6]}}`, "012345", `safetensors header: "a": json`},
		{`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}}`, "0", `safetensors header: "a": json`},
		{`{"__metadata__":{"a":1}}`, "", `safetensors header: "__metadata__": json`},
		{`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, "012", `tensor "b": bytes 1 to 3, must be 2 to 4`},
		{`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}}`, "01234", `tensor "b": bytes 3 to 5, must be 2 to 4`},
		{`{"a":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, "012", `tensor "a": bytes 1 to 3, must be 0 to 2`},
		{`{"a":{"dtype":"U8","shape":[2],"data_offsets":[-2,0]}}`, "", `tensor "a": bytes -2 to 0, must be 0 to 2`},
	} {
		file := string(binary.LittleEndian.AppendUint64(nil, uint64(len(c.header)))) + c.header + c.data
		if _, _, err := ReadSafetensors(strings.NewReader(file), int64(len(file))); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.header, err, c.want)
		}
	}
	for _, length := range []uint64{0, 1, maxHeader + 1, 1 << 63} {
		file := binary.LittleEndian.AppendUint64(nil, length)
		if _, _, err := ReadSafetensors(bytes.NewReader(append(file, "{}"...)), 10); err == nil || !strings.Contains(err.Error(), "not a safetensors file") {
			t.Errorf("header length %d: error %v", length, err)
		}
	}
}

func TestSafetensorsWriteErrors(t *testing.T) {
	for want, ts := range map[string][]Tensor{
		`tensor "a": []float64 of length 0, must be`:          {{"a", []int{0}, []float64{}}},
		`tensor "a": []float32 of length 2, must be`:          {{"a", []int{3}, []float32{1, 2}}},
		`tensor "a": []float32 of length 1, must be`:          {{"a", []int{-1, -1}, []float32{1}}},
		`tensor "a": name given twice or reserved`:            {{"a", []int{1}, []uint8{1}}, {"a", []int{1}, []uint8{1}}},
		`tensor "__metadata__": name given twice or reserved`: {{"__metadata__", []int{1}, []uint8{1}}},
	} {
		if err := WriteSafetensors(&bytes.Buffer{}, ts, nil); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// bounded runs f and fails if it took longer than a second or allocated more than
// 200 MB.
func bounded(t *testing.T, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	f()
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 200 || took > time.Second {
		t.Fatalf("%d MB, %v", mb, took)
	}
}

func infoOf(ts []Tensor) (infos []TensorInfo) {
	for _, t := range ts {
		dtype, _, _ := dtypeOf(t.Data)
		infos = append(infos, TensorInfo{t.Name, dtype, t.Shape})
	}
	return infos
}

func TestReadTensors(t *testing.T) {
	file := written(t, exampleTensors, exampleMeta)
	want := infoOf(exampleTensors)
	slices.Reverse(want)
	got, err := ReadTensors(bytes.NewReader(file), int64(len(file)), want)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(got)
	if !reflect.DeepEqual(got, exampleTensors) {
		t.Errorf("read %v", got)
	}
	for says, change := range map[string]func([]TensorInfo) []TensorInfo{
		`tensor "more": missing`:                                   func(w []TensorInfo) []TensorInfo { return append(w, TensorInfo{"more", "F32", []int{1}}) },
		`tensor "q_net.0.weight": there must be none of this name`: func(w []TensorInfo) []TensorInfo { return w[:len(w)-1] },
		`tensor "steps": dtype I32, must be I64`:                   func(w []TensorInfo) []TensorInfo { w[0].DType = "I64"; return w },
		`tensor "steps": shape [2], must be [2 1]`:                 func(w []TensorInfo) []TensorInfo { w[0].Shape = []int{2, 1}; return w },
	} {
		if _, err := ReadTensors(bytes.NewReader(file), int64(len(file)), change(slices.Clone(want))); err == nil || err.Error() != says {
			t.Errorf("error %v, want %q", err, says)
		}
	}
}

// A header may be as long as the tensors that are expected need, and nothing is
// allocated for tensors for which the file has no bytes.
func TestReadTensorsTakesNoMemoryOnAFilesWord(t *testing.T) {
	var long strings.Builder
	for i := range 1_000_000 {
		fmt.Fprintf(&long, `"%d":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},`, i)
	}
	huge := `{"w":{"dtype":"F32","shape":[1000000,100000],"data_offsets":[0,400000000000]}}`
	for text, want := range map[string]string{
		"{" + strings.TrimSuffix(long.String(), ",") + "}": "must be at most 4278 for these tensors",
		huge: `truncated in the tensor "w"`,
	} {
		file := string(binary.LittleEndian.AppendUint64(nil, uint64(len(text)))) + text + "data"
		bounded(t, func() {
			_, err := ReadTensors(strings.NewReader(file), int64(len(file)), []TensorInfo{{"w", "F32", []int{1_000_000, 100_000}}})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %q", err, want)
			}
		})
	}
}

func TestTensorsPart(t *testing.T) {
	make3 := func(x float32) []Tensor {
		return []Tensor{{"a", []int{2}, []float32{x, x + 1}}, {"b", []int{1}, []uint8{uint8(x)}}, {"c", nil, []int64{int64(x)}}}
	}
	from, to := make3(3), make3(8)
	file, err := checkpoint.SaveBytes("run", nil, []checkpoint.Part{TensorsPart("w.safetensors", from)})
	if err != nil {
		t.Fatal(err)
	}
	load := func(p checkpoint.Part) (func(), error) {
		r, err := checkpoint.OpenBytes(file)
		if err != nil {
			t.Fatal(err)
		}
		return r.Load([]checkpoint.Part{p})
	}
	adopt, err := load(TensorsPart("w.safetensors", to))
	if err != nil || !reflect.DeepEqual(to, make3(8)) {
		t.Fatalf("%v, %v", to, err)
	}
	if adopt(); !reflect.DeepEqual(to, from) {
		t.Errorf("%v, want %v", to, from)
	}
	other := []Tensor{to[0], to[1]}
	if _, err := load(TensorsPart("w.safetensors", other)); err == nil || errors.Is(err, checkpoint.ErrFormat) || !strings.HasSuffix(err.Error(), `tensor "c": there must be none of this name`) {
		t.Error(err)
	}
	missing := TensorsPart("x.safetensors", to)
	missing.Optional = true
	if adopt, err := load(missing); err != nil || adopt == nil {
		t.Error(err)
	} else if adopt(); !reflect.DeepEqual(to, from) {
		t.Error("a missing part changed something")
	}
}

// Whatever is accepted must be written again to a file that reads the same.
func FuzzReadSafetensors(f *testing.F) {
	f.Add(written(f, exampleTensors, exampleMeta))
	f.Add(written(f, nil, nil))
	f.Add([]byte("\x02\x00\x00\x00\x00\x00\x00\x00{}"))
	f.Fuzz(func(t *testing.T, file []byte) {
		var ts []Tensor
		var meta map[string]string
		var err error
		bounded(t, func() { ts, meta, err = ReadSafetensors(bytes.NewReader(file), int64(len(file))) })
		if err != nil {
			return
		}
		b := written(t, ts, meta)
		again, meta2, err := ReadSafetensors(bytes.NewReader(b), int64(len(b)))
		if err != nil || len(again) != len(ts) || !maps.Equal(meta, meta2) {
			t.Fatalf("%v: %v, %v after %v, %v", err, again, meta2, ts, meta)
		}
		for i := range ts { // by bytes: NaN differs from itself
			a, _ := binary.Append(nil, binary.LittleEndian, ts[i].Data)
			b, _ := binary.Append(nil, binary.LittleEndian, again[i].Data)
			if ts[i].Name != again[i].Name || !reflect.DeepEqual(ts[i].Shape, again[i].Shape) || !bytes.Equal(a, b) {
				t.Fatalf("%v after %v", again[i], ts[i])
			}
		}
	})
}
