package nn

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/paceline-rl/paceline/core/checkpoint"
)

// A safetensors file is the length of a header (8 bytes, little-endian), the
// header (a JSON object from names to dtype, shape and byte range, padded with
// spaces), and the raw little-endian data. There is no small Go library for it
// among those that are kept up; the format is shorter than an import.

// Tensor is a named array. Data is []float32, []uint8, []int32 or []int64
// (dtypes F32, U8, I32, I64), row-major, as long as the product of Shape.
type Tensor struct {
	Name  string
	Shape []int
	Data  any
}

const (
	// metadataKey is the one name in a header that is not a tensor.
	metadataKey = "__metadata__"
	// maxHeader is the limit of the reference implementation.
	maxHeader = 100_000_000
)

// TensorInfo is what a reader expects of a tensor.
type TensorInfo struct {
	Name  string
	DType string // F32, U8, I32 or I64
	Shape []int
}

type tensorHeader struct {
	DType   string   `json:"dtype"`
	Shape   []int    `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"`
}

// dtypeOf returns the file's name of the type of data, its length and the size
// of an element.
func dtypeOf(data any) (name string, n, size int) {
	switch d := data.(type) {
	case []float32:
		return "F32", len(d), 4
	case []uint8:
		return "U8", len(d), 1
	case []int32:
		return "I32", len(d), 4
	case []int64:
		return "I64", len(d), 8
	}
	return "", 0, 0
}

// widths are the sizes of an element.
var widths = map[string]int64{"F32": 4, "U8": 1, "I32": 4, "I64": 8}

// readData reads n elements.
func readData(r io.Reader, dtype string, n int) (any, error) {
	switch dtype {
	case "F32":
		return fill(r, make([]float32, n), 4)
	case "U8":
		return fill(r, make([]uint8, n), 1)
	case "I32":
		return fill(r, make([]int32, n), 4)
	default:
		return fill(r, make([]int64, n), 8)
	}
}

// fill reads data through a small buffer: binary.Read would take as much memory
// again as data has.
func fill[T any](r io.Reader, data []T, width int) (any, error) {
	const most = 1 << 16
	buf := make([]byte, min(most, len(data)*width))
	for rest := data; len(rest) > 0; {
		n := min(len(rest), most/width)
		if _, err := io.ReadFull(r, buf[:n*width]); err != nil {
			return nil, err
		}
		if _, err := binary.Decode(buf[:n*width], binary.LittleEndian, rest[:n]); err != nil {
			return nil, err
		}
		rest = rest[n:]
	}
	return data, nil
}

// elements returns the product of shape, or -1 if it is not one.
func elements(shape []int) int {
	n := 1
	for _, d := range shape {
		if d < 0 || d > 0 && n > (1<<40)/d {
			return -1
		}
		n *= d
	}
	return n
}

// WriteSafetensors writes the tensors in their order, and meta (may be nil) as
// the header's metadata. The same input gives the same bytes.
func WriteSafetensors(w io.Writer, tensors []Tensor, meta map[string]string) error {
	var header bytes.Buffer
	header.WriteByte('{')
	entry := func(name string, value any) error {
		k, err := json.Marshal(name)
		if err != nil {
			return err
		}
		v, err := json.Marshal(value) // sorts the keys of a map
		if err != nil {
			return err
		}
		if header.Len() > 1 {
			header.WriteByte(',')
		}
		header.Write(k)
		header.WriteByte(':')
		header.Write(v)
		return nil
	}
	if len(meta) > 0 {
		if err := entry(metadataKey, meta); err != nil {
			return err
		}
	}
	seen := map[string]bool{metadataKey: true}
	var at int64
	for _, t := range tensors {
		dtype, n, size := dtypeOf(t.Data)
		if dtype == "" || n != elements(t.Shape) {
			return fmt.Errorf("tensor %q: %T of length %d, must be []float32, []uint8, []int32 or []int64 of shape %v", t.Name, t.Data, n, t.Shape)
		}
		if seen[t.Name] {
			return fmt.Errorf("tensor %q: name given twice or reserved", t.Name)
		}
		seen[t.Name] = true
		shape := t.Shape
		if shape == nil {
			shape = []int{} // a scalar is [], never null
		}
		end := at + int64(n*size)
		if err := entry(t.Name, tensorHeader{dtype, shape, [2]int64{at, end}}); err != nil {
			return err
		}
		at = end
	}
	header.WriteByte('}')
	for header.Len()%8 != 0 {
		header.WriteByte(' ')
	}
	if header.Len() > maxHeader {
		return fmt.Errorf("safetensors header: %d bytes, must be at most %d", header.Len(), maxHeader)
	}
	if err := binary.Write(w, binary.LittleEndian, uint64(header.Len())); err != nil {
		return err
	}
	if _, err := w.Write(header.Bytes()); err != nil {
		return err
	}
	for _, t := range tensors {
		if err := binary.Write(w, binary.LittleEndian, t.Data); err != nil {
			return err
		}
	}
	return nil
}

// ReadSafetensors reads a whole file of n bytes: the tensors in the order of their
// data, and the metadata (nil if there are none). It is strict: a file that is
// truncated, longer than its header says, with gaps or overlaps between tensors,
// or with another dtype than Tensor allows is an error. It takes memory in
// proportion to n.
func ReadSafetensors(r io.Reader, n int64) ([]Tensor, map[string]string, error) {
	h, err := readHeader(r, n, maxHeader)
	if err != nil {
		return nil, nil, err
	}
	tensors, err := h.read(r)
	return tensors, h.meta, err
}

// ReadTensors reads a file of n bytes that must hold the tensors of want and no
// others, in any order, and returns them in want's. It takes memory only for
// them, and only after the header and n have said that they are there.
func ReadTensors(r io.Reader, n int64, want []TensorInfo) ([]Tensor, error) {
	most := 4096 // for metadata
	for _, w := range want {
		most += 128 + 6*len(w.Name) + 24*len(w.Shape) // escapes and digits at their longest
	}
	h, err := readHeader(r, n, min(most, maxHeader))
	if err != nil {
		return nil, err
	}
	place := make(map[string]int, len(want))
	for i, w := range want {
		place[w.Name] = i
		switch have, ok := h.tensors[w.Name]; {
		case !ok:
			return nil, fmt.Errorf("tensor %q: missing", w.Name)
		case have.DType != w.DType:
			return nil, fmt.Errorf("tensor %q: dtype %s, must be %s", w.Name, have.DType, w.DType)
		case !slices.Equal(have.Shape, w.Shape):
			return nil, fmt.Errorf("tensor %q: shape %v, must be %v", w.Name, have.Shape, w.Shape)
		}
	}
	for _, name := range h.names {
		if _, ok := place[name]; !ok {
			return nil, fmt.Errorf("tensor %q: there must be none of this name", name)
		}
	}
	read, err := h.read(r)
	if err != nil {
		return nil, err
	}
	tensors := make([]Tensor, len(want))
	for _, t := range read {
		tensors[place[t.Name]] = t
	}
	return tensors, nil
}

// LayoutInfo returns what Params.Tensors(prefix) of parameters of this layout
// would be, without making them: what a file must hold before they are made.
func LayoutInfo(l *Layout, prefix string) []TensorInfo {
	infos := make([]TensorInfo, len(l.Params))
	for i, p := range l.Params {
		infos[i] = TensorInfo{Name: prefix + p.Name, DType: "F32", Shape: p.Shape}
	}
	return infos
}

// TensorsPart returns a part of a checkpoint (version 1, not optional; the caller
// may change both) that holds the tensors, as safetensors. They are views: Write
// reads their data and adopt overwrites them, until then Read keeps copies. The
// file must have the same names, dtypes and shapes. Where the part is optional
// and missing, nothing changes.
func TensorsPart(name string, tensors []Tensor) checkpoint.Part {
	return checkpoint.Part{Name: name, Version: 1,
		Write: func(w io.Writer) error { return WriteSafetensors(w, tensors, nil) },
		Read: func(r io.Reader, n int64) (adopt func(), err error) {
			if r == nil {
				return nil, nil
			}
			want := make([]TensorInfo, len(tensors))
			for i, t := range tensors {
				dtype, _, _ := dtypeOf(t.Data)
				want[i] = TensorInfo{t.Name, dtype, t.Shape}
			}
			staged, err := ReadTensors(r, n, want)
			if err != nil {
				return nil, err
			}
			return func() {
				for i, t := range tensors {
					copyData(t.Data, staged[i].Data)
				}
			}, nil
		},
	}
}

func copyData(to, from any) {
	switch to := to.(type) {
	case []float32:
		copy(to, from.([]float32))
	case []uint8:
		copy(to, from.([]uint8))
	case []int32:
		copy(to, from.([]int32))
	case []int64:
		copy(to, from.([]int64))
	}
}

// header is a checked one: its tensors lie side by side and fill the file.
type header struct {
	tensors map[string]tensorHeader
	names   []string // in the order of their data
	meta    map[string]string
}

// readHeader reads the header of a file of n bytes, which may be most bytes long.
func readHeader(r io.Reader, n int64, most int) (*header, error) {
	var size uint64
	if err := binary.Read(r, binary.LittleEndian, &size); err != nil {
		return nil, truncated("header length", err)
	}
	if size < 2 || size > maxHeader {
		return nil, fmt.Errorf("safetensors header: %d bytes, must be 2 to %d: not a safetensors file", size, maxHeader)
	}
	if int64(size) > n-8 {
		return nil, truncated("header", io.ErrUnexpectedEOF)
	}
	if size > uint64(most) {
		return nil, fmt.Errorf("safetensors header: %d bytes, must be at most %d for these tensors", size, most)
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, truncated("header", err)
	}
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(text, &entries); err != nil || entries == nil {
		return nil, fmt.Errorf("safetensors header: not a JSON object (%v)", err)
	}
	h := &header{tensors: make(map[string]tensorHeader, len(entries))}
	for name, text := range entries {
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		var err error
		if name == metadataKey {
			err = d.Decode(&h.meta)
		} else {
			var t tensorHeader
			err = d.Decode(&t)
			h.tensors[name] = t
			h.names = append(h.names, name)
		}
		if err != nil {
			return nil, fmt.Errorf("safetensors header: %q: %v", name, err)
		}
	}
	slices.SortFunc(h.names, func(a, b string) int {
		x, y := h.tensors[a].Offsets, h.tensors[b].Offsets
		return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1]), cmp.Compare(a, b))
	})
	var at int64
	for _, name := range h.names {
		t := h.tensors[name]
		count, width := int64(elements(t.Shape)), widths[t.DType]
		switch {
		case width == 0:
			return nil, fmt.Errorf("tensor %q: dtype %q, must be F32, U8, I32 or I64", name, t.DType)
		case t.Shape == nil || count < 0:
			return nil, fmt.Errorf("tensor %q: shape %v is not one", name, t.Shape)
		case t.Offsets[0] != at || t.Offsets[1]-at != count*width:
			return nil, fmt.Errorf("tensor %q: bytes %d to %d, must be %d to %d", name, t.Offsets[0], t.Offsets[1], at, at+count*width)
		case t.Offsets[1] > n-8-int64(size):
			return nil, truncated(fmt.Sprintf("tensor %q", name), io.ErrUnexpectedEOF)
		}
		at = t.Offsets[1]
	}
	if at != n-8-int64(size) {
		return nil, fmt.Errorf("safetensors: the file goes on after its last tensor")
	}
	return h, nil
}

// read reads the tensors behind the header.
func (h *header) read(r io.Reader) ([]Tensor, error) {
	tensors := make([]Tensor, 0, len(h.names))
	for _, name := range h.names {
		t := h.tensors[name]
		data, err := readData(r, t.DType, elements(t.Shape))
		if err != nil {
			return nil, truncated(fmt.Sprintf("tensor %q", name), err)
		}
		tensors = append(tensors, Tensor{Name: name, Shape: t.Shape, Data: data})
	}
	return tensors, nil
}

func truncated(what string, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("safetensors: truncated in the %s", what)
	}
	return err
}
