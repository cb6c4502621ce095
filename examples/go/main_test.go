package main

import "testing"

// Both methods learn to walk to the goal.
func TestRun(t *testing.T) {
	if err := run(t.Output()); err != nil {
		t.Error(err)
	}
}
