package env

import "fmt"

// Stack keeps the newest frames of an episode for an observation with an ObsSpec.FrameStack.
// Frames from before the episode are black (zero).
type Stack struct {
	frames []byte // a ring of frames
	size   int    // bytes of a frame
	newest int    // offset of the newest frame
}

// NewStack returns a Stack of depth black frames of size bytes each.
func NewStack(depth, size int) *Stack {
	return &Stack{frames: make([]byte, depth*size), size: size}
}

// Clear makes all frames black.
func (s *Stack) Clear() { clear(s.frames) }

// Next drops the oldest frame and returns its memory. The caller draws the newest frame there.
func (s *Stack) Next() []byte {
	if s.newest += s.size; s.newest == len(s.frames) {
		s.newest = 0
	}
	return s.frames[s.newest : s.newest+s.size]
}

// Repeat adds the newest frame once more.
func (s *Stack) Repeat() {
	newest := s.frames[s.newest : s.newest+s.size]
	copy(s.Next(), newest)
}

// Write writes the stack to an observation, the oldest frame first.
func (s *Stack) Write(obs []byte) {
	oldest := s.newest + s.size
	n := copy(obs, s.frames[oldest:])
	copy(obs[n:], s.frames[:oldest])
}

// Append appends the frames to b, the oldest first. Restore reads them.
func (s *Stack) Append(b []byte) []byte {
	oldest := s.newest + s.size
	return append(append(b, s.frames[oldest:]...), s.frames[:oldest]...)
}

// Restore reads the frames that Append appended.
func (s *Stack) Restore(b []byte) error {
	if len(b) != len(s.frames) {
		return fmt.Errorf("frame stack: %d bytes, must be %d", len(b), len(s.frames))
	}
	copy(s.frames, b)
	s.newest = len(s.frames) - s.size
	return nil
}
