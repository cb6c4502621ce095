// Package rng gives each source of randomness its own named stream.
//
// A run has one seed. A stream is a function of (seed, name, index), so streams share no state, and
// a draw from one stream does not change another stream. For example, evaluation does not change
// training. The names in use are
//
//	"explore", i      the actions of environment i: exploration and sampling
//	"env", i          the dynamics of environment i
//	"start"           the random first steps of an environment (vec.Decorrelate)
//	"replay"          the indices of minibatches from a replay memory
//	"minibatches", i  the order of a rollout's rows in epoch i
//	"weights"         the initial weights
//	"noise", i        the seed of the noise of learner i, from 1 on; learner 0 has the run's
//	"noise act", i    the noise of a network that acts, in the round that begins at step i
//	"noise online", i, "noise choice", i, "noise target", i   the noise of the networks of update i
//	"act", i          the action of row i in policy.Act
//	"latency", i      the durations of learner i in virtual time
//	"eval", i         the dynamics and the exploration of evaluation episode i
//
// The generator is PCG-DXSM of math/rand/v2, whose output is part of Go's compatibility promise.
// The conversions to floats and bounded integers are in this package, so that a recorded run does
// not depend on the choices of a library. A Stream must not be used concurrently.
package rng

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"
	"math/rand/v2"
)

// StateSize is the number of bytes that MarshalBinary returns.
const StateSize = 16

// Stream is one deterministic sequence of random numbers.
type Stream struct{ pcg rand.PCG }

// New returns the stream of the run's seed, the name and the index. index is 0 if there is only one
// stream of that name.
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
	// Lemire's multiply-shift: the high word is the result. If the low word is below the threshold,
	// the draw is in the uneven remainder and must be repeated.
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

// UnmarshalBinary sets the stream to a position that MarshalBinary returned.
func (s *Stream) UnmarshalBinary(b []byte) error {
	if len(b) != StateSize {
		return fmt.Errorf("rng state: %d bytes, must be %d", len(b), StateSize)
	}
	return s.pcg.UnmarshalBinary(append([]byte("pcg:"), b...))
}
