package vec

import (
	"cmp"
	"errors"
	"slices"
	"sync"

	"github.com/paceline-rl/paceline/core/env"
)

// Failure lists the environments that failed or panicked in a Reset, Step, StepOne or Recv, in
// ascending order. It has at least one row. The rows of the other environments are valid. Error
// returns the text of the first row, and errors.As finds the *env.Error of the first row.
//
// A failed environment must be reset before its next step. Its row is undefined, unless Stepped is
// true.
type Failure struct{ Rows []FailedRow }

// FailedRow is one environment that failed.
type FailedRow struct {
	Err *env.Error // the environment's index and its error
	// Stepped says that the step itself succeeded and ended its episode, and that the autoreset
	// after it failed (SameStep). The step counts: Rewards, Ends, FinalObs and FinalInfos of the
	// row are those of the step. Starts is false. Obs and Infos are undefined.
	Stepped bool
}

func (f *Failure) Error() string { return f.Rows[0].Err.Error() }
func (f *Failure) Unwrap() error { return f.Rows[0].Err }

// failureOf returns the Failure of one row. err holds an *env.Error.
func failureOf(err error, stepped bool) *Failure {
	var e *env.Error
	errors.As(err, &e)
	return &Failure{Rows: []FailedRow{{Err: e, Stepped: stepped}}}
}

// failures collects the rows that fail in one call, on any thread.
type failures struct {
	mu   sync.Mutex
	rows []FailedRow
}

// add adds a row that failed. It does nothing if err is nil.
func (f *failures) add(err error, stepped bool) {
	if err == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rows = append(f.rows, failureOf(err, stepped).Rows...)
}

// flush returns a *Failure of the rows added since the last flush, or nil without rows.
func (f *failures) flush() error {
	if len(f.rows) == 0 {
		return nil
	}
	all := &Failure{Rows: f.rows}
	f.rows = nil
	slices.SortFunc(all.Rows, func(a, b FailedRow) int { return cmp.Compare(a.Err.Index, b.Err.Index) })
	return all
}
