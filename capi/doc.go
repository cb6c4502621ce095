// Package capi is the C interface of include/paceline.h. capi/libpaceline builds it as a
// shared library.
//
//	host
//	  | include/paceline.h
//	shim_*.c       one function for each of the header, one file for each section:
//	  |            fork check, NULL and size checks, floating-point mode, the thread's
//	  |            error (shim.h has the common macros)
//	  | pacelineGo...: hidden by the version script of build.sh
//	export_*.go    one file for each kind of handle: handle -> object, core's error -> status
//	  |
//	core/train, core/policy, core/vec, core/atari
//	  | env.Env
//	envtable.go, trampoline.c   calls of the host's environments
//
// The host is the program that has loaded the library. Invariants:
//
//   - Go owns no memory that C reads after a call, and C keeps no Go pointer after a
//     call. Handles are ids (registry.go) and texts are copies. Rows belong to the host;
//     the library accesses them during a call only, offered rows until they are received.
//   - Every exported function recovers from panics. A panic becomes PACELINE_EPANIC and
//     makes that handle unusable, and no other handle. After a panic of an environment every
//     handle stays usable (package fault).
//   - Functions that can do without Go do not call Go. In a child of fork() Go's scheduler
//     has no threads, and a call into Go would hang.
//   - The library handles only the five signals that Go handles in every library (SIGSEGV,
//     SIGBUS, SIGFPE, SIGPIPE, SIGURG). The host's signal masks stay as they are (thread.c,
//     loading.c). Nothing is printed.
//   - Logic that a Go program could use is in core, not here.
//   - This package names no method of learning and no environment. libpaceline imports
//     the library's methods and environments, which register themselves.
package capi

import _ "github.com/paceline-rl/paceline/include" // rebuild when paceline.h changes
