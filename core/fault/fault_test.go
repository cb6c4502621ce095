package fault

import (
	"errors"
	"strings"
	"testing"
)

func panics(value any) (err error) {
	defer Recover(&err)
	panic(value)
}

func TestRecoverTurnsAPanicIntoAnError(t *testing.T) {
	var p *Panic
	if err := panics("a bug"); !errors.As(err, &p) || p.Value != "a bug" || !strings.Contains(string(p.Stack), "fault.panics") {
		t.Errorf("%v, must have the value and the stack of the panic", err)
	}
	if err := panics(nil); Spoils(err) == nil {
		t.Errorf("panic(nil) gives %v, must be an error", err)
	}
	refused := errors.New("refused")
	returns := func() (err error) {
		defer Recover(&err)
		return refused
	}
	if err := returns(); err != refused {
		t.Errorf("%v without a panic, must be the error that was returned", err)
	}
}
