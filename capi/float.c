/*
 * A host may compute with flush-to-zero or another rounding (audio code, some
 * numeric libraries, gcc -ffast-math). The mode is a register of each thread and
 * inherited by the threads it starts, so it would change what is learnt. Three
 * places keep it out: every entry (shim.h) sets ours and restores the host's;
 * around a callback the same (trampoline.c); and the two constructors here make
 * the Go runtime start its first thread, from which all its others descend, in
 * our mode. Go itself never touches the register.
 */
#include "bridge.h"

#include <signal.h>

#include "../core/cpu/float_mode.h"

unsigned pl_float_enter(void) { return (unsigned)paceline_float_enter(PACELINE_FLOAT_DEFAULT); }
void pl_float_leave(unsigned mode) { paceline_float_set(mode); }

static unsigned loader_mode;
static sigset_t loader_mask;

/* Constructors with a priority run before those without, as Go's is. Go's threads inherit
 * the signal mask, too: a signal that is for the process must not end up on one of them,
 * where the host has not blocked it, so they accept those alone that Go itself needs. */
__attribute__((constructor(101))) static void before_go(void) {
  static const int needed[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGURG};
  sigset_t others;
  loader_mode = pl_float_enter();
  sigfillset(&others);
  for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) sigdelset(&others, needed[i]);
  pthread_sigmask(SIG_BLOCK, &others, &loader_mask);
}

/* Go's entry comes first among those without, as the linker puts Go's object
 * first. ctest/float_mode.c fails if that ever changes. */
__attribute__((constructor)) static void after_go(void) {
  pthread_sigmask(SIG_SETMASK, &loader_mask, NULL);
  pl_float_leave(loader_mode);
}
