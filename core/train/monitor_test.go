package train

import "testing"

// A panic while an episode is recorded releases the lock that Stats needs.
func TestEndedReleasesTheLockOnPanic(t *testing.T) {
	m := newMonitor(100)
	m.window = -1 // no setting has this value
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic: the test proves nothing")
			}
		}()
		m.Ended(Episode{})
	}()
	if !m.mu.TryLock() {
		t.Error("the lock is held")
	}
}
