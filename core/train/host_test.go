package train

import "testing"

// A panic while an episode is recorded leaves the lock free: Stats is called beside it.
func TestEndedLeavesNoLock(t *testing.T) {
	h := newHost(100)
	h.window = -1 // which no setting may be
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic: the test shows nothing")
			}
		}()
		h.Ended(Episode{})
	}()
	if !h.mu.TryLock() {
		t.Error("the lock is held")
	}
}
