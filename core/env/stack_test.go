package env

import (
	"bytes"
	"testing"
)

// The reference is a list of all frames; its last three are the observation.
func TestStackHoldsTheNewestFrames(t *testing.T) {
	const depth, size = 3, 2
	s := NewStack(depth, size)
	obs := make([]byte, depth*size)
	for range 3 { // episodes
		s.Clear()
		history := make([]byte, depth*size)
		for k := range byte(10) {
			frame := []byte{2*k + 1, 2*k + 2}
			copy(s.Next(), frame)
			history = append(history, frame...)
			want := history[len(history)-depth*size:]
			if s.Write(obs); !bytes.Equal(obs, want) {
				t.Fatalf("frame %d: %v, want %v", k, obs, want)
			}
			if got := s.Append(nil); !bytes.Equal(got, want) {
				t.Fatalf("frame %d: appended %v, want %v", k, got, want)
			}
			other := NewStack(depth, size)
			if err := other.Restore(want); err != nil {
				t.Fatal(err)
			}
			if s = other; s.Restore(want[1:]) == nil {
				t.Fatal("a short state was accepted")
			}
		}
	}
}
