package nn

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/limits"
)

// A safetensors file is the length of a header (8 bytes, little-endian), the header (a JSON object
// from names to dtype, shape and byte range, padded with spaces) and the little-endian data.

// Tensor is a named array of float32, row-major, as long as the product of Shape.
type Tensor struct {
	Name  string
	Shape []int
	Data  []float32
}

type tensorHeader struct {
	DType   string   `json:"dtype"`
	Shape   []int    `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"`
}

// writeTensors writes the tensors in their order. The same input gives the same bytes.
func writeTensors(w io.Writer, tensors []Tensor) error {
	header := []byte{'{'}
	var at int64
	for i, t := range tensors {
		if len(t.Data) != elements(t.Shape) {
			return fmt.Errorf("tensor %q: %d numbers, must be %d for shape %v", t.Name, len(t.Data), elements(t.Shape), t.Shape)
		}
		if slices.ContainsFunc(tensors[:i], func(o Tensor) bool { return o.Name == t.Name }) {
			return fmt.Errorf("tensor %q: name given twice", t.Name)
		}
		end := at + 4*int64(len(t.Data))
		name, _ := json.Marshal(t.Name) // Marshal accepts every string
		entry, _ := json.Marshal(tensorHeader{"F32", t.Shape, [2]int64{at, end}})
		if i > 0 {
			header = append(header, ',')
		}
		header = append(append(append(header, name...), ':'), entry...)
		at = end
	}
	header = append(header, '}')
	for len(header)%8 != 0 {
		header = append(header, ' ')
	}
	if err := binary.Write(w, binary.LittleEndian, uint64(len(header))); err != nil {
		return err
	}
	if _, err := w.Write(header); err != nil {
		return err
	}
	for _, t := range tensors {
		for data := range slices.Chunk(t.Data, 1<<14) { // binary.Write copies its argument
			if err := binary.Write(w, binary.LittleEndian, data); err != nil {
				return err
			}
		}
	}
	return nil
}

func elements(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// readHeader reads the header of a file of n bytes. The file must have exactly the tensors of want,
// in their order.
func readHeader(r io.Reader, n int64, want []Tensor) error {
	var size uint64
	if err := binary.Read(r, binary.LittleEndian, &size); err != nil {
		return truncated("header length", err)
	}
	most := int64(4096) // a few unknown tensors fit, so that the error can name one
	for _, w := range want {
		most += 128 + 6*int64(len(w.Name)) + 24*int64(len(w.Shape)) // the longest escapes and digits
	}
	if size > uint64(most) {
		return fmt.Errorf("safetensors header: %d bytes, must be at most %d for these tensors", size, most)
	}
	var entries map[string]tensorHeader
	if err := checkpoint.ReadJSON(r, int64(size), most, &entries); err != nil {
		return truncated("header", fmt.Errorf("safetensors header: %w", err))
	}
	var at int64
	for _, w := range want {
		have, ok := entries[w.Name]
		end := at + 4*int64(elements(w.Shape))
		switch {
		case !ok:
			return fmt.Errorf("tensor %q: missing", w.Name)
		case have.DType != "F32":
			return fmt.Errorf("tensor %q: dtype %s, must be F32", w.Name, have.DType)
		case !slices.Equal(have.Shape, w.Shape):
			return fmt.Errorf("tensor %q: shape %v, must be %v", w.Name, have.Shape, w.Shape)
		case have.Offsets != [2]int64{at, end}:
			return fmt.Errorf("tensor %q: bytes %d to %d, must be %d to %d", w.Name, have.Offsets[0], have.Offsets[1], at, end)
		}
		delete(entries, w.Name)
		at = end
	}
	if len(entries) > 0 {
		return fmt.Errorf("tensor %q: unknown, must not be in the file", slices.Min(slices.Collect(maps.Keys(entries))))
	}
	if whole := 8 + int64(size) + at; n != whole {
		return fmt.Errorf("safetensors: %d bytes, must be %d", n, whole)
	}
	return nil
}

// squares names the arrays of optimisers and of param.Local that are sums or averages of squares.
var squares = []string{"v", "sum", "square_avg", "sum_g2"}

// endless names AdaGrad's sum, which is never reset and can overflow. Its parameter then stays as
// it is.
const endless = "sum"

// readFloats reads the data of the tensor called name. Numbers must be finite, but that of an
// endless sum, and squares must not be negative. A small buffer saves the copy that binary.Read
// would allocate.
func readFloats(r io.Reader, name string, data []float32) error {
	low, high := float32(-math.MaxFloat32), float32(math.MaxFloat32)
	if slices.Contains(squares, name) {
		low = 0
	}
	if name == endless {
		high = float32(math.Inf(1))
	}
	var buf [1 << 16]byte
	for first := 0; len(data) > 0; {
		n := min(len(data), len(buf)/4)
		if _, err := io.ReadFull(r, buf[:4*n]); err != nil {
			return truncated("tensors", err)
		}
		if _, err := binary.Decode(buf[:4*n], binary.LittleEndian, data[:n]); err != nil {
			return err
		}
		for i, v := range data[:n] {
			if !(v >= low && v <= high) {
				return fmt.Errorf("%s: number %d is %v, must be %g to %g", name, first+i, v, low, high)
			}
		}
		data, first = data[n:], first+n
	}
	return nil
}

func truncated(what string, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("safetensors: truncated in the %s", what)
	}
	return err
}

// TensorsPart returns a part of a checkpoint that holds the tensors as safetensors: version 1, not
// optional; the caller may change both. Write reads the data of the tensors. Read stores copies,
// and adopt copies them into the tensors. The file must have the same names and shapes, and finite
// numbers. If the part is optional and missing, nothing changes.
func TensorsPart(name string, tensors []Tensor) checkpoint.Part {
	return checkpoint.Part{Name: name, Version: 1,
		Write: func(w io.Writer) error { return writeTensors(w, tensors) },
		Read: func(r io.Reader, n int64) (adopt func(), err error) {
			if r == nil {
				return nil, nil
			}
			if err := readHeader(r, n, tensors); err != nil {
				return nil, err
			}
			if err := limits.Admit(limits.Part{Setting: "the copy of " + name, Bytes: n}); err != nil {
				return nil, err
			}
			staged := make([][]float32, len(tensors))
			for i, t := range tensors {
				staged[i] = make([]float32, len(t.Data))
				if err := readFloats(r, t.Name, staged[i]); err != nil {
					return nil, err
				}
			}
			return func() {
				for i, t := range tensors {
					copy(t.Data, staged[i])
				}
			}, nil
		},
	}
}

// ParamsPart returns a part of a checkpoint that holds a parameter set.
func ParamsPart(name string, p *Params) checkpoint.Part {
	part := TensorsPart(name, p.Tensors())
	read := part.Read
	part.Read = func(r io.Reader, n int64) (func(), error) {
		adopt, err := read(r, n)
		if adopt == nil || err != nil {
			return nil, err
		}
		return func() { adopt(); p.Wrote() }, nil
	}
	return part
}

// ReadParams reads a file of n bytes that TensorsPart wrote from Params.Tensors of this layout. It
// allocates the parameters after it has checked that the file has them.
func ReadParams(r io.Reader, n int64, l *Layout) (*Params, error) {
	if err := readHeader(r, n, l.tensors()); err != nil {
		return nil, err
	}
	if err := limits.Admit(limits.Part{Setting: "parameters", Bytes: n}); err != nil {
		return nil, err
	}
	p := NewParams(l)
	return p, readFloats(r, "parameters", p.Host()) // the file has the pieces in layout order
}
