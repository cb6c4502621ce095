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

func makeData(dtype string, n int) (data any, size int) {
	switch dtype {
	case "F32":
		return make([]float32, n), 4
	case "U8":
		return make([]uint8, n), 1
	case "I32":
		return make([]int32, n), 4
	case "I64":
		return make([]int64, n), 8
	}
	return nil, 0
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

// ReadSafetensors reads a whole file: the tensors in the order of their data,
// and the metadata (nil if there are none). It is strict: a file that is
// truncated, longer than its header says, with gaps or overlaps between
// tensors, or with another dtype than Tensor allows is an error.
func ReadSafetensors(r io.Reader) ([]Tensor, map[string]string, error) {
	var size uint64
	if err := binary.Read(r, binary.LittleEndian, &size); err != nil {
		return nil, nil, truncated("header length", err)
	}
	if size < 2 || size > maxHeader {
		return nil, nil, fmt.Errorf("safetensors header: %d bytes, must be 2 to %d: not a safetensors file", size, maxHeader)
	}
	var raw bytes.Buffer // grows with what is really there
	if _, err := io.CopyN(&raw, r, int64(size)); err != nil {
		return nil, nil, truncated("header", err)
	}
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(raw.Bytes(), &entries); err != nil || entries == nil {
		return nil, nil, fmt.Errorf("safetensors header: not a JSON object (%v)", err)
	}
	var meta map[string]string
	headers := map[string]tensorHeader{}
	var names []string
	for name, text := range entries {
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		var err error
		if name == metadataKey {
			err = d.Decode(&meta)
		} else {
			var h tensorHeader
			err = d.Decode(&h)
			headers[name] = h
			names = append(names, name)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("safetensors header: %q: %v", name, err)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		ha, hb := headers[a].Offsets, headers[b].Offsets
		return cmp.Or(cmp.Compare(ha[0], hb[0]), cmp.Compare(ha[1], hb[1]), cmp.Compare(a, b))
	})
	tensors := make([]Tensor, 0, len(names))
	var at int64
	for _, name := range names {
		h := headers[name]
		n := elements(h.Shape)
		_, width := makeData(h.DType, 0)
		switch {
		case width == 0:
			return nil, nil, fmt.Errorf("tensor %q: dtype %q, must be F32, U8, I32 or I64", name, h.DType)
		case h.Shape == nil || n < 0:
			return nil, nil, fmt.Errorf("tensor %q: shape %v is not one", name, h.Shape)
		case h.Offsets[0] != at || h.Offsets[1]-h.Offsets[0] != int64(n)*int64(width):
			return nil, nil, fmt.Errorf("tensor %q: bytes %d to %d, must be %d to %d", name, h.Offsets[0], h.Offsets[1], at, at+int64(n)*int64(width))
		}
		raw.Reset()
		if _, err := io.CopyN(&raw, r, h.Offsets[1]-at); err != nil {
			return nil, nil, truncated(fmt.Sprintf("tensor %q", name), err)
		}
		data, _ := makeData(h.DType, n)
		if _, err := binary.Decode(raw.Bytes(), binary.LittleEndian, data); err != nil {
			return nil, nil, fmt.Errorf("tensor %q: %v", name, err)
		}
		tensors = append(tensors, Tensor{Name: name, Shape: h.Shape, Data: data})
		at = h.Offsets[1]
	}
	if n, err := io.CopyN(io.Discard, r, 1); n != 0 {
		return nil, nil, fmt.Errorf("safetensors: the file goes on after its last tensor")
	} else if err != io.EOF {
		return nil, nil, err
	}
	return tensors, meta, nil
}

func truncated(what string, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("safetensors: truncated in the %s", what)
	}
	return err
}
