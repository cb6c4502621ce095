package capi

/*
#include "bridge.h"
*/
import "C"

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"unsafe"

	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/param"
)

// status is the code for an error of core or of this package. An error without a case here
// refuses an argument, a setting or the moment of the call.
func status(err error) C.int {
	var (
		panicked *fault.Panic
		handle   *handleError
		callback *callbackError
		failed   *env.Error
		memory   *fault.Memory
		path     *fs.PathError
		link     *os.LinkError
		errno    syscall.Errno
	)
	switch {
	case errors.As(err, &panicked):
		return C.PACELINE_EPANIC
	case errors.As(err, &handle), errors.Is(err, fault.ErrClosed):
		return C.PACELINE_EHANDLE
	case errors.Is(err, fault.ErrBusy):
		return C.PACELINE_EBUSY
	case errors.Is(err, fault.ErrTimedOut):
		return C.PACELINE_ETIMEDOUT
	case errors.Is(err, fault.ErrStopped):
		return C.PACELINE_ESTOPPED
	case errors.Is(err, fault.ErrNotFinite):
		return C.PACELINE_ENAN
	case errors.As(err, &callback):
		return C.PACELINE_ECALLBACK
	case errors.As(err, &memory), errors.Is(err, syscall.ENOMEM):
		return C.PACELINE_ENOMEM
	case errors.Is(err, checkpoint.ErrVersion), errors.Is(err, checkpoint.ErrOld):
		return C.PACELINE_EVERSION
	case errors.Is(err, checkpoint.ErrFormat), errors.As(err, &path), errors.As(err, &link), errors.As(err, &errno):
		return C.PACELINE_EIO
	case errors.Is(err, param.ErrStale):
		return C.PACELINE_ESTALE
	case errors.Is(err, fault.ErrNoneAllowed):
		return C.PACELINE_EINVAL
	case errors.As(err, &failed), errors.Is(err, fault.ErrDeviceLost):
		return C.PACELINE_EFAIL
	}
	return C.PACELINE_EINVAL
}

var oneLine = strings.NewReplacer("\n", "; ", "\x00", "")

// report writes err and the number of its environment or row to why, and returns the status of err.
// Every exported function ends with report. A text that is too long is cut between two characters.
func report(err error, why *C.pl_error) C.int {
	if err == nil {
		return C.PACELINE_OK
	}
	why.index = -1
	var failed *env.Error
	if errors.As(err, &failed) {
		why.index = C.int64_t(failed.Index)
	}
	var refused *env.RowError
	if errors.As(err, &refused) {
		why.index = C.int64_t(refused.Index)
	}
	to := unsafe.Slice((*byte)(unsafe.Pointer(&why.text)), C.PL_TEXT)
	text := oneLine.Replace(err.Error())
	text = strings.ToValidUTF8(text, "?")
	text = strings.ToValidUTF8(text[:min(len(text), len(to)-1)], "")
	to[copy(to, text)] = 0
	return status(err)
}
