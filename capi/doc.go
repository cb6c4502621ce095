// Package capi is the C interface of include/paceline.h. capi/libpaceline makes the
// shared library of it.
//
//	host
//	  | include/paceline.h
//	shim_*.c       one function for each of the header's, a file for each section:
//	  |            fork check, NULL and size checks, floating-point mode, the thread's
//	  |            error (shim.h has their common shape)
//	  | pacelineGo...: hidden by build.sh's version script
//	export_*.go    one file for each noun: handle -> object, core's error -> status
//	  |
//	core/train, core/policy, core/vec, core/atari
//	  | env.Env
//	envtable.go, trampoline.c   the host's environments, called back
//
// What holds here:
//
//   - Go never owns memory that C reads later, and C never holds a Go pointer
//     beyond a call. Handles are ids (registry.go), texts are copied, rows belong
//     to the host and are read or written during a call only (offered ones: until
//     they are received).
//   - Every entry recovers. A panic becomes PACELINE_EPANIC and spoils the handle
//     it happened on, no other.
//   - What can be answered without Go is: in a child of fork() the scheduler has
//     no threads, and entering it would hang.
//   - No signal is asked for beyond the five that Go takes in every library
//     (SIGSEGV, SIGBUS, SIGFPE, SIGPIPE, SIGURG), the host's signal masks stay as
//     they are (thread.c, float.c), nothing is printed, and no logic lives here that
//     a Go program would want: that belongs into core.
//   - No method of learning and no environment is named here: libpaceline imports
//     those that the library has, and they register themselves.
package capi

import _ "github.com/paceline-rl/paceline/include" // rebuild when paceline.h changes
