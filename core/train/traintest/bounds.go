package traintest

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// otherBounds loads a file into a trainer whose box has other bounds, which is refused, and into
// one with the same bounds.
func otherBounds(t *testing.T, s Subject) {
	k := s.Action.Floats() - 1
	if k < 0 {
		return
	}
	path := filepath.Join(t.TempDir(), "a")
	from := s.newTrainer(t, s.config(t), nil)
	check(t, from.Run(20, 0))
	check(t, from.Save(path, true))
	other := s
	other.Action.High = slices.Clone(s.Action.High)
	other.Action.High[k] += 0.5
	to := other.newTrainer(t, other.config(t), nil)
	if err := to.Load(path); err == nil || !strings.Contains(err.Error(), "environment: the checkpoint has actions whose high[") {
		t.Errorf("%v, must refuse other bounds", err)
	}
	check(t, to.Run(20, 0))
	same := s.newTrainer(t, s.config(t), nil)
	check(t, same.Load(path))
	check(t, same.Run(20, 0))
}
