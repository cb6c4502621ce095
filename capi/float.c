/*
 * A host may compute with flush-to-zero or another rounding (audio code, some
 * numeric libraries, gcc -ffast-math). The mode is a register of each thread and
 * inherited by the threads it starts, so it would change what is learnt. Three
 * places keep it out: every entry (shim.c) sets ours and restores the host's;
 * around a callback the same (trampoline.c); and the two constructors here make
 * the Go runtime start its first thread, from which all its others descend, in
 * our mode. Go itself never touches the register.
 */
#include "bridge.h"

#if defined(__x86_64__)
#include <xmmintrin.h>

enum { MODE = 0x1F80 }; /* nearest, denormals as they are, all exceptions masked */

unsigned pl_float_enter(void) {
  unsigned mode = _mm_getcsr();
  _mm_setcsr(MODE);
  return mode;
}

void pl_float_leave(unsigned mode) { _mm_setcsr(mode); }

#elif defined(__aarch64__)

/* All zeros: nearest, denormals as they are, nothing trapped. */
unsigned pl_float_enter(void) {
  uint64_t mode;
  __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
  pl_float_leave(0);
  return (unsigned)mode;
}

void pl_float_leave(unsigned mode) { __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)mode) : "memory"); }

#else

unsigned pl_float_enter(void) { return 0; }
void pl_float_leave(unsigned mode) { (void)mode; }

#endif

static unsigned loader_mode;

/* Constructors with a priority run before those without, as Go's is. */
__attribute__((constructor(101))) static void before_go(void) { loader_mode = pl_float_enter(); }

/* Go's entry comes first among those without, as the linker puts Go's object
 * first. ctest/float_mode.c fails if that ever changes. */
__attribute__((constructor)) static void after_go(void) { pl_float_leave(loader_mode); }
