package nn

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/paceline-rl/paceline/core/checkpoint"
)

var exampleTensors = []Tensor{
	{Name: "q_net.0.weight", Shape: []int{2, 3}, Data: []float32{1, -2, 3.5, 0, 1e-30, 6}},
	{Name: "a \"quoted\" näme", Shape: []int{}, Data: []float32{-1 << 62}},
	{Name: "empty", Shape: []int{0, 4}, Data: []float32{}},
	{Name: "steps", Shape: []int{2}, Data: []float32{-7, 1 << 30}},
}

func written(t testing.TB, ts []Tensor) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := writeTensors(&b, ts); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// reading returns a reader of a file of the tensors, and its length.
func reading(t testing.TB, ts []Tensor) (io.Reader, int64) {
	file := written(t, ts)
	return bytes.NewReader(file), int64(len(file))
}

// readAs reads a file of n bytes into tensors with the names and shapes of want.
func readAs(r io.Reader, n int64, want []Tensor) ([]Tensor, error) {
	to := slices.Clone(want)
	for i := range to {
		to[i].Data = make([]float32, elements(to[i].Shape))
	}
	adopt, err := TensorsPart("x", to).Read(r, n)
	if err == nil {
		adopt()
	}
	return to, err
}

func TestSafetensorsAreReadAsWritten(t *testing.T) {
	file := written(t, exampleTensors)
	if !bytes.Equal(file, written(t, exampleTensors)) {
		t.Error("the same tensors gave other bytes")
	}
	if n := binary.LittleEndian.Uint64(file); n%8 != 0 {
		t.Errorf("header of %d bytes: data would not be aligned", n)
	}
	ts, err := readAs(iotest.OneByteReader(bytes.NewReader(file)), int64(len(file)), exampleTensors)
	if err != nil || !reflect.DeepEqual(ts, exampleTensors) {
		t.Errorf("read %v, %v", ts, err)
	}
}

// The format does not change: the bytes of a small file.
func TestSafetensorsFormatIsStable(t *testing.T) {
	got := written(t, []Tensor{{"w", []int{2}, []float32{1, -2}}, {"n", []int{}, []float32{9}}})
	header := `{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"n":{"dtype":"F32","shape":[],"data_offsets":[8,12]}}`
	header += strings.Repeat(" ", 112-len(header))
	want := "\x70\x00\x00\x00\x00\x00\x00\x00" + header + "\x00\x00\x80\x3f\x00\x00\x00\xc0\x00\x00\x10\x41"
	if string(got) != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestTruncatedSafetensorsAreRefused(t *testing.T) {
	file := written(t, exampleTensors)
	for n := range len(file) {
		if _, err := readAs(bytes.NewReader(file[:n]), int64(len(file)), exampleTensors); err == nil || !strings.HasPrefix(err.Error(), "safetensors: truncated in the ") {
			t.Fatalf("%d of %d bytes: error %v", n, len(file), err)
		}
	}
	for _, said := range []int{len(file) - 1, len(file) + 1} {
		want := fmt.Sprintf("safetensors: %d bytes, must be %d", said, len(file))
		if _, err := readAs(bytes.NewReader(append(file, 0)), int64(said), exampleTensors); err == nil || err.Error() != want {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestBadSafetensorsHeadersAreRefused(t *testing.T) {
	for _, c := range []struct{ header, data, want string }{
		{`[]`, "", "safetensors header: json"},
		{`null`, "", `tensor "a": missing`},
		{`{"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}}`, "01234567", `tensor "a": dtype F64, must be F32`},
		{`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}}`, "01234567", `tensor "a": bytes 0 to 8, must be 0 to 4`},
		{`{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,0]}}`, "", `tensor "a": shape [-1], must be [1]`},
		{`{"a":{"dtype":"F32","data_offsets":[0,4]}}`, "0123", `tensor "a": shape [], must be [1]`},
		{`{"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,6]}}`, "012345", `safetensors header: json`},
		{`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}}`, "0123", `safetensors header: json`},
		{`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[3,7]}}`, "0123456", `tensor "b": unknown, must not be in the file`},
		{`{"a":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}}`, "01234", `tensor "a": bytes 1 to 5, must be 0 to 4`},
		{`{"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}}`, "", `tensor "a": bytes -4 to 0, must be 0 to 4`},
		{`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, "01234", `safetensors: 67 bytes, must be 66`},
	} {
		file := string(binary.LittleEndian.AppendUint64(nil, uint64(len(c.header)))) + c.header + c.data
		if _, err := readAs(strings.NewReader(file), int64(len(file)), []Tensor{{Name: "a", Shape: []int{1}}}); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.header, err, c.want)
		}
	}
}

func TestBadTensorsAreNotWritten(t *testing.T) {
	for want, ts := range map[string][]Tensor{
		`tensor "a": 2 numbers, must be 3 for shape [3]`: {{"a", []int{3}, []float32{1, 2}}},
		`tensor "a": name given twice`:                   {{"a", []int{1}, []float32{1}}, {"a", []int{1}, []float32{1}}},
	} {
		if err := writeTensors(&bytes.Buffer{}, ts); err == nil || err.Error() != want {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// bounded runs f and fails if f allocates more than 200 MB.
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

func TestUnexpectedTensorsAreRefused(t *testing.T) {
	file := written(t, exampleTensors)
	for says, change := range map[string]func([]Tensor) []Tensor{
		`tensor "more": missing`:                           func(w []Tensor) []Tensor { return append(w, Tensor{Name: "more", Shape: []int{1}}) },
		`tensor "steps": unknown, must not be in the file`: func(w []Tensor) []Tensor { return w[:len(w)-1] },
		`tensor "steps": shape [2], must be [2 1]`:         func(w []Tensor) []Tensor { w[3].Shape = []int{2, 1}; return w },
		`tensor "steps": bytes 28 to 36, must be 0 to 8`:   func(w []Tensor) []Tensor { slices.Reverse(w); return w },
	} {
		if _, err := readAs(bytes.NewReader(file), int64(len(file)), change(slices.Clone(exampleTensors))); err == nil || err.Error() != says {
			t.Errorf("error %v, want %q", err, says)
		}
	}
}

// A header may be as long as the expected tensors need. No memory is allocated for tensors whose
// bytes are missing.
func TestMissingBytesTakeNoMemory(t *testing.T) {
	var long strings.Builder
	for i := range 1_000_000 {
		fmt.Fprintf(&long, `"%d":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},`, i)
	}
	huge := `{"w":{"dtype":"F32","shape":[1000000,100000],"data_offsets":[0,400000000000]}}`
	for text, want := range map[string]string{
		"{" + strings.TrimSuffix(long.String(), ",") + "}": "must be at most 4278 for these tensors",
		huge: "bytes, must be 400000000086",
	} {
		file := string(binary.LittleEndian.AppendUint64(nil, uint64(len(text)))) + text + "data"
		bounded(t, func() {
			_, err := ReadParams(strings.NewReader(file), int64(len(file)), &Layout{Params: []Param{{Name: "w", Shape: []int{1_000_000, 100_000}}}, Size: 1e11})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %q", err, want)
			}
		})
	}
}

func TestTensorsPartLoadsAllOrNothing(t *testing.T) {
	make3 := func(x float32) []Tensor {
		return []Tensor{{"a", []int{2}, []float32{x, x + 1}}, {"b", []int{1}, []float32{x}}, {"c", []int{}, []float32{x}}}
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
	if _, err := load(TensorsPart("w.safetensors", other)); err == nil || errors.Is(err, checkpoint.ErrFormat) || !strings.HasSuffix(err.Error(), `tensor "c": unknown, must not be in the file`) {
		t.Error(err)
	}
	// Numbers from which no update can continue are refused and change nothing.
	for _, c := range []struct {
		name string
		v    float64
		says string
	}{
		{"a", math.NaN(), "a: number 1 is NaN, must be -3.4"}, {"b", math.Inf(-1), "b: number 1 is -Inf, "}, {"square_avg", -1e-30, "square_avg: number 1 is -1e-30, must be 0 to 3.4"},
		{"v", math.Inf(1), "v: number 1 is +Inf, "}, {"grad_avg", -1, ""}, {"sum", 0, ""},
	} {
		forged := []Tensor{{c.name, []int{2}, []float32{0, float32(c.v)}}}
		into := []Tensor{{c.name, []int{2}, []float32{5, 6}}}
		_, err := TensorsPart("w", into).Read(reading(t, forged))
		if (c.says == "") != (err == nil) || err != nil && !strings.HasPrefix(err.Error(), c.says) || into[0].Data[0] != 5 {
			t.Errorf("%v, must be %q; %v", err, c.says, into)
		}
	}
	missing := TensorsPart("x.safetensors", to)
	missing.Optional = true
	if adopt, err := load(missing); err != nil || adopt == nil {
		t.Error(err)
	} else if adopt(); !reflect.DeepEqual(to, from) {
		t.Error("a missing part changed a tensor")
	}
}

// Accepted bytes are the bytes of a written file.
func FuzzReadSafetensors(f *testing.F) {
	f.Add(written(f, exampleTensors))
	f.Add(written(f, nil))
	f.Add([]byte("\x02\x00\x00\x00\x00\x00\x00\x00{}"))
	f.Fuzz(func(t *testing.T, file []byte) {
		var ts []Tensor
		var err error
		bounded(t, func() { ts, err = readAs(bytes.NewReader(file), int64(len(file)), exampleTensors) })
		if err != nil {
			return
		}
		again, err := readAs(bytes.NewReader(written(t, ts)), int64(len(written(t, ts))), exampleTensors)
		if err != nil {
			t.Fatal(err)
		}
		for i := range ts { // compare bits, because NaN differs from itself
			if !slices.EqualFunc(ts[i].Data, again[i].Data, func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }) {
				t.Fatalf("%v after %v", again[i], ts[i])
			}
		}
	})
}
