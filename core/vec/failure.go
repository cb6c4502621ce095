package vec

import (
	"cmp"
	"errors"
	"slices"
	"sync"

	"github.com/paceline-rl/paceline/core/env"
)

// Failure names the rows whose environments failed or panicked in a Reset, Step,
// StepOne or Recv, in ascending order, at least one. The other rows of the call are as
// if nothing had happened. Its text, and the *env.Error that errors.As finds in it, are
// those of the first row.
//
// A failed environment must be reset before its next step. Its row is undefined, unless
// Stepped says that only the reset behind the step failed.
type Failure struct{ Rows []FailedRow }

// FailedRow is one environment that failed.
type FailedRow struct {
	Err *env.Error // the environment's index, and what went wrong
	// Stepped says that the environment took its step and ended its episode (SameStep),
	// and that what failed is the reset behind the end. So the step counts: Rewards,
	// Ends, FinalObs and FinalInfos of the row are the step's, Starts is false, and only
	// Obs and Infos are undefined.
	Stepped bool
}

func (f *Failure) Error() string { return f.Rows[0].Err.Error() }
func (f *Failure) Unwrap() error { return f.Rows[0].Err }

// failureOf is the Failure of one row, whose error is an *env.Error.
func failureOf(err error, stepped bool) *Failure {
	var e *env.Error
	errors.As(err, &e)
	return &Failure{Rows: []FailedRow{{Err: e, Stepped: stepped}}}
}

// failures gathers the rows that fail in one call, on any threads.
type failures struct {
	mu   sync.Mutex
	rows []FailedRow
}

// add takes note of a row that failed; with err nil it does nothing.
func (f *failures) add(err error, stepped bool) {
	if err == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rows = append(f.rows, failureOf(err, stepped).Rows...)
}

// take returns a *Failure of the rows added since the last time, nil if there are none.
func (f *failures) take() error {
	if len(f.rows) == 0 {
		return nil
	}
	all := &Failure{Rows: f.rows}
	f.rows = nil
	slices.SortFunc(all.Rows, func(a, b FailedRow) int { return cmp.Compare(a.Err.Index, b.Err.Index) })
	return all
}
