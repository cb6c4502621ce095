//go:build !gpu || !cgo || !linux

package cuda

import (
	"errors"
	"testing"
)

func TestCallsAreRefusedWithoutTheTag(t *testing.T) {
	if _, err := Devices(); Built || !errors.Is(err, ErrNotBuilt) {
		t.Errorf("Devices: %v", err)
	}
	if d, err := Open(0); d != nil || !errors.Is(err, ErrNotBuilt) {
		t.Errorf("Open: %v, %v", d, err)
	}
}
