// Command capi is libpaceline: the C interface of include/paceline.h over
// package core/dqn, built with -buildmode=c-shared.
//
//	host
//	  | include/paceline.h
//	shim.c         one function for each of the header's: fork check, NULL and
//	  |            size checks, floating-point mode, the thread's error text
//	  | pacelineGo...: hidden by exports.map
//	export_*.go    one file for each noun: handle -> object, core's error -> status
//	  |
//	core/dqn, core/vec
//	  | env.Env
//	envtable.go, trampoline.c   the host's environments, called back
//
// What holds here:
//
//   - Go never owns memory that C reads later, and C never holds a Go pointer
//     beyond a call. Handles are numbers (registry.go); shared rows are mapped
//     memory (memory.go); texts are copied.
//   - Every entry recovers. A panic becomes PACELINE_EPANIC and spoils the handle
//     it happened on, no other.
//   - What can be answered without Go is: in a child of fork() the scheduler has
//     no threads, and entering it would hang.
//   - No signal is asked for beyond the five that Go takes in every library
//     (SIGSEGV, SIGBUS, SIGFPE, SIGPIPE, SIGURG), nothing is printed, and no logic
//     lives here that a Go program would want: that belongs into core.
package main

func main() {}
