// Package rng gives every source of chance its own named stream.
//
// A run has one seed. Each stream is derived from (seed, name, index) and from
// nothing else, so two streams never share state and drawing more from one
// never shifts another: turning evaluation on, or adding a worker thread, leaves
// training untouched. The names in use are
//
//	"explore", i   environment i: whether it explores, and its random actions
//	"env", i       environment i: the dynamics of the environment itself
//	"replay"       minibatch indices
//	"weights"      initial weights
//	"eval", i      evaluation: dynamics and exploration of evaluation environment i
//
// The generator is PCG-DXSM as in math/rand/v2 (its output is part of Go's
// compatibility promise); the conversions to floats and bounded integers are
// ours, so that a recorded run does not depend on a library's choices. A
// Stream is not safe for concurrent use: each has one owner.
package rng

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"
	"math/rand/v2"
)

// StateSize is the length in bytes of a marshalled Stream.
const StateSize = 16

// Stream is one deterministic sequence of random numbers.
type Stream struct{ pcg rand.PCG }

// New derives the stream called name (and index, for streams that come in
// rows) from the run's seed.
func New(seed uint64, name string, index int) *Stream {
	buf := make([]byte, 0, 16+len(name))
	buf = binary.LittleEndian.AppendUint64(buf, seed)
	buf = binary.LittleEndian.AppendUint64(buf, uint64(index))
	buf = append(buf, name...)
	sum := sha256.Sum256(buf)
	s := new(Stream)
	s.pcg.Seed(binary.LittleEndian.Uint64(sum[:8]), binary.LittleEndian.Uint64(sum[8:16]))
	return s
}

// Uint64 returns 64 uniform bits.
func (s *Stream) Uint64() uint64 { return s.pcg.Uint64() }

// Float64 returns a uniform number in [0, 1) with 53 random bits.
func (s *Stream) Float64() float64 { return float64(s.pcg.Uint64()>>11) * 0x1p-53 }

// Uniform returns a uniform number in [lo, hi).
func (s *Stream) Uniform(lo, hi float64) float64 { return lo + float64((hi-lo)*s.Float64()) }

// Intn returns a uniform integer in [0, n), without modulo bias. It panics if
// n < 1.
func (s *Stream) Intn(n int) int {
	if n < 1 {
		panic("rng: Intn needs n >= 1")
	}
	// Lemire's multiply-shift: the high word is the result, the low word says
	// whether this draw lies in the uneven remainder and must be repeated.
	bound := uint64(n)
	hi, lo := bits.Mul64(s.pcg.Uint64(), bound)
	if lo < bound {
		for threshold := -bound % bound; lo < threshold; {
			hi, lo = bits.Mul64(s.pcg.Uint64(), bound)
		}
	}
	return int(hi)
}

// MarshalBinary returns the stream's position as StateSize bytes.
func (s *Stream) MarshalBinary() ([]byte, error) {
	b, err := s.pcg.MarshalBinary()
	if err != nil {
		return nil, err
	}
	return b[len(b)-StateSize:], nil // drop the library's "pcg:" tag
}

// UnmarshalBinary continues from a position that MarshalBinary returned.
func (s *Stream) UnmarshalBinary(b []byte) error {
	if len(b) != StateSize {
		return fmt.Errorf("rng state: %d bytes, must be %d", len(b), StateSize)
	}
	return s.pcg.UnmarshalBinary(append([]byte("pcg:"), b...))
}
